// Frames that matter: what each mode saw, what the controller made of it, and where every allocator ranked the frame.

const partsOf = (frame, frames, weights, mode) => Object.keys(frames.weights).map((name) => (weights || frames.weights)[name] * frame.modes[mode].terms[name]);

const endsOf = ({ modes }) => [modes[0], modes.at(-1)];
const plus = (value, digits) => `${value > 0 ? "+" : ""}${number(value, digits)}`;
const signText = (value) => (value > 0 ? "helped-text" : value < 0 ? "harmed-text" : "");

function explorer(cell, state, go) {
  const { frames } = cell;
  if (!frames) return null;
  if (frames.rows) return block("frames", "Inputs that matter most", "The inputs with the largest values, positive where escalating helps, with the scores that lie beside the result.", inputTable(cell));
  if (!frames.frames.length) return null;
  const list = h("ul", { class: "framelist", "aria-label": "Frames" });
  const detail = h("div", { class: "detail", id: "frame-detail", role: "region", "aria-label": "The chosen frame" });
  const sign = h("select", { id: "frame-sign", "aria-label": "Show" }, [["", "harmed and helped, largest first"], ["harmed", "harmed"], ["helped", "helped"]].map(optionOf));
  const weights = () => {
    const chosen = state.weights[cell.name] || {};
    return Object.keys(frames.weights).every((name) => name in chosen) ? chosen : null;
  };
  const value = (frame) => (weights() ? endsOf(frames).map((mode) => sumOf(partsOf(frame, frames, weights(), mode))).reduce((cheap, full) => cheap - full) : frame.value);
  const part = frames.frames_in_file > frames.frames.length ? ` ${count(frames.frames.length)} of the ${count(frames.frames_in_file)} frames in the file are on this page.` : "";
  const section = block("frames", "Frames that made or lost the value", `The most harmed and the most helped input of each test unit.${part} Every frame has an address of its own.`,
    h("div", { class: "row filters" }, sign),
    h("div", { class: "explorer" }, list, detail));
  section.refresh = () => {
    const shown = frames.frames.filter((frame) => !sign.value || frame.sign === sign.value).sort((a, b) => Math.abs(value(b)) - Math.abs(value(a)));
    const current = frames.frames.find((frame) => frame.input === state.frame) || shown[0] || frames.frames[0];
    const focused = list.contains(document.activeElement);
    list.replaceChildren(...shown.map((frame) => {
      const v = value(frame);
      return h("li", {}, h("button", { type: "button", "aria-current": String(frame === current), "data-input": frame.input, onclick: () => go(cell.name, frame.input) },
        h("span", {}, frame.input), h("span", { class: `v ${signText(v)}` }, plus(v, 1)), h("span", { class: "what" }, endsOf(frames).map((mode) => frame.modes[mode].does).join(" → "))));
    }));
    if (focused) list.querySelector("[aria-current=true]")?.focus({ preventScroll: true });
    if (!shown.length) list.append(h("li", { class: "absent" }, "No such frame."));
    detail.replaceChildren(...frameDetail(cell, current, state, value(current), weights()));
  };
  sign.addEventListener("change", section.refresh);
  section.refresh();
  return section;
}

function inputTable({ name, frames: { header, rows } }) {
  const shown = (content) => (typeof content === "number" ? String(Number(content.toPrecision(4))).replace("-", MINUS) : String(content ?? "–"));
  const cells = rows.map((row) => row.map(shown).map((title) => ({ text: title.length > 60 ? `${title.slice(0, 59)}…` : title, title })));
  return sortable("Inputs that matter most", header, cells, { hidden: true, file: `${name}-inputs` });
}

function frameDetail(cell, frame, state, value, weights) {
  const { frames } = cell;
  const [cheap, full] = endsOf(frames);
  const image = DATA.images[`${frames.dataset}/${frame.input}`];
  const sources = sourcesOf(frame, frames);
  const parts = (mode) => partsOf(frame, frames, weights, mode);
  const names = Object.keys(frames.weights);
  const changes = parts(full).map((part, i) => Math.abs(part - parts(cheap)[i]));
  const views = [cameraView(frame, sources, image), roadView(frame, frames, sources)].filter(Boolean);
  const rows = frames.modes.map((mode) => textCells([mode, frame.modes[mode].does, ...[sumOf(parts(mode)), ...parts(mode)].map((part) => number(part, 3))]));
  return [
    h("h3", {}, frame.input),
    h("p", {}, "V = ", h("strong", { class: `num ${signText(value)}` }, plus(value, 2)), `: escalating ${value > 0 ? "helps" : value < 0 ? "harms" : "changes nothing"} at ${number(frame.speed_mps, 1)} m/s. The loss goes from ${number(sumOf(parts(cheap)), 2)} to ${number(sumOf(parts(full)), 2)}, mostly by ${names[changes.indexOf(Math.max(...changes))]}.`),
    h("p", { class: "because" }, because(sources, value)),
    h("ul", { class: "reasons" }, sources.map((source) => h("li", {}, h("strong", { style: `color: ${source.colour}` }, source.name), `: ${reason(source, frames)}`))),
    ...(frame.road ? views.reverse() : views).map((view) => h("div", { class: "view" }, view)),
    legendOf([[`${cheap} (cheap)`, "var(--cheap)", "dashed"], [`${full} (full)`, "var(--full)", "solid"], [sources[2].name, "var(--truth)"], ...(frame.road ? [["as it was driven", "var(--ink)", "dotted"]] : []), [`thick: the object that fixes the ${frame.road ? "plan" : "action"}; arrow: how far it comes closer in 1 s`, "var(--ink)", "solid"]]),
    image || !(frame.image || frames.pictures) ? null : h("p", { class: "note" }, "No picture is embedded; ", code("deepval report --images"), " puts it in where there is one."),
    h("h3", {}, "Both decisions, and what they cost"), sortable(`Loss terms of ${frame.input}`, ["mode", "action", "loss", ...names], rows, { hidden: true, file: "frame" }),
    h("h3", {}, "Every object, and why it did or did not decide"), objectTable(sources, frame),
    h("h3", {}, "Where the allocators ranked it"), rankTable(cell, frame, state),
  ].filter(Boolean);
}

// Where the mode that errs departs from the reference.
function because(sources, value) {
  const [wrong, truth] = [sources[value < 0 ? 1 : 0], sources[2]];
  const [seen, real] = [wrong.main, truth.main];
  if (!value || wrong.item.does === truth.item.does) return "";
  const pair = ([key, words, unit]) => `${words} ${number(seen[key], 1)} ${unit}${real && known(real[key]) ? ` (${truth.name}: ${number(real[key], 1)})` : ""}`;
  const sees = seen
    ? `a ${seen.kind} ${[["near", "at", "m"], ["closing", "closing at", "m/s"], ["needs", "that needs", "m/s²"]].filter(([key]) => known(seen[key]) && !(real && seen[key] === real[key])).map(pair).join(", ")}${real ? "" : `, but nothing matters in the ${truth.name}`}`
    : `nothing that matters${real ? `, but there is a ${real.kind} at ${number(real.near, 1)} m` : ""}`;
  return `${wrong.name} sees ${sees}. So it chooses “${wrong.item.does}” instead of “${truth.item.does}”.`;
}

function reason({ item, main }, frames) {
  if (!main) return `${item.classes.length ? `nothing in the ${frames.corridor_m ? "corridor" : "way"}` : "no object at all"} → ${item.does}`;
  return `${main.brief}${main.motion} → ${item.does}${main.decides ? "" : ` (${main.why})`}`;
}

const textCells = (contents) => contents.map((content) => ({ text: content }));

function rankTable(cell, frame, state) {
  const { inputs, rows } = cell.result;
  if (!inputs) return absent("the result holds no ranks; evaluate with ", code("--terms terms.parquet"), ".");
  const place = inputs.input.indexOf(frame.input);
  if (place < 0) return absent("this input is not among those that the result judges.");
  const lines = Object.entries(inputs.ranks).map(([name, ranks]) => {
    const above = ranks.filter((rank) => rank < ranks[place]).length + 1;
    const tied = ranks.filter((rank) => rank === ranks[place]).length - 1;
    const row = rows.find((item) => item.allocator === name && budgetKey(item) === state.budget);
    const chance = row && known(row.slots) && known(row.gain) ? percent(inclusion(ranks, row.slots)[place], 0) : row && row.reason;
    return textCells([name, tied ? `${above}–${above + tied}` : `${above}`, chance || "undefined"]);
  });
  const budget = rows.find((row) => budgetKey(row) === state.budget);
  return sortable(`Ranks of ${frame.input}`, ["allocator", `place of ${count(inputs.input.length)}`, `chosen at ${budgetLabel(budget)}`], lines, { hidden: true, file: "ranks" });
}

// Both modes and the reference, with their objects and the one that decides or comes nearest to it.
function sourcesOf(frame, frames) {
  const [cheap, full] = endsOf(frames);
  return [
    { name: cheap, item: frame.modes[cheap], colour: "var(--cheap)", light: "#c9b0f5", dash: [6, 4] },
    { name: full, item: frame.modes[full], colour: "var(--full)", light: "#66e0c2" },
    { name: frames.modes.includes("reference") ? "truth" : "reference", item: frame.reference, colour: "var(--truth)", light: "#d9dee3" },
  ].map((source) => {
    const { name, item } = source;
    const objects = item.classes.map((_, i) => objectOf(item, i));
    for (const object of objects) {
      object.why = why(object, objects[item.decisive], frame, frames);
      object.tip = `${name}: ${object.brief}${object.motion}\n${object.why}`;
    }
    const main = objects[item.decisive] || objects.filter(({ needs }) => needs > 0).sort((a, b) => b.needs - a.needs)[0];
    return { ...source, objects, main };
  });
}

function objectOf(item, i) {
  const along = (axis) => item.corners_m[i].map((corner) => corner[axis]).filter(known);
  const [near, far, low, high] = item.objects_m ? item.objects_m[i] : [0, 1].flatMap((axis) => [Math.min(...along(axis)), Math.max(...along(axis))]);
  const [score, speed, needs] = ["scores", "closing_mps", "needs_mps2"].map((name) => (item[name] ? item[name][i] : null));
  const closing = speed || null; // zero: unknown
  const kind = item.classes[i] || "object";
  return {
    kind, near, far, low, high, score, closing, needs, box: item.boxes[i], decides: i === item.decisive,
    outline: item.corners_m ? item.corners_m[i] : [[near, low], [far, low], [far, high], [near, high]],
    brief: `${kind}${known(score) ? ` ${number(score, 2)}` : ""} · ${number(near, 1)} m`,
    motion: `${closing ? ` · closing ${number(closing, 1)} m/s` : ""}${known(needs) ? ` · needs ${number(needs, 1)} m/s²` : ""}`,
  };
}

function why({ near, low, high, needs, decides }, decisive, frame, { corridor_m: corridor, brakes_from_mps2: from }) {
  if (decides) return known(from) ? "decides: it needs the most" : "decides: the plan rests on it";
  if (near <= 0) return "not ahead of the vehicle";
  if (corridor && near > corridor.far) return `beyond ${number(corridor.far, 0)} m`;
  const aside = corridor ? Math.max(low, -high) - corridor.half_width : -1;
  if (aside >= 0) return `beside the corridor by ${number(aside, 1)} m`;
  if (known(from) && known(needs)) return needs < from || !decisive ? `too little: braking starts at ${number(from, 1)} m/s²` : "another object needs more";
  if (!decisive) return "the plan is as on an empty road";
  return frame.road ? "the plan does not rest on it" : near < decisive.near ? "nearer, but the plan is the same without it" : "farther than the deciding object";
}

function objectTable(sources, frame) {
  const objects = sources.flatMap(({ name, objects }) => objects.map((object) => ({ name, ...object })));
  objects.sort((a, b) => b.decides - a.decides || (a.near <= 0) - (b.near <= 0) || Math.abs(a.near) - Math.abs(b.near));
  const figure = (value, digits = 1) => (known(value) ? number(value, digits) : "–");
  const rows = objects.map(({ name, kind, score, near, closing, needs, why, decides }) => [...textCells([name, kind, figure(score, 2), figure(near), figure(closing), figure(needs)]), { text: why, mark: decides ? "better" : null }]);
  return sortable(`Objects of ${frame.input}`, ["mode", "object", "score", "range, m", "closing, m/s", "needs, m/s²", "why"], rows, { hidden: true, file: "objects" });
}

// Labels do not overlap: those without room are left out.
function labeller(root, size, width) {
  const taken = [];
  return (x, y, content, colour, must) => {
    const wide = content.length * size * (must ? 0.6 : 0.54);
    const left = Math.max(2, Math.min(x, width - wide - 2));
    const free = (at) => at > size && taken.every(([a, b, c]) => Math.abs(b - at) > size * 1.15 || a > left + wide || a + c < left);
    const at = [0, 1, -1, 2, -2, 3, -3].slice(0, must ? 7 : 1).map((step) => y + step * size * 1.25).find(free);
    if (at === undefined) return;
    taken.push([left, at, wide]);
    root.append(text(left, at, content, { class: "halo label", style: `font-size: ${size}px; fill: ${colour}; font-weight: ${must ? 650 : 400}` }));
  };
}

function cameraView({ camera, input }, sources, image) {
  const seen = sources.flatMap((source) => source.objects.filter(({ box }) => box.every(known)).map((object) => ({ ...source, ...object, main: object === source.main }))).reverse();
  if (!image && !seen.some(({ item }) => item.scores)) return null;
  const most = (side) => Math.max(...seen.map(({ box }) => box[side]));
  const width = camera.width_px || Math.max(2 * camera.centre_px[0], most(2));
  const height = camera.height_px || Math.max(2 * camera.centre_px[1], most(3));
  const unit = width / (innerWidth < 704 ? 400 : 700);
  const horizon = known(camera.horizon_px) ? camera.horizon_px : height / 2;
  // Without a picture there is nothing to see but boxes and the horizon: sky and road beyond them are left out.
  const top = image ? 0 : Math.max(0, Math.min(horizon, ...seen.map(({ box }) => box[1])) - 24 * unit);
  const bottom = image ? height : Math.min(height, Math.max(horizon, most(3)) + 24 * unit);
  const root = s("svg", { viewBox: `0 ${top} ${width} ${bottom - top}`, role: "img", "aria-label": `Camera frame of ${input} with the boxes of both modes and the reference` });
  if (image) root.append(s("image", { href: image, x: 0, y: 0, width, height, preserveAspectRatio: "none" }));
  else root.append(s("rect", { x: 0, y: horizon, width, height: Math.max(height - horizon, 0), fill: "var(--even-wash)" }), line(0, horizon, width, horizon, { stroke: "var(--faint)", "stroke-width": unit }));
  for (const { item, colour, light, dash, box, decides, tip } of seen) {
    const thick = (decides ? 4.5 : item.scores ? 2 : 1) * unit;
    const shape = { x: box[0], y: box[1], width: box[2] - box[0], height: box[3] - box[1], fill: "transparent", rx: 2 * unit };
    if (image) root.append(s("rect", { ...shape, stroke: "rgba(0,0,0,.45)", "stroke-width": thick + 2 * unit }));
    root.append(s("rect", { ...shape, stroke: image ? light : colour, "stroke-width": thick, "stroke-dasharray": dash ? dash.map((d) => d * unit).join(" ") : null, "data-tip": tip }));
  }
  const put = labeller(root, 12 * unit, width);
  for (const { item, colour, dash, box, brief, main } of seen.sort((a, b) => b.main - a.main)) put(box[0] + 3 * unit, dash ? box[1] - 4 * unit : item.scores ? box[3] - 5 * unit : box[1] + 13 * unit, brief, colour, main);
  return root;
}
