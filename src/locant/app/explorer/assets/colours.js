// Light or dark: as the system says, until somebody chooses on the page; the choice is remembered.
(function () {
  "use strict";

  const KEPT = "locant-colours";
  const system = matchMedia("(prefers-color-scheme: dark)");

  function chosen() {
    try {
      return localStorage.getItem(KEPT);
    } catch (refused) {
      return null; // a browser may keep nothing
    }
  }

  const wanted = () => chosen() || (system.matches ? "dark" : "light");
  const apply = (colours) => { document.documentElement.dataset.colours = colours; };

  apply(wanted());
  system.addEventListener("change", () => apply(wanted()));
  document.addEventListener("click", (event) => {
    if (!event.target.closest || !event.target.closest("#colours")) return;
    const colours = document.documentElement.dataset.colours === "dark" ? "light" : "dark";
    apply(colours);
    try {
      localStorage.setItem(KEPT, colours);
    } catch (refused) {
      // It lasts as long as the page then.
    }
  });
})();
