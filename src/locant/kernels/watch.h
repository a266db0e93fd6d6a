// How many threads are worth their waiting for each other.

#pragma once

#include <algorithm>
#include <chrono>

#include "threads.h"

namespace locant {

// Watches the steps of teams of threads. After some that waited too long teams are smaller for a while, after which full ones
// are tried again; while that does not help the while doubles.
class Watch {
 public:
  // The most threads that a team should have now.
  int most(Moment now) {
    if (most_ < kAny && now >= until_) most_ = kAny;
    return most_;
  }

  // Takes note of a step of some threads: how long it was, and for how much of that they waited for one of them.
  void note(int threads, Duration step, Duration waited, Moment now) {
    steps_ += step, waited_ += waited;
    if (steps_ < kJudged) return;
    const bool too_long = waits(steps_, waited_);
    steps_ = waited_ = Duration(0);
    if (too_long) {
      most_ = fewer(threads);
      until_ = now + pause_;
      pause_ = std::min(2 * pause_, kLongest);
    } else if (most_ == kAny) {
      pause_ = kShortest;
    }
  }

 private:
  static constexpr int kAny = 1 << 30;
  static constexpr Duration kShortest = std::chrono::milliseconds(50), kLongest = std::chrono::seconds(1);

  int most_ = kAny;
  Moment until_{};
  Duration steps_{0}, waited_{0}, pause_ = kShortest;
};

}  // namespace locant
