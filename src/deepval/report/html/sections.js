// One function per section: (cell, view, state) -> element. `view` is the result, or the result under other weights.

const absent = (...what) => h("p", { class: "absent" }, "Not measured: ", ...what);
const code = (content) => h("code", {}, content);

function block(id, title, lead, ...children) {
  return h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), lead ? h("p", { class: "lead" }, lead) : null, ...children);
}

// A chart that is drawn again when its width changes, with its numbers behind it.
function chart(draw, table, legend) {
  const holder = h("figure");
  holder.draw = () => {
    const width = Math.round(holder.clientWidth || 900);
    if (width === holder.width) return;
    holder.width = width;
    holder.replaceChildren(draw(width), ...(legend && legend(width) ? [legend(width)] : []));
  };
  return h("div", { class: "chart" }, holder, table);
}

function legendOf(items) {
  return h("ul", { class: "legend" }, items.map(([name, colour, stroke]) =>
    h("li", {}, h("i", { class: stroke ? "stroke" : null, style: stroke ? `border-color: ${colour}; border-top-style: ${stroke}` : `background: ${colour}` }), name)));
}

// Opened on demand.
const folded = (summary, ...children) => h("details", { class: "more", ontoggle: () => state.draw() }, h("summary", {}, summary), ...children);

function jump(event) {
  event.preventDefault();
  document.querySelector(event.currentTarget.getAttribute("href")).scrollIntoView();
}

const verdictColour = { better: "var(--helped)", worse: "var(--harmed)" };
const rowsAt = (view, key) => view.rows.filter((row) => budgetKey(row) === key);
const own = (rows) => rows.filter((row) => !isReference(row.allocator));

// Allocators by what the result says of them at a budget, the best first; the order stays while sliders move.
function bestFirst(cell, key, items) {
  const judged = new Map(rowsAt(cell.result, key).map((row) => [row.allocator, row.versus_random]));
  const value = (item) => (known(judged.get(item.allocator)) ? judged.get(item.allocator) : null);
  const place = (item) => (["random", "random-ladder"].includes(item.allocator) ? 0 : ["never", "all-full"].includes(item.allocator) ? 1 : isReference(item.allocator) ? 3 : 2);
  const falling = (a, b) => (a === null || b === null ? compared(a, b) : b - a);
  return [...items].sort((a, b) => place(a) - place(b) || falling(value(a), value(b)));
}

function chipOf(row) {
  const how = standing(row);
  const words = { stale: "not judged yet", weak: "uncertain", never: "never is better", always: "always is better", unpaid: "not shown to pay" };
  return h("span", { class: `chip ${["never", "always"].includes(how) ? "worse" : how}`, title: row.answer || row.verdict_words }, words[how] || how || row.verdict_words || "no verdict");
}

// What weakens a decided verdict, as it stands behind its word: " on few units, but rests on 0007".
function weakness(row) {
  const words = row.verdict_words || "";
  return ["better", "worse"].includes(row.verdict) && words.startsWith(row.verdict) ? words.slice(row.verdict.length) : "";
}

// The second opinion, where it says something else than the verdict.
function otherOpinion(row) {
  if (row.stale || !row.second_verdict || row.second_verdict === row.verdict) return "";
  const inLoss = row.versus_random_unit === "loss";
  const bounds = inLoss ? span(row.versus_random_loss_second_lo, row.versus_random_loss_second_hi, (v) => number(v)) : span(row.versus_random_second_lo, row.versus_random_second_hi, (v) => signed(v));
  return h("span", { class: "num" }, `; second opinion: ${row.second_verdict} ${bounds}`);
}

function sentence(row) {
  const at = budgetLabel(row);
  const name = h("strong", {}, row.allocator);
  if (row.verdict === "infeasible" || row.gain === null) return h("p", {}, name, ` has no value at ${at}: ${row.reason || "undefined"}.`);
  const around = row.stale ? "" : span(row.versus_never_lo, row.versus_never_hi, (v) => number(100 * v, 1));
  const gains = row.gain_share === null
    ? `gain ${number(row.gain)} in units of the loss; a share of the all-cheap loss is undefined`
    : beyond(row.gain_share) ? `gain ${Number(row.gain.toPrecision(3))} in units of the loss; the all-cheap loss is almost zero`
    : `gain ${percent(row.gain_share)} of the all-cheap loss${around ? ` ${around}` : ""}`;
  const interval = span(row.versus_random_lo, row.versus_random_hi, (v) => signed(v));
  const shown = interval ? [" ", h("span", { class: row.stale ? "stale-text num" : "num", title: row.stale ? "as judged with the weights of the result" : null }, interval)] : ` (no interval: ${row.reason || "undefined"})`;
  const difference = row.versus_random_unit === "loss" ? lossDifference(row) : row.versus_random === null ? "" : h("span", { class: "num" }, `; ${signed(row.versus_random)} points against ${chanceOf(row)}`, shown);
  const words = { better: ` is better than ${chanceOf(row)} at ${at}${weakness(row)}: `, worse: ` is worse than ${chanceOf(row)} at ${at}${weakness(row)}: `, unresolved: ` is not told apart from ${chanceOf(row)} at ${at}: ` };
  return h("p", {}, name, row.stale ? ` at ${at}: ` : row.answer ? ` at ${at}${row.spender ? "," : ""} is ${row.answer}: ` : words[row.verdict] || ` at ${at}: `, gains, difference, otherOpinion(row), ".");
}

// Without a usable all-cheap loss, the difference is in units of the loss.
function lossDifference(row) {
  if (!known(row.versus_random_loss)) return "";
  const bounds = row.stale ? "" : span(row.versus_random_loss_lo, row.versus_random_loss_hi, (v) => number(v));
  return h("span", { class: "num" }, `; ${number(row.versus_random_loss)} against ${chanceOf(row)} in units of the loss ${bounds || `(no interval: ${row.reason || "undefined"})`}`);
}

const against = (row, name) => {
  const inLoss = row.versus_random_unit === "loss";
  const key = `versus_${name}${inLoss ? "_loss" : ""}`;
  const form = inLoss ? (v) => number(v) : (v) => signed(v);
  return known(row[key]) ? `${form(row[key])} ${inLoss ? "in units of the loss" : "points"} ${span(row[`${key}_lo`], row[`${key}_hi`], form)}`.trim() : "";
};

function numbersOf(row) {
  const [chance, never] = ["random", "never"].map((name) => against(row, name));
  return chance ? `${chance} against ${chanceOf(row)}${never ? `, ${never.replace(" points", "")} against never escalating` : ""}` : row.reason || "no value";
}

// What speaks against a verdict of better.
function doubts(row) {
  const few = weakness(row).startsWith(" on few units") ? ["the gain comes from few units"] : [];
  const rests = known(row.rests_on) ? [`it rests on ${row.rests_on}`] : [];
  return listed([...few, ...rests, ...(row.second_verdict && row.second_verdict !== "better" ? [`the second opinion is ${row.second_verdict}`] : [])]);
}

// The answer in one sentence, and the row that it is about.
function answerOf(rows) {
  const at = share(rows[0].alpha);
  const first = (how) => rows.find((row) => standing(row) === how);
  if (rows[0].stale) return { words: `With other loss weights, at ${at}: the values below are exact, the verdicts need the command.` };
  const [good, weak, unpaid] = ["better", "weak", "unpaid"].map(first);
  const beaten = first("never") || first("always");
  if (good) return { row: good, words: `Run ${good.allocator} at ${at}: ${numbersOf(good)}.` };
  if (weak) return { row: weak, words: `Perhaps ${weak.allocator} at ${at}, but ${doubts(weak)}: ${numbersOf(weak)}.` };
  const closest = rows.find((row) => known(row.versus_random));
  const why = beaten ? `${standing(beaten)} escalating is better` : unpaid ? "no gain over never escalating is certain" : `none is shown to beat ${chanceOf(rows[0])}`;
  return { words: `Nothing here is shown to be worth it at ${at}: ${why}. ${closest ? `Closest: ${closest.allocator}, ${numbersOf(closest)}.` : rows[0].reason ? `${rows[0].allocator}: ${rows[0].reason}.` : ""}` };
}

function others(rows) {
  const kinds = [["better", "worth running"], ["weak", "uncertain"], ["unpaid", "not shown to pay"], ["never", "beaten by never escalating"], ["always", "beaten by always escalating"], ["unresolved", "not told apart from random"], ["worse", "worse than random"], ["infeasible", "unable to pay for themselves"], ["", "without a verdict"]];
  const parts = kinds.map(([how, words]) => [rows.filter((row) => standing(row) === how), words]).filter(([items]) => items.length);
  return rows[0].stale ? "" : `${count(rows.length)} ${rows.length === 1 ? "allocator" : "allocators"}: ${parts.map(([items, words]) => `${items.length} ${words}${items.length < 4 ? ` (${listed(items.map((row) => row.allocator))})` : ""}`).join(", ")}.`;
}

const driving = (cell) => Boolean(cell.frames || cell.result.provenance.cell);

function dataWords(cell) {
  const id = cell.result.provenance.cell;
  const name = cell.frames ? cell.frames.dataset : id ? id.split("-")[0] : null;
  return name === "synthetic" ? "Synthetic data (a simulated world, not real drives)" : name ? `Data set ${name}` : "A table of losses (its data set is not named)";
}

function nextStep(cell, row) {
  const { provenance } = cell.result;
  const folder = provenance.cell ? quoted(groupOf(cell)) : "values.csv";
  const budget = row && row.kind !== "selection" ? ` --budget ${row.kind}` : "";
  return row
    ? [`Choose its threshold, and write the router that runs it:`, `deepval threshold ${folder} -s ${quoted(provenance.cell ? row.allocator : `${row.allocator}.csv`)} --alpha ${row.alpha}${budget} --out router.json`]
    : ["See how many units would settle it, and what decides here:", `deepval diagnose ${folder} --resolve 0.02`];
}

function hero(cell, view, state) {
  const rows = bestFirst(cell, state.budget, own(rowsAt(view, state.budget)));
  const { setting } = view;
  const answer = rows.length ? answerOf(rows) : { words: "No allocator was judged." };
  const [why, command] = nextStep(cell, answer.row);
  const many = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
  return h("section", { class: "hero", id: "verdict", "aria-label": "Verdict" },
    h("p", { class: "kicker" }, h("strong", {}, dataWords(cell)), ` · ${cell.name} · ${setting.modes.join(" → ")} · ${many(setting.inputs, "input")} in ${setting.units} `, term("unit", setting.units === 1 ? "unit" : "units"), ` · ${budgetLabel(rows[0] || view.rows[0])}`),
    h("h1", {}, answer.words),
    rows.length ? h("p", { class: "lead others" }, others(rows)) : null,
    h("div", { class: "first" },
      h("div", {}, rows.length ? differences(cell, view, state) : null),
      h("div", {}, h("h3", {}, `Does ${setting.modes[setting.modes.length - 1]} help or harm?`), signBar(setting),
        h("h3", {}, "What next"), h("p", {}, why), h("pre", { class: "command", id: "next", tabindex: "0" }, command.replaceAll(" --", " \\\n  --")),
        h("p", { class: "note" }, "Words: ", ["points", "random", "never", "interval", "second opinion"].map((name, i) => [i ? ", " : "", term(name)]), "; ", h("a", { href: "#glossary", onclick: jump }, "all words"), "."))));
}

// Every verdict as a sentence, and what it rests on.
function verdictsSection(cell, view, state) {
  const rows = bestFirst(cell, state.budget, own(rowsAt(view, state.budget)));
  const verdicts = (items) => h("ul", { class: "verdicts" }, items.map((row) => h("li", { "data-allocator": row.allocator }, chipOf(row), sentence(row))));
  const spending = own(view.rows).filter((row) => row.spender && !rows.includes(row));
  return h("section", { class: "plain", id: "verdicts", "aria-label": "Verdicts" },
    view.warnings.map((warning) => h("p", { class: "note warn" }, warning)),
    spending.length ? verdicts(spending) : null,
    folded(`Every verdict in words (${rows.length})`, verdicts(rows)),
    onLadder(rows) ? h("p", { class: "note" }, "Scores per mode are compared with random-ladder, the best mixture of modes that looks at no input, and their nDG divides by oracle-ladder; plain scores with random, by oracle.") : null,
    h("p", { class: "note" }, `${view.comparisons} comparisons with random; ${view.rows.some((row) => known(row.versus_random_loss_simultaneous_lo)) ? "verdicts have no correction for multiple comparisons; the table has intervals for all rows at once" : "no correction for multiple comparisons"}. Brackets are 95 % intervals over units${drawsWords(view)}.${weakWords(rows)}`));
}

function weakWords(rows) {
  if (!rows.length || rows[0].stale) return "";
  const said = [];
  if (rows.some((row) => weakness(row).startsWith(" on few units"))) said.push("On few units: the possible gain comes from fewer than 3 units, where such intervals covered the truth in 61 % of simulated samples.");
  if (rows.some((row) => known(row.rests_on))) said.push("Rests on: without that unit the verdict changes.");
  if (rows.some((row) => row.second_verdict && row.second_verdict !== row.verdict)) said.push("Second opinion: wider intervals for few or unequal units.");
  return said.map((text) => ` ${text}`).join("");
}

function drawsWords(view) {
  const { method, number: n, seed } = view.provenance.draws;
  if (method === "none") return ", of which none were drawn";
  return method === "drawn" ? ` (${count(n)} draws, seed ${seed})` : ` (all ${count(n)} draws enumerated)`;
}

function overview(cells, cell, state, choose) {
  const names = [...new Set(cells.flatMap((cell) => own(rowsAt(cell.result, state.budget)).map((row) => row.allocator)))].sort();
  const judged = (cell) => cell.result.rows.some((row) => budgetKey(row) === state.budget);
  const rows = cells.filter(judged).map((other) => h("tr", {},
    h("th", { scope: "row" }, h("button", { type: "button", class: "quiet", onclick: () => choose(CELLS.indexOf(other)), "aria-pressed": String(other === cell) }, groupOf(other))),
    names.map((name) => {
      const row = other.result.rows.find((item) => item.allocator === name && budgetKey(item) === state.budget);
      if (!row) return h("td", {}, h("span", { class: "undefined" }, "not judged"));
      if (row.versus_random === null) return h("td", {}, h("span", { class: "undefined", title: row.reason }, row.verdict || row.verdict_words || "undefined"));
      return h("td", { "data-tip": `${row.answer || row.verdict}\n${span(row.versus_random_lo, row.versus_random_hi, (v) => signed(v))}` }, h("span", { class: markOf(row) }, `${signed(row.versus_random)}${row.verdict === "worse" ? "*" : ""}`));
    })));
  const budget = cells.flatMap((cell) => cell.result.rows).find((row) => budgetKey(row) === state.budget);
  return block("overview", "All cells at a glance", `As judged: difference with random in points of the all-cheap loss at ${budget ? budgetLabel(budget) : "this budget"}; blue where it is worth it and nothing speaks against it, orange with an asterisk where it is worse. Choose a cell to read below.`,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Overview of cells" }, h("table", { class: "overview" }, h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "words" }, "cell"), names.map((name) => h("th", { scope: "col", style: "text-align: center" }, name)))), h("tbody", {}, rows))));
}

function byInput({ inputs, concentration: { half_inputs: few, half_inputs_share: part } }) {
  return known(few) ? `, and ${count(few)} of ${count(inputs)} inputs ${few === 1 ? "has" : "have"} ${percent(part)}` : "";
}

function signBar(setting) {
  const harmed = setting.harm_rate === null ? 0 : Math.round(setting.affected * setting.harm_rate);
  const helped = setting.affected - harmed;
  const parts = [["helped", helped], ["unaffected", setting.inputs - setting.affected], ["harmed", harmed]];
  const colour = { helped: "var(--helped)", unaffected: "var(--even)", harmed: "var(--harmed)" };
  return [h("div", { class: "signbar", role: "img", "aria-label": parts.map(([name, n]) => `${n} inputs ${name}`).join(", ") }, parts.map(([name, n]) => h("span", { style: `flex: ${n}; background: ${colour[name]}`, "data-tip": `${name}: ${n}` }))),
    legendOf(parts.map(([name, n]) => [`${name} ${count(n)} (${percent(n / setting.inputs)})`, colour[name]]))];
}

function signs(cell, view) {
  const { setting } = view;
  const ratio = setting.harm_ratio;
  const best = (setting.budgets.find((item) => item.alpha === 0.2) || setting.budgets[0]);
  const fact = (name, value, detail) => h("div", {}, h("dt", {}, name), h("dd", {}, value), detail ? h("dd", {}, h("small", {}, detail)) : null);
  const orNot = (value, form) => (value === null ? h("span", { class: "undefined" }, "undefined") : form(value));
  return block("sign", "How much is there to gain?", "The decision value of an input is the loss under the cheap mode minus the loss under the full mode. It has a sign: more compute can make a decision worse.",
    h("dl", { class: "facts num" },
      fact("harm ratio", orNot(ratio, (v) => number(v, 3)), ratio === null ? "nothing is helped" : `${number(ratio, 2)} lost for every 1 gained`),
      fact("harm rate", orNot(setting.harm_rate, percent), setting.harm_rate === null ? "no input is affected" : "of the affected inputs"),
      fact("escalate everything", orNot(setting.all_full_share, percent), beyond(setting.all_full_share) ? `of the all-cheap loss removed, which is almost zero: ${Number((setting.all_full_share * setting.cheap_loss).toPrecision(3))} in units of the loss` : "of the all-cheap loss removed"),
      view.stale ? null : fact(`oracle at ${share(best.alpha)}`, orNot(best.oracle_share, percent), `${best.budget_binds ? "more than" : "at most"} ${share(best.alpha)} of the inputs are worth escalating`),
      fact("all-cheap loss", count(Number(setting.cheap_loss.toPrecision(5))), `of ${count(setting.inputs)} inputs`)),
    setting.concentration.top_unit === null || view.stale ? null : h("p", { class: "note" }, `The possible gain comes from about ${number(setting.concentration.effective_units, 1)} units; the largest (unit ${setting.concentration.top_unit}) has ${percent(setting.concentration.top_share)} of it${byInput(setting)}.`));
}

function differences(cell, view, state) {
  const judged = bestFirst(cell, state.budget, own(rowsAt(view, state.budget)));
  const rows = [...judged, ...uniform(view, state, judged)].map((row) => ({ ...row, name: row.allocator }));
  const domain = domainOf(rows.flatMap((row) => [row.versus_random, row.versus_random_lo, row.versus_random_hi]));
  const against = listed([...new Set(judged.map(chanceOf))]);
  const label = "Difference with random of every allocator with its 95 % interval";
  const words = (row) => (known(row.versus_random) ? `${signed(row.versus_random)}${row.stale ? "" : ` ${span(row.versus_random_lo, row.versus_random_hi, (v) => signed(v))}`}` : "");
  const draw = (width) => rowChart(width, rows, {
    domain, label, tick: (v) => signed(v, Math.abs(domain[1] - domain[0]) < 0.05 ? 1 : 0), axis: `points of the all-cheap loss, against ${against} at the same budget`, valueText: words, valueRoom: 165, step: 22,
    note: (row) => (known(row.versus_random) ? "" : `${row.verdict || "undefined"}: ${row.reason || ""}`),
    mark: (g, row, x, y) => {
      const colour = row.stale ? "var(--unsure)" : verdictColour[markOf(row)] || "var(--unsure)";
      if (known(row.versus_random_lo)) g.append(line(x(row.versus_random_lo), y, x(row.versus_random_hi), y, { stroke: colour, "stroke-width": 3, "stroke-linecap": "round", opacity: 0.55, class: row.stale ? "stale-line" : null }));
      if (["never", "always"].includes(row.name)) g.append(bar(x(row.versus_random) - 4, x(row.versus_random) + 4, y - 4, 8, "var(--ink)"));
      else g.append(dot(x(row.versus_random), y, colour, row.verdict !== "worse" && !verdictColour[markOf(row)] && !row.stale ? { fill: "var(--card)", stroke: colour, "stroke-width": 2.5 } : {}));
    },
  });
  const mixed = onLadder(rows);
  const table = behind("Difference with random", ["allocator", ...(mixed ? ["chance"] : []), "points", "95 % low", "95 % high", "second low", "second high", "second opinion", "verdict"], rows.map((row) => [row.name, ...(mixed ? [chanceOf(row)] : []), signed(row.versus_random, 2), ...(row.stale ? [...Array(5).fill("not recomputed"), "not judged yet"] : [signed(row.versus_random_lo, 2), signed(row.versus_random_hi, 2), signed(row.versus_random_second_lo, 2), signed(row.versus_random_second_hi, 2), row.second_verdict || "", row.verdict_words || row.verdict || ""])]));
  return chart(draw, table, () => legendOf(view.stale ? [["not judged yet; dashed: interval of the result's own weights", "var(--unsure)"]] : [["worth it", "var(--helped)"], ["worse than random", "var(--harmed)"], ["not shown", "var(--unsure)"], ["for comparison", "var(--ink)"]]));
}

// Never and always escalating against the random baseline of the rows: its own differences with them, reversed.
function uniform(view, state, judged) {
  const base = judged.length ? rowsAt(view, state.budget).find((row) => row.allocator === chanceOf(judged[0])) : null;
  if (!base || !known(base.gain_share)) return [];
  const turned = (value) => (known(value) && !view.stale ? -value : null);
  return [["never", 0], ["always", view.setting.all_full_share]].map(([allocator, gain]) => ({ allocator, chance: base.allocator, stale: view.stale, versus_random: gain - base.gain_share, versus_random_lo: turned(base[`versus_${allocator}_hi`]), versus_random_hi: turned(base[`versus_${allocator}_lo`]) }));
}

// Under selection budgets: allocators without a curve as points, and the references of the rows.
function pointsOf(view) {
  const rows = view.rows.filter((row) => row.kind === "selection" && known(row.gain_share));
  const names = new Set(own(rows).filter((row) => !view.curves.some((curve) => curve.allocator === row.allocator)).flatMap((row) => [row.allocator, row.chance, row.oracle]));
  return [...names].filter((name) => !view.curves.some((curve) => curve.allocator === name)).map((name) => {
    const found = rows.filter((row) => row.allocator === name).sort((a, b) => a.alpha - b.alpha);
    const list = (column) => found.map((row) => row[column]);
    return { allocator: name, alpha: list("alpha"), gain_share: list("gain_share"), lo: list("versus_never_lo"), hi: list("versus_never_hi"), lone: !isReference(name), stale: view.stale };
  });
}

function curves(cell, view, state) {
  if (!view.curves.length) return [absent("gain against budget; evaluate with ", code("--curve 20"), ".")];
  const names = bestFirst(cell, state.budget, view.curves).filter((curve) => !isReference(curve.allocator)).map((curve) => curve.allocator);
  if (!["", "all", ...names].includes(state.band)) state.band = names.length > 4 ? names[0] : "all";
  const beside = new Set(own(view.rows).flatMap((row) => [row.chance, row.oracle]));
  const all = [...view.curves.filter((curve) => !isReference(curve.allocator) || beside.has(curve.allocator)), ...pointsOf(view)];
  const lines = all.map((curve) => ({ ...curve, plain: isReference(curve.allocator), allocator: beside.has(`${curve.allocator}-ladder`) && isReference(curve.allocator) ? `${curve.allocator}, full only` : curve.allocator, band: !curve.lone && !isReference(curve.allocator) && ["all", curve.allocator].includes(state.band), colour: isReference(curve.allocator) ? "var(--reference)" : state.colours[curve.allocator], dash: curve.allocator.startsWith("random") && isReference(curve.allocator) ? "5 4" : isReference(curve.allocator) ? "1.5 4" : state.dashes[curve.allocator] }));
  if (lines.every((item) => item.gain_share.every((v) => v === null))) return [absent("shares of the all-cheap loss are undefined, because it is not positive.")];
  const budget = view.rows.find((row) => budgetKey(row) === state.budget);
  const points = budget && budget.kind === "selection" ? [budget.alpha] : [];
  const draw = (width) => curveChart(width, lines, { label: "Gain share against the share of inputs escalated, one line per allocator with its 95 % interval", points });
  const choice = h("select", { id: "band" }, [["all", "every allocator"], ...names.map((name) => [name, name]), ["", "none"]].map(([value, label]) => h("option", { value }, label)));
  choice.value = state.band;
  choice.addEventListener("change", () => { state.band = choice.value; state.again("gains"); document.getElementById("band").focus(); });
  const table = behind("Gain against budget", ["allocator", "escalated", "gain", "95 % low", "95 % high"], lines.flatMap((item) => item.alpha.map((a, i) => [item.allocator, share(a), percent(item.gain_share[i], 2), ...(item.stale ? ["not recomputed", "not recomputed"] : [percent(item.lo[i], 2), percent(item.hi[i], 2)])])));
  return [h("p", { class: "lead" }, "Share of the all-cheap loss that is removed, with bands of 95 %. At 0 nothing is escalated (never), at the right end everything (always), so all lines meet."), h("p", { class: "row filters" }, h("label", { for: "band", class: "lead" }, "Band of"), choice),
    chart(draw, table, (width) => (width < 560 ? legendOf(lines.map((item) => [item.allocator, item.colour, item.dash ? "dashed" : "solid"])) : null))];
}

function benefitAndHarm(cell, view, state) {
  // The references that the verdicts use, and no other.
  const beside = new Set(["never", "all-full", ...own(rowsAt(view, state.budget)).flatMap((row) => [row.chance || "random", row.oracle || "oracle"])]);
  const rows = bestFirst(cell, state.budget, rowsAt(view, state.budget)).filter((row) => !isReference(row.allocator) || beside.has(row.allocator)).map((row) => ({ ...row, name: `${nameOf(row)}${beside.has(`${row.allocator}-ladder`) ? ", full only" : ""}` }));
  const per = (row, value) => (known(value) && row.cheap_loss > 0 ? value / row.cheap_loss : null);
  const domain = domainOf(rows.flatMap((row) => [per(row, row.benefit), known(row.harm) ? -per(row, row.harm) : null]));
  const draw = (width) => rowChart(width, rows, {
    domain, label: "Benefit and harm of what every allocator escalates", tick: (v) => `${number(100 * Math.abs(v), 0)}`, axis: "harm ← % of the all-cheap loss → benefit", valueRoom: 130,
    valueText: (row) => (known(per(row, row.gain)) ? `net ${signed(per(row, row.gain))}` : ""),
    note: (row) => (known(per(row, row.benefit)) ? "" : row.reason || "undefined"),
    mark: (g, row, x, y) => {
      const soft = isReference(row.allocator) ? 0.45 : 1;
      g.append(bar(x(0), x(per(row, row.benefit)), y - 9, 18, "var(--helped)", { opacity: soft }), bar(x(0), x(-per(row, row.harm)), y - 9, 18, "var(--harmed)", { opacity: soft }));
      g.append(line(x(per(row, row.gain)), y - 12, x(per(row, row.gain)), y + 12, { stroke: "var(--ink)", "stroke-width": 2 }));
    },
  });
  const table = behind("Benefit and harm", ["allocator", "benefit", "harm", "gain"], rows.map((row) => [row.name, percent(per(row, row.benefit), 2), percent(per(row, row.harm), 2), percent(per(row, row.gain), 2)]));
  return block("harm", "Benefit and harm", "Benefit is the value of the helped inputs that are escalated, harm that of the harmed ones. The dark tick is the difference: the gain.", chart(draw, table, () => legendOf([["benefit", "var(--helped)"], ["harm", "var(--harmed)"], ["gain", "var(--ink)"]])));
}

function charged(cell, view) {
  const measured = [...new Map(view.rows.filter((row) => row.kind !== "selection" && !row.spender).map((row) => [budgetKey(row), row])).values()];
  const lead = "An allocator pays for its own computation from the same budget, so fewer inputs can be escalated. Open: gain at the same share without its cost; filled: with its cost.";
  if (!measured.length) return block("charged", "With and without its own cost", lead, absent("no time, energy or money budget was judged; use ", code("--costs costs.toml"), "."));
  const parts = measured.map((first) => {
    const rows = own(rowsAt(view, budgetKey(first))).map((row) => ({ ...row, name: row.allocator, free: view.rows.find((other) => other.allocator === row.allocator && other.kind === "selection" && other.alpha === row.alpha) }));
    const freeShare = (row) => (row.free ? row.free.gain_share : null);
    const domain = domainOf(rows.flatMap((row) => [row.gain_share, freeShare(row)]));
    const draw = (width) => rowChart(width, rows, {
      domain, label: `Gain free and charged at ${budgetLabel(first)}`, tick: (v) => number(100 * v, 0), axis: "gain, % of the all-cheap loss", valueRoom: 170,
      valueText: (row) => (known(row.cost) ? `costs ${Number(row.cost.toPrecision(4))} ${UNITS[row.convention] || row.convention}` : ""),
      note: (row) => (known(row.gain_share) || known(freeShare(row)) ? "" : row.reason || "undefined"),
      mark: (g, row, x, y) => {
        if (known(freeShare(row)) && known(row.gain_share)) g.append(line(x(freeShare(row)), y, x(row.gain_share), y, { stroke: row.gain_share < freeShare(row) ? "var(--harmed)" : "var(--unsure)", "stroke-width": 3, opacity: 0.6 }));
        if (known(freeShare(row))) g.append(dot(x(freeShare(row)), y, "var(--card)", { stroke: "var(--unsure)", "stroke-width": 2.2 }));
        if (known(row.gain_share)) g.append(dot(x(row.gain_share), y, "var(--ink)", { r: 4.5 }));
        else {
          // On the side where there is room: the costs stand to the right of the chart.
          const late = freeShare(row) > Math.max(...rows.map(freeShare).filter(known)) / 2;
          g.append(text(x(freeShare(row)) + (late ? -12 : 12), y + 4, "cannot pay for itself", { class: "gone", "text-anchor": late ? "end" : "start" }));
        }
      },
    });
    const table = behind(`Free and charged, ${budgetLabel(first)}`, ["allocator", "cost", "free", "charged", "slots", "why"], rows.map((row) => [row.name, known(row.cost) ? row.cost : "undefined", percent(freeShare(row), 2), percent(row.gain_share, 2), known(row.slots) ? row.slots : "undefined", row.reason || ""]));
    return [h("h3", {}, budgetLabel(first)), chart(draw, table)];
  });
  return block("charged", "With and without its own cost", lead, parts, breakEven(view));
}

function breakEven(view) {
  const gaps = view.gaps.filter((gap) => gap.break_even_set !== null);
  if (!gaps.length) return null;
  const keys = [...new Set(gaps.map(budgetKey))];
  return [h("h3", {}, "Break-even overhead"), h("p", { class: "lead" }, "Bars: costs per input at which the ranking still gains at least as much as random. Dot: the actual cost of the allocator."), view.stale ? h("p", { class: "note" }, "Grey: of the result's own weights.") : null,
    keys.map((key) => {
      const rows = gaps.filter((gap) => budgetKey(gap) === key).map((gap) => ({ ...gap, name: gap.allocator, cost: (view.rows.find((row) => row.allocator === gap.allocator && budgetKey(row) === key) || {}).cost }));
      const domain = [0, domainOf(rows.flatMap((row) => [row.cost, ...row.break_even_set.flat()]))[1]];
      const unit = UNITS[rows[0].convention] || rows[0].convention;
      const draw = (width) => rowChart(width, rows, {
        domain, label: `Break-even overhead at ${budgetLabel(rows[0])}`, tick: (v) => price(v, rows[0].convention, domain[1] < 5 ? 1 : 0), axis: `${unit} per input, ${budgetLabel(rows[0])}`, valueRoom: 150, restingText: true,
        valueText: (row) => (row.break_even === null ? "at no cost" : `up to ${price(row.break_even, row.convention)} ${unit}`),
        mark: (g, row, x, y) => {
          for (const [low, high] of row.break_even_set) g.append(bar(x(low), Math.max(x(high), x(low) + 2), y - 6, 12, "var(--helped)", { opacity: row.stale ? 0.25 : 0.7 }));
          if (known(row.cost)) g.append(dot(x(row.cost), y, row.break_even_set.some(([low, high]) => row.cost >= low && row.cost <= high) ? "var(--helped)" : "var(--harmed)", { stroke: "var(--card)", "stroke-width": 2, r: 6 }));
        },
      });
      return chart(draw, behind(`Break-even overhead, ${budgetLabel(rows[0])}`, ["allocator", "cost", "break-even", "intervals"], rows.map((row) => [row.name, known(row.cost) ? row.cost : "undefined", row.break_even === null ? "none" : price(row.break_even, row.convention, 3), row.break_even_set.map((pair) => `${price(pair[0], row.convention, 3)} to ${price(pair[1], row.convention, 3)}`).join("; ") || "none"])));
    })];
}

function gapSplit(cell, view, state) {
  const gaps = bestFirst(cell, state.budget, view.gaps.filter((gap) => budgetKey(gap) === state.budget));
  const lead = "The gap between an allocator and the oracle has three causes: its own cost (overhead), errors of its ranking, and decisions without hindsight (causal).";
  if (!gaps.some((gap) => gap.gap !== null)) return block("gap", "Why it gains less than the oracle", lead, absent(gaps.length ? gaps[0].reason || "no gap at this budget." : "no allocator at this budget."));
  const loss = view.setting.cheap_loss;
  const per = (value) => (known(value) && loss > 0 ? value / loss : null);
  const parts = [["overhead", "var(--s2)"], ["ranking", "var(--s0)"], ["causal", "var(--s1)"]];
  const rows = gaps.map((gap) => ({ ...gap, name: gap.allocator }));
  const domain = domainOf(rows.flatMap((row) => { const values = parts.map(([name]) => per(row[name]) || 0); return [sumOf(values.filter((v) => v > 0)), sumOf(values.filter((v) => v < 0))]; }));
  const draw = (width) => rowChart(width, rows, {
    domain, label: "Gap to the oracle by cause", tick: (v) => number(100 * v, 0), axis: "% of the all-cheap loss short of the oracle", valueRoom: 110,
    valueText: (row) => (known(per(row.gap)) ? `gap ${percent(per(row.gap))}` : ""), note: (row) => (known(per(row.gap)) ? "" : row.reason || "undefined"),
    mark: (g, row, x, y) => {
      let up = 0; let down = 0;
      for (const [name, colour] of parts) {
        const value = per(row[name]) || 0;
        if (!value) continue;
        const start = value > 0 ? up : down;
        g.append(bar(x(start), x(start + value), y - 9, 18, colour, { "data-tip": `${name}: ${percent(value)}` }));
        if (value > 0) up += value; else down += value;
      }
    },
  });
  const table = behind("Gap to the oracle", ["allocator", "gap", "overhead", "ranking", "causal"], rows.map((row) => [row.name, percent(per(row.gap), 2), ...parts.map(([name]) => (known(row[name]) ? percent(per(row[name]), 2) : "not measured"))]));
  const causal = rows.some((row) => known(row.causal));
  return block("gap", "Why it gains less than the oracle", lead, folded("Show the chart", chart(draw, table, () => legendOf(parts.filter(([name]) => name !== "causal" || causal)))),
    view.stale ? h("p", { class: "note" }, "The page does not compute the causal part again: run the command.") : causal ? h("p", { class: "note" }, "A negative causal part means that the causal policy happened to escalate better inputs than the ranking.") : null);
}

function streamsSection(cell, view, state) {
  const title = "Decisions input by input";
  const lead = "A stream cannot be ranked in hindsight. These policies decide input by input and are calibrated on other units. The chart shows their difference with random, and whether they kept to the rate of the budget.";
  const streams = view.streams.filter((row) => budgetKey(row) === state.budget);
  if (!streams.length) return block("streams", title, lead, absent(view.streams.length ? "no causal policy was judged at this budget." : ["causal policies need calibration units: ", code("--calibrate"), "."]));
  const rows = bestFirst(cell, state.budget, streams).map((row) => ({ ...row, name: `${row.allocator} · ${row.policy}`, stale: Boolean(view.stale) }));
  const domain = domainOf(rows.flatMap((row) => [row.versus_random, row.versus_random_lo, row.versus_random_hi]));
  const kept = (row) => (row.rate_missed === null ? "" : row.rate_missed ? ", missed" : ", kept");
  const draw = (width) => rowChart(width, rows, {
    domain, label: "Causal policies against random", tick: (v) => signed(v, 0), axis: "points of the all-cheap loss, against random at the same budget", valueRoom: 150, restingText: true,
    valueText: (row) => (known(row.rate) ? `rate ${percent(row.rate)}${kept(row)}` : ""), note: (row) => (known(row.versus_random) ? "" : row.reason || "undefined"),
    mark: (g, row, x, y) => {
      const colour = row.stale ? "var(--unsure)" : verdictColour[row.verdict] || "var(--unsure)";
      const rest = row.stale ? "stale" : null;
      if (known(row.versus_random_lo)) g.append(line(x(row.versus_random_lo), y, x(row.versus_random_hi), y, { stroke: colour, "stroke-width": 3, "stroke-linecap": "round", opacity: 0.55, class: rest }));
      g.append(dot(x(row.versus_random), y, row.rate_missed ? "var(--card)" : colour, { stroke: colour, "stroke-width": 2.5, class: rest }));
    },
  });
  const table = behind(`Causal policies, ${budgetLabel(rows[0])}`, ["allocator", "policy", "rate", "kept", "points", "95 % low", "95 % high", "verdict"], rows.map((row) => [row.allocator, row.policy, percent(row.rate), row.rate_missed === null ? "undefined" : row.rate_missed ? "missed" : "kept", signed(row.versus_random, 2), signed(row.versus_random_lo, 2), signed(row.versus_random_hi, 2), row.verdict || ""]));
  return block("streams", title, lead, chart(draw, table, () => legendOf([["better", "var(--helped)"], ["worse", "var(--harmed)"], ["not told apart", "var(--unsure)"]])),
    h("p", { class: "note" }, view.stale ? "Grey: of the result's own weights. Run the command for these." : "Open dots missed the rate by more than 5 points, so their gain belongs to a different budget."));
}

function unitsSection(cell, view, state) {
  const lead = "Gain of each allocator by unit at the headline budget, in units of the loss. A verdict that depends on one unit is weak.";
  if (!view.units.length) return block("units", "Unit by unit", lead, absent("there is a single unit, or more than 100."));
  const names = [...Object.keys(view.units[0].gains), "oracle"];
  const value = (unit, name) => { const found = view.units.find((item) => item.unit === unit); return name === "oracle" ? found.oracle_gain : found.gains[name]; };
  const order = [...view.units].sort((a, b) => b.oracle_gain - a.oracle_gain).map((unit) => unit.unit);
  const most = Math.max(...order.flatMap((unit) => names.map((name) => Math.abs(value(unit, name)))));
  const draw = (width) => heatChart(width, order, names, { label: `Gain by unit at ${share(view.units[0].alpha)}`, value, most, tip: (unit, name) => `${unit}, ${name}\n${number(value(unit, name), 2)}` });
  const table = behind(`Gain by unit at ${share(view.units[0].alpha)}`, ["unit", ...names], order.map((unit) => [unit, ...names.map((name) => number(value(unit, name), 3))]));
  return block("units", "Unit by unit", lead, chart(draw, table, () => legendOf([["gain", "var(--helped)"], ["loss", "var(--harmed)"], ["nothing", "var(--even-wash)"]])), leaveOut(cell, view, state));
}

function leaveOut(cell, view, state) {
  const rows = bestFirst(cell, state.budget, own(rowsAt(view, state.budget))).map((row) => ({ ...row, name: row.allocator }));
  const measured = rows.filter((row) => known(row.ndg_without_lo));
  if (!measured.length) return null;
  const domain = domainOf(rows.flatMap((row) => [row.ndg, row.ndg_without_lo, row.ndg_without_hi]));
  const draw = (width) => rowChart(width, rows, {
    domain, label: "nDG when any one unit is left out", tick: (v) => number(v, 1), axis: "normalized decision gain, nDG (1 = oracle); bar: range when one unit is left out", valueRoom: 165, restingText: true,
    valueText: (row) => (known(row.ndg_without_unit) ? `least without ${row.ndg_without_unit}` : ""), note: (row) => (known(row.ndg) ? "" : row.reason || "undefined"),
    mark: (g, row, x, y) => {
      if (known(row.ndg_without_lo)) g.append(bar(x(row.ndg_without_lo), Math.max(x(row.ndg_without_hi), x(row.ndg_without_lo) + 2), y - 5, 10, "var(--even)", { class: row.stale ? "stale" : null }));
      g.append(dot(x(row.ndg), y, state.colours[row.name] || "var(--unsure)"));
    },
  });
  return folded("Without any one unit", chart(draw, behind("Leave one unit out", ["allocator", ...(onLadder(rows) ? ["oracle"] : []), "nDG", "smallest", "largest", "unit"], rows.map((row) => [row.name, ...(onLadder(rows) ? [row.oracle || ""] : []), number(row.ndg), number(row.ndg_without_lo), number(row.ndg_without_hi), row.ndg_without_unit || "undefined"]))));
}

function tiesSection(cell, view) {
  const rows = own(view.rows).filter((row) => known(row.ties));
  const lead = "Where many inputs share a score, the tie-break decides what is escalated, not the allocator. Gains here are exact expectations over all ways to break ties; the chart shows how much depends on them.";
  if (!rows.length) return block("ties", "How much do ties decide?", lead, absent("no plain scores were ranked."));
  const keys = [...new Map(rows.map((row) => [budgetKey(row), row])).values()];
  const names = [...new Set(rows.map((row) => row.allocator))];
  const at = (name, key) => rows.find((row) => row.allocator === name && budgetKey(row) === key);
  const items = names.map((name) => ({ name, values: keys.map((key) => (at(name, budgetKey(key)) || {}).ties) }));
  const draw = (width) => rowChart(width, items, {
    domain: [0, 1], label: "Share of the selection that ties decide", tick: (v) => number(100 * v, 0), axis: "% of the selection that tie-breaks decide; one dot per budget", valueRoom: 120,
    valueText: (row) => `at most ${percent(Math.max(...row.values.filter(known)), 0)}`,
    mark: (g, row, x, y) => row.values.forEach((value, i) => { if (known(value)) g.append(dot(x(value), y, "var(--unsure)", { r: 5, opacity: 0.75, "data-tip": `${budgetLabel(keys[i])}: ${percent(value)}` })); }),
  });
  return block("ties", "How much do ties decide?", lead, folded("Show the chart", chart(draw, behind("Tie audit", ["allocator", ...keys.map(budgetLabel)], items.map((item) => [item.name, ...item.values.map((value) => (known(value) ? percent(value) : "not measured"))])))));
}

function tablesSection(cell, view) {
  const whole = h("div", { class: "table-tools" },
    h("button", { type: "button", id: "save-all-csv", onclick: () => saveFile(`${cell.name}.csv`, cell.csv, "text/csv") }, "Save every row, unrounded, as CSV"),
    h("button", { type: "button", id: "save-all-latex", onclick: () => saveFile(`${cell.name}.tex`, cell.latex + cell.tables.map((table) => table.latex).join("\n") + "\n", "text/x-tex") }, "Save all tables as LaTeX"));
  return block("tables", "All tables", "Blue: better than random, and neither never nor always escalating is better; asterisk: worse than random. nDG: normalized decision gain, the share of the oracle's gain. Press a heading to sort by it.", cell.tables.map((table, i) => folded(table.title, resultTable(cell, table, view, i))), whole,
    view.stale ? h("p", { class: "note" }, "The files hold the result as it was judged, not the weights chosen above.") : null);
}

function source(cell, view) {
  const { provenance } = view;
  const rows = [["deepval", provenance.deepval], ["table", provenance.table], ...Object.entries(provenance.scores).map(([name, item]) => [`scores of ${name}`, `${item.digest} (coverage ${percent(item.coverage)})`]), ["units judged", provenance.units.join(", ")], ["calibration units", provenance.calibration_units ? provenance.calibration_units.join(", ") : "none"], ...(provenance.cell || cell.frames ? [["cell", provenance.cell || cell.frames.cell]] : []), ...(provenance.split ? [["split", provenance.split]] : [])];
  return block("source", "Where this comes from", "SHA-256 of what was judged. The same inputs give the same result, byte for byte.",
    folded("Digests and units", h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "words", style: "white-space: normal; overflow-wrap: anywhere" }, value))))))));
}

function glossary() {
  return block("glossary", "Words", null, h("dl", { class: "words-list" }, Object.entries(GLOSSARY).map(([name, words]) => h("div", {}, h("dt", {}, name), h("dd", {}, words)))));
}
