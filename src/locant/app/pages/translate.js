// The page of a translator: tokens, the attention of every head, and candidates for every next word.

import { bars, element, links, matrix } from "./draw.js";
import { button, check, select, sentence, slider } from "./knobs.js";
import { EXAMPLE, problem, read } from "./served.js";

const PARTS = { cross: "cross-attention", encoder: "encoder", decoder: "decoder" };

const mean = (heads) => heads[0].map((row, to) => row.map((_, from) => heads.reduce((sum, head) => sum + head[to][from], 0) / heads.length));

function chosen(state, found) {
  const part = PARTS[state.part] ? state.part : "cross";
  const layers = found[part];
  const layer = state.layer >= 1 && state.layer <= layers.length ? state.layer : layers.length;
  const heads = layers[layer - 1];
  const head = state.head >= 1 && state.head <= heads.length ? state.head : 0;
  return { part, layers, layer, heads, head, weights: head ? heads[head - 1] : mean(heads) };
}

// Rows of cross-attention are named by the word that is being written, others by the word that looks.
const rowNames = (part, found) => ({ cross: found.written, encoder: found.source, decoder: found.read })[part];
const columnNames = (part, found) => (part === "decoder" ? found.read : found.source);

let last = null; // the reading that the knobs of layers and heads belong to

export const translate = {
  title: "Translate",
  say: EXAMPLE.about,
  hint: EXAMPLE.hint,
  defaults: { sentence: EXAMPLE.text, word: 0, part: "cross", layer: 0, head: 0, temperature: 1, positions: true, seed: 0 },
  pause: 1200,
  step: ({ word }) => ({ word: last && word + 1 < last.written.length ? word + 1 : 0 }),
  checked: (state) => ({ ...state, temperature: Math.min(3, Math.max(0.1, state.temperature)), word: Math.max(0, Math.round(state.word)) }),
  knobs: (state, set) => [
    sentence("Sentence", state.sentence, (text) => set({ sentence: text, word: 0 })),
    slider("Word being written", { least: 0, most: Math.max(0, last ? last.written.length - 1 : 8) }, state.word, (word) => set({ word })),
  ],
  more: (state, set) => {
    const now = last ? chosen(state, last) : { layers: [1], heads: [1], layer: 1, head: 0 };
    const counted = (list) => Object.fromEntries(list.map((_, index) => [index + 1, `${index + 1}`]));
    return [
      select("Attention of", PARTS, state.part, (part) => set({ part })),
      select("Layer", counted(now.layers), now.layer, (layer) => set({ layer: Number(layer) })),
      select("Head", { 0: "mean of all", ...counted(now.heads) }, now.head, (head) => set({ head: Number(head) })),
      slider("Temperature", { least: 0.1, most: 3, step: 0.1 }, state.temperature, (temperature) => set({ temperature })),
      check("positions", state.positions, (positions) => set({ positions, word: 0 })),
      element("p", { class: "knob" }, button("Draw words by chance", () => set({ seed: state.seed + 1, word: 0 })),
        button("Likeliest words", () => set({ seed: 0, word: 0 }))),
    ];
  },
  async pictures(state) {
    const wrong = problem(state.sentence);
    if (wrong) return [{ title: "Translate", say: wrong, drawn: () => element("div") }];
    const found = await read(state.sentence, state);
    last = found;
    const word = Math.min(state.word, found.written.length - 1);
    const now = chosen(state, found);
    const [above, below] = [columnNames(now.part, found), rowNames(now.part, found)];
    const cross = now.part === "cross" ? now.weights : mean(found.cross[found.cross.length - 1]);
    const mark = (index) => state.set({ word: index });
    return [
      {
        title: found.translation || "(nothing)",
        say: `Writing “${found.written[word]}”: the thicker a link, the more the decoder reads from that word.`,
        drawn: () => links(found.source, found.written, cross, { label: "Cross-attention", marked: word, onword: mark }),
      },
      {
        title: "Candidates for this word", say: "Shares of probability, after the temperature.",
        drawn: () => bars(found.candidates[word], "Candidates"),
      },
      {
        title: `${PARTS[now.part]}, layer ${now.layer}, ${now.head ? `head ${now.head}` : "mean of all heads"}`,
        say: now.part === "cross" ? "A row is the word that is being written, a column the word read; rows sum to 1."
          : "A row is the word that looks, a column the word it reads; rows sum to 1.",
        drawn: () => matrix(now.weights, { rows: below, columns: above, rowTitle: "", columnTitle: "", label: "Attention", marked: now.part === "cross" ? word : null }),
      },
      {
        title: `All heads of ${PARTS[now.part]}`, say: "Layer and head, counted from 1. Click one to see it large.",
        drawn: () => element("div", { class: "heads" }, now.layers.map((heads, layer) => element("div", { class: "layer" },
          heads.map((weights, head) => element("button", {
            type: "button", class: "head", "aria-label": `layer ${layer + 1}, head ${head + 1}`, onclick: () => state.set({ layer: layer + 1, head: head + 1 }),
          }, matrix(weights, { plain: true, rowTitle: "", columnTitle: "", label: `layer ${layer + 1}, head ${head + 1}` }), `${layer + 1}.${head + 1}`))))),
      },
    ];
  },
};
