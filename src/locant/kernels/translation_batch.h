// Sentences that are translated together, and the encoder.
//
// Sentences are packed without padding. Beams share the keys and values of their sentence, and a beam that changes its place
// changes an index, not a cache.

#pragma once

#include "translation_engine.h"  // first: it says how numbers are rounded

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "threads.h"

namespace {

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

// Sentences that are being encoded, which may pause between the sub-layers of the encoder, and before each layer of the decoder
// has its keys and values of them. The table of positions must outlive it.
class Encoding {
 public:
  Encoding(const Engine& engine, int threads, int64_t sentences, const int64_t* lengths, const int64_t* tokens,
           const float* positions)
      : engine_(engine), positions_(positions), starts_{0}, made_(sentences) {
    for (int64_t b = 0; b < sentences; b++) {
      made_[b].sentence = std::make_shared<Sentence>(engine.shape, lengths[b]);
      for (int64_t i = 0; i < lengths[b]; i++) places_.push_back(i), owner_.push_back(b);
      starts_.push_back(starts_.back() + lengths[b]);
    }
    tokens_.assign(tokens, tokens + starts_.back());
    const Task task{starts_, 0, *std::max_element(lengths, lengths + sentences), engine.encoder_bytes};
    const int64_t stages = 1 + 2 * engine.shape.encoder_layers + engine.shape.decoder_layers;
    runner_ = std::make_unique<StageRunner>(engine, threads, task, stages, spaces_);
  }

  // Goes on until all sentences are encoded, which it returns, or a deadline has passed. Nothing here can fail but getting
  // threads, before anything is done.
  bool advance(int threads, const locant::Deadline& deadline) {
    return runner_->advance(threads, deadline, [this](Worker& worker, float* scores, int64_t first, int64_t stage) {
      if (stage == 0) {
        worker.embed(engine_.source_embedding, tokens_.data() + first, places(first), engine_.encoder_norms);
      } else if (const int64_t layers = 2 * engine_.shape.encoder_layers; stage <= layers) {
        take_sublayer(worker, scores, first, stage - 1);
      } else {
        keep_for_decoder(worker, first, stage - 1 - layers);
      }
    });
  }

  // A row for each sentence.
  std::vector<Row>& made() { return made_; }

 private:
  Places places(int64_t first) const { return {positions_, places_.data() + first}; }

  void take_sublayer(Worker& worker, float* scores, int64_t first, int64_t sublayer) const {
    const Shape& s = engine_.shape;
    const Linear* part = &engine_.encoder[sublayer / 2 * 4];
    if (sublayer % 2) return worker.feed_forward(part[2], part[3], engine_.encoder_norms, sublayer);
    const auto attend = [&](int64_t row, const float* query, float* context) {
      const float* all = worker.product();
      const int64_t sentence = owner_[first + row], begin = starts_[sentence] - first, stride = part[0].stride();
      const auto key = [&](int64_t i) { return all + (begin + i) * stride + s.d_model; };
      const auto value = [&](int64_t i) { return key(i) + s.d_model; };
      attend_row(s, query, starts_[sentence + 1] - starts_[sentence], key, value, scores, context);
    };
    worker.self_attention(part[0], part[1], engine_.encoder_norms, sublayer, places(first), attend);
  }

  // Makes the keys and values that a layer of the decoder attends to.
  void keep_for_decoder(Worker& worker, int64_t first, int64_t layer) const {
    const Shape& s = engine_.shape;
    const Linear& both = engine_.decoder[layer * 7 + 3];
    worker.multiply(both, worker.input());
    worker.each_row([&](int64_t row) {
      const Sentence& sentence = *made_[owner_[first + row]].sentence;
      const float* from = worker.product() + row * both.stride();
      std::memcpy(sentence.source(s, layer, places_[first + row]), from, 2 * s.d_model * sizeof(float));
    });
  }

  const Engine& engine_;
  const float* positions_;
  std::vector<int64_t> tokens_, starts_, places_, owner_;  // first token of each sentence, and the end; of each token
  std::vector<Row> made_;
  std::vector<Workspace> spaces_;
  std::unique_ptr<StageRunner> runner_;
};

// Sentences being translated, each of which may have come at another time.
struct Batch {
  Batch(const Engine& engine, int threads) : engine(engine), threads(threads) {}

  const Engine& engine;
  int threads;
  std::vector<Row> rows;
  std::vector<Workspace> spaces;
  std::unique_ptr<Encoding> encoding;  // of sentences that come, if any do
};

// Begins to encode sentences, packed one after the other, which get a row each when they are encoded.
void join(Batch& batch, int64_t sentences, const int64_t* lengths, const int64_t* tokens, const float* positions) {
  batch.encoding = std::make_unique<Encoding>(batch.engine, batch.threads, sentences, lengths, tokens, positions);
}

// Goes on with that until it is done, which it returns, or a deadline has passed. Where memory fails nothing has changed.
bool encode(Batch& batch, const locant::Deadline& deadline) {
  if (!batch.encoding) return true;
  std::vector<Row>& made = batch.encoding->made();
  batch.rows.reserve(batch.rows.size() + made.size());
  if (!batch.encoding->advance(batch.threads, deadline)) return false;
  for (Row& row : made) batch.rows.push_back(std::move(row));
  batch.encoding.reset();
  return true;
}

}  // namespace
