// A question by choosing: a table, its groups, statistics. It writes SQL, which the box shows.

import { byId, el } from "./dom.js";
import { fromForm } from "./sql.js";

const KINDS = [
  ["rows", "number of rows"],
  ["units", "number of people"],
  ["mean", "average of"],
  ["sum", "sum of"],
  ["median", "median of"],
  ["variance", "variance of"],
  ["deviation", "standard deviation of"],
];
const NUMBER = /INT|DOUBLE|FLOAT|DECIMAL/;
const MOST = 10;

export function isNumber(type) {
  return NUMBER.test(type);
}

export class Form {
  /** `changed` is told when another question is chosen. */
  constructor(changed) {
    this.place = byId("by-form");
    this.place.addEventListener("submit", (event) => event.preventDefault());
    this.changed = changed;
    this.tables = [];
    this.state = null;
  }

  /** Say which tables there are, and what was chosen before. */
  know(tables, before) {
    this.tables = tables.filter((table) => !table.public);
    const known = before && this.tables.some((table) => table.name === before.table);
    this.state = known ? before : this.tables.length ? this.#fresh(this.tables[0]) : null;
    this.#draw();
  }

  /** Return the question as SQL; null while a part is missing. */
  sql(epsilon) {
    if (!this.state || !this.state.statistics.length) return null;
    const statistics = [];
    for (const { kind, column, lower, upper } of this.state.statistics) {
      const of = this.#table.columns.find((one) => one.name === column);
      if (kind === "rows" || kind === "units") { statistics.push({ kind, unit: this.#table.privacy_unit }); continue; }
      if (!of) return null;
      if (of.lower !== undefined) { statistics.push({ kind, column, lower: null, upper: null }); continue; }
      if (!isFinite(parseFloat(lower)) || !isFinite(parseFloat(upper))) return null;
      statistics.push({ kind, column, lower: Number(lower), upper: Number(upper) });
    }
    const groups = this.state.groups.map((name) => ({ name, known: this.#table.columns.find((one) => one.name === name)?.domain !== undefined }));
    const { table, maxGroups, maxRows } = this.state;
    return fromForm({ table, statistics, groups, maxGroups, maxRows }, epsilon);
  }

  get #table() {
    return this.tables.find((table) => table.name === this.state.table);
  }

  #fresh(table) {
    const first = table.columns.find((column) => column.domain !== undefined);
    return {
      table: table.name, statistics: [{ kind: "rows", column: "", lower: "", upper: "" }], groups: first ? [first.name] : [],
      maxGroups: table.max_groups ?? 1, maxRows: table.max_rows ?? 1,
    };
  }

  #set(part, redraw = true) {
    this.state = { ...this.state, ...part };
    const focused = document.activeElement?.id;
    if (redraw) this.#draw();
    if (redraw && focused) byId(focused)?.focus();
    this.changed();
  }

  #draw() {
    if (!this.state) {
      this.place.replaceChildren(el("p", {}, "There is no private table to ask."));
      return;
    }
    const tables = el("select", { id: "form-table", onchange: (event) => this.#set(this.#fresh(this.tables.find((t) => t.name === event.target.value))) },
      this.tables.map((table) => el("option", { value: table.name, selected: table.name === this.state.table }, table.name)));
    const add = el("button", { type: "button", id: "form-add", disabled: this.state.statistics.length >= MOST,
      onclick: () => this.#set({ statistics: [...this.state.statistics, this.#another()] }) }, "Add a statistic");
    this.place.replaceChildren(
      el("p", {}, el("label", { for: "form-table" }, "Table "), tables),
      el("fieldset", {}, el("legend", {}, "Statistics"), this.state.statistics.map((one, i) => this.#statistic(one, i)), add),
      el("fieldset", {}, el("legend", {}, "For each"), this.#groups()),
      el("fieldset", {}, el("legend", {}, "At most"), this.#limits()));
  }

  #another() {
    const column = this.#table.columns.find((one) => one.lower !== undefined && isNumber(one.type)) ?? this.#numbers[0];
    return column ? { kind: "mean", column: column.name, lower: "", upper: "" } : { kind: "units", column: "", lower: "", upper: "" };
  }

  get #numbers() {
    return this.#table.columns.filter((one) => isNumber(one.type) && one.name !== this.#table.privacy_unit);
  }

  #statistic(one, i) {
    const put = (part, redraw) => this.#set({ statistics: this.state.statistics.map((old, at) => (at === i ? { ...old, ...part } : old)) }, redraw);
    const label = (text) => `${text} of statistic ${i + 1}`;
    const kinds = el("select", { id: `kind-${i}`, "aria-label": `Statistic ${i + 1}`, onchange: (event) => put({ kind: event.target.value, column: one.column || this.#numbers[0]?.name || "" }) },
      KINDS.filter(([kind]) => kind === "rows" || kind === "units" || this.#numbers.length)
        .map(([kind, text]) => el("option", { value: kind, selected: kind === one.kind }, text)));
    const parts = [kinds];
    if (one.kind !== "rows" && one.kind !== "units") {
      parts.push(el("select", { id: `column-${i}`, "aria-label": label("Column"), onchange: (event) => put({ column: event.target.value, lower: "", upper: "" }) },
        this.#numbers.map((column) => el("option", { value: column.name, selected: column.name === one.column }, column.name))));
      const column = this.#table.columns.find((found) => found.name === one.column);
      if (column?.lower !== undefined) parts.push(el("span", { class: "hint" }, `between ${column.lower} and ${column.upper}, as declared`));
      else parts.push(el("span", { class: "bounds" }, "between ", this.#bound(one, "lower", i, label("Lower bound"), put), " and ", this.#bound(one, "upper", i, label("Upper bound"), put)));
    }
    if (this.state.statistics.length > 1) parts.push(el("button", { type: "button", id: `remove-${i}`, "aria-label": `Remove statistic ${i + 1}`,
      onclick: () => { this.#set({ statistics: this.state.statistics.filter((_, at) => at !== i) }); byId("form-add").focus(); } }, "Remove"));
    return el("p", { class: "statistic" }, parts);
  }

  #bound(one, part, i, label, put) {
    return el("input", { id: `${part}-${i}`, type: "number", step: "any", required: true, value: one[part], "aria-label": label,
      oninput: (event) => put({ [part]: event.target.value }, false) });
  }

  #groups() {
    const units = [this.#table.privacy_unit, ...(this.#table.privacy_unit_parts ?? [])];
    const columns = this.#table.columns.filter((column) => !units.includes(column.name));
    const toggled = (name, on) => this.#set({ groups: columns.map((c) => c.name).filter((c) => (c === name ? on : this.state.groups.includes(c))) });
    const boxes = columns.map((column, i) => el("label", {},
      el("input", { id: `group-${i}`, type: "checkbox", checked: this.state.groups.includes(column.name), onchange: (event) => toggled(column.name, event.target.checked) }),
      ` ${column.name}`));
    const open = this.state.groups.filter((name) => columns.find((column) => column.name === name)?.domain === undefined);
    const hint = !this.state.groups.length ? "Nothing chosen: one answer for all."
      : open.length ? `The values of ${open.join(", ")} are not declared: groups of few people are left out, for a delta of 1e-6.`
        : "All declared values are answered, also those of nobody.";
    return [el("div", { class: "boxes" }, boxes), el("p", { class: "hint" }, hint)];
  }

  #limits() {
    const number = (id, part, most, text) => el("label", { class: "inline", for: id },
      el("input", { id, type: "number", min: "1", max: most ?? "1000000", step: "1", value: this.state[part], inputmode: "numeric",
        oninput: (event) => { const value = Number(event.target.value); if (Number.isInteger(value) && value > 0) this.#set({ [part]: value }, false); } }), ` ${text}`);
    const found = [number("max-rows", "maxRows", this.#table.max_rows, "rows of a person count in a group")];
    if (this.state.groups.length) found.unshift(number("max-groups", "maxGroups", this.#table.max_groups, "groups count for a person"));
    return [...found, el("p", { class: "hint" }, "Lower limits, less noise; what is beyond them is left out, or counts in part.")];
  }
}
