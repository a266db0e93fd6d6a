// Prints what the kernels of a library make of fixed inputs, a number a line, so that variants can be compared.
//
//   values LIBRARY
//
// Lines that begin with # name what follows. int8 and bfloat16 products appear where the library has them.

#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

using Said = const char*;
void* library;

template <class Function>
Function* function(const char* name) {
  void* found = dlsym(library, name);
  if (!found) std::fprintf(stderr, "no %s\n", name), std::exit(2);
  return reinterpret_cast<Function*>(found);
}

void done(const char* what, Said said) {
  if (said) std::fprintf(stderr, "%s: %s\n", what, said), std::exit(1);
}

// Numbers between -1 and 1 that are the same everywhere.
struct Numbers {
  uint32_t state = 1;
  float next() {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(state >> 8) / (1 << 23) - 1.0f;
  }
  std::vector<float> some(int64_t size) {
    std::vector<float> values(size);
    for (float& value : values) value = next();
    return values;
  }
};

void print(const char* what, const std::vector<float>& values) {
  std::printf("# %s\n", what);
  for (const float value : values) std::printf("%.9g\n", value);
}

struct Heads {
  const void* data;
  int64_t b, h, l;
};

void attention(Numbers& numbers) {
  const int64_t batch = 2, heads = 3, length = 21, features = 32, width = 32;
  const int64_t size = batch * heads * length * features;
  std::vector<float> q = numbers.some(size), k = numbers.some(size), v = numbers.some(size), outer = numbers.some(size);
  std::vector<float> out(size), of_q(size), of_k(size), of_v(size), probabilities(batch * heads * length * width);
  struct {
    int64_t sizes[5];
    const void* keys;
    int64_t causal;
    float* probabilities;
  } const work{{batch, heads, length, length, features}, nullptr, 1, probabilities.data()};
  const auto at = [&](const std::vector<float>& x) {
    return Heads{x.data(), heads * length * features, length * features, features};
  };
  const Heads qs = at(q), ks = at(k), vs = at(v), outs = at(out), above = at(outer), a = at(of_q), b = at(of_k), c = at(of_v);
  done("attention", function<Said(const void*, const void*, const void*, const void*, const void*, int, float, int)>(
                        "locant_attention")(&work, &qs, &ks, &vs, &outs, 0, 0.2f, 2));
  print("attention", out);
  done("its gradients",
       function<Said(const void*, const void*, const void*, const void*, const void*, const void*, const void*,
                     const void*, int, float, int)>("locant_attention_backward")(&work, &qs, &ks, &vs, &above, &a, &b,
                                                                                 &c, 0, 0.2f, 2));
  print("its gradients", of_q), print("of keys", of_k), print("of values", of_v);
}

void training(Numbers& numbers) {
  const int64_t rows = 9, width = 128;
  struct {
    int64_t rows, width;
    uint64_t seed;
    int64_t dropped, threads;
  } const work{rows, width, 12345, 26, 2};
  std::vector<float> x = numbers.some(rows * width), residual = numbers.some(rows * width), gamma = numbers.some(width);
  std::vector<float> beta = numbers.some(width), out(rows * width), normalised(rows * width), inverse(rows);
  done("layer norm", function<Said(const void*, const void*, const void*, const float*, const float*, void*, void*,
                                   float*, float, float, int, int)>("locant_layer_norm")(
                         &work, x.data(), residual.data(), gamma.data(), beta.data(), out.data(), normalised.data(),
                         inverse.data(), 1.1f, 1e-5f, 0, 0));
  print("layer norm", out);
  std::vector<float> of_x(rows * width), of_residual(rows * width), sums(2 * 2 * width);
  done("its gradients", function<Said(const void*, const void*, const void*, const float*, const float*, void*, void*,
                                      float*, float, int, int)>("locant_layer_norm_backward")(
                            &work, x.data(), normalised.data(), inverse.data(), gamma.data(), of_x.data(),
                            of_residual.data(), sums.data(), 1.1f, 0, 0));
  print("its gradients", of_x), print("of the residual", of_residual), print("of scale and shift", sums);
  std::vector<int64_t> labels{5, 0, 127, 64, 2, 3, 4, 5, 6};
  double losses[2] = {};
  done("loss", function<Said(void*, int, const int64_t*, int64_t, int64_t, float, int, double*, int)>(
                   "locant_cross_entropy")(x.data(), 0, labels.data(), rows, width, 0.1f, 1, losses, 2));
  print("loss", {static_cast<float>(losses[0]), static_cast<float>(losses[1])}), print("its gradients", x);
  const int64_t pairs = 37, features = 80, length = 6;
  std::vector<float> wide = numbers.some(length * features), turned(length * features);
  std::vector<float> cosine = numbers.some(length * pairs), sine = numbers.some(length * pairs);
  for (int interleaved = 0; interleaved < 2; interleaved++) {
    const auto place = [](const std::vector<float>& of) { return reinterpret_cast<int64_t>(of.data()); };
    const int64_t turning[] = {place(wide), place(turned), place(cosine), place(sine), 1, 1, length, features, pairs,
                               0, 0, features, 0, 0, features, 0, pairs, 0, pairs};
    done("rotation", function<Said(const void*, int, int, int)>("locant_rotate_float32")(turning, 1, interleaved, 2));
    print("rotation", turned);
  }
}

struct SearchOptions {
  int64_t number, beam, limit, n_best, prefix;
  double alpha, temperature = 0;
  int64_t top_k = 0;
  uint64_t seed = 0, stream = 0;
};

// Encodes the sentences of a batch or of a search.
void encode(const char* name, void* of) {
  int64_t unfinished = 0;
  done("encoding", function<Said(void*, int64_t, int64_t*)>(name)(of, INT64_MAX, &unfinished));
}

// Prints what a search for five sentences finds; narrower products may find others.
void search(void* engine, const int64_t* lengths, const std::vector<int64_t>& tokens, const float* positions) {
  const int64_t rows = 5;
  const std::vector<int64_t> prefixes(rows, 2);
  std::vector<SearchOptions> options;
  for (int64_t i = 0; i < rows; i++) options.push_back({i, 1 + i % 3, 9, 1, 1, 0.6});
  void* made = nullptr;
  done("search", function<Said(const void*, int, int64_t, void**)>("locant_search")(engine, 2, 3, &made));
  done("join", function<Said(void*, int64_t, const int64_t*, const int64_t*, int64_t, const float*, int64_t, const SearchOptions*,
                             const int64_t*, int64_t)>("locant_search_join")(
                   made, rows, lengths, tokens.data(), static_cast<int64_t>(tokens.size()), positions, 16, options.data(),
                   prefixes.data(), rows));
  encode("locant_search_encode", made);
  int64_t sizes[2] = {};
  done("steps", function<Said(void*, const float*, int64_t, int64_t, int64_t, int64_t, int64_t*)>("locant_search_steps")(
                    made, positions, 16, 100, rows, INT64_MAX, sizes));
  std::vector<int64_t> integers(sizes[0]);
  std::vector<float> totals(sizes[1]);
  function<void(void*, int64_t*, float*)>("locant_search_take")(made, integers.data(), totals.data());
  function<void(void*)>("locant_search_free")(made);
  print("tokens of a search", {integers.begin(), integers.end()}), print("log-probabilities of a search", totals);
}

void translation(Numbers& numbers, int64_t precision, int64_t rotated, int64_t interleaved) {
  const int64_t e = 48, f = 80, vocabulary = 70;
  const int64_t shape[] = {1, 1, e, f, 4, vocabulary, vocabulary, 1, 0, 0, precision, 0, 2, rotated, interleaved};
  const int64_t sizes[][2] = {{e, 3 * e}, {e, e}, {e, f}, {f, e}, {e, 3 * e}, {e, e}, {e, e}, {e, 2 * e}, {e, e}, {e, f}, {f, e}};
  std::vector<std::vector<float>> kept;
  std::vector<const float*> weights, biases, norms;
  const auto add = [&](std::vector<const float*>& to, int64_t size) {
    kept.push_back(numbers.some(size));
    to.push_back(kept.back().data());
  };
  for (const auto& [inputs, outputs] : sizes) add(weights, inputs * outputs), add(biases, outputs);
  add(weights, e * vocabulary);
  for (int i = 0; i < 2 * (2 + 1 + 3 + 1); i++) add(norms, e);
  std::vector<const float*> tables;
  add(tables, vocabulary * e), add(tables, 16 * e);
  void *engine = nullptr, *batch = nullptr;
  done("engine", function<Said(const void*, const float* const*, const float* const*, int64_t, const float* const*,
                               int64_t, const float*, const float*, void**)>("locant_engine")(
                     shape, weights.data(), biases.data(), 11, norms.data(), 7, tables[0], tables[0], &engine));
  const int64_t lengths[] = {3, 7, 1, 4, 5}, rows = 5, count = 20;
  std::vector<int64_t> tokens(count);
  for (int64_t i = 0; i < count; i++) tokens[i] = i * 7 % vocabulary;
  done("batch", function<Said(const void*, int, void**)>("locant_batch")(engine, 2, &batch));
  done("join", function<Said(void*, int64_t, const int64_t*, const int64_t*, int64_t, const float*, int64_t)>(
                   "locant_batch_join")(batch, rows, lengths, tokens.data(), count, tables[1], 16));
  encode("locant_batch_encode", batch);
  // Numbers of rows that are multiplied in blocks of other sizes.
  for (const int64_t decoded : {rows, int64_t{6}, int64_t{7}, int64_t{4}, int64_t{9}, int64_t{26}}) {
    std::vector<int64_t> kept(decoded);
    for (int64_t i = 0; i < decoded; i++) kept[i] = i % 4;
    if (decoded != rows)
      done("rows", function<Said(void*, int64_t, const int64_t*)>("locant_batch_select")(batch, decoded, kept.data()));
    std::vector<int64_t> last(decoded);
    for (int64_t i = 0; i < decoded; i++) last[i] = tokens[(i + decoded) % count];
    std::vector<float> values(decoded * vocabulary);
    done("step", function<Said(void*, const int64_t*, int64_t, const float*, int64_t, int64_t, float*, int64_t*)>(
                     "locant_batch_step")(batch, last.data(), decoded, tables[1], 16, vocabulary, values.data(), nullptr));
    // Of padding and BOS there are none.
    for (float& value : values) value = std::isinf(value) ? 0.0f : value;
    const char* const names[] = {"step in float32", "step in bfloat16", "step in int8"};
    print(names[precision], values);
  }
  function<void(void*)>("locant_batch_free")(batch);
  if (!precision) search(engine, lengths, tokens, tables[1]);
  function<void(void*)>("locant_engine_free")(engine);
}

}  // namespace

int main(int count, char** arguments) {
  library = count == 2 ? dlopen(arguments[1], RTLD_NOW) : nullptr;
  if (!library) {
    std::fprintf(stderr, "%s\n", count == 2 ? dlerror() : "usage: values LIBRARY");
    return 2;
  }
  Numbers numbers;
  attention(numbers);
  training(numbers);
  for (int64_t precision = 0; precision < 3; precision++) {
    if (!function<int(int64_t)>("locant_supports")(precision)) continue;
    constexpr int64_t kRotations[][2] = {{0, 0}, {8, 0}, {12, 1}};
    for (const auto& [rotated, interleaved] : kRotations) {
      Numbers same;
      translation(same, precision, rotated, interleaved);
    }
  }
  std::fflush(stdout);
  std::_Exit(0);  // the kernels' threads live on
}
