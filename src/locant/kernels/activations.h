// Rows of activations in the types that products read: float32, bfloat16, or bytes with a scale for each row.

#pragma once

#include "vectors.h"  // first: it says how numbers are rounded

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernel_common.h"
#include "tiles.h"

// Which narrow products the processor that this is compiled for has. Where it multiplies numbers of 16 bits alone, weights
// in int8 are widened when they are read (LOCANT_WIDENED).
#if defined(__AVX512BF16__) || defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define LOCANT_BFLOAT16
#endif
#if defined(__AVX512VNNI__) || defined(__ARM_FEATURE_DOTPROD) || defined(__wasm_relaxed_simd__)
#define LOCANT_INT8
#elif defined(__wasm_simd128__) || (defined(__AVX2__) && !defined(__AVX512F__)) || \
    (defined(__AVX512BW__) && !defined(LOCANT_BFLOAT16))
#define LOCANT_INT8
#define LOCANT_WIDENED
#endif

namespace {

// Types of weights, in the order of Python's PRECISIONS.
enum Precision : int64_t { kFloat32, kBFloat16, kInt8 };

inline int64_t bytes_of(Precision precision) { return precision == kFloat32 ? 4 : precision == kBFloat16 ? 2 : 1; }

// A row of activations in int8 as a product reads it, and the bytes that an output's weights take for four of its bytes.
#ifdef LOCANT_WIDENED
using Quantized = int16_t;
constexpr int64_t kGroupBytes = 2;
#else
using Quantized = uint8_t;
constexpr int64_t kGroupBytes = 4;
#endif

// Bytes of a row of so many activations, filled up to what a product takes at once.
inline int64_t byte_stride(int64_t width, Precision precision) {
  const int64_t bytes = precision == kInt8 ? sizeof(Quantized) : bytes_of(precision);
#ifdef LOCANT_TILES
  return (width * bytes + tiles::kBytes - 1) / tiles::kBytes * tiles::kBytes;
#else
  return (width + 15) / 16 * 16 * bytes;
#endif
}

// Writes a row in bfloat16 (to nearest, ties to even), filled up with zeros to byte_stride.
inline void round_row([[maybe_unused]] const float* from, [[maybe_unused]] int64_t width, [[maybe_unused]] uint8_t* to) {
#ifdef __AVX512BF16__
  const int64_t filled = byte_stride(width, kBFloat16) / 2;
  for (int64_t start = 0; start < filled; start += kLanes) {
    const int64_t left = std::max<int64_t>(width - start, 0);
    const __mmask16 there = left >= kLanes ? 0xffff : (1 << left) - 1;
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(there, from + start));
    std::memcpy(to + 2 * start, &rounded, sizeof rounded);
  }
#elif defined(LOCANT_BFLOAT16)
  std::memset(to, 0, byte_stride(width, kBFloat16));
  for (int64_t i = 0; i < width; i++) {
    BFloat16 rounded;
    store(from[i], &rounded);
    std::memcpy(to + 2 * i, &rounded, sizeof rounded);
  }
#endif
}

// What is added to activations in int8, because AVX-512 VNNI multiplies bytes without a sign by bytes with one. Of relaxed
// WebAssembly it is found where that runs (find_byte_offset).
#if defined(__wasm_relaxed_simd__)
int32_t byte_offset = 0;
#elif defined(__AVX512VNNI__)
constexpr int32_t byte_offset = 128;
#else
constexpr int32_t byte_offset = 0;
#endif

// Rows of activations as a product reads them: float32, bfloat16, or bytes offset by byte_offset with a scale for each
// row.
struct Rows {
  float* values;
  uint8_t* bytes;  // bfloat16 or int8
  float* scales;
  int64_t width, stride;  // elements of a row, and from row to row in bytes (of `bytes`)
  Precision precision;

  // Makes the row that the products read out of its values.
  void convert(int64_t row) const {
    if (precision == kBFloat16) round_row(values + row * width, width, bytes + row * stride);
    if (precision == kInt8) quantize(row);
  }

 private:
  void quantize(int64_t row) const {
    const float* from = values + row * width;
    // Comparisons pass over what is not a number, and integers would hide it: `odd` is zero, or not a number.
    Lanes sizes = {}, odds = {};  // of no odds the sum is zero, in any order
    int64_t start = 0;
    for (; start + kLanes <= width; start += kLanes) {
      const Lanes values = load(from + start);
      sizes = largest(largest(values, -values), sizes);
      odds += values * 0.0f;
    }
    float reach = largest(sizes), odd = 0;
    for (int64_t i = 0; i < kLanes; i++) odd += odds[i];
    for (; start < width; start++) reach = std::max(reach, std::fabs(from[start])), odd += from[start] * 0.0f;
    const float scale = reach > 0 ? 127.0f / reach : 0.0f;
    auto* to = reinterpret_cast<Quantized*>(bytes + row * stride);
    const int32_t offset = byte_offset;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) {
      // Rounds to the nearest, because 128 makes the number positive. Of what is not a number the processor makes the least
      // of all integers, from which only numbers without a sign can be subtracted.
      const auto rounded = static_cast<uint32_t>(static_cast<int32_t>(from[i] * scale + 128.5f));
      to[i] = static_cast<Quantized>(rounded - 128u + static_cast<uint32_t>(offset));
    }
    scales[row] = (reach > 0 ? reach / 127.0f : 0.0f) + odd;
  }
};

}  // namespace
