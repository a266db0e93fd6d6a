// The thread that translates, so that the page stays live. It is told { kind: "model" }, { kind: "part" } for each part of
// the model, then { kind: "translate" } any number of times; what is translated last takes the place of what was before.

const YIELD = 20; // milliseconds of work between two looks at what the page says

let translator = null;

class Translator {
  constructor(engine, tokenizers, about) {
    Object.assign(this, { engine, tokenizers, about });
    this.search = new Search(engine, about.decoding);
    this.known = new Map(); // translations by language and sentence
  }

  // Ids before a source, and what the decoder reads first: as TokenizerPair.prefixes.
  prefixes(source, target) {
    const { languages, start } = this.about;
    const ids = (sides) => sides.map((side) => languages.ids[side === "source" ? source : target]);
    return languages ? [ids(languages.before), [start, ...ids(languages.after)]] : [[], [start]];
  }

  // Returns ids of the parts of a sentence: one, unless it is too long.
  parts(sentence, before) {
    const { decoding, max_positions: known } = this.about;
    const encode = (text) => this.tokenizers.source.encode(text);
    const ids = encode(sentence);
    const longest = Math.min(
      known === null ? Infinity : known - before.length - 1,
      decoding.max_source_length,
      decoding.usual_source_length ?? Infinity,
    );
    if (ids.length <= longest) return ids.length ? [ids] : [];
    return splitToFit(sentence, (part) => encode(part).length <= longest)
      .map(encode)
      .filter((part) => part.length && part.length <= longest);
  }

  // Begins to translate sentences in the place of any before; `found(index, text)` is called for each.
  begin({ sentences, source, target }, found) {
    const { search, about } = this;
    const { max_length_ratio: ratio, max_length_extra: extra } = about.decoding;
    const [before, prefix] = this.prefixes(source, target);
    search.clear();
    this.open = new Map(); // by sentence: its parts, and where it stands
    for (const [index, sentence] of sentences.entries()) {
      const key = `${source} ${target} ${sentence}`;
      if (this.known.has(key)) {
        found(index, this.known.get(key));
      } else if (this.open.has(key)) {
        this.open.get(key).places.push(index);
      } else {
        const parts = this.parts(sentence, before);
        this.open.set(key, { left: parts.length, texts: [], places: [index], found });
        parts.forEach((ids, part) => {
          const most = Math.ceil(ratio * ids.length) + extra;
          const limit = about.max_positions === null ? most : Math.min(most, about.max_positions - prefix.length + 1);
          search.add([key, part], [...before, ...ids, ...about.source_end], limit, prefix);
        });
        if (!parts.length) this.give(key);
      }
    }
  }

  // Takes a step; returns whether there is more to do.
  step() {
    if (!this.search.active) return false;
    for (const [[key, part], ids] of this.search.step()) {
      const sentence = this.open.get(key);
      sentence.texts[part] = this.tokenizers.target.decode(ids);
      if (!--sentence.left) this.give(key);
    }
    return this.search.active > 0;
  }

  give(key) {
    const { texts, places, found } = this.open.get(key);
    const text = texts.filter(Boolean).join(" ");
    this.known.set(key, text);
    for (const place of places) found(place, text);
  }
}

// Lets what waits be heard. (A timer would wait for some milliseconds.)
const turns = new MessageChannel();
const turn = () =>
  new Promise((resume) => {
    turns.port1.onmessage = resume;
    turns.port2.postMessage(null);
  });

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

// ---- what the page says

let about = null;
let engine = null;
let parts = 0;
let task = 0; // number of the last translation that was asked for
const tokenizers = {};

async function hear({ data }) {
  if (data.kind === "model") {
    about = data.about;
    engine = await Engine.open(data.engines.map(fromBase64), about);
  } else if (data.kind === "part") {
    for (const [name, bytes] of engine.load(fromBase64(data.text))) {
      tokenizers[name.slice("tokenizer.".length)] = new Tokenizer(bytes, about.lowercase);
    }
    if (++parts < about.parts) return;
    engine.begin();
    tokenizers.target ??= tokenizers.source;
    translator = new Translator(engine, tokenizers, about);
    postMessage({ kind: "ready" });
  } else if (data.kind === "translate") {
    await translate(data);
  }
}

async function translate({ number, text, source, target }) {
  task = number;
  const pieces = cutText(text, source);
  const places = pieces.flatMap(({ translated }, place) => (translated ? [place] : []));
  postMessage({ kind: "pieces", number, pieces });
  const sentences = places.map((place) => pieces[place].text);
  translator.begin({ sentences, source, target }, (index, words) => {
    postMessage({ kind: "sentence", number, place: places[index], text: words });
  });
  for (let more = true; more; ) {
    const start = performance.now();
    while ((more = translator.step()) && performance.now() - start < YIELD);
    await turn();
    if (task !== number) return;
  }
  postMessage({ kind: "end", number });
}

// Parts come while the engine is being made.
let heard = Promise.resolve();
onmessage = (event) => {
  const fail = (error) => {
    const memory = error instanceof WebAssembly.RuntimeError || error instanceof RangeError;
    const sentence = error instanceof NotANumber
      ? "The model's output is not a number, so it cannot translate: its weights are damaged."
      : memory
        ? "There is not enough memory for this model in this browser. Close other pages, then open this one again."
        : `The translation engine stopped: ${error.message}`;
    postMessage({ kind: "error", number: event.data.number, sentence });
  };
  if (event.data.kind === "translate") hear(event).catch(fail);
  else if (event.data.kind === "stop") task = event.data.number;
  else heard = heard.then(() => hear(event)).catch(fail);
};
