// Pictures as SVG by hand: matrices, lines, clock hands, and links between words. Colours come from style.css, so that a
// picture follows light and dark by itself.

const SVG = "http://www.w3.org/2000/svg";

// The colours and strokes that figures have too: of the first line, the second ...; of schemes by name; and of heads.
export const STYLES = JSON.parse(document.getElementById("styles").textContent);

const NARROW = matchMedia("(max-width: 50rem)").matches; // of a phone, where letters must not shrink with the picture
const WIDE = NARROW ? 380 : 560;

// An element with attributes and children: strings become text; "on..." attributes are listeners.
export function element(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "rect", "circle", "line", "text", "title"].includes(tag);
  const made = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) value && made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

const short = (value) => (Math.abs(value) >= 1e5 || (value && Math.abs(value) < 1e-3)
  ? value.toExponential(1) : String(Number(value.toPrecision(3)))).replace("-", "\u2212");

export const count = (value) => value.toLocaleString("en");

function picture(width, height, label, ...children) {
  return element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: "picture", style: `max-width: ${1.6 * width}px` }, ...children);
}

const text = (content, x, y, attributes = {}) => element("text", { x, y, ...attributes }, content);

// Even steps of 1, 2 or 5 times a power of ten, about `most` of them.
function ticks(lowest, highest, most) {
  const power = 10 ** Math.floor(Math.log10((highest - lowest) / most || 1));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => (highest - lowest) / one <= most) || 1;
  const found = [];
  for (let at = Math.ceil(lowest / step) * step; at <= highest + step / 1e6; at += step) found.push(at);
  return found;
}

// A matrix as coloured cells. rows and columns name them; without names they are counted from 0. Blue is positive,
// orange negative, in 32 steps, and all cells of a step are one shape: a picture of a thousand cells is drawn at once.
// marked: a row with a frame; plain: without names.
export function matrix(values, { rows = null, columns = null, rowTitle, columnTitle, label, marked = null, onrow = null, plain = false }) {
  const [height, width] = [values.length, values[0].length];
  const longest = rows ? Math.max(...rows.map((name) => name.length)) : 3;
  const [left, top] = plain ? [2, 2] : [18 + 7 * longest, columns ? 16 + 5 * Math.max(...columns.map((name) => name.length)) : 24];
  const cell = columns ? Math.max(24, Math.min(44, (WIDE - 100) / width)) : Math.min((WIDE - 100) / width, 12);
  const tall = rows ? Math.max(22, Math.min(44, 400 / height)) : Math.min(400 / height, 12);
  const largest = values.reduce((most, row) => row.reduce((found, value) => Math.max(found, Math.abs(value)), most), 1e-12);
  const steps = new Map();
  values.forEach((row, y) => row.forEach((value, x) => {
    const step = Math.round((32 * value) / largest);
    const shape = `M${(left + x * cell).toFixed(2)} ${(top + y * tall).toFixed(2)}h${cell.toFixed(2)}v${tall.toFixed(2)}h${-cell.toFixed(2)}z`;
    if (step) steps.set(step, (steps.get(step) || "") + shape);
  }));
  const cells = [...steps].map(([step, shapes]) =>
    element("path", { d: shapes, class: step < 0 ? "negative" : "positive", "fill-opacity": Math.abs(step) / 32 }));
  const names = [];
  const every = (named, size) => (named ? 1 : Math.ceil(40 / size));
  const [everyRow, everyColumn] = [every(rows, tall), every(columns, cell)];
  values.forEach((_, y) => {
    if (plain || y % everyRow) return;
    names.push(text(rows ? rows[y] : y, left - 5, top + (y + 0.5) * tall, {
      "text-anchor": "end", "dominant-baseline": "central", class: y === marked ? "marked" : "",
    }));
  });
  for (let x = plain ? width : 0; x < width; x += everyColumn) {
    const place = [left + (x + 0.5) * cell, top - 6];
    names.push(columns
      ? text(columns[x], 0, 0, { transform: `translate(${place[0]} ${place[1]}) rotate(-40)` })
      : text(x, ...place, { "text-anchor": "middle" }));
  }
  const [right, bottom] = [left + width * cell, top + height * tall];
  const frame = marked === null || marked >= height ? null
    : element("rect", { x: left, y: top + marked * tall, width: width * cell, height: tall, class: "frame" });
  const said = element("title"); // of the cell that is pointed at
  const place = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const of = (share, all) => Math.min(all - 1, Math.max(0, Math.floor(share * all)));
    return [of((event.clientY - box.top) / box.height, height), of((event.clientX - box.left) / box.width, width)];
  };
  const tell = (event) => {
    const [y, x] = place(event);
    said.textContent = `${rows ? rows[y] : y}, ${columns ? columns[x] : x}: ${short(values[y][x])}`;
  };
  const click = onrow && ((event) => onrow(place(event)[0]));
  const whole = element("rect", { x: left, y: top, width: width * cell, height: tall * height, class: "whole" });
  return picture(right + (plain ? 2 : 40), bottom + (plain ? 2 : 22), label,
    element("g", { "shape-rendering": "crispEdges", onpointermove: tell, onclick: click, class: click ? "clickable" : null }, said, whole, cells),
    frame, names,
    text(columnTitle, left + (width * cell) / 2, bottom + 16, { "text-anchor": "middle", class: "axis" }),
    text(rowTitle, 0, 0, { transform: `translate(10 ${top + (height * tall) / 2}) rotate(-90)`, "text-anchor": "middle", class: "axis" }));
}

const stroke = ({ color, dash }) => `--c: ${color}; --d: ${dash}`;

// Lines over 0, 1, 2 ... series: {name: numbers}; the last is drawn on top. styles: {name: {color, dash}}; a line without
// one has that of its place. references: {name: number}, level lines.
export function lines(series, { xTitle, yTitle, label, styles = {}, logarithmic = false, references = {}, marked = null }) {
  const styleOf = (name, index) => stroke(styles[name] || STYLES.lines[index % STYLES.lines.length]);
  const [width, height, left, top, right, bottom] = [WIDE, 340, logarithmic ? 82 : 62, 14, 14, 44];
  const names = Object.keys(series);
  const last = series[names[0]].length - 1;
  const scale = (value) => (logarithmic ? Math.log10(value) : value);
  const all = [...Object.values(series).flat(), ...Object.values(references)].map(scale).filter(Number.isFinite);
  let [lowest, highest] = [Math.min(...all), Math.max(...all)];
  if (highest - lowest < 1e-9) [lowest, highest] = [lowest - 0.5, highest + 0.5];
  const x = (place) => left + (place / (last || 1)) * (width - left - right);
  const y = (value) => top + ((highest - scale(value)) / (highest - lowest)) * (height - top - bottom);
  const parts = [];
  const levels = logarithmic
    ? ticks(lowest, highest, 5).filter((power) => Number.isInteger(power)).map((power) => 10 ** power)
    : ticks(lowest, highest, 5);
  for (const level of levels) {
    parts.push(element("line", { x1: left, x2: width - right, y1: y(level), y2: y(level), class: "grid" }),
      text(logarithmic ? count(level) : short(level), left - 6, y(level), { "text-anchor": "end", "dominant-baseline": "central" }));
  }
  for (const place of ticks(0, last, NARROW ? 5 : 8)) {
    parts.push(text(count(place), x(place), height - bottom + 16, { "text-anchor": "middle" }));
  }
  for (const [name, level] of Object.entries(references)) {
    parts.push(element("line", { x1: left, x2: width - right, y1: y(level), y2: y(level), class: "reference" }),
      text(name, left + 4, y(level) - 4));
  }
  names.forEach((name, index) => {
    const path = series[name].map((value, at) => `${at ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    parts.push(element("path", { d: path, class: "line", style: styleOf(name, index) }, element("title", {}, name)));
  });
  if (marked !== null) parts.push(element("line", { x1: x(marked), x2: x(marked), y1: top, y2: height - bottom, class: "frame" }));
  parts.push(text(xTitle, (left + width - right) / 2, height - 8, { "text-anchor": "middle", class: "axis" }),
    text(yTitle, 0, 0, { transform: `translate(12 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle", class: "axis" }));
  const legend = names.length < 2 ? null : element("div", { class: "legend" },
    names.map((name, index) => element("span", { class: "key", style: styleOf(name, index) }, name)));
  return element("div", {}, picture(width, height, label, parts), legend);
}

// One clock per pair of features: its hand runs clockwise from 12, by the angle of the position.
export function clocks(angles, label) {
  const columns = Math.min(NARROW ? 4 : 8, angles.length);
  const rows = Math.ceil(angles.length / columns);
  const size = 70;
  return picture(columns * size, rows * (size + 8), label, angles.map((angle, pair) => {
    const [x, y] = [(pair % columns) * size + size / 2, Math.floor(pair / columns) * (size + 8) + size / 2];
    const [tipX, tipY] = [x + 27 * Math.sin(angle), y - 27 * Math.cos(angle)];
    return element("g", {},
      element("circle", { cx: x, cy: y, r: 30, class: "dial" }),
      element("line", { x1: x, y1: y, x2: tipX, y2: tipY, class: "hand" }),
      element("circle", { cx: tipX, cy: tipY, r: 3.5, class: "tip" }),
      text(`pair ${pair}`, x, y + size / 2 + 5, { "text-anchor": "middle", class: "small" }));
  }));
}

// Words above and below, and a link as thick as its weight between each two; links of other words than the marked one
// are faint.
export function links(above, below, weights, { label, marked = null, onword = null }) {
  const most = Math.max(above.length, below.length);
  const upright = innerWidth < 640; // words below each other, so that they are readable on a phone
  const [width, height] = upright ? [320, 26 * most + 16] : [84 * most + 16, 166];
  const place = (index, total) => 8 + ((index + 0.5) * ((upright ? height : width) - 16)) / total;
  const curve = (a, b) => (upright ? `M125 ${a}C160 ${a} 160 ${b} 195 ${b}` : `M${a} 30C${a} 90 ${b} 70 ${b} 130`);
  const word = (name, at, second, more) => (upright
    ? text(name, second ? 203 : 117, at + 5, { "text-anchor": second ? "start" : "end", ...more })
    : text(name, at, second ? 150 : 20, { "text-anchor": "middle", ...more }));
  const parts = [];
  weights.forEach((row, to) => row.forEach((weight, from) => {
    if (weight < 0.02) return;
    parts.push(element("path", {
      d: curve(place(from, above.length), place(to, below.length)), class: marked === null || to === marked ? "link" : "link faint",
      "stroke-width": (12 * weight).toFixed(1),
    }, element("title", {}, `${below[to]} reads ${Math.round(100 * weight)}% from ${above[from]}`)));
  }));
  above.forEach((name, index) => parts.push(word(name, place(index, above.length), false, { class: "word" })));
  below.forEach((name, index) => parts.push(word(name, place(index, below.length), true, {
    class: `word${index === marked ? " marked" : ""}${onword ? " clickable" : ""}`, onclick: () => onword && onword(index),
  })));
  return picture(width, height, label, parts);
}

// Shares of candidates as bars.
export function bars(candidates, label) {
  return picture(360, candidates.length * 30 + 4, label, candidates.map(({ token, share }, row) => element("g", {},
    text(token, 100, row * 30 + 17, { "text-anchor": "end", "dominant-baseline": "central", class: "word" }),
    element("rect", { x: 108, y: row * 30 + 6, width: Math.max(1, 190 * share), height: 20, class: "positive" }),
    text(`${(100 * share).toFixed(share < 0.01 ? 2 : 1)}%`, 114 + 190 * share, row * 30 + 17, { "dominant-baseline": "central" }))));
}
