// Vectors of float32 as wide as a register, sums in an order of their own, and memory in whole lines of the cache.
//
// Every result is rounded as it stands here and in what includes this, and sums are added in the order that stands here:
// int8 gives the same numbers on all processors. Where a product and a sum may be rounded at once, it is said (`fused`).

#pragma once

#if defined(__clang__)
#pragma clang fp contract(off)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#ifdef __AVX__
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

namespace {

// As wide as a register: compilers divide wider vectors badly.
#if defined(__AVX512F__)
constexpr int64_t kLanes = 16;
#elif defined(__AVX__)
constexpr int64_t kLanes = 8;
#else
constexpr int64_t kLanes = 4;
#endif

typedef float Lanes __attribute__((vector_size(4 * kLanes), aligned(4)));

constexpr std::align_val_t kLine{64};

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t size) { resize(size); }
  // Keeps nothing of what it held.
  void resize(int64_t size) {
    if (size <= size_) return;
    data_.reset();
    size_ = 0;
    const size_t bytes = (static_cast<size_t>(size) * sizeof(T) + 63) / 64 * 64;
    data_.reset(static_cast<T*>(::operator new(bytes, kLine)));
    size_ = size;
  }
  void resize_to_zeros(int64_t size) {
    resize(size);
    std::memset(data_.get(), 0, size_ * sizeof(T));
  }
  T* get() const { return data_.get(); }
  T& operator[](int64_t index) const { return data_.get()[index]; }

 private:
  struct Free {
    void operator()(T* data) const { ::operator delete(data, kLine); }
  };
  std::unique_ptr<T, Free> data_;
  int64_t size_ = 0;
};

inline Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }

inline void save(Lanes value, float* to) { *reinterpret_cast<Lanes*>(to) = value; }

inline Lanes largest(Lanes one, Lanes other) { return one > other ? one : other; }

#ifdef __AVX512F__
inline float largest(Lanes lanes) { return _mm512_reduce_max_ps(reinterpret_cast<__m512>(lanes)); }
#else
inline float largest(Lanes lanes) {
  float found = lanes[0];
  for (int64_t i = 1; i < kLanes; i++) found = std::max(found, lanes[i]);
  return found;
}
#endif

// x * y + sum, rounded once where the processor can do that.
inline Lanes fused(Lanes x, Lanes y, Lanes sum) {
#if defined(__AVX512F__)
  return reinterpret_cast<Lanes>(
      _mm512_fmadd_ps(reinterpret_cast<__m512>(x), reinterpret_cast<__m512>(y), reinterpret_cast<__m512>(sum)));
#elif defined(__FMA__) && defined(__AVX__)
  return reinterpret_cast<Lanes>(
      _mm256_fmadd_ps(reinterpret_cast<__m256>(x), reinterpret_cast<__m256>(y), reinterpret_cast<__m256>(sum)));
#elif defined(__aarch64__)
  return static_cast<Lanes>(
      vfmaq_f32(static_cast<float32x4_t>(sum), static_cast<float32x4_t>(x), static_cast<float32x4_t>(y)));
#else
  return sum + x * y;
#endif
}

// A sum of many numbers: sixteen sums side by side, however wide a register is, which are added by halves in the end. What
// does not fill them comes one by one after that.
class Sum {
 public:
  static constexpr int64_t kWidth = 16;

  // Adds what `term` makes of kLanes numbers at a time, `term(0)` to `term(kWidth - kLanes)`.
  template <class Term>
  void add(const Term& term) {
    for (int64_t part = 0; part < kParts; part++) sums_[part] += term(part * kLanes);
  }

  float total() const {
#ifdef __AVX512F__
    return _mm512_reduce_add_ps(reinterpret_cast<__m512>(sums_[0]));  // adds by halves
#else
    Lanes sums[kParts];
    for (int64_t part = 0; part < kParts; part++) sums[part] = sums_[part];
    for (int64_t left = kParts / 2; left; left /= 2)
      for (int64_t part = 0; part < left; part++) sums[part] += sums[part + left];
    float numbers[kLanes];
    save(sums[0], numbers);
    for (int64_t left = kLanes / 2; left; left /= 2)
      for (int64_t i = 0; i < left; i++) numbers[i] += numbers[i + left];
    return numbers[0];
#endif
  }

 private:
  static constexpr int64_t kParts = kWidth / kLanes;
  Lanes sums_[kParts] = {};
};

inline float dot(const float* one, const float* other, int64_t size) {
  Sum sum;
  int64_t i = 0;
  for (; i + Sum::kWidth <= size; i += Sum::kWidth)
    sum.add([&](int64_t place) { return load(one + i + place) * load(other + i + place); });
  float all = sum.total();
  for (; i < size; i++) all += one[i] * other[i];
  return all;
}

// The largest of at least one number; what is not a number is passed over.
inline float largest_of(const float* x, int64_t size) {
  float found = x[0];
  int64_t i = 0;
  if (size >= kLanes) {
    Lanes lanes = load(x);
    for (i = kLanes; i + kLanes <= size; i += kLanes) lanes = largest(load(x + i), lanes);
    found = largest(lanes);
  }
  for (; i < size; i++) found = std::max(found, x[i]);
  return found;
}

}  // namespace
