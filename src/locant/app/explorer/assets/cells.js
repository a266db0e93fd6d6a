// Show the number of the cell under the pointer. A matrix is drawn as an image, which knows colours alone. Its numbers,
// little-endian float32, travel beside it as base64 where they are few; others are fetched for the first pointer over it.
(function () {
  "use strict";

  const label = document.createElement("div");
  label.className = "cell-value";
  label.hidden = true;

  async function fetched(source) {
    const answer = await fetch(source.address, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(source.body),
    });
    return answer.ok ? answer.arrayBuffer() : new ArrayBuffer(0);
  }

  const known = new WeakMap(); // by what is said about an image: its numbers, or the promise of them
  function numbers(cells) {
    if (!known.has(cells)) {
      const carried = cells.values && Uint8Array.from(atob(cells.values), (sign) => sign.charCodeAt(0)).buffer;
      known.set(cells, carried ? new Float32Array(carried) : fetched(cells.source).then((buffer) => new Float32Array(buffer)));
    }
    return known.get(cells);
  }

  let last = null; // what the pointer rests on
  async function show(event) {
    const point = event.points[0];
    const cells = point.data.cells;
    if (!cells) return;
    last = event;
    const values = await numbers(cells);
    if (last !== event) return;
    const column = Math.round(point.x);
    const row = Math.round(point.y);
    const value = values[row * cells.width + column];
    if (value === undefined) return;
    const [rowName, columnName, measure] = cells.names;
    const rowSaid = cells.rows ? cells.rows[row] : row;
    const columnSaid = cells.columns ? cells.columns[column] : column;
    label.textContent = `${rowName} ${rowSaid}, ${columnName} ${columnSaid}: ${measure} ${value.toPrecision(5)}`;
    label.hidden = false;
    const room = document.documentElement.clientWidth - label.offsetWidth - 8;
    label.style.left = `${Math.max(4, Math.min(event.event.clientX + 14, room))}px`;
    label.style.top = `${event.event.clientY + 14}px`;
  }

  function hide() {
    last = null;
    label.hidden = true;
  }

  const watched = new WeakSet();
  document.addEventListener("pointerover", (event) => {
    const plot = event.target.closest && event.target.closest(".js-plotly-plot");
    if (!plot || !plot.on || watched.has(plot)) return;
    watched.add(plot);
    if (!label.isConnected) document.body.append(label);
    plot.on("plotly_hover", show);
    plot.on("plotly_unhover", hide);
  });
})();
