// The page of longer contexts: what each scaling does to every pair of a rotary model.

import { STYLES, count, element, lines } from "./draw.js";
import { SCALINGS, firstUnseen, frequencies } from "./formulas.js";
import { button, select, slider, within } from "./knobs.js";
import { ask, extra } from "./served.js";

const styles = Object.fromEntries(Object.entries(SCALINGS).map(([name, { title }]) => [title, STYLES.scalings[name]]));
const titles = Object.fromEntries(Object.entries(SCALINGS).map(([name, { title }]) => [name, title]));

// The chosen method last, so that it is drawn on top.
const ordered = (method) => [...Object.keys(SCALINGS).filter((name) => name !== method), method];

function table(state) {
  const { head, base, trained, wanted } = state;
  const rows = Object.keys(SCALINGS).map((name) => {
    const unseen = firstUnseen(name, head, base, trained, wanted);
    return element("tr", { class: name === state.method ? "marked" : "" },
      element("th", { scope: "row" }, element("span", { class: "key", style: `--c: ${STYLES.scalings[name].color}` }), SCALINGS[name].title), element("td", {}, SCALINGS[name].paper || ""),
      element("td", {}, unseen === null ? "never" : `from token ${count(unseen)}`));
  });
  return element("div", { class: "scroll" }, element("table", {},
    element("thead", {}, element("tr", {}, ["method", "source", "angles that training never showed"].map((name) => element("th", {}, name)))),
    element("tbody", {}, rows)));
}

// A config.json, read by Locant: what it means and what is wrong with it.
function reading() {
  const field = element("textarea", { rows: 8, "aria-label": "config.json", spellcheck: "false" });
  const said = element("pre", { class: "said", role: "status" });
  const read = async () => {
    try {
      said.textContent = (await ask("inspect", { config: field.value })).text;
    } catch (error) {
      said.textContent = error.message;
    }
  };
  return element("div", {}, field, button("Read it", read), said);
}

export const context = {
  title: "Stretch a context",
  say: "A model was trained on 4,096 tokens. What happens to its clock hands when it reads more?",
  hint: "Choose PI and YaRN in turn: PI slows every pair, YaRN leaves the fast ones alone.",
  defaults: { method: "yarn", wanted: 32768, head: 128, base: 10000, trained: 4096 },
  pause: 900,
  step: ({ trained, wanted }) => ({ wanted: wanted >= 64 * trained ? 2 * trained : 2 * wanted }),
  checked: (state) => {
    const trained = within(Math.round(state.trained), 256, 2 ** 20);
    return {
      method: SCALINGS[state.method] ? state.method : "yarn",
      head: 2 * Math.round(within(state.head, 4, 512) / 2),
      base: within(state.base, 100, 1e9),
      trained,
      wanted: within(Math.round(state.wanted), trained, 1024 * trained),
    };
  },
  knobs: (state, set) => [
    slider("Wanted length", { least: state.trained, most: 64 * state.trained, doubling: true }, state.wanted, (wanted) => set({ wanted })),
    select("Method", titles, state.method, (method) => set({ method })),
  ],
  more: (state, set) => [
    slider("Trained length", { least: 1024, most: 131072, doubling: true }, state.trained, (trained) => set({ trained, wanted: 8 * trained })),
    select("Base", Object.fromEntries([...new Set([10000, 500000, 1000000, state.base])].map((base) => [base, count(base)])), state.base, (base) => set({ base: Number(base) })),
    slider("Head size", { least: 16, most: 256, step: 2 }, state.head, (head) => set({ head })),
  ],
  pictures(state) {
    const { head, base, trained, wanted, method } = state;
    const before = frequencies(head, base);
    const of = (what) => Object.fromEntries(ordered(method).map((name) => {
      const after = SCALINGS[name].of(head, base, trained, wanted);
      return [SCALINGS[name].title, before.map((frequency, pair) => what(frequency, after[pair]))];
    }));
    return [
      {
        title: `Reading ${count(wanted)} tokens, ${Number((wanted / trained).toPrecision(3))} times as many`,
        say: "How many times slower each pair turns. 1 leaves a pair as it was trained.",
        drawn: () => lines(of((frequency, after) => frequency / after), {
          styles,
          xTitle: "pair, fastest first", yTitle: "slowed by", label: "How much each pair is slowed down", logarithmic: wanted / trained > 30,
        }),
      },
      {
        title: "Tokens per turn",
        say: "A pair below the trained length showed every angle in training. One above it meets new angles, unless it is slowed down.",
        drawn: () => lines(of((frequency, after) => (2 * Math.PI) / after), {
          styles,
          xTitle: "pair, fastest first", yTitle: "tokens per turn", label: "Tokens per turn", logarithmic: true,
          references: { "trained length": trained, "wanted length": wanted },
        }),
      },
      { title: "Where angles are new", say: "The first token that turns a pair to an angle unseen in training.", drawn: () => table(state) },
      ...(extra.served ? [{ title: "Your config.json", say: "Paste it: Locant says what it means and what is wrong with it.", drawn: () => reading(), keep: true }] : []),
    ];
  },
};
