// A result and other loss weights -> the same point values that judging these weights gives. Intervals stay stale.

// The page carries terms as changes: of the cheap mode from zero, of the others from the cheap mode.
function unpacked(inputs) {
  const expand = (part, usual) => {
    const column = usual.slice();
    part.at.forEach((i, j) => { column[i] = part.is[j]; });
    return column;
  };
  const nothing = inputs.input.map(() => 0);
  const terms = {};
  for (const [name, modes] of Object.entries(inputs.terms)) {
    const [cheap] = Object.keys(modes);
    const first = expand(modes[cheap], nothing);
    terms[name] = Object.fromEntries(Object.entries(modes).map(([mode, part]) => [mode, mode === cheap ? first : expand(part, first)]));
  }
  return { ...inputs, terms };
}

function weighted(inputs, weights, mode) {
  const names = Object.keys(inputs.weights);
  return inputs.input.map((_, i) => names.reduce((sum, name) => sum + weights[name] * inputs.terms[name][mode][i], 0));
}

const orders = new WeakMap();
function ordered(ranks) {
  if (!orders.has(ranks)) orders.set(ranks, ranks.map((_, i) => i).sort((a, b) => ranks[a] - ranks[b] || a - b));
  return orders.get(ranks);
}

// Chance of each input to be among the `slots` first: 1 above the cut, (slots left) / (group size) in the group at it.
function inclusion(ranks, slots) {
  const chance = new Float64Array(ranks.length);
  const order = ordered(ranks);
  for (let start = 0; start < order.length && start < slots; ) {
    let end = start;
    while (end < order.length && ranks[order[end]] === ranks[order[start]]) end += 1;
    const part = Math.min(1, (slots - start) / (end - start));
    for (let i = start; i < end; i += 1) chance[order[i]] = part;
    start = end;
  }
  return chance;
}

const sumOf = (values) => values.reduce((sum, value) => sum + value, 0);

function taken(chance, values) {
  let gain = 0;
  let benefit = 0;
  for (let i = 0; i < values.length; i += 1) {
    gain += chance[i] * values[i];
    benefit += chance[i] * Math.max(values[i], 0);
  }
  return { gain, benefit };
}

const falling = new WeakMap();
function oracleChance(values, slots) {
  if (!falling.has(values)) falling.set(values, values.map((value) => -value));
  const positive = values.filter((value) => value > 0).length;
  return inclusion(falling.get(values), Math.min(slots, positive));
}

function recombined(result, weights) {
  const { inputs } = result;
  const modes = result.setting.modes;
  const cheap = weighted(inputs, weights, modes[0]);
  const full = weighted(inputs, weights, modes.at(-1));
  const values = cheap.map((loss, i) => loss - full[i]);
  const total = { loss: sumOf(cheap), gain: sumOf(values), benefit: sumOf(values.map((v) => Math.max(v, 0))) };
  const size = 2 * total.benefit - total.gain;
  const shareOf = (part) => (total.loss > 0 ? (Math.abs(part) <= 1e-12 * size ? 0 : part) / total.loss : null);
  const slotsOf = new Map(result.rows.filter((row) => row.allocator === "oracle").map((row) => [budgetKey(row), row.slots]));

  function sample(row) {
    const n = values.length;
    if (row.gain === null) return null;
    if (["all-full", `${ALWAYS_MODE}${modes.at(-1)}`].includes(row.allocator)) return total;
    if (["never", `${ALWAYS_MODE}${modes[0]}`].includes(row.allocator)) return { gain: 0, benefit: 0 };
    if (row.allocator === "random") {
      const part = Math.min(row.slots, n) / n;
      return { gain: part * total.gain, benefit: part * total.benefit };
    }
    if (row.allocator === "oracle") return taken(oracleChance(values, row.slots), values);
    const ranks = inputs.ranks[row.allocator];
    return ranks ? taken(inclusion(ranks, row.slots), values) : null;
  }

  const prizes = new Map([...slotsOf].map(([key, slots]) => [key, taken(oracleChance(values, slots), values).gain]));
  const chances = new Map();
  for (const row of result.rows) if (row.allocator === "random") chances.set(budgetKey(row), sample(row).gain);
  const rows = result.rows.map((row) => {
    const found = sample(row);
    const prize = prizes.get(budgetKey(row));
    const fresh = { ...row, stale: true, cheap_loss: total.loss, oracle_gain: row.oracle === "oracle-ladder" ? null : prize };
    if (!found) {
      const why = row.gain === null ? row.reason : "not made again in the page: run the Python";
      return { ...fresh, gain: null, benefit: null, harm: null, gain_share: null, ndg: null, versus_random: null, versus_random_loss: null, reason: why };
    }
    const { gain, benefit } = found;
    const more = gain - chances.get(budgetKey(row));
    const ndg = row.ndg === null && isReference(row.allocator) ? null : prize > 0 ? gain / prize : null;
    return { ...fresh, gain, benefit, harm: Math.max(0, benefit - gain), gain_share: shareOf(gain), ndg, versus_random: shareOf(more), versus_random_loss: more };
  });

  const affected = values.filter((value) => value !== 0).length;
  const harmed = values.filter((value) => value < 0).length;
  const harm_ratio = total.benefit > 0 ? (total.benefit - total.gain) / total.benefit : null;
  const setting = { ...result.setting, cheap_loss: total.loss, affected, harm_rate: affected ? harmed / affected : null, harm_ratio, all_full_share: shareOf(total.gain) };
  const curves = result.curves.map((curve) => curveAgain(curve, inputs, values, total, shareOf));
  return { ...result, stale: true, setting, rows, values, curves, gaps: gapsAgain(result, rows, values), units: unitsAgain(result, values, cheap) };
}

function gapsAgain(result, rows, values) {
  const at = new Map(rows.map((row) => [`${row.allocator}|${budgetKey(row)}`, row]));
  return result.gaps.map((gap) => {
    const row = at.get(`${gap.allocator}|${budgetKey(gap)}`);
    if (gap.gap === null || !row || row.gain === null) return { ...gap, stale: true };
    const after = row.cost === null ? row.oracle_gain : taken(oracleChance(values, row.slots), values).gain;
    return { ...gap, stale: true, gap: row.oracle_gain - row.gain, overhead: row.oracle_gain - after, ranking: after - row.gain, causal: null };
  });
}

function unitsAgain(result, values, cheap) {
  if (!result.units.length) return result.units;
  const { inputs } = result;
  const alpha = result.units[0].alpha;
  const kind = result.rows.some((row) => row.kind === "selection" && row.alpha === alpha) ? "selection" : result.rows[0].kind;
  const slots = (name) => (result.rows.find((row) => row.allocator === name && row.alpha === alpha && row.kind === kind) || {}).slots;
  const names = Object.keys(result.units[0].gains).filter((name) => inputs.ranks[name]);
  const per = (chance) => {
    const sums = new Float64Array(inputs.units.length);
    values.forEach((value, i) => { sums[inputs.unit[i]] += chance[i] * value; });
    return sums;
  };
  const best = per(oracleChance(values, slots("oracle")));
  const parts = Object.fromEntries(names.map((name) => [name, per(inclusion(inputs.ranks[name], slots(name)))]));
  const whole = per(values.map(() => 1));
  const losses = new Float64Array(inputs.units.length);
  cheap.forEach((loss, i) => { losses[inputs.unit[i]] += loss; });
  return result.units.map((unit) => {
    const u = inputs.units.indexOf(unit.unit);
    const gains = Object.fromEntries(names.map((name) => [name, parts[name][u]]));
    return { ...unit, oracle_gain: best[u], cheap_loss: losses[u], gains, modes: { [result.setting.modes.at(-1)]: whole[u] } };
  });
}

function curveAgain(curve, inputs, values, total, shareOf) {
  const n = values.length;
  const ranks = inputs.ranks[curve.allocator];
  const at = (alpha) => {
    const slots = Math.floor(alpha * n + 0.5);
    if (curve.allocator === "random") return shareOf((Math.min(slots, n) / n) * total.gain);
    if (curve.allocator === "oracle") return shareOf(taken(oracleChance(values, slots), values).gain);
    return ranks ? shareOf(taken(inclusion(ranks, slots), values).gain) : null;
  };
  return { ...curve, stale: true, gain_share: curve.alpha.map(at) };
}
