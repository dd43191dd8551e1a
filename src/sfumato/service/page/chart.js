// A chart of one statistic with error bars: along time or numbers, or a row for each group.

import { el, shown, svg, withError } from "./dom.js";

const MOST = 60; // groups
const LETTER = 9; // what one takes of a label, about
const NARROW = matchMedia("(max-width: 40rem)");
let again = () => {}; // draws the chart that is seen
NARROW.addEventListener("change", () => again());

/** Return a chart of an answer, with a choice of statistic; null where there is nothing to draw. */
export function chart(data, outputs) {
  const names = data.columns.map((column) => column.name);
  const numeric = outputs.filter((name) => data.rows.length && data.rows.every((row) => row[names.indexOf(name)] === null || isFigure(row[names.indexOf(name)])));
  if (!numeric.length) return null;
  const place = el("div", { class: "chart" });
  let chosen = numeric[0];
  const draw = (name) => { chosen = name; place.replaceChildren(drawn(data, names, name, NARROW.matches ? 350 : 640)); };
  again = () => draw(chosen);
  draw(chosen);
  if (numeric.length === 1) return el("figure", {}, place);
  const choice = el("select", { id: "chart-of", onchange: (event) => draw(event.target.value) }, numeric.map((name) => el("option", { value: name }, name)));
  return el("figure", {}, el("p", {}, el("label", { for: "chart-of" }, "Chart of "), choice), place);
}

function isFigure(value) {
  return typeof value === "number" || (typeof value === "string" && /^-?\d+(\.\d+)?$/.test(value));
}

function points(data, names, name) {
  const at = names.indexOf(name), keys = data.keys.map((key) => names.indexOf(key));
  return data.rows.map((row, i) => {
    const error = data.errors[name]?.[i];
    return { keys: keys.map((k) => row[k]), label: keys.map((k) => (row[k] === null ? "none" : String(row[k]))).join(", ") || name,
      value: row[at] === null ? null : Number(row[at]), error: typeof error === "number" ? error : 0, told: withError(row[at], error) };
  }).filter((point) => point.value !== null);
}

function drawn(data, names, name, width) {
  const found = points(data, names, name);
  const type = data.keys.length === 1 ? data.columns[names.indexOf(data.keys[0])].type : "";
  const time = /^(date|timestamp|time)/.test(type), number = /^u?int|^float|^double/.test(type);
  const along = (time || number) && found.length > 2 && found.every((point) => position(point, time) !== null);
  const summary = `${name}${data.keys.length ? ` by ${data.keys.join(", ")}` : ""}: ${found.slice(0, 12).map((p) => `${p.label} ${p.told}`).join("; ")}${found.length > 12 ? "; and more, in the table" : ""}`;
  return along ? alongAxis(found, name, data.keys[0], time, width, summary) : inRows(found, name, width, summary);
}

function position(point, time) {
  const value = time ? Date.parse(point.keys[0]) : point.keys[0];
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** Return round numbers between two numbers, about so many. */
export function ticks(low, high, count) {
  if (!(high > low)) return [low];
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw) ?? raw;
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i += 1) found.push(i * step);
  return found;
}

/** Return the range of values with their error bars; from 0 where that is not far. */
function range(found) {
  let low = Math.min(...found.map((p) => p.value - p.error)), high = Math.max(...found.map((p) => p.value + p.error));
  if (!(high > low)) { low -= Math.abs(low) * 0.1 || 1; high += Math.abs(high) * 0.1 || 1; }
  if (low > 0 && low < high * 0.6) low = 0;
  if (high < 0 && high > low * 0.6) high = 0;
  const room = (high - low) * 0.04;
  return [low === 0 ? 0 : low - room, high === 0 ? 0 : high + room];
}

function picture(width, height, summary, parts) {
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": summary }, svg("title", {}, summary), parts);
}

function alongAxis(found, name, key, time, width, summary) {
  const height = 320, left = 76, right = 16, top = 28, bottom = 48;
  const [low, high] = range(found), places = found.map((p) => position(p, time));
  const first = Math.min(...places), last = Math.max(...places);
  const x = (value) => left + 20 + ((value - first) / (last - first || 1)) * (width - left - right - 40);
  const y = (value) => top + ((high - value) / (high - low)) * (height - top - bottom);
  const sorted = found.map((p, i) => ({ ...p, at: places[i] })).sort((a, b) => a.at - b.at);
  const most = Math.max(2, (width - left - right) / (time ? 115 : 56)); // labels that fit beside each other
  const marks = sorted.length <= most ? sorted.map((p) => p.at) : time ? sorted.filter((_, i) => i % Math.ceil((sorted.length - 1) / (most - 1)) === 0).map((p) => p.at) : ticks(first, last, most - 1);
  const words = (value) => (time ? new Date(value).toISOString().slice(0, 10) : shown(value).replaceAll(",", ""));
  const whisker = Math.max(2, Math.min(7, 200 / sorted.length));
  return picture(width, height, summary, [
    ticks(low, high, 5).map((value) => [
      svg("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      svg("text", { class: "tick", x: left - 8, y: y(value) + 5, "text-anchor": "end" }, shown(Number(value.toPrecision(12))))]),
    marks.map((value) => svg("text", { class: "tick", x: x(value), y: height - bottom + 22, "text-anchor": "middle" }, words(value))),
    svg("text", { class: "axis", x: 4, y: 16 }, name), svg("text", { class: "axis", x: width - right, y: height - 6, "text-anchor": "end" }, key),
    time ? svg("polyline", { class: "line", points: sorted.map((p) => `${x(p.at)},${y(p.value)}`).join(" ") }) : null,
    sorted.map((p) => svg("g", {}, svg("title", {}, `${p.label}: ${p.told}`),
      p.error ? svg("path", { class: "bar", d: `M${x(p.at)} ${y(p.value - p.error)}V${y(p.value + p.error)}m${-whisker} 0h${2 * whisker}M${x(p.at) - whisker} ${y(p.value - p.error)}h${2 * whisker}` }) : null,
      svg("circle", { class: "point", cx: x(p.at), cy: y(p.value), r: Math.max(2, Math.min(5, 150 / sorted.length)) }))),
  ]);
}

function inRows(all, name, width, summary) {
  const found = all.slice(0, MOST), line = 30, right = 24, top = 30, height = top + line * found.length + 30;
  const longest = Math.max(...found.map((p) => p.label.length));
  const left = Math.min(width * 0.42, Math.max(60, 16 + longest * LETTER)), letters = Math.floor((left - 16) / LETTER);
  const [low, high] = range(found);
  const x = (value) => left + ((value - low) / (high - low)) * (width - left - right);
  // Names differ at their ends as often as where they begin.
  const clipped = (text) => (text.length > letters ? `${text.slice(0, Math.ceil(letters * 0.6) - 1)}…${text.slice(-Math.floor(letters * 0.4))}` : text);
  return picture(width, height, summary, [
    ticks(low, high, width / 130).map((value) => [
      svg("line", { class: "grid", x1: x(value), x2: x(value), y1: top, y2: height - 28 }),
      svg("text", { class: "tick", x: x(value), y: height - 10, "text-anchor": "middle" }, shown(Number(value.toPrecision(12))))]),
    svg("text", { class: "axis", x: 4, y: 16 }, all.length > MOST ? `${name}, the first ${MOST} groups` : name),
    found.map((p, i) => {
      const y = top + line * (i + 0.5);
      return svg("g", {}, svg("title", {}, `${p.label}: ${p.told}`),
        svg("text", { class: "tick", x: left - 10, y: y + 5, "text-anchor": "end" }, clipped(p.label)),
        p.error ? svg("path", { class: "bar", d: `M${x(p.value - p.error)} ${y}H${x(p.value + p.error)}m0 -7v14M${x(p.value - p.error)} ${y - 7}v14` }) : null,
        svg("circle", { class: "point", cx: x(p.value), cy: y, r: 5 }));
    }),
  ]);
}
