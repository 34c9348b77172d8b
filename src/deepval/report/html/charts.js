// Small SVG charts. Colours are CSS variables, so that the theme can change without drawing again.

const linear = (d0, d1, r0, r1) => (value) => (d1 === d0 ? (r0 + r1) / 2 : r0 + ((value - d0) / (d1 - d0)) * (r1 - r0));

function ticks(low, high, wanted) {
  const rough = (high - low) / Math.max(wanted, 1) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) found.push(Number((i * step).toPrecision(12)));
  return found;
}

function domainOf(values, { zero = true, pad = 0.06 } = {}) {
  const defined = values.filter(known);
  if (zero) defined.push(0);
  if (!defined.length) return [0, 1];
  const low = Math.min(...defined);
  const high = Math.max(...defined);
  const room = (high - low || 1) * pad;
  return [low < 0 || !zero ? low - room : low, high > 0 || !zero ? high + room : high];
}

const text = (x, y, content, attributes = {}) => s("text", { x, y, ...attributes }, String(content));
const line = (x1, y1, x2, y2, attributes) => s("line", { x1, y1, x2, y2, ...attributes });
const dot = (x, y, colour, attributes = {}) => s("circle", { cx: x, cy: y, r: 5.5, fill: colour, ...attributes });
function bar(x1, x2, y, height, colour, attributes = {}) {
  return s("rect", { x: Math.min(x1, x2), y, width: Math.max(Math.abs(x2 - x1), 0), height, fill: colour, rx: 2.5, ...attributes });
}

function canvas(width, height, label) {
  return s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, preserveAspectRatio: "xMinYMin meet" });
}

const shortened = (name, room) => (name.length * 7 <= room ? name : `${name.slice(0, Math.max(3, Math.floor(room / 7) - 1))}…`);

function wrapped(words, room) {
  const lines = [""];
  for (const word of words.split(" ")) {
    if (lines[lines.length - 1].length + word.length > room) lines.push("");
    lines[lines.length - 1] += `${lines[lines.length - 1] ? " " : ""}${word}`;
  }
  return lines;
}

// Horizontal rows over one shared axis: label, mark, value text. On narrow pages the label stands above its mark.
function rowChart(width, rows, { domain, tick, label, axis, mark, valueText = () => "", valueRoom = 150, note = () => "", restingText = false, step: rowStep = 26 }) {
  const narrow = width < 560;
  const longest = Math.max(...rows.map((row) => row.name.length), 4) * 7.2 + 14;
  const left = narrow ? 2 : Math.min(longest, width * 0.3);
  const right = narrow ? 6 : valueRoom;
  const step = narrow ? 48 : rowStep;
  const top = 6;
  const height = top + rows.length * step + 42 + 15 * (wrapped(axis, narrow ? width / 6.2 : 200).length - 1);
  const root = canvas(width, height, label);
  const x = linear(domain[0], domain[1], left + 4, width - right - 8);
  const base = top + rows.length * step;
  for (const value of ticks(domain[0], domain[1], narrow ? 4 : 6)) {
    const zero = value === 0;
    root.append(line(x(value), top, x(value), base + 4, { class: zero ? "axis" : "grid" }));
    root.append(text(x(value), base + 20, tick(value), { class: "tick", "text-anchor": "middle" }));
  }
  const middle = narrow ? width / 2 : (left + width - right) / 2;
  wrapped(axis, narrow ? width / 6.2 : 200).forEach((words, i) => root.append(text(middle, base + 38 + 15 * i, words, { class: "tick", "text-anchor": "middle" })));
  rows.forEach((row, i) => {
    const y = top + i * step + (narrow ? 34 : step / 2);
    const group = s("g", { "data-tip": row.tip || null });
    if (narrow) {
      group.append(text(2, y - 17, shortened(row.name, width * 0.5), { class: "halo" }));
      group.append(text(width - 2, y - 17, valueText(row), { "text-anchor": "end", class: `halo ${row.stale && restingText ? "gone" : "dim"}` }));
    } else {
      const name = text(left - 8, y + 4, shortened(row.name, left - 10), { "text-anchor": "end" });
      name.append(s("title", {}, row.name));
      group.append(name, text(width - right + 2, y + 4, valueText(row), { class: row.stale && restingText ? "gone" : "dim" }));
    }
    group.append(s("rect", { x: left, y: y - 14, width: Math.max(width - left - right, 1), height: 28, fill: "transparent" }));
    const missing = note(row);
    if (missing) group.append(text(left + 8, y + 4, shortened(missing, width - left - 12), { class: "gone" }));
    else mark(group, row, x, y);
    root.append(group);
  });
  return root;
}

function curveChart(width, lines, { label, points }) {
  const narrow = width < 560;
  const left = 50;
  const right = narrow ? 12 : 150;
  const height = narrow ? 300 : 400;
  const root = canvas(width, height, label);
  const all = lines.flatMap((item) => [...item.gain_share, ...(item.band ? [...item.lo, ...item.hi] : [])]);
  const [low, high] = domainOf(all, { pad: 0.04 });
  const x = linear(0, 1, left, width - right);
  const y = linear(low, high, height - 44, 10);
  for (const value of ticks(low, high, 6)) {
    root.append(line(left, y(value), width - right, y(value), { class: value === 0 ? "axis" : "grid" }));
    root.append(text(left - 8, y(value) + 4, `${number(100 * value, 0)}\u2009%`, { class: "tick", "text-anchor": "end" }));
  }
  for (const value of ticks(0, 1, 5)) root.append(text(x(value), height - 24, share(value), { class: "tick", "text-anchor": "middle" }));
  root.append(text((left + width - right) / 2, height - 5, "share of inputs escalated", { class: "tick", "text-anchor": "middle" }));
  const defined = (item) => item.alpha.map((a, i) => [a, item.gain_share[i], item.lo[i], item.hi[i]]).filter((p) => known(p[1]));
  for (const item of lines) {
    const bands = defined(item).filter((p) => known(p[2]) && known(p[3]));
    if (bands.length < 2 || !item.band) continue;
    const up = bands.map((p) => `${x(p[0])},${y(p[3])}`);
    const down = bands.map((p) => `${x(p[0])},${y(p[2])}`).reverse();
    root.append(s("polygon", { points: [`${x(0)},${y(0)}`, ...up, ...down].join(" "), fill: item.stale ? "var(--unsure)" : item.colour, opacity: item.stale ? 0.07 : 0.13 }));
  }
  for (const item of lines) {
    const found = defined(item);
    if (!found.length) continue;
    if (item.lone) {
      for (const p of found) {
        if (known(p[2]) && !item.stale) root.append(line(x(p[0]), y(p[2]), x(p[0]), y(p[3]), { stroke: item.colour, "stroke-width": 2 }));
        root.append(dot(x(p[0]), y(p[1]), item.colour, { r: 4.5 }));
      }
    }
    const path = (item.lone ? [] : [[0, 0], ...found]).map((p) => `${x(p[0])},${y(p[1])}`).join(" ");
    root.append(s("polyline", { points: path, fill: "none", stroke: item.colour, "stroke-width": item.plain ? 1.6 : 2.4, "stroke-dasharray": item.dash || null, "stroke-linejoin": "round" }));
    for (const p of found) {
      const interval = known(p[2]) && !item.stale ? ` ${span(p[2], p[3], (v) => number(100 * v, 1))}` : "";
      root.append(s("circle", { cx: x(p[0]), cy: y(p[1]), r: 9, fill: "transparent", "data-tip": `${item.allocator} at ${share(p[0])}\n${percent(p[1])}${interval}` }));
    }
  }
  if (!narrow) {
    // All lines meet where everything is escalated: names stand beside where they differ, at the widest place.
    const probe = labelPlaces(lines.filter((item) => defined(item).length), defined, y, height - 50);
    for (const place of probe) {
      root.append(line(width - right + 4, place.y - 4, width - right + 20, place.y - 4, { stroke: place.item.colour, "stroke-width": 2.5, "stroke-dasharray": place.item.dash || null }));
      const name = text(width - right + 26, place.y, shortened(place.item.allocator, right - 28), { class: place.item.plain ? "dim" : "" });
      name.append(s("title", {}, place.item.allocator));
      root.append(name);
    }
  }
  for (const alpha of points) root.append(line(x(alpha), 10, x(alpha), height - 44, { stroke: "var(--accent)", "stroke-dasharray": "2 4", opacity: 0.6 }));
  return root;
}

function labelPlaces(lines, defined, y, lowest) {
  const middle = (item) => { const found = defined(item); return found[Math.floor((found.length - 1) / 3)][1]; };
  const places = lines.map((item) => ({ item, value: middle(item) })).sort((a, b) => b.value - a.value);
  places.forEach((place, i) => { place.y = Math.max(y(place.value), 18 + i * 20, i ? places[i - 1].y + 20 : 0); });
  const over = places.length ? places[places.length - 1].y - lowest : 0;
  if (over > 0) places.forEach((place, i) => { place.y = Math.max(18 + i * 20, place.y - over); });
  return places;
}

function heatChart(width, units, names, { label, value, tip, most }) {
  const left = Math.min(Math.max(...units.map((unit) => unit.length)) * 7.2 + 14, width * 0.28);
  const cell = (width - left - 6) / names.length;
  const narrow = names.some((name) => cell < name.length * 7.4);
  const top = narrow ? 74 : 26;
  const step = 24;
  const root = canvas(width, top + units.length * step + 6, label);
  names.forEach((name, j) => {
    const x = left + (j + 0.5) * cell;
    const turn = narrow ? { transform: `rotate(-32 ${x} ${top - 10})`, "text-anchor": "start" } : { "text-anchor": "middle" };
    root.append(text(x, top - 10, shortened(name, narrow ? 92 : cell), { class: "dim", ...turn }));
  });
  units.forEach((unit, i) => {
    const y = top + i * step;
    root.append(text(left - 8, y + 16, shortened(unit, left - 10), { "text-anchor": "end" }));
    names.forEach((name, j) => {
      const found = value(unit, name);
      const size = most > 0 ? Math.min(1, Math.abs(found) / most) : 0;
      const fillColour = found === 0 ? "var(--even-wash)" : found > 0 ? "var(--helped)" : "var(--harmed)";
      root.append(s("rect", { x: left + j * cell + 1.5, y: y + 1.5, width: cell - 3, height: step - 3, rx: 4, fill: fillColour, opacity: found === 0 ? 1 : 0.12 + 0.88 * Math.sqrt(size), "data-tip": tip(unit, name) }));
      if (cell > 58) root.append(text(left + (j + 0.5) * cell, y + 16, found === 0 ? "·" : number(found, 1), { "text-anchor": "middle", style: `pointer-events: none; fill: var(--${found === 0 ? "faint" : size > 0.3 ? "card" : "ink"})` }));
    });
  });
  return root;
}
