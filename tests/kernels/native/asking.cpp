// What processor.cpp makes of a processor with the tiles of AMX, of a system that keeps their registers or does not, and
// that lends them or refuses: what it asks of them is answered here.
//
//   asking KEPT REFUSED
//
// Prints whether tiles are lent, how often the system was asked for them, and for what.

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

uint32_t kept;
long refused, times, asked, feature;

int features(unsigned leaf, unsigned subleaf, unsigned* a, unsigned* b, unsigned* c, unsigned* d) {
  *a = leaf == 7 && subleaf == 0, *b = 0, *c = leaf == 1 ? 1u << 27 : 0, *d = leaf == 7 ? 1u << 24 : 0;
  return 1;
}

long system_call(long number, long what, long of) {
  times++, asked = what, feature = of;
  return number == SYS_arch_prctl ? refused : -1;
}

}  // namespace

#define __get_cpuid_count features
#define syscall system_call
#define asm  // the one that reads XCR0 is what follows in brackets
#define volatile(...) (low = kept, high = 0)
#include "processor.cpp"

int main(int, char** arguments) {
  kept = static_cast<uint32_t>(std::strtoul(arguments[1], nullptr, 0)), refused = std::atol(arguments[2]);
  uint64_t found[8];
  locant_processor(found);
  std::printf("%d %ld %#lx %ld\n", static_cast<int>(found[7]), times, asked, feature);
}
