// Threads of the kernels' own, which sleep when there is nothing to do.
//
// No OpenMP: a process then has PyTorch's runtime and no other one beside it, and waiting gives way to other work.

#pragma once

#ifdef __wasm__

// In a browser there is the calling thread alone.

#include <algorithm>
#include <cstdint>

namespace locant {

class Barrier {
 public:
  void wait(int) {}
};

template <class Work>
void in_team(int, const Work& work) {
  Barrier barrier;
  work(barrier, 0, 1);
}

template <class Work>
void parallel_for(int64_t size, int64_t grain, int, const Work& work) {
  for (int64_t begin = 0; begin < size; begin += grain) work(begin, std::min(begin + grain, size), 0);
}

}  // namespace locant

#else

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace locant {

using Duration = std::chrono::nanoseconds;

// Where threads wait for something that others change: a short while awake, giving way to whoever wants the core, then
// asleep. It must outlive all calls.
class WaitingRoom {
 public:
  // Returns once `ready` does, which reads atomics in sequentially consistent order. Says for how long it has waited where
  // that was longer than it stays awake.
  template <class Ready>
  Duration wait(const Ready& ready) {
    Duration waited{0};
    if (spin([](const void* of) { return (*static_cast<const Ready*>(of))(); }, &ready, waited)) return waited;
    const auto begun = std::chrono::steady_clock::now();
    std::unique_lock<std::mutex> lock(mutex_);
    asleep_.fetch_add(1);
    changed_.wait(lock, ready);
    asleep_.fetch_sub(1);
    return waited + (std::chrono::steady_clock::now() - begun);
  }
  // Wakes those who sleep; called after the change, which was made in sequentially consistent order.
  void wake();

 private:
  static bool spin(bool (*ready)(const void*), const void* of, Duration& waited);

  std::atomic<int> asleep_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

// Where all members of a team wait for each other.
class Barrier {
 public:
  void wait(int members);
  // For how long members have waited, all together.
  Duration waited() const { return Duration(waited_.load()); }

 private:
  std::atomic<int> arrived_{0}, round_{0};
  std::atomic<int64_t> waited_{0};
  WaitingRoom room_;
};

// What each member of a team does: `run(work, member, members)`.
using Run = void (*)(const void* work, int member, int members);

// Runs a piece of work in up to `threads` threads, the caller being member 0. There are fewer where the system gives no
// more, where other callers have them, and where something else keeps cores busy, so that they would wait long (watch.h).
//
// With a barrier every member runs, all at the same time, so that they may wait for each other there. Without one, a member
// that has not begun when the caller is done does not run at all: each takes what there is to do.
void run_in_team(int threads, Barrier* barrier, Run run, const void* work);

// Calls `work(barrier, member, members)` for each member of a team at the same time.
template <class Work>
void in_team(int threads, const Work& work) {
  struct Given {
    const Work& work;
    mutable Barrier barrier;
  } const given{work, {}};
  const Run run = [](const void* of, int member, int members) {
    const Given& given = *static_cast<const Given*>(of);
    given.work(given.barrier, member, members);
  };
  run_in_team(threads, &given.barrier, run, &given);
}

// Calls `work(begin, end, member)` until the ranges, each of at most `grain`, have covered 0 to size - 1. Members are
// numbered from 0 to `threads` - 1, and one never does two things at once. Threads take the next range when they are
// done with one: who does what differs from run to run, and the ranges do not.
template <class Work>
void parallel_for(int64_t size, int64_t grain, int threads, const Work& work) {
  if (size <= 0) return;
  const int64_t ranges = (size + grain - 1) / grain;
  struct Loop {
    const Work& work;
    const int64_t size, grain;
    mutable std::atomic<int64_t> next;
  } const loop{work, size, grain, {0}};
  const Run run = [](const void* given, int member, int) {
    const Loop& loop = *static_cast<const Loop*>(given);
    for (int64_t begin; (begin = loop.next.fetch_add(loop.grain)) < loop.size;)
      loop.work(begin, std::min(begin + loop.grain, loop.size), member);
  };
  run_in_team(static_cast<int>(std::min<int64_t>(threads, ranges)), nullptr, run, &loop);
}

// The grain of a loop whose steps cost the same: some ranges for each thread, so that one that is late holds up nobody;
// never fewer than `least` steps, which make up for taking a range.
inline int64_t grain_of(int64_t size, int threads, int64_t least) {
  return std::max({least, size / (4 * static_cast<int64_t>(std::max(threads, 1))), int64_t{1}});
}

}  // namespace locant

#endif
