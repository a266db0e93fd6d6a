// The layers of an encoder-decoder Transformer, as threads go through them: norms, activations, rotations, attention of one row
// and the sub-layers around them.
//
// Notation: M rows, E features of the model, F of the feed-forward.

#pragma once

#include "matrix_products.h"  // first: it says how numbers are rounded

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernel_common.h"
#include "threads.h"

namespace {

// Rows up to which whoever ends a product computes what follows from it for all: handing rows over would cost more.
constexpr int64_t kRowsTogether = 4;

// Parts of a section for each thread: a thread that is late, or loses its core, holds up the others for one of them.
constexpr int64_t kPartsOfAThread = 4;

// The sum of what `term` makes of numbers, one or several at a time.
template <class Term>
inline float sum_of(const float* x, int64_t size, const Term& term) {
  Sum sum;
  int64_t i = 0;
  for (; i + Sum::kWidth <= size; i += Sum::kWidth) sum.add([&](int64_t place) { return term(load(x + i + place)); });
  float all = sum.total();
  for (; i < size; i++) all += term(x[i]);
  return all;
}

struct Norm {
  const float* gamma;
  const float* beta;

  void apply(const float* from, float* to, int64_t width) const {
    const float mean = sum_of(from, width, [](auto x) { return x; }) / width;
    const float squares = sum_of(from, width, [=](auto x) { return (x - mean) * (x - mean); });
    const float scale = 1.0f / std::sqrt(squares / width + 1e-5f);
#pragma omp simd
    for (int64_t i = 0; i < width; i++) to[i] = (from[i] - mean) * scale * gamma[i] + beta[i];
  }
};

enum Activation { kRelu, kGelu, kSilu, kSigmoid };

// To 1.5e-7: Abramowitz and Stegun (1964), formula 7.1.26. C libraries differ.
[[gnu::always_inline]] inline float error_function(float x) {
  const float size = std::fabs(x), t = 1.0f / (1.0f + 0.3275911f * size);
  const float sum = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
  return std::copysign(1.0f - sum * exponential(-size * size), x);
}

inline void activate(int64_t kind, float* x, int64_t size) {
  switch (kind) {
    case kRelu:
#pragma omp simd
      for (int64_t i = 0; i < size; i++) x[i] = x[i] < 0.0f ? 0.0f : x[i];
      break;
    case kGelu:
#pragma omp simd
      for (int64_t i = 0; i < size; i++) x[i] *= 0.5f * (1.0f + error_function(x[i] * 0.70710678f));
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
  int64_t rotated, interleaved;  // features of each head that positions rotate, 0 for none; whether neighbours are pairs

  // Numbers in a row of the table of positions: codes that are added to the embeddings, or the sines of a rotation and then
  // its cosines.
  int64_t position_width() const { return rotated ? rotated : d_model; }
};

// Where tokens stand: a row of the table of positions for each.
struct Places {
  const float* positions;
  const int64_t* places;

  const float* row(const Shape& shape, int64_t token) const {
    return positions + places[token] * shape.position_width();
  }
};

// Rotates the queries or keys of all heads of a token.
inline void rotate(const Shape& shape, float* x, const float* sines_and_cosines) {
  const int64_t pairs = shape.rotated / 2, dim = shape.d_model / shape.heads;
  const int64_t step = shape.interleaved ? 2 : 1, other = shape.interleaved ? 1 : pairs;
  const float *sine = sines_and_cosines, *cosine = sines_and_cosines + pairs;
  for (float* head = x; head < x + shape.d_model; head += dim) {
    for (int64_t i = 0; i < pairs; i++) {
      const float a = head[i * step], b = head[i * step + other];
      head[i * step] = a * cosine[i] - b * sine[i];
      head[i * step + other] = a * sine[i] + b * cosine[i];
    }
  }
}

// What one sub-layer hands to the next, for M rows.
struct Workspace {
  Buffer<float> stream, input, context, product, hidden;
  Buffer<uint8_t> input_bytes, context_bytes, hidden_bytes;
  Buffer<float> input_scales, context_scales, hidden_scales;
  Buffer<float> scores;  // of one thread: [heads, keys]

  // The columns of the widest product of a layer, or of another one that is wider.
  static int64_t widest(const Shape& s, int64_t other) {
    return std::max({other, s.d_ff * (s.gated ? 2 : 1) + kColumns, 3 * s.d_model + kColumns});
  }

  void resize(const Shape& s, int64_t rows, int64_t widest_product) {
    stream.resize(rows * s.d_model);
    const int64_t e_bytes = byte_stride(s.d_model, s.precision), f_bytes = byte_stride(s.d_ff, s.precision);
    input.resize(rows * s.d_model), input_bytes.resize(rows * e_bytes);
    context.resize(rows * s.d_model), context_bytes.resize(rows * e_bytes);
    hidden.resize(rows * s.d_ff), hidden_bytes.resize(rows * f_bytes);
    input_scales.resize(rows), context_scales.resize(rows), hidden_scales.resize(rows);
    product.resize(rows * widest_product);
  }
};

// The work on M rows, as one thread goes through it: alone, or with others that share every section.
class Worker {
 public:
  Worker(const Shape& shape, const Workspace& space, const locant::Member& member, int64_t rows)
      : shape_(shape), member_(member), rows_(rows), product_(space.product.get()), stream_(space.stream.get()),
        laid_(rows >= tiles::kLeastRows && shape.precision != kFloat32) {
    const int64_t e = shape.d_model, f = shape.d_ff;
    const int64_t e_bytes = byte_stride(e, shape.precision), f_bytes = byte_stride(f, shape.precision);
    input_ = {space.input.get(), space.input_bytes.get(), space.input_scales.get(), e, e_bytes, shape.precision};
    context_ = {space.context.get(), space.context_bytes.get(), space.context_scales.get(), e, e_bytes, shape.precision};
    hidden_ = {space.hidden.get(), space.hidden_bytes.get(), space.hidden_scales.get(), f, f_bytes, shape.precision};
  }

  // Whether its thread has left the others, who do the rest.
  bool left() const { return member_.left(); }

  const Rows& input() const { return input_; }
  // What the last product wrote.
  float* product() const { return product_; }

  void embed(const float* table, const int64_t* tokens, const Places& places, const std::vector<Norm>& norms) {
    const int64_t e = shape_.d_model;
    const float scale = std::sqrt(static_cast<float>(e));
    each_row([&](int64_t row) {
      const float* word = table + tokens[row] * e;
      float* to = stream_ + row * e;
#pragma omp simd
      for (int64_t i = 0; i < e; i++) to[i] = word[i] * scale;
      if (places.positions && !shape_.rotated) {
        const float* place = places.row(shape_, row);
#pragma omp simd
        for (int64_t i = 0; i < e; i++) to[i] += place[i];
      }
      prepare(row, norms, 0);
    });
  }

  // Calls `work(row)` for each row; afterwards every thread may read what it wrote.
  template <class Work>
  void each_row(const Work& work) {
    section(rows_, [&](Range mine) {
      for (int64_t row = mine.begin; row < mine.end; row++) work(row);
    }, [] {});
  }

  // Multiplies into the shared product; afterwards every thread may read all of it.
  void multiply(const Linear& linear, const Rows& x) {
    multiply(linear, x, [] {});
  }

  // Attends to the rows themselves and projects, as `attention` does; `query` makes queries, keys and values.
  template <class Attend>
  void self_attention(const Linear& query, const Linear& output, const std::vector<Norm>& norms, int64_t sublayer,
                      const Places& places, const Attend& attend) {
    if (!shape_.rotated) return attention(query, output, norms, sublayer, attend);
    multiply_rows(query, input_, [&](int64_t row) {
      float* queries = product_ + row * query.stride();
      rotate(shape_, queries, places.row(shape_, row));
      rotate(shape_, queries + shape_.d_model, places.row(shape_, row));  // the keys
    });
    attend_and_project(query, output, norms, sublayer, attend);
  }

  // Attends and projects; `attend(row, query, context)` fills the context of a row. The result is added to the stream;
  // `sublayer` counts from 0 in the stack.
  template <class Attend>
  void attention(const Linear& query, const Linear& output, const std::vector<Norm>& norms, int64_t sublayer,
                 const Attend& attend) {
    multiply(query, input_);
    attend_and_project(query, output, norms, sublayer, attend);
  }

  void feed_forward(const Linear& inner, const Linear& outer, const std::vector<Norm>& norms, int64_t sublayer) {
    const int64_t f = shape_.d_ff;
    multiply_rows(inner, input_, [&](int64_t row) {
      const float* from = product_ + row * inner.stride();
      float* to = hidden_.values + row * f;
      std::memcpy(to, from, f * sizeof(float));
      activate(shape_.activation, to, f);
      if (shape_.gated) {
#pragma omp simd
        for (int64_t i = 0; i < f; i++) to[i] *= from[f + i];
      }
      hidden_.convert(row);
    });
    add(outer, hidden_, norms, sublayer);
  }

 private:
  template <class Attend>
  void attend_and_project(const Linear& query, const Linear& output, const std::vector<Norm>& norms, int64_t sublayer,
                          const Attend& attend) {
    each_row([&](int64_t row) {
      attend(row, product_ + row * query.stride(), context_.values + row * shape_.d_model);
      context_.convert(row);
    });
    add(output, context_, norms, sublayer);
  }

  // Goes through a section: `part(range)` for ranges that cover 0 to size - 1, then `then()`.
  template <class Part, class Then>
  void section(int64_t size, const Part& part, const Then& then) {
    const int64_t threads = member_.members(), parts = threads == 1 ? 1 : std::min(size, kPartsOfAThread * threads);
    member_.run(parts, [&](int64_t number) { part(Share{number, parts}.of(size)); }, then);
  }

  template <class Then>
  void multiply(const Linear& linear, const Rows& x, const Then& then) {
    section(linear.panels(), [&](Range mine) { linear.apply(mine, x, rows_, product_, laid_); }, then);
  }

  // Multiplies, and calls `work(row)` for each row of the product, which must take little time.
  template <class Work>
  void multiply_rows(const Linear& linear, const Rows& x, const Work& work) {
    if (rows_ > kRowsTogether && member_.members() > 1) {
      multiply(linear, x);
      each_row(work);
      return;
    }
    multiply(linear, x, [&] {
      for (int64_t row = 0; row < rows_; row++) work(row);
    });
  }

  // Adds a product to the stream and makes the input of the next sub-layer.
  void add(const Linear& linear, const Rows& x, const std::vector<Norm>& norms, int64_t sublayer) {
    const int64_t e = shape_.d_model;
    multiply_rows(linear, x, [&](int64_t row) {
      const float* from = product_ + row * linear.stride();
      float* to = stream_ + row * e;
#pragma omp simd
      for (int64_t i = 0; i < e; i++) to[i] += from[i];
      if (!shape_.pre_norm) norms[sublayer].apply(to, to, e);
      prepare(row, norms, sublayer + 1);
    });
  }

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
  locant::Member member_;
  const int64_t rows_;
  float *const product_, *const stream_;
  const tiles::Laid laid_;
  Rows input_, context_, hidden_;
};

// Attention of one row; key(i) and value(i) give the place of the i-th key and value, with all heads in a row.
template <class Key, class Value>
void attend_row(const Shape& shape, const float* query, int64_t keys, const Key& key, const Value& value,
                float* scores, float* context) {
  const int64_t heads = shape.heads, dim = shape.d_model / heads;
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  for (int64_t i = 0; i < keys; i++) {
    const float* k = key(i);
    for (int64_t h = 0; h < heads; h++) {
      scores[h * keys + i] = dot(query + h * dim, k + h * dim, dim) * scale;
    }
  }
  for (int64_t h = 0; h < heads; h++) {
    float* row = scores + h * keys;
    const float highest = largest_of(row, keys);
#pragma omp simd
    for (int64_t i = 0; i < keys; i++) row[i] = exponential(row[i] - highest);
    float sum = 0;
    for (int64_t i = 0; i < keys; i++) sum += row[i];
    const float inverse = 1.0f / sum;
#pragma omp simd
    for (int64_t i = 0; i < keys; i++) row[i] *= inverse;
  }
  // As many columns at once as stay in registers for all keys.
  constexpr int64_t parts = 32 / kLanes, columns = parts * kLanes;
  for (int64_t h = 0; h < heads; h++) {
    const float* weights = scores + h * keys;
    int64_t d = h * dim;
    const int64_t end = d + dim;
    for (; d + columns <= end; d += columns) {
      Lanes sums[parts] = {};
      for (int64_t i = 0; i < keys; i++) {
        const float* v = value(i) + d;
        for (int64_t part = 0; part < parts; part++) sums[part] += weights[i] * load(v + part * kLanes);
      }
      for (int64_t part = 0; part < parts; part++) save(sums[part], context + d + part * kLanes);
    }
    std::memset(context + d, 0, (end - d) * sizeof(float));
    for (int64_t i = 0; i < keys && d < end; i++) {
      const float* v = value(i);
#pragma omp simd
      for (int64_t rest = d; rest < end; rest++) context[rest] += weights[i] * v[rest];
    }
  }
}

}  // namespace
