// Draw the pictures that the server sends: matrices by matrix.js, all others by plotly, which is loaded for the first of
// them. A picture that is zoomed stays so while its axes are the same.
(function () {
  "use strict";

  const CONFIG = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
  const isDark = () => document.documentElement.dataset.colours === "dark";

  let plotly = null; // the promise of it
  function load() {
    plotly = plotly || new Promise((done, failed) => {
      const script = document.createElement("script");
      Object.assign(script, { src: "/plotly.min.js", onload: () => done(window.Plotly), onerror: failed });
      document.head.append(script);
    });
    return plotly;
  }

  const charts = new WeakMap(); // by place: what plotly draws there

  async function draw(place, chart) {
    charts.set(place, chart);
    if (chart.matrix) {
      window.locantMatrix.draw(place, chart.matrix, isDark());
      return;
    }
    place.style.height = `${chart.layout.height}px`;
    const { Plotly } = window.Plotly ? window : { Plotly: await load() };
    if (charts.get(place) !== chart || !place.isConnected) return; // another has come meanwhile
    const { data, layout } = window.locantPalette.coloured(chart, isDark(), place);
    await Plotly.react(place, data, layout, CONFIG);
  }

  function mark(place, marked) {
    const chart = charts.get(place);
    if (!chart) return;
    if (chart.matrix) window.locantMatrix.mark(place, marked.row);
    else {
      chart.layout.shapes = marked.shapes;
      draw(place, chart);
    }
  }

  // Pictures of a page, by name; those that are not named are hidden. Knobs follow those that were turned. What the
  // pictures show, and with which knobs, is remembered by the page.
  function show(sent, page) {
    for (const card of document.querySelectorAll(`.cards[data-page="${page}"] [data-picture]`)) {
      const picture = sent.pictures[card.dataset.picture];
      const hidden = !sent.names.includes(card.dataset.picture);
      if (card.hidden !== hidden) card.hidden = hidden; // or the page would be laid out anew
      if (!picture) continue;
      const place = card.querySelector(".picture");
      if (picture.marked) mark(place, picture.marked);
      else {
        card.querySelector("h2").textContent = picture.title;
        card.querySelector("p").textContent = picture.caption;
        draw(place, picture.chart);
      }
    }
    const follow = () => {
      for (const [field, values] of Object.entries(sent.fields)) window.dash_clientside.set_props(field, values);
    };
    requestAnimationFrame(() => setTimeout(follow)); // when the pictures are shown
    return [sent.drawn, sent.fitted];
  }

  // Pictures that came with what is around them.
  new MutationObserver(() => {
    for (const place of document.querySelectorAll(".picture[data-chart]")) {
      const chart = JSON.parse(place.dataset.chart);
      place.removeAttribute("data-chart");
      draw(place, chart);
    }
  }).observe(document.documentElement, { subtree: true, childList: true });

  new MutationObserver(() => {
    for (const place of document.querySelectorAll(".picture")) if (charts.has(place)) draw(place, charts.get(place));
  }).observe(document.documentElement, { attributes: true, attributeFilter: ["data-colours"] });

  // A click on a cell sets the field that its picture names to its row or column, counted from 1.
  document.addEventListener("cell", (event) => {
    const { sets, by } = event.target.dataset;
    if (sets) window.dash_clientside.set_props(sets, { value: event.detail[by] + 1 });
  });

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    pictures: { show },
  });
})();
