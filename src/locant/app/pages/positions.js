// The page of single schemes: what each one tells a Transformer about positions.

import { STYLES, clocks, count, element, lines, matrix } from "./draw.js";
import { BIASES, alibiSlopes, frequencies, range, rotaryScore, sinusoids, t5Bucket } from "./formulas.js";
import { select, slider, within } from "./knobs.js";
import { ask, extra } from "./served.js";

const HEADS = 8;
const COMMON = {
  rotary: "RoPE", sinusoidal: "Sinusoidal", alibi: "ALiBi", t5: "T5 bias", sandwich: "Sandwich", none: "None (NoPE)",
};
const SAYS = {
  rotary: "RoPE turns each pair of features of a query and a key by an angle that grows with the position (Su et al. 2021).",
  sinusoidal: "Sine and cosine of each hand are added to the word's vector (Vaswani et al. 2017).",
  alibi: "A key loses score with its distance, on each head at another rate (Press et al. 2022).",
  t5: "Every distance falls into one of 32 buckets; a head learns one bias per bucket (Raffel et al. 2020).",
  sandwich: "Dot products of sinusoids become a fixed bias of the distance (Chi et al. 2023).",
  none: "Nothing is told. Only the causal mask lets a decoder know about order (Haviv et al. 2022).",
};

const hands = ({ width, base, position }) => ({
  title: `Clock hands at position ${position}`,
  say: "One hand per pair of features. The first hand needs 6.28 tokens per turn, the last one almost stands still.",
  drawn: () => clocks(frequencies(width, base).slice(0, 16).map((frequency) => position * frequency), `Clock hands at position ${position}`),
});

function biases(scheme, { length }) {
  const values = range(HEADS).map((head) => range(length).map((distance) => BIASES[scheme](distance, head, HEADS)));
  return [
    {
      title: "Bias by distance", say: "What is added to the score of a key that many tokens before the query; one line per head.",
      drawn: () => lines(Object.fromEntries(values.map((row, head) => [`head ${head + 1}`, row])), {
        xTitle: "distance in tokens", yTitle: "added to the score", label: "Bias by distance",
        styles: Object.fromEntries(STYLES.heads.map((color, head) => [`head ${head + 1}`, { color, dash: "none" }])),
      }),
    },
    {
      title: "Every head", say: scheme === "alibi" ? `Slopes: ${alibiSlopes(HEADS).map((slope) => `1/${1 / slope}`).join(", ")}.` : "The same numbers as a heat map.",
      drawn: () => matrix(values, { rows: range(HEADS).map((head) => `${head + 1}`), rowTitle: "head", columnTitle: "distance in tokens", label: "Bias of every head" }),
    },
  ];
}

const OF_SCHEME = {
  sinusoidal(state) {
    const { width, base, length, position } = state;
    const codes = range(length).map((place) => sinusoids(place, width, base));
    const products = codes.map((code) => code.reduce((sum, value, index) => sum + value * codes[position][index], 0));
    return [hands(state),
      {
        title: "The code of every position", say: "Row p is added to the vector of the word at position p. Click a row.",
        drawn: () => matrix(codes, { rowTitle: "position", columnTitle: "feature", label: "Sinusoidal code", marked: position, onrow: state.mark }),
      },
      {
        title: `How much other positions resemble position ${position}`, say: "The dot product of their codes: neighbours are most alike.",
        drawn: () => lines({ "dot product": products }, { styles: { "dot product": STYLES.schemes.sinusoidal }, xTitle: "position", yTitle: "dot product", label: "Dot products", marked: position }),
      }];
  },
  rotary(state) {
    const { width, base, length, position } = state;
    return [hands(state),
      {
        title: "Score by distance", say: "The score of an equal query and key, as a share of the score at distance 0.",
        drawn: () => lines({ score: range(length).map((distance) => rotaryScore(distance, width, base)) }, {
          styles: { score: STYLES.schemes.rotary },
          xTitle: "distance in tokens", yTitle: "share of the score at 0", label: "Score by distance", marked: position,
        }),
      },
      {
        title: "Cosine of every angle", say: "Row p: by how much each pair is turned at position p.",
        drawn: () => matrix(range(length).map((place) => frequencies(width, base).map((frequency) => Math.cos(place * frequency))), {
          rowTitle: "position", columnTitle: "pair", label: "Cosines", marked: position, onrow: state.mark,
        }),
      }];
  },
  alibi: (state) => biases("alibi", state),
  sandwich: (state) => biases("sandwich", state),
  t5: ({ length }) => [{
    title: "Bucket of every distance", say: "Up to 15 tokens every distance has a bias of its own; farther ones share it, ever more of them.",
    drawn: () => lines({ bucket: range(length).map(t5Bucket) }, { styles: { bucket: STYLES.schemes.t5 }, xTitle: "distance in tokens", yTitle: "bucket", label: "Buckets" }),
  }],
  none: () => [{ title: "Nothing to draw", say: "A model without positions reads a bag of words. See “Swap two words”.", drawn: () => element("div") }],
};

// Of a scheme that Locant computes: by how much it changes the scores of fixed contents.
async function computed(scheme, { width, length }) {
  const { changes } = await ask("scheme", { scheme, width, length });
  return [
    {
      title: "Change of every score", say: "By how much positions change the score of a query and a key whose contents are the same everywhere. Trained values are as they begin.",
      drawn: () => matrix(changes, { rowTitle: "query's position", columnTitle: "key's position", label: "Change of every score" }),
    },
    {
      title: "Change by distance", say: "From the last position backwards.",
      drawn: () => lines({ change: changes[length - 1].slice().reverse() }, { styles: { change: STYLES.schemes[scheme] }, xTitle: "distance in tokens", yTitle: "added to the score", label: "Change by distance" }),
    },
  ];
}

const pictures = (scheme, state) => (OF_SCHEME[scheme] ? OF_SCHEME[scheme](state) : computed(scheme, state));

function schemes() {
  const more = Object.fromEntries(Object.entries(extra.schemes || {}).filter(([name]) => !COMMON[name]));
  return Object.keys(more).length ? { Common: COMMON, "Computed by Locant": more } : COMMON;
}

const known = (scheme, other) => (COMMON[scheme] || (extra.schemes || {})[scheme] ? scheme : other);

export const positions = {
  title: "Watch positions",
  say: "How does a Transformer know which word comes first? Watch the numbers it is told.",
  hint: "Press Play, then choose ALiBi: no hands at all, only a penalty for distance.",
  defaults: { scheme: "sinusoidal", beside: "", position: 5, width: 32, base: 10000, length: 64 },
  pause: 350,
  step: ({ position, length }) => ({ position: (position + 1) % length }),
  checked: (state) => ({
    ...state,
    scheme: known(state.scheme, "sinusoidal"),
    beside: known(state.beside, ""),
    width: 2 * Math.round(within(state.width, 4, 128) / 2),
    length: Math.round(within(state.length, 8, 256)),
    base: within(state.base, 2, 1e7),
    position: Math.round(within(state.position, 0, within(state.length, 8, 256) - 1)),
  }),
  knobs: (state, set) => [
    select("Scheme", schemes(), state.scheme, (scheme) => set({ scheme })),
    slider("Position", { least: 0, most: state.length - 1 }, state.position, (position) => set({ position })),
  ],
  more: (state, set) => [
    select("Compare with", { "": "nothing", ...schemes() }, state.beside, (beside) => set({ beside })),
    slider("Width d", { least: 4, most: 128, step: 2 }, state.width, (width) => set({ width })),
    select("Base", Object.fromEntries([...new Set([10, 100, 10000, 500000, 1000000, state.base])].sort((a, b) => a - b).map((base) => [base, count(base)])),
      state.base, (base) => set({ base: Number(base) })),
    slider("Length", { least: 8, most: 256 }, state.length, (length) => set({ length })),
  ],
  async pictures(state) {
    const found = await pictures(state.scheme, state);
    const about = SAYS[state.scheme] || (extra.schemes || {})[state.scheme] || "";
    found[0] = { ...found[0], say: `${about} ${found[0].say}` };
    if (!state.beside) return found;
    const other = await pictures(state.beside, state);
    const name = (scheme) => COMMON[scheme] || scheme;
    const named = (some, scheme) => some.map((one) => ({ ...one, title: `${name(scheme)}: ${one.title}`, style: STYLES.schemes[scheme] }));
    const [left, right] = [named(found, state.scheme), named(other, state.beside)];
    return range(Math.max(left.length, right.length)).flatMap((index) => [left[index], right[index]]).filter(Boolean);
  },
};
