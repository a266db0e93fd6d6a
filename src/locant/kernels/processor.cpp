// What the processor and the system say of themselves, for the choice of a variant: Python asks the least one.

#include <cstdint>

#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__linux__)
#include <sys/auxv.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

// Writes eight numbers, of which those that do not exist are zero.
//
// x86-64: ECX of CPUID leaf 1; ECX of leaf 0x80000001; EBX, ECX and EDX of leaf 7; EAX of leaf 7, subleaf 1; the register
// XCR0, whose bits say which registers the system keeps; 1 where it lends this process the tiles of AMX, for which it is
// asked now.
// aarch64: AT_HWCAP and AT_HWCAP2 of Linux, or what macOS says under the same bits.
extern "C" void locant_processor(uint64_t* found) {
  for (int i = 0; i < 8; i++) found[i] = 0;
#if defined(__x86_64__) || defined(_M_X64)
  unsigned a, b, c, d;
  if (__get_cpuid_count(1, 0, &a, &b, &c, &d)) found[0] = c;
  if (__get_cpuid_count(0x80000001u, 0, &a, &b, &c, &d)) found[1] = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    found[2] = b, found[3] = c, found[4] = d;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) found[5] = a;
  }
  if (found[0] & (1u << 27)) {  // OSXSAVE: the system has enabled XGETBV
    uint32_t low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    found[6] = static_cast<uint64_t>(high) << 32 | low;
#ifdef __linux__
    constexpr long kAsk = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA of Linux 5.16
    if (found[6] >> kTileData & 1) found[7] = syscall(SYS_arch_prctl, kAsk, kTileData) == 0;
#endif
  }
#elif defined(__linux__)
  found[0] = getauxval(AT_HWCAP);
  found[1] = getauxval(AT_HWCAP2);
#elif defined(__APPLE__)
  const auto has = [](const char* name) -> uint64_t {
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value ? 1 : 0;
  };
  // ARMv8.2, which every such Mac has.
  found[0] = 1u << 1 | 1u << 7 | 1u << 8 | 1u << 12 | has("hw.optional.arm.FEAT_DotProd") << 20;
  found[1] = has("hw.optional.arm.FEAT_I8MM") << 13 | has("hw.optional.arm.FEAT_BF16") << 14;
#endif
}
