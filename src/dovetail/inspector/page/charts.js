// SVG charts: bars and lines, with a text for screen readers.
import { h, svg } from "./dom.js";

const WIDTH = 640;
const HEIGHT = 180;
const EDGE = { left: 44, right: 8, top: 10, bottom: 24 };

function ceiling(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 4, 5, 8, 10].map((step) => step * power).find((step) => step >= value);
}

const short = (value) => (Math.abs(value) >= 1e6 ? `${(value / 1e6).toFixed(1)}M` : Math.abs(value) >= 1e4 ? `${(value / 1e3).toFixed(0)}k` : String(Math.round(value * 100) / 100));

function frame(title, top, low = 0) {
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": title });
  const scale = (value) => EDGE.top + (HEIGHT - EDGE.top - EDGE.bottom) * (1 - (value - low) / (top - low || 1));
  for (const share of [0, 0.5, 1]) {
    const value = low + share * (top - low);
    picture.append(svg("line", { x1: EDGE.left, x2: WIDTH - EDGE.right, y1: scale(value), y2: scale(value), class: "grid" }),
      svg("text", { x: EDGE.left - 6, y: scale(value) + 4, "text-anchor": "end", class: "axis" }, short(value)));
  }
  return [picture, scale];
}

export function bars(title, entries, unit = "") {
  const values = entries.map(([, value]) => value);
  const top = ceiling(Math.max(0, ...values));
  const low = Math.min(0, ...values) < 0 ? -ceiling(-Math.min(...values)) : 0;
  const [picture, scale] = frame(`${title}: ${entries.slice(0, 20).map(([name, value]) => `${name} ${short(value)}${unit}`).join(", ")}`, top, low);
  const step = (WIDTH - EDGE.left - EDGE.right) / Math.max(entries.length, 1);
  const every = Math.ceil(entries.length / Math.max(1, Math.floor((WIDTH - EDGE.left) / 60)));
  entries.forEach(([name, value], index) => {
    const x = EDGE.left + index * step;
    const y = Math.min(scale(value), scale(0));
    picture.append(svg("rect", { x: x + step * 0.12, width: Math.max(1, step * 0.76), y, height: Math.max(value ? 1 : 0, Math.abs(scale(value) - scale(0))), class: "bar", rx: 1.5 },
      svg("title", {}, `${name}: ${short(value)}${unit}`)));
    if (index % every === 0) {
      picture.append(svg("text", { x: x + step / 2, y: HEIGHT - 8, "text-anchor": "middle", class: "axis" }, String(name).slice(0, 10)));
    }
  });
  return h("figure", { class: "figure" }, h("figcaption", {}, title), picture);
}

export function lines(title, labels, series) {
  const top = ceiling(Math.max(1, ...series.flatMap((one) => one.values)));
  const said = series.map((one) => `${one.name} ${one.values.reduce((sum, value) => sum + value, 0)}`).join(", ");
  const [picture, scale] = frame(`${title}: ${said}`, top);
  const step = (WIDTH - EDGE.left - EDGE.right) / Math.max(labels.length - 1, 1);
  for (const one of series) {
    const points = one.values.map((value, index) => `${EDGE.left + index * step},${scale(value)}`).join(" ");
    picture.append(svg("polyline", { points, class: `line ${one.class}` }));
  }
  for (const index of [0, Math.floor(labels.length / 2), labels.length - 1]) {
    const anchor = index === 0 ? "start" : index === labels.length - 1 ? "end" : "middle";
    picture.append(svg("text", { x: EDGE.left + index * step, y: HEIGHT - 8, "text-anchor": anchor, class: "axis" }, labels[index] ?? ""));
  }
  const legend = h("div", { class: "legend" }, ...series.map((one) => h("span", { class: one.class }, one.name)));
  return h("figure", { class: "figure" }, h("figcaption", {}, title, legend), picture);
}
