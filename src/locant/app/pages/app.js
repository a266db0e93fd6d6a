// Turns pages, keeps their state in the address, and draws: picture first, then two knobs, the rest behind "More".

import { element } from "./draw.js";
import { keepState, play, stateOf } from "./knobs.js";
import { context } from "./context.js";
import { order } from "./order.js";
import { positions } from "./positions.js";
import { translate } from "./translate.js";

const PAGES = { positions, order, context, translate };
const main = document.querySelector("main");

// A picture is drawn when it is shown. style: colour and stroke of the scheme that it belongs to.
function figure({ title, say, drawn, style }, first) {
  const sign = style && element("span", { class: "key", style: `--c: ${style.color}; --d: ${style.dash}` });
  return element("figure", { class: first ? "first" : "" }, element(first ? "h2" : "h3", {}, sign, title),
    element("div", { class: "drawn" }, drawn()), element("figcaption", {}, say));
}

// Shows a page in a place; as a card with its first picture, without the knobs behind "More" and the address.
function show(place, name, card) {
  const page = PAGES[name];
  let state = page.checked(card ? { ...page.defaults } : stateOf(page.defaults));
  const [drawn, knobs, more, rest] = ["drawings", "knobs", "knobs", "rest"].map((kind) => element("div", { class: kind }));
  let drawing = 0; // the number of the last drawing that was begun
  let kept = null; // a picture with something typed in it

  async function draw() {
    const number = (drawing += 1);
    let found;
    try {
      found = await page.pictures({ ...state, set, mark: (position) => set({ position }) });
    } catch (error) {
      found = [{ title: "That cannot be shown", say: error.message, drawn: () => element("div") }];
    }
    if (number !== drawing) return;
    drawn.replaceChildren(figure(found[0], true));
    if (card) return;
    await new Promise((resume) => setTimeout(resume)); // the first picture is shown before the others are drawn
    if (number !== drawing) return;
    rest.replaceChildren(...found.slice(1).map((one) => (one.keep ? (kept = kept || figure(one, false)) : figure(one, false))));
  }

  // Knobs follow the state; one that somebody holds stays as it is.
  function renew(held, made) {
    made.forEach((knob, index) => {
      const old = held.children[index];
      const focused = old?.contains(document.activeElement);
      if (old?.matches(":active") || (focused && document.activeElement.matches("input"))) return;
      if (old) old.replaceWith(knob);
      else held.append(knob);
      if (focused) knob.querySelector("select, button")?.focus();
    });
  }

  async function set(changes) {
    state = page.checked({ ...state, ...changes });
    if (!card) keepState(name, page.defaults, state);
    await draw();
    renew(knobs, page.knobs(state, set));
    if (!card) renew(more, page.more(state, set));
  }

  // A link to a state shows just that.
  const moving = !location.hash.includes("?") && !matchMedia("(max-width: 50rem)").matches;
  const player = play(() => set(page.step(state)), page.pause, card || moving);
  const head = card
    ? [element("h2", {}, element("a", { href: `#${name}` }, page.title)), element("p", { class: "say" }, page.say)]
    : [element("h1", {}, page.title), element("p", { class: "say" }, page.say)];
  const hint = element("p", { class: "hint" }, element("strong", {}, "Try: "), page.hint);
  const all = element("p", {}, element("a", { href: `#${name}` }, "More \u2192"));
  place.append(...head, drawn, element("div", { class: "controls" }, knobs, player), hint,
    ...(card ? [all] : [element("details", { open: location.hash.includes("?") }, element("summary", {}, "More knobs"), more), rest]));
  set({});
}

function route() {
  const name = location.hash.slice(1).split("?")[0];
  main.replaceChildren();
  for (const link of document.querySelectorAll("nav a")) link.classList.toggle("current", link.hash === `#${PAGES[name] ? name : ""}`);
  if (PAGES[name]) {
    document.title = `${PAGES[name].title} - Locant explorer`;
    const place = element("section");
    main.append(place);
    show(place, name, false);
  } else {
    document.title = "Locant explorer";
    main.append(element("h1", {}, "How a Transformer knows word order"));
    const cards = element("div", { class: "cards" });
    main.append(cards);
    for (const one of Object.keys(PAGES)) {
      const card = element("section", { class: "card" });
      cards.append(card);
      show(card, one, true);
    }
  }
  scrollTo(0, 0);
}

const nav = document.querySelector("nav");
nav.append(element("a", { href: "#" }, "Start"), ...Object.entries(PAGES).map(([name, { title }]) => element("a", { href: `#${name}` }, title)));
document.getElementById("colours").addEventListener("click", () => {
  const { dataset } = document.documentElement;
  const dark = dataset.colours ? dataset.colours === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  dataset.colours = dark ? "light" : "dark";
});
addEventListener("hashchange", route);
route();
