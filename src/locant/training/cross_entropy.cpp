// Label-smoothed cross-entropy of rows of logits, and its gradient in their place.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "elements.h"

// Adds the smoothed losses and the negative log-likelihoods of all rows to sums[0] and sums[1]; with `gradient`, the
// logits become the gradient of the smoothed loss.
extern "C" void locant_cross_entropy(float* logits, const int64_t* labels, int64_t rows, int64_t vocabulary,
                                     float smoothing, int gradient, double* sums, int threads) {
  double loss = 0, likelihood = 0;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(+ : loss, likelihood)
  for (int64_t row = 0; row < rows; row++) {
    float* x = logits + row * vocabulary;
    float largest = x[0], total = 0, sum = 0;
#pragma omp simd reduction(max : largest) reduction(+ : total)
    for (int64_t i = 0; i < vocabulary; i++) {
      largest = std::max(largest, x[i]);
      total += x[i];
    }
    const float label = x[labels[row]];
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < vocabulary; i++) {
      const float e = exponential(x[i] - largest);
      sum += e;
      x[i] = e;
    }
    const double normaliser = largest + std::log(static_cast<double>(sum));
    likelihood += normaliser - label;
    loss += (1.0 - smoothing) * (normaliser - label) + smoothing * (normaliser - total / vocabulary);
    if (!gradient) continue;
    const float inverse = 1.0f / sum, even = smoothing / vocabulary;
#pragma omp simd
    for (int64_t i = 0; i < vocabulary; i++) x[i] = x[i] * inverse - even;
    x[labels[row]] -= 1.0f - smoothing;
  }
  sums[0] += loss;
  sums[1] += likelihood;
}
