// Translation steps of an encoder-decoder Transformer on the CPU: the encoder, and one token of the decoder at a time.
//
// A step is one piece of work for a team of threads. Many rows are cut into shares, which go through all layers apart; with few
// the threads share the columns of every matrix product. Matrices are float32, or bfloat16 with float32 sums, or int8 with a scale for
// each output and for each row of input; all other arithmetic is float32. Sentences are packed without padding. Beams share
// the keys and values of their sentence, and a beam that changes its place changes an index, not a cache.
//
// Notation: M rows, E features of the model, F of the feed-forward, V vocabulary.

#include "matrix_products.h"  // first: it says how numbers are rounded

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "kernel_common.h"
#include "threads.h"

namespace {

// Rows up to which whoever ends a product computes what follows from it for all: handing rows over would cost more.
constexpr int64_t kRowsTogether = 4;

// Parts of a section for each thread: a thread that is late, or loses its core, holds up the others for one of them.
constexpr int64_t kPartsOfAThread = 4;

// What a thread must have to do: bytes of weights times rows, about a third of a millisecond. For less, two threads take
// hardly less time than one and much more of the processors': one has to be woken, hands results over, and stays awake at
// the end. A row takes about as long as four, because reading the weights takes longer than multiplying by them.
#ifdef LOCANT_LEAST_WORK
constexpr int64_t kLeastWork = LOCANT_LEAST_WORK;  // of tests, which have small models
#else
constexpr int64_t kLeastWork = 24 << 20;
#endif
constexpr int64_t kRowsOfReading = 4;

// Rows a thread from which threads share nothing: each then reads all weights, which is dear where they do not fit the
// caches.
constexpr int64_t kRowsApart = 4, kRowsApartUncached = 32;
constexpr int64_t kCachedBytes = 16 << 20;

// Rows that go through all layers together where there are many: as many as have their widest product, the logits of a
// decoder, in half of a core's own cache, and at least as many as make up for reading the weights again.
constexpr int64_t kShareBytes = 512 << 10, kLeastShare = 16;

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
inline float error_function(float x) {
  const float size = std::fabs(x), t = 1.0f / (1.0f + 0.3275911f * size);
  const float sum = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
  return std::copysign(1.0f - sum * exponential(-size * size), x);
}

inline void activate(int64_t kind, float* x, int64_t size) {
  switch (kind) {
    case kRelu:
#pragma omp simd
      for (int64_t i = 0; i < size; i++) x[i] = std::max(x[i], 0.0f);
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

// Linears of an encoder layer: qkv, output, inner, outer. Of a decoder layer: qkv, output, query, key-value, output,
// inner, outer. Norms: one for each sub-layer; pre-norm has one more at the end of each stack.
struct Engine {
  Shape shape;
  std::vector<Linear> encoder, decoder;
  Linear projection;
  std::vector<Norm> encoder_norms, decoder_norms;
  const float* source_embedding = nullptr;
  const float* target_embedding = nullptr;
  int64_t encoder_bytes = 0, decoder_bytes = 0;  // of the matrices that a token goes through
  int64_t rows_apart = 0;
};

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

// Tokens whose keys and values lie together in a block: [layers, kBlock, 2 E].
constexpr int64_t kBlock = 8;

// A sentence being translated: keys and values of its source, and of all that its rows have decoded. It is freed with the
// last of its rows.
struct Sentence {
  Sentence(const Shape& s, int64_t tokens) : tokens(tokens), cross(s.decoder_layers * tokens * 2 * s.d_model) {}

  // Keys and values of a source token.
  float* source(const Shape& s, int64_t layer, int64_t token) const {
    return cross.get() + (layer * tokens + token) * 2 * s.d_model;
  }

  // Where the first layer keeps the keys and values of a decoded token; there is a new block where it needs one.
  float* target(const Shape& s, int64_t token) {
    if (token / kBlock == static_cast<int64_t>(blocks.size()))
      blocks.emplace_back(std::max<int64_t>(1, s.decoder_layers) * kBlock * 2 * s.d_model);
    return blocks[token / kBlock].get() + token % kBlock * 2 * s.d_model;
  }

  const int64_t tokens;
  const Buffer<float> cross;
  std::vector<Buffer<float>> blocks;
  int64_t decoded = 0, decoding = 0;  // tokens of all its rows: before this step, and in it
};

// A hypothesis: its sentence, and where the first layer keeps the keys and values of each of its tokens. Those of the next
// layer are kBlock * 2 E further on.
struct Row {
  std::shared_ptr<Sentence> sentence;
  std::vector<const float*> past;
};

// Sentences being translated, each of which may have come at another time.
struct Batch {
  Batch(const Engine& engine, int threads) : engine(engine), threads(threads) {}

  const Engine& engine;
  int threads;
  std::vector<Row> rows;
  std::vector<Workspace> spaces;
};

// Rows to work on.
struct Task {
  const std::vector<int64_t>& cuts;  // the rows at which work may be divided, and the end
  int64_t width;                     // of the widest product, if it is none of a layer
  int64_t keys;                      // most keys that a row attends to
  int64_t bytes;                     // of the weights that a row goes through
};

// How many threads are worth their cost, of those that there may be.
int worth(int threads, int64_t rows, int64_t bytes) {
  const int64_t work = bytes * std::max(rows, kRowsOfReading);
  return static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(threads, work / kLeastWork)));
}

// Rows that go through all layers together where there are many, by the columns of the widest product.
int64_t rows_together(const Engine& engine, int64_t widest) {
  return std::max({kLeastShare, engine.rows_apart, kShareBytes / (widest * int64_t{sizeof(float)})});
}

// Runs `work(worker, scores, first row)` on all rows. Many are cut into shares, which threads take one after the other and
// nobody waits for; with few rows threads share every product. All memory is made before the threads begin.
template <class Work>
void in_parallel(const Engine& engine, int most, std::vector<Workspace>& spaces, const Task& task, const Work& work) {
  const Shape& shape = engine.shape;
  const int64_t rows = task.cuts.back(), parts = static_cast<int64_t>(task.cuts.size()) - 1;
  const int threads = worth(most, rows, task.bytes);
  const int64_t widest = Workspace::widest(shape, task.width);
  const int64_t shares = std::min(parts, std::max<int64_t>(threads, rows / rows_together(engine, widest)));
  const bool apart = shares >= threads && shares > 1 && rows >= engine.rows_apart * shares;
  if (spaces.size() < static_cast<size_t>(threads)) spaces.resize(threads);
  for (int thread = 0; thread < threads; thread++) spaces[thread].scores.resize(shape.heads * task.keys);
  if (!apart) {
    spaces[0].resize(shape, rows, widest);
    locant::in_team(threads, [&](const locant::Member& member) {
      work(Worker(shape, spaces[0], member, rows), spaces[member.number()].scores.get(), 0);
    });
    return;
  }
  const auto share = [&](int64_t number) {
    const Range mine = Share{number, shares}.of(parts);
    return Range{task.cuts[mine.begin], task.cuts[mine.end]};
  };
  int64_t largest = 0;
  for (int64_t number = 0; number < shares; number++) largest = std::max(largest, share(number).end - share(number).begin);
  for (int thread = 0; thread < threads; thread++) spaces[thread].resize(shape, largest, widest);
  locant::parallel_for(shares, 1, threads, [&](int64_t number, int64_t, int thread) {
    const Range mine = share(number);
    const Workspace& space = spaces[thread];
    work(Worker(shape, space, locant::Member(), mine.end - mine.begin), space.scores.get(), mine.begin);
  });
}

// Encodes sentences, packed one after the other, and adds a row for each. Where memory fails there are none of them.
void encode(Batch& batch, int64_t sentences, const int64_t* lengths, const int64_t* tokens, const float* positions) {
  const Engine& engine = batch.engine;
  const Shape& s = engine.shape;
  const int64_t e = s.d_model;
  std::vector<int64_t> starts{0}, places, owner;  // first token of each sentence, and the end; of each token
  std::vector<Row> made(sentences);
  int64_t longest = 0;
  for (int64_t b = 0; b < sentences; b++) {
    made[b].sentence = std::make_shared<Sentence>(s, lengths[b]);
    longest = std::max(longest, lengths[b]);
    for (int64_t i = 0; i < lengths[b]; i++) places.push_back(i), owner.push_back(b);
    starts.push_back(starts.back() + lengths[b]);
  }
  batch.rows.reserve(batch.rows.size() + made.size());
  std::vector<Workspace> spaces;
  const auto work = [&](Worker worker, float* scores, int64_t first) {
    const Places own{positions, places.data() + first};
    worker.embed(engine.source_embedding, tokens + first, own, engine.encoder_norms);
    for (int64_t layer = 0; layer < s.encoder_layers; layer++) {
      const Linear* part = &engine.encoder[layer * 4];
      const auto attend = [&](int64_t row, const float* query, float* context) {
        const float* all = worker.product();
        const int64_t sentence = owner[first + row], begin = starts[sentence] - first, stride = part[0].stride();
        const auto key = [&](int64_t i) { return all + (begin + i) * stride + e; };
        const auto value = [&](int64_t i) { return key(i) + e; };
        attend_row(s, query, lengths[sentence], key, value, scores, context);
      };
      worker.self_attention(part[0], part[1], engine.encoder_norms, 2 * layer, own, attend);
      worker.feed_forward(part[2], part[3], engine.encoder_norms, 2 * layer + 1);
    }
    for (int64_t layer = 0; layer < s.decoder_layers; layer++) {
      const Linear& both = engine.decoder[layer * 7 + 3];
      worker.multiply(both, worker.input());
      worker.each_row([&](int64_t row) {
        const Sentence& sentence = *made[owner[first + row]].sentence;
        const float* from = worker.product() + row * both.stride();
        std::memcpy(sentence.source(s, layer, places[first + row]), from, 2 * e * sizeof(float));
      });
    }
  };
  in_parallel(engine, batch.threads, spaces, {starts, 0, longest, engine.encoder_bytes}, work);
  for (Row& row : made) batch.rows.push_back(std::move(row));
}

// Returns what a row's logits exceed its log-probabilities by, and rules out the tokens that are never written.
float normaliser_of(const Shape& s, float* logits) {
  const float highest = largest_of(logits, s.vocabulary);
  constexpr int64_t block = 4 * Sum::kWidth;
  float sum = 0, powers[block];
  for (int64_t start = 0; start < s.vocabulary; start += block) {
    const int64_t size = std::min(block, s.vocabulary - start);
#pragma omp simd
    for (int64_t i = 0; i < size; i++) powers[i] = exponential(logits[start + i] - highest);
    sum += sum_of(powers, size, [](auto x) { return x; });
  }
  logits[s.padding] = logits[s.begin] = -std::numeric_limits<float>::infinity();
  return highest + std::log(sum);
}

// Writes a row's log-probabilities, one for each token of the vocabulary.
void all(const Shape& s, float* logits, float* values) {
  const float normaliser = normaliser_of(s, logits);
  for (int64_t i = 0; i < s.vocabulary; i++) values[i] = logits[i] - normaliser;
}

// Writes the k largest of a row's log-probabilities and their columns, largest first.
void best(const Shape& s, float* logits, int64_t k, float* values, int64_t* columns) {
  const float normaliser = normaliser_of(s, logits);
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

// The most tokens that a row has decoded.
int64_t length_of(const Batch& batch) {
  size_t length = 0;
  for (const Row& row : batch.rows) length = std::max(length, row.past.size());
  return static_cast<int64_t>(length);
}

// Decodes a token of each row. Where memory fails, no row has decoded it.
void step(Batch& batch, const int64_t* tokens, const float* positions, int64_t k, float* values, int64_t* columns) {
  const Engine& engine = batch.engine;
  const Shape& s = engine.shape;
  const int64_t rows = static_cast<int64_t>(batch.rows.size()), e = s.d_model;
  int64_t longest = length_of(batch) + 1;
  std::vector<int64_t> times(rows), cuts(rows + 1);
  std::vector<float*> here(rows);  // where the first layer keeps the keys and values of the token
  for (const Row& row : batch.rows) row.sentence->decoding = 0;
  for (int64_t i = 0; i < rows; i++) {
    Row& row = batch.rows[i];
    Sentence& sentence = *row.sentence;
    times[i] = static_cast<int64_t>(row.past.size()), cuts[i + 1] = i + 1;
    longest = std::max(longest, sentence.tokens);
    here[i] = sentence.target(s, sentence.decoded + sentence.decoding++);
    if (row.past.size() == row.past.capacity()) row.past.reserve(2 * row.past.size() + kBlock);
  }
  const int64_t width = engine.projection.stride();
  const auto work = [&](Worker worker, float* scores, int64_t first) {
    const Places own{positions, times.data() + first};
    worker.embed(engine.target_embedding, tokens + first, own, engine.decoder_norms);
    for (int64_t layer = 0; layer < s.decoder_layers; layer++) {
      const Linear* part = &engine.decoder[layer * 7];
      const int64_t further = layer * kBlock * 2 * e;
      const auto attend = [&](int64_t row, const float* query, float* context) {
        const float* const* past = batch.rows[first + row].past.data();
        const int64_t now = times[first + row];
        const auto key = [&](int64_t i) { return i == now ? query + e : past[i] + further; };
        const auto value = [&](int64_t i) { return key(i) + e; };
        attend_row(s, query, now + 1, key, value, scores, context);
        std::memcpy(here[first + row] + further, query + e, 2 * e * sizeof(float));  // nobody reads it in this step
      };
      worker.self_attention(part[0], part[1], engine.decoder_norms, 3 * layer, own, attend);
      const auto attend_source = [&](int64_t row, const float* query, float* context) {
        const Sentence& sentence = *batch.rows[first + row].sentence;
        const float* source = sentence.source(s, layer, 0);
        const auto key = [&](int64_t i) { return source + i * 2 * e; };
        const auto value = [&](int64_t i) { return key(i) + e; };
        attend_row(s, query, sentence.tokens, key, value, scores, context);
      };
      worker.attention(part[2], part[4], engine.decoder_norms, 3 * layer + 1, attend_source);
      worker.feed_forward(part[5], part[6], engine.decoder_norms, 3 * layer + 2);
    }
    worker.multiply(engine.projection, worker.input());
    worker.each_row([&](int64_t row) {
      float* logits = worker.product() + row * width;
      if (columns)
        best(s, logits, k, values + (first + row) * k, columns + (first + row) * k);
      else
        all(s, logits, values + (first + row) * s.vocabulary);
    });
  };
  in_parallel(engine, batch.threads, batch.spaces, {cuts, width, (longest + 63) / 64 * 64, engine.decoder_bytes}, work);
  for (int64_t i = 0; i < rows; i++) {
    batch.rows[i].past.push_back(here[i]);
    batch.rows[i].sentence->decoded++;
  }
}

// Sizes up to these give products that count without overflow.
constexpr int64_t kMostLayers = 1 << 12, kMostFeatures = 1 << 24, kMostTokens = int64_t{1} << 31;
// Inputs of an int8 product whose sums fit 32 bits.
constexpr int64_t kMostBytes = 1 << 16;

bool supported(int64_t precision) {
#ifdef LOCANT_INT8
  if (precision == kInt8) return true;
#endif
#ifdef LOCANT_BFLOAT16
  if (precision == kBFloat16) return true;
#endif
  return precision == kFloat32;
}

Complaint complaint_about(const Shape& s, int64_t linears, int64_t norms) {
  const auto outside = [](int64_t size, int64_t least, int64_t most) { return size < least || size > most; };
  for (int64_t layers : {s.encoder_layers, s.decoder_layers})
    if (outside(layers, 0, kMostLayers)) return complain("There is no model of %lld layers.", layers);
  for (int64_t size : {s.d_model, s.d_ff})
    if (outside(size, 1, kMostFeatures)) return complain("There is no model of %lld features.", size);
  for (int64_t size : {s.source_vocabulary, s.vocabulary})
    if (outside(size, 1, kMostTokens)) return complain("There is no vocabulary of %lld tokens.", size);
  if (outside(s.heads, 1, s.d_model) || s.d_model % s.heads)
    return complain("%lld features cannot be shared by %lld heads.", s.d_model, s.heads);
  if (outside(s.rotated, 0, s.d_model / s.heads) || s.rotated % 2)
    return complain("%lld of the %lld features of a head cannot be rotated in pairs.", s.rotated, s.d_model / s.heads);
  if (outside(s.activation, kRelu, kSigmoid)) return complain("There is no activation %lld.", s.activation);
  if (!supported(s.precision)) return complain("The kernels were not built for the precision %lld.", s.precision);
  if (s.precision == kInt8 && std::max(s.d_model, s.d_ff) > kMostBytes)
    return complain("Sums of int8 hold at most %lld inputs, not %lld.", kMostBytes, std::max(s.d_model, s.d_ff));
  for (int64_t token : {s.padding, s.begin})
    if (outside(token, 0, s.vocabulary - 1))
      return complain("Token %lld is outside the target vocabulary of %lld.", token, s.vocabulary);
  const int64_t all = 4 * s.encoder_layers + 7 * s.decoder_layers;
  if (linears != all) return complain("The model has %lld matrices, not %lld.", all, linears);
  const int64_t own = 2 * s.encoder_layers + 3 * s.decoder_layers + (s.pre_norm ? 2 : 0);
  if (norms != own) return complain("The model has %lld norms, not %lld.", own, norms);
  return nullptr;
}

Complaint complaint_about(const int64_t* tokens, int64_t count, int64_t vocabulary, const char* form) {
  if (count && !tokens) return complain("There are no tokens.");
  for (int64_t i = 0; i < count; i++)
    if (tokens[i] < 0 || tokens[i] >= vocabulary) return complain(form, tokens[i], vocabulary);
  return nullptr;
}

// What is wrong with sentences that are packed one after the other.
Complaint complaint_about(const Shape& s, int64_t sentences, const int64_t* lengths, const int64_t* tokens, int64_t count,
                          const float* positions, int64_t position_rows) {
  if (sentences < 1 || sentences > count || count > kMostTokens || !lengths)
    return complain("There is no batch of %lld sentences with %lld tokens.", sentences, count);
  int64_t sum = 0, longest = 0;
  for (int64_t b = 0; b < sentences; b++) {
    if (lengths[b] < 1 || lengths[b] > count - sum)
      return complain("Sentence %lld has %lld tokens, but %lld are left.", b + 1, lengths[b], count - sum);
    sum += lengths[b], longest = std::max(longest, lengths[b]);
  }
  if (sum != count) return complain("The sentences have %lld tokens, not %lld.", sum, count);
  if (s.rotated && !positions) return complain("There are no positions to rotate by.");
  if (positions && longest > position_rows)
    return complain("A sentence has %lld tokens, but positions are known for %lld.", longest, position_rows);
  return complaint_about(tokens, count, s.source_vocabulary, "Token %lld is outside the source vocabulary of %lld tokens.");
}

}  // namespace

extern "C" {

int locant_supports(int64_t precision) { return supported(precision); }

// Linears and norms in the order of the layers, encoder first, as many as are said; after the weights that of the
// projection, which has no bias. A bias may be null. Weights and biases are copied, norms (scale, then shift) and
// embeddings must outlive the engine, which is freed by locant_engine_free.
Complaint locant_engine(const Shape* shape, const float* const* weights, const float* const* biases, int64_t linears,
                        const float* const* norms, int64_t norm_count, const float* source_embedding,
                        const float* target_embedding, void** made) {
  if (const Complaint found = complaint_about(*shape, linears, norm_count)) return found;
  const auto none = [](const float* x) { return !x; };
  if (std::any_of(weights, weights + linears + 1, none) || std::any_of(norms, norms + 2 * norm_count, none) ||
      !source_embedding || !target_embedding)
    return complain("The model lacks a weight.");
  return within_memory([&] {
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
    const int64_t bytes = bytes_of(shape->precision);
    engine->decoder_bytes = bytes * engine->projection.size();
    for (const auto& linear : engine->encoder) engine->encoder_bytes += bytes * linear.size();
    for (size_t i = 0; i < engine->decoder.size(); i++)  // keys and values of the source are the encoder's to make
      (i % 7 == 3 ? engine->encoder_bytes : engine->decoder_bytes) += bytes * engine->decoder[i].size();
    engine->rows_apart = engine->decoder_bytes <= kCachedBytes ? kRowsApart : kRowsApartUncached;
    *made = engine.release();
    return Complaint{};
  });
}

void locant_engine_free(void* engine) { delete static_cast<Engine*>(engine); }

// For a caller that has threads of its own, each with some of the rows that are decoded: from how many rows for each that is
// better than a team that shares all of them, and how many are best.
void locant_engine_rows(const void* engine, int64_t* least, int64_t* best) {
  const auto& found = *static_cast<const Engine*>(engine);
  *least = found.rows_apart;
  *best = rows_together(found, Workspace::widest(found.shape, found.projection.stride()));
}

int64_t locant_engine_vocabulary(const void* engine) { return static_cast<const Engine*>(engine)->shape.vocabulary; }

// Encodes sentences, packed one after the other, of `count` tokens together. `positions` is null, or a table of
// `position_rows` rows: `[E]` codes that are added to the embeddings, or, where the shape says that features are rotated,
// `[rotated]`, the sines of the pairs and then their cosines. What is made is freed by locant_batch_free, before the engine.
Complaint locant_batch(const void* engine, int threads, int64_t sentences, const int64_t* lengths,
                       const int64_t* tokens, int64_t count, const float* positions, int64_t position_rows,
                       void** made) {
  const auto& found = *static_cast<const Engine*>(engine);
  if (!some_threads(threads)) return complain("There is no team of %lld threads.", threads);
  if (const Complaint wrong = complaint_about(found.shape, sentences, lengths, tokens, count, positions, position_rows))
    return wrong;
  return within_memory([&] {
    auto batch = std::make_unique<Batch>(found, threads);
    encode(*batch, sentences, lengths, tokens, positions);
    *made = batch.release();
    return Complaint{};
  });
}

// Encodes more sentences, as locant_batch does; each has a row after those there are, and its first token is at position
// 0 whatever the others have decoded. Whatever goes wrong, the batch stays as it was.
Complaint locant_batch_join(void* batch, int64_t sentences, const int64_t* lengths, const int64_t* tokens, int64_t count,
                            const float* positions, int64_t position_rows) {
  auto& found = *static_cast<Batch*>(batch);
  const Shape& s = found.engine.shape;
  if (const Complaint wrong = complaint_about(s, sentences, lengths, tokens, count, positions, position_rows)) return wrong;
  return within_memory([&] {
    encode(found, sentences, lengths, tokens, positions);
    return Complaint{};
  });
}

// From now on there are so many threads at most.
Complaint locant_batch_threads(void* batch, int threads) {
  if (!some_threads(threads)) return complain("There is no team of %lld threads.", threads);
  static_cast<Batch*>(batch)->threads = threads;
  return nullptr;
}

// The most tokens that a row has decoded: the next step needs a position more.
int64_t locant_batch_length(const void* batch) { return length_of(*static_cast<const Batch*>(batch)); }

// Keeps the rows named, at least one, in that order, and frees the sentences that have none left. Whatever goes wrong, the
// batch stays as it was.
Complaint locant_batch_select(void* batch, int64_t count, const int64_t* rows) {
  auto& found = *static_cast<Batch*>(batch);
  const auto present = static_cast<int64_t>(found.rows.size());
  if (count < 1 || count > kMostTokens || !rows) return complain("There is no batch of %lld rows.", count);
  for (int64_t i = 0; i < count; i++) {
    if (rows[i] < 0 || rows[i] >= present) return complain("There is no row %lld among %lld.", rows[i], present);
  }
  return within_memory([&] {
    std::vector<Row> kept(count);
    for (int64_t i = 0; i < count; i++) {
      const Row& row = found.rows[rows[i]];
      kept[i].sentence = row.sentence;
      kept[i].past.reserve(row.past.size() + 1);  // for the next token too
      kept[i].past = row.past;
    }
    found.rows.swap(kept);
    return Complaint{};
  });
}

// Decodes one token of every row, which stands at the row's next position; `positions` as above. Without `columns`, `values`
// receives the log-probabilities of the whole vocabulary, whose size k then is, instead of the k best. Whatever goes wrong,
// the batch stays as it was.
Complaint locant_batch_step(void* batch, const int64_t* tokens, int64_t count, const float* positions,
                            int64_t position_rows, int64_t k, float* values, int64_t* columns) {
  auto& found = *static_cast<Batch*>(batch);
  const Shape& s = found.engine.shape;
  const auto present = static_cast<int64_t>(found.rows.size()), now = length_of(found);
  if (count != present) return complain("%lld tokens were given for %lld rows.", count, present);
  if (s.rotated && !positions) return complain("There are no positions to rotate by.");
  if (positions && now >= position_rows)
    return complain("Position %lld is outside the %lld known positions.", now, position_rows);
  if (!values || k < 1 || (!columns && k != s.vocabulary))
    return complain("There are no %lld log-probabilities of %lld tokens.", k, s.vocabulary);
  const auto form = "Token %lld is outside the target vocabulary of %lld tokens.";
  if (const Complaint wrong = complaint_about(tokens, count, s.vocabulary, form)) return wrong;
  return within_memory([&] {
    step(found, tokens, positions, k, values, columns);
    return Complaint{};
  });
}

void locant_batch_free(void* batch) { delete static_cast<Batch*>(batch); }

}  // extern "C"
