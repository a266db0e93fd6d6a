// SentencePiece models (unigram and BPE) as Locant uses them: text to token ids and back, with SentencePiece's own results.
// https://github.com/google/sentencepiece: normalizer.cc, unigram_model.cc, bpe_model.cc, sentencepiece_processor.cc.

const SPACE = "\u2581"; // what stands for a space in a subword
const [NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE] = [1, 2, 3, 4, 5, 6];
const [UNIGRAM, BPE] = [1, 2];
const UNKNOWN_PENALTY = 10;
const SMALLEST_FLOAT = 1.1754943508222875e-38; // what SentencePiece begins with to look for its largest score

// What Python takes for white space, and Locant for one space.
const WHITE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;

const utf8 = new TextEncoder();
const fromUtf8 = new TextDecoder("utf-8", { ignoreBOM: true });
const fromValidUtf8 = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true });

// Yields the number and value of each field of a protocol buffer.
function* protoFields(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const number = () => {
    let value = 0;
    for (let weight = 1; ; weight *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * weight;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = number();
    const field = Math.floor(key / 8);
    if (key % 8 === 0) {
      yield [field, number()];
    } else if (key % 8 === 5) {
      yield [field, view.getFloat32(at, true)];
      at += 4;
    } else if (key % 8 === 2) {
      const length = number();
      yield [field, bytes.subarray(at, at + length)];
      at += length;
    } else if (key % 8 === 1) {
      at += 8;
    } else {
      throw new Error("The tokenizer model is damaged.");
    }
  }
}

// Rules of a normaliser, and what it does to white space.
class Normalizer {
  constructor(bytes, { suffix = false, symbols = [] } = {}) {
    this.trie = null; // a double array: https://github.com/s-yata/darts-clone
    this.dummyPrefix = true;
    this.trims = true;
    this.escapes = true;
    this.suffix = suffix;
    this.symbols = new Map(); // user-defined symbols, which stay as they are, by their first byte, longest first
    for (const symbol of symbols.map((text) => utf8.encode(text)).sort((a, b) => b.length - a.length)) {
      this.symbols.set(symbol[0], [...(this.symbols.get(symbol[0]) ?? []), symbol]);
    }
    for (const [field, value] of protoFields(bytes)) {
      if (field === 2 && value.length) {
        const size = new DataView(value.buffer, value.byteOffset).getUint32(0, true);
        this.trie = new Uint32Array(value.slice(4, 4 + size).buffer);
        this.written = value.subarray(4 + size);
      }
      if (field === 3) this.dummyPrefix = Boolean(value);
      if (field === 4) this.trims = Boolean(value);
      if (field === 5) this.escapes = Boolean(value);
    }
  }

  apply(text) {
    const bytes = utf8.encode(text);
    const isSpace = (part) => part.length === 1 && part[0] === 32;
    let at = 0;
    if (this.trims) {
      while (at < bytes.length) {
        const [part, length] = this.prefix(bytes, at);
        if (!isSpace(part)) break;
        at += length;
      }
    }
    if (at === bytes.length) return "";
    const space = this.escapes ? SPACE : " ";
    const parts = [];
    let afterSpace = this.trims;
    while (at < bytes.length) {
      let [part, length] = this.prefix(bytes, at);
      at += length;
      if (afterSpace) {
        let spaces = 0;
        while (part[spaces] === 32) spaces++;
        part = part.subarray(spaces);
      }
      if (part.length) {
        parts.push(...part);
        afterSpace = part[part.length - 1] === 32;
      }
      if (!this.trims) afterSpace = false;
    }
    let found = fromUtf8.decode(new Uint8Array(parts));
    if (this.escapes) found = found.replaceAll(" ", SPACE);
    if (this.dummyPrefix && !this.suffix) found = space + found;
    if (this.trims) while (found.endsWith(space)) found = found.slice(0, -1);
    if (this.dummyPrefix && this.suffix) found += space;
    return found;
  }

  // What is written for the text at a place, and how many of its bytes that is for.
  prefix(bytes, at) {
    for (const symbol of this.symbols.get(bytes[at]) ?? []) {
      if (symbol.every((byte, i) => bytes[at + i] === byte)) return [symbol, symbol.length];
    }
    if (this.trie) {
      let longest = 0;
      let value = 0;
      let node = 0;
      let unit = this.trie[0];
      node ^= offsetOf(unit);
      for (let i = at; i < bytes.length; i++) {
        node ^= bytes[i];
        unit = this.trie[node];
        if ((unit & 0x800000ff) >>> 0 !== bytes[i]) break;
        node ^= offsetOf(unit);
        if ((unit >>> 8) & 1) {
          longest = i + 1 - at;
          value = this.trie[node] & 0x7fffffff;
        }
      }
      if (longest) return [this.written.subarray(value, this.written.indexOf(0, value)), longest];
    }
    const length = bytes[at] < 0xc0 ? 1 : bytes[at] < 0xe0 ? 2 : bytes[at] < 0xf0 ? 3 : 4;
    return [bytes.subarray(at, at + length), length];
  }
}

function offsetOf(unit) {
  return (unit >>> 10) << ((unit & 0x200) >>> 6);
}

class Tokenizer {
  // Takes the bytes of a model, and whether text is brought to lower case first.
  constructor(model, lowercase) {
    this.lowercase = lowercase;
    this.names = [];
    this.scores = [];
    this.kinds = [];
    this.algorithm = UNIGRAM;
    this.bytesOfUnknown = false;
    this.unknownText = " \u2047 ";
    let suffix = false;
    let rules = new Uint8Array();
    let unrules = null;
    for (const [field, value] of protoFields(model)) {
      if (field === 1) this.addPiece(value);
      if (field === 2) {
        for (const [key, setting] of protoFields(value)) {
          if (key === 3) this.algorithm = setting;
          if (key === 24) suffix = Boolean(setting);
          if (key === 35) this.bytesOfUnknown = Boolean(setting);
          if (key === 44) this.unknownText = fromUtf8.decode(setting);
        }
      }
      if (field === 3) rules = value;
      if (field === 5) unrules = new Normalizer(value);
    }
    const ofKinds = (...kinds) => this.names.flatMap((name, id) => (kinds.includes(this.kinds[id]) ? [[name, id]] : []));
    this.ids = new Map(ofKinds(NORMAL, USER_DEFINED, UNUSED));
    this.reserved = new Map(ofKinds(UNKNOWN, CONTROL, BYTE));
    this.unknown = this.kinds.indexOf(UNKNOWN);
    this.longest = this.names.reduce((most, name) => Math.max(most, name.length), 0);
    this.symbols = ofKinds(USER_DEFINED).map(([name]) => name).sort((a, b) => b.length - a.length);
    this.normalizer = new Normalizer(rules, { suffix, symbols: this.symbols });
    this.denormalizer = unrules?.trie ? unrules : null;
    const scores = this.scores.filter((_, id) => this.kinds[id] === NORMAL);
    this.largest = scores.reduce((a, b) => Math.max(a, b), SMALLEST_FLOAT);
    const smallest = scores.reduce((a, b) => Math.min(a, b), Infinity);
    this.unknownScore = Math.fround(smallest - UNKNOWN_PENALTY);
  }

  addPiece(bytes) {
    let [name, score, kind] = ["", 0, NORMAL];
    for (const [key, value] of protoFields(bytes)) {
      if (key === 1) name = fromUtf8.decode(value);
      if (key === 2) score = value;
      if (key === 3) kind = value;
    }
    this.names.push(name);
    this.scores.push(score);
    this.kinds.push(kind);
  }

  // Text as Locant hands it to SentencePiece.
  prepare(text) {
    if (this.lowercase) text = text.toLowerCase();
    return text.normalize("NFC").replaceAll("\0", " ").split(WHITE).filter(Boolean).join(" ");
  }

  encode(text) {
    const normal = this.normalizer.apply(this.prepare(text));
    if (!normal) return [];
    const pieces = this.algorithm === BPE ? this.merge(normal) : this.bestPath(normal);
    const ids = [];
    let afterUnknown = false;
    for (const [piece, id] of pieces) {
      const isUnknown = id === this.unknown;
      if (isUnknown && this.bytesOfUnknown) {
        for (const byte of utf8.encode(piece)) ids.push(this.idOf(byteName(byte)));
      } else if (!(isUnknown && afterUnknown)) {
        ids.push(id);
      }
      afterUnknown = isUnknown;
    }
    return ids;
  }

  idOf(name) {
    return this.reserved.get(name) ?? this.ids.get(name) ?? this.unknown;
  }

  // The most probable segmentation (Viterbi), with sums in single precision, as SentencePiece has them: it decides which of
  // equal ones is taken.
  bestPath(text) {
    const best = new Float32Array(text.length + 1);
    const from = new Int32Array(text.length + 1).fill(-1);
    const by = new Int32Array(text.length + 1);
    const offer = (start, end, id, score) => {
      if (from[end] !== -1 && !(score > best[end])) return;
      best[end] = score;
      from[end] = start;
      by[end] = id;
    };
    for (let start = 0; start < text.length; ) {
      const next = start + sizeAt(text, start);
      let single = false;
      const last = Math.min(text.length, start + this.longest);
      for (let end = next; end <= last; end += end < text.length ? sizeAt(text, end) : 1) {
        const piece = text.slice(start, end);
        const id = this.ids.get(piece);
        if (id === undefined || this.kinds[id] === UNUSED) continue;
        const score =
          this.kinds[id] === USER_DEFINED
            ? Math.fround(utf8.encode(piece).length * this.largest - 0.1)
            : this.scores[id];
        offer(start, end, id, Math.fround(score + best[start]));
        single ||= end === next;
      }
      if (!single) offer(start, next, this.unknown, Math.fround(this.unknownScore + best[start]));
      start = next;
    }
    const found = [];
    for (let end = text.length; end > 0; end = from[end]) found.push([text.slice(from[end], end), by[end]]);
    return found.reverse();
  }

  // Byte pair encoding: of the pairs that make a subword the one with the best score is merged, the first of equal ones.
  merge(text) {
    const parts = []; // text, places of the neighbours, and whether it stays as it is
    for (let at = 0; at < text.length; ) {
      const symbol = this.symbols.find((one) => text.startsWith(one, at));
      const part = symbol ?? text.slice(at, at + sizeAt(text, at));
      parts.push({ text: part, before: parts.length - 1, after: parts.length + 1, fixed: symbol !== undefined });
      at += part.length;
    }
    parts[parts.length - 1].after = -1;
    const halves = new Map(); // of merged subwords that are not used
    const pairs = new Set();
    const better = (a, b) => (b.score > a.score || (b.score === a.score && b.left < a.left) ? b : a);
    const add = (left, right) => {
      if (left === -1 || right === -1 || parts[left].fixed || parts[right].fixed) return;
      const whole = parts[left].text + parts[right].text;
      const id = this.ids.get(whole);
      if (id === undefined) return;
      pairs.add({ left, right, score: this.scores[id], size: whole.length });
      if (this.kinds[id] === UNUSED) halves.set(whole, [parts[left].text, parts[right].text]);
    };
    for (let i = 1; i < parts.length; i++) add(i - 1, i);
    while (pairs.size) {
      const pair = [...pairs].reduce(better);
      pairs.delete(pair);
      const [left, right] = [parts[pair.left], parts[pair.right]];
      if (!left.text || !right.text || left.text.length + right.text.length !== pair.size) continue;
      left.text += right.text;
      left.after = right.after;
      if (right.after !== -1) parts[right.after].before = pair.left;
      right.text = "";
      add(left.before, pair.left);
      add(pair.left, left.after);
    }
    const found = [];
    const give = (piece) => {
      const id = this.idOf(piece);
      if (this.kinds[id] !== UNUSED) found.push([piece, id]);
      else if (halves.has(piece)) halves.get(piece).forEach(give);
      else found.push([piece, this.unknown]);
    };
    for (let i = 0; i !== -1; i = parts[i].after) give(parts[i].text);
    return found;
  }

  decode(ids) {
    const { normalizer } = this;
    let text = "";
    let bytes = [];
    let isFirst = true;
    let tookSpace = false;
    const flush = () => {
      text += decodeBytes(bytes);
      bytes = [];
    };
    for (const given of ids) {
      const name = this.names[given];
      const id = this.idOf(name);
      if (this.kinds[id] === BYTE) {
        bytes.push(parseInt(name.slice(3, 5), 16));
        continue;
      }
      flush();
      if (tookSpace || text) isFirst = false;
      tookSpace = false;
      if (this.kinds[id] === CONTROL) continue;
      if (this.kinds[id] === UNKNOWN) {
        text += this.names[id] === name ? this.unknownText : name;
        continue;
      }
      let piece = name;
      if (isFirst && (normalizer.dummyPrefix || normalizer.trims) && piece.startsWith(SPACE)) {
        piece = piece.slice(1);
        tookSpace = !normalizer.trims;
      }
      text += piece.replaceAll(SPACE, " ");
    }
    flush();
    return this.denormalizer ? this.denormalizer.apply(text) : text;
  }
}

function sizeAt(text, at) {
  return text.codePointAt(at) > 0xffff ? 2 : 1;
}

function byteName(byte) {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
}

// Text of bytes; each byte that begins no character gives a replacement character.
function decodeBytes(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    const length = bytes[at] < 0xc0 ? 1 : bytes[at] < 0xe0 ? 2 : bytes[at] < 0xf0 ? 3 : 4;
    try {
      text += fromValidUtf8.decode(new Uint8Array(bytes.slice(at, at + length)));
      at += length;
    } catch {
      text += "\ufffd";
      at += 1;
    }
  }
  return text;
}
