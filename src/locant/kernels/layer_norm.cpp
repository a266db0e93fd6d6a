// Layer norm with the dropout and the residual connection before it, in one pass over the rows; float32 arithmetic.
//
// Notation: R rows, E features of a row, a multiple of kRandomBlock.

#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "kernel_common.h"
#include "threads.h"

namespace {

// The fields as Python fills them.
struct Work {
  int64_t rows, width;
  uint64_t seed;
  int64_t dropped;  // of 256; 0 drops nothing
  int64_t threads;
};

// to = dropout(from), with the same choice for the same row.
template <class From, class To>
inline void drop(const Work& work, float scale, int64_t row, const From* from, To* to) {
  const int dropped = static_cast<int>(work.dropped);
  for (int64_t start = 0; start < work.width; start += kRandomBlock) {
    uint8_t bytes[kRandomBlock];
    random_block(work.seed, (row * work.width + start) / kRandomBlock, bytes);
#pragma omp simd
    for (int64_t i = 0; i < kRandomBlock; i++) {
      const float scaled = widen(from[start + i]) * scale;
      store(bytes[i] >= dropped ? scaled : 0.0f, to + start + i);
    }
  }
}

// out = (s - mean) * inverse * gamma + beta, where s = residual + dropout(x) and the residual may be null.
template <class X, class Out>
void forward(const Work& work, const void* x, const void* residual, const float* gamma, const float* beta, void* out,
             void* normalised, float* inverse, float scale, float epsilon) {
  const int64_t width = work.width, grain = locant::grain_of(work.rows, work.threads, 8192 / width);
  const ThreadBuffers rooms(work.threads, width);
  locant::parallel_for(work.rows, grain, work.threads, [&](int64_t begin, int64_t end, int member) {
    // GCC vectorises no loop of a lambda that reads what was captured.
    const float *const weight = gamma, *const bias = beta;
    const int64_t width = work.width;
    float* const sum = rooms.of(member);
    for (int64_t row = begin; row < end; row++) {
      const X* from = static_cast<const X*>(x) + row * width;
      if (work.dropped) {
        drop(work, scale, row, from, sum);
      } else {
#pragma omp simd
        for (int64_t i = 0; i < width; i++) sum[i] = widen(from[i]);
      }
      if (residual) {
        const X* added = static_cast<const X*>(residual) + row * width;
#pragma omp simd
        for (int64_t i = 0; i < width; i++) sum[i] += widen(added[i]);
      }
      float total = 0, squares = 0;
#pragma omp simd reduction(+ : total)
      for (int64_t i = 0; i < width; i++) total += sum[i];
      const float mean = total / width;
#pragma omp simd reduction(+ : squares)
      for (int64_t i = 0; i < width; i++) squares += (sum[i] - mean) * (sum[i] - mean);
      const float by = 1.0f / std::sqrt(squares / width + epsilon);
      inverse[row] = by;
      Out* to = static_cast<Out*>(out) + row * width;
      Out* kept = static_cast<Out*>(normalised) + row * width;
#pragma omp simd
      for (int64_t i = 0; i < width; i++) {
        const float value = (sum[i] - mean) * by;
        store(value, kept + i);
        store(value * weight[i] + bias[i], to + i);
      }
    }
  });
}

// The gradients of x, of the residual (unless null) and, added up thread by thread in `sums [threads, 2, E]`, of gamma
// and beta, from that of the output.
template <class X, class Out>
void backward(const Work& work, const void* outer, const void* normalised, const float* inverse, const float* gamma,
              void* of_x, void* of_residual, float* sums, float scale) {
  const int64_t width = work.width;
  const ThreadBuffers rooms(work.threads, width);
  // One share of the rows for each thread asked for, whichever takes it: sums never depend on that.
  locant::parallel_for(work.threads, 1, work.threads, [&](int64_t thread, int64_t, int member) {
    const float* const weight = gamma;
    const int64_t width = work.width;
    float* const gradient = rooms.of(member);
    float *of_gamma = sums + 2 * thread * width, *of_beta = of_gamma + width;
    for (int64_t row = work.rows * thread / work.threads; row < work.rows * (thread + 1) / work.threads; row++) {
      const Out* above = static_cast<const Out*>(outer) + row * width;
      const Out* values = static_cast<const Out*>(normalised) + row * width;
      float total = 0, product = 0;
#pragma omp simd reduction(+ : total, product)
      for (int64_t i = 0; i < width; i++) {
        const float one = widen(above[i]), value = widen(values[i]);
        of_gamma[i] += one * value;
        of_beta[i] += one;
        gradient[i] = one * weight[i];
        total += gradient[i];
        product += gradient[i] * value;
      }
      const float mean = total / width, along = product / width, by = inverse[row];
#pragma omp simd
      for (int64_t i = 0; i < width; i++) gradient[i] = by * (gradient[i] - mean - widen(values[i]) * along);
      X* to = static_cast<X*>(of_x) + row * width;
      if (of_residual) {
        X* added = static_cast<X*>(of_residual) + row * width;
#pragma omp simd
        for (int64_t i = 0; i < width; i++) store(gradient[i], added + i);
      }
      if (work.dropped) {
        drop(work, scale, row, gradient, to);
      } else {
#pragma omp simd
        for (int64_t i = 0; i < width; i++) store(gradient[i], to + i);
      }
    }
  });
}

Error check(const Work& work, std::initializer_list<const void*> tensors) {
  if (work.rows < 0 || work.width < 1 || work.width > int64_t{1} << 31 || work.width % kRandomBlock)
    return error_of("Layer norm has no %lld rows of %lld features, which must be a multiple of 64.", work.rows, work.width);
  if (work.dropped < 0 || work.dropped > 255)
    return error_of("Dropout takes 0 to 255 of 256 elements, not %lld.", work.dropped);
  if (!some_threads(work.threads)) return error_of("Layer norm has no team of %lld threads.", work.threads);
  for (const void* x : tensors) {
    if (work.rows && !x) return error_of("Layer norm lacks a tensor.");
  }
  return nullptr;
}

}  // namespace

// `small_...` says whether x with the residual, and the output with `normalised`, are bfloat16; else they are float32.
extern "C" Error locant_layer_norm(const Work* work, const void* x, const void* residual, const float* gamma,
                                   const float* beta, void* out, void* normalised, float* inverse, float scale,
                                   float epsilon, int small_x, int small_out) {
  if (const Error found = check(*work, {x, gamma, beta, out, normalised, inverse})) return found;
  const auto run = small_x     ? forward<BFloat16, BFloat16>
                   : small_out ? forward<float, BFloat16>
                               : forward<float, float>;
  return within_memory([&] {
    run(*work, x, residual, gamma, beta, out, normalised, inverse, scale, epsilon);
    return Error{};
  });
}

extern "C" Error locant_layer_norm_backward(const Work* work, const void* outer, const void* normalised,
                                            const float* inverse, const float* gamma, void* of_x,
                                            void* of_residual, float* sums, float scale, int small_x,
                                            int small_out) {
  if (const Error found = check(*work, {outer, normalised, inverse, gamma, of_x, sums})) return found;
  const auto run = small_x     ? backward<BFloat16, BFloat16>
                   : small_out ? backward<float, BFloat16>
                               : backward<float, float>;
  return within_memory([&] {
    run(*work, outer, normalised, inverse, gamma, of_x, of_residual, sums, scale);
    return Error{};
  });
}
