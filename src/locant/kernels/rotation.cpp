// Rotation of pairs of features in one pass over the memory, for the CPU. Arithmetic is float32 whatever the elements are.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernel_common.h"
#include "threads.h"

#if defined(__AVX512F__) && defined(__AVX512BW__)
#define LOCANT_VECTORS
#include <immintrin.h>
#endif

namespace {

// Bytes from which the result does not fit the caches, and is written past them: a plain store would first read what
// it overwrites.
constexpr int64_t kBeyondCaches = 8 << 20;

// Elements up to which one thread does everything.
constexpr int64_t kAlone = 1 << 16;

// What to rotate, and where. Sizes and strides in elements; b, h and l count batch, heads and positions.
struct Work {
  const void* x;
  void* out;
  const float* cosine;
  const float* sine;
  int64_t batch, heads, length, features, pairs;
  int64_t x_b, x_h, x_l;
  int64_t out_b, out_h, out_l;
  int64_t cosine_b, cosine_l;
  int64_t sine_b, sine_l;
};

// The first `done` pairs of a row are rotated already.
template <class T, bool interleaved>
inline void rotate_rest(const T* __restrict from, T* __restrict to, const float* __restrict c,
                        const float* __restrict s, int64_t n, int64_t done) {
#pragma omp simd
  for (int64_t i = done; i < n; i++) {
    const int64_t one = interleaved ? 2 * i : i;
    const int64_t two = interleaved ? 2 * i + 1 : i + n;
    const float u = widen(from[one]);
    const float v = widen(from[two]);
    const float sine = s[i];
    store(u * c[i] - v * sine, to + one);
    store(u * sine + v * c[i], to + two);
  }
}

#ifdef LOCANT_VECTORS

using Floats = __m512;
using Bits = __m512i;

constexpr int64_t kPairsAtOnce = 32;

// A vector of 16 bfloat16 pairs, or of 32 neighbours, is 16 words with a float32 in their lower and upper halves.
inline Floats lower(Bits words) { return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16)); }

inline Floats upper(Bits words) {
  return _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}

// The bits of float32 numbers; of what is none only those that its bfloat16 keeps, because rounding carries the others over
// into a number.
inline Bits bits_of(Floats x) {
  const Bits bits = _mm512_castps_si512(x), kept = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  const int and_then_or = 0xea;
  return _mm512_mask_ternarylogic_epi32(bits, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), kept,
                                        _mm512_set1_epi32(0x00400000), and_then_or);
}

// The inverse of both. Rounds to the nearest, ties to even: up where what is cut off is more than a half, or a half after
// an odd number.
inline Bits words(Floats lower, Floats upper) {
  const Bits low = bits_of(lower), up = bits_of(upper);
  const __mmask32 odd = 0xaaaaaaaau;
  const Bits kept = _mm512_mask_mov_epi16(_mm512_srli_epi32(low, 16), odd, up);
  const Bits cut = _mm512_mask_mov_epi16(low, odd, _mm512_slli_epi32(up, 16));
  const Bits last = _mm512_and_si512(kept, _mm512_set1_epi16(1));
  const __mmask32 more = _mm512_cmpgt_epu16_mask(_mm512_adds_epu16(cut, last), _mm512_set1_epi16(-0x8000));
  return _mm512_mask_sub_epi16(kept, more, kept, _mm512_set1_epi16(-1));
}

template <bool streaming>
inline void put(void* to, Bits value) {
  streaming ? _mm512_stream_si512(static_cast<Bits*>(to), value) : _mm512_storeu_si512(to, value);
}

inline Bits get(const void* from) { return _mm512_loadu_si512(from); }

// 16 pairs, u and v, to their rotated values.
inline void turn(Floats& u, Floats& v, Floats cosine, Floats sine) {
  const Floats turned = _mm512_fmsub_ps(u, cosine, _mm512_mul_ps(v, sine));
  v = _mm512_fmadd_ps(v, cosine, _mm512_mul_ps(u, sine));
  u = turned;
}

// Of 32 numbers those with even index, or with odd.
inline Floats every_other(Floats first, Floats second, int start) {
  const Bits index = _mm512_add_epi32(
      _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), _mm512_set1_epi32(start));
  return _mm512_permutex2var_ps(first, index, second);
}

template <bool interleaved, bool streaming>
inline void rotate_32(const float* from, float* to, const float* c, const float* s, int64_t n) {
  for (int part = 0; part < 32; part += 16) {
    const Floats cosine = _mm512_loadu_ps(c + part);
    const Floats sine = _mm512_loadu_ps(s + part);
    if (interleaved) {
      const Bits low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      const Bits up = _mm512_add_epi32(low, _mm512_set1_epi32(8));
      const Floats first = _mm512_loadu_ps(from + 2 * part), second = _mm512_loadu_ps(from + 2 * part + 16);
      Floats u = every_other(first, second, 0), v = every_other(first, second, 1);
      turn(u, v, cosine, sine);
      put<streaming>(to + 2 * part, _mm512_castps_si512(_mm512_permutex2var_ps(u, low, v)));
      put<streaming>(to + 2 * part + 16, _mm512_castps_si512(_mm512_permutex2var_ps(u, up, v)));
    } else {
      Floats u = _mm512_loadu_ps(from + part), v = _mm512_loadu_ps(from + part + n);
      turn(u, v, cosine, sine);
      put<streaming>(to + part, _mm512_castps_si512(u));
      put<streaming>(to + part + n, _mm512_castps_si512(v));
    }
  }
}

template <bool interleaved, bool streaming>
inline void rotate_32(const BFloat16* from, BFloat16* to, const float* c, const float* s, int64_t n) {
  const Floats c_0 = _mm512_loadu_ps(c), c_1 = _mm512_loadu_ps(c + 16);
  const Floats s_0 = _mm512_loadu_ps(s), s_1 = _mm512_loadu_ps(s + 16);
  if (interleaved) {
    const Bits first = get(from), second = get(from + 32);
    Floats u_0 = lower(first), v_0 = upper(first), u_1 = lower(second), v_1 = upper(second);
    turn(u_0, v_0, c_0, s_0);
    turn(u_1, v_1, c_1, s_1);
    put<streaming>(to, words(u_0, v_0));
    put<streaming>(to + 32, words(u_1, v_1));
  } else {
    const Bits one = get(from), two = get(from + n);
    Floats u_0 = lower(one), u_1 = upper(one), v_0 = lower(two), v_1 = upper(two);
    turn(u_0, v_0, every_other(c_0, c_1, 0), every_other(s_0, s_1, 0));
    turn(u_1, v_1, every_other(c_0, c_1, 1), every_other(s_0, s_1, 1));
    put<streaming>(to, words(u_0, u_1));
    put<streaming>(to + n, words(v_0, v_1));
  }
}

// Returns how many pairs of the row it has rotated.
template <class T, bool interleaved, bool streaming>
inline int64_t rotate_vectors(const T* from, T* to, const float* c, const float* s, int64_t n) {
  const int64_t apart = interleaved ? 2 : 1;
  int64_t i = 0;
  for (; i + kPairsAtOnce <= n; i += kPairsAtOnce)
    rotate_32<interleaved, streaming>(from + apart * i, to + apart * i, c + i, s + i, n);
  return i;
}

// Whether this result is written past the caches, which is done in whole lines of 64 bytes.
template <class T>
bool streams(const Work& at) {
  const auto whole = [](int64_t elements) { return elements * static_cast<int64_t>(sizeof(T)) % 64 == 0; };
  const int64_t bytes = at.batch * at.heads * at.length * at.features * static_cast<int64_t>(sizeof(T));
  return bytes >= kBeyondCaches && at.pairs % kPairsAtOnce == 0 && at.features == 2 * at.pairs && whole(at.out_b) &&
         whole(at.out_h) && whole(at.out_l) && reinterpret_cast<uintptr_t>(at.out) % 64 == 0;
}

#else

template <class T, bool interleaved, bool streaming>
inline int64_t rotate_vectors(const T*, T*, const float*, const float*, int64_t) {
  return 0;
}

template <class T>
bool streams(const Work&) {
  return false;
}

#endif

template <class T, bool interleaved, bool streaming>
inline void rotate_row(const T* from, T* to, const float* cosine, const float* sine, int64_t pairs, int64_t features) {
  const int64_t done = rotate_vectors<T, interleaved, streaming>(from, to, cosine, sine, pairs);
  if (done < pairs) rotate_rest<T, interleaved>(from, to, cosine, sine, pairs, done);
  if (features > 2 * pairs) std::memcpy(to + 2 * pairs, from + 2 * pairs, (features - 2 * pairs) * sizeof(T));
}

// Positions in blocks, so that the sines of a block serve all heads from the cache.
constexpr int64_t kBlock = 128;

// Blocks of all heads.
int64_t blocks_of(const Work& at) { return at.batch * ((at.length + kBlock - 1) / kBlock) * at.heads; }

// Rotates some blocks of one tensor, counted with the heads innermost.
// Takes a copy of the sizes, which no store can then be thought to change.
template <class T, bool interleaved, bool streaming>
void rotate(const Work at, int64_t begin, int64_t end) {
  const int64_t parts = (at.length + kBlock - 1) / kBlock;
  for (int64_t block = begin; block < end; block++) {
    const int64_t h = block % at.heads, first = block / at.heads % parts * kBlock, b = block / at.heads / parts;
    const int64_t last = std::min(first + kBlock, at.length);
    const T* from = static_cast<const T*>(at.x) + b * at.x_b + h * at.x_h + first * at.x_l;
    T* to = static_cast<T*>(at.out) + b * at.out_b + h * at.out_h + first * at.out_l;
    const float* cosine = at.cosine + b * at.cosine_b + first * at.cosine_l;
    const float* sine = at.sine + b * at.sine_b + first * at.sine_l;
    for (int64_t l = first; l < last; l++) {
      rotate_row<T, interleaved, streaming>(from, to, cosine, sine, at.pairs, at.features);
      from += at.x_l;
      to += at.out_l;
      cosine += at.cosine_l;
      sine += at.sine_l;
    }
  }
}

template <class T, bool interleaved>
void rotate(const Work& at, int64_t begin, int64_t end) {
  streams<T>(at) ? rotate<T, interleaved, true>(at, begin, end)
                 : rotate<T, interleaved, false>(at, begin, end);
}

Error check(const Work* works, int count, int threads) {
  if (count < 0 || (count && !works)) return error_of("There are no %lld tensors to rotate.", count);
  if (!some_threads(threads)) return error_of("The rotation has no team of %lld threads.", threads);
  for (int i = 0; i < count; i++) {
    const Work& at = works[i];
    for (int64_t size : {at.batch, at.heads, at.length, at.features, at.pairs}) {
      if (size < 0) return error_of("There is nothing of size %lld to rotate.", size);
    }
    if (at.pairs > at.features / 2)
      return error_of("%lld pairs of features are rotated, but there are %lld features.", at.pairs, at.features);
    const bool some = at.batch && at.heads && at.length && at.features;
    if (some && (!at.x || !at.out || (at.pairs && (!at.cosine || !at.sine))))
      return error_of("The rotation lacks a tensor.");
  }
  return nullptr;
}

template <class T>
Error rotate_all(const Work* works, int count, int interleaved, int threads) {
  if (const Error found = check(works, count, threads)) return found;
  int64_t elements = 0, blocks = 0;
  for (int i = 0; i < count; i++) {
    elements += works[i].batch * works[i].heads * works[i].length * works[i].features;
    blocks += blocks_of(works[i]);
  }
  const int64_t grain = elements > kAlone ? locant::grain_of(blocks, threads, 1) : blocks;
  locant::parallel_for(blocks, grain, threads, [=](int64_t begin, int64_t end, int) {
    for (const Work* work = works; begin < end; work++) {
      const int64_t own = blocks_of(*work), stop = std::min(end, own);
      if (begin < stop) {
        interleaved ? rotate<T, true>(*work, begin, stop) : rotate<T, false>(*work, begin, stop);
      }
      begin = std::max<int64_t>(begin - own, 0), end -= own;
    }
  });
  return nullptr;
}

}  // namespace

extern "C" Error locant_rotate_float32(const Work* works, int count, int interleaved, int threads) {
  return within_memory([&] { return rotate_all<float>(works, count, interleaved, threads); });
}

extern "C" Error locant_rotate_bfloat16(const Work* works, int count, int interleaved, int threads) {
  return within_memory([&] { return rotate_all<BFloat16>(works, count, interleaved, threads); });
}
