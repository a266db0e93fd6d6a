// Rotation of pairs of features in one pass over the memory, for the CPU.
//
// The loops are plain so that a compiler vectorises them; arithmetic is float32 whatever the elements are.

#include <cstdint>
#include <cstring>

namespace {

struct BFloat16 {
  uint16_t bits;
};

inline float widen(float value) { return value; }

inline float widen(BFloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

inline void store(float value, float* to) { *to = value; }

// Rounds to the nearest, ties to even. NaN stays NaN without a test: one that comes from a bfloat16, or from infinity,
// has no bits that rounding could carry over.
inline void store(float value, BFloat16* to) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  to->bits = static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Sizes and strides in elements; b, h and l count batch, heads and positions.
struct Layout {
  int64_t batch, heads, length, features, pairs;
  int64_t x_b, x_h, x_l;
  int64_t out_b, out_h, out_l;
  int64_t cosine_b, cosine_l;
  int64_t sine_b, sine_l;
};

template <class T, bool interleaved>
void rotate(const T* x, T* out, const float* cosine, const float* sine, const Layout& at) {
  // Positions in blocks, so that the sines of a block serve all heads from the cache.
  constexpr int64_t block = 64;
  const int64_t blocks = (at.length + block - 1) / block;
#pragma omp parallel for collapse(3) schedule(static) if (at.batch * at.heads * at.length * at.features > 32768)
  for (int64_t b = 0; b < at.batch; b++) {
    for (int64_t part = 0; part < blocks; part++) {
      for (int64_t h = 0; h < at.heads; h++) {
        const int64_t end = (part + 1) * block < at.length ? (part + 1) * block : at.length;
        for (int64_t l = part * block; l < end; l++) {
          const T* __restrict from = x + b * at.x_b + h * at.x_h + l * at.x_l;
          T* __restrict to = out + b * at.out_b + h * at.out_h + l * at.out_l;
          const float* __restrict c = cosine + b * at.cosine_b + l * at.cosine_l;
          const float* __restrict s = sine + b * at.sine_b + l * at.sine_l;
          const int64_t n = at.pairs;
#pragma omp simd
          for (int64_t i = 0; i < n; i++) {
            const int64_t one = interleaved ? 2 * i : i;
            const int64_t two = interleaved ? 2 * i + 1 : i + n;
            const float u = widen(from[one]);
            const float v = widen(from[two]);
            store(u * c[i] - v * s[i], to + one);
            store(u * s[i] + v * c[i], to + two);
          }
          if (at.features > 2 * n) std::memcpy(to + 2 * n, from + 2 * n, (at.features - 2 * n) * sizeof(T));
        }
      }
    }
  }
}

}  // namespace

extern "C" void locant_rotate_float32(const void* x, void* out, const float* cosine, const float* sine,
                                      const Layout* at, int interleaved) {
  const auto* from = static_cast<const float*>(x);
  auto* to = static_cast<float*>(out);
  interleaved ? rotate<float, true>(from, to, cosine, sine, *at) : rotate<float, false>(from, to, cosine, sine, *at);
}

extern "C" void locant_rotate_bfloat16(const void* x, void* out, const float* cosine, const float* sine,
                                       const Layout* at, int interleaved) {
  const auto* from = static_cast<const BFloat16*>(x);
  auto* to = static_cast<BFloat16*>(out);
  interleaved ? rotate<BFloat16, true>(from, to, cosine, sine, *at)
              : rotate<BFloat16, false>(from, to, cosine, sine, *at);
}
