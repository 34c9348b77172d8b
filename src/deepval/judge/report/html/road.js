// A frame from above: lanes or the corridor, what each mode saw, both plans, the logged drive.

const SCALE_PX = 22;
const EMPTY = { lanes: [], drivable_m: [], crosswalks_m: [], ego_m: [[-4.5, -0.9], [0, -0.9], [0, 0.9], [-4.5, 0.9]], driven_m: [] };

function roadView(frame, frames, sources) {
  const ends = sources.slice(0, 2);
  const truth = sources[2];
  const road = frame.road || EMPTY;
  // Without a road, equal paths lie side by side.
  const wayOf = (item) => (item.poses || (item.path_m || []).map(([a, b]) => [null, a, b + (item === ends[0].item ? -0.18 : 0.18)])).map((pose) => [pose[1], pose[2]]);
  const matters = [...road.driven_m, ...road.ego_m, ...sources.flatMap(({ item, objects }) => [...wayOf(item), ...(item.footprint_m || []), ...objects.filter(({ decides }) => decides).flatMap(({ outline }) => outline)])];
  const reach = (values, least, most) => Math.min(most, Math.max(least, ...values));
  const front = reach(matters.map((p) => p[0] + 6), 36, 90);
  const least = frame.road ? 11 : 6;
  const back = frame.road ? reach(matters.map((p) => 5 - p[0]), 12, 30) : 6;
  const left = reach(matters.map((p) => p[1] + 5), least, 40);
  const right = reach(matters.map((p) => 5 - p[1]), least, 40);
  const wide = innerWidth < 704 ? 400 : 760;
  const scale = wide / (front + back);
  const high = (left + right) * scale;
  const x = (m) => (m + back) * scale;
  const y = (m) => (left - m) * scale;
  const points = (list) => list.map((p) => `${x(p[0])},${y(p[1])}`).join(" ");
  const root = s("svg", { viewBox: `0 0 ${wide} ${high + SCALE_PX}`, role: "img", "aria-label": `Bird's-eye view of ${frame.input}: the vehicle drives to the right; objects of both modes and the reference, both plans` });
  const shape = (list, attributes) => root.append(s("polygon", { points: points(list), ...attributes }));
  const way = (list, attributes) => root.append(s("polyline", { points: points(list), fill: "none", ...attributes }));
  for (const outline of road.drivable_m) shape(outline, { fill: "var(--even)", "fill-opacity": 0.18 });
  for (const lane of road.lanes) if (lane.outline_m.length) shape(lane.outline_m, { class: "lane", fill: "var(--even)", "fill-opacity": 0.28, stroke: "var(--card)", "stroke-width": 1.5 });
  for (const lane of road.lanes) if (lane.width_m && lane.centre_m.length) way(lane.centre_m, { class: "strip", stroke: "var(--even)", "stroke-opacity": 0.16, "stroke-width": lane.width_m * scale });
  for (const outline of road.crosswalks_m) shape(outline, { fill: "var(--line)", stroke: "var(--even)", "stroke-width": 1, "stroke-dasharray": "3 3", "data-tip": "crosswalk" });
  for (const lane of road.lanes) if (lane.centre_m.length) way(lane.centre_m, { class: "centreline", stroke: lane.red ? "var(--harmed)" : "var(--even)", "stroke-width": lane.red ? 2.5 : 1.2, "stroke-dasharray": lane.connector && "2 4", "data-tip": lane.red && "shut by a red light" });
  const { corridor_m: corridor } = frames;
  if (corridor && !frame.road) shape([[0, 1], [1, 1], [1, -1], [0, -1]].map(([a, b]) => [a * Math.min(corridor.far, front), b * corridor.half_width]), { class: "corridor", fill: "var(--accent)", opacity: 0.09 });
  for (const { outline, decides, tip } of truth.objects) shape(outline, { class: "truth", fill: truth.colour, "fill-opacity": decides ? 0.8 : 0.45, stroke: decides ? "var(--ink)" : "none", "stroke-width": 2.5, "data-tip": tip });
  for (const { objects, colour, dash } of ends) for (const { outline, decides, tip } of objects) shape(outline, { class: decides ? "seen decisive" : "seen", fill: colour, "fill-opacity": decides ? 0.35 : 0.05, stroke: colour, "stroke-width": decides ? 4 : 1.4, "stroke-dasharray": dash && "5 3", "data-tip": tip });
  shape(road.ego_m, { fill: "var(--ink)", "data-tip": `ego, ${number(frame.speed_mps, 1)} m/s` });
  if (truth.item.poses) way([[0, 0], ...wayOf(truth.item)], { class: "asked", stroke: truth.colour, "stroke-width": 2, "data-tip": `${truth.name}: ${truth.item.does}` });
  ends.slice().reverse().forEach(({ name, item, colour, dash }) => {
    const points = wayOf(item);
    if (!points.length) return;
    const time = (i) => number(item.poses ? item.poses[i][0] : (3 * i) / (points.length - 1), 1);
    const tip = `${name} after ${time(points.length - 1)} s: ${item.does}`;
    const drawn = { stroke: colour, "stroke-dasharray": dash && "5 3", "data-tip": tip };
    if (item.footprint_m) shape(item.footprint_m, { ...drawn, class: "footprint", fill: colour, "fill-opacity": 0.16, "stroke-width": 2 });
    way(item.poses ? [[0, 0], ...points] : points, { ...drawn, class: "planned", "stroke-width": 3, "stroke-linecap": "round" });
    points.forEach((p, i) => root.append(dot(x(p[0]), y(p[1]), colour, { r: i === points.length - 1 ? 4.5 : item.poses ? 2.5 : 0, "data-tip": `${name} after ${time(i)} s` })));
  });
  way(road.driven_m, { class: "driven", stroke: "var(--ink)", "stroke-width": 2, "stroke-dasharray": "1 5", "stroke-linecap": "round", "data-tip": "as it was driven" });
  const put = labeller(root, 12, wide);
  sources.forEach(({ name, main, colour }, k) => {
    if (!main || main.near > front) return;
    const middle = y((main.low + main.high) / 2);
    if (main.closing >= 0.5) root.append(s("path", { class: "closing", d: `M${x(main.near)} ${middle + 7 * k - 7}H${x(main.near - main.closing)}m7-4l-7 4l7 4`, fill: "none", stroke: colour, "stroke-width": 2.5, "data-tip": `${name}: closing ${number(main.closing, 1)} m/s` }));
    put(x(main.far) + 6, middle, `${name}: ${number(main.near, 1)} m${wide < 700 ? "" : main.motion}`, colour, true);
  });
  // The scale lies below the road, on ground of its own: nothing that is drawn can lie under its figures.
  root.append(s("rect", { x: 0, y: high, width: wide, height: SCALE_PX, fill: "var(--card)" }));
  for (let m = Math.ceil(-back / 10) * 10; x(m) + 36 < wide; m += 10) root.append(text(x(m) + 4, high + 15, m ? `${number(m, 0)} m` : "0", { class: "tick" }), line(x(m), high, x(m), high + 7, { stroke: "var(--faint)" }));
  return root;
}
