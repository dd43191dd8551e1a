// A chart of one statistic with error bars: along time or numbers, or a row for each group.

import { el, shown, svg, withError } from "./dom.js";

const MOST = 60; // groups
const MOST_LISTED = 1000; // to choose from
const LETTER = 9; // what one takes of a label, about
const NARROW = matchMedia("(max-width: 40rem)");
let again = () => {}; // draws the chart that is seen
NARROW.addEventListener("change", () => again());

/** Return a chart of an answer, with a choice of statistic; null where there is nothing to draw. */
export function chart(data, outputs) {
  const found = [...ofGroups(data, outputs), ...ofEntries(data, outputs), ...ofParts(data, outputs)];
  if (!found.length) return null;
  const place = el("div", { class: "chart" });
  // Of one group, what has several columns is seen best in one picture.
  let chosen = (data.rows.length === 1 && found.find((one) => one.each)) || found[0], row = 0;
  const draw = () => place.replaceChildren(drawn(chosen, chosen.each ? chosen.points(row) : chosen.points(), NARROW.matches ? 350 : 640));
  again = draw;
  const choice = el("select", { id: "chart-of", onchange: (event) => { chosen = found[event.target.value]; groups.hidden = !isChosen(); draw(); } },
    found.map((one, i) => el("option", { value: i, selected: one === chosen }, one.title)));
  const isChosen = () => Boolean(chosen.each) && data.rows.length > 1;
  const group = el("select", { id: "chart-group", onchange: (event) => { row = Number(event.target.value); draw(); } },
    found.some((one) => one.each) && data.rows.length > 1 ? data.rows.slice(0, MOST_LISTED).map((one, i) => el("option", { value: i }, labelOf(data, one))) : []);
  const groups = el("span", { hidden: !isChosen() }, " ", el("label", { for: "chart-group" }, "of the group "), group);
  draw();
  if (found.length === 1 && groups.hidden) return el("figure", {}, place);
  return el("figure", {}, el("p", { class: "choice" }, found.length > 1 ? el("span", {}, el("label", { for: "chart-of" }, "Chart of "), choice) : null, groups), place);
}

function isFigure(value) {
  return typeof value === "number" || (typeof value === "string" && /^-?\d+(\.\d+)?$/.test(value));
}

function indexOf(data, name) {
  return data.columns.findIndex((column) => column.name === name);
}

/** Return what a group is called. */
function labelOf(data, row) {
  return data.keys.map((key) => row[indexOf(data, key)]).map((key) => (key === null ? "none" : String(key))).join(", ");
}

function point(label, keys, value, error) {
  const is = isFigure(value);
  return { label, keys, value: is ? Number(value) : null, error: typeof error === "number" ? error : 0, told: is ? withError(value, error) : "" };
}

function kept(points) {
  return points.filter((one) => one.value !== null);
}

/** Return the outputs of one number in each group: their points are groups. */
function ofGroups(data, outputs) {
  const type = data.keys.length === 1 ? data.columns[indexOf(data, data.keys[0])].type : "";
  const axis = /^(date|timestamp|time)/.test(type) ? "time" : /^u?int|^float|^double/.test(type) ? "number" : null;
  const is = (name) => data.rows.length && data.rows.every((row) => row[indexOf(data, name)] === null || isFigure(row[indexOf(data, name)]));
  return outputs.filter(is).map((name) => ({ title: name, key: data.keys.join(", "), axis, points: () => kept(data.rows.map((row, i) =>
    point(labelOf(data, row) || name, data.keys.map((key) => row[indexOf(data, key)]), row[indexOf(data, name)], data.errors[name]?.[i]))) }));
}

/** Return the outputs that are lists: their points are the entries of one group's list. */
function ofEntries(data, outputs) {
  const is = (name) => {
    const lists = data.rows.map((row) => row[indexOf(data, name)]).filter((value) => value !== null);
    return lists.length && lists.every((list) => Array.isArray(list) && list.every((value) => value === null || isFigure(value)));
  };
  return outputs.filter(is).map((name) => ({ title: name, key: "entry", axis: "number", each: true, points: (row) => kept(
    (data.rows[row][indexOf(data, name)] ?? []).map((value, i) => point(`entry ${i + 1}`, [i + 1], value, data.errors[name]?.[row]?.[i]))) }));
}

/** Return the outputs of several columns, such as histograms: their points are these columns in one group. */
function ofParts(data, outputs) {
  const all = Object.entries(data.parts ?? {}).filter(([, names]) => names.every((name) => outputs.includes(name)
    && data.rows.every((row) => row[indexOf(data, name)] === null || isFigure(row[indexOf(data, name)]))));
  return all.map(([title, names]) => ({ title: `${title}, all of it`, key: "", axis: null, each: true, points: (row) => kept(
    names.map((name) => point(name, [name], data.rows[row][indexOf(data, name)], data.errors[name]?.[row]))) }));
}

function drawn({ title, key, axis }, found, width) {
  if (!found.length) return el("p", { class: "hint" }, `${title} has no number here.`);
  const time = axis === "time", along = axis && found.length > 2 && found.every((one) => position(one, time) !== null);
  const summary = `${title}${key ? ` by ${key}` : ""}: ${found.slice(0, 12).map((p) => `${p.label} ${p.told}`).join("; ")}${found.length > 12 ? "; and more, in the table" : ""}`;
  return along ? alongAxis(found, title, key, time, width, summary) : inRows(found, title, width, summary);
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
    svg("text", { class: "axis", x: 4, y: 16 }, all.length > MOST ? `${name}, the first ${MOST}` : name),
    found.map((p, i) => {
      const y = top + line * (i + 0.5);
      return svg("g", {}, svg("title", {}, `${p.label}: ${p.told}`),
        svg("text", { class: "tick", x: left - 10, y: y + 5, "text-anchor": "end" }, clipped(p.label)),
        p.error ? svg("path", { class: "bar", d: `M${x(p.value - p.error)} ${y}H${x(p.value + p.error)}m0 -7v14M${x(p.value - p.error)} ${y - 7}v14` }) : null,
        svg("circle", { class: "point", cx: x(p.value), cy: y, r: 5 }));
    }),
  ]);
}
