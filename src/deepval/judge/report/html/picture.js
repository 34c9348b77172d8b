// The picture of an answer: quality against cost. Fixed modes are squares, the best blind mixture is dashed, the
// candidate is the one coloured curve. Its band is the interval of its lead, drawn on the dashed line, so it touches that
// line exactly where the answer is not settled. Names stand at the curves, so there is no legend.

const MARGIN = { left: 44, right: 18, top: 28, bottom: 44 };
const LETTER = 4.1; // half the width of a letter
const ALONG = [-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1]; // places along a label
const tickWords = (value) => String(value).replace("-", MINUS);

// spec: { fixed, blind, oracle, others, own, ownName, hinted, hintedName, budget, budgetName, at, whisker, xName, yName }
// with points as [cost, quality]; own.low and own.high are lists of points, too.
function pictureChart(width, spec) {
  const narrow = width < 560;
  const height = spec.height || (narrow ? 400 : 560);
  const all = [spec.blind, spec.oracle, spec.hinted, spec.own, spec.low, spec.high, ...spec.others].flat();
  const [xs, ys] = [spec.fixed.map((mark) => mark.cost), [...all.map((p) => p[1]), ...spec.fixed.map((mark) => mark.quality), ...(spec.whisker || [])]];
  xs.push(...all.map((p) => p[0]));
  const room = 0.06 * (Math.max(...ys) - Math.min(...ys) || 1);
  // An axis from 0 is half empty where the cheap mode is not cheap.
  const [least, most] = [Math.min(...xs), Math.max(...xs) || 1];
  const from = least > 0.4 * most ? least - 0.08 * (most - least) : Math.min(0, least);
  const x = linear(from, most + 0.02 * (most - from), MARGIN.left, width - MARGIN.right);
  const [bottom, top] = [Math.min(...ys) - room, Math.max(...ys) + room];
  const y = linear(bottom, top, height - MARGIN.bottom, MARGIN.top);
  const root = canvas(width, height, spec.label);
  if (spec.tone) root.classList.add(`tone-${spec.tone}`);
  const path = (points) => `M${points.map((p) => `${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("L")}`;
  const add = (kind, d, more = {}) => root.append(s("path", { class: kind, d, ...more }));
  for (const value of twoTicks(bottom, top)) {
    add("grid", `M${MARGIN.left} ${y(value)}H${width - MARGIN.right}`);
    root.append(text(MARGIN.left - 8, y(value) + 4, tickWords(value), { class: "tick", "text-anchor": "end" }));
  }
  // The first tick would stand under those of the other axis.
  for (const value of twoTicks(from, most, (value) => x(value) > MARGIN.left + 24)) root.append(text(x(value), height - MARGIN.bottom + 18, tickWords(value), { class: "tick", "text-anchor": "middle" }));
  root.append(text(4, 14, spec.yName, { class: "tick" }), text(width - MARGIN.right, height - 6, spec.xName, { class: "tick", "text-anchor": "end" }));
  if (known(spec.budget)) {
    add("budget-line", `M${x(spec.budget)} ${MARGIN.top}V${height - MARGIN.bottom}`);
    const atEnd = x(spec.budget) > width - 90;
    root.append(text(x(spec.budget) + (atEnd ? -7 : 7), MARGIN.top + 8, "budget", { class: "tick halo", "text-anchor": atEnd ? "end" : "start" }));
  }
  if (spec.low.length > 1) add("band", `${path(spec.low)}L${path([...spec.high].reverse()).slice(1)}Z`);
  spec.others.forEach((points, i) => add("other", path(points), { "data-tip": spec.otherNames[i] }));
  if (spec.oracle.length) add("oracle", path(spec.oracle));
  add("blind", path(spec.blind));
  if (spec.hinted.length) add("hinted", path(spec.hinted));
  if (spec.own.length) add("curve", path(spec.own));
  pictureLabels(root, spec, { x, y, width, narrow });
  spec.fixed.forEach((mark) => root.append(s("rect", { class: "mode", x: x(mark.cost) - 4.5, y: y(mark.quality) - 4.5, width: 9, height: 9, "data-tip": `always ${mark.name}\n${number(mark.quality, 1)}` })));
  if (spec.whisker) {
    const at = x(spec.fixed.at(-1).cost);
    const [low, high] = spec.whisker.map(y);
    add("whisker", `M${at} ${low}V${high}M${at - 5} ${low}h10M${at - 5} ${high}h10`);
  }
  if (spec.at) root.append(s("circle", { class: "at", cx: x(spec.at[0]), cy: y(spec.at[1]), r: 6 }));
  return root;
}

// The height of a line at a place; it ends where its points end.
function heightOf(points, x) {
  if (x <= points[0][0]) return points[0][1];
  for (let i = 1; i < points.length; i += 1) {
    const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
    if (x <= x1) return x1 === x0 ? y1 : y0 + ((x - x0) / (x1 - x0)) * (y1 - y0);
  }
  return points.at(-1)[1];
}

// Each name stands where its own curve is farthest from all others.
function pictureLabels(root, spec, { x, y, width, narrow }) {
  const placed = (points) => points.map((p) => [x(p[0]), y(p[1])]).sort((a, b) => a[0] - b[0]);
  const lines = [spec.own, spec.blind, spec.oracle, spec.hinted].filter((points) => points.length).map(placed);
  const taken = [];
  // Names of modes first: right below their marks, or before the right edge.
  spec.fixed.forEach((mark) => {
    const half = LETTER * mark.name.length;
    const [cx, cy] = [x(mark.cost), y(mark.quality)];
    const right = cx + 20 + 2 * half < width;
    const near = spec.oracle.length && cy - y(heightOf(spec.oracle, mark.cost)) < 40;
    let at = right ? { x: cx + 11 + half, y: cy + 12 } : { x: width - 8 - half, y: near ? cy + 20 : cy - 16 };
    if (spec.whisker && !right) at = { x: cx - 14 - half, y: cy + 16 };
    while (taken.some((other) => Math.abs(other.x - at.x) < other.half + half && Math.abs(other.y - at.y) < 15)) at = { ...at, y: at.y + 15 };
    taken.push({ ...at, half: half + 6 });
    root.append(text(at.x, at.y + 4, mark.name, { class: "mode-name halo", "text-anchor": "middle" }));
  });
  if (spec.at) taken.push({ x: x(spec.at[0]), y: y(spec.at[1]), half: 12 });
  if (known(spec.budget)) taken.push({ x: x(spec.budget) + 32, y: MARGIN.top + 4, half: 34 });
  const ahead = spec.at && spec.at[1] >= heightOf(spec.blind, spec.at[0]);
  const [above, below] = [[-17, -30, -44, -58], [17, 30, 44, 58]];
  const labels = [
    [spec.oracle, "perfect router", "tick", above],
    [spec.hinted, spec.hintedName, "hint-name", above],
    [spec.blind, "best blind mixture", "tick", ahead ? below : [...below, ...above]],
    [spec.own, spec.ownName, "own-name", ahead ? above : below],
  ];
  for (const [points, name, kind, sides] of labels) {
    if (!points.length || !name) continue;
    const half = LETTER * name.length;
    const line = placed(points);
    const [from, to] = [line[0][0], line.at(-1)[0]];
    let best = null;
    for (let i = 0; i <= 60; i += 1) {
      const cx = from + ((to - from) * i) / 60;
      if (cx - half < 50 || cx + half > width - 12) continue;
      for (const shift of sides) {
        const cy = heightOf(line, cx) + shift;
        if (cy < 26) continue; // there stands the name of the axis
        const gaps = lines.flatMap((other) => ALONG.map((part) => Math.abs(heightOf(other, cx + part * half) - cy)));
        const apart = taken.map((other) => Math.max(0, Math.abs(other.x - cx) - half - other.half, Math.abs(other.y - cy) - 4));
        // Beyond a line of text more room is no better; the middle is.
        const worth = Math.min(16, ...gaps, ...apart) - 0.02 * Math.abs(cx - 0.6 * width) - 0.05 * Math.abs(shift);
        if (!best || worth > best.worth) best = { x: cx, y: cy, half, worth };
      }
    }
    if (!best) continue;
    taken.push(best);
    root.append(text(best.x, best.y + 5, narrow ? shortened(name, 170) : name, { class: `${kind} halo`, "text-anchor": "middle" }));
  }
}

// The picture of the chosen budget: which curve is the candidate, where it stands, and what is grey.
function pictureSpec(cell, state, answer, effect) {
  const [kind, alpha, convention, accounting] = state.budget.split("|");
  const drawn = cell.pictures.find(({ budget }) => budget.kind === kind && (budget.convention || "") === convention && (budget.accounting || "") === accounting);
  if (!drawn) return null;
  const pairs = (points, values = points.quality) => points.cost.map((cost, i) => [cost, values[i]]).filter((p) => known(p[1]));
  const none = { cost: [], quality: [], low: [], high: [] };
  const own = drawn.routers.find((router) => router.name === (DATA.highlight || (answer && answer.candidate))) || none;
  const others = drawn.routers.filter((router) => router !== own);
  const place = drawn.share.findIndex((share) => Math.abs(share - Number(alpha)) < 1e-9);
  const budget = place < 0 ? null : drawn.share_cost[place];
  const row = own === none ? null : cell.result.rows.find((item) => item.allocator === own.name && budgetKey(item) === state.budget);
  const cost = row && known(row.spend) ? row.spend * ({ usd: 1000 }[convention] || (kind === "selection" ? 100 : 1)) : null;
  const [low, high] = [pairs(own, own.low), pairs(own, own.high)];
  const full = drawn.fixed.at(-1);
  return {
    id: "picture", kind: "picture", series: [], label: `${drawn.quality_axis} against ${drawn.cost_axis}`, unit: 1,
    fixed: drawn.fixed, blind: pairs(drawn.blind), oracle: drawn.oracle ? pairs(drawn.oracle) : [],
    own: pairs(own), ownName: own.name, low, high, others: others.map((router) => pairs(router)), otherNames: others.map((router) => router.name),
    hinted: drawn.on_top && answer && answer.on_top ? pairs(drawn.on_top) : [], hintedName: drawn.on_top && drawn.on_top.name,
    budget: effect ? null : budget, at: known(cost) ? [cost, heightOf(pairs(own), cost)] : null,
    whisker: effect && full && known(full.low) ? [full.low, full.high] : null, height: effect && cell.result.units.length ? 430 : null,
    tone: DATA.highlight && row ? TONE[row.answer] : null, xName: drawn.cost_axis, yName: drawn.quality_axis, points: drawn,
  };
}

const pictureLines = (spec) => [["best blind mixture", spec.blind], ["perfect router", spec.oracle], [spec.ownName, spec.own], [spec.hintedName, spec.hinted], ...spec.otherNames.map((name, i) => [name, spec.others[i]]), ...spec.fixed.map((mark) => [`always ${mark.name}`, [[mark.cost, mark.quality]]])].filter(([name, points]) => name && points.length);

// Every unit as a bar: what the full mode removes of its loss. One unit with a tiny loss must not hide all others.
function stripChart(width, spec) {
  const [left, height] = [MARGIN.left, 92];
  const root = canvas(width, height, spec.label);
  const step = (width - left - MARGIN.right) / spec.bars.length;
  const middle = 56;
  root.append(text(left, 12, spec.title, { class: "tick" }));
  spec.bars.forEach(({ unit, share: part }, i) => {
    const size = Math.max(0.5, Math.min(1, Math.abs(part)) * 34);
    root.append(s("rect", { class: part < 0 ? "bad" : "good", x: left + (i + 0.15) * step, y: part < 0 ? middle : middle - size, width: Math.max(0.5, 0.7 * step), height: size, "data-tip": `${unit}: ${percent(part, 0)}` }));
  });
  root.append(line(left, middle, width - MARGIN.right, middle, { class: "axis" }));
  return root;
}

function stripSpec(cell) {
  const { units, setting } = cell.result;
  const full = setting.modes.at(-1);
  const bars = units.filter((item) => item.cheap_loss > 0 && known((item.modes || {})[full])).map((item) => ({ unit: item.unit, share: item.modes[full] / item.cheap_loss }));
  if (bars.length < 2) return null;
  bars.sort((a, b) => b.share - a.share);
  return { id: "strip", kind: "strip", series: [], unit: 100, bars, label: `What ${full} removes of the loss in each ${unitWord(cell)}`, title: `Loss removed in each ${unitWord(cell)}` };
}
