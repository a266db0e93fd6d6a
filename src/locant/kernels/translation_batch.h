// Sentences that are translated together: the encoder, and one token of the decoder for each hypothesis at a time.
//
// A step is one piece of work for a team of threads. Many rows are cut into shares, which go through all layers apart; with few
// the threads share the columns of every matrix product. Sentences are packed without padding. Beams share the keys and values of
// their sentence, and a beam that changes its place changes an index, not a cache.

#pragma once

#include "transformer_layers.h"  // first: it says how numbers are rounded

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "threads.h"

namespace {

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

}  // namespace
