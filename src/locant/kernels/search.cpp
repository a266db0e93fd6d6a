// Greedy and beam search with the translation engine: the hypotheses of sentences that come and go at any step, and the rows
// of a batch that decode them.
//
// It finds what translation/hypotheses.py finds, which searches for the engines that have no kernels, ties included. A step
// is one call: the rows of hypotheses that were left are dropped, every row decodes a token, and each sentence keeps the best
// continuations of its hypotheses. Rows are of the sentences in the order in which they came.
//
// Notation: N sentences, K places of a sentence's beam, R rows.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "kernel_common.h"

extern "C" {  // of translation.cpp

int64_t locant_engine_vocabulary(const void* engine);
Complaint locant_batch(const void* engine, int threads, int64_t sentences, const int64_t* lengths, const int64_t* tokens,
                       int64_t count, const float* positions, int64_t position_rows, void** made);
Complaint locant_batch_join(void* batch, int64_t sentences, const int64_t* lengths, const int64_t* tokens, int64_t count,
                            const float* positions, int64_t position_rows);
Complaint locant_batch_threads(void* batch, int threads);
int64_t locant_batch_length(const void* batch);
Complaint locant_batch_select(void* batch, int64_t count, const int64_t* rows);
Complaint locant_batch_step(void* batch, const int64_t* tokens, int64_t count, const float* positions,
                            int64_t position_rows, int64_t k, float* values, int64_t* columns);
void locant_batch_free(void* batch);

}  // extern "C"

namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// Sizes up to these are counted without overflow.
constexpr int64_t kWidestBeam = 1 << 20, kLongest = int64_t{1} << 31;

// Tokens of the hypotheses for which a sentence has room at first.
constexpr size_t kRoom = 16;

// What is asked for a sentence, as Python fills it.
struct Wish {
  int64_t number;  // what the caller knows it by
  int64_t beam;
  int64_t limit;   // most tokens, the end included
  int64_t n_best;  // hypotheses that are wanted
  int64_t prefix;  // tokens that are read before any is written
  double alpha;    // exponent of the length penalty
};

// A place in a beam: a partial hypothesis, or none where its log-probability is -inf.
struct Place {
  float total = kNone;
  int64_t last = 0, row = 0;  // its last token, and the row that it goes on from: where there is none, any of the sentence

  bool open() const { return total != kNone; }
};

// A token of a hypothesis, and the place that it had before that.
struct Link {
  int32_t parent, token;
};

// A hypothesis that has ended: its tokens, and the place that it would have had after the last.
struct Ended {
  float total, score;
  int64_t length, place;
};

float length_penalty(int64_t length, double alpha) {
  return static_cast<float>(std::pow(static_cast<double>(5 + length) / 6, alpha));
}

// Whether a number comes before another. What is not a number counts as larger than any.
bool exceeds(float one, float other) { return one > other || (one != one && other == other); }

// A sentence, with the hypotheses of its beam.
class Sentence {
 public:
  Sentence(const Wish& wish, const int64_t* prefix)
      : wish_(wish), prefix_(prefix, prefix + wish.prefix), penalty_(length_penalty(wish.limit, wish.alpha)),
        places_(wish.beam), next_(wish.beam) {
    ended_.reserve(wish.beam);
    places_[0].total = 0;  // of one alone: beams that begin alike would stay alike
    places_[0].last = prefix_[0];
  }

  int64_t number() const { return wish_.number; }
  int64_t beam() const { return wish_.beam; }
  std::vector<Place>& places() { return places_; }
  const std::vector<Place>& places() const { return places_; }
  bool done() const { return done_; }

  // Whether what comes after the next token counts: before that it reads its prefix.
  bool writes() const { return read_ + 1 == prefix_.size(); }

  // Makes room for another token.
  void prepare() {
    const size_t needed = links_.size() + places_.size();
    if (needed > links_.capacity()) links_.reserve(std::max(2 * links_.capacity(), kRoom * places_.size()));
  }

  // Takes a step, by at least K best tokens of each row, `[R, k]`. Nothing here can fail.
  void advance(const float* values, const int64_t* columns, int64_t k, int64_t end) {
    if (!writes()) {
      places_[0].last = prefix_[++read_];
      return;
    }
    const int64_t beam = wish_.beam;
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
    const bool at_limit = wish_.limit <= length_;
    const int64_t room = beam - static_cast<int64_t>(ended_.size());  // a beam is one narrower for each that has ended
    float highest = kNone;
    for (int64_t place = 0; place < beam; place++) {
      Place& own = next_[place];
      const Place& parent = places_[own.row];
      links_.push_back({static_cast<int32_t>(own.row), static_cast<int32_t>(columns[parent.row * k + own.last])});
      own.last = links_.back().token;
      own.row = parent.row;
      if (place >= room) own.total = kNone;
      if ((own.last == end || at_limit) && own.total > kNone) close(own, place);
      if (exceeds(own.total, highest)) highest = own.total;
    }
    places_.swap(next_);
    // Log-probabilities only fall. At its limit a sentence is done even where they are not numbers.
    done_ = highest / penalty_ <= bar() || at_limit || highest == kNone;
  }

  // Counts what `write` writes.
  void measure(int64_t* integers, int64_t* totals) const {
    *integers += 2;
    for (int64_t i = 0; i < wanted(); i++) *integers += 1 + ended_[i].length;
    *totals += wanted();
  }

  // Writes its number, that of its hypotheses, and of each the number of its tokens and the tokens; and log-probabilities.
  void write(int64_t*& integers, float*& totals) const {
    *integers++ = wish_.number;
    *integers++ = wanted();
    for (int64_t i = 0; i < wanted(); i++) {
      const Ended& one = ended_[i];
      *integers++ = one.length;
      for (int64_t step = one.length - 1, place = one.place; step >= 0; step--) {
        const Link& link = links_[step * wish_.beam + place];
        integers[step] = link.token;
        place = link.parent;
      }
      integers += one.length;
      *totals++ = one.total;
    }
  }

 private:
  int64_t wanted() const { return std::min<int64_t>(wish_.n_best, ended_.size()); }

  // Notes that the hypothesis in a place of the beam has ended.
  void close(Place& own, int64_t place) {
    const Ended made{own.total, own.total / length_penalty(length_, wish_.alpha), length_, place};
    own.total = kNone;
    ended_.push_back(made);
    size_t rank = ended_.size() - 1;
    for (; rank > 0 && exceeds(made.score, ended_[rank - 1].score); rank--) ended_[rank] = ended_[rank - 1];
    ended_[rank] = made;
  }

  // The score that a partial hypothesis must beat: that of the last one wanted.
  float bar() const {
    return static_cast<int64_t>(ended_.size()) < wish_.n_best ? kNone : ended_[wish_.n_best - 1].score;
  }

  Wish wish_;
  std::vector<int64_t> prefix_;
  size_t read_ = 0;  // tokens of the prefix
  float penalty_;    // of the greatest length
  std::vector<Place> places_, next_;
  std::vector<Link> links_;   // K for each token
  std::vector<Ended> ended_;  // best first, of equal ones the first
  int64_t length_ = 0;
  bool done_ = false;
};

struct FreeBatch {
  void operator()(void* batch) const { locant_batch_free(batch); }
};

// Sentences that are searched for, and the batch that decodes them, which there is while there are any.
struct Search {
  const void* engine;
  int threads;
  int64_t end;
  std::vector<Sentence> sentences, finished;
  std::unique_ptr<void, FreeBatch> batch;
  int64_t rows = 0;
  std::vector<int64_t> kept, tokens, columns;
  std::vector<float> values;
};

// Drops the rows that no hypothesis goes on from, and brings the others into order.
Complaint arrange(Search& all) {
  all.kept.clear();
  for (const Sentence& sentence : all.sentences)
    for (const Place& place : sentence.places())
      if (place.open()) all.kept.push_back(place.row);
  const auto count = static_cast<int64_t>(all.kept.size());
  bool same = count == all.rows;
  for (int64_t i = 0; same && i < count; i++) same = all.kept[i] == i;
  if (!count) {
    all.batch.reset();
  } else if (!same) {
    if (const Complaint failed = locant_batch_select(all.batch.get(), count, all.kept.data())) return failed;
  }
  all.rows = count;
  int64_t next = 0;
  for (Sentence& sentence : all.sentences) {
    for (Place& place : sentence.places())
      if (place.open()) place.row = next++;
    for (Place& place : sentence.places())
      if (!place.open()) place.row = next - 1;
  }
  return nullptr;
}

// Encodes sentences, each of which has a row then, and adds them to those that are searched for.
Complaint join(Search& all, int64_t count, const int64_t* lengths, const int64_t* tokens, int64_t token_count,
               const float* positions, int64_t position_rows, const Wish* wishes, const int64_t* prefixes) {
  std::vector<Sentence> made;
  made.reserve(count);
  for (int64_t i = 0; i < count; prefixes += wishes[i++].prefix) made.emplace_back(wishes[i], prefixes);
  all.sentences.reserve(all.sentences.size() + made.size());
  if (const Complaint failed = arrange(all)) return failed;
  void* batch = all.batch.get();
  if (const Complaint failed =
          batch ? locant_batch_join(batch, count, lengths, tokens, token_count, positions, position_rows)
                : locant_batch(all.engine, all.threads, count, lengths, tokens, token_count, positions, position_rows, &batch))
    return failed;
  if (!all.batch) all.batch.reset(batch);
  for (Sentence& sentence : made) {
    for (Place& place : sentence.places()) place.row = all.rows;
    all.rows++;
    all.sentences.push_back(std::move(sentence));
  }
  return nullptr;
}

Complaint step(Search& all, const float* positions, int64_t position_rows) {
  if (const Complaint failed = arrange(all)) return failed;
  if (!all.rows) return nullptr;
  int64_t k = 1;
  all.tokens.clear();
  for (Sentence& sentence : all.sentences) {
    if (sentence.writes()) k = std::max(k, sentence.beam());
    for (const Place& place : sentence.places())
      if (place.open()) all.tokens.push_back(place.last);
    sentence.prepare();
  }
  all.finished.reserve(all.finished.size() + all.sentences.size());
  all.values.resize(all.rows * k), all.columns.resize(all.rows * k);
  if (const Complaint failed = locant_batch_step(all.batch.get(), all.tokens.data(), all.rows, positions, position_rows, k,
                                                 all.values.data(), all.columns.data()))
    return failed;
  auto stays = all.sentences.begin();
  for (Sentence& sentence : all.sentences) {
    sentence.advance(all.values.data(), all.columns.data(), k, all.end);
    if (sentence.done())
      all.finished.push_back(std::move(sentence));
    else if (Sentence& to = *stays++; &to != &sentence)
      to = std::move(sentence);
  }
  all.sentences.erase(stays, all.sentences.end());
  return nullptr;
}

Complaint complaint_about(const Search& all, int64_t count, const Wish* wishes, const int64_t* prefixes,
                          int64_t prefix_tokens) {
  const auto outside = [](int64_t size, int64_t least, int64_t most) { return size < least || size > most; };
  if (outside(count, 1, kLongest) || outside(prefix_tokens, 1, kLongest) || !wishes || !prefixes)
    return complain("There are no %lld sentences with prefixes of %lld tokens.", count, prefix_tokens);
  int64_t left = prefix_tokens;
  for (int64_t i = 0; i < count; i++) {
    const Wish& wish = wishes[i];
    if (outside(wish.beam, 1, kWidestBeam)) return complain("There is no beam of %lld hypotheses.", wish.beam);
    if (outside(wish.n_best, 1, wish.beam))
      return complain("A beam of %lld does not find %lld hypotheses.", wish.beam, wish.n_best);
    if (outside(wish.limit, 1, kLongest)) return complain("There is no translation of %lld tokens.", wish.limit);
    if (!(wish.alpha >= 0)) return complain("The exponent of a length penalty is negative or not a number.");
    if (outside(wish.prefix, 1, left))
      return complain("The prefix of sentence %lld has %lld tokens, but %lld are left.", i + 1, wish.prefix, left);
    left -= wish.prefix;
    const auto same = [&](const auto& other) { return other.number() == wish.number; };
    if (std::any_of(all.sentences.begin(), all.sentences.end(), same))
      return complain("There is a sentence %lld already.", wish.number);
  }
  if (left) return complain("The prefixes have %lld tokens, not %lld.", prefix_tokens - left, prefix_tokens);
  const int64_t vocabulary = locant_engine_vocabulary(all.engine);
  for (int64_t i = 0; i < prefix_tokens; i++)
    if (outside(prefixes[i], 0, vocabulary - 1))
      return complain("Token %lld is outside the target vocabulary of %lld tokens.", prefixes[i], vocabulary);
  return nullptr;
}

}  // namespace

extern "C" {

// Makes a search without sentences, whose hypotheses end with the token `end`; it is freed by locant_search_free, before the
// engine.
Complaint locant_search(const void* engine, int threads, int64_t end, void** made) {
  if (!some_threads(threads)) return complain("There is no team of %lld threads.", threads);
  if (end < 0 || end >= locant_engine_vocabulary(engine)) return complain("No hypothesis ends with the token %lld.", end);
  return within_memory([&] {
    *made = new Search{engine, threads, end, {}, {}, nullptr, 0, {}, {}, {}, {}};
    return Complaint{};
  });
}

void locant_search_free(void* search) { delete static_cast<Search*>(search); }

// From now on there are so many threads at most.
Complaint locant_search_threads(void* search, int threads) {
  if (!some_threads(threads)) return complain("There is no team of %lld threads.", threads);
  auto& found = *static_cast<Search*>(search);
  found.threads = threads;
  return found.batch ? locant_batch_threads(found.batch.get(), threads) : nullptr;
}

// The most tokens that a hypothesis has, those of its prefix that are read included: the next step needs a position more.
int64_t locant_search_length(const void* search) {
  const auto& found = *static_cast<const Search*>(search);
  return found.batch ? locant_batch_length(found.batch.get()) : 0;
}

// Adds sentences, which locant_batch describes, with what is asked for each and the tokens of their prefixes, packed one after
// the other. Whatever goes wrong, the search stays as it was.
Complaint locant_search_join(void* search, int64_t sentences, const int64_t* lengths, const int64_t* tokens, int64_t count,
                             const float* positions, int64_t position_rows, const Wish* wishes, const int64_t* prefixes,
                             int64_t prefix_tokens) {
  auto& found = *static_cast<Search*>(search);
  if (const Complaint wrong = complaint_about(found, sentences, wishes, prefixes, prefix_tokens)) return wrong;
  return within_memory(
      [&] { return join(found, sentences, lengths, tokens, count, positions, position_rows, wishes, prefixes); });
}

// Drops the sentences with a number, of which there may be none.
void locant_search_remove(void* search, int64_t number) {
  auto& all = static_cast<Search*>(search)->sentences;
  all.erase(std::remove_if(all.begin(), all.end(), [&](const Sentence& one) { return one.number() == number; }), all.end());
}

// Takes steps of every sentence, at least one and at most so many, until all are finished, or `enough` of them, or the next
// step needs another position; `positions` as for locant_batch. `sizes` receives how many integers and
// log-probabilities locant_search_take has to write. Whatever goes wrong, the sentences stay as they were before the step.
Complaint locant_search_steps(void* search, const float* positions, int64_t position_rows, int64_t most, int64_t enough,
                              int64_t* sizes) {
  auto& found = *static_cast<Search*>(search);
  if (!sizes) return complain("There is no room for sizes.");
  if (const Complaint failed = within_memory([&] {
        Complaint failed = step(found, positions, position_rows);
        while (!failed && --most > 0 && !found.sentences.empty() && static_cast<int64_t>(found.finished.size()) < enough &&
               (!positions || locant_batch_length(found.batch.get()) < position_rows))
          failed = step(found, positions, position_rows);
        return failed;
      }))
    return failed;
  sizes[0] = sizes[1] = 0;
  for (const Sentence& sentence : found.finished) sentence.measure(sizes, sizes + 1);
  return nullptr;
}

// Writes the sentences that are finished, and forgets them: the number of each, that of its hypotheses, and of each, best
// first, how many tokens it has and these tokens; and the log-probability of each hypothesis. There is none where the model's
// output was not a number.
void locant_search_take(void* search, int64_t* integers, float* totals) {
  auto& found = *static_cast<Search*>(search);
  for (const Sentence& sentence : found.finished) sentence.write(integers, totals);
  found.finished.clear();
}

}  // extern "C"
