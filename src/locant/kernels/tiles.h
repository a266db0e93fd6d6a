// Products on the tiles of Intel's AMX: eight registers of 16 rows of 64 bytes, which take 16 rows of activations by 64
// bytes of each, and weights of 16 outputs, as matrix_products.h packs them for AVX-512 VNNI.
//
// A processor lends its tiles to programs that ask the system (Linux: arch_prctl), and they are laid out anew by each
// piece of work: other libraries in the same thread, such as oneDNN, lay them out in their own way and give them back.

#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512VNNI__) && defined(__AVX512BF16__)
#ifdef LOCANT_EMULATED_TILES
#define LOCANT_TILES
#elif defined(__AMX_INT8__) && defined(__AMX_BF16__) && defined(__linux__)
#define LOCANT_TILES
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace {
namespace tiles {

constexpr int64_t kRows = 16, kBytes = 64;  // of a tile
constexpr int64_t kColumns = 16;            // sums of 32 bits in a row of one

// Rows from which products are on tiles. Eight tiles are 4 sums, activations and weights: a product of 16 rows takes about
// 16 cycles however many of them are of use, in which AVX-512 multiplies one row or two of the same weights. By that
// count tiles win from some 4 rows on where weights are in the cache, and nothing where they are not; below 16 rows they
// would need rows that are not there.
constexpr int64_t kLeastRows = kRows;

#ifdef LOCANT_TILES

// As the instruction reads it: palette 1, in which each tile has its rows and the bytes of a row.
struct alignas(64) Layout {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {kBytes, kBytes, kBytes, kBytes, kBytes, kBytes, kBytes, kBytes};
  uint8_t rows[16] = {kRows, kRows, kRows, kRows, kRows, kRows, kRows, kRows};
};
static_assert(sizeof(Layout) == 64);

#ifdef LOCANT_EMULATED_TILES

#include "emulated_tiles.h"  // of the tests: the same instructions in plain C++

#else

// Asks for the tiles, which the system lends to the whole process and to what it forks; whether it does. Without a lock, which
// a child of fork might find taken: whoever asks twice is answered twice.
inline bool lent() {
  constexpr long kAsk = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA of Linux 5.16
  static std::atomic<int> answer{0};
  int known = answer.load(std::memory_order_relaxed);
  if (!known) answer.store(known = syscall(SYS_arch_prctl, kAsk, kTileData) == 0 ? 1 : -1, std::memory_order_relaxed);
  return known > 0;
}

inline void lay_out(const Layout& layout) { asm volatile("ldtilecfg %0" ::"m"(layout)); }

inline void give_back() { asm volatile("tilerelease"); }

// Compilers' own functions are no functions of a number in GCC, and GCC 12 lets stores to memory pass its loads.
template <int T>
inline void clear() {
  asm volatile("tilezero %%tmm%c0" ::"i"(T));
}

template <int T>
inline void load(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T) : "memory");
}

template <int T>
inline void save(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(T) : "memory");
}

// Adds the products of bytes without a sign and bytes with one to sums of 32 bits.
template <int Sums, int X, int W>
inline void multiply_add(int32_t) {
  asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sums), "i"(X), "i"(W));
}

// Adds the products of bfloat16 to sums in float32.
template <int Sums, int X, int W>
inline void multiply_add(float) {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(Sums), "i"(X), "i"(W));
}

#endif
#endif

// While there is one, the thread's tiles are laid out for products.
class Laid {
 public:
#ifdef LOCANT_TILES
  explicit Laid(bool wanted) : done_(wanted && lent()) {
    if (done_) lay_out(Layout());
  }
  ~Laid() {
    if (done_) give_back();
  }
  Laid(const Laid&) = delete;
  Laid& operator=(const Laid&) = delete;
  explicit operator bool() const { return done_; }

 private:
  const bool done_;
#else
  explicit Laid(bool) {}
  explicit operator bool() const { return false; }
#endif
};

#ifdef LOCANT_TILES

// The sums of 32 rows over one panel of weights, of two times 16 columns: `first` and `second` are 16 rows each, `stride`
// bytes from row to row. `to` receives 16 rows of 32 columns, and then those of `second`.
template <class Sum>
void sum_square(const uint8_t* first, const uint8_t* second, int64_t stride, const uint8_t* w, int64_t bytes, Sum* to) {
  constexpr int64_t line = 2 * kBytes;  // of a panel, and of sums
  clear<0>(), clear<1>(), clear<2>(), clear<3>();
  for (int64_t k = 0; k < bytes; k += kBytes, w += kRows * line) {
    load<6>(w, line), load<7>(w + kBytes, line);
    load<4>(first + k, stride);
    multiply_add<0, 4, 6>(Sum{}), multiply_add<1, 4, 7>(Sum{});
    load<5>(second + k, stride);
    multiply_add<2, 5, 6>(Sum{}), multiply_add<3, 5, 7>(Sum{});
  }
  save<0>(to, line), save<1>(to + kColumns, line);
  to += 2 * kColumns * kRows;
  save<2>(to, line), save<3>(to + kColumns, line);
}

// The sums of 16 rows over two panels of weights. `to` receives 16 rows of the 32 columns of the first panel, and then
// those of the second: with one panel alone two sums would wait for each other.
template <class Sum>
void sum_wide(const uint8_t* x, int64_t stride, const uint8_t* w, const uint8_t* next, int64_t bytes, Sum* to) {
  constexpr int64_t line = 2 * kBytes;
  clear<0>(), clear<1>(), clear<2>(), clear<3>();
  for (int64_t k = 0; k < bytes; k += kBytes, w += kRows * line, next += kRows * line) {
    load<4>(x + k, stride);
    load<5>(w, line), load<6>(w + kBytes, line);
    multiply_add<0, 4, 5>(Sum{}), multiply_add<1, 4, 6>(Sum{});
    load<7>(next, line), load<5>(next + kBytes, line);
    multiply_add<2, 4, 7>(Sum{}), multiply_add<3, 4, 5>(Sum{});
  }
  save<0>(to, line), save<1>(to + kColumns, line);
  to += 2 * kColumns * kRows;
  save<2>(to, line), save<3>(to + kColumns, line);
}

#endif

}  // namespace tiles
}  // namespace
