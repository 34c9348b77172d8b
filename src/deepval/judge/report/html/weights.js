// Sliders for the weights of the loss, and the command that judges them with intervals.

const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

// Words are put into lines, and none is broken.
const commandLines = (words, room = 44) => wrapped(words.filter(Boolean), room).join(" \\\n  ");

function commandOf(result, weights) {
  const { provenance, inputs, rows } = result;
  const unique = (values) => [...new Set(values)];
  const words = ["deepval", "evaluate", "values.parquet", "--terms", "terms.parquet"];
  for (const name of inputs.free) words.push("--weight", `${name}=${weights[name]}`);
  for (const name of Object.keys(provenance.scores)) words.push("-s", /[=/\\]/.test(name) ? `${name.replaceAll("=", "-")}=scores.csv` : `scores/${name}.csv`);
  if (provenance.costs) words.push("--costs", "costs.toml");
  for (const kind of unique(rows.map((row) => row.kind))) words.push("--budget", kind);
  for (const alpha of unique(rows.map((row) => row.alpha))) words.push("--alpha", String(alpha));
  const rails = rows.find((row) => row.kind === "energy");
  if (rails && rails.convention !== "mj") words.push("--rails", rails.convention);
  if (rows.some((row) => row.accounting === "skipping")) words.push("--skipping");
  if (Object.values(provenance.scores).some((item) => item.coverage < 1)) words.push("--missing", "worst");
  words.push("--units", provenance.units.join(","));
  if (provenance.calibration_units) words.push("--calibrate", provenance.calibration_units.join(","));
  if (result.curves.length) words.push("--curve", String(result.curves[0].alpha.length));
  if (rows.some((row) => known(row.versus_random_simultaneous_lo))) words.push("--simultaneous");
  const { method, number: n, seed } = provenance.draws;
  words.push("--draws", method === "exact" ? "exact" : String(n));
  if (known(seed)) words.push("--seed", String(seed));
  words.push("--out", "reweighted.json");
  return commandLines(words.map(quoted), 76);
}

const sameWeights = (one, other) => Object.keys(one).every((name) => one[name] === other[name]);

function weightsSection(cell, state, changed) {
  const { inputs } = cell.result;
  const lead = "Actions do not depend on these weights, so point values follow the sliders. Intervals and verdicts turn grey: the command below makes new ones.";
  const title = "Try other loss weights";
  if (!inputs) return null;
  const fixedNames = Object.keys(inputs.weights).filter((name) => !inputs.free.includes(name));
  const closed = fixedNames.length ? h("p", { class: "note" }, `The weights of ${listed(fixedNames)} also shape the plan: other values need another cell.`) : null;
  if (!inputs.free.length) return block("weights", title, null, closed);
  const weights = state.weights[cell.name];
  const command = h("pre", { class: "command", id: "command", tabindex: "0" });
  const status = h("p", { class: "note", role: "status", id: "weights-status" });
  const controls = inputs.free.map((name) => {
    const base = inputs.weights[name];
    const most = base > 0 ? 4 * base : 1;
    const step = most / 80;
    const id = `weight-${name}`;
    const slide = h("input", { type: "range", id, min: 0, max: most, step: Number(step.toPrecision(6)), "data-term": name });
    const exact = h("input", { type: "number", step: "any", "aria-label": `weight of ${name}, exact`, "data-exact": name });
    const put = (value) => {
      if (!Number.isFinite(value)) return;
      weights[name] = value;
      changed();
    };
    slide.addEventListener("input", () => put(Number(slide.value)));
    exact.addEventListener("input", () => { if (exact.value !== "") put(Number(exact.value)); });
    const show = () => {
      slide.value = weights[name];
      slide.setAttribute("aria-valuetext", String(weights[name]));
      if (Number(exact.value) !== weights[name] || exact.value === "") exact.value = weights[name];
    };
    return { show, node: h("div", { class: "slider" }, h("label", { for: id }, name, h("span", {}, `judged with ${base}`)), h("div", {}, slide, exact)) };
  });
  const reset = h("button", { type: "button", id: "reset-weights", onclick: () => { Object.assign(weights, inputs.weights); changed(); } }, "Back to the judged weights");
  const copy = h("button", { type: "button", onclick: () => { if (navigator.clipboard) navigator.clipboard.writeText(command.textContent).catch(() => {}); } }, "Copy");
  const section = block("weights", title, lead, h("div", { class: "sliders" }, controls.map((control) => control.node)), h("div", { class: "row" }, reset), status,
    folded("The command for these weights", h("p", { class: "lead" }, "Run it in the folder of the cell, which has the score files."), command, h("div", { class: "row" }, copy)), closed);
  section.refresh = () => {
    controls.forEach((control) => control.show());
    command.textContent = commandOf(cell.result, weights);
    status.textContent = sameWeights(weights, inputs.weights) ? "Everything on the page is as judged." : "Point values use these weights. Intervals and verdicts in grey do not.";
  };
  section.refresh();
  return section;
}
