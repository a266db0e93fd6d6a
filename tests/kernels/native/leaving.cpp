// A team of two, one of which is late in every section. Ends with code 1 and a line at the first thing that is otherwise.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "threads.h"

using std::chrono::milliseconds;
using std::chrono::steady_clock;

void expect(bool right, const char* what) {
  if (right) return;
  std::printf("not so: %s\n", what);
  std::exit(1);
}

int main() {
  constexpr int kSections = 100, kParts = 8;
  std::vector<std::atomic<int>> done(kSections * kParts);
  std::atomic<int> late{0}, ended{0};
  bool has_left = false;
  locant::in_team(2, [&](locant::Member member) {
    for (int section = 0; section < kSections; section++) {
      bool has_part = false;
      const auto part = [&](int64_t number) {
        done[section * kParts + number]++;
        if (member.number() == 0) {
          // Others have time to come, and what was done before is seen.
          std::this_thread::sleep_for(std::chrono::microseconds(100));
          for (int i = 0; i < section * kParts; i++) expect(done[i] == 1, "a section begins when those before are done");
        } else if (!has_part) {
          has_part = true;
          late++;
          std::this_thread::sleep_for(milliseconds(10));
        }
      };
      member.run(kParts, part, [&] { ended++; });
    }
    if (member.number() == 0) {
      expect(!member.left(), "whoever calls stays");
    } else {
      has_left = member.left();
    }
  });
  for (const auto& one : done) expect(one == 1, "each part is done once");
  expect(ended == kSections, "each section ends once");
  std::printf("late in %d sections, %s\n", late.load(), has_left ? "left" : "stayed");
  expect(late < 10, "who is late leaves soon");
  expect(has_left || late < 3, "and does not come back");
  const auto end = steady_clock::now();
  int members = 0;
  locant::in_team(2, [&](const locant::Member& member) { members = member.members(); });
  if (late && steady_clock::now() - end < milliseconds(40)) expect(members == 1, "the next team is smaller");
}
