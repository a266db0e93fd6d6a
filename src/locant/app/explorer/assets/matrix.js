// Draw a matrix as one SVG: an image of its cells between axes, with its scale of colours, its numbers and its marks. The
// pointer over a cell shows its number; numbers, little-endian float32, travel as base64 where they are few, and others
// are fetched for the first pointer. A frame that is drawn with the pointer is what is shown, until a double click.
(function () {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const FONT = "system-ui, sans-serif";
  const SIZE = { tick: 12, title: 13, number: 11 };
  const LEAST = 160; // pixels of the cells; what is narrower scrolls
  const NUMBERED = 34; // pixels of a cell with its number in it
  const SCALE = 84; // pixels beside the cells for the scale of colours
  const MARK = "#009E73";
  const INK = "#24292f";
  const INVERTED = "filter: invert(1) hue-rotate(180deg)"; // light becomes dark, and every hue stays

  const measure = document.createElement("canvas").getContext("2d");
  const widths = new Map();
  function widthOf(text) {
    if (!widths.has(text)) {
      if (widths.size > 5000) widths.clear();
      measure.font = `${SIZE.tick}px ${FONT}`;
      widths.set(text, measure.measureText(text).width);
    }
    return widths.get(text);
  }
  const widest = (ticks) => Math.max(0, ...ticks.map((tick) => widthOf(tick.text)));

  const escaped = (text) => String(text).replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);
  const rounded = (value) => Math.round(100 * value) / 100;

  // Cells and what to call them, no more than there is room for; named cells by name, others at even numbers.
  function ticksOf(names, [from, to], pixels, room) {
    const most = Math.max(1, Math.floor(pixels / room));
    let step = Math.ceil((to - from) / most);
    if (!names) {
      const power = 10 ** Math.floor(Math.log10(step));
      step = [1, 2, 5, 10].map((factor) => factor * power).find((even) => even >= step);
    }
    const ticks = [];
    for (let at = Math.ceil(from / step) * step; at < to; at += step) ticks.push({ at, text: names ? names[at] : String(at) });
    return ticks;
  }

  // Room for the name of a column: numbers are left out before they would be turned, words are turned before that.
  function roomBelow(names) {
    if (!names) return 40;
    return names.every((name) => /^\d+$/.test(name)) ? Math.max(...names.map(widthOf)) + 8 : 14;
  }

  // Where everything stands in a drawing as wide as its place.
  function arranged(matrix, view, wanted) {
    const [rows, columns] = [view.rows[1] - view.rows[0], view.columns[1] - view.columns[0]];
    const right = matrix.scale ? SCALE : 12;
    const top = 12;
    const left = 38 + Math.ceil(widest(ticksOf(matrix.rowNames, view.rows, matrix.height - 60, matrix.rowNames ? 12 : 40)));
    const least = left + right + (matrix.sizes ? Math.max(LEAST, columns * NUMBERED) : LEAST);
    const width = Math.max(wanted, least);
    const across = width - left - right;
    let below = ticksOf(matrix.columnNames, view.columns, across, roomBelow(matrix.columnNames));
    const spread = below.length > 1 ? across * (below[1].at - below[0].at) / columns : across;
    const turned = widest(below) + 6 > spread;
    const bottom = 32 + (turned ? Math.ceil(0.71 * widest(below)) + 8 : 12);
    const height = matrix.height - top - bottom;
    return {
      width, left, top, across, height, bottom, turned, below,
      beside: ticksOf(matrix.rowNames, view.rows, height, matrix.rowNames ? 12 : 40),
      x: (column) => left + across * (column - view.columns[0]) / columns,
      y: (row) => top + height * (row - view.rows[0]) / rows,
    };
  }

  function axes(matrix, at) {
    const [bottom, text] = [at.top + at.height, []];
    const line = (x, y, x2, y2) => text.push(`<path d="M${rounded(x)} ${rounded(y)}L${rounded(x2)} ${rounded(y2)}"/>`);
    const letters = (content, place) => text.push(`<text ${place}>${escaped(content)}</text>`);
    text.push(`<g stroke="currentColor" fill="none" opacity="0.6"><path d="M${at.left} ${at.top}V${bottom}H${at.left + at.across}"/>`);
    for (const tick of at.beside) line(at.left - 5, at.y(tick.at + 0.5), at.left, at.y(tick.at + 0.5));
    for (const tick of at.below) line(at.x(tick.at + 0.5), bottom, at.x(tick.at + 0.5), bottom + 5);
    text.push(`</g><g fill="currentColor" font-size="${SIZE.tick}"><g text-anchor="end" dominant-baseline="central">`);
    for (const tick of at.beside) letters(tick.text, `x="${at.left - 8}" y="${rounded(at.y(tick.at + 0.5))}"`);
    text.push('</g><g class="below">');
    for (const tick of at.below) {
      const [x, y] = [rounded(at.x(tick.at + 0.5)), bottom + (at.turned ? 14 : 18)];
      letters(tick.text, at.turned ? `text-anchor="end" transform="translate(${x + 4} ${y}) rotate(-45)"` : `text-anchor="middle" x="${x}" y="${y}"`);
    }
    text.push(`</g></g><g fill="currentColor" font-size="${SIZE.title}" text-anchor="middle">`);
    const [rowName, columnName] = matrix.names;
    letters(columnName, `x="${rounded(at.left + at.across / 2)}" y="${matrix.height - 6}"`);
    letters(rowName, `transform="translate(14 ${rounded(at.top + at.height / 2)}) rotate(-90)"`);
    text.push("</g>");
    return text.join("");
  }

  function cells(matrix, view, at, values) {
    const place = (row, column, rows, columns) =>
      `x="${rounded(at.x(column))}" y="${rounded(at.y(row))}" width="${rounded(at.x(column + columns) - at.x(column))}" ` +
      `height="${rounded(at.y(row + rows) - at.y(row))}"`;
    const large = at.across / (view.columns[1] - view.columns[0]) > 1.5;
    const text = [
      `<image href="${matrix.image}" preserveAspectRatio="none" ${place(0, 0, matrix.rows, matrix.columns)}` +
      `${large ? ' style="image-rendering: pixelated"' : ""}/>`,
    ];
    for (const column of matrix.splits) {
      text.push(`<path stroke="${INK}" stroke-width="1.5" d="M${rounded(at.x(column))} ${at.top}V${at.top + at.height}"/>`);
    }
    if (matrix.sizes) {
      text.push(`<g font-size="${SIZE.number}" text-anchor="middle" dominant-baseline="central">`);
      for (let index = 0; index < values.length; index += 1) {
        const [row, column] = [Math.floor(index / matrix.columns), index % matrix.columns];
        const dark = Number.isFinite(values[index]) && Math.abs(values[index]) > 0.6 * matrix.sizes[row];
        const written = Number.isFinite(values[index]) ? values[index].toFixed(2).replace("-", "\u2212") : "\u2212\u221e";
        text.push(`<text x="${rounded(at.x(column + 0.5))}" y="${rounded(at.y(row + 0.5))}" fill="${dark ? "#ffffff" : INK}">${written}</text>`);
      }
      text.push("</g>");
    }
    return text.join("");
  }

  function scaled({ colours, lowest, highest, ticks }, measured, at, shown) {
    const left = at.left + at.across + 10;
    const stops = colours.map((colour, index) => `<stop offset="${rounded(1 - index / (colours.length - 1))}" stop-color="${colour}"/>`);
    const text = [
      `<linearGradient id="${shown.strip}" x2="0" y2="1">${stops.reverse().join("")}</linearGradient>` +
      `<rect x="${left}" y="${at.top}" width="12" height="${at.height}" fill="url(#${shown.strip})" style="${shown.filter}"/>` +
      `<g fill="currentColor" font-size="${SIZE.tick}" dominant-baseline="central">`,
    ];
    for (const value of ticks) {
      const y = at.top + at.height * (highest - value) / (highest - lowest);
      text.push(`<text x="${left + 17}" y="${rounded(y)}">${String(value).replace("-", "\u2212")}</text>`);
    }
    text.push(`<text text-anchor="middle" transform="translate(${left + 62} ${rounded(at.top + at.height / 2)}) rotate(90)">${escaped(measured)}</text></g>`);
    return text.join("");
  }

  const decoded = (text) => new Float32Array(Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0)).buffer);
  async function fetched(source) {
    const answer = await fetch(source.address, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(source.body),
    });
    return new Float32Array(answer.ok ? await answer.arrayBuffer() : 0);
  }
  function numbers(matrix) {
    if (!known.has(matrix)) known.set(matrix, matrix.values ? decoded(matrix.values) : fetched(matrix.source));
    return known.get(matrix);
  }
  const known = new WeakMap(); // by matrix: its numbers, or the promise of them

  let drawings = 0;
  const shownIn = new WeakMap(); // by place: what is drawn there

  function render(place) {
    const shown = shownIn.get(place);
    const { matrix, view } = shown;
    const at = arranged(matrix, view, shown.room);
    shown.at = at;
    shown.svg.setAttribute("width", at.width);
    shown.svg.setAttribute("height", matrix.height);
    shown.svg.setAttribute("viewBox", `0 0 ${at.width} ${matrix.height}`);
    const inside = `x="${at.left}" y="${at.top}" width="${rounded(at.across)}" height="${rounded(at.height)}"`;
    const [first, end] = view.rows;
    const mark = matrix.marked === null || matrix.marked < first || matrix.marked >= end ? "" :
      `<rect class="mark" fill="none" stroke="${MARK}" stroke-width="3" x="${at.left}" y="${rounded(at.y(matrix.marked))}" ` +
      `width="${rounded(at.across)}" height="${rounded(at.y(1) - at.y(0))}"/>`;
    shown.svg.innerHTML =
      `<clipPath id="${shown.strip}-cells"><rect ${inside}/></clipPath>` +
      `<g clip-path="url(#${shown.strip}-cells)" style="${shown.filter}">${cells(matrix, view, at, matrix.sizes ? numbers(matrix) : [])}</g>` +
      `<g class="axes">${axes(matrix, at)}</g>` +
      (matrix.scale ? scaled(matrix.scale, matrix.names[2], at, shown) : "") + mark +
      `<rect class="cells" ${inside} fill="transparent"/>`;
    shown.whole.hidden = !isZoomed(shown);
  }

  const everything = (matrix) => ({ rows: [0, matrix.rows], columns: [0, matrix.columns] });
  const isZoomed = ({ matrix, view }) => String([view.rows, view.columns]) !== String([[0, matrix.rows], [0, matrix.columns]]);
  const axesOf = (matrix) => JSON.stringify([matrix.rows, matrix.columns, matrix.rowNames, matrix.columnNames, matrix.names]);

  // Draw a matrix in a place, which keeps the part that is shown as long as the axes are the same.
  function draw(place, matrix, dark) {
    let shown = shownIn.get(place);
    if (!shown) {
      drawings += 1;
      shown = { strip: `matrix-${drawings}`, svg: document.createElementNS(SVG, "svg") };
      shown.svg.setAttribute("font-family", FONT);
      shown.tools = document.createElement("div");
      shown.tools.className = "matrix-tools";
      shown.whole = tool("Whole matrix", () => show(place, everything(shown.matrix)));
      shown.tools.append(shown.whole, tool("PNG", () => save(place)));
      place.replaceChildren(shown.tools, shown.svg);
      place.classList.add("matrix");
      shownIn.set(place, shown);
      listen(place, shown);
      // Its width is asked for no more: the browser would lay out the page for every drawing.
      shown.room = place.clientWidth;
      new ResizeObserver(([{ contentRect }]) => {
        if (!contentRect.width || contentRect.width === shown.room) return;
        shown.room = contentRect.width;
        render(place);
      }).observe(place);
    }
    if (!shown.matrix || axesOf(shown.matrix) !== axesOf(matrix)) shown.view = everything(matrix);
    Object.assign(shown, { matrix, filter: dark ? INVERTED : "" });
    render(place);
  }

  function show(place, view) {
    shownIn.get(place).view = view;
    render(place);
  }

  // A row marked anew; nothing else is drawn.
  function mark(place, row) {
    const shown = shownIn.get(place);
    shown.matrix.marked = row;
    render(place);
  }

  function tool(text, act) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: text });
    button.addEventListener("click", act);
    return button;
  }

  // The drawing as an image twice as large, with the colours of the page.
  function save(place) {
    const { svg, matrix, at } = shownIn.get(place);
    const copy = svg.cloneNode(true);
    copy.setAttribute("xmlns", SVG);
    copy.setAttribute("style", `color: ${getComputedStyle(place).color}`);
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      Object.assign(canvas, { width: 2 * at.width, height: 2 * matrix.height });
      const pen = canvas.getContext("2d");
      pen.fillStyle = window.locantPalette.background(place);
      pen.fillRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(image, 0, 0, canvas.width, canvas.height);
      const link = document.createElement("a");
      Object.assign(link, { href: canvas.toDataURL("image/png"), download: `${place.dataset.file || "matrix"}.png` });
      link.click();
    };
    image.src = `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  }

  const label = document.createElement("div");
  label.className = "cell-value";
  label.hidden = true;

  function listen(place, shown) {
    const cellAt = (event) => {
      const box = shown.svg.getBoundingClientRect();
      const { at, view } = shown;
      const within = (share, [from, to]) => Math.min(to - 1, Math.max(from, Math.floor(from + share * (to - from))));
      return {
        row: within((event.clientY - box.top - at.top) / at.height, view.rows),
        column: within((event.clientX - box.left - at.left) / at.across, view.columns),
      };
    };
    let [held, frame, over] = [null, null, null];
    const end = () => {
      if (frame) frame.remove();
      [held, frame] = [null, null];
    };
    const hide = () => {
      over = null;
      label.hidden = true;
    };

    shown.svg.addEventListener("pointermove", async (event) => {
      if (held && Math.hypot(event.clientX - held.x, event.clientY - held.y) > 8) framed(event);
      if (!event.target.classList.contains("cells")) return hide();
      const { row, column } = cellAt(event);
      over = event;
      const values = await numbers(shown.matrix);
      const value = values[row * shown.matrix.columns + column];
      if (over !== event || value === undefined) return;
      const { names: [rowName, columnName, measured], rowNames, columnNames } = shown.matrix;
      label.textContent =
        `${rowName} ${rowNames ? rowNames[row] : row}, ${columnName} ${columnNames ? columnNames[column] : column}: ` +
        `${measured} ${value.toPrecision(5)}`;
      if (!label.isConnected) document.body.append(label);
      label.hidden = false;
      const room = document.documentElement.clientWidth - label.offsetWidth - 8;
      label.style.left = `${Math.max(4, Math.min(event.clientX + 14, room))}px`;
      label.style.top = `${event.clientY + 14}px`;
    });
    shown.svg.addEventListener("pointerleave", hide);
    shown.svg.addEventListener("pointerdown", (event) => {
      // A finger scrolls the page.
      if (event.button || event.pointerType === "touch" || !event.target.classList.contains("cells")) return;
      held = { x: event.clientX, y: event.clientY, ...cellAt(event) };
      shown.svg.setPointerCapture(event.pointerId);
      event.preventDefault(); // nothing is selected
    });
    const framed = (event) => {
      const { row, column } = cellAt(event);
      const [rows, columns] = [[held.row, row], [held.column, column]].map((ends) => [Math.min(...ends), Math.max(...ends) + 1]);
      if (!frame) {
        frame = document.createElementNS(SVG, "rect");
        for (const [name, value] of Object.entries({ class: "frame", fill: "currentColor", "fill-opacity": 0.15, stroke: "currentColor" })) {
          frame.setAttribute(name, value);
        }
        shown.svg.append(frame);
      }
      const { at } = shown;
      const box = { x: at.x(columns[0]), y: at.y(rows[0]), width: at.x(columns[1]) - at.x(columns[0]), height: at.y(rows[1]) - at.y(rows[0]) };
      for (const [name, value] of Object.entries(box)) frame.setAttribute(name, value);
      held.view = { rows, columns };
    };
    shown.svg.addEventListener("pointerup", () => {
      const view = frame && held.view;
      end();
      if (view) {
        show(place, view);
        shown.framed = true;
      }
    });
    shown.svg.addEventListener("pointercancel", end);
    shown.svg.addEventListener("dblclick", () => show(place, everything(shown.matrix)));
    shown.svg.addEventListener("click", (event) => {
      const framedNow = shown.framed;
      shown.framed = false;
      const box = shown.svg.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left - shown.at.left, event.clientY - box.top - shown.at.top];
      if (framedNow || x < 0 || y < 0 || x > shown.at.across || y > shown.at.height) return;
      place.dispatchEvent(new CustomEvent("cell", { bubbles: true, detail: cellAt(event) }));
    });
  }

  window.locantMatrix = { draw, mark, shown: (place) => shownIn.get(place) };
})();
