// Tell the server which pictures are in view: only those are computed and sent when a knob is turned. Those nearly in
// view are asked for when that is done, so that they are there when somebody scrolls; and with them those in view that
// take long.
(function () {
  "use strict";

  const NEAR = 300; // pixels
  const QUIET = 150; // milliseconds

  // What is hidden will be where the picture before it is.
  function shownAt(card) {
    let at = card;
    while (at && at.hidden) at = at.previousElementSibling;
    return at;
  }

  function inView(card, margin) {
    const at = shownAt(card);
    if (!at) return false;
    const place = at.getBoundingClientRect();
    return place.bottom > -margin && place.top < window.innerHeight + margin;
  }

  const asked = new Map(); // by page: what was drawn when those nearly in view were asked for
  let timer = 0;
  let waiting = false;

  function everyGroup(ask) {
    for (const group of document.querySelectorAll(".cards[data-page]")) {
      const page = group.dataset.page;
      const cards = [...group.querySelectorAll("[data-picture]")];
      const names = (margin, ofAll = true) => cards
        .filter((card) => inView(card, margin) && !(margin === 0 && "late" in card.dataset) && (ofAll || !card.hidden))
        .map((card) => card.dataset.picture);
      const known = (store) => window.dash_component_api.getLayout(`${page}-${store}`).props.data;
      const set = (store, data) => window.dash_clientside.set_props(`${page}-${store}`, { data });
      try {
        ask(page, names, known, set);
      } catch (left) {
        // The page has just been turned, and this group is about to go.
      }
    }
  }

  function askView(page, names, known, set) {
    const view = names(0);
    if (String(known("view")) !== String(view)) set("view", view);
  }

  function askNear(page, names, known, set) {
    const drawn = known("drawn");
    const wrong = (name) => !(name in drawn && drawn[name].right);
    if (asked.get(page) === drawn || names(0, false).some(wrong)) return;
    const near = names(NEAR, false).filter(wrong);
    if (!near.length) return;
    asked.set(page, drawn);
    set("near", near);
  }

  function look() {
    waiting = false;
    everyGroup(askView);
    clearTimeout(timer);
    timer = setTimeout(() => everyGroup(askNear), QUIET);
  }

  function soon() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(look);
  }

  addEventListener("scroll", soon, { passive: true });
  addEventListener("resize", soon);
  new MutationObserver(soon).observe(document.documentElement, {
    subtree: true, childList: true, attributes: true, attributeFilter: ["hidden", "data-page"],
  });
})();
