// Colours of charts on a dark page, by their colours on a light one. Lines differ for people with any colour vision there
// as they do here, which a test computes.
(function () {
  "use strict";

  const DARK = {
    "#24292f": "#e6e9ec",
    "#6e7781": "#abb2b5",
    "#0072B2": "#1c8cf8",
    "#D55E00": "#dd6542",
    "#009E73": "#2db277",
    "#E69F00": "#eec23f",
    "#CC79A7": "#ad79a1",
    "#56B4E9": "#98caf5",
    "#ffffff": "#1b1d20",
    "#d8dee4": "#3a4046",
    "#e4e8ec": "#3a4046",
    "#fde3cf": "#4d321c",
  };

  // Plotly keeps what it is given and changes it, so it is given copies.
  function copied(value, dark) {
    if (Array.isArray(value)) return value.map((each) => copied(each, dark));
    if (value === null || typeof value !== "object") return (dark && DARK[value]) || value;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, copied(each, dark)]));
  }

  // What is behind an element; a picture that is saved brings it along.
  function background(element) {
    const colour = getComputedStyle(element).backgroundColor;
    const clear = colour === "transparent" || colour === "rgba(0, 0, 0, 0)";
    return clear && element.parentElement ? background(element.parentElement) : colour;
  }

  // A figure of plotly in the colours of its place.
  function coloured({ data, layout }, dark, place) {
    return copied({ data, layout: { ...layout, paper_bgcolor: background(place) } }, dark);
  }

  window.locantPalette = { background, coloured };
})();
