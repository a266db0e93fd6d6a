// Threads of the kernels' own, which sleep when there is nothing to do.
//
// No OpenMP: a process then has PyTorch's runtime and no other one beside it, and waiting gives way to other work.

#pragma once

#ifdef __wasm__

// In a browser there is the calling thread alone.

#include <algorithm>
#include <cstdint>

namespace locant {

// When work that may pause should do so: never.
class Deadline {
 public:
  Deadline() = default;
  explicit Deadline(int64_t) {}
  bool passed() const { return false; }
};

class Member {
 public:
  int number() const { return 0; }
  int members() const { return 1; }
  bool left() const { return false; }
  template <class Part, class Then>
  void run(int64_t parts, const Part& part, const Then& then) {
    for (int64_t i = 0; i < parts; i++) part(i);
    then();
  }
};

template <class Work>
void in_team(int, const Work& work) {
  work(Member());
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
using Moment = std::chrono::steady_clock::time_point;

// When work that may pause should do so: never, or after some nanoseconds.
class Deadline {
 public:
  Deadline() = default;
  explicit Deadline(int64_t nanoseconds)
      : end_(std::chrono::steady_clock::now() + Duration(std::min(nanoseconds, int64_t{1} << 60))) {}
  bool passed() const { return end_ != Moment::max() && std::chrono::steady_clock::now() >= end_; }

 private:
  Moment end_ = Moment::max();
};

// Where threads wait for something that others change: a short while awake, giving way to whoever wants the core, then
// asleep. It must outlive all calls.
class Event {
 public:
  // Returns once `ready` does, which reads atomics in sequentially consistent order. Says for how long it has waited where
  // that was longer than it stays awake.
  template <class Ready>
  Duration wait(const Ready& ready, Duration awake = longest_awake()) {
    Duration waited{0};
    if (spin([](const void* of) { return (*static_cast<const Ready*>(of))(); }, &ready, awake, waited)) return waited;
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
  static Duration longest_awake();
  static bool spin(bool (*ready)(const void*), const void* of, Duration awake, Duration& waited);

  std::atomic<int> asleep_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

// Steps are judged after so much time: long beside what interrupts a quiet machine, short beside a translation.
#ifdef LOCANT_JUDGED
constexpr Duration kJudged{LOCANT_JUDGED};  // of tests, whose steps are short
#else
constexpr Duration kJudged = std::chrono::milliseconds(5);
#endif

// Whether a step in which threads waited so long for one of them would take no longer with fewer: something else keeps a core
// busy, and whoever had that core was waited for.
inline bool waits(Duration step, Duration waited) { return step >= kJudged && waited > step * 2 / 5; }

// How many there should be then.
inline int fewer(int threads) { return std::max(1, threads * 3 / 4); }

// What a team does together, section by section. Each section is cut into parts, which its members take one after the other,
// and the next one begins when all of them are done. So whoever comes late finds parts that are done already, and nobody
// waits for a member that has not come. Where members wait too long all the same, some of them leave between two sections.
class Sections {
 public:
  // For how long members have waited, all together.
  Duration waited() const { return Duration(waited_.load()); }
  // Whether that was so long that some have left, or do so before the next section.
  bool crowded() const { return crowded_.load(); }

 private:
  friend class Member;

  void note(Duration waited, int members) {
    const Duration all(waited_.fetch_add(waited.count()) + waited.count());
    if (waits(std::chrono::steady_clock::now() - begun_, all / (members - 1))) crowded_.store(true);
  }

  // Of all sections up to now, and one more for the end of each.
  alignas(64) std::atomic<int64_t> taken_{0};
  alignas(64) std::atomic<int64_t> done_{0};
  std::atomic<int64_t> waited_{0};
  std::atomic<bool> crowded_{false};
  const Moment begun_ = std::chrono::steady_clock::now();
  Event room_;
};

// A member's way through the sections of its team; all members go through the same ones in the same order.
class Member {
 public:
  // Alone.
  Member() = default;
  Member(Sections* sections, int number, int members) : sections_(sections), number_(number), members_(members) {}

  int number() const { return number_; }
  // As many as there may be.
  int members() const { return members_; }
  // Whether it has left its team, and does nothing any more.
  bool left() const { return left_; }

  // Goes through a section of so many parts, at least one: `part(i)` is run by any member for each i, then `then()` by one.
  // All of it is done when this returns, and seen by this member, unless it has left.
  template <class Part, class Then>
  void run(int64_t parts, const Part& part, const Then& then) {
    if (!sections_) {
      for (int64_t i = 0; i < parts; i++) part(i);
      then();
      return;
    }
    Sections& all = *sections_;
    if (number_ >= fewer(members_) && all.crowded()) left_ = true;
    if (left_) return;
    const int64_t begin = passed_, end = begin + parts;
    passed_ = end + 1;
    for (int64_t next = all.taken_.load(); next < end;) {
      if (!all.taken_.compare_exchange_weak(next, next + 1)) continue;
      part(next - begin);
      if (all.done_.fetch_add(1) + 1 == end) {
        then();
        all.taken_.store(passed_);
        all.done_.store(passed_);
        all.room_.wake();
        return;
      }
      next = all.taken_.load();
    }
    const Duration waited = all.room_.wait([&] { return all.done_.load() >= passed_; });
    if (waited.count()) all.note(waited, members_);
  }

 private:
  Sections* sections_ = nullptr;
  int number_ = 0, members_ = 1;
  int64_t passed_ = 0;  // parts of the sections behind it, and their ends
  bool left_ = false;
};

// What each member of a team does: `run(work, member, members)`.
using Run = void (*)(const void* work, int member, int members);

// Runs a piece of work in up to `threads` threads, the caller being member 0. There are fewer where the system gives no
// more, where other callers have them, and where something else keeps cores busy, so that they would wait long (watch.h).
// One that has not begun when the caller is done does not run at all: each takes what there is to do. With sections, what
// was waited there counts as waiting.
void run_in_team(int threads, const Sections* sections, Run run, const void* work);

// Calls `work(member)` for each Member of a team that comes in time.
template <class Work>
void in_team(int threads, const Work& work) {
  if (threads <= 1) return work(Member());
  struct Given {
    const Work& work;
    mutable Sections sections;
  } const given{work, {}};
  const Run run = [](const void* of, int member, int members) {
    const Given& given = *static_cast<const Given*>(of);
    given.work(members > 1 ? Member(&given.sections, member, members) : Member());
  };
  run_in_team(threads, &given.sections, run, &given);
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
