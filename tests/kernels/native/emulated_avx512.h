// AVX-512 with VNNI and BF16 in plain C++, as Intel's manual describes the instructions that the products use, for tests on
// machines without them. To be included before all else (-include).

#pragma once

#include <immintrin.h>  // first: what follows takes the place of its functions

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#define __AVX512F__ 1
#define __AVX512VNNI__ 1
#define __AVX512BF16__ 1

namespace emulated {

// The number of a bfloat16 at some place; denormal ones are zero.
inline float number_at(const void* vector, int64_t place) {
  uint32_t bits = 0;
  std::memcpy(reinterpret_cast<uint8_t*>(&bits) + 2, static_cast<const uint8_t*>(vector) + 2 * place, 2);
  float value;
  std::memcpy(&value, &bits, 4);
  return std::fpclassify(value) == FP_SUBNORMAL ? 0.0f : value;
}

inline __m512 fmadd(__m512 x, __m512 y, __m512 sum) {
  for (int i = 0; i < 16; i++) sum[i] = std::fma(x[i], y[i], sum[i]);
  return sum;
}

inline float reduce_add(__m512 x) {
  for (int left = 8; left; left /= 2)
    for (int i = 0; i < left; i++) x[i] += x[i + left];
  return x[0];
}

inline float reduce_max(__m512 x) {
  float found = x[0];
  for (int i = 1; i < 16; i++) found = std::max(found, x[i]);
  return found;
}

// Reads nothing that the mask leaves out.
inline __m512 load(__mmask16 mask, const float* from) {
  __m512 found = {};
  for (int i = 0; i < 16; i++)
    if (mask >> i & 1) found[i] = from[i];
  return found;
}

inline __m512i load(const void* from) {
  if (reinterpret_cast<uintptr_t>(from) % 64) __builtin_trap();  // as the processor does
  __m512i found;
  std::memcpy(&found, from, 64);
  return found;
}

inline __m512i repeat(int32_t value) {
  alignas(64) int32_t values[16];
  std::fill(values, values + 16, value);
  return load(values);
}

// To nearest, ties to even; denormal numbers are zero.
inline __m256bh round(__m512 x) {
  uint16_t rounded[16];
  for (int i = 0; i < 16; i++) {
    uint32_t bits;
    const float value = x[i];
    std::memcpy(&bits, &value, 4);
    if (std::isnan(value)) bits |= 0x400000;
    else if (std::fpclassify(value) == FP_SUBNORMAL) bits &= 0x80000000;
    else bits += 0x7fff + (bits >> 16 & 1);
    rounded[i] = static_cast<uint16_t>(bits >> 16);
  }
  __m256bh found;
  std::memcpy(&found, rounded, 32);
  return found;
}

// Adds the products of four bytes, without a sign and with one, to each sum.
inline __m512i multiply_bytes(__m512i sums, __m512i x, __m512i w) {
  uint8_t left[64];
  int8_t right[64];
  int32_t all[16];
  std::memcpy(left, &x, 64), std::memcpy(right, &w, 64), std::memcpy(all, &sums, 64);
  for (int i = 0; i < 64; i++) all[i / 4] += left[i] * right[i];
  std::memcpy(&sums, all, 64);
  return sums;
}

// Adds the products of two numbers to each sum, the upper one first.
inline __m512 multiply_numbers(__m512 sums, __m512bh x, __m512bh w) {
  for (int i = 0; i < 32; i += 2)
    for (int place : {i + 1, i}) sums[i / 2] = std::fma(number_at(&x, place), number_at(&w, place), sums[i / 2]);
  return sums;
}

}  // namespace emulated

#define _mm512_fmadd_ps emulated::fmadd
#define _mm512_reduce_add_ps emulated::reduce_add
#define _mm512_reduce_max_ps emulated::reduce_max
#define _mm512_maskz_loadu_ps emulated::load
#define _mm512_load_si512 emulated::load
#define _mm512_set1_epi32 emulated::repeat
#define _mm512_cvtneps_pbh emulated::round
#define _mm512_dpbusd_epi32 emulated::multiply_bytes
#define _mm512_dpbf16_ps emulated::multiply_numbers
