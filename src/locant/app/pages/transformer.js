// The encoder-decoder Transformer of Vaswani et al. 2017, small enough to compute in the page: ReLU, tied output, norms
// after the sub-layers or before them, sinusoids, rotary or no positions. It returns every attention weight and the
// encoder's states, which a program for speed would throw away. Class Tokenizer is that of app/web/tokenizer.js.

import { frequencies, sinusoids } from "./formulas.js";

const EPSILON = 1e-5; // of layer norms
const BASE = 10000; // of sinusoids and rotary positions
const [BEGIN, END] = [2, 3]; // the same in every tokenizer of Locant

const fromBase64 = (text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));

function float16(bits) {
  const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : (2 ** -14 * fraction) / 1024);
}

// Reads a safetensors file of half precision and of int8, whose rows have a factor each ("NAME.scale"). Returns rows of
// numbers by name; a vector is one row. https://github.com/huggingface/safetensors
function readTensors(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const size = Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + size)));
  const values = ({ dtype, data_offsets: [begin, end] }) => {
    const at = 8 + size + begin;
    if (dtype === "I8") return Float32Array.from(new Int8Array(bytes.buffer, bytes.byteOffset + at, end - begin));
    return Float32Array.from({ length: (end - begin) / 2 }, (_, index) => float16(view.getUint16(at + 2 * index, true)));
  };
  const tensors = {};
  for (const [name, described] of Object.entries(header)) {
    if (name === "__metadata__" || name.endsWith(".scale")) continue;
    const [all, width] = [values(described), described.shape.at(-1)];
    const rows = Array.from({ length: all.length / width }, (_, row) => all.subarray(row * width, (row + 1) * width));
    const scales = header[`${name}.scale`] && values(header[`${name}.scale`]);
    if (scales) rows.forEach((row, index) => row.forEach((value, column) => { row[column] = value * scales[index]; }));
    tensors[name] = rows;
  }
  return tensors;
}

function dot(a, b) {
  let sum = 0;
  for (let index = 0; index < a.length; index += 1) sum += a[index] * b[index];
  return sum;
}

const plus = (a, b) => a.map((value, index) => value + b[index]);

export function softmax(scores) {
  const largest = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - largest));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

// A number from 0 to 1 for every seed and step, the same in every browser (mulberry32).
function chance(seed, step) {
  let state = (seed * 0x9e3779b1 + step * 0x6d2b79f5) | 0;
  state = Math.imul(state ^ (state >>> 15), state | 1);
  state ^= state + Math.imul(state ^ (state >>> 7), state | 61);
  return ((state ^ (state >>> 14)) >>> 0) / 4294967296;
}

// Tokens as people write them: only letters that continue a word are marked, by a hyphen before them.
function readable(piece) {
  const special = { "<s>": "(begin)", "</s>": "(end)", "\u2581": "\u2423" }[piece];
  return special || (/^[\p{L}\p{N}]+$/u.test(piece) ? `-${piece}` : piece.replace(/^\u2581/, ""));
}

export class Transformer {
  // model: { config, source, target, weights } as locant.app.explore writes it.
  constructor({ config, source, target, weights }) {
    this.config = config;
    this.source = new Tokenizer(fromBase64(source), config.lowercase);
    this.target = target ? new Tokenizer(fromBase64(target), config.lowercase) : this.source;
    this.tensors = readTensors(fromBase64(weights));
  }

  // Why the model cannot read a sentence; empty where it can.
  problem(sentence) {
    const { unknown } = this.source;
    const known = (ids) => !ids.includes(unknown) && !(this.config.whole_words && ids.length > 1);
    const word = sentence.trim().split(/\s+/).find((one) => !known(this.source.encode(one)));
    if (word) return `The model does not know \u201c${word.slice(0, 40)}\u201d.`;
    const most = this.config.most_tokens;
    return this.source.encode(sentence).length > most ? `The model reads at most ${most} tokens here.` : "";
  }

  linear(x, name, bias = true) {
    const offsets = bias ? this.tensors[`${name}.bias`][0] : null;
    return this.tensors[`${name}.weight`].map((row, index) => dot(row, x) + (offsets ? offsets[index] : 0));
  }

  norm(x, name) {
    const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
    const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
    const [[weight], [bias]] = [this.tensors[`${name}.weight`], this.tensors[`${name}.bias`]];
    return x.map((value, index) => ((value - mean) / Math.sqrt(variance + EPSILON)) * weight[index] + bias[index]);
  }

  // Rows after a sub-layer with its residual connection and norm; sublayer(rows) returns as many.
  residual(rows, name, sublayer) {
    const pre = this.config.norm === "pre";
    const found = sublayer(pre ? rows.map((row) => this.norm(row, name)) : rows);
    return rows.map((row, index) => (pre ? plus(row, found[index]) : this.norm(plus(row, found[index]), name)));
  }

  finished(rows, stack) {
    return this.config.norm === "pre" ? rows.map((row) => this.norm(row, `${stack}.norm`)) : rows;
  }

  // Pairs of features of every head turned by a position: feature i with i + half a head. Su et al. 2021, section 3.4.
  rotated(x, position) {
    const half = this.config.d_model / this.config.heads / 2;
    const angles = frequencies(2 * half, BASE).map((frequency) => position * frequency);
    return x.map((value, index) => {
      const [first, angle] = [index % (2 * half) < half, angles[index % half]];
      return value * Math.cos(angle) + (first ? -x[index + half] : x[index - half]) * Math.sin(angle);
    });
  }

  // Returns [the outputs of all heads joined and mapped, the weights [heads][queries][keys]].
  attend(name, queries, keys, values) {
    const size = this.config.d_model / this.config.heads;
    const joined = queries.map(() => []);
    const weights = Array.from({ length: this.config.heads }, (_, head) => {
      const part = (x) => x.slice(head * size, (head + 1) * size);
      const [headKeys, headValues] = [keys.map(part), values.map(part)];
      return queries.map((query, row) => {
        const found = softmax(headKeys.map((key) => dot(part(query), key) / Math.sqrt(size)));
        const mixed = Array(size).fill(0);
        found.forEach((weight, key) => headValues[key].forEach((value, feature) => { mixed[feature] += weight * value; }));
        joined[row].push(...mixed);
        return found;
      });
    });
    return [joined.map((row) => this.linear(row, `${name}.output`)), weights];
  }

  // Self-attention of rows at positions from `first` on, to themselves and to what is in the cache.
  selfAttend(name, rows, turns, first = 0, cache = { keys: [], values: [] }) {
    const width = this.config.d_model;
    const queries = rows.map((row, index) => {
      const all = this.linear(row, `${name}.query_key_value`);
      const [query, key, value] = [0, 1, 2].map((part) => all.slice(part * width, (part + 1) * width));
      cache.keys.push(turns ? this.rotated(key, first + index) : key);
      cache.values.push(value);
      return turns ? this.rotated(query, first + index) : query;
    });
    return this.attend(name, queries, cache.keys, cache.values);
  }

  feedForward(name, rows) {
    return rows.map((row) => this.linear(this.linear(row, `${name}.inner`).map((value) => Math.max(value, 0)), `${name}.outer`));
  }

  embedded(id, place, side, positions) {
    const { d_model: width, position } = this.config;
    const table = this.tensors[`${side}_embedding.weight`] || this.tensors["target_embedding.weight"];
    const word = Array.from(table[id], (value) => value * Math.sqrt(width));
    return positions && position === "sinusoidal" ? plus(word, sinusoids(place, width, BASE)) : word;
  }

  encode(ids, positions) {
    let rows = ids.map((id, place) => this.embedded(id, place, "source", positions));
    const turns = positions && this.config.position === "rotary";
    const [states, attention] = [[rows], []];
    for (let layer = 0; layer < this.config.encoder_layers; layer += 1) {
      const name = `encoder.layers.${layer}`;
      rows = this.residual(rows, `${name}.residuals.0.norm`, (given) => {
        const [heard, weights] = this.selfAttend(`${name}.self_attention`, given, turns);
        attention.push(weights);
        return heard;
      });
      rows = this.residual(rows, `${name}.residuals.1.norm`, (given) => this.feedForward(`${name}.feed_forward`, given));
      states.push(rows);
    }
    return { states, attention, memory: this.finished(rows, "encoder") };
  }

  // What the decoder keeps: keys and values of the encoder's output and of the words read, and all weights.
  begin(memory) {
    const width = this.config.d_model;
    return Array.from({ length: this.config.decoder_layers }, (_, layer) => {
      const both = memory.map((row) => this.linear(row, `decoder.layers.${layer}.cross_attention.key_value`));
      const read = { keys: both.map((row) => row.slice(0, width)), values: both.map((row) => row.slice(width)) };
      return { cache: { keys: [], values: [] }, read, own: [], cross: [] };
    });
  }

  // Reads one more word; returns the score of every next one.
  step(id, place, layers, positions) {
    let rows = [this.embedded(id, place, "target", positions)];
    const turns = positions && this.config.position === "rotary";
    layers.forEach(({ cache, read, own, cross }, layer) => {
      const name = `decoder.layers.${layer}`;
      const kept = (list, [heard, weights]) => {
        list.push(weights.map(([row]) => row));
        return heard;
      };
      rows = this.residual(rows, `${name}.residuals.0.norm`, (given) =>
        kept(own, this.selfAttend(`${name}.self_attention`, given, turns, place, cache)));
      rows = this.residual(rows, `${name}.residuals.1.norm`, (given) => {
        const queries = given.map((row) => this.linear(row, `${name}.cross_attention.query`));
        return kept(cross, this.attend(`${name}.cross_attention`, queries, read.keys, read.values));
      });
      rows = this.residual(rows, `${name}.residuals.2.norm`, (given) => this.feedForward(`${name}.feed_forward`, given));
    });
    const [last] = this.finished(rows, "decoder");
    return this.linear(last, this.tensors["output.weight"] ? "output" : "target_embedding", false);
  }

  // Reads a sentence and writes its translation: the likeliest word each time, or with a seed one drawn by chance.
  async read(sentence, { positions = true, temperature = 1, seed = 0 } = {}) {
    const source = [...this.source.encode(sentence), ...this.config.source_end];
    const { states, attention, memory } = this.encode(source, positions);
    const layers = this.begin(memory);
    const [written, candidates] = [[BEGIN], []];
    const name = (id) => readable(this.target.names[id]);
    while (written.length < Math.min(100, 2 * source.length + 10) && (written.length === 1 || written.at(-1) !== END)) {
      const scores = this.step(written.at(-1), written.length - 1, layers, positions);
      const shares = softmax(scores.map((score) => score / temperature));
      const order = shares.map((share, id) => ({ id, share })).sort((a, b) => b.share - a.share);
      let chosen = order[0].id;
      if (seed) {
        let left = chance(seed, written.length);
        chosen = (order.find(({ share }) => (left -= share) < 0) || order[0]).id;
      }
      candidates.push(order.slice(0, 5).map(({ id, share }) => ({ token: name(id), share })));
      written.push(chosen);
    }
    // By head, rows of equal length: what follows a word has weight 0.
    const byHead = (steps) => steps[0].map((_, head) => steps.map((heads) => heads[head]).map((row, __, rows) => [...row, ...Array(rows.at(-1).length - row.length).fill(0)]));
    return {
      source: source.map((id) => readable(this.source.names[id])),
      read: written.slice(0, -1).map(name),
      written: written.slice(1).map(name),
      translation: this.target.decode(written.slice(1).filter((id) => id !== END)),
      candidates,
      states,
      encoder: attention,
      decoder: layers.map(({ own }) => byHead(own)),
      cross: layers.map(({ cross }) => byHead(cross)),
    };
  }
}
