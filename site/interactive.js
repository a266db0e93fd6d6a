// Figures with knobs: every picture of a figure comes with its script, and the knobs choose which one plotly draws.
(function () {
  "use strict";

  // Colours of the pictures on a dark page; those of the lines are light enough to be told apart there.
  const INK = "#24292f";
  const DARK = new Map(Object.entries({
    [INK]: "#e6e9ec", "#ffffff": "#1b1d20", "#d8dee4": "#3a4046", "#6e7781": "#9aa4ad", "#e4e8ec": "#3a4046",
    "#0072B2": "#56B4E9", "#56B4E9": "#a9d8f5", "#D55E00": "#ff8c42", "#009E73": "#2fcb9f",
  }));
  const arrived = new Map(); // by name: what to do with the pictures of a figure when they are there

  function isDark() {
    const chosen = document.body.dataset.theme;
    if (chosen === "dark" || chosen === "light") return chosen === "dark";
    return matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function coloured(value) {
    if (typeof value !== "string") return value;
    // Letters in a drawing beside a picture.
    if (value.startsWith("data:image/svg+xml,")) return value.replaceAll(encodeURIComponent(INK), encodeURIComponent(DARK.get(INK)));
    return DARK.get(value) || value;
  }

  // Plotly keeps what it is given and changes it, so it is given copies.
  function copied(value, dark) {
    if (Array.isArray(value)) return value.map((each) => copied(each, dark));
    if (value === null || typeof value !== "object") return dark ? coloured(value) : value;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, copied(each, dark)]));
  }

  function build(place, { knobs, charts }) {
    const controls = document.createElement("div");
    controls.className = "knobs";
    const drawing = document.createElement("div");
    const at = knobs.map((knob) => knob.start);
    const titled = place.getAttribute("aria-label");

    function draw() {
      const number = at.reduce((sum, value, index) => sum * knobs[index].values.length + value, 0);
      const { data, layout } = copied(charts[number], isDark());
      layout.dragmode = false; // a finger that scrolls the page does not draw a frame
      layout.autosize = true;
      drawing.setAttribute("aria-label", `${titled}: ` + knobs.map((knob, index) => `${knob.label} ${knob.values[at[index]]}`).join(", "));
      window.Plotly.react(drawing, data, layout, { displayModeBar: false, responsive: true });
    }

    knobs.forEach((knob, index) => {
      const label = document.createElement("label");
      const name = document.createElement("span");
      const value = document.createElement("output");
      const input = document.createElement("input");
      Object.assign(input, { type: "range", min: 0, max: knob.values.length - 1, step: 1, value: knob.start });
      const show = () => {
        value.textContent = knob.values[at[index]];
        input.setAttribute("aria-valuetext", knob.values[at[index]]);
      };
      input.addEventListener("input", () => {
        at[index] = Number(input.value);
        show();
        draw();
      });
      name.textContent = knob.label;
      show();
      label.append(name, input, value);
      controls.append(label);
    });
    drawing.setAttribute("role", "img");
    place.replaceChildren(controls, drawing);
    draw();
    new MutationObserver(draw).observe(document.body, { attributes: true, attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  }

  window.locantFigure = (name, figure) => arrived.get(name)(figure);

  for (const place of document.querySelectorAll(".interactive")) {
    const name = place.dataset.figure;
    arrived.set(name, (figure) => build(place, figure));
    const script = document.createElement("script");
    script.src = `interactive/${name}.js`;
    script.async = false; // the first figure first
    document.head.append(script);
  }
})();
