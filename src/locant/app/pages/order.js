// The page of word order: two words change places, and the model is read with positions and without.

import { element, matrix } from "./draw.js";
import { check, select, sentence } from "./knobs.js";
import { EXAMPLE, problem, read } from "./served.js";

const words = (text) => text.trim().split(/\s+/).filter(Boolean);

function swapped(list, first, second) {
  const other = [...list];
  [other[first], other[second]] = [other[second], other[first]];
  return other;
}

const places = (state) => {
  const list = words(state.sentence);
  const place = (value, otherwise) => (Number.isInteger(value) && value >= 0 && value < list.length ? value : otherwise);
  return { list, first: place(state.first, 0), second: place(state.second, list.length - 1) };
};

const distance = (a, b) => Math.sqrt(a.reduce((sum, value, index) => sum + (value - b[index]) ** 2, 0));

function shown(list, marks, translation) {
  return element("p", { class: "pair" },
    list.map((word, index) => element("span", { class: marks.includes(index) ? "token swapped" : "token" }, word)),
    element("span", { class: "arrow" }, "\u2192"), element("strong", {}, translation));
}

// The place of every word's first token; null where the tokens together do not spell the words.
function firstTokens(tokens, list) {
  let next = 0;
  const found = list.map((word) => {
    const first = next;
    for (let spelled = ""; spelled !== word && next < tokens.length; next += 1) spelled += tokens[next].replace(/^-(?=.)/, "");
    return first;
  });
  return next === tokens.length - 1 ? found : null; // the last token ends the sentence
}

export const order = {
  title: "Swap two words",
  say: "Two words change places. Does the model notice?",
  hint: "Untick “positions”: both sentences become the same translation, because the encoder reads a bag of words.",
  defaults: { sentence: EXAMPLE.text, positions: true, first: 0, second: 3 },
  pause: 2500,
  step: ({ positions }) => ({ positions: !positions }),
  checked: (state) => state,
  knobs: (state, set) => [
    sentence("Sentence", state.sentence, (text) => set({ sentence: text })),
    check("positions", state.positions, (positions) => set({ positions })),
  ],
  more: (state, set) => {
    const { list, first, second } = places(state);
    const choices = Object.fromEntries(list.map((word, index) => [index, `${index + 1} ${word}`]));
    return [
      select("First word", choices, first, (value) => set({ first: Number(value) })),
      select("Second word", choices, second, (value) => set({ second: Number(value) })),
    ];
  },
  async pictures(state) {
    const wrong = problem(state.sentence);
    if (wrong) return [{ title: "Swap two words", say: wrong, drawn: () => element("div") }];
    const { list, first, second } = places(state);
    const other = swapped(list, first, second);
    const [before, after] = [await read(list.join(" "), state), await read(other.join(" "), state)];
    const same = before.translation === after.translation;
    const verdict = state.positions
      ? `With positions the model ${same ? "still writes the same" : "tells the two sentences apart"}.`
      : `Without positions the model ${same ? "cannot tell the two sentences apart" : "writes two translations"}.`;
    const found = [{
      title: verdict, say: "Marked words changed places.",
      drawn: () => element("div", {}, shown(list, [first, second], before.translation), shown(other, [first, second], after.translation)),
    }];
    const [starts, others] = [firstTokens(before.source, list), firstTokens(after.source, other)];
    if (starts && others) {
      // Where each word of the first sentence stands in the second.
      const place = swapped(list.map((_, index) => index), first, second);
      found.push({
        title: "How far every word's vector moves",
        say: "Encoder, layer by layer, each word (its first token) compared with itself in the other sentence. The input is what layer 1 receives.",
        drawn: () => matrix(before.states.map((states, layer) => list.map((_, index) => distance(states[starts[index]], after.states[layer][others[place[index]]]))), {
          rows: before.states.map((_, layer) => (layer ? `layer ${layer}` : "input")), columns: list, rowTitle: "", columnTitle: "word", label: "Movement of vectors",
        }),
      });
    }
    return found;
  },
};
