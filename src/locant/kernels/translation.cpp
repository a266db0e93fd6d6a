// Translation steps of an encoder-decoder Transformer on the CPU: the encoder, and one token of the decoder at a time.
//
// A step is one parallel region. With many rows each thread has rows of its own; with few the threads share the columns
// of every matrix product. Matrices are float32, or bfloat16 with float32 sums, or int8 with a scale for each output and
// for each row of input; all other arithmetic is float32. Sentences are packed without padding. Beams share the keys and
// values of their sentence, and a beam that changes its place changes an index, not a cache.
//
// Notation: M rows, E features of the model, F of the feed-forward, V vocabulary.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "kernel_common.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace {

constexpr int64_t kColumns = 32;  // columns of a packed panel of weights
constexpr int64_t kLanes = 16;
// Rows a thread from which threads share nothing: each then reads all weights, which is dear where they do not fit the
// caches.
constexpr int64_t kRowsApart = 4, kRowsApartUncached = 32;
constexpr int64_t kCachedBytes = 16 << 20;

typedef float Lanes __attribute__((vector_size(4 * kLanes), aligned(4)));

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t size) { resize(size); }
  // Keeps nothing of what it held.
  void resize(int64_t size) {
    if (size <= size_) return;
    const size_t bytes = (static_cast<size_t>(size) * sizeof(T) + 63) / 64 * 64;
    data_.reset(static_cast<T*>(std::aligned_alloc(64, bytes)));
    if (!data_) throw std::bad_alloc();
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
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T, Free> data_;
  int64_t size_ = 0;
};

inline Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }

inline void save(Lanes value, float* to) { *reinterpret_cast<Lanes*>(to) = value; }

inline Lanes largest(Lanes one, Lanes other) { return one > other ? one : other; }

#ifdef __AVX512F__
inline float total(Lanes lanes) { return _mm512_reduce_add_ps(reinterpret_cast<__m512>(lanes)); }
inline float largest(Lanes lanes) { return _mm512_reduce_max_ps(reinterpret_cast<__m512>(lanes)); }
#else
inline float total(Lanes lanes) {
  float sum = 0;
  for (int64_t i = 0; i < kLanes; i++) sum += lanes[i];
  return sum;
}
inline float largest(Lanes lanes) {
  float found = lanes[0];
  for (int64_t i = 1; i < kLanes; i++) found = std::max(found, lanes[i]);
  return found;
}
#endif

inline float dot(const float* one, const float* other, int64_t size) {
  Lanes sums = {};
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) sums += load(one + i) * load(other + i);
  float sum = total(sums);
  for (; i < size; i++) sum += one[i] * other[i];
  return sum;
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

// Bytes of a row of so many numbers, filled up to what a product takes at once.
inline int64_t byte_stride(int64_t width, Precision precision) { return (width + 15) / 16 * 16 * bytes_of(precision); }

struct Range {
  int64_t begin, end;
};

struct Team {
  int thread, threads;
  void wait() const {
    if (threads > 1) {
#pragma omp barrier
    }
  }
  Range share(int64_t size) const { return {size * thread / threads, size * (thread + 1) / threads}; }
};

// Writes a row in bfloat16 (to nearest, ties to even), filled up with zeros to byte_stride.
inline void round_row([[maybe_unused]] const float* from, [[maybe_unused]] int64_t width, [[maybe_unused]] uint8_t* to) {
#ifdef __AVX512BF16__
  for (int64_t start = 0; start < width; start += kLanes) {
    const __mmask16 there = start + kLanes <= width ? 0xffff : (1 << (width - start)) - 1;
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(there, from + start));
    std::memcpy(to + 2 * start, &rounded, sizeof rounded);
  }
#endif
}

// Rows of activations as a product reads them: float32, bfloat16, or bytes offset by 128 with a scale for each row.
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
    Lanes sizes = {}, odds = {};
    int64_t start = 0;
    for (; start + kLanes <= width; start += kLanes) {
      const Lanes values = load(from + start);
      sizes = largest(largest(values, -values), sizes);
      odds += values * 0.0f;
    }
    float reach = largest(sizes), odd = total(odds);
    for (; start < width; start++) reach = std::max(reach, std::fabs(from[start])), odd += from[start] * 0.0f;
    const float scale = reach > 0 ? 127.0f / reach : 0.0f;
    uint8_t* to = bytes + row * stride;
#pragma omp simd
    for (int64_t i = 0; i < width; i++) {
      // Rounds to the nearest; the offset makes the number positive.
      to[i] = static_cast<uint8_t>(static_cast<int32_t>(from[i] * scale + 128.5f));
    }
    scales[row] = (reach > 0 ? reach / 127.0f : 0.0f) + odd;
  }
};

// The sums of R rows over one panel of weights. Loops of constant length are unrolled by force, and what follows the sums
// stands elsewhere: only then do compilers keep them in registers.
template <int R, int U>
__attribute__((noinline)) void sum_float(const float* x, int64_t width, const float* w, int64_t inputs, float* to) {
  Lanes sums[U][R][2] = {};
  int64_t k = 0;
  for (; k + U <= inputs; k += U) {
#pragma GCC unroll 4
    for (int u = 0; u < U; u++) {
      const Lanes first = load(w + (k + u) * kColumns), second = load(w + (k + u) * kColumns + kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < R; r++) {
        const float value = x[r * width + k + u];
        sums[u][r][0] += value * first;
        sums[u][r][1] += value * second;
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; r++) {
    Lanes first = sums[0][r][0], second = sums[0][r][1];
#pragma GCC unroll 4
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

#ifdef __AVX512F__
typedef int32_t Integers __attribute__((vector_size(4 * kLanes), aligned(4)));

#ifdef __AVX512VNNI__
// Adds the products of four int8 to each sum.
inline Integers multiply_add(Integers sums, __m512i x, __m512i w) {
  return reinterpret_cast<Integers>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sums), x, w));
}
#endif
#ifdef __AVX512BF16__
// Adds the products of two bfloat16 to each sum.
inline Lanes multiply_add(Lanes sums, __m512i x, __m512i w) {
  return reinterpret_cast<Lanes>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(sums), reinterpret_cast<__m512bh>(x),
                                                  reinterpret_cast<__m512bh>(w)));
}
#endif

// The same of numbers that are narrower: a group is the inputs that fill four bytes, and there are groups in a multiple
// of U. `Sums` are the sums of 16 columns, `Sum` is one of them.
template <int R, int U, class Sums, class Sum>
__attribute__((noinline)) void sum_narrow(const uint8_t* x, int64_t stride, const uint8_t* w, int64_t groups, Sum* to) {
  Sums sums[U][R][2] = {};
  for (int64_t g = 0; g < groups; g += U) {
#pragma GCC unroll 4
    for (int u = 0; u < U; u++) {
      const __m512i first = _mm512_load_si512(w + (g + u) * kColumns * 4);
      const __m512i second = _mm512_load_si512(w + (g + u) * kColumns * 4 + 64);
#pragma GCC unroll 16
      for (int r = 0; r < R; r++) {
        int32_t four;
        std::memcpy(&four, x + r * stride + 4 * (g + u), sizeof four);
        const __m512i value = _mm512_set1_epi32(four);
        sums[u][r][0] = multiply_add(sums[u][r][0], value, first);
        sums[u][r][1] = multiply_add(sums[u][r][1], value, second);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; r++) {
    Sums first = sums[0][r][0], second = sums[0][r][1];
#pragma GCC unroll 4
    for (int u = 1; u < U; u++) first += sums[u][r][0], second += sums[u][r][1];
    *reinterpret_cast<Sums*>(to + r * kColumns) = first;
    *reinterpret_cast<Sums*>(to + r * kColumns + kLanes) = second;
  }
}
#endif

class Linear {
 public:
  void pack(const float* weight, const float* bias, int64_t inputs, int64_t outputs, Precision precision) {
    inputs_ = inputs, outputs_ = outputs, panels_ = (outputs + kColumns - 1) / kColumns;
    precision_ = precision;
    bias_.resize_to_zeros(panels_ * kColumns);
    if (bias) std::memcpy(bias_.get(), bias, outputs * sizeof(float));
    if (precision == kFloat32) {
      floats_.resize_to_zeros(panels_ * inputs * kColumns);
      for (int64_t n = 0; n < outputs; n++)
        for (int64_t k = 0; k < inputs; k++)
          floats_[(n / kColumns * inputs + k) * kColumns + n % kColumns] = weight[n * inputs + k];
      return;
    }
    groups_ = byte_stride(inputs, precision) / 4;
    narrow_.resize_to_zeros(panels_ * groups_ * kColumns * 4);
    scale_.resize_to_zeros(panels_ * kColumns);
    offset_.resize_to_zeros(panels_ * kColumns);
    std::vector<uint8_t> row(groups_ * 4);
    for (int64_t n = 0; n < outputs; n++) {
      const float* from = weight + n * inputs;
      if (precision == kBFloat16) {
        round_row(from, inputs, row.data());
      } else {
        quantize(from, n, row.data());
      }
      for (int64_t g = 0; g < groups_; g++)
        std::memcpy(&narrow_[((n / kColumns * groups_ + g) * kColumns + n % kColumns) * 4], &row[4 * g], 4);
    }
  }

  int64_t size() const { return inputs_ * outputs_; }
  int64_t stride() const { return panels_ * kColumns; }

  // Writes this thread's panels of x W^T + b; rows of `out` are stride() apart. The caller waits.
  void apply(const Team& team, const Rows& x, int64_t rows, float* out) const {
    const Range mine = team.share(panels_);
    for (int64_t panel = mine.begin; panel < mine.end; panel++) {
      int64_t row = 0;
      while (row < rows) row += block(x, row, rows - row, panel, out);
    }
  }

 private:
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
    offset_[output] = 128 * sum;
  }

  int64_t block(const Rows& x, int64_t row, int64_t left, int64_t panel, float* out) const {
    // As many rows at once as registers hold; fewer rows take several sums at once, to hide the latency of each.
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
    float* to = out + row * stride() + panel * kColumns;
    const float* bias = bias_.get() + panel * kColumns;
    [[maybe_unused]] const uint8_t* narrow = narrow_.get() + panel * groups_ * kColumns * 4;
    if (precision_ == kInt8) {
#ifdef __AVX512VNNI__
      alignas(64) int32_t sums[R * kColumns];
      sum_narrow<R, U, Integers>(x.bytes + row * x.stride, x.stride, narrow, groups_, sums);
      const int32_t* offset = offset_.get() + panel * kColumns;
      const float* scale = scale_.get() + panel * kColumns;
      for (int r = 0; r < R; r++) {
        const float row_scale = x.scales[row + r];
#pragma omp simd
        for (int64_t n = 0; n < kColumns; n++)
          to[r * stride() + n] = static_cast<float>(sums[r * kColumns + n] - offset[n]) * (scale[n] * row_scale) + bias[n];
      }
#endif
      return R;
    }
    alignas(64) float sums[R * kColumns];
    if (precision_ == kFloat32) {
      sum_float<R, U>(x.values + row * x.width, x.width, floats_.get() + panel * inputs_ * kColumns, inputs_, sums);
    } else {
#ifdef __AVX512BF16__
      sum_narrow<R, U, Lanes>(x.bytes + row * x.stride, x.stride, narrow, groups_, sums);
#endif
    }
    for (int r = 0; r < R; r++) {
      save(load(sums + r * kColumns) + load(bias), to + r * stride());
      save(load(sums + r * kColumns + kLanes) + load(bias + kLanes), to + r * stride() + kLanes);
    }
    return R;
  }

  int64_t inputs_ = 0, outputs_ = 0, panels_ = 0, groups_ = 0;
  Precision precision_ = kFloat32;
  Buffer<float> floats_, bias_, scale_;
  Buffer<uint8_t> narrow_;
  Buffer<int32_t> offset_;
};

struct Norm {
  const float* gamma;
  const float* beta;

  void apply(const float* from, float* to, int64_t width) const {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < width; i++) sum += from[i];
    const float mean = sum / width;
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; i++) squares += (from[i] - mean) * (from[i] - mean);
    const float scale = 1.0f / std::sqrt(squares / width + 1e-5f);
#pragma omp simd
    for (int64_t i = 0; i < width; i++) to[i] = (from[i] - mean) * scale * gamma[i] + beta[i];
  }
};

enum Activation { kRelu, kGelu, kSilu, kSigmoid };

inline void activate(int64_t kind, float* x, int64_t size) {
  switch (kind) {
    case kRelu:
#pragma omp simd
      for (int64_t i = 0; i < size; i++) x[i] = std::max(x[i], 0.0f);
      break;
    case kGelu:
      for (int64_t i = 0; i < size; i++) x[i] *= 0.5f * (1.0f + std::erf(x[i] * 0.70710678f));
      break;
    case kSilu:
#pragma omp simd
      for (int64_t i = 0; i < size; i++) x[i] /= 1.0f + exponential(-x[i]);
      break;
    default:
#pragma omp simd
      for (int64_t i = 0; i < size; i++) x[i] = 1.0f / (1.0f + exponential(-x[i]));
  }
}

// The fields as Python fills them.
struct Shape {
  int64_t encoder_layers, decoder_layers, d_model, d_ff, heads, source_vocabulary, vocabulary;
  int64_t pre_norm, activation, gated;
  Precision precision;
  int64_t padding, begin;
};

// Linears of an encoder layer: qkv, output, inner, outer. Of a decoder layer: qkv, output, query, key-value, output,
// inner, outer. Norms: one for each sub-layer; pre-norm has one more at the end of each stack.
struct Engine {
  Shape shape;
  std::vector<Linear> encoder, decoder;
  Linear projection;
  std::vector<Norm> encoder_norms, decoder_norms;
  const float* source_embedding;
  const float* target_embedding;
  int64_t rows_apart;
};

// What one sub-layer hands to the next, for M rows. With very few rows every thread computes them all for itself
// instead of waiting for the others: `copies` of the rows.
struct Workspace {
  Buffer<float> stream, input, context, product, hidden;
  Buffer<uint8_t> input_bytes, context_bytes, hidden_bytes;
  Buffer<float> input_scales, context_scales, hidden_scales;

  void resize(const Shape& s, int64_t rows, int64_t copies, int64_t product_width) {
    const int64_t inner = s.d_ff * (s.gated ? 2 : 1) + kColumns;
    stream.resize(copies * rows * s.d_model);
    const int64_t e_bytes = byte_stride(s.d_model, s.precision), f_bytes = byte_stride(s.d_ff, s.precision);
    input.resize(copies * rows * s.d_model), input_bytes.resize(copies * rows * e_bytes);
    context.resize(copies * rows * s.d_model), context_bytes.resize(copies * rows * e_bytes);
    hidden.resize(copies * rows * s.d_ff), hidden_bytes.resize(copies * rows * f_bytes);
    input_scales.resize(copies * rows), context_scales.resize(copies * rows), hidden_scales.resize(copies * rows);
    product.resize(rows * std::max(product_width, std::max(inner, 3 * s.d_model + kColumns)));
  }
};

// One thread's view of the work on M rows.
class Worker {
 public:
  Worker(const Shape& shape, Workspace& space, const Team& team, int64_t rows, bool alone)
      : shape_(shape), space_(space), team_(team), rows_(rows),
        mine_(alone ? Range{0, rows} : team.share(rows)), alone_(alone) {
    const int64_t first = alone ? team.thread * rows : 0, e = shape_.d_model, f = shape_.d_ff;
    const int64_t e_bytes = byte_stride(e, shape.precision), f_bytes = byte_stride(f, shape.precision);
    stream_ = space.stream.get() + first * e;
    input_ = {space.input.get() + first * e, space.input_bytes.get() + first * e_bytes,
              space.input_scales.get() + first, e, e_bytes, shape.precision};
    context_ = {space.context.get() + first * e, space.context_bytes.get() + first * e_bytes,
                space.context_scales.get() + first, e, e_bytes, shape.precision};
    hidden_ = {space.hidden.get() + first * f, space.hidden_bytes.get() + first * f_bytes,
               space.hidden_scales.get() + first, f, f_bytes, shape.precision};
  }

  const Rows& input() const { return input_; }
  float* product() const { return space_.product.get(); }
  const Team& team() const { return team_; }

  // Whether what is for all threads is this one's to write.
  bool writes() const { return !alone_ || team_.thread == 0; }

  // Rows are ready: others may read them.
  void ready() const {
    if (!alone_) team_.wait();
  }

  void embed(const float* table, const int64_t* tokens, const float* positions, const int64_t* places,
             const std::vector<Norm>& norms) const {
    const int64_t e = shape_.d_model;
    const float scale = std::sqrt(static_cast<float>(e));
    for (int64_t row = mine_.begin; row < mine_.end; row++) {
      const float* word = table + tokens[row] * e;
      float* to = stream_ + row * e;
#pragma omp simd
      for (int64_t i = 0; i < e; i++) to[i] = word[i] * scale;
      if (positions) {
        const float* place = positions + places[row] * e;
#pragma omp simd
        for (int64_t i = 0; i < e; i++) to[i] += place[i];
      }
      prepare(row, norms, 0);
    }
    ready();
  }

  // Multiplies into the shared product; afterwards every thread may read all of it.
  void multiply(const Linear& linear, const Rows& x) const {
    linear.apply(team_, x, rows_, product());
    team_.wait();
  }

  // Attends and projects; `attend(row, query, context)` fills the context of a row.
  template <class Attend>
  void attention(const Linear& query, const Linear& output, const Attend& attend) const {
    multiply(query, input_);
    for (int64_t row = mine_.begin; row < mine_.end; row++) {
      attend(row, product() + row * query.stride(), context_.values + row * shape_.d_model);
      context_.convert(row);
    }
    // The product is written anew: everybody must have read it.
    team_.wait();
    multiply(output, context_);
  }

  void feed_forward(const Linear& inner, const Linear& outer) const {
    multiply(inner, input_);
    const int64_t f = shape_.d_ff;
    for (int64_t row = mine_.begin; row < mine_.end; row++) {
      const float* from = product() + row * inner.stride();
      float* to = hidden_.values + row * f;
      std::memcpy(to, from, f * sizeof(float));
      activate(shape_.activation, to, f);
      if (shape_.gated) {
#pragma omp simd
        for (int64_t i = 0; i < f; i++) to[i] *= from[f + i];
      }
      hidden_.convert(row);
    }
    team_.wait();
    multiply(outer, hidden_);
  }

  // Adds the product to the stream and makes the input of the next sub-layer; `sublayer` counts from 0 in the stack.
  void residual(const Linear& last, const std::vector<Norm>& norms, int64_t sublayer) const {
    const int64_t e = shape_.d_model;
    for (int64_t row = mine_.begin; row < mine_.end; row++) {
      const float* from = product() + row * last.stride();
      float* to = stream_ + row * e;
#pragma omp simd
      for (int64_t i = 0; i < e; i++) to[i] += from[i];
      if (!shape_.pre_norm) norms[sublayer].apply(to, to, e);
      prepare(row, norms, sublayer + 1);
    }
    team_.wait();
  }

 private:
  void prepare(int64_t row, const std::vector<Norm>& norms, int64_t next) const {
    const int64_t e = shape_.d_model;
    if (shape_.pre_norm) {
      norms[next].apply(stream_ + row * e, input_.values + row * e, e);
    } else {
      std::memcpy(input_.values + row * e, stream_ + row * e, e * sizeof(float));
    }
    input_.convert(row);
  }

  const Shape& shape_;
  Workspace& space_;
  Team team_;
  int64_t rows_;
  Range mine_;
  bool alone_;
  float* stream_;
  Rows input_, context_, hidden_;
};

// Attention of one row; key(i) and value(i) give the place of the i-th key and value, with all heads in a row.
template <class Key, class Value>
void attend_row(const Shape& shape, const float* query, int64_t keys, const Key& key, const Value& value,
                std::vector<float>& scores, float* context) {
  const int64_t heads = shape.heads, dim = shape.d_model / heads;
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  scores.resize(heads * keys);
  for (int64_t i = 0; i < keys; i++) {
    const float* k = key(i);
    for (int64_t h = 0; h < heads; h++) {
      scores[h * keys + i] = dot(query + h * dim, k + h * dim, dim) * scale;
    }
  }
  for (int64_t h = 0; h < heads; h++) {
    float* row = scores.data() + h * keys;
    const float highest = largest_of(row, keys);
#pragma omp simd
    for (int64_t i = 0; i < keys; i++) row[i] = exponential(row[i] - highest);
    float sum = 0;
    for (int64_t i = 0; i < keys; i++) sum += row[i];
    const float inverse = 1.0f / sum;
#pragma omp simd
    for (int64_t i = 0; i < keys; i++) row[i] *= inverse;
  }
  std::memset(context, 0, shape.d_model * sizeof(float));
  for (int64_t i = 0; i < keys; i++) {
    const float* v = value(i);
    for (int64_t h = 0; h < heads; h++) {
      const float weight = scores[h * keys + i];
#pragma omp simd
      for (int64_t d = 0; d < dim; d++) context[h * dim + d] += weight * v[h * dim + d];
    }
  }
}

// Sentences being translated.
struct Batch {
  const Engine& engine;
  int threads;
  std::vector<int64_t> starts;                // first packed row of each source sentence, and the end
  std::vector<Buffer<float>> cross;           // for each layer, keys and values of the packed source rows
  std::vector<int64_t> sentences;             // the source sentence of each row
  std::vector<std::vector<Buffer<float>>> own;  // for each layer and position, keys and values of the rows of then
  std::vector<std::vector<int32_t>> places;   // for each position, where the keys of each present row are
  std::vector<Workspace> spaces;
};

Team this_team() {
#ifdef _OPENMP
  return {omp_get_thread_num(), omp_get_num_threads()};
#else
  return {0, 1};
#endif
}

// Runs `work(team, workspace, first row, number of rows)` on all rows. With many rows each thread has some of its own and
// never waits for the others; with few they share every product. `cuts` are the rows at which work may be divided.
template <class Work>
void in_parallel(const Engine& engine, int threads, std::vector<Workspace>& spaces, const std::vector<int64_t>& cuts,
                 int64_t width, const Work& work) {
  const Shape& shape = engine.shape;
  const int64_t rows = cuts.back(), parts = static_cast<int64_t>(cuts.size()) - 1;
  const bool apart = threads > 1 && rows >= engine.rows_apart * threads && parts >= threads;
  const bool alone = rows <= 2;
  spaces.resize(threads);
  if (!apart) spaces[0].resize(shape, rows, alone ? threads : 1, width);
#pragma omp parallel num_threads(threads)
  {
    const Team team = this_team();
    if (apart) {
      const Range mine = team.share(parts);
      const int64_t first = cuts[mine.begin], count = cuts[mine.end] - first;
      Workspace& space = spaces[team.thread];
      space.resize(shape, count, 1, width);
      work(Worker(shape, space, {0, 1}, count, false), first, count);
    } else {
      work(Worker(shape, spaces[0], team, rows, alone), 0, rows);
    }
  }
}

void encode(Batch& batch, const int64_t* tokens, const float* positions) {
  const Engine& engine = batch.engine;
  const Shape& s = engine.shape;
  const int64_t rows = batch.starts.back(), e = s.d_model;
  std::vector<int64_t> places(rows), owner(rows);
  for (size_t b = 0; b + 1 < batch.starts.size(); b++)
    for (int64_t row = batch.starts[b]; row < batch.starts[b + 1]; row++)
      places[row] = row - batch.starts[b], owner[row] = static_cast<int64_t>(b);
  for (int64_t layer = 0; layer < s.decoder_layers; layer++)
    batch.cross.emplace_back(rows * engine.decoder[layer * 7 + 3].stride());
  std::vector<Workspace> spaces;
  in_parallel(engine, batch.threads, spaces, batch.starts, 0, [&](const Worker& worker, int64_t first, int64_t count) {
    std::vector<float> scores;
    worker.embed(engine.source_embedding, tokens + first, positions, places.data() + first, engine.encoder_norms);
    for (int64_t layer = 0; layer < s.encoder_layers; layer++) {
      const Linear* part = &engine.encoder[layer * 4];
      const float* all = worker.product();
      worker.attention(part[0], part[1], [&](int64_t row, const float* query, float* context) {
        const int64_t sentence = owner[first + row], begin = batch.starts[sentence] - first, stride = part[0].stride();
        const auto key = [&](int64_t i) { return all + (begin + i) * stride + e; };
        const auto value = [&](int64_t i) { return key(i) + e; };
        attend_row(s, query, batch.starts[sentence + 1] - first - begin, key, value, scores, context);
      });
      worker.residual(part[1], engine.encoder_norms, 2 * layer);
      worker.feed_forward(part[2], part[3]);
      worker.residual(part[3], engine.encoder_norms, 2 * layer + 1);
    }
    for (int64_t layer = 0; layer < s.decoder_layers; layer++) {
      const Linear& both = engine.decoder[layer * 7 + 3];
      both.apply(worker.team(), worker.input(), count, batch.cross[layer].get() + first * both.stride());
    }
  });
}

// Writes the k largest of a row's log-probabilities and their columns, largest first.
void best(const Shape& s, float* logits, int64_t k, float* values, int64_t* columns) {
  const float highest = largest_of(logits, s.vocabulary);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < s.vocabulary; i++) sum += exponential(logits[i] - highest);
  const float normaliser = highest + std::log(sum);
  logits[s.padding] = logits[s.begin] = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < k; i++) values[i] = -std::numeric_limits<float>::infinity(), columns[i] = 0;
  for (int64_t start = 0; start < s.vocabulary; start += 64) {
    const int64_t end = std::min(start + 64, s.vocabulary);
    if (!(largest_of(logits + start, end - start) > values[k - 1])) continue;
    for (int64_t i = start; i < end; i++) {
      if (!(logits[i] > values[k - 1])) continue;
      int64_t place = k - 1;
      for (; place > 0 && logits[i] > values[place - 1]; place--)
        values[place] = values[place - 1], columns[place] = columns[place - 1];
      values[place] = logits[i], columns[place] = i;
    }
  }
  for (int64_t i = 0; i < k; i++) values[i] -= normaliser;
}

void step(Batch& batch, const int64_t* tokens, const float* positions, int64_t k, float* values, int64_t* columns) {
  const Engine& engine = batch.engine;
  const Shape& s = engine.shape;
  const int64_t rows = static_cast<int64_t>(batch.sentences.size()), e = s.d_model;
  const int64_t now = static_cast<int64_t>(batch.places.size());
  std::vector<int64_t> times(rows, now), cuts(rows + 1);
  std::vector<int32_t> here(rows);
  for (int64_t row = 0; row < rows; row++) here[row] = static_cast<int32_t>(row), cuts[row + 1] = row + 1;
  batch.places.push_back(std::move(here));
  for (auto& layer : batch.own) layer.emplace_back(rows * 2 * e);
  const int64_t width = engine.projection.stride();
  in_parallel(engine, batch.threads, batch.spaces, cuts, width, [&](const Worker& worker, int64_t first, int64_t count) {
    std::vector<float> scores;
    worker.embed(engine.target_embedding, tokens + first, positions, times.data(), engine.decoder_norms);
    for (int64_t layer = 0; layer < s.decoder_layers; layer++) {
      const Linear* part = &engine.decoder[layer * 7];
      const auto& own = batch.own[layer];
      const float* cross = batch.cross[layer].get();
      const int64_t cross_stride = part[3].stride();
      worker.attention(part[0], part[1], [&](int64_t row, const float* query, float* context) {
        const auto key = [&](int64_t i) {
          return i == now ? query + e : own[i].get() + batch.places[i][first + row] * 2 * e;
        };
        const auto value = [&](int64_t i) { return key(i) + e; };
        attend_row(s, query, now + 1, key, value, scores, context);
        // Where every thread has all rows, the first one writes for all; nobody reads it in this step.
        if (worker.writes()) std::memcpy(own[now].get() + (first + row) * 2 * e, query + e, 2 * e * sizeof(float));
      });
      worker.residual(part[1], engine.decoder_norms, 3 * layer);
      worker.attention(part[2], part[4], [&](int64_t row, const float* query, float* context) {
        const int64_t sentence = batch.sentences[first + row], begin = batch.starts[sentence];
        const auto key = [&](int64_t i) { return cross + (begin + i) * cross_stride; };
        const auto value = [&](int64_t i) { return key(i) + e; };
        attend_row(s, query, batch.starts[sentence + 1] - begin, key, value, scores, context);
      });
      worker.residual(part[4], engine.decoder_norms, 3 * layer + 1);
      worker.feed_forward(part[5], part[6]);
      worker.residual(part[6], engine.decoder_norms, 3 * layer + 2);
    }
    worker.multiply(engine.projection, worker.input());
    const Range mine = worker.team().share(count);
    for (int64_t row = mine.begin; row < mine.end; row++)
      best(s, worker.product() + row * width, k, values + (first + row) * k, columns + (first + row) * k);
  });
}

}  // namespace

extern "C" {

int locant_supports(int64_t precision) {
#ifdef __AVX512VNNI__
  if (precision == kInt8) return 1;
#endif
#ifdef __AVX512BF16__
  if (precision == kBFloat16) return 1;
#endif
  return precision == kFloat32;
}

// Linears and norms in the order of the layers, encoder first; of the projection only the weight. Weights and biases
// are copied, norms and embeddings must outlive the engine. Null when memory does not suffice.
void* locant_engine(const Shape* shape, const float* const* weights, const float* const* biases,
                    const float* const* norms, const float* source_embedding, const float* target_embedding) try {
  auto engine = std::make_unique<Engine>();
  engine->shape = *shape;
  engine->source_embedding = source_embedding, engine->target_embedding = target_embedding;
  const int64_t e = shape->d_model, f = shape->d_ff, inner = f * (shape->gated ? 2 : 1);
  const auto take = [&](Linear& linear, int64_t inputs, int64_t outputs) {
    linear.pack(*weights++, *biases++, inputs, outputs, shape->precision);
  };
  const auto stack = [&](std::vector<Linear>& linears, std::vector<Norm>& own, int64_t layers, bool decoder) {
    linears.resize(layers * (decoder ? 7 : 4));
    Linear* next = linears.data();
    for (int64_t layer = 0; layer < layers; layer++) {
      take(*next++, e, 3 * e);
      take(*next++, e, e);
      if (decoder) {
        take(*next++, e, e);
        take(*next++, e, 2 * e);
        take(*next++, e, e);
      }
      take(*next++, e, inner);
      take(*next++, f, e);
    }
    const int64_t count = layers * (decoder ? 3 : 2) + (shape->pre_norm ? 1 : 0);
    for (int64_t i = 0; i < count; i++, norms += 2) own.push_back({norms[0], norms[1]});
  };
  stack(engine->encoder, engine->encoder_norms, shape->encoder_layers, false);
  stack(engine->decoder, engine->decoder_norms, shape->decoder_layers, true);
  engine->projection.pack(*weights, nullptr, e, shape->vocabulary, shape->precision);
  int64_t numbers = engine->projection.size();
  for (const auto& linear : engine->decoder) numbers += linear.size();
  const int64_t bytes = numbers * bytes_of(shape->precision);
  engine->rows_apart = bytes <= kCachedBytes ? kRowsApart : kRowsApartUncached;
  return engine.release();
} catch (const std::bad_alloc&) {
  return nullptr;
}

void locant_engine_free(void* engine) { delete static_cast<Engine*>(engine); }

// Encodes sentences, packed one after the other; `positions [longest, E]` is added to the embeddings, or null.
// Null when memory does not suffice.
void* locant_batch(const void* engine, int threads, int64_t sentences, const int64_t* lengths, const int64_t* tokens,
                   const float* positions) try {
  const auto& found = *static_cast<const Engine*>(engine);
  std::unique_ptr<Batch> batch(new Batch{found, threads, {0}, {}, {}, {}, {}, {}});
  for (int64_t b = 0; b < sentences; b++) {
    batch->starts.push_back(batch->starts.back() + lengths[b]);
    batch->sentences.push_back(b);
  }
  batch->own.resize(found.shape.decoder_layers);
  encode(*batch, tokens, positions);
  return batch.release();
} catch (const std::bad_alloc&) {
  return nullptr;
}

void locant_batch_select(void* batch, int64_t count, const int64_t* rows) {
  auto& found = *static_cast<Batch*>(batch);
  std::vector<int64_t> sentences(count);
  for (int64_t i = 0; i < count; i++) sentences[i] = found.sentences[rows[i]];
  found.sentences = std::move(sentences);
  for (auto& position : found.places) {
    std::vector<int32_t> places(count);
    for (int64_t i = 0; i < count; i++) places[i] = position[rows[i]];
    position = std::move(places);
  }
}

// Decodes one token of every row, which stands at the next position; `positions` has rows up to it, or is null.
// Returns 0 when memory does not suffice.
int locant_batch_step(void* batch, const int64_t* tokens, const float* positions, int64_t k, float* values,
                      int64_t* columns) try {
  step(*static_cast<Batch*>(batch), tokens, positions, k, values, columns);
  return 1;
} catch (const std::bad_alloc&) {
  return 0;
}

void locant_batch_free(void* batch) { delete static_cast<Batch*>(batch); }

}  // extern "C"
