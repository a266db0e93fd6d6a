// The weights of an encoder-decoder Transformer, and how threads take rows through its layers.
//
// Many rows are cut into shares, which go through all layers apart; with few the threads share the columns of every matrix
// product.

#pragma once

#include "transformer_layers.h"  // first: it says how numbers are rounded

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "threads.h"

namespace {

// What a thread must have to do: bytes of weights times rows, about a third of a millisecond. For less, two threads take
// hardly less time than one and much more of the processors': one has to be woken, hands results over, and stays awake at
// the end. A row takes about as long as four, because reading the weights takes longer than multiplying by them.
#ifdef LOCANT_LEAST_WORK
constexpr int64_t kLeastWork = LOCANT_LEAST_WORK;  // of tests, which have small models
#else
constexpr int64_t kLeastWork = 24 << 20;
#endif
constexpr int64_t kRowsOfReading = 4;

// Rows a thread from which threads share nothing: each then reads all weights, which is dear where they do not fit the
// caches.
constexpr int64_t kRowsApart = 4, kRowsApartUncached = 32;
constexpr int64_t kCachedBytes = 16 << 20;

// Rows that go through all layers together where there are many: as many as have their widest product, the logits of a
// decoder, in half of a core's own cache, and at least as many as make up for reading the weights again.
constexpr int64_t kShareBytes = 512 << 10, kLeastShare = 16;

// Linears of an encoder layer: qkv, output, inner, outer. Of a decoder layer: qkv, output, query, key-value, output,
// inner, outer. Norms: one for each sub-layer; pre-norm has one more at the end of each stack.
struct Engine {
  Shape shape;
  std::vector<Linear> encoder, decoder;
  Linear projection;
  std::vector<Norm> encoder_norms, decoder_norms;
  const float* source_embedding = nullptr;
  const float* target_embedding = nullptr;
  int64_t encoder_bytes = 0, decoder_bytes = 0;  // of the matrices that a token goes through
  int64_t rows_apart = 0;
};

// How many threads are worth their cost, of those that there may be.
int worth(int threads, int64_t rows, int64_t bytes) {
  const int64_t work = bytes * std::max(rows, kRowsOfReading);
  return static_cast<int>(std::max<int64_t>(1, std::min<int64_t>(threads, work / kLeastWork)));
}

// Rows that go through all layers together where there are many, by the columns of the widest product.
int64_t rows_together(const Engine& engine, int64_t widest) {
  return std::max({kLeastShare, engine.rows_apart, kShareBytes / (widest * int64_t{sizeof(float)})});
}

// Rows to work on.
struct Task {
  const std::vector<int64_t>& cuts;  // the rows at which work may be divided, and the end
  int64_t width;                     // of the widest product, if it is none of a layer
  int64_t keys;                      // most keys that a row attends to
  int64_t bytes;                     // of the weights that a row goes through
};

// The way of rows through the stages of some work, which may pause between two of them. Shares are taken by threads one
// after the other, and nobody waits for a share; where there are few rows, threads share all of them in every stage.
class StageRunner {
 public:
  // Makes all memory that threads need, before they begin: the workspaces that are lacking, which hold what is kept in a pause.
  StageRunner(const Engine& engine, int most, const Task& task, int64_t stages, std::vector<Workspace>& spaces)
      : shape_(engine.shape), cuts_(task.cuts), stages_(stages), spaces_(spaces) {
    const int64_t rows = cuts_.back(), parts = static_cast<int64_t>(cuts_.size()) - 1;
    threads_ = worth(most, rows, task.bytes);
    const int64_t widest = Workspace::widest(shape_, task.width);
    shares_ = std::min(parts, std::max<int64_t>(threads_, rows / rows_together(engine, widest)));
    if (shares_ < threads_ || rows < engine.rows_apart * shares_) shares_ = 1;
    if (spaces.size() < static_cast<size_t>(threads_)) spaces.resize(threads_);
    for (int thread = 0; thread < threads_; thread++) spaces[thread].scores.resize(shape_.heads * task.keys);
    int64_t largest = 0;
    for (int64_t number = 0; number < shares_; number++) largest = std::max(largest, share(number).end - share(number).begin);
    const int workers = shares_ > 1 ? threads_ : 1;
    for (int worker = 0; worker < workers; worker++) spaces[worker].resize(shape_, largest, widest);
    progress_.resize(workers);
  }

  // Goes on, in so many threads at most, until all is done, which it returns, or a deadline has passed: each thread then
  // ends the stage that it is at. `work(worker, scores, first row, stage)` does a stage for some rows.
  template <class Work>
  bool advance(int most, const locant::Deadline& deadline, const Work& work) {
    const int threads = std::min(most, threads_);
    return shares_ > 1 ? advance_apart(threads, deadline, work) : advance_together(threads, deadline, work);
  }

 private:
  // Where a worker is: in which share, if in any, and before which stage.
  struct Progress {
    int64_t share = -1, stage = 0;
  };

  Range share(int64_t number) const {
    const Range mine = Share{number, shares_}.of(static_cast<int64_t>(cuts_.size()) - 1);
    return {cuts_[mine.begin], cuts_[mine.end]};
  }

  template <class Work>
  bool advance_together(int threads, const locant::Deadline& deadline, const Work& work) {
    const int64_t begun = progress_[0].stage;
    std::atomic<int64_t> reached{begun};
    locant::in_team(threads, [&](const locant::Member& member) {
      Worker worker(shape_, spaces_[0], member, cuts_.back());
      int64_t stage = begun;
      do {
        work(worker, spaces_[member.number()].scores.get(), 0, stage);
        if (worker.left()) return;
      } while (++stage < stages_ && !deadline.passed());
      // Whoever looked at the clock earlier has left the rest to those who went on.
      for (int64_t known = reached.load(); known < stage && !reached.compare_exchange_weak(known, stage);) {
      }
    });
    progress_[0].stage = reached.load();
    return progress_[0].stage == stages_;
  }

  template <class Work>
  bool advance_apart(int threads, const locant::Deadline& deadline, const Work& work) {
    std::atomic<int64_t> next{taken_};
    locant::parallel_for(static_cast<int64_t>(progress_.size()), 1, threads, [&](int64_t number, int64_t, int) {
      Progress& own = progress_[number];
      for (bool moved = false;;) {
        if (own.share < 0) {
          if (moved && deadline.passed()) return;
          const int64_t found = next.fetch_add(1);
          if (found >= shares_) return;
          own = {found, 0};
        }
        const Range mine = share(own.share);
        Worker worker(shape_, spaces_[number], locant::Member(), mine.end - mine.begin);
        while (own.stage < stages_) {
          if (moved && deadline.passed()) return;
          work(worker, spaces_[number].scores.get(), mine.begin, own.stage++);
          moved = true;
        }
        own.share = -1;
      }
    });
    taken_ = std::min(next.load(), shares_);
    const auto ended = [](const Progress& one) { return one.share < 0; };
    return taken_ == shares_ && std::all_of(progress_.begin(), progress_.end(), ended);
  }

  const Shape& shape_;
  const std::vector<int64_t>& cuts_;
  const int64_t stages_;
  std::vector<Workspace>& spaces_;
  int threads_ = 1;
  int64_t shares_ = 1, taken_ = 0;  // shares, and those that workers have begun
  std::vector<Progress> progress_;     // of each worker; where all rows are together there is one
};

}  // namespace
