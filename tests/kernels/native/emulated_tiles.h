// The instructions of AMX in plain C++, as Intel's manual (volume 2) describes them, for tests on machines without them. Where
// a processor stops the program, so do they. tiles.h includes this where LOCANT_EMULATED_TILES is defined.

inline bool lent() { return true; }

struct Tile {
  int64_t rows = 0, row_bytes = 0;  // 0 where the tile is not laid out
  uint8_t bytes[16][64] = {};
};

// The thread's tiles, and whether they are laid out.
thread_local Tile emulated[8];
thread_local bool is_laid_out = false;

inline void require(bool condition) {
  if (!condition) __builtin_trap();
}

inline Tile& tile(int number) {
  require(is_laid_out && emulated[number].rows);
  return emulated[number];
}

// LDTILECFG: the palette, the row at which an interrupted instruction goes on, and of each tile the bytes of a row, from byte
// 16 on, and the rows, from byte 48 on. All else is reserved.
inline void lay_out(const Layout& layout) {
  uint8_t bytes[64];
  std::memcpy(bytes, &layout, sizeof bytes);
  require(bytes[0] == 1 && bytes[1] == 0);
  const auto reserved = [&](int begin, int end) {
    for (int i = begin; i < end; i++) require(bytes[i] == 0);
  };
  reserved(2, 16), reserved(32, 48), reserved(56, 64);
  for (int i = 0; i < 8; i++) {
    emulated[i] = Tile{};
    emulated[i].row_bytes = bytes[16 + 2 * i] | bytes[17 + 2 * i] << 8;
    emulated[i].rows = bytes[48 + i];
    require(emulated[i].rows <= 16 && emulated[i].row_bytes <= 64 && !emulated[i].rows == !emulated[i].row_bytes);
  }
  is_laid_out = true;
}

// TILERELEASE
inline void give_back() { is_laid_out = false; }

// TILEZERO
template <int T>
void clear() {
  std::memset(tile(T).bytes, 0, sizeof tile(T).bytes);
}

// TILELOADD
template <int T>
void load(const void* from, int64_t stride) {
  clear<T>();
  for (int64_t row = 0; row < tile(T).rows; row++)
    std::memcpy(tile(T).bytes[row], static_cast<const uint8_t*>(from) + row * stride, tile(T).row_bytes);
}

// TILESTORED
template <int T>
void save(void* to, int64_t stride) {
  for (int64_t row = 0; row < tile(T).rows; row++)
    std::memcpy(static_cast<uint8_t*>(to) + row * stride, tile(T).bytes[row], tile(T).row_bytes);
}

// `product(x, w)` for each sum of a row and a column: four bytes of activations for each row of weights.
template <int Sums, int X, int W, class Sum, class Product>
void each(const Product& product) {
  static_assert(Sums != X && Sums != W && X != W);
  const Tile &x = tile(X), &w = tile(W);
  Tile& sums = tile(Sums);
  require(sums.rows == x.rows && sums.row_bytes == w.row_bytes && x.row_bytes == 4 * w.rows && w.row_bytes % 4 == 0);
  for (int64_t row = 0; row < sums.rows; row++) {
    for (int64_t column = 0; column < sums.row_bytes / 4; column++) {
      uint8_t* const place = sums.bytes[row] + column * 4;
      Sum sum;
      std::memcpy(&sum, place, 4);
      sum += product(x.bytes[row], w.rows, [&](int64_t k) { return w.bytes[k] + column * 4; });
      std::memcpy(place, &sum, 4);
    }
  }
}

// TDPBUSD
template <int Sums, int X, int W>
void multiply_add(int32_t) {
  each<Sums, X, W, int32_t>([](const uint8_t* x, int64_t groups, const auto& w) {
    int32_t sum = 0;
    for (int64_t k = 0; k < 4 * groups; k++) sum += x[k] * static_cast<int8_t>(w(k / 4)[k % 4]);
    return sum;
  });
}

// TDPBF16PS: numbers at even places and those at odd ones have sums of their own; denormal ones are zero.
template <int Sums, int X, int W>
void multiply_add(float) {
  const auto flushed = [](float value) { return std::fpclassify(value) == FP_SUBNORMAL ? 0.0f : value; };
  each<Sums, X, W, float>([&](const uint8_t* x, int64_t groups, const auto& w) {
    float sums[2] = {};
    for (int64_t k = 0; k < 2 * groups; k++) {
      const auto number = [&](const uint8_t* from) {
        uint32_t bits = 0;
        std::memcpy(reinterpret_cast<uint8_t*>(&bits) + 2, from + k % 2 * 2, 2);
        float value;
        std::memcpy(&value, &bits, 4);
        return flushed(value);
      };
      sums[k % 2] = flushed(std::fma(number(x + k / 2 * 4), number(w(k / 2)), sums[k % 2]));
    }
    return flushed(sums[0] + sums[1]);
  });
}
