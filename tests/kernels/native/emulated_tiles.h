// The instructions of AMX in plain C++, as Intel's manual (volume 2) describes them, for tests on machines without them.
// tiles.h includes this where LOCANT_EMULATED_TILES is defined.

inline bool lent() { return true; }

struct Tile {
  uint8_t bytes[kRows][kBytes];
};

// The thread's tiles; outside of what is laid out there are none, and a processor would stop the program.
thread_local Tile emulated[8];
thread_local bool is_laid_out = false;

inline Tile& tile(int number) {
  if (!is_laid_out) __builtin_trap();
  return emulated[number];
}

inline void lay_out() {
  is_laid_out = true;
  for (Tile& one : emulated) one = Tile{};
}

inline void give_back() { is_laid_out = false; }

template <int T>
void clear() {
  tile(T) = Tile{};
}

template <int T>
void load(const void* from, int64_t stride) {
  for (int64_t row = 0; row < kRows; row++)
    std::memcpy(tile(T).bytes[row], static_cast<const uint8_t*>(from) + row * stride, kBytes);
}

template <int T>
void save(void* to, int64_t stride) {
  for (int64_t row = 0; row < kRows; row++)
    std::memcpy(static_cast<uint8_t*>(to) + row * stride, tile(T).bytes[row], kBytes);
}

// `product(to, x, w)` for each sum and each four bytes of activations and weights.
template <int Sums, int X, int W, class Sum, class Product>
void each(const Product& product) {
  for (int64_t row = 0; row < kRows; row++) {
    for (int64_t column = 0; column < kColumns; column++) {
      uint8_t* const place = tile(Sums).bytes[row] + column * 4;
      Sum sum;
      std::memcpy(&sum, place, 4);
      sum += product(tile(X).bytes[row], [&](int64_t k) { return tile(W).bytes[k] + column * 4; });
      std::memcpy(place, &sum, 4);
    }
  }
}

template <int Sums, int X, int W>
void multiply_add(int32_t) {
  each<Sums, X, W, int32_t>([](const uint8_t* x, const auto& w) {
    int32_t sum = 0;
    for (int64_t k = 0; k < kBytes; k++) sum += x[k] * static_cast<int8_t>(w(k / 4)[k % 4]);
    return sum;
  });
}

// Numbers at even places and those at odd ones have sums of their own.
template <int Sums, int X, int W>
void multiply_add(float) {
  each<Sums, X, W, float>([](const uint8_t* x, const auto& w) {
    float sums[2] = {};
    for (int64_t k = 0; k < kBytes / 2; k++) {
      const auto number = [&](const uint8_t* from) {
        uint32_t bits = 0;
        std::memcpy(reinterpret_cast<uint8_t*>(&bits) + 2, from + k % 2 * 2, 2);
        float value;
        std::memcpy(&value, &bits, 4);
        return value;
      };
      const float one = number(x + k / 2 * 4), other = number(w(k / 2));
      sums[k % 2] = std::fma(one, other, sums[k % 2]);
    }
    return sums[0] + sums[1];
  });
}
