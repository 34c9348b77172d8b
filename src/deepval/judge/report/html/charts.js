// Small SVG charts; colours are CSS variables and follow the theme. A chart is described by
// data: { id, kind, label, axis, series, ... }. The same description is drawn, given a legend, and saved (saving.js).

const linear = (d0, d1, r0, r1) => (value) => (d1 === d0 ? (r0 + r1) / 2 : r0 + ((value - d0) / (d1 - d0)) * (r1 - r0));

function ticks(low, high, wanted) {
  const rough = (high - low) / Math.max(wanted, 1) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) found.push(Number((i * step).toPrecision(12)));
  return found;
}

// As few ticks as can be read, and two at least: one alone is no scale.
function twoTicks(low, high, hasRoom = () => true) {
  const few = ticks(low, high, 3).filter(hasRoom);
  return few.length > 1 ? few : ticks(low, high, 6).filter(hasRoom);
}

function domainOf(values, pad = 0.06) {
  const defined = [0, ...values.filter(known)];
  const [low, high] = [Math.min(...defined), Math.max(...defined)];
  const room = (high - low || 1) * pad;
  return [low < 0 ? low - room : low, high > 0 || low === 0 ? high + room : high];
}

const text = (x, y, content, attributes = {}) => s("text", { x, y, ...attributes }, String(content));
const line = (x1, y1, x2, y2, attributes) => s("line", { x1, y1, x2, y2, ...attributes });
const dot = (x, y, colour, attributes = {}) => s("circle", { cx: x, cy: y, r: 5.5, fill: colour, ...attributes });
const bar = (x1, x2, y, height, attributes) => s("rect", { x: Math.min(x1, x2), y, width: Math.abs(x2 - x1), height, rx: 2.5, ...attributes });
const SHAPES = {
  circle: "M5.5 0A5.5 5.5 0 1 1 -5.5 0A5.5 5.5 0 1 1 5.5 0Z",
  square: "M-4.5 -4.5H4.5V4.5H-4.5Z",
  diamond: "M0 -6.5L6.5 0L0 6.5L-6.5 0Z",
  "triangle-up": "M0 -6L6 5H-6Z",
};
const marker = (x, y, shape, size, attributes) => s("path", { d: SHAPES[shape || "circle"], transform: `translate(${x} ${y}) scale(${size})`, ...attributes });

function canvas(width, height, label) {
  return s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
}

const shortened = (name, room) => (name.length * 7 <= room ? name : `${name.slice(0, Math.max(3, Math.floor(room / 7) - 1))}…`);

function wrapped(words, room) {
  const lines = [""];
  for (const word of words) {
    if (lines.at(-1).length + word.length > room) lines.push("");
    lines.push(`${lines.pop()} ${word}`.trim());
  }
  return lines.filter(Boolean);
}

// Colours of Okabe and Ito and of Tol, safe for colour blindness; then dashes and shapes.
const styleOf = (i) => ({ colour: `var(--s${i % 14})`, dash: [null, "7 3", "2 3", "9 3 2 3"][Math.floor(i / 7) % 4], shape: Object.keys(SHAPES)[(i + Math.floor(i / 28)) % 4] });

// Horizontal rows over one shared axis: label, marks, value text. On narrow pages the label stands above its marks.
// marks(row): [{ mark: "rule" | "bar" | "point" | "tick", series, low, high, at, open, soft }]
function rowChart(width, spec) {
  const { rows, tick, axis, valueText = () => "", valueRoom = 150, note = () => "" } = spec;
  const shown = rows.map((row) => spec.marks(row).filter((item) => spec.shows(item.series)));
  const domain = domainOf(shown.flat().flatMap((item) => [item.low, item.high, item.at]));
  const colour = Object.fromEntries(spec.series.map((item) => [item.name, item.colour]));
  const narrow = width < 560;
  const longest = Math.max(...rows.map((row) => row.name.length), 9) * 7.2 + 14;
  const left = narrow ? 2 : Math.min(longest, width * 0.3);
  const right = narrow ? 6 : valueRoom;
  const step = narrow ? 48 : rows.length > 30 ? 18 : 22;
  const top = narrow ? 6 : 18;
  const words = wrapped(axis.split(" "), width / 6.2);
  const root = canvas(width, top + rows.length * step + 42 + 15 * (words.length - 1), spec.label);
  const x = linear(domain[0], domain[1], left + 4, width - right - 8);
  const base = top + rows.length * step;
  if (!narrow) root.append(text(left - 8, 10, "allocator", { class: "tick", "text-anchor": "end" }));
  for (const value of ticks(domain[0], domain[1], narrow ? 4 : 6)) {
    root.append(line(x(value), top, x(value), base + 4, { class: value === 0 ? "axis" : "grid" }));
    root.append(text(x(value), base + 20, tick(value), { class: "tick", "text-anchor": "middle" }));
  }
  words.forEach((part, i) => root.append(text(narrow ? width / 2 : (left + width - right) / 2, base + 38 + 15 * i, part, { class: "tick", "text-anchor": "middle" })));
  rows.forEach((row, i) => {
    const y = top + i * step + (narrow ? 34 : step / 2);
    const group = s("g");
    const label = shortened(row.name, narrow ? width * 0.5 : left - 10);
    const weight = row.bold && "bold";
    const name = narrow ? text(2, y - 17, label, { class: "halo", "font-weight": weight }) : text(left - 8, y + 4, label, { "text-anchor": "end", "font-weight": weight });
    name.append(s("title", {}, row.name));
    group.append(name, narrow ? text(width - 2, y - 17, valueText(row), { "text-anchor": "end", class: "halo dim" }) : text(width - right + 2, y + 4, valueText(row), { class: "dim" }));
    const missing = note(row);
    if (missing) group.append(text(left + 8, y + 4, shortened(missing, width - left - 12), { class: "gone" }));
    else for (const item of shown[i]) group.append(...drawMark(item, x, y, colour[item.series], row.stale));
    root.append(group);
  });
  return root;
}

function drawMark(item, x, y, colour, stale) {
  if (![item.low ?? item.at, item.high ?? item.at].every(known)) return [];
  const tip = item.tip || null;
  if (item.mark === "rule") return [line(x(item.low), y, x(item.high), y, { stroke: stale ? "var(--unsure)" : colour, "stroke-width": 3, "stroke-linecap": "round", opacity: 0.55, class: stale && "stale-line" })];
  if (item.mark === "bar") return [bar(x(item.low), x(item.high), y - 8, 16, { fill: colour, opacity: item.soft || null, "data-tip": tip, class: stale && item.interval && "stale" })];
  if (item.mark === "tick") return [line(x(item.at), y - 11, x(item.at), y + 11, { stroke: colour, "stroke-width": 2 })];
  return [marker(x(item.at), y, item.shape, 1, { fill: item.open ? "var(--card)" : colour, stroke: colour, "stroke-width": item.open ? 2.5 : null })];
}

function curveChart(width, spec) {
  const lines = spec.lines.filter((item) => spec.shows(item.name));
  const narrow = width < 560;
  const left = 66;
  const right = 12;
  const height = narrow ? 300 : 350;
  const root = canvas(width, height, spec.label);
  const [low, high] = domainOf(lines.flatMap((item) => [...item.gain_share, ...(item.band ? [...item.lo, ...item.hi] : [])]), 0.04);
  const x = linear(0, 1, left, width - right);
  const y = linear(low, high, height - 44, 10);
  for (const value of ticks(low, high, 6)) {
    root.append(line(left, y(value), width - right, y(value), { class: value === 0 ? "axis" : "grid" }));
    root.append(text(left - 8, y(value) + 4, number(100 * value, 0), { class: "tick", "text-anchor": "end" }));
  }
  for (const value of ticks(0, 1, 5)) root.append(text(x(value), height - 24, number(100 * value, 0), { class: "tick", "text-anchor": "middle" }));
  root.append(text((left + width - right) / 2, height - 5, spec.axis, { class: "tick", "text-anchor": "middle" }));
  root.append(text(0, 0, spec.upAxis, { class: "tick", "text-anchor": "middle", transform: `translate(14 ${(height - 34) / 2}) rotate(-90)` }));
  for (const alpha of spec.points) root.append(line(x(alpha), 10, x(alpha), height - 44, { stroke: "var(--accent)", "stroke-dasharray": "2 4", opacity: 0.6 }));
  const defined = (item) => item.alpha.map((a, i) => [a, item.gain_share[i], item.lo[i], item.hi[i]]).filter((p) => known(p[1]));
  const path = (pairs) => pairs.map(([a, value]) => `${x(a)},${y(value)}`).join(" ");
  for (const item of lines) {
    const bands = defined(item).filter((p) => known(p[2]) && known(p[3]));
    if (bands.length < 2 || !item.band) continue;
    const outline = [[0, 0], ...bands.map((p) => [p[0], p[3]]), ...bands.map((p) => [p[0], p[2]]).reverse()];
    root.append(s("polygon", { points: path(outline), fill: item.stale ? "var(--unsure)" : item.colour, opacity: item.stale ? 0.07 : 0.13, class: item.stale && "stale-band" }));
  }
  lines.forEach((item, order) => {
    const points = defined(item);
    if (points.length) root.append(s("polyline", { points: path([[0, 0], ...points]), fill: "none", stroke: item.colour, "stroke-width": item.plain ? 1.6 : 2.2, "stroke-dasharray": item.dash || null, "stroke-linejoin": "round" }));
    points.forEach((p, i) => {
      if (!item.plain && (i + order) % 5 === 0) root.append(marker(x(p[0]), y(p[1]), item.shape, 0.75, { fill: item.colour }));
      const interval = known(p[2]) && !item.stale ? ` ${span(p[2], p[3], (v) => number(100 * v, 1))}` : "";
      root.append(s("circle", { cx: x(p[0]), cy: y(p[1]), r: 9, fill: "transparent", "data-tip": `${item.name} at ${share(p[0])}\n${percent(p[1])}${interval}` }));
    });
  });
  return root;
}

function heatChart(width, spec) {
  const { units, names, value } = spec;
  // One large unit must not make all others pale: the scale ends where nine in ten cells do.
  const sizes = units.flatMap((unit) => names.map((name) => Math.abs(value(unit, name)))).filter((size) => size > 0).sort((a, b) => a - b);
  const most = sizes.length ? sizes[Math.floor(0.9 * (sizes.length - 1))] : 0;
  const left = Math.min(Math.max(4, ...units.map((unit) => unit.length)) * 7.2 + 14, width * 0.28);
  const cell = (width - left - 16) / names.length;
  const narrow = names.some((name) => cell < name.length * 7.4);
  const angle = cell < 30 ? -90 : -32;
  const top = !narrow ? 44 : cell < 30 ? 140 : 92;
  const step = units.length > 30 ? 18 : 24;
  const root = canvas(width, top + units.length * step + 6, spec.label);
  root.append(text((left + width) / 2, 12, spec.axis, { class: "tick", "text-anchor": "middle" }), text(left - 8, top - 8, "unit", { class: "tick", "text-anchor": "end" }));
  names.forEach((name, j) => {
    const x = left + (j + 0.5) * cell;
    const turn = narrow ? { transform: `rotate(${angle} ${x} ${top - 10})`, "text-anchor": "start" } : { "text-anchor": "middle" };
    root.append(text(x, top - 10, shortened(name, narrow ? 122 : cell), { class: "dim", ...turn }));
  });
  units.forEach((unit, i) => {
    const y = top + i * step;
    root.append(text(left - 8, y + step / 2 + 4, shortened(unit, left - 10), { "text-anchor": "end" }));
    names.forEach((name, j) => {
      const amount = value(unit, name);
      const { name: sign, colour } = spec.series[amount > 0 ? 0 : amount < 0 ? 1 : 2];
      if (!spec.shows(sign)) return;
      const size = most > 0 ? Math.min(1, Math.abs(amount) / most) : 0;
      root.append(s("rect", { x: left + j * cell + 1.5, y: y + 1.5, width: cell - 3, height: step - 3, rx: 4, fill: colour, opacity: amount === 0 ? 1 : 0.12 + 0.88 * Math.sqrt(size), "data-tip": `${unit}, ${name}\n${number(amount, 2)}` }));
      if (cell > 58) root.append(text(left + (j + 0.5) * cell, y + step / 2 + 4, amount === 0 ? "·" : number(amount, 1), { "text-anchor": "middle", style: `pointer-events: none; fill: var(--${amount === 0 ? "faint" : size > 0.3 ? "card" : "ink"})` }));
    });
  });
  return root;
}

const DRAWN = { rows: rowChart, curve: curveChart, heat: heatChart, picture: pictureChart, strip: stripChart };

// What stands for a series in a legend: a line with its dash and shape, or a field of its colour.
function sampleOf({ colour, dash, shape, plain }) {
  if (dash === undefined) return [bar(1, 21, 1, 10, { fill: colour })];
  return [line(0, 6, 24, 6, { stroke: colour, "stroke-width": 2.4, "stroke-dasharray": dash }), ...(plain ? [] : [marker(12, 6, shape, 0.75, { fill: colour })])];
}

// The numbers behind a chart, from its description: one line per row, per point of a curve, or per unit.
function numbersBehind(spec) {
  const digits = spec.unit === 100 ? 2 : 3;
  const form = (value) => (known(value) ? number(value * (spec.unit || 1), digits) : "undefined");
  if (spec.kind === "heat") return [["unit", ...spec.names], spec.units.map((unit) => [unit, ...spec.names.map((name) => form(spec.value(unit, name)))])];
  if (spec.kind === "strip") return [["unit", spec.title], spec.bars.map((item) => [item.unit, percent(item.share)])];
  if (spec.kind === "picture") return [["line", spec.xName, spec.yName], pictureLines(spec).flatMap(([name, points]) => points.map((p) => [name, number(p[0], 3), number(p[1], 3)]))];
  if (spec.kind === "curve") return [["allocator", spec.axis, spec.upAxis, "95 % low", "95 % high"], valuesOf(spec, () => true).map((item) => [item.series, ...[item.x, item.value].map((v) => number(v, 2)), ...[item.low, item.high].map((v) => (spec.stale ? "not recomputed" : number(v, 2)))])];
  const lines = spec.rows.map((row) => Object.assign({ allocator: row.name }, ...spec.marks(row).map((item) => {
    if (item.mark === "bar") return { [`${item.series}, %`]: form(known(item.high) ? item.high - item.low : null) };
    if (item.mark !== "rule") return { [item.column || `${item.series}, %`]: form(item.at) };
    return spec.stale || item.plain ? {} : { "95 % low": form(item.low), "95 % high": form(item.high) };
  }), spec.extra ? spec.extra(row) : {}));
  const header = [...new Set(lines.flatMap(Object.keys))];
  return [header, lines.map((item) => header.map((name) => item[name] ?? ""))];
}

// A chart that follows its width, with a legend that hides series, its numbers, and a menu to save it.
function chart(spec) {
  const used = spec.kind === "rows" && new Set(spec.rows.flatMap(spec.marks).filter((item) => known(item.at ?? item.high)).map((item) => item.series));
  if (used) spec.series = spec.series.filter((item) => used.has(item.name));
  const key = (name) => `${spec.id}:${name}`;
  spec.shows = (name) => !state.hidden.has(key(name));
  const holder = h("figure", { id: `chart-${spec.id}` });
  holder.draw = (anyway) => {
    const width = Math.round(holder.clientWidth || 900);
    if (width === holder.width && !anyway) return;
    holder.width = width;
    holder.replaceChildren(DRAWN[spec.kind](width, spec));
  };
  const toggle = (event) => {
    const { series } = event.currentTarget.dataset;
    if (!state.hidden.delete(key(series))) state.hidden.add(key(series));
    event.currentTarget.setAttribute("aria-pressed", String(spec.shows(series)));
    holder.draw(true);
    state.remember();
  };
  const legend = h("ul", { class: "legend" }, spec.series.map((item) => h("li", {},
    h("button", { type: "button", class: "quiet", "data-series": item.name, "aria-pressed": String(spec.shows(item.name)), title: "show or hide", onclick: toggle }, s("svg", { viewBox: "0 0 24 12", "aria-hidden": "true" }, sampleOf(item)), item.name))));
  const save = [["SVG", () => saveFile(`${spec.id}.svg`, standalone(spec, holder), "image/svg+xml")], ["PNG", () => savePicture(spec, holder)], ["Vega-Lite", () => saveFile(`${spec.id}.vl.json`, JSON.stringify(vegaLite(spec), null, 1), "application/json")]];
  const tools = h("div", { class: "tools" }, behind(spec.label, ...numbersBehind(spec)), h("details", { class: "save" }, h("summary", {}, "Save this chart"), save.map(([name, act]) => h("button", { type: "button", onclick: act }, name))));
  // The tools of the first screen stand below it.
  if (spec.apart) return { figure: holder, tools: h("div", { class: "chart", "data-of": holder.id }, tools) };
  return h("div", { class: "chart" }, holder, spec.series.length ? legend : null, spec.stale ? h("p", { class: "note stale-note" }, "Grey intervals are of the result's own weights: run the command for new ones.") : null, tools);
}
