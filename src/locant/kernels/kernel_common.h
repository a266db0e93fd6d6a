// What the kernels share: saying what was wrong with a call, room for each thread, reading and writing float32 and bfloat16, an
// exponential function that vectorises, and random numbers.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>

namespace {

// What a function of a kernel returns: null when it has done its work; one sentence on what was wrong when it has done
// nothing, which lasts until the thread's next call; or this when memory did not suffice.
using Error = const char*;
constexpr Error kOutOfMemory = "";

// The sentence, in the form of printf with %lld for every number.
template <class... Number>
inline Error error_of(const char* form, Number... numbers) {
  static thread_local char text[256];
  std::snprintf(text, sizeof text, form, static_cast<long long>(numbers)...);
  return text;
}

inline Error error_of(const char* text) { return text; }

// Runs what returns an error. Memory is made before threads share work, which no exception may leave.
template <class Work>
#ifdef __wasm__  // which has no exceptions: it stops where memory fails
inline Error within_memory(const Work& work) {
  return work();
}
#else
inline Error within_memory(const Work& work) try {
  return work();
} catch (const std::bad_alloc&) {
  return kOutOfMemory;
} catch (const std::length_error&) {
  return kOutOfMemory;
}
#endif

// Whether so many threads can be asked for.
inline bool some_threads(int64_t threads) { return 0 < threads && threads <= 1 << 16; }

// Room for some float32 for each thread of a team, made before the team begins. It holds anything at first.
class ThreadBuffers {
 public:
  ThreadBuffers(int64_t threads, int64_t size)
      : size_((size + 31) / 16 * 16), data_(size ? new float[threads * size_] : nullptr) {}
  // The room of a member of the team.
  float* of(int member) const { return data_ ? data_.get() + member * size_ : nullptr; }

 private:
  int64_t size_;
  std::unique_ptr<float[]> data_;
};

}  // namespace

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

// Rounds to the nearest, ties to even. NaN stays NaN: rounding could carry its bits over into a number.
inline void store(float value, BFloat16* to) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16, none = (bits >> 16) | 0x40u;
  to->bits = static_cast<uint16_t>(value == value ? rounded : none);
}

// e^x to about 1e-7 within -87 <= x <= 88 (Cody and Waite's reduction, polynomial of the Cephes library); further out it
// stays at the value of the nearer end.
[[gnu::always_inline]] inline float exponential(float x) {
  x = std::min(std::max(x, -87.0f), 88.0f);
  const float rounded = x * 1.44269504f + 12582912.0f;  // its last bits are those of the integer n
  const float n = rounded - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  uint32_t bits;
  std::memcpy(&bits, &rounded, sizeof bits);
  bits = (bits - 0x4b400000u + 127u) << 23;
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
