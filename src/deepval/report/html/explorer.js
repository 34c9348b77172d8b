// Frames that matter: what each mode saw, what the controller made of it, and where every allocator ranked the frame.

function frameValue(frame, frames, weights) {
  const modes = frames.modes;
  if (!weights) return frame.value;
  const loss = (mode) => Object.keys(frames.weights).reduce((sum, name) => sum + weights[name] * frame.modes[mode].terms[name], 0);
  return loss(modes[0]) - loss(modes[modes.length - 1]);
}

function explorer(cell, state, go) {
  const lead = "The most harmed and the most helped input of each test unit. Every frame has an address of its own.";
  if (!cell.frames) return block("frames", "Inputs that made or lost the value", null, absent("beside the result is neither frames.json, which ", code("deepval build"), " writes, nor the values.csv or values.parquet it judged."));
  if (cell.frames.rows) return block("frames", "Inputs that matter most", "The inputs with the largest values, positive where escalating helps.", inputTable(cell));
  if (!cell.frames.frames.length) return block("frames", "Frames that made or lost the value", lead, absent("no input of the test units is affected."));
  const { frames } = cell;
  const list = h("ul", { class: "framelist", "aria-label": "Frames" });
  const detail = h("div", { class: "detail", id: "frame-detail", role: "region", "aria-label": "The chosen frame" });
  const units = [...new Set(frames.frames.map((frame) => frame.unit))].sort();
  const sign = h("select", { id: "frame-sign" }, ["all", "harmed", "helped"].map((name) => h("option", { value: name }, name === "all" ? "harmed and helped" : name)));
  const unit = h("select", { id: "frame-unit" }, h("option", { value: "" }, "all units"), units.map((name) => h("option", { value: name }, name)));
  const sort = h("select", { id: "frame-sort" }, [["size", "largest first"], ["value", "harm to help"], ["input", "by input"]].map(([key, label]) => h("option", { value: key }, label)));
  const weights = () => {
    const chosen = state.weights[cell.name] || {};
    return Object.keys(frames.weights).every((name) => name in chosen) ? chosen : null;
  };
  const value = (frame) => frameValue(frame, frames, weights());
  const part = frames.frames_in_file > frames.frames.length ? h("p", { class: "note" }, `${count(frames.frames.length)} of the ${count(frames.frames_in_file)} frames in the file are on this page: the most harmed and the most helped.`) : null;
  const section = block("frames", "Frames that made or lost the value", lead, ...(part ? [part] : []),
    h("div", { class: "row filters" }, [["Show ", sign], ["Unit ", unit], ["Sort ", sort]].map(([name, control]) => h("label", {}, h("span", { class: "visually-hidden" }, name), control))),
    h("div", { class: "explorer" }, list, detail));
  section.refresh = () => {
    const orders = { size: (a, b) => Math.abs(value(b)) - Math.abs(value(a)), value: (a, b) => value(a) - value(b), input: (a, b) => (a.input < b.input ? -1 : 1) };
    const shown = frames.frames.filter((frame) => (sign.value === "all" || frame.sign === sign.value) && (!unit.value || frame.unit === unit.value)).sort(orders[sort.value]);
    const current = frames.frames.find((frame) => frame.input === state.frame) || shown[0] || frames.frames[0];
    const focused = list.contains(document.activeElement);
    list.replaceChildren(...shown.map((frame) => {
      const v = value(frame);
      return h("li", {}, h("button", { type: "button", "aria-current": String(frame === current), "data-input": frame.input, onclick: () => go(cell.name, frame.input) },
        h("span", {}, frame.input), h("span", { class: `v ${v < 0 ? "harmed-text" : v > 0 ? "helped-text" : ""}` }, `${v > 0 ? "+" : ""}${number(v, 1)}`), h("span", { class: "what" }, `${frame.modes[frames.modes[0]].does} → ${frame.modes[frames.modes[frames.modes.length - 1]].does}`)));
    }));
    if (focused && list.querySelector("[aria-current=true]")) list.querySelector("[aria-current=true]").focus({ preventScroll: true });
    if (!shown.length) list.append(h("li", { class: "absent" }, "No such frame."));
    detail.replaceChildren(...frameDetail(cell, current, state, value(current), weights()));
  };
  for (const control of [sign, unit, sort]) control.addEventListener("change", section.refresh);
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
  const [cheap, full] = [frames.modes[0], frames.modes[frames.modes.length - 1]];
  const words = value > 0 ? "helped" : value < 0 ? "harmed" : "unaffected";
  const image = DATA.images[`${frames.dataset}/${frame.input}`];
  const seen = image || !frame.road || hasBoxes(frame);
  const sources = sourcesOf(frame, frames);
  const names = Object.keys(frames.weights);
  const parts = (mode) => names.map((name) => (weights || frames.weights)[name] * frame.modes[mode].terms[name]);
  const losses = [cheap, full].map((mode) => sumOf(parts(mode)));
  const changes = parts(full).map((part, i) => Math.abs(part - parts(cheap)[i]));
  const most = names[changes.indexOf(Math.max(...changes))];
  return [
    h("h3", {}, frame.input),
    h("p", {}, "V = ", h("strong", { class: `num ${words}-text` }, `${value > 0 ? "+" : ""}${number(value, 2)}`), `: escalating ${{ helped: "helps", harmed: "harms", unaffected: "changes nothing" }[words]} at ${number(frame.speed_mps, 1)} m/s. The loss goes from ${number(losses[0], 2)} to ${number(losses[1], 2)}, mostly by ${most}.`),
    h("ul", { class: "reasons" }, sources.map(({ name, item, colour }) => h("li", {}, h("strong", { style: `color: ${colour}` }, name), `: ${reason(item, frame, frames)}`))),
    ...(frame.road ? [roadView(frame, frames), ...(seen ? [cameraView(frame, frames, image)] : [])] : [cameraView(frame, frames, image), roadView(frame, frames)]).flatMap((view, i) => [i ? h("div", { style: "height: .6rem" }) : null, h("div", { class: "view" }, view)]),
    legendOf([[`${cheap} (cheap)`, "var(--cheap)", "dashed"], [`${full} (full)`, "var(--full)", "solid"], ["reference", "var(--truth)"], ...(frame.road ? [["as it was driven", "var(--ink)", "dotted"]] : []), [`thick: the object that fixes the ${frame.road ? "plan" : "action"}`, "var(--ink)", "solid"]]),
    image || !seen ? null : h("p", { class: "note" }, ...(frame.image || frames.pictures ? ["No picture is embedded; ", code("deepval report --images"), " puts it in where there is one."] : ["There is no picture of this frame: boxes are where the camera has them."])),
    h("h3", {}, "Both decisions, and what they cost"), decisionTable(frame, frames, parts),
    h("h3", {}, "Every object, and why it did or did not decide"), objectTable(sources, frame, frames),
    h("h3", {}, "Where the allocators ranked it"), rankTable(cell, frame, state),
  ].filter(Boolean);
}

function decisionTable(frame, frames, parts) {
  const rows = frames.modes.map((mode) => [mode, frame.modes[mode].does, ...[sumOf(parts(mode)), ...parts(mode)].map((part) => number(part, 3))].map((content) => ({ text: content })));
  return sortable(`Loss terms of ${frame.input}`, ["mode", "action", "loss", ...Object.keys(frames.weights)], rows, { hidden: true, file: "frame" });
}

function rankTable(cell, frame, state) {
  const { result } = cell;
  if (!result.inputs) return absent("the result holds no ranks; evaluate with ", code("--terms terms.parquet"), ".");
  const place = result.inputs.input.indexOf(frame.input);
  if (place < 0) return absent("this input is not among those that the result judges.");
  const rows = Object.entries(result.inputs.ranks).map(([name, ranks]) => {
    const above = ranks.filter((rank) => rank < ranks[place]).length;
    const tied = ranks.filter((rank) => rank === ranks[place]).length;
    const row = result.rows.find((item) => item.allocator === name && budgetKey(item) === state.budget);
    const chance = row && known(row.slots) && known(row.gain) ? inclusion(ranks, row.slots)[place] : null;
    return [name, tied > 1 ? `${above + 1}–${above + tied}` : `${above + 1}`, `${tied > 1 ? `tied with ${tied - 1}` : "alone"}`, known(chance) ? percent(chance, 0) : row && row.reason ? row.reason : "undefined"].map((content) => ({ text: content }));
  });
  const budget = result.rows.find((row) => budgetKey(row) === state.budget);
  return sortable(`Ranks of ${frame.input}`, ["allocator", `place of ${count(result.inputs.input.length)}`, "ties", `chosen at ${budgetLabel(budget)}`], rows, { hidden: true, file: "ranks" });
}

function sourcesOf(frame, frames) {
  const full = frames.modes[frames.modes.length - 1];
  return [{ name: frames.modes[0], colour: "var(--cheap)", light: "#c9b0f5", dash: [6, 4] }, { name: full, colour: "var(--full)", light: "#66e0c2" }, { name: "reference", item: frame.reference, colour: "var(--truth)", light: "#d9dee3" }].map((source) => ({ item: frame.modes[source.name], ...source }));
}

function objectOf(item, i) {
  const along = (axis) => item.corners_m[i].map((corner) => corner[axis]).filter(known);
  const [near, far, low, high] = item.objects_m ? item.objects_m[i] : [0, 1].flatMap((axis) => [Math.min(...along(axis)), Math.max(...along(axis))]);
  const of = (name) => (item[name] ? item[name][i] : null);
  return { kind: item.classes[i] || "object", near, far, low, high, score: of("scores"), closing: of("closing_mps"), needs: of("needs_mps2") };
}

const brief = ({ kind, score, near }) => `${kind}${known(score) ? ` ${number(score, 2)}` : ""} · ${number(near, 1)} m`;
const motion = ({ closing, needs }) => (known(closing) ? ` · closing ${number(closing, 1)} m/s · needs ${number(needs, 1)} m/s²` : "");

// What decides, or else what comes nearest to deciding.
function mainObject(item) {
  if (item.decisive !== null) return item.decisive;
  const most = Math.max(0, ...(item.needs_mps2 || []));
  return most ? item.needs_mps2.indexOf(most) : null;
}

function why(item, i, frame, frames) {
  const { near, low, high, needs } = objectOf(item, i);
  const { corridor_m: corridor, brakes_from_mps2: from } = frames;
  if (i === item.decisive) return known(from) ? "decides: it needs the most" : "decides: the plan rests on it";
  if (near <= 0) return "not ahead of the vehicle";
  if (corridor && near > corridor.far) return `beyond ${number(corridor.far, 0)} m`;
  const aside = corridor ? Math.max(low, -high) - corridor.half_width : -1;
  if (aside >= 0) return `beside the corridor by ${number(aside, 1)} m`;
  if (known(from) && known(needs)) return needs < from || item.decisive === null ? `in the corridor, but braking starts at ${number(from, 1)} m/s²` : "another object needs more";
  if (item.decisive === null) return "the plan is as on an empty road";
  return frame.road ? "the plan does not rest on it" : near < objectOf(item, item.decisive).near ? "nearer, but the plan is the same without it" : "farther than the deciding object";
}

const objectTip = (name, item, i, frame, frames) => `${name}: ${brief(objectOf(item, i))}${motion(objectOf(item, i))}\n${why(item, i, frame, frames)}`;

function reason(item, frame, frames) {
  const i = mainObject(item);
  if (i === null) return `no object ${item.classes.length ? "in the corridor" : "at all"} → ${item.does}`;
  const object = objectOf(item, i);
  return `${brief(object)}${motion(object)} → ${item.does}${i === item.decisive ? "" : ` (${why(item, i, frame, frames)})`}`;
}

function objectTable(sources, frame, frames) {
  const rows = sources.flatMap(({ name, item }) => item.classes.map((_, i) => {
    const object = objectOf(item, i);
    const figure = (value, digits = 1) => (known(value) ? number(value, digits) : "–");
    return { near: object.near, first: i === item.decisive, cells: [name, object.kind, figure(object.score, 2), figure(object.near), figure(object.closing), figure(object.needs), why(item, i, frame, frames)].map((content, c) => ({ text: content, mark: c > 5 && i === item.decisive ? "better" : null })) };
  })).sort((a, b) => b.first - a.first || a.near - b.near);
  return sortable(`Objects of ${frame.input}`, ["mode", "object", "score", "range, m", "closing, m/s", "needs, m/s²", "why"], rows.map((row) => row.cells), { hidden: true, file: "objects" });
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

const hasBoxes = (frame) => Object.values(frame.modes).some((item) => item.boxes.some((box) => box.every(known)));

function cameraView(frame, frames, image) {
  const boxes = [frame.reference, ...Object.values(frame.modes)].flatMap((item) => item.boxes).filter((box) => box.every(known));
  const width = frame.camera.width_px || Math.max(2 * frame.camera.centre_px[0], ...boxes.map((box) => box[2]));
  const height = frame.camera.height_px || Math.max(2 * frame.camera.centre_px[1], ...boxes.map((box) => box[3]));
  const unit = width / (innerWidth < 704 ? 400 : 700);
  const horizon = known(frame.camera.horizon_px) ? frame.camera.horizon_px : height / 2;
  // Without a picture there is nothing to see but boxes and the horizon: sky and road beyond them are left out.
  const margin = 24 * unit;
  const top = image ? 0 : Math.max(0, Math.min(horizon, ...boxes.map((box) => box[1])) - margin);
  const bottom = image ? height : Math.min(height, Math.max(horizon, ...boxes.map((box) => box[3])) + margin);
  const root = s("svg", { viewBox: `0 ${top} ${width} ${bottom - top}`, role: "img", "aria-label": `Camera frame of ${frame.input} with the boxes of both modes and the reference` });
  if (image) root.append(s("image", { href: image, x: 0, y: 0, width, height, preserveAspectRatio: "none" }));
  else {
    root.append(s("rect", { x: 0, y: horizon, width, height: Math.max(height - horizon, 0), fill: "var(--even-wash)" }));
    root.append(line(0, horizon, width, horizon, { stroke: "var(--faint)", "stroke-width": unit }));
  }
  const sources = sourcesOf(frame, frames).reverse();
  const labels = [];
  for (const { name, item, colour, light, dash } of sources) item.boxes.forEach((box, i) => {
    if (!box.every(known)) return;
    const chosen = i === item.decisive;
    const thick = (chosen ? 4.5 : item.scores ? 2 : 1) * unit;
    const words = brief(objectOf(item, i));
    const shape = { x: box[0], y: box[1], width: box[2] - box[0], height: box[3] - box[1], fill: "transparent", rx: 2 * unit };
    if (image) root.append(s("rect", { ...shape, stroke: "rgba(0,0,0,.45)", "stroke-width": thick + 2 * unit }));
    root.append(s("rect", { ...shape, stroke: image ? light : colour, "stroke-width": thick, "stroke-dasharray": dash ? dash.map((d) => d * unit).join(" ") : null, "data-tip": objectTip(name, item, i, frame, frames) }));
    labels.push({ x: box[0], y: dash ? box[1] - 4 * unit : item.scores ? box[3] - 5 * unit : box[1] + 13 * unit, words, colour, main: i === mainObject(item) });
  });
  const put = labeller(root, 12 * unit, width);
  for (const { x, y, words, colour, main } of labels.sort((a, b) => b.main - a.main)) put(x + 3 * unit, y, words, colour, main);
  return root;
}
