// Label-smoothed cross-entropy of rows of logits, and its gradient in their place.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>

#include "kernel_common.h"
#include "threads.h"

namespace {

template <class Element>
void cross_entropy(Element* logits, const int64_t* labels, int64_t rows, int64_t vocabulary, float smoothing,
                   bool gradient, double* sums, int threads) {
  constexpr bool kPlain = std::is_same_v<Element, float>;
  struct Losses {
    double smoothed, likelihood;
  };
  std::vector<Losses> losses(rows);
  // Exponentials need float32: those of bfloat16 logits have a row of their own.
  const ThreadBuffers rooms(threads, kPlain ? 0 : vocabulary);
  locant::parallel_for(rows, locant::grain_of(rows, threads, 1), threads, [&](int64_t begin, int64_t end, int member) {
    float* const space = rooms.of(member);
    for (int64_t row = begin; row < end; row++) {
      Element* x = logits + row * vocabulary;
      float* values = space;
      if constexpr (kPlain) values = x;
      // The largest and the sum of every 16th number: Clang vectorises no search for the largest of all.
      float tops[16], totals[16] = {}, sum = 0;
      std::fill_n(tops, 16, widen(x[0]));
      const auto read = [&](int64_t start, int64_t count) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
          const float value = widen(x[start + i]);
          values[start + i] = value;
          tops[i] = std::max(tops[i], value);
          totals[i] += value;
        }
      };
      const int64_t whole = vocabulary / 16 * 16;
      for (int64_t start = 0; start < whole; start += 16) read(start, 16);
      read(whole, vocabulary - whole);
      const float largest = *std::max_element(tops, tops + 16), total = std::accumulate(totals, totals + 16, 0.0f);
      const float label = values[labels[row]];
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < vocabulary; i++) {
        const float e = exponential(values[i] - largest);
        sum += e;
        values[i] = e;
      }
      const double normaliser = largest + std::log(static_cast<double>(sum)), likelihood = normaliser - label;
      losses[row] = {(1.0 - smoothing) * likelihood + smoothing * (normaliser - total / vocabulary), likelihood};
      if (!gradient) continue;
      const float inverse = 1.0f / sum, even = smoothing / vocabulary;
      const float right = values[labels[row]] * inverse - even - (1.0f - smoothing);
#pragma omp simd
      for (int64_t i = 0; i < vocabulary; i++) store(values[i] * inverse - even, x + i);
      store(right, x + labels[row]);
    }
  });
  // In the order of the rows, whoever computed them.
  for (const Losses& of : losses) sums[0] += of.smoothed, sums[1] += of.likelihood;
}

Error check(const void* logits, const int64_t* labels, int64_t rows, int64_t vocabulary, const double* sums,
            int threads) {
  if (rows < 0 || vocabulary < 1 || vocabulary > int64_t{1} << 31)
    return error_of("The loss has no logits of %lld rows and %lld columns.", rows, vocabulary);
  if (!some_threads(threads)) return error_of("The loss has no team of %lld threads.", threads);
  if ((rows && (!logits || !labels)) || !sums) return error_of("The loss lacks a tensor.");
  for (int64_t row = 0; row < rows; row++) {
    if (labels[row] < 0 || labels[row] >= vocabulary)
      return error_of("The label %lld is outside the vocabulary of %lld tokens.", labels[row], vocabulary);
  }
  return nullptr;
}

}  // namespace

// Adds the smoothed losses and the negative log-likelihoods of all rows to sums[0] and sums[1]; with `gradient`, the
// logits become the gradient of the smoothed loss, else they are used up. `small` says whether they are bfloat16; else
// they are float32.
extern "C" Error locant_cross_entropy(void* logits, int small, const int64_t* labels, int64_t rows,
                                      int64_t vocabulary, float smoothing, int gradient, double* sums,
                                      int threads) {
  if (const Error found = check(logits, labels, rows, vocabulary, sums, threads)) return found;
  return within_memory([&] {
    small ? cross_entropy(static_cast<BFloat16*>(logits), labels, rows, vocabulary, smoothing, gradient, sums, threads)
          : cross_entropy(static_cast<float*>(logits), labels, rows, vocabulary, smoothing, gradient, sums, threads);
    return Error{};
  });
}

// to += from.
extern "C" Error locant_accumulate(const BFloat16* from, float* to, int64_t size, int threads) {
  if (size < 0 || (size && (!from || !to)) || !some_threads(threads))
    return error_of("There is no sum of %lld numbers by %lld threads.", size, threads);
  return within_memory([&] {
    locant::parallel_for(size, locant::grain_of(size, threads, 32768), threads, [=](int64_t begin, int64_t end, int) {
#pragma omp simd
      for (int64_t i = begin; i < end; i++) to[i] += widen(from[i]);
    });
    return Error{};
  });
}
