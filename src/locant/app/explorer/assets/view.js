// Tell the server which pictures are in view or nearly so: only those are computed and sent.
(function () {
  "use strict";

  const NEAR = 150;

  function inView(card) {
    const place = card.getBoundingClientRect();
    return !card.hidden && place.bottom > -NEAR && place.top < window.innerHeight + NEAR;
  }

  function look() {
    waiting = false;
    for (const group of document.querySelectorAll(".cards[data-page]")) {
      const names = [...group.querySelectorAll("[data-picture]")].filter(inView).map((card) => card.dataset.picture);
      const store = `${group.dataset.page}-view`;
      try {
        const known = window.dash_component_api.getLayout(store).props.data;
        if (String(known) !== String(names)) window.dash_clientside.set_props(store, { data: names });
      } catch (left) {
        // The page has just been turned, and this group is about to go.
      }
    }
  }

  let waiting = false;
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
