// Dropout whose random numbers are made where they are used, so that no mask is written or read.
//
// Whether an element is kept follows from a seed and its index. The backward pass makes the same numbers again.

#include <cstdint>

#include "kernel_common.h"
#include "threads.h"

namespace {

// out = added + dropout(x) for up to kRandomBlock elements of which `bytes` says what is dropped. A function of its own, because
// GCC vectorises no loop of a lambda that reads what was captured.
template <bool adds, class X, class Added, class Out>
inline void apply(const X* __restrict x, const Added* __restrict added, Out* __restrict out, int64_t count,
                  const uint8_t* bytes, int dropped, float scale) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    const float scaled = widen(x[i]) * scale, kept = bytes[i] >= dropped ? scaled : 0.0f;
    store(adds ? widen(added[i]) + kept : kept, out + i);
  }
}

// out = added + dropout(x), where `added` may be null; in float32, whatever the elements are.
template <bool adds, class X, class Added, class Out>
void apply(const X* x, const Added* added, Out* out, int64_t size, uint64_t seed, int dropped, float scale, int threads) {
  const int64_t blocks = (size + kRandomBlock - 1) / kRandomBlock;
  const int64_t grain = locant::grain_of(blocks, threads, 32768 / kRandomBlock);
  locant::parallel_for(blocks, grain, threads, [=](int64_t first, int64_t last, int) {
    for (int64_t block = first; block < last; block++) {
      uint8_t bytes[kRandomBlock];
      random_block(seed, block, bytes);
      const int64_t start = block * kRandomBlock, count = size - start < kRandomBlock ? size - start : kRandomBlock;
      apply<adds>(x + start, adds ? added + start : added, out + start, count, bytes, dropped, scale);
    }
  });
}

struct Call {
  const void* x;
  const void* added;
  void* out;
  int64_t size;
  uint64_t seed;
  int dropped;
  float scale;
  int threads;

  template <class X, class Added, class Out>
  void run() const {
    const auto* from = static_cast<const X*>(x);
    const auto* residual = static_cast<const Added*>(added);
    auto* to = static_cast<Out*>(out);
    added ? apply<true>(from, residual, to, size, seed, dropped, scale, threads)
          : apply<false>(from, residual, to, size, seed, dropped, scale, threads);
  }
  template <class X, class Added>
  void run(bool small_out) const {
    small_out ? run<X, Added, BFloat16>() : run<X, Added, float>();
  }
  template <class X>
  void run(bool small_added, bool small_out) const {
    small_added ? run<X, BFloat16>(small_out) : run<X, float>(small_out);
  }
};

}  // namespace

// `small_...` says whether the elements are bfloat16; else they are float32.
extern "C" Error locant_dropout(const void* x, const void* added, void* out, int small_x, int small_added,
                                int small_out, int64_t size, uint64_t seed, int dropped, float scale,
                                int threads) {
  if (size < 0 || (size && (!x || !out)) || !some_threads(threads))
    return error_of("There is no dropout of %lld numbers by %lld threads.", size, threads);
  if (dropped < 0 || dropped > 255) return error_of("Dropout takes 0 to 255 of 256 elements, not %lld.", dropped);
  const Call call{x, added, out, size, seed, dropped, scale, threads};
  return within_memory([&] {
    small_x ? call.run<BFloat16>(small_added, small_out) : call.run<float>(small_added, small_out);
    return Error{};
  });
}
