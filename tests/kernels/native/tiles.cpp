// Compares products on AMX tiles with those of AVX-512 and with plain sums, of random shapes and numbers.
//
//   tiles SEED ROUNDS
//
// Runs on a processor with AMX, or where LOCANT_EMULATED_TILES is defined, without AVX-512 after emulated_avx512.h. int8 must be
// the same to the last bit, bfloat16 to the rounding of float32. Ends with code 1 and a line at the first that is otherwise.

#include "matrix_products.h"

#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

std::mt19937_64 engine;

int64_t from(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine); }

float number() { return std::uniform_real_distribution<float>(-1, 1)(engine); }

struct Shape {
  int64_t rows, inputs, outputs;
  Precision precision;
};

// Activations in room that ends where they end, so that a sanitizer sees each step beyond.
struct Activations {
  explicit Activations(const Shape& s)
      : values(s.rows * s.inputs),
        bytes(s.rows * byte_stride(s.inputs, s.precision)),
        scales(s.rows),
        rows{values.get(), bytes.get(), scales.get(), s.inputs, byte_stride(s.inputs, s.precision), s.precision} {
    // What is not written is not zero.
    for (int64_t i = 0; i < s.rows * rows.stride; i++) bytes[i] = 0xff;
    for (int64_t i = 0; i < s.rows * s.inputs; i++) values[i] = number();
    for (int64_t row = 0; row < s.rows; row++) rows.convert(row);
  }
  Buffer<float> values;
  Buffer<uint8_t> bytes;
  Buffer<float> scales;
  Rows rows;
};

[[noreturn]] void fail(const char* what, const Shape& s, int64_t row, int64_t column, double found, double expected) {
  std::printf("%s: %lld rows, %lld inputs, %lld outputs, precision %d: row %lld, column %lld is %.9g, not %.9g\n", what,
              static_cast<long long>(s.rows), static_cast<long long>(s.inputs), static_cast<long long>(s.outputs),
              static_cast<int>(s.precision), static_cast<long long>(row), static_cast<long long>(column), found, expected);
  std::exit(1);
}

void compare(const Shape& s) {
  std::vector<float> weight(s.inputs * s.outputs), bias(s.outputs);
  for (float& value : weight) value = number();
  for (float& value : bias) value = number();
  Linear linear;
  linear.pack(weight.data(), bias.data(), s.inputs, s.outputs, s.precision);
  const Activations x(s);
  std::vector<float> found(s.rows * linear.stride(), -1e30f), expected(s.rows * linear.stride());
  {
    const tiles::Laid laid(true);
    if (!laid) std::printf("The system lends no tiles.\n"), std::exit(2);
    // In some parts, as threads take them.
    const int64_t parts = from(1, 4);
    for (int64_t part = 0; part < parts; part++)
      linear.apply(Share{part, parts}.of(linear.panels()), x.rows, s.rows, found.data(), laid);
  }
  linear.apply({0, linear.panels()}, x.rows, s.rows, expected.data(), tiles::Laid(false));
  for (int64_t row = 0; row < s.rows; row++) {
    for (int64_t column = 0; column < s.outputs; column++) {
      const float one = found[row * linear.stride() + column], other = expected[row * linear.stride() + column];
      const bool same = s.precision == kInt8 ? one == other : std::fabs(one - other) <= 1e-5f * (s.inputs + 1);
      if (!same) fail("unlike AVX-512", s, row, column, one, other);
      // To the rounding of both factors.
      double sum = bias[column];
      for (int64_t k = 0; k < s.inputs; k++)
        sum += static_cast<double>(x.values[row * s.inputs + k]) * weight[column * s.inputs + k];
      const double rounding = s.precision == kInt8 ? 1.0 / 127 : 1.0 / 256;
      if (std::fabs(one - sum) > rounding * (4 + 4 * std::sqrt(static_cast<double>(s.inputs))))
        fail("unlike plain sums", s, row, column, one, sum);
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return std::fprintf(stderr, "usage: tiles SEED ROUNDS\n"), 2;
  engine.seed(std::strtoull(arguments[1], nullptr, 10));
  const int64_t rounds = std::strtoll(arguments[2], nullptr, 10);
  for (int64_t round = 0; round < rounds; round++) {
    const Precision precision = from(0, 1) ? kInt8 : kBFloat16;
    compare({from(1, 70), from(1, 200), from(1, 130), precision});
  }
  std::printf("%lld rounds of seed %s\n", static_cast<long long>(rounds), arguments[1]);
}
