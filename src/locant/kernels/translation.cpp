// Translation steps of an encoder-decoder Transformer on the CPU: the interface for Python, and what is wrong with a call.
//
// Matrices are float32, or bfloat16 with float32 sums, or int8 with a scale for each output and for each row of input; all
// other arithmetic is float32.
//
// Notation: E features of the model, F of the feed-forward, V vocabulary.

#include "decoding_step.h"  // first: it says how numbers are rounded

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "kernel_common.h"
#include "threads.h"

namespace {

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

Error check(const Shape& s, int64_t linears, int64_t norms) {
  const auto outside = [](int64_t size, int64_t least, int64_t most) { return size < least || size > most; };
  for (int64_t layers : {s.encoder_layers, s.decoder_layers})
    if (outside(layers, 0, kMostLayers)) return error_of("There is no model of %lld layers.", layers);
  for (int64_t size : {s.d_model, s.d_ff})
    if (outside(size, 1, kMostFeatures)) return error_of("There is no model of %lld features.", size);
  for (int64_t size : {s.source_vocabulary, s.vocabulary})
    if (outside(size, 1, kMostTokens)) return error_of("There is no vocabulary of %lld tokens.", size);
  if (outside(s.heads, 1, s.d_model) || s.d_model % s.heads)
    return error_of("%lld features cannot be shared by %lld heads.", s.d_model, s.heads);
  if (outside(s.rotated, 0, s.d_model / s.heads) || s.rotated % 2)
    return error_of("%lld of the %lld features of a head cannot be rotated in pairs.", s.rotated, s.d_model / s.heads);
  if (outside(s.activation, kRelu, kSigmoid)) return error_of("There is no activation %lld.", s.activation);
  if (!supported(s.precision)) return error_of("The kernels were not built for the precision %lld.", s.precision);
  if (s.precision == kInt8 && std::max(s.d_model, s.d_ff) > kMostBytes)
    return error_of("Sums of int8 hold at most %lld inputs, not %lld.", kMostBytes, std::max(s.d_model, s.d_ff));
  for (int64_t token : {s.padding, s.begin})
    if (outside(token, 0, s.vocabulary - 1))
      return error_of("Token %lld is outside the target vocabulary of %lld.", token, s.vocabulary);
  const int64_t all = 4 * s.encoder_layers + 7 * s.decoder_layers;
  if (linears != all) return error_of("The model has %lld matrices, not %lld.", all, linears);
  const int64_t own = 2 * s.encoder_layers + 3 * s.decoder_layers + (s.pre_norm ? 2 : 0);
  if (norms != own) return error_of("The model has %lld norms, not %lld.", own, norms);
  return nullptr;
}

Error check(const int64_t* tokens, int64_t count, int64_t vocabulary, const char* form) {
  if (count && !tokens) return error_of("There are no tokens.");
  for (int64_t i = 0; i < count; i++)
    if (tokens[i] < 0 || tokens[i] >= vocabulary) return error_of(form, tokens[i], vocabulary);
  return nullptr;
}

// What is wrong with sentences that are packed one after the other.
Error check(const Shape& s, int64_t sentences, const int64_t* lengths, const int64_t* tokens, int64_t count,
            const float* positions, int64_t position_rows) {
  if (sentences < 1 || sentences > count || count > kMostTokens || !lengths)
    return error_of("There is no batch of %lld sentences with %lld tokens.", sentences, count);
  int64_t sum = 0, longest = 0;
  for (int64_t b = 0; b < sentences; b++) {
    if (lengths[b] < 1 || lengths[b] > count - sum)
      return error_of("Sentence %lld has %lld tokens, but %lld are left.", b + 1, lengths[b], count - sum);
    sum += lengths[b], longest = std::max(longest, lengths[b]);
  }
  if (sum != count) return error_of("The sentences have %lld tokens, not %lld.", sum, count);
  if (s.rotated && !positions) return error_of("There are no positions to rotate by.");
  if (positions && longest > position_rows)
    return error_of("A sentence has %lld tokens, but positions are known for %lld.", longest, position_rows);
  return check(tokens, count, s.source_vocabulary, "Token %lld is outside the source vocabulary of %lld tokens.");
}

}  // namespace

extern "C" {

int locant_supports(int64_t precision) { return supported(precision); }

// Linears and norms in the order of the layers, encoder first, as many as are said; after the weights that of the
// projection, which has no bias. A bias may be null. Weights and biases are copied, norms (scale, then shift) and
// embeddings must outlive the engine, which is freed by locant_engine_free.
Error locant_engine(const Shape* shape, const float* const* weights, const float* const* biases, int64_t linears,
                    const float* const* norms, int64_t norm_count, const float* source_embedding,
                    const float* target_embedding, void** made) {
  if (const Error found = check(*shape, linears, norm_count)) return found;
  const auto none = [](const float* x) { return !x; };
  if (std::any_of(weights, weights + linears + 1, none) || std::any_of(norms, norms + 2 * norm_count, none) ||
      !source_embedding || !target_embedding)
    return error_of("The model lacks a weight.");
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
    return Error{};
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

// Makes a batch without rows, which is freed by locant_batch_free, before the engine.
Error locant_batch(const void* engine, int threads, void** made) {
  if (!some_threads(threads)) return error_of("There is no team of %lld threads.", threads);
  return within_memory([&] {
    *made = new Batch(*static_cast<const Engine*>(engine), threads);
    return Error{};
  });
}

// Begins to encode sentences, packed one after the other, of `count` tokens together; locant_batch_encode does it, after which
// each has a row behind those there are, whose first token is at position 0 whatever the others have decoded. `positions` is
// null, or a table of `position_rows` rows, which must outlive that: `[E]` codes that are added to the embeddings, or, where the
// shape says that features are rotated, `[rotated]`, the sines of the pairs and then their cosines. Whatever goes wrong, the
// batch stays as it was.
Error locant_batch_join(void* batch, int64_t sentences, const int64_t* lengths, const int64_t* tokens, int64_t count,
                        const float* positions, int64_t position_rows) {
  auto& found = *static_cast<Batch*>(batch);
  const Shape& s = found.engine.shape;
  if (found.encoding) return error_of("The sentences that came before are not encoded yet.");
  if (const Error wrong = check(s, sentences, lengths, tokens, count, positions, position_rows)) return wrong;
  return within_memory([&] {
    join(found, sentences, lengths, tokens, positions);
    return Error{};
  });
}

// Encodes the sentences that have joined. After some nanoseconds it pauses where that does no harm; `unfinished` receives
// whether it has, and is to be called again. Meanwhile the batch may take steps. Where memory fails it can be called again.
Error locant_batch_encode(void* batch, int64_t nanoseconds, int64_t* unfinished) {
  if (!unfinished) return error_of("There is no room for whether sentences are encoded.");
  return within_memory([&] {
    *unfinished = !encode(*static_cast<Batch*>(batch), locant::Deadline(nanoseconds));
    return Error{};
  });
}

// Drops the sentences that have joined and are not encoded yet.
void locant_batch_abandon(void* batch) { static_cast<Batch*>(batch)->encoding.reset(); }

// From now on there are so many threads at most.
Error locant_batch_threads(void* batch, int threads) {
  if (!some_threads(threads)) return error_of("There is no team of %lld threads.", threads);
  static_cast<Batch*>(batch)->threads = threads;
  return nullptr;
}

// The most tokens that a row has decoded: the next step needs a position more.
int64_t locant_batch_length(const void* batch) { return length_of(*static_cast<const Batch*>(batch)); }

// Keeps the rows named, at least one, in that order, and frees the sentences that have none left. Whatever goes wrong, the
// batch stays as it was.
Error locant_batch_select(void* batch, int64_t count, const int64_t* rows) {
  auto& found = *static_cast<Batch*>(batch);
  const auto present = static_cast<int64_t>(found.rows.size());
  if (count < 1 || count > kMostTokens || !rows) return error_of("There is no batch of %lld rows.", count);
  for (int64_t i = 0; i < count; i++) {
    if (rows[i] < 0 || rows[i] >= present) return error_of("There is no row %lld among %lld.", rows[i], present);
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
    return Error{};
  });
}

// Decodes one token of every row, which stands at the row's next position; `positions` as above. Without `columns`, `values`
// receives the log-probabilities of the whole vocabulary, whose size k then is, instead of the k best. Whatever goes wrong,
// the batch stays as it was.
Error locant_batch_step(void* batch, const int64_t* tokens, int64_t count, const float* positions,
                        int64_t position_rows, int64_t k, float* values, int64_t* columns) {
  auto& found = *static_cast<Batch*>(batch);
  const Shape& s = found.engine.shape;
  const auto present = static_cast<int64_t>(found.rows.size()), now = length_of(found);
  if (count != present) return error_of("%lld tokens were given for %lld rows.", count, present);
  if (s.rotated && !positions) return error_of("There are no positions to rotate by.");
  if (positions && now >= position_rows)
    return error_of("Position %lld is outside the %lld known positions.", now, position_rows);
  if (!values || k < 1 || (!columns && k != s.vocabulary))
    return error_of("There are no %lld log-probabilities of %lld tokens.", k, s.vocabulary);
  const auto form = "Token %lld is outside the target vocabulary of %lld tokens.";
  if (const Error wrong = check(tokens, count, s.vocabulary, form)) return wrong;
  return within_memory([&] {
    step(found, tokens, positions, k, values, columns);
    return Error{};
  });
}

void locant_batch_free(void* batch) { delete static_cast<Batch*>(batch); }

}  // extern "C"
