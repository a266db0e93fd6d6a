// A token of the decoder for each hypothesis of a batch, and the best tokens after it.

#pragma once

#include "translation_batch.h"  // first: it says how numbers are rounded

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace {

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
  const auto work = [&](Worker& worker, float* scores, int64_t first, int64_t) {
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
  const Task task{cuts, width, (longest + 63) / 64 * 64, engine.decoder_bytes};
  StageRunner(engine, batch.threads, task, 1, batch.spaces).advance(batch.threads, locant::Deadline(), work);
  for (int64_t i = 0; i < rows; i++) {
    batch.rows[i].past.push_back(here[i]);
    batch.rows[i].sentence->decoded++;
  }
}

}  // namespace
