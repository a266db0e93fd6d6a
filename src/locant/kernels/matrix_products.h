// Products of rows of activations with packed matrices of weights: float32, or bfloat16 with float32 sums, or int8 with a
// scale for each output and for each row of input.

//
// Every result is rounded as it stands here, and sums are added in the order that stands here: int8 gives the same numbers
// on all processors. Where a product and a sum may be rounded at once, it is said (`fused`).

#pragma once

#if defined(__clang__)
#pragma clang fp contract(off)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "kernel_common.h"
#include "tiles.h"

#ifdef __AVX__
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

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

// As wide as a register: compilers divide wider vectors badly.
#if defined(__AVX512F__)
constexpr int64_t kLanes = 16;
#elif defined(__AVX__)
constexpr int64_t kLanes = 8;
#else
constexpr int64_t kLanes = 4;
#endif
constexpr int64_t kColumns = 2 * kLanes;  // columns of a packed panel of weights

// Whether there are 32 registers, not 16.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr bool kManyRegisters = true;
#else
constexpr bool kManyRegisters = false;
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

struct Range {
  int64_t begin, end;
};

// One of so many parts of about the same size.
struct Share {
  int64_t number, parts;
  Range of(int64_t size) const { return {size * number / parts, size * (number + 1) / parts}; }
};

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
#endif

class Linear {
 public:
  void pack(const float* weight, const float* bias, int64_t inputs, int64_t outputs, Precision precision) {
    begin(bias, inputs, outputs, precision);
    if (precision == kFloat32) {
      floats_.resize_to_zeros(panels_ * inputs * kColumns);
      for (int64_t n = 0; n < outputs; n++)
        for (int64_t k = 0; k < inputs; k++)
          floats_[(n / kColumns * inputs + k) * kColumns + n % kColumns] = weight[n * inputs + k];
      return;
    }
    std::vector<uint8_t> row(groups_ * kGroupBytes);
    for (int64_t n = 0; n < outputs; n++) {
      const float* from = weight + n * inputs;
      if (precision == kBFloat16) {
        round_row(from, inputs, row.data());
      } else {
        quantize(from, n, row.data());
      }
      place(n, row.data());
    }
  }

  // The same of weights `[outputs, inputs]` that are int8 already, with the scale of each output.
  void pack_quantized(const int8_t* weight, const float* scale, const float* bias, int64_t inputs, int64_t outputs) {
    begin(bias, inputs, outputs, kInt8);
    std::memcpy(scale_.get(), scale, outputs * sizeof(float));
    std::vector<uint8_t> row(groups_ * kGroupBytes);
    for (int64_t n = 0; n < outputs; n++) {
      std::memcpy(row.data(), weight + n * inputs, inputs);
      int32_t sum = 0;
      for (int64_t k = 0; k < inputs; k++) sum += weight[n * inputs + k];
      offset_[n] = byte_offset * sum;
      place(n, row.data());
    }
  }

  int64_t size() const { return inputs_ * outputs_; }
  int64_t panels() const { return panels_; }
  int64_t stride() const { return panels_ * kColumns; }

  // Writes some panels of x W^T + b; rows of `out` are stride() apart. Where tiles are laid out they multiply.
  void apply(Range mine, const Rows& x, int64_t rows, float* out, [[maybe_unused]] const tiles::Laid& laid) const {
#ifdef LOCANT_TILES
    if (laid && rows >= tiles::kLeastRows) {
      if (precision_ == kInt8) return apply_on_tiles<int32_t>(mine, x, rows, out);
      if (precision_ == kBFloat16) return apply_on_tiles<float>(mine, x, rows, out);
    }
#endif
    for (int64_t panel = mine.begin; panel < mine.end; panel++) {
      int64_t row = 0;
      while (row < rows) row += block(x, row, rows - row, panel, out);
    }
  }

 private:
  // Makes room, for zeros, and takes the bias.
  void begin(const float* bias, int64_t inputs, int64_t outputs, Precision precision) {
    inputs_ = inputs, outputs_ = outputs, panels_ = (outputs + kColumns - 1) / kColumns;
    precision_ = precision;
    bias_.resize_to_zeros(panels_ * kColumns);
    if (bias) std::memcpy(bias_.get(), bias, outputs * sizeof(float));
    if (precision == kFloat32) return;
    groups_ = byte_stride(inputs, precision) / 4;
    narrow_.resize_to_zeros(panels_ * groups_ * kColumns * kGroupBytes);
    scale_.resize_to_zeros(panels_ * kColumns);
    offset_.resize_to_zeros(panels_ * kColumns);
  }

  // Puts the narrow weights of an output into its panel.
  void place(int64_t output, const uint8_t* row) {
    uint8_t* panel = narrow_.get() + output / kColumns * groups_ * kColumns * kGroupBytes;
    for (int64_t g = 0; g < groups_; g++)
      std::memcpy(panel + (g * kColumns + output % kColumns) * kGroupBytes, row + g * kGroupBytes, kGroupBytes);
  }

  // Writes the weights of an output in int8, its scale, and what the offset of the inputs adds to its sum.
  void quantize(const float* from, int64_t output, uint8_t* to) {
    float largest = 0, odd = 0;
    for (int64_t k = 0; k < inputs_; k++) largest = std::max(largest, std::fabs(from[k])), odd += from[k] * 0.0f;
    const float scale = largest > 0 ? 127.0f / largest : 0.0f;
    int32_t sum = 0;
    for (int64_t k = 0; k < inputs_; k++) {
      const auto value = static_cast<int8_t>(std::lrintf(from[k] * scale));
      to[k] = static_cast<uint8_t>(value);
      sum += value;
    }
    scale_[output] = (largest > 0 ? largest / 127.0f : 0.0f) + odd;
    offset_[output] = byte_offset * sum;
  }

  int64_t block(const Rows& x, int64_t row, int64_t left, int64_t panel, float* out) const {
    // As many rows at once as registers hold; fewer rows take several sums at once, to hide the latency of each.
#ifdef __wasm__
    // Browsers' compilers keep one of 16 registers for themselves, and need others for what comes between.
    switch (left) {
      case 1: return run<1, 4>(x, row, panel, out);
      case 2: return run<2, 2>(x, row, panel, out);
      case 3: return run<3, 1>(x, row, panel, out);
      default: return run<4, 1>(x, row, panel, out);
    }
#endif
    if constexpr (!kManyRegisters) {
      switch (left) {
        case 1: return run<1, 4>(x, row, panel, out);
        case 2: return run<2, 2>(x, row, panel, out);
        case 3: return run<3, 2>(x, row, panel, out);
        case 4:
        case 7:
        case 8: return run<4, 1>(x, row, panel, out);
        case 5:
        case 9:
        case 10: return run<5, 1>(x, row, panel, out);
        default: return run<6, 1>(x, row, panel, out);
      }
    }
    if (left >= 17 || left == 12) return run<12, 1>(x, row, panel, out);
    switch (left) {
      case 1: return run<1, 4>(x, row, panel, out);
      case 2: return run<2, 4>(x, row, panel, out);
      case 3: return run<3, 2>(x, row, panel, out);
      case 4: return run<4, 2>(x, row, panel, out);
      case 5: return run<5, 2>(x, row, panel, out);
      case 6: return run<6, 1>(x, row, panel, out);
      case 7: return run<7, 1>(x, row, panel, out);
      default: return run<8, 1>(x, row, panel, out);
    }
  }

  template <int R, int U>
  int64_t run(const Rows& x, int64_t row, int64_t panel, float* out) const {
    if (precision_ == kInt8) {
#ifdef LOCANT_INT8
      alignas(64) int32_t sums[R * kColumns];
      sum_narrow<R, U, Integers>(x.bytes + row * x.stride, x.stride, weights_of(panel), groups_, sums);
      finish(sums, x, {row, row + R}, panel, out);
#endif
      return R;
    }
    alignas(64) float sums[R * kColumns];
    if (precision_ == kFloat32) {
      sum_float<R, U>(x.values + row * x.width, x.width, floats_.get() + panel * inputs_ * kColumns, inputs_, sums);
    } else {
#ifdef LOCANT_BFLOAT16
      sum_narrow<R, U, Lanes>(x.bytes + row * x.stride, x.stride, weights_of(panel), groups_, sums);
#endif
    }
    finish(sums, x, {row, row + R}, panel, out);
    return R;
  }

#ifdef LOCANT_TILES
  template <class Sum>
  void apply_on_tiles(Range mine, const Rows& x, int64_t rows, float* out) const {
    const int64_t blocks = (rows + tiles::kRows - 1) / tiles::kRows, bytes = groups_ * kGroupBytes;
    // The last block ends with the last row: it may do rows of the one before it again.
    const auto block = [&](int64_t number) {
      const int64_t begin = std::min(number * tiles::kRows, rows - tiles::kRows);
      return Range{begin, begin + tiles::kRows};
    };
    alignas(64) Sum sums[2 * tiles::kRows * kColumns];
    const Sum* const others = sums + tiles::kRows * kColumns;
    for (int64_t panel = mine.begin; panel < mine.end; panel++) {
      for (int64_t number = 0; number + 1 < blocks; number += 2) {
        const Range one = block(number), next = block(number + 1);
        const uint8_t *first = x.bytes + one.begin * x.stride, *second = x.bytes + next.begin * x.stride;
        tiles::sum_square(first, second, x.stride, weights_of(panel), bytes, sums);
        finish(sums, x, one, panel, out);
        finish(others, x, next, panel, out);
      }
    }
    if (blocks % 2 == 0) return;
    const Range last = block(blocks - 1);
    for (int64_t panel = mine.begin; panel < mine.end; panel += 2) {
      const int64_t next = std::min(panel + 1, mine.end - 1);  // a panel without another is taken twice
      tiles::sum_wide(x.bytes + last.begin * x.stride, x.stride, weights_of(panel), weights_of(next), bytes, sums);
      finish(sums, x, last, panel, out);
      finish(others, x, last, next, out);
    }
  }
#endif

  const uint8_t* weights_of(int64_t panel) const { return narrow_.get() + panel * groups_ * kColumns * kGroupBytes; }

  // Writes what some rows have of a panel: in int8 sums with the offset of the inputs, else those of the products.
#ifdef LOCANT_INT8
  void finish(const int32_t* sums, const Rows& x, Range rows, int64_t panel, float* out) const {
    const float *scale = scale_.get() + panel * kColumns, *bias = bias_.get() + panel * kColumns;
    for (int64_t half = 0; half < kColumns; half += kLanes) {
      const Integers offset = *reinterpret_cast<const Integers*>(offset_.get() + panel * kColumns + half);
      const Lanes scales = load(scale + half), biases = load(bias + half);
      float* to = out + rows.begin * stride() + panel * kColumns + half;
      for (int64_t row = rows.begin; row < rows.end; row++, to += stride()) {
        Integers sum = *reinterpret_cast<const Integers*>(sums + (row - rows.begin) * kColumns + half);
        if (byte_offset) sum -= offset;
        save(__builtin_convertvector(sum, Lanes) * (scales * x.scales[row]) + biases, to);
      }
    }
  }
#endif

  void finish(const float* sums, const Rows&, Range rows, int64_t panel, float* out) const {
    const float* bias = bias_.get() + panel * kColumns;
    for (int64_t row = rows.begin; row < rows.end; row++, sums += kColumns) {
      float* to = out + row * stride() + panel * kColumns;
      save(load(sums) + load(bias), to);
      save(load(sums + kLanes) + load(bias + kLanes), to + kLanes);
    }
  }

  int64_t inputs_ = 0, outputs_ = 0, panels_ = 0, groups_ = 0;
  Precision precision_ = kFloat32;
  Buffer<float> floats_, bias_, scale_;
  Buffer<uint8_t> narrow_;
  Buffer<int32_t> offset_;
};

}  // namespace
