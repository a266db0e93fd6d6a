// The threads of threads.h: made when they are needed, kept for the next piece of work.

#include "threads.h"

#include <chrono>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

#include "watch.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif
#ifndef _WIN32
#include <pthread.h>
#endif

namespace locant {
namespace {

// How long a thread stays awake: first at once when something changes, then giving way to others in between. One that waits
// for others in the middle of their work has it soon.
constexpr auto kKeen = std::chrono::microseconds(10), kAwake = std::chrono::microseconds(200);
// One that has nothing to do. About as long as it takes to wake it, which no caller waits for: it begins alone. Between two
// steps of a translation lie some tenths of a millisecond of Python, in which all that a thread would do is cost.
constexpr auto kIdle = std::chrono::microseconds(50);

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

struct Job {
  Run run;
  const void* work;
  int members;
};

// A thread that waits for jobs. Whoever takes it from the pool may give it one at a time.
class Worker {
 public:
  Worker() {
    std::thread([this] { work(); }).detach();
  }
  void begin(const Job& job, int member) {
    member_ = member;
    working_.store(true);
    next_.store(&job);
    given_.wake();
  }
  // Takes the job back, unless the thread has begun.
  void cancel() {
    if (next_.exchange(nullptr)) working_.store(false);
  }
  // Returns for how long the caller has waited.
  Duration join() {
    return done_.wait([this] { return !working_.load(); });
  }

 private:
  [[noreturn]] void work() {
    for (;;) {
      given_.wait([this] { return next_.load() != nullptr; }, kIdle);
      const Job* job = next_.exchange(nullptr);
      if (!job) continue;
      job->run(job->work, member_, job->members);
      working_.store(false);
      done_.wake();
    }
  }

  std::atomic<const Job*> next_{nullptr};
  std::atomic<bool> working_{false};
  int member_ = 0;
  Event given_, done_;
};

// Workers without work. They live as long as the process.
class Pool {
 public:
  // Takes as many workers as asked for, or fewer: as many as the system gives, and as are not at work for other callers.
  // There are never more than one caller has asked for, because callers at the same time are threads themselves. Throws
  // only before it has taken any.
  void take(std::size_t count, std::vector<Worker*>& to) {
    to.reserve(count);
    std::lock_guard<std::mutex> lock(mutex_);
    for (; to.size() < count && !idle_.empty(); idle_.pop_back()) to.push_back(idle_.back());
    while (to.size() < count && made_ < count) {
      try {
        idle_.reserve(made_ + 1);  // all have room when they come back
        to.push_back(new Worker);
        made_++;
      } catch (const std::exception&) {
        return;
      }
    }
  }
  void give_back(const std::vector<Worker*>& workers) {
    std::lock_guard<std::mutex> lock(mutex_);
    // In the order that gives the same work to the same thread next time.
    idle_.insert(idle_.end(), workers.rbegin(), workers.rend());
  }
  int most() {
    std::lock_guard<std::mutex> lock(mutex_);
    return watch_.most(std::chrono::steady_clock::now());
  }
  void note(int threads, Duration step, Duration waited, Moment now) {
    std::lock_guard<std::mutex> lock(mutex_);
    watch_.note(threads, step, waited, now);
  }

 private:
  std::mutex mutex_;
  std::vector<Worker*> idle_;
  std::size_t made_ = 0;
  Watch watch_;
};

// Made with the library: in a function it would have a lock of its own, which a child of fork might find taken.
std::atomic<Pool*> the_pool{[] {
#ifndef _WIN32
  // A child of fork has none of its parent's threads, and locks as they were.
  pthread_atfork(nullptr, nullptr, [] { the_pool.store(new Pool); });
#endif
  return new Pool;
}()};

Pool& pool() { return *the_pool.load(); }

}  // namespace

Duration Event::longest_awake() { return kAwake; }

bool Event::spin(bool (*ready)(const void*), const void* of, Duration awake, Duration& waited) {
  for (int i = 0; i < 16; i++) {
    if (ready(of)) return true;
    pause();
  }
  const auto start = std::chrono::steady_clock::now();
  for (Duration passed{0}; passed <= awake;) {
    for (int i = 0; i < 16; i++) {
      if (ready(of)) return true;
      pause();
    }
    // Whoever is given way to may stay for long.
    if (passed > kKeen) std::this_thread::yield();
    passed = std::chrono::steady_clock::now() - start;
    if (passed > awake) waited = passed;
  }
  return ready(of);
}

void Event::wake() {
  if (asleep_.load() == 0) return;
  { std::lock_guard<std::mutex> lock(mutex_); }
  changed_.notify_all();
}

void run_in_team(int threads, const Sections* sections, Run run, const void* work) {
  std::vector<Worker*> others;
  if (threads > 1) threads = std::min(threads, pool().most());
  if (threads > 1) pool().take(static_cast<std::size_t>(threads) - 1, others);
  if (others.empty()) return run(work, 0, 1);
  const auto begun = std::chrono::steady_clock::now();
  const Job job{run, work, static_cast<int>(others.size()) + 1};
  for (int i = 1; i < job.members; i++) others[i - 1]->begin(job, i);
  run(work, 0, job.members);
  for (Worker* other : others) other->cancel();
  Duration waited{0};
  for (Worker* other : others) waited += other->join();
  pool().give_back(others);
  const auto now = std::chrono::steady_clock::now();
  // All others wait for the one who is late. A team that some have left would have waited to its end.
  if (sections) waited += sections->crowded() ? now - begun : sections->waited() / (job.members - 1);
  pool().note(job.members, now - begun, waited, now);
}

}  // namespace locant
