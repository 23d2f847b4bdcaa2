// Draws the page of `dtc report` from the object in the element "data", whose fields docs/report.md names (charts.js).
"use strict";

//===--- Head -----------------------------------------------------------------------------------------------------------

const runs = data.runs, run = runs[0];
const lastOf = (its, key) => its.metrics[key] && its.metrics[key].values.filter((value) => value !== null).at(-1);
const medianOf = (its, key) => {
  const values = (its.metrics[key] ? its.metrics[key].values : []).filter((value) => value !== null);
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
};
const ranksOf = (its) => its.program ? its.program.ranks : 1;
/// The end of the folder's path that tells it from the other run's.
function nameOf(its) {
  const partsOf = (each) => each.folder.replace(/\/+$/, "").split("/"), ends = (count) => runs.map((each) => partsOf(each).slice(-count).join("/"));
  let count = 1;
  while (new Set(ends(count)).size < runs.length && count < partsOf(its).length) ++count;
  return ends(count)[runs.indexOf(its)];
}
const meshOf = (program) => Object.entries(program.mesh).map(([axis, size]) => `${axis}=${size}`).join(", ");

function drawHead() {
  const program = run.program;
  document.title = `${program ? program.model : nameOf(run)} – dtc report`;
  page.append(element("h1", {}, program ? program.model : nameOf(run)));
  page.append(element("p", {class: "subtitle"}, [
    run.folder, program && `${meshOf(program)} (${program.ranks} rank${program.ranks === 1 ? "" : "s"})`,
    program && program.strategy, program && program.target].filter(Boolean).join("  ·  ")));
  const tiles = element("div", {class: "tiles"});
  const add = (value, text, label) => value !== undefined && tiles.append(tile(text(value), label));
  tiles.append(tile(`${number(run.steps_done)} / ${number(run.steps_planned)}`, "steps"));
  add(lastOf(run, "loss_metrics/global_avg_loss"), number, "last loss (nats)");
  add(lastOf(run, "validation_metrics/loss"), number, "last held-out loss (nats)");
  add(medianOf(run, "time_metrics/end_to_end(s)"), seconds, "median step");
  add(medianOf(run, "throughput(tps)"), (value) => scaled(value * ranksOf(run), ""), "tokens/s, all ranks");
  add(medianOf(run, "mfu(%)"), (value) => number(value, 3) + " %", "model FLOPs utilisation");
  if (program) tiles.append(tile(scaled(program.parameters, ""), "parameters"));
  if (data.memory) tiles.append(tile(bytes(Math.max(...data.memory.map((role) => role.arena_bytes))), "memory a rank (arena)"));
  page.append(tiles);
  for (const text of [run.state, ...run.remarks].filter(Boolean)) page.append(element("div", {class: "note"}, text));
  for (const other of runs.slice(1))
    for (const text of [other.state, ...other.remarks].filter(Boolean))
      page.append(element("div", {class: "note"}, `${other.folder}: ${text}`));
}

//===--- Two runs -------------------------------------------------------------------------------------------------------

function drawDifferences() {
  if (!data.differences) return;
  const made = section("Two runs", `${runs[0].folder} beside ${runs[1].folder}, as solid and dashed curves.`);
  if (data.differences.some((each) => each.what === "model" || each.what === "parameters"))
    made.append(element("div", {class: "note"}, "The runs are of different models: losses need not mean the same, and only " +
      "what both have is compared."));
  if (!data.differences.length) return made.append(element("p", {}, "Their programs and settings are the same."));
  const text = (value) => value === null || value === undefined ? "–"
    : typeof value === "object" ? Object.entries(value).map(([key, its]) => `${key}=${its}`).join(", ") : String(value);
  made.append(table(["differs in", nameOf(runs[0]), nameOf(runs[1])],
    data.differences.map((each) => [each.what, ...each.values.map(text)])));
}

//===--- Curves ---------------------------------------------------------------------------------------------------------

/// Curves over steps: [{key, label, colour, dash, run, scale}].
function curvePanel(title, lines, format = number) {
  const known = lines.filter((line) => line.run.metrics[line.key]);
  if (!known.length) return null;
  return chartPanel(title, () => ({
    type: "line",
    data: {
      datasets: known.map((line) => {
        const its = line.run.metrics[line.key], few = its.steps.length <= 30;
        return {
          label: line.label, borderColor: colour(line.colour), backgroundColor: colour(line.colour),
          borderDash: line.dash ? [6, 4] : [], borderWidth: line.thin ? 1 : 1.7, pointRadius: few || line.points ? 2.2 : 0,
          data: its.steps.map((step, i) => ({x: step, y: its.values[i] === null ? NaN : its.values[i] * (line.scale || 1)})),
        };
      }),
    },
    options: chartOptions({x: {title: "step", format: (value) => number(value)}, y: {format: (value) => format(value)}}, {}),
  }));
}

function drawCurves() {
  if (!runs.some((its) => Object.keys(its.metrics).length)) return;
  const isThinned = runs.some((its) => Object.values(its.metrics).some((series) => series.steps.length < series.of));
  const made = section("Training", isThinned ? "Of so many steps the smallest and the largest value of each part are drawn." : "");
  const grid = element("div", {class: "grid"});
  // A line for each run, the second one dashed.
  const each = (key, label, more = {}) => runs.map((its, index) => ({
    key, run: its, label: runs.length > 1 ? `${label}, ${nameOf(its)}` : label, dash: index > 0,
    colour: index > 0 ? "other" : "run", ...more, ...(more.scaleBy ? {scale: more.scaleBy(its)} : {})}));
  const held = runs.map((its, index) => ({key: "validation_metrics/loss", run: its, points: true, dash: index > 0,
    label: runs.length > 1 ? `held out, ${nameOf(its)}` : "held out", colour: index > 0 ? "held2" : "held"}));
  const compute = [["min", "update"], ["median", "forward"], ["max", "communication"]].map(([which, name]) => ({
    key: `time_metrics/compute_${which}(s)`, run, label: `computing, ${which} of ranks`, colour: name, thin: true}));
  const panels = [
    curvePanel("Loss (nats a token)", [...each("loss_metrics/global_avg_loss", "training"), ...held]),
    curvePanel("Learning rate", each("lr", "learning rate")),
    curvePanel("Norm of the gradients, before clipping", each("grad_norm", "norm")),
    curvePanel("Tokens a second, all ranks", each("throughput(tps)", "tokens/s", {scaleBy: ranksOf}), (value) => scaled(value, "")),
    curvePanel("Duration of a step", [...each("time_metrics/end_to_end(s)", "step"), ...compute], seconds),
    curvePanel("Model FLOPs utilisation (%)", each("mfu(%)", "MFU")),
    curvePanel("Memory of the process of rank 0", each("memory/max_reserved(GiB)", "most so far", {scale: 2 ** 30}), bytes),
    curvePanel("How unevenly ranks compute (%)", each("time_metrics/compute_variation(%)", "coefficient of variation")),
  ];
  grid.append(...panels.filter(Boolean));
  made.append(grid);
}

//===--- Memory ---------------------------------------------------------------------------------------------------------

function memoryChart(role) {
  const over = role.over_time, isTime = over.unit === "microseconds", scale = isTime ? 1e-3 : 1;
  const layers = [...Object.entries(role.always).map(([name, size]) => [name, over.at.map(() => size)]),
    ...Object.entries(over.bytes).filter(([, values]) => values.some((value) => value > 0))];
  return chartPanel(`Role '${role.role}', rank ${role.rank}`, () => ({
    type: "line",
    data: {
      datasets: [...layers.map(([name, values], index) => ({
        label: name, data: over.at.map((at, i) => ({x: at * scale, y: values[i]})), stack: "memory", stepped: "before",
        fill: index === 0 ? "origin" : "-1", borderWidth: 0, backgroundColor: colour(layerColours[index % layerColours.length]),
      })), {
        label: "arena", data: [over.at[0], over.at.at(-1)].map((at) => ({x: at * scale, y: role.arena_bytes})), stack: "arena",
        borderColor: colour("ink"), borderDash: [5, 4], borderWidth: 1.2, fill: false,
      }],
    },
    options: chartOptions({
      x: {title: isTime ? "ms in the first traced step" : "command of the step", format: (value) => number(value),
        options: {min: 0, max: over.at.at(-1) * scale}},
      y: {format: bytes, options: {stacked: true, beginAtZero: true}}}, {}),
  }), true);
}

function drawMemory() {
  if (!data.memory) return;
  const made = section("Memory", "What a rank's arena holds in the course of a step: what is always there, and above it what " +
    "commands have written and still read. What is free below the dashed line keeps its place for another moment of the step.");
  const grid = element("div", {class: "grid"});
  for (const role of data.memory.slice(0, 8)) if (role.over_time) grid.append(memoryChart(role));
  made.append(grid);
  const categories = [...new Set(data.memory.flatMap((role) => Object.keys(role.plan)))];
  made.append(table(["the plan, exact", ...data.memory.map((role) => role.role)],
    [...categories.map((name) => [name, ...data.memory.map((role) => bytes(role.plan[name] || 0))]),
      ["arena", ...data.memory.map((role) => bytes(role.arena_bytes))]], data.memory.map((_, index) => index + 1)));
}

//===--- Communication --------------------------------------------------------------------------------------------------

/// `of(row)` summed by size and by kind and axes. Sizes by powers of four: they differ by orders of magnitude.
function sizesChart(title, rows, of, format) {
  const sizeOf = (row) => Math.ceil(Math.log(Math.max(row.bytes, 1)) / Math.log(4)), kindOf = (row) => `${row.kind} over ${row.axes}`;
  const sizes = [...new Set(rows.map(sizeOf))].sort((a, b) => a - b), kinds = [...new Set(rows.map(kindOf))];
  const sum = (kind, size) => rows.filter((row) => kindOf(row) === kind && sizeOf(row) === size)
    .reduce((total, row) => total + of(row), 0);
  return chartPanel(title, () => ({
    type: "bar",
    data: {
      labels: sizes.map((size) => "≤ " + bytes(4 ** size)),
      datasets: kinds.map((kind, index) => ({label: kind, backgroundColor: colour(layerColours[index % layerColours.length]),
        maxBarThickness: 90, data: sizes.map((size) => sum(kind, size))})),
    },
    options: categoryOptions({x: {title: "size of the value"}, y: {format}}),
  }));
}

function drawCommunication() {
  if (!data.communication) return;
  const roles = [...new Set(data.communication.map((row) => row.role))];
  const made = section("Communication", data.communication.length
    ? "What one rank sends the others in a step, by the axes of the mesh over which it goes and by size. Rates count what a rank sends."
    : "Ranks send each other nothing.");
  for (const role of roles.slice(0, 4)) {
    const rows = data.communication.filter((row) => row.role === role);
    if (roles.length > 1) made.append(element("h3", {}, `Role '${role}'`));
    made.append(element("div", {class: "grid"},
      sizesChart("Bytes that a rank sends in a step", rows, (row) => row.sent_bytes * row.times_a_step, bytes),
      sizesChart("How often in a step", rows, (row) => row.times_a_step, number)));
    made.append(table(["kind", "axes", "value", "times a step", "sent in a step", "each takes", "rate"],
      [...rows].sort((a, b) => b.sent_bytes * b.times_a_step - a.sent_bytes * a.times_a_step).map((row) => [row.kind, row.axes,
        bytes(row.bytes), number(row.times_a_step), bytes(row.sent_bytes * row.times_a_step),
        row.seconds ? seconds(row.seconds) : "–",
        row.seconds && row.sent_bytes ? scaled(row.sent_bytes / row.seconds, "B/s") : "–"]), [2, 3, 4, 5, 6]));
  }
  if (roles.length > 4) made.append(element("p", {}, `Of ${roles.length} roles the first four are shown.`));
}

//===--- Predicted and measured -----------------------------------------------------------------------------------------

function drawResiduals() {
  if (!data.residuals) return;
  const made = section("Predicted and measured", "What a step takes on a rank, by class of work; where they differ most comes first.");
  const rows = data.residuals.slice(0, 12);
  made.append(chartPanel("Of a step", () => ({
    type: "bar",
    data: {
      labels: rows.map((row) => row.class.length > 24 ? row.class.slice(0, 23) + "…" : row.class),
      datasets: [["predicted", "other"], ["measured", "run"]].map(([key, name]) => ({label: key, backgroundColor: colour(name),
        stack: key, maxBarThickness: 40, data: rows.map((row) => row[key] * 1e3)})),
    },
    options: categoryOptions({x: {}, y: {title: "ms"}}),
  })));
  made.append(table(["class", "predicted", "measured", "predicted / measured"], rows.map((row) => [row.class, seconds(row.predicted),
    seconds(row.measured), row.measured > 0 ? number(row.predicted / row.measured, 3) : "–"]), [1, 2, 3]));
}

//===--- Load -----------------------------------------------------------------------------------------------------------

function drawLoad() {
  if (!data.load || !data.load.ranks.length) return;
  const load = data.load, slow = load.stragglers;
  const words = slow.length
    ? `Slow: ${slow.map((its) => `rank ${its.rank} (${number(its.times_median, 3)} times the median of ranks with equal work)`).join(", ")}. `
    : `No rank computes for more than ${load.straggler_factor} times as long as the median of those with equal work. `;
  const made = section("Load", words + `Coefficient of variation of the time that ranks compute: ${number(100 * load.variation, 3)} %.`);
  const stack = [["computes", "forward", (its) => its.compute], ["waits for others", "wait", (its) => its.wait],
    ["neither: communicates at once, or is between commands", "start", (its) => Math.max(its.step - its.compute - its.wait, 0)]];
  made.append(chartPanel("A step of each rank, mean of those traced", () => ({
    type: "bar",
    data: {
      labels: load.ranks.map((its) => String(its.rank)),
      datasets: stack.map(([label, name, of]) => ({label, backgroundColor: colour(name), stack: "step", maxBarThickness: 90,
        data: load.ranks.map((its) => of(its) * 1e3)})),
    },
    options: categoryOptions({x: {title: "rank"}, y: {title: "ms"}}),
  })));
}

//===--- Shards ---------------------------------------------------------------------------------------------------------

/// Rows are the parts of the first dimension that is split, columns those of all others.
function partsGrid(parameter) {
  const split = parameter.dims.map((dim, index) => [dim, index]).filter(([dim]) => dim.parts > 1).map(([, index]) => index);
  const sorted = [...parameter.parts].sort((a, b) => {
    const at = split.find((index) => a.part[index] !== b.part[index]);
    return at === undefined ? 0 : a.part[at] - b.part[at];
  });
  const columns = split.length > 1 ? split.slice(1).reduce((all, index) => all * parameter.dims[index].parts, 1)
    : Math.min(sorted.length, 16);
  return element("div", {class: split.length ? "parts" : "parts whole", style: `grid-template-columns: repeat(${columns}, auto)`},
    ...sorted.slice(0, 256).map((its) => element("span", {}, its.ranks)));
}

function drawSharding() {
  if (!data.sharding) return;
  const made = section("Shards", "Which ranks store which part of each parameter; equal layers once. Each cell is a part, with the " +
    "ranks that hold it: down the first dimension that is split, across the others.");
  const rows = data.sharding.map((its) => element("tr", {},
    element("td", {}, its.name, ...(its.layers ? [element("div", {class: "subtitle", style: "margin: 0"}, `${its.layers} (${its.count})`)] : [])),
    element("td", {}, its.dims.map((dim) => `${dim.name || "?"} ${dim.size}${dim.axes ? " / " + dim.axes : ""}`).join(", ")),
    element("td", {}, `[${its.local_shape.join(", ")}]`), element("td", {}, partsGrid(its))));
  made.append(element("div", {class: "scroll"}, element("table", {}, element("thead", {}, element("tr", {},
    ...["parameter", "dimensions / axes that split them", "on a rank", "parts and their ranks"].map((head) => element("th", {}, head)))),
  element("tbody", {}, ...rows))));
}

//===--- Settings -------------------------------------------------------------------------------------------------------

function drawSettings() {
  if (!runs.some((its) => Object.keys(its.settings).length)) return;
  const made = section("Settings", ""), columns = element("div", {class: "columns"});
  for (const [name, keys] of Object.entries(run.settings)) {
    const rows = Object.entries(keys).map(([key, value]) => {
      const others = runs.slice(1).map((its) => (its.settings[name] || {})[key]);
      const differs = others.some((other) => JSON.stringify(other) !== JSON.stringify(value));
      return element("tr", differs ? {class: "differs"} : {}, element("td", {}, key),
        ...[value, ...others].map((its) => element("td", {class: "number"}, its === undefined || its === null ? "–" : String(its))));
    });
    columns.append(element("table", {}, element("thead", {}, element("tr", {}, element("th", {}, name),
      ...runs.map((its) => element("th", {class: "number"}, runs.length > 1 ? nameOf(its) : "")))), element("tbody", {}, ...rows)));
  }
  made.append(columns);
}

//===--- All of it ------------------------------------------------------------------------------------------------------

function drawAll() {
  drawHead();
  drawDifferences();
  drawTimeline();
  drawPipeline();
  drawCurves();
  drawMemory();
  drawCommunication();
  drawResiduals();
  drawLoad();
  drawSharding();
  drawSettings();
}

show("dtc report", drawAll);
