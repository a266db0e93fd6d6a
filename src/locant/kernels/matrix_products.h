// Products of rows of activations with packed matrices of weights: float32, or bfloat16 with float32 sums, or int8 with a
// scale for each output and for each row of input.

#pragma once

#include "panel_sums.h"  // first: it says how numbers are rounded

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tiles.h"

namespace {

struct Range {
  int64_t begin, end;
};

// One of so many parts of about the same size.
struct Share {
  int64_t number, parts;
  Range of(int64_t size) const { return {size * number / parts, size * (number + 1) / parts}; }
};

class Linear {
 public:
  void pack(const float* weight, const float* bias, int64_t inputs, int64_t outputs, Precision precision) {
    begin(bias, inputs, outputs, precision);
    if (precision == kFloat32) {
      floats_.resize_to_zeros(panels_ * inputs * kColumns);
      for (int64_t n = 0; n < outputs; n++)
        for (int64_t k = 0; k < inputs; k++)
          floats_[(n / kColumns * inputs + k) * kColumns + n % kColumns] = weight[n * inputs + k];
      return;
    }
    std::vector<uint8_t> row(groups_ * kGroupBytes);
    for (int64_t n = 0; n < outputs; n++) {
      const float* from = weight + n * inputs;
      if (precision == kBFloat16) {
        round_row(from, inputs, row.data());
      } else {
        quantize(from, n, row.data());
      }
      place(n, row.data());
    }
  }

  // The same of weights `[outputs, inputs]` that are int8 already, with the scale of each output.
  void pack_quantized(const int8_t* weight, const float* scale, const float* bias, int64_t inputs, int64_t outputs) {
    begin(bias, inputs, outputs, kInt8);
    std::memcpy(scale_.get(), scale, outputs * sizeof(float));
    std::vector<uint8_t> row(groups_ * kGroupBytes);
    for (int64_t n = 0; n < outputs; n++) {
      std::memcpy(row.data(), weight + n * inputs, inputs);
      int32_t sum = 0;
      for (int64_t k = 0; k < inputs; k++) sum += weight[n * inputs + k];
      offset_[n] = byte_offset * sum;
      place(n, row.data());
    }
  }

  int64_t size() const { return inputs_ * outputs_; }
  int64_t panels() const { return panels_; }
  int64_t stride() const { return panels_ * kColumns; }

  // Writes some panels of x W^T + b; rows of `out` are stride() apart. Where tiles are laid out they multiply.
  void apply(Range mine, const Rows& x, int64_t rows, float* out, [[maybe_unused]] const tiles::Laid& laid) const {
#ifdef LOCANT_TILES
    if (laid && rows >= tiles::kLeastRows) {
      if (precision_ == kInt8) return apply_on_tiles<int32_t>(mine, x, rows, out);
      if (precision_ == kBFloat16) return apply_on_tiles<float>(mine, x, rows, out);
    }
#endif
    for (int64_t panel = mine.begin; panel < mine.end; panel++) {
      int64_t row = 0;
      while (row < rows) row += block(x, row, rows - row, panel, out);
    }
  }

 private:
  // Makes room, for zeros, and takes the bias.
  void begin(const float* bias, int64_t inputs, int64_t outputs, Precision precision) {
    inputs_ = inputs, outputs_ = outputs, panels_ = (outputs + kColumns - 1) / kColumns;
    precision_ = precision;
    bias_.resize_to_zeros(panels_ * kColumns);
    if (bias) std::memcpy(bias_.get(), bias, outputs * sizeof(float));
    if (precision == kFloat32) return;
    groups_ = byte_stride(inputs, precision) / 4;
    narrow_.resize_to_zeros(panels_ * groups_ * kColumns * kGroupBytes);
    scale_.resize_to_zeros(panels_ * kColumns);
    offset_.resize_to_zeros(panels_ * kColumns);
  }

  // Puts the narrow weights of an output into its panel.
  void place(int64_t output, const uint8_t* row) {
    uint8_t* panel = narrow_.get() + output / kColumns * groups_ * kColumns * kGroupBytes;
    for (int64_t g = 0; g < groups_; g++)
      std::memcpy(panel + (g * kColumns + output % kColumns) * kGroupBytes, row + g * kGroupBytes, kGroupBytes);
  }

  // Writes the weights of an output in int8, its scale, and what the offset of the inputs adds to its sum.
  void quantize(const float* from, int64_t output, uint8_t* to) {
    float largest = 0, odd = 0;
    for (int64_t k = 0; k < inputs_; k++) largest = std::max(largest, std::fabs(from[k])), odd += from[k] * 0.0f;
    const float scale = largest > 0 ? 127.0f / largest : 0.0f;
    int32_t sum = 0;
    for (int64_t k = 0; k < inputs_; k++) {
      const auto value = static_cast<int8_t>(std::lrintf(from[k] * scale));
      to[k] = static_cast<uint8_t>(value);
      sum += value;
    }
    scale_[output] = (largest > 0 ? largest / 127.0f : 0.0f) + odd;
    offset_[output] = byte_offset * sum;
  }

  int64_t block(const Rows& x, int64_t row, int64_t left, int64_t panel, float* out) const {
    // As many rows at once as registers hold; fewer rows take several sums at once, to hide the latency of each.
#ifdef __wasm__
    // Browsers' compilers keep one of 16 registers for themselves, and need others for what comes between.
    switch (left) {
      case 1: return run<1, 4>(x, row, panel, out);
      case 2: return run<2, 2>(x, row, panel, out);
      case 3: return run<3, 1>(x, row, panel, out);
      default: return run<4, 1>(x, row, panel, out);
    }
#endif
    if constexpr (!kManyRegisters) {
      switch (left) {
        case 1: return run<1, 4>(x, row, panel, out);
        case 2: return run<2, 2>(x, row, panel, out);
        case 3: return run<3, 2>(x, row, panel, out);
        case 4:
        case 7:
        case 8: return run<4, 1>(x, row, panel, out);
        case 5:
        case 9:
        case 10: return run<5, 1>(x, row, panel, out);
        default: return run<6, 1>(x, row, panel, out);
      }
    }
    const bool in_squares = precision_ == kInt8 ? kSquares<int32_t> : precision_ == kBFloat16 && kSquares<float>;
    if (in_squares && left >= kLeastSquare) {
      // Of twelve rows sums are moved about between registers; one row more than pairs comes by itself.
      if (left >= 8) return run<8, 1>(x, row, panel, out);
      return left >= 6 ? run<6, 1>(x, row, panel, out) : run<4, 2>(x, row, panel, out);
    }
    if (left >= 17 || left == 12) return run<12, 1>(x, row, panel, out);
    switch (left) {
      case 1: return run<1, 4>(x, row, panel, out);
      case 2: return run<2, 4>(x, row, panel, out);
      case 3: return run<3, 2>(x, row, panel, out);
      case 4: return run<4, 2>(x, row, panel, out);
      case 5: return run<5, 2>(x, row, panel, out);
      case 6: return run<6, 1>(x, row, panel, out);
      case 7: return run<7, 1>(x, row, panel, out);
      default: return run<8, 1>(x, row, panel, out);
    }
  }

  template <int R, int U>
  int64_t run(const Rows& x, int64_t row, int64_t panel, float* out) const {
    if (precision_ == kInt8) {
#ifdef LOCANT_INT8
      alignas(64) int32_t sums[R * kColumns];
      sum_bytes<R, U, Integers>(x.bytes + row * x.stride, x.stride, weights_of(panel), groups_, sums);
      finish(sums, x, {row, row + R}, panel, out);
#endif
      return R;
    }
    alignas(64) float sums[R * kColumns];
    if (precision_ == kFloat32) {
      sum_float<R, U>(x.values + row * x.width, x.width, floats_.get() + panel * inputs_ * kColumns, inputs_, sums);
    } else {
#ifdef LOCANT_BFLOAT16
      sum_bytes<R, U, Lanes>(x.bytes + row * x.stride, x.stride, weights_of(panel), groups_, sums);
#endif
    }
    finish(sums, x, {row, row + R}, panel, out);
    return R;
  }

#ifdef LOCANT_TILES
  template <class Sum>
  void apply_on_tiles(Range mine, const Rows& x, int64_t rows, float* out) const {
    const int64_t blocks = (rows + tiles::kRows - 1) / tiles::kRows, bytes = groups_ * kGroupBytes;
    // The last block ends with the last row: it may do rows of the one before it again.
    const auto block = [&](int64_t number) {
      const int64_t begin = std::min(number * tiles::kRows, rows - tiles::kRows);
      return Range{begin, begin + tiles::kRows};
    };
    alignas(64) Sum sums[2 * tiles::kRows * kColumns];
    const Sum* const others = sums + tiles::kRows * kColumns;
    for (int64_t panel = mine.begin; panel < mine.end; panel++) {
      for (int64_t number = 0; number + 1 < blocks; number += 2) {
        const Range one = block(number), next = block(number + 1);
        const uint8_t *first = x.bytes + one.begin * x.stride, *second = x.bytes + next.begin * x.stride;
        tiles::sum_square(first, second, x.stride, weights_of(panel), bytes, sums);
        finish(sums, x, one, panel, out);
        finish(others, x, next, panel, out);
      }
    }
    if (blocks % 2 == 0) return;
    const Range last = block(blocks - 1);
    for (int64_t panel = mine.begin; panel < mine.end; panel += 2) {
      const int64_t next = std::min(panel + 1, mine.end - 1);  // a panel without another is taken twice
      tiles::sum_wide(x.bytes + last.begin * x.stride, x.stride, weights_of(panel), weights_of(next), bytes, sums);
      finish(sums, x, last, panel, out);
      finish(others, x, last, next, out);
    }
  }
#endif

  const uint8_t* weights_of(int64_t panel) const { return narrow_.get() + panel * groups_ * kColumns * kGroupBytes; }

  // Writes what some rows have of a panel: in int8 sums with the offset of the inputs, else those of the products.
#ifdef LOCANT_INT8
  void finish(const int32_t* sums, const Rows& x, Range rows, int64_t panel, float* out) const {
    const float *scale = scale_.get() + panel * kColumns, *bias = bias_.get() + panel * kColumns;
    for (int64_t half = 0; half < kColumns; half += kLanes) {
      const Integers offset = *reinterpret_cast<const Integers*>(offset_.get() + panel * kColumns + half);
      const Lanes scales = load(scale + half), biases = load(bias + half);
      float* to = out + rows.begin * stride() + panel * kColumns + half;
      for (int64_t row = rows.begin; row < rows.end; row++, to += stride()) {
        Integers sum = *reinterpret_cast<const Integers*>(sums + (row - rows.begin) * kColumns + half);
        if (byte_offset) sum -= offset;
        save(__builtin_convertvector(sum, Lanes) * (scales * x.scales[row]) + biases, to);
      }
    }
  }
#endif

  void finish(const float* sums, const Rows&, Range rows, int64_t panel, float* out) const {
    const float* bias = bias_.get() + panel * kColumns;
    for (int64_t row = rows.begin; row < rows.end; row++, sums += kColumns) {
      float* to = out + row * stride() + panel * kColumns;
      save(load(sums) + load(bias), to);
      save(load(sums + kLanes) + load(bias + kLanes), to + kLanes);
    }
  }

  int64_t inputs_ = 0, outputs_ = 0, panels_ = 0, groups_ = 0;
  Precision precision_ = kFloat32;
  Buffer<float> floats_, bias_, scale_;
  Buffer<uint8_t> narrow_;
  Buffer<int32_t> offset_;
};

}  // namespace
