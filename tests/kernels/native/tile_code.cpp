// Each instruction of tiles.h in a function of its own, whose machine code is compared with Intel's manual. Compiled, not run.

#include "tiles.h"

extern "C" {

void lay_out(const tiles::Layout* layout) { tiles::lay_out(*layout); }
void give_back() { tiles::give_back(); }
void clear() { tiles::clear<3>(); }
void load(const void* from, int64_t stride) { tiles::load<5>(from, stride); }
void save(void* to, int64_t stride) { tiles::save<2>(to, stride); }
void multiply_bytes() { tiles::multiply_add<0, 4, 6>(int32_t{}); }
void multiply_numbers() { tiles::multiply_add<3, 5, 7>(float{}); }

}  // extern "C"
