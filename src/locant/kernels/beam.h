// The hypotheses of a sentence: which continuations a beam keeps or a sample draws, when one has ended, and when the sentence is
// finished.
//
// It finds what translation/search.py finds, which searches for the engines that have no kernels, ties included.
//
// Notation: K places of a sentence's beam, R rows.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// Tokens of the hypotheses for which a sentence has room at first.
constexpr size_t kRoom = 16;

// What is asked for a sentence, as Python fills it.
struct SearchOptions {
  int64_t number;  // what the caller knows it by
  int64_t beam;
  int64_t limit;   // most tokens, the end included
  int64_t n_best;  // hypotheses that are wanted
  int64_t prefix;  // tokens that are read before any is written
  double alpha;    // exponent of the length penalty
  double temperature;  // 0 searches; else every place of the beam is a sample, drawn by this temperature
  int64_t top_k;       // tokens that may be drawn at a step; 0 for all
  uint64_t seed, stream;  // what the random numbers of the sentence follow from
};

// A place in a beam: a partial hypothesis, or none where its log-probability is -inf.
struct Hypothesis {
  float total = kNone;
  int64_t last = 0, row = 0;  // its last token, and the row that it goes on from: where there is none, any of the sentence

  bool open() const { return total != kNone; }
};

// A token of a hypothesis, and the place that it had before that.
struct BackPointer {
  int32_t parent, token;
};

// A hypothesis that has ended: its tokens, and the place that it would have had after the last.
struct FinishedHypothesis {
  float total, score;
  int64_t length, place;
};

float length_penalty(int64_t length, double alpha) {
  return static_cast<float>(std::pow(static_cast<double>(5 + length) / 6, alpha));
}

// Whether a number comes before another. What is not a number counts as larger than any.
bool exceeds(float one, float other) { return one > other || (one != one && other == other); }

// The n-th number, even over [0, 1), of the stream of a seed: Philox 4x64-10 (Salmon et al. 2011), as NumPy draws it.
double random_number(uint64_t seed, uint64_t stream, uint64_t n) {
  uint64_t block[4] = {n / 4 + 1, 0, 0, 0};
  for (int round = 0; round < 10; round++) {
    const auto one = static_cast<unsigned __int128>(block[0]) * 0xD2E7470EE14C6C93ull;
    const auto other = static_cast<unsigned __int128>(block[2]) * 0xCA5A826395121157ull;
    block[0] = static_cast<uint64_t>(other >> 64) ^ block[1] ^ seed, block[1] = static_cast<uint64_t>(other);
    block[2] = static_cast<uint64_t>(one >> 64) ^ block[3] ^ stream, block[3] = static_cast<uint64_t>(one);
    seed += 0x9E3779B97F4A7C15ull, stream += 0xBB67AE8584CAA73Bull;
  }
  return static_cast<double>(block[n % 4] >> 11) * 0x1p-53;
}

// The first of k tokens at which the cumulative probability exceeds a random number; what has no probability is passed over.
int64_t drawn(const float* gains, int64_t k, double temperature, double number) {
  const auto by = static_cast<float>(temperature);
  const float highest = *std::max_element(gains, gains + k) / by;
  const auto share = [&](int64_t i) { return std::exp(static_cast<double>(gains[i] / by) - highest); };
  double whole = 0, reached = 0;
  for (int64_t i = 0; i < k; i++) whole += share(i);
  const double wanted = std::min(number * whole, std::nextafter(whole, 0.0));
  for (int64_t i = 0; i < k; i++)
    if ((reached += share(i)) > wanted) return i;
  return k - 1;  // of what is not a number
}

// A sentence, with the hypotheses of its beam.
class Sentence {
 public:
  Sentence(const SearchOptions& options, const int64_t* prefix)
      : options_(options), prefix_(prefix, prefix + options.prefix), penalty_(length_penalty(options.limit, options.alpha)),
        places_(options.beam), next_(options.beam) {
    ended_.reserve(options.beam);
    places_[0].total = 0;  // of one alone: beams that begin alike would stay alike
    places_[0].last = prefix_[0];
  }

  int64_t number() const { return options_.number; }
  bool samples() const { return options_.temperature > 0; }
  // How many of the best next tokens a step needs; 0 for all tokens in their order.
  int64_t candidates() const { return samples() ? options_.top_k : options_.beam; }
  std::vector<Hypothesis>& places() { return places_; }
  const std::vector<Hypothesis>& places() const { return places_; }
  bool done() const { return done_; }

  // Whether what comes after the next token counts: before that it reads its prefix.
  bool writes() const { return read_ + 1 == prefix_.size(); }

  // Makes room for another token.
  void prepare() {
    const size_t needed = back_pointers_.size() + places_.size();
    if (needed > back_pointers_.capacity())
      back_pointers_.reserve(std::max(2 * back_pointers_.capacity(), kRoom * places_.size()));
  }

  // Takes a step, by at least as many best tokens of each row as it needs, `[R, k]`, or where `columns` is null by all of
  // them. Nothing here can fail.
  void advance(const float* values, const int64_t* columns, int64_t k, int64_t end) {
    if (!writes()) {
      places_[0].last = prefix_[++read_];
    } else if (samples()) {
      draw(values, columns, k, end);
    } else {
      keep_best(values, columns, k, end);
    }
  }

  // Counts what `write` writes.
  void measure(int64_t* integers, int64_t* totals) const {
    *integers += 2;
    for (int64_t i = 0; i < wanted(); i++) *integers += 1 + ended_[i].length;
    *totals += wanted();
  }

  // Writes its number, that of its hypotheses, and of each the number of its tokens and the tokens; and log-probabilities.
  void write(int64_t*& integers, float*& totals) const {
    *integers++ = options_.number;
    *integers++ = wanted();
    for (int64_t i = 0; i < wanted(); i++) {
      const FinishedHypothesis& one = ended_[i];
      *integers++ = one.length;
      for (int64_t step = one.length - 1, place = one.place; step >= 0; step--) {
        const BackPointer& pointer = back_pointers_[step * options_.beam + place];
        integers[step] = pointer.token;
        place = pointer.parent;
      }
      integers += one.length;
      *totals++ = one.total;
    }
  }

 private:
  int64_t wanted() const { return std::min<int64_t>(options_.n_best, ended_.size()); }

  // Every place draws a token of its own; at first all are at the row of the first one.
  void draw(const float* values, const int64_t* columns, int64_t k, int64_t end) {
    const int64_t step = length_++, tokens = columns ? options_.top_k : k;
    const Hypothesis first = places_[0];
    done_ = true;
    for (int64_t place = 0; place < options_.beam; place++) {
      Hypothesis& own = places_[place];
      if (!step) own = first;
      int64_t token = end;
      if (own.open()) {
        const float* gains = values + own.row * k;
        const double number = random_number(options_.seed, options_.stream, place * options_.limit + step);
        const int64_t pick = drawn(gains, tokens, options_.temperature, number);
        token = own.last = columns ? columns[own.row * k + pick] : pick;
        own.total += gains[pick];
        if (token == end || options_.limit <= length_) close(own, place);
      }
      done_ = done_ && !own.open();
      back_pointers_.push_back({static_cast<int32_t>(place), static_cast<int32_t>(token)});
    }
  }

  void keep_best(const float* values, const int64_t* columns, int64_t k, int64_t end) {
    const int64_t beam = options_.beam;
    // The best continuations, of equal ones the first.
    int64_t found = 0;
    for (int64_t parent = 0; parent < beam; parent++) {
      const float* gains = values + places_[parent].row * k;
      for (int64_t i = 0; i < beam; i++) {
        const float total = places_[parent].total + gains[i];
        if (found == beam && !exceeds(total, next_[beam - 1].total)) continue;
        int64_t place = found < beam ? found++ : beam - 1;
        for (; place > 0 && exceeds(total, next_[place - 1].total); place--) next_[place] = next_[place - 1];
        next_[place] = {total, i, parent};
      }
    }
    length_++;
    const bool at_limit = options_.limit <= length_;
    const int64_t room = beam - static_cast<int64_t>(ended_.size());  // a beam is one narrower for each that has ended
    float highest = kNone;
    for (int64_t place = 0; place < beam; place++) {
      Hypothesis& own = next_[place];
      const Hypothesis& parent = places_[own.row];
      back_pointers_.push_back({static_cast<int32_t>(own.row), static_cast<int32_t>(columns[parent.row * k + own.last])});
      own.last = back_pointers_.back().token;
      own.row = parent.row;
      if (place >= room) own.total = kNone;
      if ((own.last == end || at_limit) && own.total > kNone) close(own, place);
      if (exceeds(own.total, highest)) highest = own.total;
    }
    places_.swap(next_);
    // Log-probabilities only fall. At its limit a sentence is done even where they are not numbers.
    done_ = highest / penalty_ <= threshold() || at_limit || highest == kNone;
  }

  // Notes that the hypothesis in a place of the beam has ended.
  void close(Hypothesis& own, int64_t place) {
    const FinishedHypothesis made{own.total, own.total / length_penalty(length_, options_.alpha), length_, place};
    own.total = kNone;
    ended_.push_back(made);
    size_t rank = ended_.size() - 1;
    const auto before = [&](const FinishedHypothesis& other) {
      return samples() ? made.place < other.place : exceeds(made.score, other.score);
    };
    for (; rank > 0 && before(ended_[rank - 1]); rank--) ended_[rank] = ended_[rank - 1];
    ended_[rank] = made;
  }

  // The score that a partial hypothesis must beat: that of the last one wanted.
  float threshold() const {
    return static_cast<int64_t>(ended_.size()) < options_.n_best ? kNone : ended_[options_.n_best - 1].score;
  }

  SearchOptions options_;
  std::vector<int64_t> prefix_;
  size_t read_ = 0;  // tokens of the prefix
  float penalty_;    // of the greatest length
  std::vector<Hypothesis> places_, next_;
  std::vector<BackPointer> back_pointers_;     // K for each token
  std::vector<FinishedHypothesis> ended_;  // best first, of equal ones the first; samples as they were drawn
  int64_t length_ = 0;
  bool done_ = false;
};

}  // namespace
