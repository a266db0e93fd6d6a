// How many threads are worth their waiting for each other.

#pragma once

#include <algorithm>
#include <chrono>

#include "threads.h"

namespace locant {

// Watches the steps of teams of threads. One that takes much longer than it computes has waited: something else keeps a
// core busy, and whoever had that core was waited for. Teams are then smaller for a while, after which full ones are tried
// again; while that does not help the while doubles.
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
    const bool waits = waited_ > steps_ * 2 / 5;
    steps_ = waited_ = Duration(0);
    if (waits) {
      most_ = std::max(1, threads * 3 / 4);
      until_ = now + pause_;
      pause_ = std::min(2 * pause_, kLongest);
    } else if (most_ == kAny) {
      pause_ = kShortest;
    }
  }

 private:
  static constexpr int kAny = 1 << 30;
  // After so much time steps are judged: long beside what interrupts a quiet machine, short beside a translation.
  static constexpr Duration kJudged = std::chrono::milliseconds(5);
  static constexpr Duration kShortest = std::chrono::milliseconds(50), kLongest = std::chrono::seconds(1);

  int most_ = kAny;
  Moment until_{};
  Duration steps_{0}, waited_{0}, pause_ = kShortest;
};

}  // namespace locant
