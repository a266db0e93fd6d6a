// What tiles.h makes of a system that lends the tiles of AMX or refuses: what it asks is answered here.
//
//   lending REFUSED
//
// Prints twice whether tiles are lent, and how often the system was asked. Nothing is laid out.

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

long refused, times;

long system_call(long number, long what, long of) {
  times++;
  return number == SYS_arch_prctl && what == 0x1023 && of == 18 ? refused : -1;
}

}  // namespace

#define syscall system_call
#include "tiles.h"

int main(int, char** arguments) {
  refused = std::atol(arguments[1]);
  if (tiles::Laid(false) || times) return 1;
  const bool first = tiles::lent(), second = tiles::lent();
  std::printf("%d %d %ld\n", first, second, times);
}
