// Frames that matter: what each mode saw, what the controller made of it, and where every allocator ranked the frame.

function frameValue(frame, frames, weights) {
  const modes = frames.modes;
  if (!weights) return frame.value;
  const loss = (mode) => Object.keys(frames.weights).reduce((sum, name) => sum + weights[name] * frame.modes[mode].terms[name], 0);
  return loss(modes[0]) - loss(modes[modes.length - 1]);
}

function explorer(cell, state, go) {
  const lead = "The most harmed and the most helped input of each test unit. Every frame has an address of its own.";
  if (!cell.frames) return block("frames", "Frames that made or lost the value", lead, absent("there is no frames.json beside the result; ", code("deepval build"), " writes one into every cell's folder."));
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
    h("div", { class: "row filters" }, h("label", {}, h("span", { class: "visually-hidden" }, "Show "), sign), h("label", {}, h("span", { class: "visually-hidden" }, "Unit "), unit), h("label", {}, h("span", { class: "visually-hidden" }, "Sort "), sort)),
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

function frameDetail(cell, frame, state, value, weights) {
  const { frames } = cell;
  const [cheap, full] = [frames.modes[0], frames.modes[frames.modes.length - 1]];
  const words = value > 0 ? "helped" : value < 0 ? "harmed" : "unaffected";
  const truth = frame.reference;
  const image = DATA.images[`${frames.dataset}/${frame.input}`];
  const seen = image || !frame.road || hasBoxes(frame);
  return [
    h("h3", {}, frame.input),
    h("p", {}, "V = ", h("strong", { class: `num ${words}-text` }, `${value > 0 ? "+" : ""}${number(value, 2)}`), `: escalating ${{ helped: "helps this decision", harmed: "harms this decision", unaffected: "changes nothing" }[words]}. At ${number(frame.speed_mps, 1)} m/s, `, h("em", {}, cheap), ` leads to “${frame.modes[cheap].does}”, `, h("em", {}, full), ` to “${frame.modes[full].does}”; the reference leads to “${truth.does}”.`),
    ...(frame.road ? [roadView(frame, frames), ...(seen ? [cameraView(frame, frames, image)] : [])] : [cameraView(frame, frames, image), birdsEye(frame, frames)]).flatMap((view, i) => [i ? h("div", { style: "height: .6rem" }) : null, h("div", { class: "view" }, view)]),
    legendOf([[`${cheap} (cheap)`, "var(--cheap)", "dashed"], [`${full} (full)`, "var(--full)", "solid"], ["reference", "var(--truth)"], ...(frame.road ? [["as it was driven", "var(--ink)", "dotted"]] : []), [`thick: the object that fixes the ${frame.road ? "plan" : "action"}`, "var(--ink)", "solid"]]),
    image || !seen ? null : h("p", { class: "note" }, ...(frame.image || frames.pictures ? ["No picture is embedded; ", code("deepval report --images"), " puts it in where there is one."] : ["There is no picture of this frame: boxes are where the camera has them."])),
    h("h3", {}, "Both decisions, and what they cost"), decisionTable(frame, frames, weights),
    h("h3", {}, "Where the allocators ranked it"), rankTable(cell, frame, state),
  ].filter(Boolean);
}

function decisionTable(frame, frames, weights) {
  const used = weights || frames.weights;
  const names = Object.keys(frames.weights);
  const rows = frames.modes.map((mode) => {
    const item = frame.modes[mode];
    const parts = names.map((name) => used[name] * item.terms[name]);
    const object = item.decisive === null ? (frame.road ? "none alone" : "none: as on an empty road") : `${item.classes[item.decisive] || "object"}, ${number(item.objects_m[item.decisive][0], 1)} m ahead`;
    return [mode, item.does, object, number(sumOf(parts), 3), ...parts.map((part) => number(part, 3))].map((content) => ({ text: content }));
  });
  return sortable(`Loss terms of ${frame.input}`, ["mode", "action", "decisive object", "loss", ...names], rows, { hidden: true, file: "frame" });
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

const hasBoxes = (frame) => Object.values(frame.modes).some((item) => item.boxes.some((box) => box.every(known)));

function cameraView(frame, frames, image) {
  const boxes = [frame.reference, ...Object.values(frame.modes)].flatMap((item) => item.boxes).filter((box) => box.every(known));
  const width = frame.camera.width_px || Math.max(2 * frame.camera.centre_px[0], ...boxes.map((box) => box[2]));
  const height = frame.camera.height_px || Math.max(2 * frame.camera.centre_px[1], ...boxes.map((box) => box[3]));
  const unit = width / 700;
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
  const put = (item, colour, dash, weight, name) => item.boxes.forEach((box, i) => {
    if (!box.every(known)) return;
    const chosen = i === item.decisive;
    const score = item.scores && known(item.scores[i]) ? `, score ${number(item.scores[i], 2)}` : "";
    const shape = { x: box[0], y: box[1], width: box[2] - box[0], height: box[3] - box[1], fill: "transparent", rx: 2 * unit };
    if (image) root.append(s("rect", { ...shape, stroke: "rgba(0,0,0,.45)", "stroke-width": (chosen ? 4.5 : weight) * unit + 2 * unit }));
    root.append(s("rect", { ...shape, stroke: image ? colour[1] : colour[0], "stroke-width": (chosen ? 4.5 : weight) * unit, "stroke-dasharray": dash ? dash.map((d) => d * unit).join(" ") : null, "data-tip": `${name}: ${item.classes[i] || "object"}${score}${chosen ? "\nfixes the action" : ""}` }));
  });
  put(frame.reference, ["var(--truth)", "#d9dee3"], null, 1, "reference");
  const modes = frames.modes;
  put(frame.modes[modes[0]], ["var(--cheap)", "#c9b0f5"], [6, 4], 2, modes[0]);
  put(frame.modes[modes[modes.length - 1]], ["var(--full)", "#66e0c2"], null, 2, modes[modes.length - 1]);
  return root;
}

function birdsEye(frame, frames) {
  const modes = frames.modes;
  const ends = [modes[0], modes[modes.length - 1]].map((mode) => frame.modes[mode]);
  const decisive = [...ends.filter((item) => item.decisive !== null).map((item) => item.objects_m[item.decisive][1]), ...(frame.reference.decisive === null ? [] : [Math.max(...frame.reference.corners_m[frame.reference.decisive].map((c) => c[0]))])];
  const paths = ends.flatMap((item) => (item.path_m || []).map((p) => p[0]));
  const far = Math.min(90, Math.max(40, ...decisive.map((x) => x + 8), ...paths.map((x) => x + 8)));
  const wide = innerWidth < 704 ? 400 : 760;
  const scale = wide / (far + 8);
  const side = 7;
  const root = s("svg", { viewBox: `0 0 ${wide} ${2 * side * scale}`, role: "img", "aria-label": `Bird's-eye view of ${frame.input}: the vehicle drives to the right; objects of both modes and the reference` });
  const x = (m) => (m + 6) * scale;
  const y = (m) => (side - m) * scale;
  const area = (x0, x1, y0, y1, attributes) => s("rect", { x: x(x0), y: y(y1), width: (x1 - x0) * scale, height: (y1 - y0) * scale, ...attributes });
  for (let m = 0; m <= far; m += 10) {
    root.append(line(x(m), 0, x(m), 2 * side * scale, { class: "grid" }));
    if (m) root.append(text(x(m) + 4, 2 * side * scale - 6, `${m} m`, { class: "tick" }));
  }
  if (frames.corridor_m) root.append(area(0, Math.min(frames.corridor_m.far, far + 2), -frames.corridor_m.half_width, frames.corridor_m.half_width, { fill: "var(--accent)", opacity: 0.09 }));
  root.append(area(-4.5, 0, -0.9, 0.9, { fill: "var(--ink)", rx: 4, "data-tip": `ego, ${number(frame.speed_mps, 1)} m/s` }));
  frame.reference.corners_m.forEach((corners, i) => {
    const chosen = i === frame.reference.decisive;
    root.append(s("polygon", { points: corners.map((c) => `${x(c[0])},${y(c[1])}`).join(" "), fill: "var(--truth)", "fill-opacity": chosen ? 0.75 : 0.35, stroke: chosen ? "var(--ink)" : "none", "stroke-width": 2.5, "data-tip": `reference: ${frame.reference.classes[i] || "object"}${chosen ? "\nwhat the decision should rest on" : ""}` }));
  });
  ends.forEach((item, m) => {
    const colour = m ? "var(--full)" : "var(--cheap)";
    const name = m ? modes[modes.length - 1] : modes[0];
    const inset = m ? 0 : 0.12;
    item.objects_m.forEach(([near, end, low, high], i) => {
      const chosen = i === item.decisive;
      root.append(area(near, end, low - inset, high + inset, { fill: colour, "fill-opacity": chosen ? 0.28 : 0.06, stroke: colour, "stroke-width": chosen ? 4 : 1.6, "stroke-dasharray": m ? null : "6 4", rx: 2, "data-tip": `${name}: ${item.classes[i] || "object"}, ${number(near, 1)} m ahead${chosen ? "\nfixes the action" : ""}` }));
    });
    if (!item.path_m) return;
    const shift = m ? 0.18 : -0.18;
    root.append(s("polyline", { points: item.path_m.map((p) => `${x(p[0])},${y(p[1] + shift)}`).join(" "), fill: "none", stroke: colour, "stroke-width": 3, "stroke-dasharray": m ? null : "7 4", "stroke-linecap": "round" }));
    const last = item.path_m[item.path_m.length - 1];
    root.append(dot(x(last[0]), y(last[1] + shift), colour, { r: 5, "data-tip": `${name} after 3 s: ${item.does}` }));
  });
  return root;
}
