// A frame on its road from above: lanes, what each mode saw as it lies, both plans with the footprint at their end, the logged drive.

const SCALE_PX = 22;

function roadView(frame, frames) {
  const modes = frames.modes;
  const ends = [modes[0], modes[modes.length - 1]].map((name, m) => ({ name, item: frame.modes[name], colour: m ? "var(--full)" : "var(--cheap)", dash: m ? null : "7 4" }));
  const truth = frame.reference;
  const { road } = frame;
  const matters = [...road.driven_m, ...road.ego_m, ...[truth, ...ends.map((end) => end.item)].flatMap((item) => [...(item.poses || []).map((pose) => [pose[1], pose[2]]), ...(item.footprint_m || []), ...(item.decisive === null ? [] : item.corners_m[item.decisive])])];
  const reach = (values, least, most) => Math.min(most, Math.max(least, ...values));
  const front = reach(matters.map((p) => p[0] + 6), 36, 70);
  const back = reach(matters.map((p) => 5 - p[0]), 12, 30);
  const left = reach(matters.map((p) => p[1] + 5), 11, 40);
  const right = reach(matters.map((p) => 5 - p[1]), 11, 40);
  const wide = innerWidth < 704 ? 400 : 760;
  const scale = wide / (front + back);
  const high = (left + right) * scale;
  const x = (m) => (m + back) * scale;
  const y = (m) => (left - m) * scale;
  const points = (list) => list.map((p) => `${x(p[0])},${y(p[1])}`).join(" ");
  const root = s("svg", { viewBox: `0 0 ${wide} ${high + SCALE_PX}`, role: "img", "aria-label": `Bird's-eye view of ${frame.input}: the vehicle drives to the right; lanes, objects of both modes and the reference, both plans` });
  const shape = (list, attributes) => root.append(s("polygon", { points: points(list), ...attributes }));
  const way = (list, attributes) => root.append(s("polyline", { points: points(list), fill: "none", ...attributes }));
  for (const outline of road.drivable_m) shape(outline, { fill: "var(--even)", "fill-opacity": 0.18 });
  for (const lane of road.lanes) if (lane.outline_m.length) shape(lane.outline_m, { class: "lane", fill: "var(--even)", "fill-opacity": 0.28, stroke: "var(--card)", "stroke-width": 1.5 });
  for (const lane of road.lanes) if (lane.width_m && lane.centre_m.length) way(lane.centre_m, { class: "strip", stroke: "var(--even)", "stroke-opacity": 0.16, "stroke-width": lane.width_m * scale });
  for (const outline of road.crosswalks_m) shape(outline, { fill: "var(--line)", stroke: "var(--even)", "stroke-width": 1, "stroke-dasharray": "3 3", "data-tip": "crosswalk" });
  for (const lane of road.lanes) if (lane.centre_m.length) way(lane.centre_m, { class: "centreline", stroke: lane.red ? "var(--harmed)" : "var(--even)", "stroke-width": lane.red ? 2.5 : 1.2, "stroke-dasharray": lane.connector ? "2 4" : null, "data-tip": lane.red ? "shut by a red light" : null });
  truth.corners_m.forEach((corners, i) => {
    const chosen = i === truth.decisive;
    shape(corners, { class: "truth", fill: "var(--truth)", "fill-opacity": chosen ? 0.8 : 0.45, stroke: chosen ? "var(--ink)" : "none", "stroke-width": 2.5, "data-tip": `reference: ${truth.classes[i] || "object"}${chosen ? "\nwhat the plan should rest on" : ""}` });
  });
  ends.forEach(({ name, item, colour, dash }) => item.corners_m.forEach((corners, i) => {
    const chosen = i === item.decisive;
    shape(corners, { class: chosen ? "seen decisive" : "seen", fill: colour, "fill-opacity": chosen ? 0.35 : 0.05, stroke: colour, "stroke-width": chosen ? 4 : 1.4, "stroke-dasharray": dash && "5 3", "data-tip": `${name}: ${item.classes[i] || "object"}, ${number(item.objects_m[i][0], 1)} m ahead${chosen ? "\nfixes the plan" : ""}` });
  }));
  shape(road.ego_m, { fill: "var(--ink)", "data-tip": `ego, ${number(frame.speed_mps, 1)} m/s` });
  if (truth.poses) way([[0, 0], ...truth.poses.map((pose) => [pose[1], pose[2]])], { class: "asked", stroke: "var(--truth)", "stroke-width": 2, "data-tip": `reference: ${truth.does}` });
  ends.slice().reverse().forEach(({ name, item, colour, dash }) => {
    if (!item.poses) return;
    const last = item.poses[item.poses.length - 1];
    const tip = `${name} after ${number(last[0], 0)} s: ${item.does}`;
    shape(item.footprint_m, { class: "footprint", fill: colour, "fill-opacity": 0.16, stroke: colour, "stroke-width": 2, "stroke-dasharray": dash && "5 3", "data-tip": tip });
    way([[0, 0], ...item.poses.map((pose) => [pose[1], pose[2]])], { class: "planned", stroke: colour, "stroke-width": 3, "stroke-dasharray": dash, "stroke-linecap": "round", "data-tip": tip });
    for (const pose of item.poses) root.append(dot(x(pose[1]), y(pose[2]), colour, { r: pose === last ? 4.5 : 2.5, "data-tip": `${name} after ${number(pose[0], 1)} s` }));
  });
  way(road.driven_m, { class: "driven", stroke: "var(--ink)", "stroke-width": 2, "stroke-dasharray": "1 5", "stroke-linecap": "round", "data-tip": "as it was driven" });
  // The scale lies below the road, on ground of its own: nothing that is drawn can lie under its figures.
  root.append(s("rect", { x: 0, y: high, width: wide, height: SCALE_PX, fill: "var(--card)" }));
  for (let m = Math.ceil(-back / 10) * 10; x(m) + 36 < wide; m += 10) root.append(text(x(m) + 4, high + 15, m ? `${number(m, 0)} m` : "0", { class: "tick" }), line(x(m), high, x(m), high + 7, { stroke: "var(--faint)" }));
  return root;
}
