// What a watch makes of steps, at moments that are made up. Ends with code 1 and a line at the first that is otherwise.

#include "watch.h"

#include <cstdio>
#include <cstdlib>

using locant::Moment;
using locant::Watch;
using std::chrono::milliseconds;
using std::chrono::seconds;

void expect(bool right, const char* what) {
  if (right) return;
  std::printf("not so: %s\n", what);
  std::exit(1);
}

int main() {
  const Moment start{seconds(100)};
  Watch watch;
  expect(watch.most(start) > 1000, "at first any number");
  watch.note(2, milliseconds(3), milliseconds(3), start);
  expect(watch.most(start) > 1000, "one short step judges nothing");
  watch.note(2, milliseconds(3), milliseconds(0), start);
  expect(watch.most(start) == 1, "half of six milliseconds waited: one thread of two");
  expect(watch.most(start + milliseconds(49)) == 1, "for a while");
  expect(watch.most(start + milliseconds(50)) > 1000, "then all are tried");
  Moment now = start + milliseconds(50);
  watch.note(8, milliseconds(10), milliseconds(6), now);
  expect(watch.most(now) == 6, "a quarter fewer of many");
  watch.note(6, milliseconds(10), milliseconds(1), now);
  expect(watch.most(now) == 6, "steps of fewer that do not wait change nothing");
  expect(watch.most(now + milliseconds(99)) == 6, "twice as long, because it was not over");
  now += milliseconds(100);
  expect(watch.most(now) > 1000, "then all again");
  for (int i = 0; i < 20; i++) {
    watch.note(2, milliseconds(10), milliseconds(9), now);
    now += seconds(1);
    expect(watch.most(now) > 1000, "after a second at most");
  }
  watch.note(2, milliseconds(10), milliseconds(3), now);
  expect(watch.most(now) > 1000, "what waits little has all");
  watch.note(2, milliseconds(10), milliseconds(9), now);
  expect(watch.most(now + milliseconds(49)) == 1 && watch.most(now + milliseconds(50)) > 1000, "and a short while again");
  std::puts("as it should be");
}
