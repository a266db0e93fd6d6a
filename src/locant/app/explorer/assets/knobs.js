// Join every number's field with its slider, and keep what is set on a page in the address.
(function () {
  "use strict";

  const PLACES = 1000; // of a slider
  const OFTEN = 80; // milliseconds between two values while a slider is dragged
  const QUIET = 200; // milliseconds after which the address follows

  const number = (value, other) => (typeof value === "number" && Number.isFinite(value) ? value : other);
  const highest = (spec, below) => (spec.below ? Math.max(spec.lowest, number(below, spec.highest + 1) - 1) : spec.highest);

  function share(value, spec, top) {
    const found = spec.scale === "even"
      ? (value - spec.lowest) / (top - spec.lowest)
      : Math.log(value / spec.lowest) / Math.log(top / spec.lowest);
    return Number.isFinite(found) ? Math.min(1, Math.max(0, found)) : 0;
  }

  function at(part, spec, top) {
    const even = spec.lowest + part * (top - spec.lowest);
    let value = spec.scale === "even" ? even : spec.lowest * (top / spec.lowest) ** part;
    if (spec.scale === "doubling") value = 2 ** Math.round(Math.log2(value));
    else if (spec.step) value = spec.lowest + Math.round((value - spec.lowest) / spec.step) * spec.step;
    else value = Number(value.toPrecision(2));
    return Math.min(top, Math.max(spec.lowest, value));
  }

  let held = null; // the slider that a pointer has hold of
  const waiting = new Map(); // by field: the last value dragged to, until it is sent

  function send(field) {
    const value = waiting.get(field);
    if (value === null) {
      waiting.delete(field);
      return;
    }
    waiting.set(field, null);
    window.dash_clientside.set_props(field, { value });
    setTimeout(() => send(field), OFTEN);
  }

  const sliderOf = (event) => event.target.closest && event.target.closest(".slider");
  document.addEventListener("input", (event) => {
    const slider = sliderOf(event);
    if (!slider) return;
    const spec = JSON.parse(slider.dataset.spec);
    const below = spec.below && document.getElementById(spec.below);
    const value = at(Number(event.target.value) / PLACES, spec, highest(spec, below ? Number(below.value) : undefined));
    const quiet = !waiting.has(spec.field);
    waiting.set(spec.field, value);
    if (quiet) send(spec.field);
  });
  document.addEventListener("pointerdown", (event) => { held = sliderOf(event) ? event.target.id : null; });
  for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, () => { held = null; });

  // The field says all that a slider does to those who have no pointer.
  new MutationObserver(() => {
    for (const slider of document.querySelectorAll(".slider input:not([tabindex])")) slider.tabIndex = -1;
  }).observe(document.documentElement, { subtree: true, childList: true });

  let timer = 0;
  function write(...values) {
    const { names, unsaid, longest } = values.pop();
    const page = location.pathname;
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (location.pathname !== page) return; // the page has been turned
      const query = new URLSearchParams();
      names.forEach((name, index) => {
        const value = values[index];
        if (value === null || value === undefined || value === unsaid[name]) return;
        const said = Array.isArray(value) ? value.join(".") : String(value);
        if (said.length <= longest) query.set(name, said);
      });
      history.replaceState(history.state, "", `${page}?${query}`);
    }, QUIET);
    return window.dash_clientside.no_update;
  }

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    explorer: {
      write,
      slide(value, below, spec) {
        if (held === `${spec.field}-slider`) return window.dash_clientside.no_update;
        return Math.round(PLACES * share(number(value, spec.lowest), spec, highest(spec, below)));
      },
    },
  });
})();
