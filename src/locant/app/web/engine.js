// Locant's translation engine in WebAssembly (kernels/web/engine.cpp): its memory, its weights, and the steps of a search.

class Engine {
  // Takes the bytes of modules, the best first, and what the page knows of the model: sizes, and the tensors that serve
  // twice.
  static async open(modules, about) {
    return new Engine(await Engine.functions(modules), about);
  }

  // Returns the functions of the first module that this browser knows and whose products are exact on this processor, or
  // else those of the last.
  static async functions(modules) {
    for (const [number, bytes] of modules.entries()) {
      const isLast = number === modules.length - 1;
      if (!isLast && !WebAssembly.validate(bytes)) continue;
      const { instance } = await WebAssembly.instantiate(bytes, { math: { log: Math.log } });
      if (isLast || instance.exports.locant_exact()) return instance.exports;
    }
  }

  constructor(functions, about) {
    this.f = functions;
    this.about = about;
    this.rooms = new Map(); // by name: where a tensor is that stays
    this.shapes = new Map();
    this.buffers = new Map(); // by name: [place, bytes] of room that is used again
    const shape = this.write("numbers", new Int32Array(about.shape));
    const made = this.room("pointer", 4);
    this.check(this.f.locant_engine(shape, made));
    [this.model] = this.numbers(made, 1);
    this.search = null;
  }

  // Room of a name, at least so large; what was in it is lost where it has to grow.
  room(name, bytes) {
    let [place, size] = this.buffers.get(name) ?? [0, 0];
    if (size < bytes) {
      if (place) this.f.locant_free(place);
      place = this.f.locant_room(bytes);
      this.buffers.set(name, [place, bytes]);
    }
    return place;
  }

  write(name, array) {
    const place = this.room(name, array.byteLength);
    this.copy(place, array);
    return place;
  }

  copy(place, array) {
    new Uint8Array(this.f.memory.buffer, place, array.byteLength).set(
      new Uint8Array(array.buffer, array.byteOffset, array.byteLength),
    );
  }

  numbers(place, count) {
    return new Int32Array(this.f.memory.buffer, place, count);
  }

  // Throws what a function complains about.
  check(complaint) {
    if (!complaint) return;
    const bytes = new Uint8Array(this.f.memory.buffer, complaint);
    throw new Error(fromUtf8.decode(bytes.slice(0, bytes.indexOf(0))));
  }

  // Takes a part of the model, a safetensors file. Returns its tensors that are not for the engine, by name.
  load(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const header = Number(view.getBigUint64(0, true));
    const tensors = JSON.parse(fromUtf8.decode(bytes.subarray(8, 8 + header)));
    const others = new Map();
    const data = (name) => {
      const [begin, end] = tensors[name].data_offsets;
      return bytes.subarray(8 + header + begin, 8 + header + end);
    };
    for (const [name, { shape }] of Object.entries(tensors)) {
      const matrix = /^matrix\.(\d+)\.weight$/.exec(name);
      if (matrix) {
        const part = (which) => {
          const whole = `matrix.${matrix[1]}.${which}`;
          return tensors[whole] ? this.write(which, data(whole)) : 0;
        };
        this.check(this.f.locant_matrix(this.model, Number(matrix[1]), part("weight"), part("scale"), part("bias")));
      } else if (name.startsWith("tokenizer.")) {
        others.set(name, data(name).slice());
      } else if (!name.startsWith("matrix.") && name !== "__metadata__") {
        const place = this.f.locant_room(data(name).byteLength);
        this.copy(place, data(name));
        this.rooms.set(name, place);
        this.shapes.set(name, shape);
      }
    }
    return others;
  }

  // To be called when all parts are loaded.
  begin() {
    for (const name of ["weight", "scale", "bias"]) {
      const [place] = this.buffers.get(name) ?? [0];
      if (place) this.f.locant_free(place);
      this.buffers.delete(name);
    }
    for (let i = 0; this.rooms.has(`norm.${i}.weight`); i++) {
      this.check(this.f.locant_norm(this.model, i, this.rooms.get(`norm.${i}.weight`), this.rooms.get(`norm.${i}.bias`)));
    }
    ["source", "target"].forEach((side, number) => {
      const name = (kind) => this.about.shared[`${side}.${kind}`] ?? `${side}.${kind}`;
      const rows = this.shapes.get(name("positions"))?.[0] ?? 0;
      const [embedding, positions] = [this.rooms.get(name("embedding")), this.rooms.get(name("positions")) ?? 0];
      this.check(this.f.locant_side(this.model, number, embedding, positions, rows));
    });
    this.search = this.f.locant_search(this.model);
  }

  join(tokens) {
    this.check(this.f.locant_join(this.search, this.write("tokens", new Int32Array(tokens)), tokens.length));
  }

  // Decodes the last token of each row. Returns the k best next ones of each: log-probabilities, and tokens; both are
  // overwritten by the next call.
  step(tokens, k) {
    const count = tokens.length * k;
    const last = this.write("tokens", new Int32Array(tokens));
    const [values, columns] = [this.room("values", 4 * count), this.room("columns", 4 * count)];
    this.check(this.f.locant_step(this.search, last, tokens.length, k, values, columns));
    return { values: new Float32Array(this.f.memory.buffer, values, count), columns: this.numbers(columns, count) };
  }

  select(rows) {
    this.check(this.f.locant_select(this.search, this.write("rows", new Int32Array(rows.length ? rows : [0])), rows.length));
  }
}
