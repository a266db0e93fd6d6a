// The sums of a product in registers: of some rows of activations over one packed panel of weights.

#pragma once

#include "activations.h"  // first: it says how numbers are rounded

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace {

constexpr int64_t kColumns = 2 * kLanes;  // columns of a packed panel of weights

// Whether there are 32 registers, not 16.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr bool kManyRegisters = true;
#else
constexpr bool kManyRegisters = false;
#endif

#ifdef __clang__
#define LOCANT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LOCANT_UNROLL _Pragma("GCC unroll 16")
#endif

// Weights are fetched a page before they are read: what the processor fetches by itself ends with the page. `bytes` are
// read at once; what is less than a line of the cache is left to the processor.
inline void fetch_ahead(const void* reading, int64_t bytes) {
  constexpr int64_t page = 4096, line = 64;
  for (int64_t begin = 0; begin + line <= bytes; begin += line)
    __builtin_prefetch(static_cast<const uint8_t*>(reading) + page + begin);
}

// Rows from which fetching all of them ahead pays: there is enough to compute meanwhile. Measured on Zen 5, where weights
// that do not fit the caches then take a quarter to a third less time; few rows in bfloat16 took up to a tenth more.
template <class Sum>
constexpr int kRowsFetched = std::is_same<Sum, int32_t>::value ? 4 : 5;

// Whether the processor multiplies small matrices, eight bytes of two rows by those of two columns, whose four sums are one
// register: an instruction then does twice the work of one that multiplies a row. For fewer rows than these, putting columns
// side by side takes as long as is gained.
template <class Sum>
constexpr bool kSquares = false;
constexpr int64_t kLeastSquare = 4;
#ifdef __ARM_FEATURE_MATMUL_INT8
template <>
constexpr bool kSquares<int32_t> = true;
#endif
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
template <>
constexpr bool kSquares<float> = true;
#endif

// The sums of R rows over one panel of weights. Loops of constant length are unrolled by force, and what follows the sums
// stands elsewhere: only then do compilers keep them in registers.
template <int R, int U>
__attribute__((noinline)) void sum_float(const float* x, int64_t width, const float* w, int64_t inputs, float* to) {
  Lanes sums[U][R][2] = {};
  int64_t k = 0;
  for (; k + U <= inputs; k += U) {
LOCANT_UNROLL
    for (int u = 0; u < U; u++) {
      constexpr int64_t line = 64, step = kColumns * sizeof(float);
      fetch_ahead(w + (k + u) * kColumns, R >= kRowsFetched<float> ? std::max(line, step) : line);
      const Lanes first = load(w + (k + u) * kColumns), second = load(w + (k + u) * kColumns + kLanes);
LOCANT_UNROLL
      for (int r = 0; r < R; r++) {
        const float value = x[r * width + k + u];
        const Lanes all = value - Lanes{};  // a sum with zero would be computed, because of -0
        sums[u][r][0] = fused(all, first, sums[u][r][0]);
        sums[u][r][1] = fused(all, second, sums[u][r][1]);
      }
    }
  }
LOCANT_UNROLL
  for (int r = 0; r < R; r++) {
    Lanes first = sums[0][r][0], second = sums[0][r][1];
LOCANT_UNROLL
    for (int u = 1; u < U; u++) first += sums[u][r][0], second += sums[u][r][1];
    save(first, to + r * kColumns);
    save(second, to + r * kColumns + kLanes);
  }
  for (; k < inputs; k++) {
    for (int r = 0; r < R; r++) {
      for (int64_t n = 0; n < kColumns; n++) to[r * kColumns + n] += x[r * width + k] * w[k * kColumns + n];
    }
  }
}

#if defined(LOCANT_INT8) || defined(LOCANT_BFLOAT16)
typedef int32_t Integers __attribute__((vector_size(4 * kLanes), aligned(4)));

// Bytes of a register, or as many numbers of 16 bits as fill it.
#ifdef __AVX512F__
using Bytes = __m512i;
inline Bytes bytes_at(const uint8_t* from) {
#ifdef LOCANT_WIDENED
  return _mm512_cvtepi8_epi16(_mm256_load_si256(reinterpret_cast<const __m256i*>(from)));
#else
  return _mm512_load_si512(from);
#endif
}
inline Bytes repeated(int32_t four) { return _mm512_set1_epi32(four); }
#elif defined(__AVX2__)
using Bytes = __m256i;
inline Bytes bytes_at(const uint8_t* from) {
  return _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(from)));
}
inline Bytes repeated(int32_t two) { return _mm256_set1_epi32(two); }
#elif defined(__wasm__)
using Bytes = v128_t;
inline Bytes bytes_at(const uint8_t* from) {
#ifdef LOCANT_WIDENED
  return wasm_i16x8_load8x8(from);
#else
  return wasm_v128_load(from);
#endif
}
inline Bytes repeated(int32_t four) { return wasm_i32x4_splat(four); }
#else
using Bytes = int8x16_t;
inline Bytes bytes_at(const uint8_t* from) { return vreinterpretq_s8_u8(vld1q_u8(from)); }
inline Bytes repeated(int32_t four) { return vreinterpretq_s8_s32(vdupq_n_s32(four)); }
#endif

// Adds the products of four int8 to each sum, or of two.
#if defined(__AVX512VNNI__)
inline Integers multiply_add(Integers sums, Bytes x, Bytes w) {
  return reinterpret_cast<Integers>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sums), x, w));
}
#elif defined(LOCANT_WIDENED) && defined(__AVX512F__)
inline Integers multiply_add(Integers sums, Bytes x, Bytes w) {
  return reinterpret_cast<Integers>(_mm512_add_epi32(reinterpret_cast<__m512i>(sums), _mm512_madd_epi16(x, w)));
}
#elif defined(LOCANT_WIDENED) && defined(__AVX2__)
inline Integers multiply_add(Integers sums, Bytes x, Bytes w) {
  return reinterpret_cast<Integers>(_mm256_add_epi32(reinterpret_cast<__m256i>(sums), _mm256_madd_epi16(x, w)));
}
#elif defined(__wasm_relaxed_simd__)
inline Integers multiply_add(Integers sums, Bytes x, Bytes w) {
  return static_cast<Integers>(wasm_i32x4_relaxed_dot_i8x16_i7x16_add(w, x, static_cast<v128_t>(sums)));
}

// The product above is exact for activations of seven bits. With eight, WebAssembly leaves open whether they have a sign,
// and whether a sum of two products keeps within 16 bits; but wherever a program runs it is always the same. Finds the
// offset with which all products are exact here, which is false where none does.
inline bool find_byte_offset() {
  constexpr int8_t some[] = {-127, -126, -65, -1, 0, 1, 64, 126, 127};
  for (const int32_t offset : {128, 0}) {
    bool exact = true;
    for (int32_t a : some)
      for (int32_t b : some)
        for (int32_t c : some)
          for (int32_t d : some) {
            const int8_t weights[4] = {static_cast<int8_t>(c), static_cast<int8_t>(d), static_cast<int8_t>(d), 127};
            const uint8_t inputs[4] = {static_cast<uint8_t>(a + offset), static_cast<uint8_t>(b + offset),
                                       static_cast<uint8_t>(a + offset), static_cast<uint8_t>(b + offset)};
            int32_t w, x;
            std::memcpy(&w, weights, 4), std::memcpy(&x, inputs, 4);
            const Integers found = multiply_add(Integers{} - 1, repeated(x), repeated(w));
            const int32_t sum = (a + offset) * (c + d) + (b + offset) * (d + 127) - 1;
            for (int64_t i = 0; i < kLanes; i++) exact = exact && found[i] == sum;
          }
    if (exact) {
      byte_offset = offset;
      return true;
    }
  }
  return false;
}
#elif defined(__wasm__)
inline Integers multiply_add(Integers sums, Bytes x, Bytes w) {
  return static_cast<Integers>(wasm_i32x4_add(static_cast<v128_t>(sums), wasm_i32x4_dot_i16x8(x, w)));
}
#elif defined(LOCANT_INT8)
inline Integers multiply_add(Integers sums, Bytes x, Bytes w) {
  return static_cast<Integers>(vdotq_s32(static_cast<int32x4_t>(sums), x, w));
}
#endif

// Adds the products of two bfloat16 to each sum.
#if defined(__AVX512BF16__)
inline Lanes multiply_add(Lanes sums, Bytes x, Bytes w) {
  return reinterpret_cast<Lanes>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(sums), reinterpret_cast<__m512bh>(x),
                                                  reinterpret_cast<__m512bh>(w)));
}
#elif defined(LOCANT_BFLOAT16)
inline Lanes multiply_add(Lanes sums, Bytes x, Bytes w) {
  return static_cast<Lanes>(vbfdotq_f32(static_cast<float32x4_t>(sums), vreinterpretq_bf16_s8(x),
                                        vreinterpretq_bf16_s8(w)));
}
#endif

// The same of numbers that are narrower: a group is the inputs that fill four bytes, and there are groups in a multiple
// of U. `Sums` are the sums of kLanes columns, `Sum` is one of them.
template <int R, int U, class Sums, class Sum>
__attribute__((noinline)) void sum_narrow(const uint8_t* x, int64_t stride, const uint8_t* w, int64_t groups, Sum* to) {
  Sums sums[U][R][2] = {};
  for (int64_t g = 0; g < groups; g += U) {
LOCANT_UNROLL
    for (int u = 0; u < U; u++) {
      constexpr int64_t step = kColumns * kGroupBytes;
      if constexpr (R >= kRowsFetched<Sum>) fetch_ahead(w + (g + u) * step, step);
      const Bytes first = bytes_at(w + (g + u) * step), second = bytes_at(w + (g + u) * step + step / 2);
LOCANT_UNROLL
      for (int r = 0; r < R; r++) {
        int32_t four;
        std::memcpy(&four, x + r * stride + 4 * (g + u), sizeof four);
        const Bytes value = repeated(four);
        sums[u][r][0] = multiply_add(sums[u][r][0], value, first);
        sums[u][r][1] = multiply_add(sums[u][r][1], value, second);
      }
    }
  }
LOCANT_UNROLL
  for (int r = 0; r < R; r++) {
    Sums first = sums[0][r][0], second = sums[0][r][1];
LOCANT_UNROLL
    for (int u = 1; u < U; u++) first += sums[u][r][0], second += sums[u][r][1];
    *reinterpret_cast<Sums*>(to + r * kColumns) = first;
    *reinterpret_cast<Sums*>(to + r * kColumns + kLanes) = second;
  }
}

#ifdef __ARM_FEATURE_MATMUL_INT8
inline Integers multiply_square(Integers sums, Bytes x, Bytes w) {
  return static_cast<Integers>(vmmlaq_s32(static_cast<int32x4_t>(sums), x, w));
}
#endif
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
inline Lanes multiply_square(Lanes sums, Bytes x, Bytes w) {
  return static_cast<Lanes>(vbfmmlaq_f32(static_cast<float32x4_t>(sums), vreinterpretq_bf16_s8(x),
                                         vreinterpretq_bf16_s8(w)));
}
#endif

#if defined(__ARM_FEATURE_MATMUL_INT8) || defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
// As `sum_narrow`, of an even number of rows and of groups, two rows and two groups at a time.
template <int R, class Sums, class Sum>
__attribute__((noinline)) void sum_squares(const uint8_t* x, int64_t stride, const uint8_t* w, int64_t groups, Sum* to) {
  constexpr int64_t step = kColumns * kGroupBytes, half = step / 2;
  Sums sums[R / 2][4] = {};  // of two rows and two columns
  for (int64_t g = 0; g < groups; g += 2, w += 2 * step) {
    if constexpr (R >= kRowsFetched<Sum>) fetch_ahead(w, 2 * step);
    const auto wide = [&](int64_t place) { return vreinterpretq_s32_s8(bytes_at(w + place)); };
    const int32x4_t first = wide(0), second = wide(half), then_first = wide(step), then_second = wide(step + half);
    const Bytes columns[] = {vreinterpretq_s8_s32(vzip1q_s32(first, then_first)),
                             vreinterpretq_s8_s32(vzip2q_s32(first, then_first)),
                             vreinterpretq_s8_s32(vzip1q_s32(second, then_second)),
                             vreinterpretq_s8_s32(vzip2q_s32(second, then_second))};
LOCANT_UNROLL
    for (int r = 0; r < R; r += 2) {
      const uint8_t* from = x + r * stride + 4 * g;
      const Bytes rows = vreinterpretq_s8_u8(vcombine_u8(vld1_u8(from), vld1_u8(from + stride)));
LOCANT_UNROLL
      for (int c = 0; c < 4; c++) sums[r / 2][c] = multiply_square(sums[r / 2][c], rows, columns[c]);
    }
  }
LOCANT_UNROLL
  for (int r = 0; r < R; r += 2) {
LOCANT_UNROLL
    for (int c = 0; c < 4; c++) {
      Sum four[4];
      std::memcpy(four, &sums[r / 2][c], sizeof four);
      std::memcpy(to + r * kColumns + 2 * c, four, 2 * sizeof(Sum));
      std::memcpy(to + (r + 1) * kColumns + 2 * c, four + 2, 2 * sizeof(Sum));
    }
  }
}
#endif

// The same, by whichever takes fewer instructions.
template <int R, int U, class Sums, class Sum>
inline void sum_bytes(const uint8_t* x, int64_t stride, const uint8_t* w, int64_t groups, Sum* to) {
#if defined(__ARM_FEATURE_MATMUL_INT8) || defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
  if constexpr (kSquares<Sum> && R >= kLeastSquare && R % 2 == 0) return sum_squares<R, Sums>(x, stride, w, groups, to);
#endif
  sum_narrow<R, U, Sums>(x, stride, w, groups, to);
}
#endif

}  // namespace
