// What GCC's code asks of OpenMP's runtime, in plain threads and locks, which the thread sanitizer understands: it takes
// the waiting of GCC's own runtime for none at all.

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace {

struct Team {
  int size;
  std::mutex mutex;
  std::condition_variable changed;
  int waiting = 0;
  long passed = 0;
};

thread_local Team* team = nullptr;
thread_local int number = 0;
std::mutex atomic;

}  // namespace

extern "C" {

int omp_get_thread_num() { return number; }
int omp_get_num_threads() { return team ? team->size : 1; }

void GOMP_parallel(void (*work)(void*), void* data, unsigned threads, unsigned) {
  Team own{threads ? static_cast<int>(threads) : 3, {}, {}};
  Team* const outer = team;
  const int before = number;
  const auto run = [&](int which) { team = &own, number = which, work(data); };
  std::vector<std::thread> others;
  for (int which = 1; which < own.size; which++) others.emplace_back(run, which);
  run(0);
  for (auto& other : others) other.join();
  team = outer, number = before;
}

void GOMP_barrier() {
  if (!team || team->size == 1) return;
  std::unique_lock<std::mutex> lock(team->mutex);
  const long now = team->passed;
  if (++team->waiting == team->size) {
    team->waiting = 0, team->passed++;
    team->changed.notify_all();
  } else {
    team->changed.wait(lock, [&] { return team->passed != now; });
  }
}

void GOMP_atomic_start() { atomic.lock(); }
void GOMP_atomic_end() { atomic.unlock(); }

}  // extern "C"
