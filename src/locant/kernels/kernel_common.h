// What the kernels share: reading and writing float32 and bfloat16, an exponential function that vectorises, and random
// numbers.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

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

// e^x to about 1e-7 within -87 <= x <= 88 (Cody and Waite's reduction, polynomial of the Cephes library); further out it
// stays at the value of the nearer end.
inline float exponential(float x) {
  x = std::min(std::max(x, -87.0f), 88.0f);
  const float n = (x * 1.44269504f + 12582912.0f) - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const int32_t bits = (static_cast<int32_t>(n) + 127) << 23;
  float scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return (p * r * r + r + 1.0f) * scale;
}

constexpr int64_t kRandomBlock = 64;

// The random bytes of a block of 64 elements: the SplitMix64 generator (Steele et al. 2014), whose i-th number follows
// from the seed and i alone.
inline void random_block(uint64_t seed, int64_t block, uint8_t* bytes) {
  uint64_t words[kRandomBlock / 8];
  const uint64_t first = static_cast<uint64_t>(block) * (kRandomBlock / 8) + 1;
#pragma omp simd
  for (int64_t w = 0; w < kRandomBlock / 8; w++) {
    uint64_t state = seed + (first + w) * 0x9e3779b97f4a7c15ull;
    state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ull;
    state = (state ^ (state >> 27)) * 0x94d049bb133111ebull;
    words[w] = state ^ (state >> 31);
  }
  std::memcpy(bytes, words, sizeof words);
}
