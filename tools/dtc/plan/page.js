// Draws the page of `dtc plan` from the object in the element "data", whose fields docs/json.md names (charts.js).
"use strict";

const planned = data.numbers.find((number) => number.devices === data.devices);

/// Without an uncertainty in the cluster file there is no band, which is not a band of nothing.
function bandText(plan) {
  return plan.band > 0 ? `± ${number(100 * plan.band, 2)} %` : "not stated";
}

function drawHead() {
  const best = data.proposed;
  document.title = `${data.model} – dtc plan`;
  page.append(element("h1", {}, `${data.model} on ${data.cluster}`), element("p", {class: "subtitle"}, best.plan));
  const tiles = element("div", {class: "tiles"});
  for (const [text, label] of [[number(best.devices), "devices"], [seconds(best.seconds), "step, predicted"],
    [bandText(best), "error band"], [scaled(data.tokens / best.seconds, ""), "tokens/s"],
    [number(100 * best.mfu, 3) + " %", "model FLOPs utilisation"], [bytes(best.bytes), "memory a rank"],
    [number(planned.considered), "plans considered"], [number(planned.simulated), "plans simulated"]])
    tiles.append(tile(text, label));
  page.append(tiles);
  for (const command of data.commands) page.append(element("p", {}, element("code", {}, command)));
}

/// A point for each plan of the front, a colour for each number of devices; a step takes less to the left, memory less
/// below.
function drawFront() {
  if (!data.front.length) return;
  const sizes = [...new Set(data.front.map((plan) => plan.devices))].sort((a, b) => a - b);
  const made = section("Front", "No other plan is better than one of these in memory, time and devices.");
  made.append(chartPanel("Memory of a rank over the time of a step", () => {
    const options = chartOptions({x: {title: "step", format: seconds}, y: {title: "memory of a rank", format: bytes}}, {});
    options.elements.point.radius = 4;
    options.interaction = {mode: "nearest", intersect: true};
    options.plugins.tooltip.callbacks.label = (item) => ` ${item.raw.plan}: ${seconds(item.raw.x)}, ${bytes(item.raw.y)}`;
    return {
      type: "scatter",
      data: {
        datasets: sizes.map((size, index) => ({
          label: `${number(size)} device${size === 1 ? "" : "s"}`, backgroundColor: colour(layerColours[index % layerColours.length]),
          data: data.front.filter((plan) => plan.devices === size).map((plan) => ({x: plan.seconds, y: plan.bytes, plan: plan.plan})),
        })),
      },
      options,
    };
  }, true));
  made.append(table(["devices", "plan", "step", "memory of a rank"],
    data.front.map((plan) => [number(plan.devices), plan.plan, seconds(plan.seconds), bytes(plan.bytes)]), [0, 2, 3]));
}

function drawPlans() {
  const share = (plan, key) => number(100 * plan[key] / plan.seconds, 3) + " %";
  const made = section("Plans", "The proposed one first, then others by the time of their steps. Exposed communication and bubble are " +
    "shares of the step.");
  made.append(table(["plan", "step", "band", "MFU", "exposed", "bubble", "memory of a rank"],
    planned.plans.map((plan) => [plan.plan, seconds(plan.seconds), bandText(plan), number(100 * plan.mfu, 3) + " %",
      share(plan, "exposed"), share(plan, "bubble"), bytes(plan.bytes)]), [1, 2, 3, 4, 5, 6]));
}

function drawWhy() {
  const rows = data.popular.map((each) => [each.name, each.plan, each.verdict]);
  if (data.why.reason) rows.unshift(["the second plan", data.why.runner_up, `${data.why.reason}; it has ${data.why.differences || "the same times"}`]);
  if (rows.length) section("Why not another", "").append(table(["layout", "plan", "why it is not proposed"], rows));
}

show("dtc plan", () => {
  drawHead();
  drawFront();
  drawPlans();
  drawWhy();
});
