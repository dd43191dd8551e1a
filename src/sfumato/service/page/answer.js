// An answer: table, chart, what it cost, and what may be kept of it.

import { chart } from "./chart.js";
import { amount, byId, download, el, shown, table, withError } from "./dom.js";
import { python } from "./sql.js";

const MOST_ROWS = 1000;

/** Show an answer: its text as it came, its data, and the SQL that asked it, null where that is not known. */
export function showAnswer({ text, data, sql }) {
  const section = byId("answer"), body = byId("answer-body");
  const names = data.columns.map((column) => column.name);
  const outputs = names.filter((name) => !data.keys.includes(name));
  const spent = data.dummy ? "Made-up rows: an answer about nobody. Nothing was spent."
    : typeof data.repeats === "number" ? `The same answer as before, of entry ${data.repeats} of the ledger: nothing was spent again.`
    : `Spent: epsilon ${amount(data.spent.epsilon)}${data.spent.delta ? `, delta ${amount(data.spent.delta)}` : ""}.`;
  const bars = sentences(data).map((said) => ` ${said}`).join("");
  const rows = data.rows.slice(0, MOST_ROWS).map((row, i) => row.map((value, c) => {
    const error = data.errors[names[c]]?.[i];
    return data.keys.includes(names[c]) ? (value === null ? "none" : String(value)) : withError(value, error);
  }));
  const more = data.rows.length > MOST_ROWS ? el("p", { class: "hint" }, `The first ${shown(MOST_ROWS)} of ${shown(data.rows.length)} rows; the downloads have all.`) : null;
  const program = sql === null ? null : python(sql, location.href.replace(/[?#].*$/, "").replace(/\/$/, ""));
  const copied = el("span", { role: "status", class: "hint" });
  const file = data.dummy ? "made-up" : "answer";
  body.replaceChildren(
    el("p", { class: data.dummy ? "made-up" : "" }, spent + bars),
    ...data.hints.map((hint) => el("p", { class: "hint" }, hint)),
    chart(data, outputs),
    table("Answer", names, rows, "numbers"), ...(more ? [more] : []),
    el("div", { class: "actions" },
      el("button", { type: "button", onclick: () => downloadCsv(file, data, names) }, "Download CSV"),
      el("button", { type: "button", onclick: () => download(`${file}.json`, "application/json", text) }, "Download JSON"),
      el("button", { type: "button", onclick: () => download("receipt.json", "application/json", `${JSON.stringify(data.receipt, null, 1)}\n`) }, "Download receipt"),
      program === null ? null : el("button", { type: "button", id: "copy", onclick: async () => { copied.textContent = (await copy(program)) ? "Copied." : "The browser does not let this page copy: take it from below."; } }, "Copy as Python"),
      copied),
    el("p", { class: "hint" }, `Download CSV saves two files: ${file}.csv-metadata.json says what the numbers of ${file}.csv mean.`),
    ...(program === null ? [] : [details("The question in SQL", sql), details("The same in Python", program)]), details("How it was answered", data.explanation));
  section.hidden = false;
}

function details(title, text) {
  return el("details", {}, el("summary", {}, title), el("pre", { tabindex: "0" }, text));
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** Return what is said of the numbers: what they do not include, and what error bars cover. */
function sentences(data) {
  return Object.values(data.metadata ?? {}).filter((said) => typeof said === "string");
}

/** Save a CSV file and, first, its metadata: a browser that allows one file asks for the other. */
function downloadCsv(file, data, names) {
  download(`${file}.csv-metadata.json`, "application/json", metadata(data, `${file}.csv`));
  download(`${file}.csv`, "text/csv", csv(data, names));
}

/** Return the metadata of a CSV file, in the form in which a release writes it (release/release_files.py). */
export function metadata(data, url) {
  const said = sentences(data).join(" ");
  const found = { "@context": "http://www.w3.org/ns/csvw", url, ...(said && { "dc:description": said }), notes: [data.metadata ?? data.spent] };
  return `${JSON.stringify(found, null, 2)}\n`;
}

/** Return a text that no spreadsheet takes for a formula, as `guarded` of the service does (display/formatting.py). */
export function guarded(text) {
  return /^'*[=+\-@\t\r\n\uFF1D\uFF0B\uFF0D\uFF20]/.test(text) ? `'${text}` : text;
}

/** Return CSV as the service writes it: error bars as columns behind their numbers, lists as JSON. */
export function csv(data, names) {
  const barred = (name) => Object.hasOwn(data.errors, name); // and not constructor, which every object has
  const free = (name) => { let found = `${name}_error`; while (names.includes(found)) found += "_"; return found; };
  const plain = data.columns.map((column) => /^(u?int|float|double|half|decimal|date|time|duration|bool)/.test(column.type));
  const cell = (value, i) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "number" || typeof value === "boolean" || plain[i]) return String(value); // also numbers too long for JavaScript
    return `"${guarded(typeof value === "string" ? value : JSON.stringify(value)).replaceAll('"', '""')}"`;
  };
  const heads = names.flatMap((name) => barred(name) ? [name, free(name)] : [name]).map((text) => `"${guarded(text).replaceAll('"', '""')}"`).join(",");
  const rows = data.rows.map((row, i) => names.flatMap((name, j) => {
    const number = cell(row[j], j);
    return barred(name) ? [number, cell(data.errors[name][i])] : [number];
  }).join(","));
  return `${[heads, ...rows].join("\n")}\n`;
}
