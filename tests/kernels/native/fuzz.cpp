// Calls the C interface of the kernels with random sizes and contents, right and wrong, and with memory that fails.
//
//   fuzz SEED ROUNDS
//
// Every array has exactly the size that the interface asks for and lies alone on the heap, so that a sanitizer sees each
// step beyond. A right call must be done; a wrong one refused in a sentence; one whose memory fails must say so, and leave
// a batch as it was. Ends with code 1 and a line at the first that is otherwise.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

extern "C" {
using Said = const char*;
Said locant_attention(const void* work, const void* q, const void* k, const void* v, const void* out, int small,
                      float scale, int threads);
Said locant_attention_backward(const void* work, const void* q, const void* k, const void* v, const void* outer,
                               const void* q_out, const void* k_out, const void* v_out, int small, float scale,
                               int threads);
Said locant_cross_entropy(void* logits, int small, const int64_t* labels, int64_t rows, int64_t vocabulary,
                          float smoothing, int gradient, double* sums, int threads);
Said locant_accumulate(const void* from, float* to, int64_t size, int threads);
Said locant_layer_norm(const void* work, const void* x, const void* residual, const float* gamma, const float* beta,
                       void* out, void* normalised, float* inverse, float scale, float epsilon, int small_x,
                       int small_out);
Said locant_layer_norm_backward(const void* work, const void* outer, const void* normalised, const float* inverse,
                                const float* gamma, void* of_x, void* of_residual, float* sums, float scale, int small_x,
                                int small_out);
Said locant_rotate_float32(const void* works, int count, int interleaved, int threads);
Said locant_rotate_bfloat16(const void* works, int count, int interleaved, int threads);
int locant_supports(int64_t precision);
Said locant_engine(const void* shape, const float* const* weights, const float* const* biases, int64_t linears,
                   const float* const* norms, int64_t norm_count, const float* source, const float* target, void** made);
void locant_engine_free(void* engine);
Said locant_batch(const void* engine, int threads, void** made);
Said locant_batch_join(void* batch, int64_t sentences, const int64_t* lengths, const int64_t* tokens, int64_t count,
                       const float* positions, int64_t position_rows);
Said locant_batch_encode(void* batch, int64_t nanoseconds, int64_t* unfinished);
void locant_batch_abandon(void* batch);
int64_t locant_batch_length(const void* batch);
Said locant_batch_select(void* batch, int64_t count, const int64_t* rows);
Said locant_batch_step(void* batch, const int64_t* tokens, int64_t count, const float* positions, int64_t position_rows,
                       int64_t k, float* values, int64_t* columns);
void locant_batch_free(void* batch);
struct SearchOptions {
  int64_t number, beam, limit, n_best, prefix;
  double alpha, temperature = 0;
  int64_t top_k = 0;
  uint64_t seed = 0, stream = 0;
};
Said locant_search(const void* engine, int threads, int64_t end, void** made);
void locant_search_free(void* search);
Said locant_search_threads(void* search, int threads);
int64_t locant_search_length(const void* search);
Said locant_search_join(void* search, int64_t sentences, const int64_t* lengths, const int64_t* tokens, int64_t count,
                        const float* positions, int64_t position_rows, const SearchOptions* options, const int64_t* prefixes,
                        int64_t prefix_tokens);
Said locant_search_encode(void* search, int64_t nanoseconds, int64_t* unfinished);
void locant_search_remove(void* search, int64_t number);
Said locant_search_steps(void* search, const float* positions, int64_t position_rows, int64_t most, int64_t first,
                         int64_t nanoseconds, int64_t* sizes);
void locant_search_take(void* search, int64_t* integers, float* totals);
}

// ---------------------------------------------------------------------------------------------- memory that fails

std::atomic<int64_t> left_before_failure{-1};

void* take(size_t size, size_t alignment) {
  if (left_before_failure.load() >= 0 && left_before_failure.fetch_sub(1) == 0) return nullptr;
  const size_t bytes = (std::max<size_t>(size, 1) + alignment - 1) / alignment * alignment;
  return alignment > 16 ? std::aligned_alloc(alignment, bytes) : std::malloc(std::max<size_t>(size, 1));
}

void* operator new(size_t size) {
  void* found = take(size, 16);
  if (!found) throw std::bad_alloc();
  return found;
}
void* operator new[](size_t size) { return operator new(size); }
void* operator new(size_t size, std::align_val_t alignment) {
  void* found = take(size, static_cast<size_t>(alignment));
  if (!found) throw std::bad_alloc();
  return found;
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete[](void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }
void operator delete[](void* data, size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, size_t, std::align_val_t) noexcept { std::free(data); }

// ------------------------------------------------------------------------------------------------------ judgement

[[noreturn]] void fail(const std::string& what) {
  std::printf("%s\n", what.c_str());
  std::exit(1);
}

void done(const char* what, Said said) {
  if (said) fail(std::string(what) + " should be done, but: " + (*said ? said : "no memory"));
}

void refused(const char* what, Said said) {
  if (!said || !*said) fail(std::string(what) + " should be refused");
}

// Makes each allocation of a call fail in turn, until it needs no more; the last call is done.
void in_any_memory(const char* what, const std::function<Said()>& call) {
  for (int64_t allowed = 0;; allowed++) {
    left_before_failure = allowed;
    const Said said = call();
    const bool failed = left_before_failure.exchange(-1) < 0;
    if (!failed) return done(what, said);
    if (!said || *said) fail(std::string(what) + " should say that memory does not suffice");
  }
}

// ------------------------------------------------------------------------------------------------ random arguments

struct Random {
  std::mt19937_64 engine;
  int64_t from(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine); }
  bool chance(int of) { return from(1, of) == 1; }
  float number() {
    if (chance(200)) return from(0, 1) ? NAN : INFINITY;
    return std::normal_distribution<float>()(engine);
  }
};

// Elements of their own on the heap: float32, or bfloat16 in half of their bytes.
struct Array {
  Array(Random& random, int64_t size, bool small = false) : data(std::malloc(std::max<int64_t>(1, bytes_of(size, small))), std::free) {
    for (int64_t i = 0; i < size; i++) {
      const float value = random.number();
      if (small) {
        std::memcpy(static_cast<char*>(data.get()) + 2 * i, reinterpret_cast<const char*>(&value) + 2, 2);
      } else {
        static_cast<float*>(data.get())[i] = value;
      }
    }
  }
  static int64_t bytes_of(int64_t size, bool small) { return size * (small ? 2 : 4); }
  operator float*() const { return static_cast<float*>(data.get()); }
  operator void*() const { return data.get(); }
  int64_t place() const { return reinterpret_cast<int64_t>(data.get()); }

  std::shared_ptr<void> data;
};

int64_t place(const void* x) { return reinterpret_cast<int64_t>(x); }

// ------------------------------------------------------------------------------------------------ training kernels

void attention(Random& r) {
  const int64_t batch = r.from(1, 3), heads = r.from(1, 3), queries = r.from(1, 40), keys = r.from(1, 40);
  const int64_t features = 16 * r.from(1, 3), room = (queries + 15) / 16 * 16;
  const int small = r.from(0, 1), threads = r.from(1, 4);
  const auto heads_of = [&](const Array& x, int64_t length) {
    return std::vector<int64_t>{x.place(), heads * length * features, length * features, features};
  };
  const int64_t q_size = batch * heads * queries * features, k_size = batch * heads * keys * features;
  const Array q(r, q_size, small), k(r, k_size, small), v(r, k_size, small), out(r, q_size, small);
  const Array q_out(r, q_size, small), k_out(r, k_size, small), v_out(r, k_size, small), outer(r, q_size, small);
  const Array probabilities(r, batch * heads * keys * room);
  std::vector<uint8_t> mask(batch * keys + 1);
  for (auto& seen : mask) seen = r.from(0, 1);
  std::vector<int64_t> work{batch,    heads, queries, keys, features, r.from(0, 1) ? place(mask.data()) : 0, r.from(0, 1),
                            probabilities.place()};
  auto qs = heads_of(q, queries), ks = heads_of(k, keys), vs = heads_of(v, keys), outs = heads_of(out, queries);
  auto outers = heads_of(outer, queries), q_outs = heads_of(q_out, queries), k_outs = heads_of(k_out, keys);
  auto v_outs = heads_of(v_out, keys);
  const auto forward = [&] {
    return locant_attention(work.data(), qs.data(), ks.data(), vs.data(), outs.data(), small, 0.25f, threads);
  };
  in_any_memory("attention", forward);
  in_any_memory("gradients of attention", [&] {
    return locant_attention_backward(work.data(), qs.data(), ks.data(), vs.data(), outers.data(), q_outs.data(),
                                     k_outs.data(), v_outs.data(), small, 0.25f, threads);
  });
  const auto wrong = [&](std::vector<int64_t>& numbers, int64_t index, int64_t value) {
    const int64_t right = numbers[index];
    numbers[index] = value;
    refused("attention of a wrong size", forward());
    numbers[index] = right;
  };
  wrong(work, r.from(0, 1), -r.from(1, 1 << 20));
  wrong(work, r.from(2, 4), -r.from(0, 1 << 20));
  wrong(work, r.from(2, 4), int64_t{1} << r.from(21, 62));
  wrong(work, 4, features + r.from(1, 15));
  wrong(work, 7, 0);
  wrong(qs, 0, 0);
  wrong(ks, r.from(1, 3), -r.from(1, 100));
  work[r.from(0, 1)] = 0;
  done("attention of nothing", forward());
  refused("attention by no thread",
          locant_attention(work.data(), qs.data(), ks.data(), vs.data(), outs.data(), small, 1, -r.from(0, 9)));
}

void cross_entropy(Random& r) {
  const int64_t rows = r.from(0, 20), vocabulary = r.from(1, 90);
  const int small = r.from(0, 1), threads = r.from(1, 4);
  const Array logits(r, rows * vocabulary, small);
  std::vector<int64_t> labels(rows);
  for (auto& label : labels) label = r.from(0, vocabulary - 1);
  double sums[2] = {};
  const auto call = [&] {
    return locant_cross_entropy(logits, small, labels.data(), rows, vocabulary, 0.1f, r.from(0, 1), sums, threads);
  };
  in_any_memory("loss", call);
  if (rows) {
    labels[r.from(0, rows - 1)] = r.from(0, 1) ? vocabulary + (int64_t{1} << r.from(0, 60)) - 1 : -(int64_t{1} << r.from(0, 60));
    refused("a loss of a wrong label", call());
  }
  refused("a loss of negative size",
          locant_cross_entropy(logits, small, labels.data(), -1, vocabulary, 0, 0, sums, threads));
  refused("a loss without a vocabulary", locant_cross_entropy(logits, small, labels.data(), rows, 0, 0, 0, sums, threads));
  const int64_t size = r.from(0, 500);
  const Array from(r, size, true), to(r, size);
  done("sum", locant_accumulate(from, to, size, threads));
  refused("a sum of negative size", locant_accumulate(from, to, -r.from(1, 9), threads));
}

void layer_norm(Random& r) {
  const int64_t rows = r.from(0, 20), width = 64 * r.from(1, 4), threads = r.from(1, 4);
  const int small_x = r.from(0, 1), small_out = small_x | static_cast<int>(r.from(0, 1)), adds = r.from(0, 1);
  const int64_t size = rows * width;
  const Array x(r, size, small_x), residual(r, size, small_x), out(r, size, small_out), kept(r, size, small_out);
  const Array gamma(r, width), beta(r, width), inverse(r, rows), outer(r, size, small_out), of_x(r, size, small_x);
  const Array of_residual(r, size, small_x), sums(r, threads * 2 * width);
  std::vector<int64_t> work{rows, width, static_cast<int64_t>(r.engine()), r.from(0, 255), threads};
  const auto forward = [&] {
    return locant_layer_norm(work.data(), x, adds ? static_cast<void*>(residual) : nullptr, gamma, beta, out, kept,
                             inverse, 1.1f, 1e-5f, small_x, small_out);
  };
  in_any_memory("layer norm", forward);
  in_any_memory("gradients of layer norm", [&] {
    return locant_layer_norm_backward(work.data(), outer, kept, inverse, gamma, of_x,
                                      adds ? static_cast<void*>(of_residual) : nullptr, sums, 1.1f, small_x, small_out);
  });
  const int64_t wrong[][2] = {{0, -1}, {1, -64}, {1, width + r.from(1, 63)}, {3, 256}, {3, -1}, {4, 0}, {4, -7}};
  for (const auto& [index, value] : wrong) {
    const int64_t right = work[index];
    work[index] = value;
    refused("layer norm of a wrong size", forward());
    work[index] = right;
  }
}

void rotation(Random& r) {
  const int64_t batch = r.from(0, 2), heads = r.from(1, 3), length = r.from(0, 140), pairs = r.from(0, 70);
  const int64_t features = 2 * pairs + r.from(0, 3), size = batch * heads * length * features;
  const int small = r.from(0, 1), interleaved = r.from(0, 1), threads = r.from(1, 4);
  const Array x(r, size, small), out(r, size, small), cosine(r, length * pairs), sine(r, length * pairs);
  std::vector<int64_t> work{x.place(), out.place(), cosine.place(), sine.place(), batch, heads, length, features, pairs};
  for (int i = 0; i < 2; i++) work.insert(work.end(), {heads * length * features, length * features, features});
  for (int i = 0; i < 2; i++) work.insert(work.end(), {0, pairs});
  const auto call = [&](int count) {
    return (small ? locant_rotate_bfloat16 : locant_rotate_float32)(work.data(), count, interleaved, threads);
  };
  done("rotation", call(1));
  refused("rotation of fewer tensors than none", call(-1));
  const int64_t wrong[][2] = {{4 + r.from(0, 4), -r.from(1, 99)}, {8, features / 2 + r.from(1, 99)}};
  for (const auto& [index, value] : wrong) {
    const int64_t right = work[index];
    work[index] = value;
    refused("rotation of a wrong size", call(1));
    work[index] = right;
  }
}

// ------------------------------------------------------------------------------------------------------ translation

// A model with random weights; NaN among them only where asked for.
struct Model {
  Model(Random& r, bool numbers) {
    const int64_t heads = r.from(1, 4), e = heads * r.from(1, 9), f = r.from(1, 50), pre = r.from(0, 1);
    const int64_t gated = r.from(0, 1);
    do precision = r.from(0, 2);
    while (!locant_supports(precision));
    shape = {r.from(0, 2), r.from(0, 2), e, f, heads, r.from(5, 40), r.from(5, 150), pre, r.from(0, 3), gated,
             precision, 0, 2, r.chance(2) ? 2 * r.from(0, e / heads / 2) : 0, r.from(0, 1)};
    const int64_t rotated = shape[13];
    const auto add = [&](std::vector<const float*>& list, int64_t size) {
      arrays.emplace_back(r, size);
      float* data = arrays.back();
      for (int64_t i = 0; numbers && i < size; i++) data[i] = std::isfinite(data[i]) ? data[i] : 0.0f;
      list.push_back(data);
    };
    const auto linear = [&](int64_t inputs, int64_t outputs) {
      add(weights, inputs * outputs);
      r.chance(4) ? biases.push_back(nullptr) : add(biases, outputs);
    };
    for (int decoder = 0; decoder < 2; decoder++) {
      for (int64_t layer = 0; layer < shape[decoder]; layer++) {
        linear(e, 3 * e), linear(e, e);
        if (decoder) linear(e, e), linear(e, 2 * e), linear(e, e);
        linear(e, f * (gated ? 2 : 1)), linear(f, e);
      }
      for (int64_t norm = 0; norm < shape[decoder] * (decoder ? 3 : 2) + pre; norm++) add(norms, e), add(norms, e);
    }
    add(weights, e * shape[6]);
    std::vector<const float*> tables;
    add(tables, shape[5] * e), add(tables, shape[6] * e), add(tables, rows * (rotated ? rotated : e));
    source = tables[0], target = tables[1], positions = rotated || r.from(0, 1) ? tables[2] : nullptr;
  }

  Said make(void** made) const {
    return locant_engine(shape.data(), weights.data(), biases.data(), static_cast<int64_t>(biases.size()), norms.data(),
                         static_cast<int64_t>(norms.size()) / 2, source, target, made);
  }

  static constexpr int64_t rows = 12;  // positions that are known
  std::vector<int64_t> shape;
  int64_t precision;
  std::vector<Array> arrays;
  std::vector<const float*> weights, biases, norms;
  const float *source, *target, *positions;
};

struct Sentences {
  Sentences(Random& r, const Model& model, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
      lengths.push_back(r.from(1, Model::rows));
      for (int64_t j = 0; j < lengths.back(); j++) tokens.push_back(r.from(0, model.shape[5] - 1));
    }
  }
  Said join(const Model& model, void* batch) const {
    return locant_batch_join(batch, static_cast<int64_t>(lengths.size()), lengths.data(), tokens.data(),
                             static_cast<int64_t>(tokens.size()), model.positions, Model::rows);
  }
  std::vector<int64_t> lengths, tokens;
};

using Call = std::function<void(const std::function<Said()>&)>;

void plainly(const std::function<Said()>& call) { done("a right call", call()); }

// After how many nanoseconds to pause.
constexpr int64_t kNever = std::numeric_limits<int64_t>::max(), kAtOnce = std::numeric_limits<int64_t>::min();

// Encodes what has joined a batch or a search, with as many pauses as there can be, or without.
void encode(Said (*encode)(void*, int64_t, int64_t*), void* of, int64_t pause, const Call& call) {
  int64_t unfinished = 1, pauses = 0;
  for (; unfinished; pauses++) call([&] { return encode(of, pause, &unfinished); });
  if (pause == kNever && pauses != 1) fail("a pause that nobody wanted");
}

void begin_in_vain(const Sentences& sentences, const Model& model, void* batch) {
  int64_t unfinished;
  done("join", sentences.join(model, batch));
  if (model.shape[0] || model.shape[1]) done("encode", locant_batch_encode(batch, kAtOnce, &unfinished));
  refused("sentences before others are encoded", sentences.join(model, batch));
  locant_batch_abandon(batch);
}

// Decodes some steps with rows that move, go and come, and returns all that was found. `call` makes every call of the
// interface.
std::vector<float> decode(uint64_t seed, const Model& model, void* batch, int64_t rows, int64_t k, int64_t pause,
                          const std::function<void(const std::function<Said()>&)>& call) {
  Random r{std::mt19937_64(seed)};
  std::vector<float> found;
  std::vector<int64_t> decoded(rows);
  for (int step = 0; step < 6; step++) {
    if (r.chance(3)) {
      const Sentences more(r, model, r.from(1, 4));
      if (r.chance(2)) begin_in_vain(more, model, batch);
      call([&] { return more.join(model, batch); });
      encode(locant_batch_encode, batch, pause, call);
      rows += static_cast<int64_t>(more.lengths.size());
      decoded.resize(rows);
    }
    if (locant_batch_length(batch) != *std::max_element(decoded.begin(), decoded.end())) fail("a wrong length");
    std::vector<int64_t> last(rows), columns(rows * k), kept(r.from(1, rows + 1));
    for (auto& token : last) token = r.from(0, model.shape[6] - 1);
    std::vector<float> values(rows * k);
    call([&] {
      return locant_batch_step(batch, last.data(), rows, model.positions, Model::rows, k, values.data(), columns.data());
    });
    found.insert(found.end(), values.begin(), values.end());
    for (auto& row : kept) row = r.from(0, rows - 1);
    call([&] { return locant_batch_select(batch, static_cast<int64_t>(kept.size()), kept.data()); });
    rows = static_cast<int64_t>(kept.size());
    std::vector<int64_t> lengths;
    for (const int64_t row : kept) lengths.push_back(decoded[row] + 1);
    decoded.swap(lengths);
  }
  return found;
}

void translation(Random& r) {
  const Model model(r, !r.chance(4));
  void* engine = nullptr;
  in_any_memory("engine", [&] { return model.make(&engine); });
  const int64_t rows = r.from(1, 20), k = r.from(1, 6);
  const Sentences sentences(r, model, rows);
  const int threads = r.from(1, 4);
  const uint64_t seed = r.engine();
  const auto make = [&](void** made, int64_t pause, const Call& call) {
    call([&] { return locant_batch(engine, threads, made); });
    call([&] { return sentences.join(model, *made); });
    encode(locant_batch_encode, *made, pause, call);
  };
  void *batch = nullptr, *again = nullptr;
  make(&batch, kNever, plainly);
  const auto plain = decode(seed, model, batch, rows, k, kNever, plainly);
  const auto disturbing = [](const auto& call) { in_any_memory("step", call); };
  make(&again, kAtOnce, disturbing);
  const auto disturbed = decode(seed, model, again, rows, k, kAtOnce, disturbing);
  if (plain.size() != disturbed.size() || std::memcmp(plain.data(), disturbed.data(), 4 * plain.size()))
    fail("memory that failed changed a batch");

  // What is wrong with a batch, with sentences that join one, and with a step of one.
  void* fresh = nullptr;
  make(&fresh, kNever, plainly);
  const auto wrong_batch = [&](const char* what, const std::function<void(Sentences&)>& change) {
    Sentences changed = sentences;
    change(changed);
    refused(what, changed.join(model, fresh));
  };
  const int64_t beyond = int64_t{1} << r.from(8, 62), any = r.from(0, rows - 1);
  wrong_batch("a token beyond", [&](Sentences& x) { x.tokens[r.from(0, x.tokens.size() - 1)] = beyond; });
  wrong_batch("a negative token", [&](Sentences& x) { x.tokens[r.from(0, x.tokens.size() - 1)] = -beyond; });
  wrong_batch("no length", [&](Sentences& x) { x.lengths[any] = -r.from(0, 5); });
  wrong_batch("a length beyond", [&](Sentences& x) { x.lengths[any] = beyond; });
  wrong_batch("a token too many", [&](Sentences& x) { x.tokens.push_back(0); });
  wrong_batch("no sentences", [&](Sentences& x) { x.lengths.clear(); });
  if (model.positions) {
    wrong_batch("unknown positions", [&](Sentences& x) {
      x.lengths.push_back(Model::rows + 1);
      x.tokens.resize(x.tokens.size() + Model::rows + 1);
    });
  }
  std::vector<int64_t> last(rows), columns(rows);
  std::vector<float> values(rows);
  const auto step = [&](int64_t count, int64_t known, int64_t best) {
    return locant_batch_step(fresh, last.data(), count, model.positions, known, best, values.data(), columns.data());
  };
  last[any] = r.from(0, 1) ? model.shape[6] + beyond : -beyond;
  refused("a step from a wrong token", step(rows, Model::rows, 1));
  last[any] = 0;
  refused("a step of other rows", step(rows + 1, Model::rows, 1));
  if (model.positions) refused("a step of an unknown position", step(rows, 0, 1));
  refused("a step to no token", step(rows, Model::rows, -r.from(0, 3)));
  for (const int64_t row : {rows, -r.from(1, 99), beyond}) refused("a row beyond", locant_batch_select(fresh, 1, &row));
  refused("no rows", locant_batch_select(fresh, 0, &rows));
  done("step", step(rows, Model::rows, 1));
  for (void* one : {batch, again, fresh}) locant_batch_free(one);
  locant_engine_free(engine);

  Model wrong = model;
  const int64_t changes[][2] = {{r.from(0, 1), -1}, {r.from(0, 1), 3}, {r.from(2, 6), -r.from(0, 99)}, {4, model.shape[2] + 1},
                                {8, 4}, {10, 3}, {11, model.shape[6]}, {12, -1},
                                {13, r.from(0, 1) ? -2 : 1}, {13, model.shape[2] / model.shape[4] + 2}};
  for (const auto& [index, value] : changes) {
    const int64_t right = wrong.shape[index];
    wrong.shape[index] = value;
    refused("a wrong model", wrong.make(&engine));
    wrong.shape[index] = right;
  }
  wrong.weights[r.from(0, wrong.weights.size() - 1)] = nullptr;
  refused("a model without a weight", wrong.make(&engine));
}

// Searches with sentences that come and go, and returns all that was found. `call` makes every call that may fail.
std::vector<float> searched(uint64_t seed, const Model& model, const void* engine, int threads, int64_t pause,
                            const std::function<void(const std::function<Said()>&)>& call) {
  Random r{std::mt19937_64(seed)};
  std::vector<float> found;
  void* search = nullptr;
  call([&] { return locant_search(engine, threads, 3, &search); });
  int64_t number = 0;
  const bool of_all_tokens = r.chance(3);
  for (int step = 0; step < 14; step++) {
    if (step < 9 && r.chance(2)) {
      const Sentences more(r, model, r.from(1, 4));
      std::vector<SearchOptions> options;
      std::vector<int64_t> prefixes;
      for (size_t i = 0; i < more.lengths.size(); i++) {
        const int64_t beam = r.from(1, 5), prefix = r.from(1, 3);
        const double temperature = of_all_tokens ? 0.7 : 0.5 * r.from(0, 2);
        options.push_back({number++, beam, r.from(1, Model::rows - prefix), r.from(1, beam), prefix, 0.3 * r.from(0, 3),
                           temperature, of_all_tokens ? 0 : r.from(1, 4), r.engine(), r.engine()});
        for (int64_t j = 0; j < prefix; j++) prefixes.push_back(r.from(0, model.shape[6] - 1));
      }
      call([&] {
        return locant_search_join(search, static_cast<int64_t>(options.size()), more.lengths.data(), more.tokens.data(),
                                  static_cast<int64_t>(more.tokens.size()), model.positions, Model::rows, options.data(),
                                  prefixes.data(), static_cast<int64_t>(prefixes.size()));
      });
      encode(locant_search_encode, search, pause, call);
    }
    if (r.chance(4)) locant_search_remove(search, r.from(0, number));
    if (locant_search_length(search) > Model::rows) fail("hypotheses beyond their greatest length");
    int64_t sizes[2];
    const int64_t most = r.chance(6) ? 1000 : 1, first = r.from(0, 1);
    call([&] { return locant_search_steps(search, model.positions, Model::rows, most, first, kNever, sizes); });
    std::vector<int64_t> integers(sizes[0]);
    std::vector<float> totals(sizes[1]);
    locant_search_take(search, integers.data(), totals.data());
    found.insert(found.end(), integers.begin(), integers.end());
    for (const float total : totals) found.push_back(total == total ? total : 1e30f);  // samples may be no numbers
  }
  locant_search_free(search);
  return found;
}

void search(Random& r) {
  const Model model(r, !r.chance(4));
  void *engine = nullptr, *search = nullptr;
  done("engine", model.make(&engine));
  const int threads = r.from(1, 4);
  const uint64_t seed = r.engine();
  const auto plain = searched(seed, model, engine, threads, kNever, plainly);
  const auto disturbed =
      searched(seed, model, engine, threads, kAtOnce, [](const auto& call) { in_any_memory("search", call); });
  if (plain != disturbed) fail("memory that failed changed a search");

  refused("a search by no thread", locant_search(engine, 0, 3, &search));
  refused("a search for no end", locant_search(engine, 1, r.chance(2) ? -1 : model.shape[6], &search));
  done("search", locant_search(engine, threads, 3, &search));
  refused("no threads", locant_search_threads(search, -r.from(0, 9)));
  const Sentences sentences(r, model, 2);
  const auto join = [&](const std::vector<SearchOptions>& options, const std::vector<int64_t>& prefixes, int64_t known) {
    return locant_search_join(search, static_cast<int64_t>(options.size()), sentences.lengths.data(),
                              sentences.tokens.data(), static_cast<int64_t>(sentences.tokens.size()), model.positions, known,
                              options.data(), prefixes.data(), static_cast<int64_t>(prefixes.size()));
  };
  const int64_t beyond = int64_t{1} << r.from(33, 62), wrong[] = {-beyond, -1, 0, beyond};
  const std::vector<SearchOptions> right{{7, 2, 5, 1, 2, 0.5}, {8, 1, 5, 1, 1, 0.5}};
  for (int64_t SearchOptions::*field : {&SearchOptions::beam, &SearchOptions::limit, &SearchOptions::n_best, &SearchOptions::prefix}) {
    std::vector<SearchOptions> changed = right;
    changed[r.from(0, 1)].*field = wrong[r.from(0, 3)];
    refused("wrong options", join(changed, {1, 1, 1}, Model::rows));
  }
  std::vector<SearchOptions> changed = right;
  changed[1].alpha = r.chance(2) ? -0.1 : std::nan("");
  refused("a wrong exponent", join(changed, {1, 1, 1}, Model::rows));
  changed = right, changed[1].temperature = r.chance(2) ? -0.1 : std::nan("");
  refused("a wrong temperature", join(changed, {1, 1, 1}, Model::rows));
  changed[1].temperature = 1;
  refused("a sentence drawn from all tokens beside others", join(changed, {1, 1, 1}, Model::rows));
  changed[1].top_k = r.chance(2) ? -1 : model.shape[6] + 1;
  refused("a wrong number of tokens to draw from", join(changed, {1, 1, 1}, Model::rows));
  refused("too short prefixes", join(right, {1, 1}, Model::rows));
  refused("too long prefixes", join(right, {1, 1, 1, 1}, Model::rows));
  refused("no prefixes", join(right, {}, Model::rows));
  refused("a prefix of wrong tokens", join(right, {1, r.chance(2) ? -1 : model.shape[6], 1}, Model::rows));
  refused("no sentences", join({}, {1}, Model::rows));
  if (model.positions) refused("unknown positions", join(right, {1, 1, 1}, 0));
  done("join", join(right, {1, 1, 1}, Model::rows));
  refused("sentences before others are encoded", join({{9, 2, 5, 1, 2, 0.5}, {10, 1, 5, 1, 1, 0.5}}, {1, 1, 1}, Model::rows));
  refused("encoding that says nothing", locant_search_encode(search, kNever, nullptr));
  encode(locant_search_encode, search, kAtOnce, plainly);
  refused("a number twice", join(right, {1, 1, 1}, Model::rows));
  int64_t sizes[2];
  refused("a step without sizes", locant_search_steps(search, model.positions, Model::rows, 1, 1, kNever, nullptr));
  if (model.positions) refused("a step of an unknown position", locant_search_steps(search, model.positions, 0, 1, 1, kNever, sizes));
  done("step", locant_search_steps(search, model.positions, Model::rows, 1, 1, kNever, sizes));
  locant_search_free(search);
  locant_engine_free(engine);
}

// A sentence is finished, memory fails in a later step of the same call, and the sentence is removed.
void removed_when_finished(Random& r) {
  const Model model(r, true);
  void* engine = nullptr;
  done("engine", model.make(&engine));
  const Sentences sentences(r, model, 2);
  const std::vector<SearchOptions> options{{7, 1, 1, 1, 1, 0.6}, {8, 3, Model::rows, 1, 1, 0.6}};
  const std::vector<int64_t> prefixes{1, 1};
  bool failed = true;
  for (int64_t allowed = 0; failed; allowed++) {
    void* search = nullptr;
    done("search", locant_search(engine, 1, 3, &search));
    done("join", locant_search_join(search, 2, sentences.lengths.data(), sentences.tokens.data(),
                                    static_cast<int64_t>(sentences.tokens.size()), model.positions, Model::rows,
                                    options.data(), prefixes.data(), 2));
    encode(locant_search_encode, search, kNever, plainly);
    int64_t sizes[2];
    const auto step = [&] { return locant_search_steps(search, model.positions, Model::rows, 1000, 1000, kNever, sizes); };
    left_before_failure = allowed;
    const Said said = step();
    failed = left_before_failure.exchange(-1) < 0;
    if (failed) {
      if (!said || *said) fail("a step should say that memory does not suffice");
      locant_search_remove(search, 7);
      done("step", step());
    } else {
      done("step", said);
    }
    std::vector<int64_t> integers(sizes[0]);
    std::vector<float> totals(sizes[1]);
    locant_search_take(search, integers.data(), totals.data());
    if (failed && (integers.empty() || integers[0] != 8 || integers[1] != 1 || integers.size() != 3 + integers[2]))
      fail("a sentence that was removed is finished");
    locant_search_free(search);
  }
  locant_engine_free(engine);
}

// Sentences that are encoded bit by bit, removed or abandoned meanwhile, while others take steps.
void interrupted(Random& r) {
  const Model model(r, true);
  void *engine = nullptr, *search = nullptr;
  done("engine", model.make(&engine));
  done("search", locant_search(engine, r.from(1, 4), 3, &search));
  int64_t number = 0, unfinished = 0, sizes[2];
  for (int step = 0; step < 40; step++) {
    if (!unfinished && r.chance(3)) {
      const Sentences more(r, model, r.from(1, 9));
      std::vector<SearchOptions> options;
      std::vector<int64_t> prefixes(more.lengths.size(), 1);
      for (size_t i = 0; i < more.lengths.size(); i++) options.push_back({number++, r.from(1, 4), r.from(1, 9), 1, 1, 0.6});
      done("join", locant_search_join(search, static_cast<int64_t>(options.size()), more.lengths.data(), more.tokens.data(),
                                      static_cast<int64_t>(more.tokens.size()), model.positions, Model::rows,
                                      options.data(), prefixes.data(), static_cast<int64_t>(prefixes.size())));
    }
    if (r.chance(2)) locant_search_remove(search, r.from(0, number));
    if (r.chance(9)) for (int64_t one = 0; one < number; one++) locant_search_remove(search, one);
    if (r.chance(4)) done("threads", locant_search_threads(search, r.from(1, 4)));
    done("encode", locant_search_encode(search, kAtOnce, &unfinished));
    done("step", locant_search_steps(search, model.positions, Model::rows, r.from(1, 3), 1, kAtOnce, sizes));
    std::vector<int64_t> integers(sizes[0]);
    std::vector<float> totals(sizes[1]);
    locant_search_take(search, integers.data(), totals.data());
  }
  locant_search_free(search);
  locant_engine_free(engine);
}

// Sixteen threads with batches of their own on one engine find what one finds.
void side_by_side(Random& r) {
  const Model model(r, true);
  void* engine = nullptr;
  done("engine", model.make(&engine));
  const auto found = [&](uint64_t seed) {
    Random own{std::mt19937_64(seed)};
    const Sentences sentences(own, model, own.from(1, 9));
    void* batch = nullptr;
    done("batch", locant_batch(engine, own.from(1, 3), &batch));
    done("join", sentences.join(model, batch));
    encode(locant_batch_encode, batch, own.from(0, 1) ? kNever : kAtOnce, plainly);
    const auto rows = static_cast<int64_t>(sentences.lengths.size());
    const auto values = decode(seed, model, batch, rows, 2, kNever, plainly);
    locant_batch_free(batch);
    return values;
  };
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> alone, together(16);
  const uint64_t seed = r.engine();
  for (uint64_t i = 0; i < 16; i++) alone.push_back(found(seed + i));
  for (uint64_t i = 0; i < 16; i++) threads.emplace_back([&, i] { together[i] = found(seed + i); });
  for (auto& thread : threads) thread.join();
  if (alone != together) fail("threads disturb each other");
  locant_engine_free(engine);
}

int main(int count, char** arguments) {
  if (count != 3) fail("usage: fuzz SEED ROUNDS");
  Random random{std::mt19937_64(std::strtoull(arguments[1], nullptr, 10))};
  const int rounds = std::atoi(arguments[2]);
  // The threads are made now: where there is no memory for one, work is done by fewer.
  const Array many(random, 1 << 18, true), sum(random, 1 << 18);
  done("sum", locant_accumulate(many, sum, 1 << 18, 4));
  for (int round = 0; round < rounds; round++) {
    for (const auto part : {attention, cross_entropy, layer_norm, rotation, translation, search, removed_when_finished,
                            interrupted})
      part(random);
    if (round % 10 == 0) side_by_side(random);
  }
  std::printf("%d rounds\n", rounds);
}
