// The translation engine for browsers: translation.cpp in WebAssembly, with int8 weights that were quantised before.
//
// A page (app/web/engine.js) makes an engine, gives it its matrices one by one, and takes steps of a batch whose rows come
// and go. Numbers are 32 bits wide here, as JavaScript has them. What a function complains about is as in translation.cpp;
// where memory does not suffice the module stops.

#include "../translation.cpp"

#define LOCANT_EXPORTED(name) extern "C" __attribute__((export_name("locant_" #name)))

namespace {

// An engine with its tables of positions, as translation.cpp has them; without rows there are none.
struct Model {
  std::unique_ptr<Engine> engine;
  const float* positions[2] = {nullptr, nullptr};  // of source and target
  int64_t position_rows[2] = {0, 0};
};

// Rows being translated, with room for what goes in and out.
struct Search {
  explicit Search(const Model& model) : model(model), batch(*model.engine, 1) {}

  const Model& model;
  Batch batch;
  std::vector<int64_t> tokens, columns;
};

std::vector<int64_t> widened(const int32_t* from, int32_t count) { return {from, from + count}; }

}  // namespace

// Whether products are exact where this runs. To be called before all others.
LOCANT_EXPORTED(exact) int32_t is_exact() {
#ifdef __wasm_relaxed_simd__
  return find_byte_offset();
#else
  return true;
#endif
}

// Memory for what the page writes and reads.
LOCANT_EXPORTED(room) void* room(int32_t bytes) { return ::operator new(bytes, kLine); }
LOCANT_EXPORTED(free) void free_room(void* room) { ::operator delete(room, kLine); }

// Makes an engine of a shape, whose fields are those of Shape without the precision; its weights are to come.
LOCANT_EXPORTED(engine) Error new_engine(const int32_t* fields, Model** made) {
  auto model = std::make_unique<Model>();
  model->engine = std::make_unique<Engine>();
  const int32_t* f = fields;
  Shape& s = model->engine->shape;
  s = {f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8], f[9], kInt8, f[10], f[11], f[12], f[13]};
  const int64_t norms = 2 * s.encoder_layers + 3 * s.decoder_layers + (s.pre_norm ? 2 : 0);
  if (const Error found = check(s, 4 * s.encoder_layers + 7 * s.decoder_layers, norms)) return found;
  model->engine->encoder.resize(4 * s.encoder_layers);
  model->engine->decoder.resize(7 * s.decoder_layers);
  model->engine->encoder_norms.resize(2 * s.encoder_layers + (s.pre_norm ? 1 : 0));
  model->engine->decoder_norms.resize(3 * s.decoder_layers + (s.pre_norm ? 1 : 0));
  *made = model.release();
  return nullptr;
}

// Copies a matrix `[outputs, inputs]` of int8 with the scale of each output and its bias, which may be null. Matrices are
// numbered in the order of the layers, encoder first; the projection is the last.
LOCANT_EXPORTED(matrix) Error take_matrix(Model* model, int32_t number, const int8_t* weight, const float* scale,
                                          const float* bias) {
  Engine& engine = *model->engine;
  const int64_t e = engine.shape.d_model, f = engine.shape.d_ff, inner = f * (engine.shape.gated ? 2 : 1);
  const int64_t encoder[][2] = {{e, 3 * e}, {e, e}, {e, inner}, {f, e}};
  const int64_t decoder[][2] = {{e, 3 * e}, {e, e}, {e, e}, {e, 2 * e}, {e, e}, {e, inner}, {f, e}};
  const int64_t first = engine.encoder.size(), last = first + engine.decoder.size();
  if (number < 0 || number > last) return error_of("There is no matrix %lld.", number);
  if (number < first) {
    const int64_t* size = encoder[number % 4];
    engine.encoder[number].pack_quantized(weight, scale, bias, size[0], size[1]);
  } else if (number < last) {
    const int64_t* size = decoder[(number - first) % 7];
    engine.decoder[number - first].pack_quantized(weight, scale, bias, size[0], size[1]);
  } else {
    engine.projection.pack_quantized(weight, scale, bias, e, engine.shape.vocabulary);
  }
  return nullptr;
}

// Takes a norm, numbered like the matrices; scale and shift must outlive the engine.
LOCANT_EXPORTED(norm) Error take_norm(Model* model, int32_t number, const float* scale, const float* shift) {
  Engine& engine = *model->engine;
  const int64_t first = engine.encoder_norms.size(), all = first + engine.decoder_norms.size();
  if (number < 0 || number >= all) return error_of("There is no norm %lld.", number);
  (number < first ? engine.encoder_norms[number] : engine.decoder_norms[number - first]) = {scale, shift};
  return nullptr;
}

// Takes the embeddings and the table of positions of the source (0) or the target (1), which must outlive the
// engine. Without positions the rows are 0.
LOCANT_EXPORTED(side) Error take_side(Model* model, int32_t side, const float* embedding, const float* positions,
                                      int32_t rows) {
  if (side < 0 || side > 1) return error_of("There is no side %lld.", side);
  (side ? model->engine->target_embedding : model->engine->source_embedding) = embedding;
  model->positions[side] = rows ? positions : nullptr;
  model->position_rows[side] = rows;
  return nullptr;
}

// Makes a search without rows. It must not outlive the engine.
LOCANT_EXPORTED(search) Search* new_search(const Model* model) { return new Search(*model); }
LOCANT_EXPORTED(search_free) void free_search(Search* search) { delete search; }

// Encodes a sentence, which gets a row behind those there are.
LOCANT_EXPORTED(join) Error join(Search* search, const int32_t* tokens, int32_t count) {
  const std::vector<int64_t> wide = widened(tokens, count);
  const int64_t length = count;
  if (const Error found = locant_batch_join(&search->batch, 1, &length, wide.data(), count, search->model.positions[0],
                                            search->model.position_rows[0]))
    return found;
  int64_t unfinished;
  return locant_batch_encode(&search->batch, 0, &unfinished);  // does not pause here
}

// Decodes a token of every row and writes the k best next ones: log-probabilities `[rows, k]`, largest first, and tokens.
LOCANT_EXPORTED(step) Error take_step(Search* search, const int32_t* tokens, int32_t rows, int32_t k, float* values,
                                      int32_t* columns) {
  search->tokens = widened(tokens, rows);
  search->columns.resize(static_cast<size_t>(rows) * k);
  const Error found =
      locant_batch_step(&search->batch, search->tokens.data(), rows, search->model.positions[1],
                        search->model.position_rows[1], k, values, search->columns.data());
  if (!found) std::copy(search->columns.begin(), search->columns.end(), columns);
  return found;
}

// Keeps the rows named, in that order.
LOCANT_EXPORTED(select) Error keep(Search* search, const int32_t* rows, int32_t count) {
  const std::vector<int64_t> wide = widened(rows, count);
  if (!count) {
    search->batch.rows.clear();
    return nullptr;
  }
  return locant_batch_select(&search->batch, count, wide.data());
}
