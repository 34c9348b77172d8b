// A chart as a file: SVG with its styles written out, PNG made from it, and Vega-Lite made from the description of the chart.

const WRITTEN = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "paint-order", "opacity", "font-family", "font-size", "font-style", "text-anchor"];
const resolved = (colour) => (colour.startsWith("var(") ? getComputedStyle(document.documentElement).getPropertyValue(colour.slice(4, -1)).trim() : colour);
const shownSeries = (spec) => spec.series.filter((item) => spec.shows(item.name));

function standalone(spec, figure) {
  const drawn = figure.querySelector("svg");
  const copy = drawn.cloneNode(true);
  const copies = [copy, ...copy.querySelectorAll("*")];
  [drawn, ...drawn.querySelectorAll("*")].forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const name of ["class", "style", "data-tip"]) copies[i].removeAttribute(name);
    for (const name of WRITTEN) copies[i].setAttribute(name, style.getPropertyValue(name));
  });
  const { width, height } = drawn.viewBox.baseVal;
  let [x, y] = [8, height + 8];
  for (const item of shownSeries(spec)) {
    const room = 46 + 7.6 * item.name.length;
    if (x > 8 && x + room > width) [x, y] = [8, y + 20];
    const { colour, ...others } = item;
    copy.append(s("g", { transform: `translate(${x} ${y})` }, sampleOf({ ...others, colour: resolved(colour) }), text(30, 10, item.name, { "font-family": "sans-serif", "font-size": 12.5, fill: resolved("var(--ink)") })));
    x += room;
  }
  copy.prepend(s("title", {}, spec.label), s("rect", { width, height: y + 24, fill: resolved("var(--card)") }));
  for (const [name, value] of Object.entries({ width, height: y + 24, viewBox: `0 0 ${width} ${y + 24}` })) copy.setAttribute(name, value);
  return new XMLSerializer().serializeToString(copy);
}

function savePicture(spec, figure) {
  const picture = new Image();
  picture.onload = () => {
    const sheet = h("canvas", { width: 2 * picture.width, height: 2 * picture.height });
    sheet.getContext("2d").drawImage(picture, 0, 0, sheet.width, sheet.height);
    sheet.toBlob((blob) => saveFile(`${spec.id}.png`, blob, "image/png"));
  };
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(spec, figure))}`;
}

// The values that are drawn, in the units of the axes.
function valuesOf(spec, shows = spec.shows) {
  const scaled = (value) => (known(value) ? value * (spec.unit || 1) : null);
  if (spec.kind === "heat") return spec.units.flatMap((unit) => spec.names.map((name) => ({ unit, allocator: name, value: spec.value(unit, name) }))).filter(({ value }) => shows(spec.series[value > 0 ? 0 : value < 0 ? 1 : 2].name));
  if (spec.kind === "strip") return spec.bars.map((item) => ({ unit: item.unit, value: scaled(item.share) }));
  if (spec.kind === "picture") return pictureLines(spec).flatMap(([series, points]) => points.map(([x, value]) => ({ series, x, value })));
  if (spec.kind === "curve") return spec.lines.filter((item) => shows(item.name)).flatMap((item) => item.alpha.map((alpha, i) => ({ series: item.name, band: item.band, x: scaled(alpha), value: scaled(item.gain_share[i]), low: scaled(item.lo[i]), high: scaled(item.hi[i]) }))).filter(({ value }) => known(value));
  return spec.rows.flatMap((row) => spec.marks(row).filter((item) => shows(item.series) && (known(item.at) || (known(item.low) && known(item.high))))
    .map((item) => ({ row: row.name, series: item.series, mark: item.mark, ...(item.mark === "point" || item.mark === "tick" ? { value: scaled(item.at) } : { low: scaled(item.low), high: scaled(item.high) }) })));
}

function vegaLite(spec) {
  const shown = shownSeries(spec);
  const names = shown.map((item) => item.name);
  const values = valuesOf(spec);
  const amount = (field, title) => ({ field, type: "quantitative", title });
  const bySeries = (range) => ({ field: "series", type: "nominal", title: null, scale: { domain: names, range } });
  const color = bySeries(shown.map((item) => resolved(item.colour)));
  const layer = (mark, encoding, filter) => ({ transform: [{ filter }], mark, encoding });
  const whole = { $schema: "https://vega.github.io/schema/vega-lite/v5.json", description: spec.label, width: 640, background: resolved("var(--card)"), data: { values } };
  if (spec.kind === "heat") {
    const scale = { domainMid: 0, range: ["--harmed", "--even-wash", "--helped"].map((name) => resolved(`var(${name})`)) };
    return { ...whole, mark: "rect", encoding: { x: { field: "allocator", type: "nominal", sort: null, title: spec.axis }, y: { field: "unit", type: "nominal", sort: null, title: "unit" }, color: { ...amount("value", "gain, in units of the loss"), scale } } };
  }
  if (spec.kind === "strip") return { ...whole, mark: "bar", encoding: { x: { field: "unit", type: "nominal", sort: "-y", title: null }, y: amount("value", spec.title) } };
  if (spec.kind === "picture") return { ...whole, height: 420, mark: { type: "line", point: true }, encoding: { x: amount("x", spec.xName), y: { ...amount("value", spec.yName), scale: { zero: false } }, color: { field: "series", type: "nominal", title: null } } };
  if (spec.kind === "curve") {
    const x = amount("x", spec.axis);
    const dashes = bySeries(shown.map((item) => (item.dash || "1 0").split(" ").map(Number)));
    const around = { x, y: amount("low", spec.upAxis), y2: { field: "high" }, color };
    const centre = { x, y: amount("value", spec.upAxis), color };
    return { ...whole, height: 380, layer: [
      layer({ type: "area", opacity: 0.13 }, around, "datum.band && isValid(datum.low)"),
      layer("line", { ...centre, strokeDash: dashes }, "true")] };
  }
  const between = { x: amount("low", spec.axis), x2: { field: "high" }, color };
  const at = { x: amount("value", spec.axis), color };
  const marks = { bar: ["bar", between], rule: [{ type: "rule", strokeWidth: 3, opacity: 0.55 }, between], point: [{ type: "point", filled: true, size: 80, opacity: 1 }, at], tick: [{ type: "tick", thickness: 2 }, at] };
  const used = Object.keys(marks).filter((name) => values.some((item) => item.mark === name));
  return { ...whole, encoding: { y: { field: "row", type: "nominal", sort: null, title: "allocator" } }, layer: used.map((name) => layer(...marks[name], `datum.mark === '${name}'`)) };
}
