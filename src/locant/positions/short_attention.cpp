// Scaled dot-product attention of short texts in float32, for the CPU. A thread takes one head of one text at a time:
// its scores stay in the caches, and the backward pass computes them again.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "elements.h"

namespace {

constexpr int64_t kLanes = 16;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));

inline Lanes load(const float* from) {
  Lanes value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// A matrix of one head and text: `features` of a row lie next to each other.
struct Matrix {
  float* data;
  int64_t row;
};

// A tensor [B, H, L, D]; strides in elements.
struct Heads {
  float* data;
  int64_t b, h, l;

  Matrix at(int64_t batch, int64_t head) const { return {data + batch * b + head * h, l}; }
};

// Which keys are seen: `keys` is [B, K], true where there is one, or null.
struct Work {
  int64_t batch, heads, queries, length, features;
  const bool* keys;
  int64_t causal;
};

inline int64_t padded(int64_t size) { return (size + kLanes - 1) / kLanes * kLanes; }

// c [rows, vectors * 16] = scale * a [rows, depth] b [depth, vectors * 16]. Alone in its function, so that the sums stay
// in registers.
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
    for (int v = 0; v < vectors; v++) {
      const Lanes scaled = sums[r][v] * scale;
      std::memcpy(c + r * c_row + v * kLanes, &scaled, sizeof scaled);
    }
  }
}

using Tile = decltype(&tile<1, 1>);

#ifdef __AVX512F__
constexpr int64_t kRows = 6;
const Tile kTiles[2][kRows] = {{tile<1, 1>, tile<2, 1>, tile<3, 1>, tile<4, 1>, tile<5, 1>, tile<6, 1>},
                               {tile<1, 2>, tile<2, 2>, tile<3, 2>, tile<4, 2>, tile<5, 2>, tile<6, 2>}};
#else
constexpr int64_t kRows = 2;
const Tile kTiles[2][kRows] = {{tile<1, 1>, tile<2, 1>}, {tile<1, 2>, tile<2, 2>}};
#endif

// c [m, n] = scale * a [m, k] b [k, n], where n is a multiple of 16; a may be read as transposed by its strides.
void multiply(const float* a, int64_t a_row, int64_t a_column, Matrix b, Matrix c, int64_t m, int64_t n, int64_t k,
              float scale) {
  const int64_t tiles = (m + kRows - 1) / kRows, rows = (m + tiles - 1) / tiles;
  for (int64_t i = 0; i < m; i += rows) {
    const int64_t here = std::min(rows, m - i);
    for (int64_t j = 0; j < n; j += 2 * kLanes) {
      const int vectors = n - j > kLanes ? 2 : 1;
      kTiles[vectors - 1][here - 1](a + i * a_row, a_row, a_column, b.data + j, b.row, c.data + i * c.row + j, c.row, k,
                                    scale);
    }
  }
}

// What a thread works in.
struct Space {
  std::vector<float> memory;
  float* transposed;     // [D, K padded], keys or values; the padding is zero
  float* probabilities;  // [Q, K padded]
  float* gradients;      // [Q, K padded]
  float* seen;           // [K padded], 1 for a key that is seen

  explicit Space(const Work& work) {
    const int64_t width = padded(work.length), scores = work.queries * width;
    memory.assign(work.features * width + 2 * scores + width, 0.0f);
    transposed = memory.data();
    probabilities = transposed + work.features * width;
    gradients = probabilities + scores;
    seen = gradients + scores;
  }

  void transpose(Matrix from, const Work& work) {
    const int64_t width = padded(work.length);
    for (int64_t j = 0; j < work.length; j++) {
      for (int64_t d = 0; d < work.features; d++) transposed[d * width + j] = from.data[j * from.row + d];
    }
  }
};

template <class Operation>
inline float folded(Lanes values, Operation operation) {
  float lanes[kLanes];
  std::memcpy(lanes, &values, sizeof lanes);
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; i++) lanes[i] = operation(lanes[i], lanes[i + half]);
  }
  return lanes[0];
}

// Turns a row of scores into probabilities, all zero where no key is seen. The first `count` keys that are marked in
// `seen` are; `width` is a multiple of 16.
inline void softmax(float* row, const float* seen, int64_t count, int64_t width) {
  constexpr float kLowest = -3.0e38f;
  float lanes[kLanes];
  Lanes largest = Lanes{} + kLowest, sum = {};
  for (int64_t start = 0; start < width; start += kLanes) {
#pragma omp simd
    for (int64_t i = 0; i < kLanes; i++) {
      const float score = row[start + i];
      lanes[i] = start + i < count && seen[start + i] != 0 ? score : kLowest;
    }
    const Lanes scores = load(lanes);
    largest = largest < scores ? scores : largest;
  }
  const float top = folded(largest, [](float a, float b) { return std::max(a, b); });
  for (int64_t start = 0; start < width; start += kLanes) {
#pragma omp simd
    for (int64_t i = 0; i < kLanes; i++) {
      const float value = exponential(row[start + i] - top);
      row[start + i] = start + i < count && seen[start + i] != 0 ? value : 0.0f;
    }
    sum += load(row + start);
  }
  const float total = folded(sum, [](float a, float b) { return a + b; });
  const float inverse = total == 0 ? 0.0f : 1.0f / total;  // no number stays none
#pragma omp simd
  for (int64_t i = 0; i < width; i++) row[i] *= inverse;
}

// Leaves the softmax of the scaled scores in space.probabilities.
void attend(const Work& work, Matrix q, Matrix k, int64_t batch, float scale, Space& space) {
  const int64_t width = padded(work.length);
  space.transpose(k, work);
  multiply(q.data, q.row, 1, {space.transposed, width}, {space.probabilities, width}, work.queries, width,
           work.features, scale);
  float* seen = space.seen;
  for (int64_t j = 0; j < work.length; j++) seen[j] = !work.keys || work.keys[batch * work.length + j] ? 1.0f : 0.0f;
  for (int64_t i = 0; i < work.queries; i++) {
    // With more keys than queries, the queries are the last ones.
    const int64_t count = work.causal ? i + 1 + work.length - work.queries : work.length;
    softmax(space.probabilities + i * width, seen, count, width);
  }
}

}  // namespace

// out = softmax(scale * q k^T) v.
extern "C" void locant_short_attention(const Work* work, const Heads* q, const Heads* k, const Heads* v,
                                       const Heads* out, float scale, int threads) {
  const int64_t width = padded(work->length);
#pragma omp parallel num_threads(threads)
  {
    Space space(*work);
#pragma omp for schedule(static)
    for (int64_t unit = 0; unit < work->batch * work->heads; unit++) {
      const int64_t b = unit / work->heads, h = unit % work->heads;
      attend(*work, q->at(b, h), k->at(b, h), b, scale, space);
      multiply(space.probabilities, width, 1, v->at(b, h), out->at(b, h), work->queries, work->features, work->length,
               1.0f);
    }
  }
}

// The gradients of q, k and v from that of the output.
extern "C" void locant_short_attention_backward(const Work* work, const Heads* q, const Heads* k, const Heads* v,
                                                const Heads* outer, const Heads* q_out, const Heads* k_out,
                                                const Heads* v_out, float scale, int threads) {
  const int64_t width = padded(work->length), queries = work->queries, features = work->features;
#pragma omp parallel num_threads(threads)
  {
    Space space(*work);
#pragma omp for schedule(static)
    for (int64_t unit = 0; unit < work->batch * work->heads; unit++) {
      const int64_t b = unit / work->heads, h = unit % work->heads;
      const Matrix above = outer->at(b, h);
      attend(*work, q->at(b, h), k->at(b, h), b, scale, space);
      multiply(space.probabilities, 1, width, above, v_out->at(b, h), work->length, features, queries, 1.0f);
      space.transpose(v->at(b, h), *work);
      multiply(above.data, above.row, 1, {space.transposed, width}, {space.gradients, width}, queries, width, features,
               1.0f);
      for (int64_t i = 0; i < queries; i++) {
        const float* probabilities = space.probabilities + i * width;
        float* gradients = space.gradients + i * width;
        float mean = 0;
#pragma omp simd reduction(+ : mean)
        for (int64_t j = 0; j < width; j++) mean += probabilities[j] * gradients[j];
#pragma omp simd
        for (int64_t j = 0; j < width; j++) gradients[j] = probabilities[j] * (gradients[j] - mean);
      }
      multiply(space.gradients, width, 1, k->at(b, h), q_out->at(b, h), queries, features, work->length, scale);
      multiply(space.gradients, 1, width, q->at(b, h), k_out->at(b, h), work->length, features, queries, scale);
    }
  }
}
