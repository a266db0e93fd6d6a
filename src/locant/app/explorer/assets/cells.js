// Show the number of the cell under the pointer. A matrix is drawn as an image, which knows colours alone; its numbers
// travel beside it, as base64 of little-endian float32.
(function () {
  "use strict";

  const label = document.createElement("div");
  label.className = "cell-value";
  label.hidden = true;

  const decoded = new WeakMap();
  function numbers(meta) {
    if (!decoded.has(meta)) {
      const bytes = Uint8Array.from(atob(meta.values), (sign) => sign.charCodeAt(0));
      decoded.set(meta, new Float32Array(bytes.buffer));
    }
    return decoded.get(meta);
  }

  function show(event) {
    const point = event.points[0];
    const meta = point.data.meta;
    if (!meta || !meta.names) return;
    const column = Math.round(point.x);
    const row = Math.round(point.y);
    const value = numbers(meta)[row * meta.width + column];
    if (value === undefined) return;
    const [rowName, columnName, measure] = meta.names;
    const rowSaid = meta.rows ? meta.rows[row] : row;
    const columnSaid = meta.columns ? meta.columns[column] : column;
    label.textContent = `${rowName} ${rowSaid}, ${columnName} ${columnSaid}: ${measure} ${value.toPrecision(5)}`;
    label.hidden = false;
    const room = document.documentElement.clientWidth - label.offsetWidth - 8;
    label.style.left = `${Math.max(4, Math.min(event.event.clientX + 14, room))}px`;
    label.style.top = `${event.event.clientY + 14}px`;
  }

  function hide() {
    label.hidden = true;
  }

  const known = new WeakSet();
  document.addEventListener("pointerover", (event) => {
    const plot = event.target.closest && event.target.closest(".js-plotly-plot");
    if (!plot || !plot.on || known.has(plot)) return;
    known.add(plot);
    if (!label.isConnected) document.body.append(label);
    plot.on("plotly_hover", show);
    plot.on("plotly_unhover", hide);
  });
})();
