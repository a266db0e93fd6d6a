// Rotation of pairs of features in one pass over the memory, for the CPU.
//
// The loops are plain so that a compiler vectorises them; arithmetic is float32 whatever the elements are.

#include <cstdint>
#include <cstring>

#include "elements.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace {

// Bytes from which the result does not fit the caches, and is written past them: a plain store would first read what
// it overwrites.
constexpr int64_t kBeyondCaches = 4 << 20;
// Most bytes of a row that is gathered before it is written past the caches.
constexpr int64_t kLongestRow = 4096;

// Sizes and strides in elements; b, h and l count batch, heads and positions.
struct Layout {
  int64_t batch, heads, length, features, pairs;
  int64_t x_b, x_h, x_l;
  int64_t out_b, out_h, out_l;
  int64_t cosine_b, cosine_l;
  int64_t sine_b, sine_l;
};

template <class T, bool interleaved>
inline void rotate_row(const T* __restrict from, T* __restrict to, const float* __restrict c, const float* __restrict s,
                       int64_t n, int64_t features) {
#pragma omp simd
  for (int64_t i = 0; i < n; i++) {
    const int64_t one = interleaved ? 2 * i : i;
    const int64_t two = interleaved ? 2 * i + 1 : i + n;
    const float u = widen(from[one]);
    const float v = widen(from[two]);
    store(u * c[i] - v * s[i], to + one);
    store(u * s[i] + v * c[i], to + two);
  }
  if (features > 2 * n) std::memcpy(to + 2 * n, from + 2 * n, (features - 2 * n) * sizeof(T));
}

// Whether rows of this output can be written past the caches, in whole lines of 64 bytes.
template <class T>
bool streams(const T* out, const Layout& at) {
#ifdef __AVX512F__
  const auto whole = [](int64_t elements) { return elements * static_cast<int64_t>(sizeof(T)) % 64 == 0; };
  const int64_t bytes = at.features * static_cast<int64_t>(sizeof(T));
  return at.batch * at.heads * at.length * bytes >= kBeyondCaches && bytes <= kLongestRow && whole(at.features) &&
         whole(at.out_b) && whole(at.out_h) && whole(at.out_l) && reinterpret_cast<uintptr_t>(out) % 64 == 0;
#else
  return false;
#endif
}

inline void stream_row(const void* from, void* to, int64_t bytes) {
#ifdef __AVX512F__
  for (int64_t i = 0; i < bytes; i += 64)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(static_cast<char*>(to) + i),
                        _mm512_load_si512(static_cast<const char*>(from) + i));
#endif
}

template <class T, bool interleaved>
void rotate(const T* x, T* out, const float* cosine, const float* sine, const Layout& at) {
  // Positions in blocks, so that the sines of a block serve all heads from the cache.
  constexpr int64_t block = 64;
  const int64_t blocks = (at.length + block - 1) / block;
  const bool streaming = streams(out, at);
#pragma omp parallel for collapse(3) schedule(static) if (at.batch * at.heads * at.length * at.features > 32768)
  for (int64_t b = 0; b < at.batch; b++) {
    for (int64_t part = 0; part < blocks; part++) {
      for (int64_t h = 0; h < at.heads; h++) {
        const int64_t end = (part + 1) * block < at.length ? (part + 1) * block : at.length;
        for (int64_t l = part * block; l < end; l++) {
          const T* from = x + b * at.x_b + h * at.x_h + l * at.x_l;
          T* to = out + b * at.out_b + h * at.out_h + l * at.out_l;
          const float* c = cosine + b * at.cosine_b + l * at.cosine_l;
          const float* s = sine + b * at.sine_b + l * at.sine_l;
          if (streaming) {
            alignas(64) T row[kLongestRow / sizeof(T)];
            rotate_row<T, interleaved>(from, row, c, s, at.pairs, at.features);
            stream_row(row, to, at.features * sizeof(T));
          } else {
            rotate_row<T, interleaved>(from, to, c, s, at.pairs, at.features);
          }
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
