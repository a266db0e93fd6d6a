// Figures with knobs: every picture of a figure comes with its script, and the knobs choose which one is drawn.
(function () {
  "use strict";

  const CONFIG = { displaylogo: false, responsive: true, modeBarButtons: [["resetScale2d", "toImage"]] };
  const arrived = new Map(); // by name: what to do with the pictures of a figure when they are there

  function isDark() {
    const chosen = document.body.dataset.theme;
    if (chosen === "dark" || chosen === "light") return chosen === "dark";
    return matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function build(place, { knobs, charts }) {
    const controls = document.createElement("div");
    controls.className = "knobs";
    const drawing = document.createElement("div");
    drawing.className = "picture";
    drawing.dataset.file = place.dataset.figure;
    const at = knobs.map((knob) => knob.start);
    const titled = place.getAttribute("aria-label");

    function draw() {
      const number = at.reduce((sum, value, index) => sum * knobs[index].values.length + value, 0);
      drawing.setAttribute("aria-label", `${titled}: ` + knobs.map((knob, index) => `${knob.label} ${knob.values[at[index]]}`).join(", "));
      if (charts[number].matrix) {
        window.locantMatrix.draw(drawing, charts[number].matrix, isDark());
        return;
      }
      const { data, layout } = window.locantPalette.coloured(charts[number], isDark(), drawing);
      layout.dragmode = matchMedia("(pointer: coarse)").matches ? false : "zoom"; // a finger scrolls the page
      window.Plotly.react(drawing, data, layout, CONFIG);
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
    drawing.setAttribute("role", "figure");
    const plot = document.createElement("div");
    plot.className = "plot";
    plot.append(drawing);
    place.replaceChildren(controls, plot);
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
