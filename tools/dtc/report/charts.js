// What the pages of `dtc report` and `dtc plan` share: elements, tables and charts. A page's own script calls `show` with
// the function that fills the page. Names in the data come from files: they become text nodes and text in canvases, and
// nothing here parses HTML.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
const redraws = []; // what to do when colours or widths change
const PrintWidth = 680; // of canvases, in CSS pixels: the sheet's
const layerColours = ["s0", "s1", "s2", "s7", "s6", "s4", "s5", "s3"]; // one after the other

//===--- Small things ---------------------------------------------------------------------------------------------------

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes))
    key === "class" ? made.className = value : made.setAttribute(key, value);
  made.append(...children.map((child) => typeof child === "number" ? String(child) : child));
  return made;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const number = (value, digits = 4) =>
  value === null || value === undefined || !isFinite(value) ? "–"
    : Math.abs(value) >= 1e5 || value === Math.round(value) && Math.abs(value) < 1e15
      ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(digits)));

/// Powers of 1000, as in "1.5 MB".
function scaled(value, unit, names = ["", "k", "M", "G", "T", "P"]) {
  let power = 0;
  for (; Math.abs(value) >= 1000 && power + 1 < names.length; ++power) value /= 1000;
  return Number(value.toPrecision(3)) + " " + names[power] + unit;
}
const bytes = (value) => scaled(value, "B");

function seconds(value) {
  if (value >= 1 || value === 0) return number(value, 3) + " s";
  return value >= 1e-3 ? number(value * 1e3, 3) + " ms" : number(value * 1e6, 3) + " µs";
}

function section(title, words) {
  const made = element("section", {}, element("h2", {}, title));
  if (words) made.append(element("p", {}, words));
  page.append(made);
  return made;
}

function tile(text, label) {
  return element("div", {class: "tile"}, element("b", {}, text), element("span", {}, label));
}

/// Rows of text; those of `numeric` columns are set to the right.
function table(heads, rows, numeric = []) {
  const cell = (tag, text, column) =>
    element(tag, numeric.includes(column) ? {class: "number"} : {}, text);
  return element("div", {class: "scroll"}, element("table", {},
    element("thead", {}, element("tr", {}, ...heads.map((head, column) => cell("th", head, column)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((text, column) => cell("td", text, column)))))));
}

function legend(entries) {
  return element("div", {class: "legend"}, ...entries.map(([name, variable]) =>
    element("span", {}, element("i", {style: `background: var(--${variable})`}), name)));
}

//===--- Charts ---------------------------------------------------------------------------------------------------------

/// What all charts share. `axes`: {x, y} with `title` and `format`.
function chartOptions(axes, more) {
  const ink = colour("quiet"), line = colour("line");
  const axis = (its, extra) => ({
    type: "linear", ticks: {color: ink, maxRotation: 0, callback: its.format}, grid: {color: line, borderColor: line},
    title: {display: Boolean(its.title), text: its.title, color: ink}, ...extra, ...its.options,
  });
  return {
    animation: false, responsive: false, maintainAspectRatio: false, parsing: false, normalized: true,
    interaction: {mode: "nearest", axis: "x", intersect: false},
    elements: {point: {radius: 0, hitRadius: 6}, line: {borderWidth: 1.6}},
    plugins: {
      legend: {position: "bottom", labels: {color: colour("ink"), boxWidth: 12, boxHeight: 12, padding: 12}},
      tooltip: {callbacks: {label: (item) => ` ${item.dataset.label}: ${(axes.y.format || number)(item.parsed.y)}`}},
    },
    scales: {x: axis(axes.x, {}), y: axis(axes.y, {})}, ...more,
  };
}

/// Bars that stand on each other, one stack for each label.
function categoryOptions(axes) {
  const x = {type: "category", stacked: true, ticks: {color: colour("quiet")}};
  const options = chartOptions({x: {...axes.x, options: x}, y: {...axes.y, options: {stacked: true, beginAtZero: true}}}, {});
  return {...options, parsing: true, normalized: false};
}

/// A panel with a chart; `make()` gives its configuration in the colours of the moment.
function chartPanel(title, make, tall = false) {
  const canvas = element("canvas", {role: "img", "aria-label": title});
  const plot = element("div", {class: tall ? "plot tall" : "plot"}, canvas);
  let chart = null;
  redraws.push(() => {
    if (chart) chart.destroy();
    const isPrint = document.documentElement.classList.contains("print");
    const width = isPrint ? Math.min(plot.clientWidth || PrintWidth, PrintWidth) : plot.clientWidth;
    canvas.width = width;
    canvas.height = plot.clientHeight;
    canvas.style.width = width + "px";
    canvas.style.height = plot.clientHeight + "px";
    const made = make();
    made.options.devicePixelRatio = Math.max(window.devicePixelRatio || 1, isPrint ? 2 : 1);
    chart = new Chart(canvas, made);
  });
  return element("div", {class: "panel"}, element("h3", {}, title), plot);
}

//===--- The page -------------------------------------------------------------------------------------------------------

function redraw() {
  for (const draw of redraws) draw();
}

/// Fills the page by `draw` once it is loaded, and draws charts again when colours or widths change.
function show(verb, draw) {
  window.addEventListener("DOMContentLoaded", () => {
    page.replaceChildren();
    draw();
    page.append(element("footer", {}, `dtc ${data.dtc}, ${verb}. Drawn with Chart.js ${Chart.version}, which is within this page.`));
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    redraw();
    let pending = 0, width = window.innerWidth;
    window.addEventListener("resize", () => {
      if (window.innerWidth === width) return;
      width = window.innerWidth;
      cancelAnimationFrame(pending);
      pending = requestAnimationFrame(redraw);
    });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    for (const [event, isPrint] of [["beforeprint", true], ["afterprint", false]])
      window.addEventListener(event, () => {
        document.documentElement.classList.toggle("print", isPrint);
        redraw();
      });
  });
}
