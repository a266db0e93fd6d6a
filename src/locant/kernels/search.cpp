// Greedy and beam search and sampling with the translation engine: the hypotheses of sentences that come and go at any step, and the rows
// of a batch that decode them.
//
// A step is one call: the rows of hypotheses that were left are dropped, every row decodes a token, and each sentence keeps the
// best continuations of its hypotheses. Rows are of the sentences in the order in which they came.
//
// Notation: N sentences, K places of a sentence's beam, R rows.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "beam.h"
#include "kernel_common.h"
#include "threads.h"

extern "C" {  // of translation.cpp

int64_t locant_engine_vocabulary(const void* engine);
Error locant_batch(const void* engine, int threads, void** made);
Error locant_batch_join(void* batch, int64_t sentences, const int64_t* lengths, const int64_t* tokens, int64_t count,
                        const float* positions, int64_t position_rows);
Error locant_batch_encode(void* batch, int64_t nanoseconds, int64_t* unfinished);
void locant_batch_abandon(void* batch);
Error locant_batch_threads(void* batch, int threads);
int64_t locant_batch_length(const void* batch);
Error locant_batch_select(void* batch, int64_t count, const int64_t* rows);
Error locant_batch_step(void* batch, const int64_t* tokens, int64_t count, const float* positions,
                        int64_t position_rows, int64_t k, float* values, int64_t* columns);
void locant_batch_free(void* batch);

}  // extern "C"

namespace {

// Sizes up to these are counted without overflow.
constexpr int64_t kWidestBeam = 1 << 20, kLongest = int64_t{1} << 31;

struct FreeBatch {
  void operator()(void* batch) const { locant_batch_free(batch); }
};

// A sentence that is not encoded yet, and whether it has been left meanwhile.
struct Pending {
  Sentence sentence;
  bool left = false;
};

// Sentences that are searched for or come, and the batch that decodes them, which there is while there are any.
struct Search {
  const void* engine;
  int threads;
  int64_t end;
  std::vector<Sentence> sentences, finished;
  std::vector<Pending> joining;
  std::unique_ptr<void, FreeBatch> batch;
  int64_t rows = 0;
  std::vector<int64_t> kept, tokens, columns;
  std::vector<float> values;
};

// Drops the rows that no hypothesis goes on from, and brings the others into order.
Error reorder_rows(Search& all) {
  all.kept.clear();
  for (const Sentence& sentence : all.sentences)
    for (const Hypothesis& place : sentence.places())
      if (place.open()) all.kept.push_back(place.row);
  const auto count = static_cast<int64_t>(all.kept.size());
  bool same = count == all.rows;
  for (int64_t i = 0; same && i < count; i++) same = all.kept[i] == i;
  if (!count) {
    if (!all.joining.empty()) return nullptr;  // the batch that encodes them stays
    all.batch.reset();
  } else if (!same) {
    if (const Error failed = locant_batch_select(all.batch.get(), count, all.kept.data())) return failed;
  }
  all.rows = count;
  int64_t next = 0;
  for (Sentence& sentence : all.sentences) {
    for (Hypothesis& place : sentence.places())
      if (place.open()) place.row = next++;
    for (Hypothesis& place : sentence.places())
      if (!place.open()) place.row = next - 1;
  }
  return nullptr;
}

// Begins to encode sentences.
Error join(Search& all, int64_t count, const int64_t* lengths, const int64_t* tokens, int64_t token_count,
           const float* positions, int64_t position_rows, const SearchOptions* options, const int64_t* prefixes) {
  std::vector<Pending> made;
  made.reserve(count);
  for (int64_t i = 0; i < count; prefixes += options[i++].prefix) made.push_back({{options[i], prefixes}});
  all.sentences.reserve(all.sentences.size() + made.size());
  if (const Error failed = reorder_rows(all)) return failed;
  if (!all.batch) {
    void* batch = nullptr;
    if (const Error failed = locant_batch(all.engine, all.threads, &batch)) return failed;
    all.batch.reset(batch);
  }
  if (const Error failed =
          locant_batch_join(all.batch.get(), count, lengths, tokens, token_count, positions, position_rows))
    return failed;
  all.joining.swap(made);
  return nullptr;
}

// Goes on with that; sentences that are encoded have a row each, and are searched for.
Error encode(Search& all, int64_t nanoseconds, int64_t* unfinished) {
  *unfinished = 0;
  if (all.joining.empty()) return nullptr;
  if (const Error failed = locant_batch_encode(all.batch.get(), nanoseconds, unfinished)) return failed;
  if (*unfinished) return nullptr;
  for (auto& [sentence, left] : all.joining) {
    for (Hypothesis& place : sentence.places()) place.row = all.rows;
    all.rows++;
    if (!left) all.sentences.push_back(std::move(sentence));
  }
  all.joining.clear();
  return nullptr;
}

Error step(Search& all, const float* positions, int64_t position_rows) {
  if (const Error failed = reorder_rows(all)) return failed;
  if (all.sentences.empty()) return nullptr;
  int64_t k = 1;
  bool whole = false;  // by all tokens in their order, and not by the best
  all.tokens.clear();
  for (Sentence& sentence : all.sentences) {
    if (sentence.writes()) {
      k = std::max(k, sentence.candidates());
      whole = whole || !sentence.candidates();
    }
    for (const Hypothesis& place : sentence.places())
      if (place.open()) all.tokens.push_back(place.last);
    sentence.prepare();
  }
  all.finished.reserve(all.finished.size() + all.sentences.size());
  if (whole) k = locant_engine_vocabulary(all.engine);
  all.values.resize(all.rows * k), all.columns.resize(whole ? 0 : all.rows * k);
  const auto columns = whole ? nullptr : all.columns.data();
  if (const Error failed = locant_batch_step(all.batch.get(), all.tokens.data(), all.rows, positions, position_rows, k,
                                             all.values.data(), columns))
    return failed;
  auto stays = all.sentences.begin();
  for (Sentence& sentence : all.sentences) {
    sentence.advance(all.values.data(), columns, k, all.end);
    if (sentence.done())
      all.finished.push_back(std::move(sentence));
    else if (Sentence& to = *stays++; &to != &sentence)
      to = std::move(sentence);
  }
  all.sentences.erase(stays, all.sentences.end());
  return nullptr;
}

Error check(const Search& all, int64_t count, const SearchOptions* options, const int64_t* prefixes,
            int64_t prefix_tokens) {
  const auto outside = [](int64_t size, int64_t least, int64_t most) { return size < least || size > most; };
  if (outside(count, 1, kLongest) || outside(prefix_tokens, 1, kLongest) || !options || !prefixes)
    return error_of("There are no %lld sentences with prefixes of %lld tokens.", count, prefix_tokens);
  const int64_t vocabulary = locant_engine_vocabulary(all.engine);
  const auto of_all_tokens = [](const SearchOptions& own) { return own.temperature > 0 && !own.top_k; };
  const auto other = [&](const Sentence& one) { return of_all_tokens(options[0]) != !one.candidates(); };
  bool mixed = std::any_of(all.sentences.begin(), all.sentences.end(), other);
  int64_t left = prefix_tokens;
  for (int64_t i = 0; i < count; i++) {
    const SearchOptions& own = options[i];
    mixed = mixed || of_all_tokens(own) != of_all_tokens(options[0]);
    if (!(own.temperature >= 0) || outside(own.top_k, 0, vocabulary))
      return error_of("There is no drawing from the best %lld of %lld tokens.", own.top_k, vocabulary);
    if (outside(own.beam, 1, kWidestBeam)) return error_of("There is no beam of %lld hypotheses.", own.beam);
    if (outside(own.n_best, 1, own.beam))
      return error_of("A beam of %lld does not find %lld hypotheses.", own.beam, own.n_best);
    if (outside(own.limit, 1, kLongest)) return error_of("There is no translation of %lld tokens.", own.limit);
    if (!(own.alpha >= 0)) return error_of("The exponent of a length penalty is negative or not a number.");
    if (outside(own.prefix, 1, left))
      return error_of("The prefix of sentence %lld has %lld tokens, but %lld are left.", i + 1, own.prefix, left);
    left -= own.prefix;
    const auto same = [&](const auto& other) { return other.number() == own.number; };
    if (std::any_of(all.sentences.begin(), all.sentences.end(), same))
      return error_of("There is a sentence %lld already.", own.number);
  }
  if (mixed) return error_of("Sentences that are drawn from all tokens are searched for alone.");
  if (left) return error_of("The prefixes have %lld tokens, not %lld.", prefix_tokens - left, prefix_tokens);
  for (int64_t i = 0; i < prefix_tokens; i++)
    if (outside(prefixes[i], 0, vocabulary - 1))
      return error_of("Token %lld is outside the target vocabulary of %lld tokens.", prefixes[i], vocabulary);
  return nullptr;
}

}  // namespace

extern "C" {

// Makes a search without sentences, whose hypotheses end with the token `end`; it is freed by locant_search_free, before the
// engine.
Error locant_search(const void* engine, int threads, int64_t end, void** made) {
  if (!some_threads(threads)) return error_of("There is no team of %lld threads.", threads);
  if (end < 0 || end >= locant_engine_vocabulary(engine)) return error_of("No hypothesis ends with the token %lld.", end);
  return within_memory([&] {
    *made = new Search{engine, threads, end, {}, {}, {}, nullptr, 0, {}, {}, {}, {}};
    return Error{};
  });
}

void locant_search_free(void* search) { delete static_cast<Search*>(search); }

// From now on there are so many threads at most.
Error locant_search_threads(void* search, int threads) {
  if (!some_threads(threads)) return error_of("There is no team of %lld threads.", threads);
  auto& found = *static_cast<Search*>(search);
  found.threads = threads;
  return found.batch ? locant_batch_threads(found.batch.get(), threads) : nullptr;
}

// The most tokens that a hypothesis has, those of its prefix that are read included: the next step needs a position more.
int64_t locant_search_length(const void* search) {
  const auto& found = *static_cast<const Search*>(search);
  return found.batch ? locant_batch_length(found.batch.get()) : 0;
}

// Begins to encode sentences, which locant_batch_join describes, with what is asked for each and the tokens of their prefixes,
// packed one after the other; locant_search_encode does it, after which they are searched for. Whatever goes wrong, the search
// stays as it was.
Error locant_search_join(void* search, int64_t sentences, const int64_t* lengths, const int64_t* tokens, int64_t count,
                         const float* positions, int64_t position_rows, const SearchOptions* options, const int64_t* prefixes,
                         int64_t prefix_tokens) {
  auto& found = *static_cast<Search*>(search);
  if (const Error wrong = check(found, sentences, options, prefixes, prefix_tokens)) return wrong;
  return within_memory(
      [&] { return join(found, sentences, lengths, tokens, count, positions, position_rows, options, prefixes); });
}

// Encodes the sentences that have joined, as locant_batch_encode does. Meanwhile the others may take steps, and all can be
// removed.
Error locant_search_encode(void* search, int64_t nanoseconds, int64_t* unfinished) {
  if (!unfinished) return error_of("There is no room for whether sentences are encoded.");
  return within_memory([&] { return encode(*static_cast<Search*>(search), nanoseconds, unfinished); });
}

// Drops the sentences with a number, of which there may be none.
void locant_search_remove(void* search, int64_t number) {
  auto& found = *static_cast<Search*>(search);
  // Of those that are finished there are some left where a step after their last one has failed.
  for (auto* all : {&found.sentences, &found.finished})
    all->erase(std::remove_if(all->begin(), all->end(), [&](const Sentence& one) { return one.number() == number; }), all->end());
  for (Pending& one : found.joining) one.left = one.left || one.sentence.number() == number;
  const auto left = [](const Pending& one) { return one.left; };
  if (!found.joining.empty() && std::all_of(found.joining.begin(), found.joining.end(), left)) {
    locant_batch_abandon(found.batch.get());
    found.joining.clear();
  }
}

// Takes steps of every sentence, at least one and at most so many, until all are finished, or `enough` of them, or some
// nanoseconds have passed, or the next step needs another position; `positions` as for locant_batch_join. `sizes` receives how
// many integers and log-probabilities locant_search_take has to write. Whatever goes wrong, the sentences stay as they were
// before the step.
Error locant_search_steps(void* search, const float* positions, int64_t position_rows, int64_t most, int64_t enough,
                          int64_t nanoseconds, int64_t* sizes) {
  auto& found = *static_cast<Search*>(search);
  if (!sizes) return error_of("There is no room for sizes.");
  const locant::Deadline deadline(nanoseconds);
  if (const Error failed = within_memory([&] {
        Error failed = step(found, positions, position_rows);
        while (!failed && --most > 0 && !found.sentences.empty() && static_cast<int64_t>(found.finished.size()) < enough &&
               !deadline.passed() && (!positions || locant_batch_length(found.batch.get()) < position_rows))
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
