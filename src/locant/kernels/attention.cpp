// Scaled dot-product attention of short texts, for the CPU. A thread takes one head of one text at a time: its scores
// stay in the caches. Tensors are float32 or bfloat16, arithmetic is float32.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "kernel_common.h"
#include "threads.h"

namespace {

// As wide as a register: compilers divide wider vectors badly. A divisor of 16.
#if defined(__AVX512F__)
constexpr int64_t kLanes = 16, kRows = 6;
#elif defined(__AVX__)
constexpr int64_t kLanes = 8, kRows = 4;
#else
constexpr int64_t kLanes = 4, kRows = 4;
#endif

typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));

inline Lanes load(const float* from) {
  Lanes value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

inline void put(Lanes value, float* to) { std::memcpy(to, &value, sizeof value); }

// A matrix of one head and text: `features` of a row lie next to each other.
struct Matrix {
  float* data;
  int64_t row;
};

// A tensor [B, H, L, D]; strides in elements.
struct Heads {
  void* data;
  int64_t b, h, l;
};

// The L rows of one head and text of a tensor with the given elements, as float32: where they lie, or in a space of
// their own, from which results are written back.
template <class Element>
class Head {
 public:
  // Numbers of the space.
  static int64_t size(int64_t rows, int64_t features) { return kPlain ? 0 : rows * features; }

  // Takes its space from the front of what is left.
  Head(int64_t rows, int64_t features, float*& left)
      : rows_(rows), features_(features), space_(left) {
    left += size(rows, features);
  }

  Matrix at(const Heads& x, int64_t batch, int64_t head) {
    from_ = static_cast<Element*>(x.data) + batch * x.b + head * x.h;
    row_ = x.l;
    if constexpr (kPlain) {
      return {from_, row_};
    } else {
      return {space_, features_};
    }
  }
  Matrix read(const Heads& x, int64_t batch, int64_t head) {
    const Matrix found = at(x, batch, head);
    if constexpr (!kPlain) {
      for (int64_t row = 0; row < rows_; row++) {
        const Element* from = from_ + row * row_;
        float* to = space_ + row * features_;
#pragma omp simd
        for (int64_t i = 0; i < features_; i++) to[i] = widen(from[i]);
      }
    }
    return found;
  }
  void write() const {
    if constexpr (!kPlain) {
      for (int64_t row = 0; row < rows_; row++) {
        const float* from = space_ + row * features_;
        Element* to = from_ + row * row_;
#pragma omp simd
        for (int64_t i = 0; i < features_; i++) store(from[i], to + i);
      }
    }
  }

 private:
  static constexpr bool kPlain = std::is_same_v<Element, float>;
  int64_t rows_, features_, row_ = 0;
  Element* from_ = nullptr;
  float* space_;
};

// What to attend with.
struct Work {
  int64_t batch, heads, queries, length, features;
  const uint8_t* keys;  // [B, K], true for a key that is seen; or null
  int64_t causal;
  // [B, H, K, Q padded to a multiple of 16]: queries lie side by side, so that all of a vector's lanes do the same. What
  // stands in the padding follows from the input, too.
  float* probabilities;
};

inline int64_t padded(int64_t size) { return (size + kLanes - 1) / kLanes * kLanes; }

// A row of the probabilities.
inline int64_t row_of(int64_t queries) { return (queries + 15) / 16 * 16; }

// c [rows, vectors * kLanes] = scale * a [rows, depth] b [depth, vectors * kLanes]. Alone in its function, so that the
// sums stay in registers.
template <int rows, int vectors>
__attribute__((noinline)) void tile(const float* a, int64_t a_row, int64_t a_column, const float* b, int64_t b_row,
                                    float* c, int64_t c_row, int64_t depth, float scale) {
  Lanes sums[rows][vectors] = {};
  for (int64_t d = 0; d < depth; d++) {
    Lanes right[vectors];
    for (int v = 0; v < vectors; v++) right[v] = load(b + d * b_row + v * kLanes);
    for (int r = 0; r < rows; r++) {
      const float left = a[r * a_row + d * a_column];
      for (int v = 0; v < vectors; v++) sums[r][v] += left * right[v];
    }
  }
  for (int r = 0; r < rows; r++) {
    for (int v = 0; v < vectors; v++) put(sums[r][v] * scale, c + r * c_row + v * kLanes);
  }
}

using Tile = decltype(&tile<1, 1>);

template <int vectors, int... row>
constexpr std::array<Tile, kRows> tiles_of(std::integer_sequence<int, row...>) {
  return {tile<row + 1, vectors>...};
}

constexpr std::array<Tile, kRows> kTiles[2] = {tiles_of<1>(std::make_integer_sequence<int, kRows>()),
                                               tiles_of<2>(std::make_integer_sequence<int, kRows>())};

// c [m, n] = scale * a b, where a is [m, k], or [k, m] and read transposed, b is [k, n], and n is a multiple of kLanes.
void multiply(Matrix a, bool a_transposed, Matrix b, Matrix c, int64_t m, int64_t n, int64_t k, float scale) {
  const int64_t a_row = a_transposed ? 1 : a.row, a_column = a_transposed ? a.row : 1;
  const int64_t tiles = (m + kRows - 1) / kRows, rows = (m + tiles - 1) / tiles;
  for (int64_t i = 0; i < m; i += rows) {
    const int64_t here = std::min(rows, m - i);
    for (int64_t j = 0; j < n; j += 2 * kLanes) {
      const int vectors = n - j > kLanes ? 2 : 1;
      const Tile run = kTiles[vectors - 1][here - 1];
      run(a.data + i * a_row, a_row, a_column, b.data + j, b.row, c.data + i * c.row + j, c.row, k, scale);
    }
  }
}

// Lanes of two vectors: `place` counts those of the first, then those of the second.
template <int... place>
inline Lanes chosen(Lanes one, Lanes two) {
#ifdef __clang__
  return __builtin_shufflevector(one, two, place...);
#else
  typedef int32_t Places __attribute__((vector_size(kLanes * sizeof(int32_t))));
  return __builtin_shuffle(one, two, Places{place...});
#endif
}

// Exchanges the upper half of every 2 * half lanes of the first vector with the lower half of the second's.
template <int half, int... lane>
inline void exchange(Lanes& one, Lanes& two, std::integer_sequence<int, lane...>) {
  const Lanes first = chosen<(lane & half ? lane - half + int{kLanes} : lane)...>(one, two);
  two = chosen<(lane & half ? lane + int{kLanes} : lane + half)...>(one, two);
  one = first;
}

// Transposes a square block.
template <int half>
inline void exchange_all(Lanes* rows) {
  for (int row = 0; row < kLanes; row++) {
    if (!(row & half)) exchange<half>(rows[row], rows[row + half], std::make_integer_sequence<int, kLanes>());
  }
  if constexpr (half > 1) exchange_all<half / 2>(rows);
}

// to [features, width] = from [rows, features] transposed, where features and width are multiples of kLanes; the
// columns beyond the rows become zero.
void transpose(Matrix from, int64_t rows, int64_t features, float* to, int64_t width) {
  for (int64_t row = 0; row < width; row += kLanes) {
    for (int64_t feature = 0; feature < features; feature += kLanes) {
      Lanes block[kLanes];
      for (int64_t i = 0; i < kLanes; i++) {
        block[i] = row + i < rows ? load(from.data + (row + i) * from.row + feature) : Lanes{};
      }
      exchange_all<kLanes / 2>(block);
      for (int64_t i = 0; i < kLanes; i++) put(block[i], to + (feature + i) * width + row);
    }
  }
}

// Sizes whose products count without overflow.
constexpr int64_t kMost = int64_t{1} << 20;

constexpr float kLowest = -3.0e38f;

// Turns the scores of kLanes queries from the column `start` on, of K rows of so many numbers, into probabilities, all
// zero for a query that sees no key.
void softmax(const Work& work, const uint8_t* seen, float* scores, int64_t start, int64_t width) {
  const int64_t ahead = work.length - work.queries;  // with more keys than queries, the queries are the last ones
  Lanes largest = Lanes{} + kLowest, sum = {};
  for (int64_t j = 0; j < work.length; j++) {
    float* row = scores + j * width + start;
    if (seen && !seen[j]) {
      put(Lanes{} + kLowest, row);
    } else if (work.causal && j > start + ahead) {
      for (int64_t i = 0; i < std::min(kLanes, j - ahead - start); i++) row[i] = kLowest;
    }
    const Lanes values = load(row);
    largest = largest < values ? values : largest;
  }
  float tops[kLanes];  // Clang vectorises no loop over the elements of a vector
  put(largest, tops);
  for (int64_t j = 0; j < work.length; j++) {
    float* row = scores + j * width + start;
#pragma omp simd
    for (int64_t i = 0; i < kLanes; i++) row[i] = row[i] <= kLowest ? 0.0f : exponential(row[i] - tops[i]);
    sum += load(row);
  }
  const Lanes inverse = sum == 0.0f ? Lanes{} : 1.0f / sum;  // a sum that is no number stays none
  for (int64_t j = 0; j < work.length; j++) {
    float* row = scores + j * width + start;
    put(load(row) * inverse, row);
  }
}

// Turns the gradients of kLanes queries' probabilities, in rows as these have, into those of their scores.
void softmax_backward(const Work& work, const float* probabilities, float* gradients, int64_t start, int64_t width) {
  Lanes mean = {};
  for (int64_t j = 0; j < work.length; j++) {
    mean += load(probabilities + j * width + start) * load(gradients + j * width + start);
  }
  for (int64_t j = 0; j < work.length; j++) {
    float* row = gradients + j * width + start;
    put(load(probabilities + j * width + start) * (load(row) - mean), row);
  }
}

// out = softmax(scale * q k^T) v; leaves the probabilities.
template <class Element>
void forward(const Work& work, const Heads& q, const Heads& k, const Heads& v, const Heads& out, float scale,
             int threads) {
  const int64_t queries = work.queries, length = work.length, features = work.features, width = padded(queries);
  const int64_t row = row_of(queries);
  using Rows = Head<Element>;
  const ThreadBuffers rooms(threads, features * width + 2 * Rows::size(queries, features) + 2 * Rows::size(length, features));
  const int64_t units = work.batch * work.heads;
  locant::parallel_for(units, locant::grain_of(units, threads, 1), threads, [&](int64_t begin, int64_t end, int member) {
    float* const transposed = rooms.of(member);
    float* left = transposed + features * width;
    Rows q_head(queries, features, left), k_head(length, features, left), v_head(length, features, left);
    Rows out_head(queries, features, left);
    for (int64_t unit = begin; unit < end; unit++) {
      const int64_t b = unit / work.heads, h = unit % work.heads;
      float* probabilities = work.probabilities + unit * length * row;
      transpose(q_head.read(q, b, h), queries, features, transposed, width);
      multiply(k_head.read(k, b, h), false, {transposed, width}, {probabilities, row}, length, width, features,
               scale);
      for (int64_t start = 0; start < width; start += kLanes) {
        softmax(work, work.keys ? work.keys + b * length : nullptr, probabilities, start, row);
      }
      for (int64_t j = 0; j < length && width < row; j++) std::fill_n(probabilities + j * row + width, row - width, 0.0f);
      multiply({probabilities, row}, true, v_head.read(v, b, h), out_head.at(out, b, h), queries, features, length,
               1.0f);
      out_head.write();
    }
  });
}

// The gradients of q, k and v from that of the output.
template <class Element>
void backward(const Work& work, const Heads& q, const Heads& k, const Heads& v, const Heads& outer, const Heads& q_out,
              const Heads& k_out, const Heads& v_out, float scale, int threads) {
  const int64_t queries = work.queries, length = work.length, features = work.features, width = padded(queries);
  const int64_t row = row_of(queries);
  using Rows = Head<Element>;
  const ThreadBuffers rooms(threads, features * width + length * row + 3 * Rows::size(queries, features) +
                                 3 * Rows::size(length, features));
  const int64_t units = work.batch * work.heads;
  locant::parallel_for(units, locant::grain_of(units, threads, 1), threads, [&](int64_t begin, int64_t end, int member) {
    float* const transposed = rooms.of(member);
    const Matrix gradients = {transposed + features * width, row};
    float* left = gradients.data + length * row;
    Rows q_head(queries, features, left), k_head(length, features, left), v_head(length, features, left);
    Rows outer_head(queries, features, left), q_result(queries, features, left), key_result(length, features, left);
    for (int64_t unit = begin; unit < end; unit++) {
      const int64_t b = unit / work.heads, h = unit % work.heads;
      const Matrix probabilities = {work.probabilities + unit * length * row, row};
      const Matrix above = outer_head.read(outer, b, h);
      multiply(probabilities, false, above, key_result.at(v_out, b, h), length, features, queries, 1.0f);
      key_result.write();
      transpose(above, queries, features, transposed, width);
      multiply(v_head.read(v, b, h), false, {transposed, width}, gradients, length, width, features, 1.0f);
      for (int64_t start = 0; start < width; start += kLanes) {
        softmax_backward(work, probabilities.data, gradients.data, start, row);
      }
      multiply(gradients, true, k_head.read(k, b, h), q_result.at(q_out, b, h), queries, features, length, scale);
      q_result.write();
      multiply(gradients, false, q_head.read(q, b, h), key_result.at(k_out, b, h), length, features, queries, scale);
      key_result.write();
    }
  });
}

// Says what is wrong with what to attend with.
Error check(const Work& work, int threads, std::initializer_list<const Heads*> tensors) {
  if (work.batch < 0 || work.heads < 0)
    return error_of("Attention has no %lld texts of %lld heads.", work.batch, work.heads);
  for (int64_t size : {work.queries, work.length, work.features}) {
    if (size < 1 || size > kMost) return error_of("Attention has no texts or heads of size %lld.", size);
  }
  if (!some_threads(threads)) return error_of("Attention has no team of %lld threads.", threads);
  if (work.features % 16) return error_of("Attention needs heads of a multiple of 16 features, not %lld.", work.features);
  if (!work.batch || !work.heads) return nullptr;
  if (!work.probabilities) return error_of("Attention has no place for its probabilities.");
  for (const Heads* x : tensors) {
    if (!x || !x->data) return error_of("Attention lacks a tensor.");
    if (x->b < 0 || x->h < 0 || x->l < 0) return error_of("Attention needs strides that are not negative.");
  }
  return nullptr;
}

}  // namespace

// `small` says whether the elements are bfloat16; else they are float32.
extern "C" Error locant_attention(const Work* work, const Heads* q, const Heads* k, const Heads* v,
                                  const Heads* out, int small, float scale, int threads) {
  if (const Error found = check(*work, threads, {q, k, v, out})) return found;
  return within_memory([&] {
    (small ? forward<BFloat16> : forward<float>)(*work, *q, *k, *v, *out, scale, threads);
    return Error{};
  });
}

extern "C" Error locant_attention_backward(const Work* work, const Heads* q, const Heads* k, const Heads* v,
                                           const Heads* outer, const Heads* q_out, const Heads* k_out,
                                           const Heads* v_out, int small, float scale, int threads) {
  if (const Error found = check(*work, threads, {q, k, v, outer, q_out, k_out, v_out})) return found;
  return within_memory([&] {
    (small ? backward<BFloat16> : backward<float>)(*work, *q, *k, *v, *outer, *q_out, *k_out, *v_out, scale, threads);
    return Error{};
  });
}
