// What the engine needs of the C and C++ libraries, for WebAssembly without an operating system: memory, one form of
// printing, and the logarithm.

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <typeinfo>

extern "C" unsigned char __heap_base;  // where the linker says that free memory begins

namespace {

constexpr size_t kAlignment = 16, kPage = 65536;

// Blocks of some sizes, four of them from each power of two to the next. A block that is given back is kept for the next
// of its size; before each there is a header with the number of its size.
constexpr int kSizes = 4 * 28;

struct Block {
  Block* next;
};

Block* given_back[kSizes];
uintptr_t unused = 0, end_of_memory = 0;

constexpr size_t size_of(int number) { return (size_t{32} << number / 4) / 4 * (4 + number % 4); }

int number_of(size_t bytes) {
  int number = 0;
  if (bytes > 32) number = 4 * (26 - __builtin_clz(static_cast<unsigned>(bytes - 1)));
  while (size_of(number) < bytes) number++;
  return number;
}

void* allocate(size_t bytes) {
  if (bytes > (size_t{1} << 31)) __builtin_trap();
  const int number = number_of(bytes);
  if (Block* block = given_back[number]) {
    given_back[number] = block->next;
    return block;
  }
  if (!unused) {
    unused = (reinterpret_cast<uintptr_t>(&__heap_base) + kAlignment - 1) / kAlignment * kAlignment;
    end_of_memory = __builtin_wasm_memory_size(0) * kPage;
  }
  const size_t size = (size_of(number) + 2 * kAlignment - 1) / kAlignment * kAlignment;  // with the header
  if (end_of_memory - unused < size) {
    const size_t pages = (size - (end_of_memory - unused) + kPage - 1) / kPage;
    if (__builtin_wasm_memory_grow(0, pages) == static_cast<size_t>(-1)) __builtin_trap();
    end_of_memory += pages * kPage;
  }
  auto* header = reinterpret_cast<int*>(unused);
  unused += size;
  *header = number;
  return reinterpret_cast<char*>(header) + kAlignment;
}

void give_back(void* memory) {
  if (!memory) return;
  auto* block = static_cast<Block*>(memory);
  const int number = *reinterpret_cast<int*>(static_cast<char*>(memory) - kAlignment);
  block->next = given_back[number];
  given_back[number] = block;
}

}  // namespace

void* operator new(size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, size_t) noexcept { give_back(memory); }

// A wider alignment: the block's own address stands before the memory.
void* operator new(size_t bytes, std::align_val_t alignment) {
  const size_t wide = static_cast<size_t>(alignment);
  void* block = allocate(bytes + wide + kAlignment);
  const uintptr_t place = (reinterpret_cast<uintptr_t>(block) + kAlignment + wide - 1) / wide * wide;
  reinterpret_cast<void**>(place)[-1] = block;
  return reinterpret_cast<void*>(place);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  if (memory) give_back(static_cast<void**>(memory)[-1]);
}
void operator delete(void* memory, size_t, std::align_val_t alignment) noexcept { operator delete(memory, alignment); }

// The parts of shared_ptr and of failed checks that libc++ keeps in its library.
_LIBCPP_BEGIN_NAMESPACE_STD

__shared_count::~__shared_count() {}
__shared_weak_count::~__shared_weak_count() {}
void __shared_weak_count::__release_weak() noexcept {
  if (__libcpp_atomic_refcount_decrement(__shared_weak_owners_) == -1) __on_zero_shared_weak();
}
const void* __shared_weak_count::__get_deleter(const type_info&) const noexcept { return nullptr; }

[[noreturn]] void __libcpp_verbose_abort(const char*, ...) noexcept { __builtin_trap(); }

_LIBCPP_END_NAMESPACE_STD

extern "C" {

void abort() { __builtin_trap(); }

int __cxa_atexit(void (*)(void*), void*, void*) { return 0; }  // a page never ends

// Knows %lld alone, as errors are written.
int snprintf(char* to, size_t size, const char* form, ...) {
  va_list numbers;
  va_start(numbers, form);
  size_t length = 0;
  const auto put = [&](char character) {
    if (length + 1 < size) to[length] = character;
    length++;
  };
  while (*form) {
    if (std::strncmp(form, "%lld", 4)) {
      put(*form++);
      continue;
    }
    form += 4;
    const long long number = va_arg(numbers, long long);
    auto left = static_cast<unsigned long long>(number);
    if (number < 0) put('-'), left = 0 - left;
    char digits[20];
    int count = 0;
    do digits[count++] = static_cast<char>('0' + left % 10);
    while (left /= 10);
    while (count) put(digits[--count]);
  }
  va_end(numbers);
  if (size) to[length < size ? length : size - 1] = 0;
  return static_cast<int>(length);
}

int strncmp(const char* one, const char* other, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (one[i] != other[i]) return one[i] < other[i] ? -1 : 1;
    if (!one[i]) break;
  }
  return 0;
}

// JavaScript's Math.log.
__attribute__((import_module("math"), import_name("log"))) double math_log(double x);

float logf(float x) { return static_cast<float>(math_log(x)); }

}  // extern "C"
