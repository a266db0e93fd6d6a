// Beam search of any number of sentences at once, which join and leave between two steps. What is kept, when a hypothesis
// ends and when a sentence is finished is as in Locant's translation/hypotheses.py, in single precision like there.

const EOS = 3; // the same in every tokenizer of Locant
const MOST_ROWS = 64; // hypotheses that are decoded at once

class NotANumber extends Error {}

// Wu et al. 2016, equation 14.
function lengthPenalty(length, alpha) {
  return Math.fround(((5 + length) / 6) ** alpha);
}

// The hypotheses of a sentence.
class Beam {
  constructor(width, limit, alpha) {
    Object.assign(this, { width, limit, alpha });
    this.open = [{ total: 0, tokens: [] }]; // one for each row; at first beams would be alike
    this.ended = [];
    this.penalty = lengthPenalty(limit, alpha);
    this.length = 0;
    this.done = false;
  }

  // Takes log-probabilities of the `width` best next tokens of each row, and these tokens. Returns the row that each
  // hypothesis goes on from.
  advance(gains, tokens) {
    const { width } = this;
    const found = [];
    this.open.forEach(({ total }, row) => {
      for (let i = row * width; i < (row + 1) * width; i++) {
        const sum = Math.fround(total + gains[i]);
        if (Number.isNaN(sum)) throw new NotANumber();
        if (sum > -Infinity) found.push({ total: sum, token: tokens[i], row });
      }
    });
    found.sort((a, b) => b.total - a.total); // of equal ones the first stays first
    this.length++;
    const atLimit = this.length >= this.limit;
    const next = [];
    const parents = [];
    // The beam is as much narrower as hypotheses have ended.
    for (const { total, token, row } of found.slice(0, width - this.ended.length)) {
      const written = { total, tokens: [...this.open[row].tokens, token] };
      if (token === EOS || atLimit) {
        written.score = Math.fround(total / lengthPenalty(this.length, this.alpha));
        this.ended.push(written);
      } else {
        next.push(written);
        parents.push(row);
      }
    }
    this.open = next;
    const bar = this.ended.reduce((most, { score }) => Math.max(most, score), -Infinity);
    // Log-probabilities only fall: no open hypothesis can have a better score than this.
    const hope = next.length ? Math.fround(next[0].total / this.penalty) : -Infinity;
    this.done = atLimit || hope <= bar;
    return parents;
  }

  // The tokens of the best hypothesis, without EOS.
  best() {
    if (!this.ended.length) throw new NotANumber();
    const { tokens } = this.ended.reduce((best, one) => (one.score > best.score ? one : best));
    return tokens.at(-1) === EOS ? tokens.slice(0, -1) : tokens;
  }
}

// Sentences that wait, and those that are being translated by an engine.
class Search {
  // Takes an engine (engine.js), and the width and length penalty of beams.
  constructor(engine, { beam, length_penalty: alpha }) {
    Object.assign(this, { engine, width: beam, alpha });
    this.clear();
  }

  get active() {
    return this.waiting.length + this.running.length;
  }

  clear() {
    this.waiting = [];
    this.running = [];
    this.engine.select([]);
  }

  // Adds a sentence under a key: tokens as the encoder reads them, the most tokens of its translation with EOS, and what
  // the decoder reads before it writes.
  add(key, source, limit, prefix) {
    this.waiting.push({ key, source, prefix, beam: new Beam(this.width, limit, this.alpha), read: 0 });
  }

  // Takes a step. Returns the sentences that are finished: key and tokens of each.
  step() {
    const { engine, running, waiting, width } = this;
    while (waiting.length && (!running.length || (running.length + 1) * width <= MOST_ROWS)) {
      const sentence = waiting.shift();
      engine.join(sentence.source);
      running.push(sentence);
    }
    const last = [];
    for (const { beam, prefix, read } of running) {
      for (const { tokens } of beam.open) last.push(tokens.at(-1) ?? prefix[read]);
    }
    const { values, columns } = engine.step(last, width);
    const kept = [];
    const finished = [];
    let first = 0; // row of the sentence
    for (const sentence of running) {
      const { beam, prefix } = sentence;
      const rows = beam.open.length;
      if (sentence.read < prefix.length - 1) {
        sentence.read++;
        kept.push(first);
      } else {
        const [from, to] = [first * width, (first + rows) * width];
        const parents = beam.advance(values.subarray(from, to), columns.subarray(from, to));
        if (beam.done) finished.push([sentence.key, beam.best()]);
        else for (const parent of parents) kept.push(first + parent);
      }
      first += rows;
    }
    this.running = running.filter(({ beam }) => !beam.done);
    if (kept.length !== first || kept.some((row, place) => row !== place)) engine.select(kept);
    return finished;
  }
}
