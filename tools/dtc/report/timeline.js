// The parts of the page of `dtc report` that show who did what when: commands on a canvas, and passes of a pipeline. It comes
// behind charts.js, whose helpers it uses, and page.js.
"use strict";

const kindColours = ["forward", "input", "weight", "update", "kernels", "start", "wait", "communication", "copy"];
const Gutter = 76, AxisHeight = 36, MostRows = 512;

/// Bars of a lane with absolute times in microseconds.
function barsOf(lane) {
  const bars = [];
  let end = 0;
  for (let i = 0; i < lane.after.length; ++i) {
    const begin = end + lane.after[i];
    end = begin + lane.length[i];
    bars.push({begin: begin / 10, end: end / 10, kind: lane.kind[i], what: lane.what[i], slices: lane.slices ? lane.slices[i] : 1});
  }
  return bars;
}

/// Where each rank's lanes lie: compute first, then channels, which many ranks have on one line.
function layOut(rows) {
  const n = rows.length, [compute, channel, gap] = n <= 8 ? [18, 7, 8] : n <= 24 ? [12, 5, 5] : n <= 96 ? [7, 3, 2] : [4, 2, 1];
  let top = AxisHeight;
  const placed = rows.map((row) => {
    const lanes = [];
    let at = top;
    row.lanes.forEach((lane, index) => {
      const height = index === 0 ? compute : channel, shares = n > 8 && index > 1;
      if (shares) at -= height;
      lanes.push({bars: barsOf(lane), name: lane.name, top: at, height});
      at += height + (index === 0 ? 1 : 0);
    });
    const its = {row, lanes, top, bottom: at};
    top = at + gap;
    return its;
  });
  return {placed, height: top};
}

/// 1, 2 or 5 times a power of ten, so that about `count` of them fit.
function tickStep(span, count) {
  const rough = span / count, power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
}

class Timeline {
  constructor(timeline) {
    this.timeline = timeline;
    this.rows = timeline.rows.slice(0, MostRows);
    this.layout = layOut(this.rows);
    this.end = Math.max(1, ...timeline.steps.map((step) => step.end),
      ...this.layout.placed.flatMap((its) => its.lanes.map((lane) => lane.bars.length ? lane.bars.at(-1).end : 0)));
    this.range = [0, this.end];
    this.canvas = element("canvas", {role: "img", "aria-label": "What each rank did when"});
    this.chosen = element("div", {class: "select"});
    this.tip = element("div", {class: "tip"});
    this.box = element("div", {class: "timeline"}, this.canvas, this.chosen);
    this.listen();
    redraws.push(() => this.draw());
  }

  x(time) { return Gutter + (time - this.range[0]) / (this.range[1] - this.range[0]) * (this.width - Gutter); }
  timeAt(x) { return this.range[0] + (x - Gutter) / (this.width - Gutter) * (this.range[1] - this.range[0]); }

  show(begin, end) {
    this.range = end - begin > 0.1 ? [begin, end] : this.range;
    this.draw();
  }

  draw() {
    const isPrint = document.documentElement.classList.contains("print");
    const ratio = Math.max(window.devicePixelRatio || 1, isPrint ? 2 : 1);
    this.width = isPrint ? Math.min(this.box.clientWidth || PrintWidth, PrintWidth) : this.box.clientWidth;
    const height = this.layout.height;
    this.canvas.width = this.width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.width = this.width + "px";
    this.canvas.style.height = height + "px";
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.clearRect(0, 0, this.width, height);
    this.drawAxis(pen, height);
    const colours = kindColours.map(colour);
    for (const its of this.layout.placed) this.drawRow(pen, its, colours);
  }

  drawAxis(pen, height) {
    pen.font = "11.5px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const span = this.range[1] - this.range[0], step = tickStep(span, Math.max(2, this.width / 110));
    for (let at = Math.ceil(this.range[0] / step) * step; at <= this.range[1]; at += step) {
      pen.strokeStyle = colour("line");
      pen.beginPath();
      pen.moveTo(this.x(at), AxisHeight - 6);
      pen.lineTo(this.x(at), height);
      pen.stroke();
      pen.fillStyle = colour("quiet");
      const text = span > 5e6 ? number(at / 1e6) + " s" : span > 3e3 ? number(at / 1e3) + " ms" : number(at) + " µs";
      pen.textAlign = "left";
      if (this.x(at) + pen.measureText(text).width < this.width) pen.fillText(text, this.x(at) + 3, 9);
    }
    this.drawSteps(pen, height);
  }

  /// Where steps begin and end, each with its number.
  drawSteps(pen, height) {
    pen.strokeStyle = pen.fillStyle = colour("ink");
    pen.setLineDash([3, 3]);
    for (const its of this.timeline.steps) {
      for (const time of [its.begin, its.end]) {
        if (time < this.range[0] || time > this.range[1]) continue;
        pen.beginPath();
        pen.moveTo(this.x(time), AxisHeight - 6);
        pen.lineTo(this.x(time), height);
        pen.stroke();
      }
      const left = this.x(Math.max(its.begin, this.range[0])), text = `step ${its.step}`;
      if (its.end > this.range[0] && its.begin < this.range[1] && this.x(its.end) - left > pen.measureText(text).width + 8)
        pen.fillText(text, left + 4, 25);
    }
    pen.setLineDash([]);
  }

  drawRow(pen, its, colours) {
    pen.fillStyle = colour("ink");
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    const lane = its.lanes[0], isDense = this.rows.length > 24;
    if (!isDense || its.row.rank % 4 === 0) {
      pen.font = isDense ? "10px system-ui, sans-serif" : "12px system-ui, sans-serif";
      const predicted = its.row.source === "predicted";
      pen.fillText(predicted ? `${its.row.rank} predicted` : `rank ${its.row.rank}`, 0, lane.top + lane.height / 2, Gutter - 6);
    }
    pen.save();
    pen.beginPath();
    pen.rect(Gutter, 0, this.width - Gutter, this.layout.height);
    pen.clip();
    for (const each of its.lanes)
      for (const bar of each.bars) {
        if (bar.end < this.range[0] || bar.begin > this.range[1]) continue;
        const left = this.x(bar.begin), width = Math.max(this.x(bar.end) - left, 0.4);
        pen.fillStyle = colours[bar.kind];
        // Bars that are wide enough stand apart.
        pen.fillRect(left, each.top, width > 3 ? width - 0.6 : width, each.height);
      }
    pen.restore();
  }

  barAt(x, y) {
    const time = this.timeAt(x), slack = (this.range[1] - this.range[0]) / this.width;
    for (const its of this.layout.placed) {
      if (y < its.top - 1 || y > its.bottom + 1) continue;
      for (const lane of its.lanes)
        if (y >= lane.top && y <= lane.top + lane.height)
          for (const bar of lane.bars)
            if (time >= bar.begin - slack && time <= bar.end + slack) return {its, lane, bar};
    }
    return null;
  }

  listen() {
    let from = null;
    const at = (event) => event.clientX - this.canvas.getBoundingClientRect().left;
    this.canvas.addEventListener("mousedown", (event) => { from = Math.max(at(event), Gutter); });
    window.addEventListener("mousemove", (event) => {
      if (from === null) return;
      const to = Math.min(Math.max(at(event), Gutter), this.width);
      Object.assign(this.chosen.style, {display: "block", left: Math.min(from, to) + "px", width: Math.abs(to - from) + "px"});
    });
    window.addEventListener("mouseup", (event) => {
      if (from === null) return;
      const to = Math.min(Math.max(at(event), Gutter), this.width), begin = from;
      from = null;
      this.chosen.style.display = "none";
      if (Math.abs(to - begin) > 4) this.show(this.timeAt(Math.min(begin, to)), this.timeAt(Math.max(begin, to)));
    });
    this.canvas.addEventListener("dblclick", () => this.show(0, this.end));
    this.canvas.addEventListener("mousemove", (event) => {
      const found = this.barAt(at(event), event.clientY - this.canvas.getBoundingClientRect().top);
      this.tip.style.display = found ? "block" : "none";
      if (!found) return;
      const {its, lane, bar} = found, many = bar.slices > 1;
      this.tip.textContent = `rank ${its.row.rank}, ${lane.name}: ` +
        (many ? `${bar.slices} commands (${this.timeline.kinds[bar.kind]}) in ` : `${this.timeline.names[bar.what]}, `) +
        `${seconds((bar.end - bar.begin) / 1e6)} from ${seconds(bar.begin / 1e6)}`;
      Object.assign(this.tip.style, {left: Math.min(event.clientX + 14, window.innerWidth - 260) + "px", top: event.clientY + 16 + "px"});
    });
    this.canvas.addEventListener("mouseleave", () => { this.tip.style.display = "none"; });
  }
}

function drawTimeline() {
  if (!data.timeline || !data.timeline.rows.length) return;
  const made = section("Timeline", "What each rank did when in the steps that were traced: on the broad line it computes or waits, " +
    "on the narrow ones below something is on its way between ranks. Drag to look closer, double-click for all.");
  const timeline = new Timeline(data.timeline), buttons = element("div", {class: "bar"});
  const button = (text, begin, end) => {
    const its = element("button", {type: "button"}, text);
    its.addEventListener("click", () => timeline.show(begin, end));
    buttons.append(its);
  };
  button("all", 0, timeline.end);
  for (const step of data.timeline.steps.slice(0, 12)) button(`step ${step.step}`, step.begin, step.end);
  const used = new Set(data.timeline.rows.flatMap((row) => row.lanes.flatMap((lane) => lane.kind)));
  made.append(element("div", {class: "panel"}, buttons, timeline.box,
    legend(data.timeline.kinds.map((kind, index) => [kind, kindColours[index], index]).filter((entry) => used.has(entry[2])))));
  document.body.append(timeline.tip);
  if (data.timeline.rows.length > MostRows)
    made.append(element("p", {}, `Of ${data.timeline.rows.length} rows the first ${MostRows} are drawn.`));
}

/// A picture that dtc has drawn: of numbers and its own words, without names from files.
function picture(svg) {
  return document.importNode(new DOMParser().parseFromString(svg, "image/svg+xml").documentElement, true);
}

function drawPipeline() {
  const pipeline = data.pipeline;
  if (!pipeline) return;
  const shown = ["predicted", "measured"].filter((source) => pipeline[source]).map((source) => [
    source === "measured" ? `measured, step ${pipeline.measured.step}` : source, pipeline[source]]);
  const made = section("Pipeline", `The passes of a step in time (${pipeline.timetable}): each from its first command to its last, ` +
    "labelled with its micro-batch. The rest is the bubble: the overhead is its share of a rank's work, the fraction its share of the step.");
  const drawn = shown.filter(([, its]) => its.svg);
  if (drawn.length) made.append(element("div", {class: "panel"}, element("div", {class: "scroll pipeline"},
    ...drawn.flatMap(([name, its]) => [element("h3", {}, name), picture(its.svg)]))));
  if (drawn.length < shown.length) made.append(element("p", {}, "A step has too many passes to be drawn."));
  made.append(table(["", "first pass to last", "of that in passes, mean of ranks", "bubble overhead", "bubble fraction"],
    shown.map(([name, its]) => [name, seconds(its.seconds), seconds(its.work), number(its.bubble_overhead, 3),
      number(its.bubble_fraction, 3)]), [1, 2, 3, 4]));
}
