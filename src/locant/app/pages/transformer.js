// The encoder-decoder Transformer of Vaswani et al. 2017, small enough to compute in the page: post-norm, sinusoids,
// ReLU, tied output. It returns every attention weight and every state, which a program for speed would throw away.

import { sinusoids } from "./formulas.js";

const EPSILON = 1e-5; // of layer norms

function float16(bits) {
  const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : (2 ** -14 * fraction) / 1024);
}

// Reads a safetensors file of half precision, in base64. https://github.com/huggingface/safetensors
function readTensors(base64) {
  const bytes = Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const size = Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + size)));
  const tensors = {};
  for (const [name, { shape, data_offsets: offsets }] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const [rows, columns] = shape.length === 2 ? shape : [1, shape[0]];
    const at = (row, column) => float16(view.getUint16(8 + size + offsets[0] + 2 * (row * columns + column), true));
    const matrix = Array.from({ length: rows }, (_, row) => Array.from({ length: columns }, (__, column) => at(row, column)));
    tensors[name] = shape.length === 2 ? matrix : matrix[0];
  }
  return tensors;
}

const dot = (a, b) => a.reduce((sum, value, index) => sum + value * b[index], 0);
const plus = (a, b) => a.map((value, index) => value + b[index]);
const linear = (x, weight, bias) => weight.map((row, index) => dot(row, x) + (bias ? bias[index] : 0));

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

export class Transformer {
  // model: { config, pieces, weights } as locant.app.explore writes it.
  constructor({ config, pieces, weights }) {
    this.config = config;
    this.pieces = pieces;
    this.tensors = readTensors(weights);
    this.ids = new Map(pieces.map((piece, id) => [piece, id]));
  }

  // Words that the model does not know.
  unknown(sentence) {
    return this.words(sentence).filter((word) => !this.ids.has(`\u2581${word}`));
  }

  words(sentence) {
    return sentence.trim().toLowerCase().split(/[\s-]+/).filter(Boolean);
  }

  name(id) {
    return id === 3 ? "(end)" : id === 2 ? "(begin)" : this.pieces[id].replace("\u2581", "");
  }

  norm(x, name) {
    const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
    const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
    const [weight, bias] = [this.tensors[`${name}.weight`], this.tensors[`${name}.bias`]];
    return x.map((value, index) => ((value - mean) / Math.sqrt(variance + EPSILON)) * weight[index] + bias[index]);
  }

  // Returns [the outputs of all heads joined and mapped, the weights [heads][queries][keys]].
  attend(name, queries, keys, values, causal) {
    const { heads, d_model: width } = this.config;
    const size = width / heads;
    const weights = [];
    const joined = queries.map(() => []);
    for (let head = 0; head < heads; head += 1) {
      const part = (x) => x.slice(head * size, (head + 1) * size);
      const headWeights = queries.map((query, row) => {
        const seen = causal ? keys.slice(0, row + 1) : keys;
        const found = softmax(seen.map((key) => dot(part(query), part(key)) / Math.sqrt(size)));
        return [...found, ...Array(keys.length - found.length).fill(0)];
      });
      headWeights.forEach((row, index) => {
        const mixed = Array(size).fill(0);
        row.forEach((weight, key) => part(values[key]).forEach((value, feature) => { mixed[feature] += weight * value; }));
        joined[index].push(...mixed);
      });
      weights.push(headWeights);
    }
    const [weight, bias] = [this.tensors[`${name}.output.weight`], this.tensors[`${name}.output.bias`]];
    return [joined.map((row) => linear(row, weight, bias)), weights];
  }

  selfAttend(name, states, causal) {
    const width = this.config.d_model;
    const [weight, bias] = [this.tensors[`${name}.query_key_value.weight`], this.tensors[`${name}.query_key_value.bias`]];
    const all = states.map((state) => linear(state, weight, bias));
    const [queries, keys, values] = [0, 1, 2].map((part) => all.map((row) => row.slice(part * width, (part + 1) * width)));
    return this.attend(name, queries, keys, values, causal);
  }

  feedForward(name, x) {
    const t = this.tensors;
    const inner = linear(x, t[`${name}.inner.weight`], t[`${name}.inner.bias`]).map((value) => Math.max(value, 0));
    return linear(inner, t[`${name}.outer.weight`], t[`${name}.outer.bias`]);
  }

  embedded(ids, positions) {
    const { d_model: width } = this.config;
    const table = this.tensors["source_embedding.weight"] || this.tensors["target_embedding.weight"];
    return ids.map((id, place) => {
      const word = table[id].map((value) => value * Math.sqrt(width));
      return positions ? plus(word, sinusoids(place, width, 10000)) : word;
    });
  }

  encode(ids, positions) {
    let states = this.embedded(ids, positions);
    const [all, attention] = [[states], []];
    for (let layer = 0; layer < this.config.encoder_layers; layer += 1) {
      const name = `encoder.layers.${layer}`;
      const [heard, weights] = this.selfAttend(`${name}.self_attention`, states, false);
      states = states.map((state, row) => this.norm(plus(state, heard[row]), `${name}.residuals.0.norm`));
      states = states.map((state) => this.norm(plus(state, this.feedForward(`${name}.feed_forward`, state)), `${name}.residuals.1.norm`));
      all.push(states);
      attention.push(weights);
    }
    return { states: all, attention };
  }

  decode(ids, memory, positions) {
    const t = this.tensors;
    const width = this.config.d_model;
    let states = this.embedded(ids, positions);
    const [attention, cross] = [[], []];
    for (let layer = 0; layer < this.config.decoder_layers; layer += 1) {
      const name = `decoder.layers.${layer}`;
      const [heard, own] = this.selfAttend(`${name}.self_attention`, states, true);
      states = states.map((state, row) => this.norm(plus(state, heard[row]), `${name}.residuals.0.norm`));
      const reading = `${name}.cross_attention`;
      const both = memory.map((state) => linear(state, t[`${reading}.key_value.weight`], t[`${reading}.key_value.bias`]));
      const queries = states.map((state) => linear(state, t[`${reading}.query.weight`], t[`${reading}.query.bias`]));
      const [read, seen] = this.attend(reading, queries, both.map((row) => row.slice(0, width)), both.map((row) => row.slice(width)), false);
      states = states.map((state, row) => this.norm(plus(state, read[row]), `${name}.residuals.1.norm`));
      states = states.map((state) => this.norm(plus(state, this.feedForward(`${name}.feed_forward`, state)), `${name}.residuals.2.norm`));
      attention.push(own);
      cross.push(seen);
    }
    return { states, attention, cross };
  }

  // Reads a sentence and writes its translation: the likeliest word each time, or with a seed one drawn by chance.
  async read(sentence, { positions = true, temperature = 1, seed = 0 } = {}) {
    const source = [...this.words(sentence).map((word) => this.ids.get(`\u2581${word}`) ?? 1), 3];
    const encoder = this.encode(source, positions);
    const memory = encoder.states[encoder.states.length - 1];
    const written = [2];
    const candidates = [];
    let decoder;
    while (written.length < 2 * source.length + 10 && (written.length === 1 || written[written.length - 1] !== 3)) {
      decoder = this.decode(written, memory, positions);
      const scores = linear(decoder.states[written.length - 1], this.tensors["target_embedding.weight"]);
      const shares = softmax(scores.map((score) => score / temperature));
      const order = shares.map((share, id) => ({ id, share })).sort((a, b) => b.share - a.share);
      let chosen = order[0].id;
      if (seed) {
        let left = chance(seed, written.length);
        chosen = (order.find(({ share }) => (left -= share) < 0) || order[0]).id;
      }
      candidates.push(order.slice(0, 5).map(({ id, share }) => ({ token: this.name(id), share })));
      written.push(chosen);
    }
    return {
      source: source.map((id) => this.name(id)),
      read: written.slice(0, -1).map((id) => this.name(id)),
      written: written.slice(1).map((id) => this.name(id)),
      translation: written.slice(1).filter((id) => id !== 3).map((id) => this.name(id)).join(" "),
      candidates,
      states: encoder.states,
      encoder: encoder.attention,
      decoder: decoder.attention,
      cross: decoder.cross,
    };
  }
}
