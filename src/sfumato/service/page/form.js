// A question by choosing: a table, which rows, statistics, groups. It writes SQL, which the box shows.

import { boxFor, comparisons, condition, isCompared, kindOf, listed, literal } from "./conditions.js";
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
const MOST = 10; // statistics, and conditions
const MOST_LIMIT = 1_000_000;
const MANY = 20; // columns, of which more are searched

export function isNumber(type) {
  return kindOf(type) === "whole" || kindOf(type) === "number";
}

function isRows(kind) {
  return kind === "rows" || kind === "units";
}

export class Form {
  /** `changed` is told when another question is chosen. */
  constructor(changed) {
    this.place = byId("by-form");
    this.place.addEventListener("submit", (event) => event.preventDefault());
    this.changed = changed;
    this.tables = [];
    this.state = null;
    this.wanted = ""; // of the columns to group by
  }

  /** Say which tables there are, and what was chosen before. */
  know(tables, before) {
    this.tables = tables.filter((table) => !table.public);
    this.state = before ? { ...before, conditions: before.conditions ?? [] } : null;
    if (!this.#isKnown) this.state = this.tables.length ? this.#fresh(this.tables[0]) : null;
    this.#draw();
  }

  /** Return the question as SQL; null while a part is missing. */
  sql(epsilon) {
    if (!this.state || this.#faults.length) return null;
    const statistics = this.state.statistics.map(({ kind, column, lower, upper }) => {
      if (isRows(kind)) return { kind, unit: this.#table.privacy_unit };
      if (this.#column(column).lower !== undefined) return { kind, column, lower: null, upper: null };
      return { kind, column, lower: literal("DOUBLE", lower).sql, upper: literal("DOUBLE", upper).sql };
    });
    const groups = this.state.groups.map((name) => ({ name, known: this.#column(name)?.domain !== undefined }));
    const conditions = this.state.conditions.map((one) => condition(this.#column(one.column), one.comparison, one.value).sql);
    const { table, maxGroups, maxRows } = this.state;
    return fromForm({ table, statistics, groups, conditions, maxGroups, maxRows }, epsilon);
  }

  /** Return what is missing of the question, for whoever asks. */
  get lacks() {
    if (!this.state) return "There is no private table to ask.";
    return `The question is not finished: ${this.#faults.map((one) => `${one.of} ${one.wrong}`).join("; ")}.`;
  }

  get #table() {
    return this.tables.find((table) => table.name === this.state.table);
  }

  /** Whether all that is chosen is there: what was kept may be of another day. */
  get #isKnown() {
    const known = this.state && this.#table, has = (name) => this.#column(name) !== undefined;
    return known && this.state.statistics.every((one) => isRows(one.kind) || has(one.column)) && this.state.groups.every(has)
      && this.state.conditions.every((one) => has(one.column));
  }

  #column(name) {
    return this.#table.columns.find((one) => one.name === name);
  }

  /** What is wrong with what was written, each with the box that it is in. */
  get #faults() {
    const found = [], { statistics, conditions, groups, maxGroups, maxRows } = this.state;
    const fault = (box, of, wrong) => { if (wrong) found.push({ box, of, wrong }); };
    conditions.forEach((one, i) => {
      if (isCompared(one.comparison)) fault(`value-${i}`, `condition ${i + 1}`, literal(this.#column(one.column).type, one.value).wrong);
    });
    statistics.forEach(({ kind, column, lower, upper }, i) => {
      if (isRows(kind) || this.#column(column).lower !== undefined) return;
      const [low, high] = [lower, upper].map((one) => literal("DOUBLE", one)), of = `statistic ${i + 1}`;
      const none = low.wrong && high.wrong && !lower && !upper ? "needs bounds, between which its values lie" : "";
      fault(low.wrong ? `lower-${i}` : `upper-${i}`, of, none || low.wrong && `${low.wrong} as its lower bound` || high.wrong && `${high.wrong} as its upper bound`
        || (Number(lower) >= Number(upper) ? "needs an upper bound above the lower one" : ""));
    });
    const limit = (box, value, most) => {
      const is = /^\d+$/.test(String(value).trim()) && Number(value) >= 1 && Number(value) <= (most ?? MOST_LIMIT);
      fault(box, box === "max-rows" ? "the limit of rows" : "the limit of groups", is ? "" : `needs a whole number from 1 to ${most ?? MOST_LIMIT}`);
    };
    if (groups.length) limit("max-groups", maxGroups, this.#table.max_groups);
    limit("max-rows", maxRows, this.#table.max_rows);
    return found;
  }

  /** Mark what is wrong, where it is: the first fault of each box. */
  #mark() {
    const faults = this.state ? this.#faults : [];
    for (const place of this.place.querySelectorAll(".wrong")) {
      const boxes = place.dataset.of.split(" "), found = faults.find((one) => boxes.includes(one.box));
      place.textContent = found ? found.wrong : "";
      for (const id of boxes) {
        const box = byId(id), isWrong = found?.box === id;
        for (const [attribute, value] of [["aria-invalid", "true"], ["aria-describedby", place.id]]) {
          if (isWrong) box.setAttribute(attribute, value);
          else box.removeAttribute(attribute);
        }
      }
    }
  }

  /** Return the place where it is said what is wrong with some boxes. */
  #wrong(...boxes) {
    return el("span", { class: "wrong", id: `wrong-${boxes[0]}`, "data-of": boxes.join(" ") });
  }

  #fresh(table) {
    const first = table.columns.find((column) => column.domain !== undefined);
    return {
      table: table.name, statistics: [{ kind: "rows", column: "", lower: "", upper: "" }], conditions: [], groups: first ? [first.name] : [],
      maxGroups: table.max_groups ?? 1, maxRows: table.max_rows ?? 1,
    };
  }

  #set(part, redraw = true) {
    this.state = { ...this.state, ...part };
    const focused = document.activeElement?.id;
    if (redraw) this.#draw();
    else this.#mark();
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
      el("fieldset", {}, el("legend", {}, "Only rows where"), this.#conditions()),
      el("fieldset", {}, el("legend", {}, "Statistics"), this.state.statistics.map((one, i) => this.#statistic(one, i)), add),
      el("fieldset", {}, el("legend", {}, "For each"), this.#groups()),
      el("fieldset", {}, el("legend", {}, "At most"), this.#limits()));
    this.#mark();
  }

  #conditions() {
    const { conditions } = this.state, columns = this.#table.columns.filter((one) => one.name !== this.#table.privacy_unit);
    const add = el("button", { type: "button", id: "condition-add", disabled: !columns.length || conditions.length >= MOST,
      onclick: () => { this.#set({ conditions: [...this.state.conditions, this.#begun(columns[0])] }); byId(`where-${conditions.length}`).focus(); } }, "Add a condition");
    const hint = !conditions.length ? "Without a condition, all rows count." : "A row counts if all of these hold. No comparison with a missing value holds.";
    return [conditions.map((one, i) => this.#condition(one, i, columns)), add, el("p", { class: "hint" }, hint)];
  }

  /** Return a condition of a column, to begin with. */
  #begun(column, comparison = comparisons(column)[0][0], value = "") {
    const known = listed(column, comparison);
    return { column: column.name, comparison, value: known && !known.includes(value) ? known[0] : value };
  }

  #condition(one, i, columns) {
    const put = (other, redraw) => this.#set({ conditions: this.state.conditions.map((old, at) => (at === i ? other(old) : old)) }, redraw);
    const column = this.#column(one.column), label = (text) => `${text} of condition ${i + 1}`, known = listed(column, one.comparison);
    const written = (event) => { const { value } = event.target; put((old) => ({ ...old, value }), false); };
    const value = { id: `value-${i}`, "aria-label": label("Value") };
    const parts = [
      el("select", { id: `where-${i}`, "aria-label": label("Column"), onchange: (event) => put(() => this.#begun(this.#column(event.target.value))) },
        columns.map((other) => el("option", { value: other.name, selected: other.name === one.column }, other.name))),
      el("select", { id: `comparison-${i}`, "aria-label": label("Comparison"), onchange: (event) => put((old) => this.#begun(column, event.target.value, old.value)) },
        comparisons(column).map(([comparison, text]) => el("option", { value: comparison, selected: comparison === one.comparison }, text)))];
    if (isCompared(one.comparison)) {
      parts.push(known ? el("select", { ...value, onchange: written }, known.map((text) => el("option", { value: text, selected: text === one.value }, text)))
        : el("input", { ...value, ...boxFor(column), value: one.value, oninput: written }));
      if (kindOf(column.type) === "instant") parts.push(el("span", { class: "hint" }, "UTC"));
    }
    parts.push(el("button", { type: "button", id: `condition-remove-${i}`, "aria-label": `Remove condition ${i + 1}`,
      onclick: () => { this.#set({ conditions: this.state.conditions.filter((_, at) => at !== i) }); byId("condition-add").focus(); } }, "Remove"));
    if (isCompared(one.comparison)) parts.push(this.#wrong(`value-${i}`));
    return el("p", { class: "statistic" }, parts);
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
      KINDS.filter(([kind]) => isRows(kind) || this.#numbers.length)
        .map(([kind, text]) => el("option", { value: kind, selected: kind === one.kind }, text)));
    const parts = [kinds];
    if (!isRows(one.kind)) {
      parts.push(el("select", { id: `column-${i}`, "aria-label": label("Column"), onchange: (event) => put({ column: event.target.value, lower: "", upper: "" }) },
        this.#numbers.map((column) => el("option", { value: column.name, selected: column.name === one.column }, column.name))));
      const column = this.#column(one.column);
      if (column?.lower !== undefined) parts.push(el("span", { class: "hint" }, `between ${column.lower} and ${column.upper}, as declared`));
      else parts.push(el("span", { class: "bounds" }, "between ", this.#bound(one, "lower", i, label("Lower bound"), put), " and ", this.#bound(one, "upper", i, label("Upper bound"), put)));
    }
    if (this.state.statistics.length > 1) parts.push(el("button", { type: "button", id: `remove-${i}`, "aria-label": `Remove statistic ${i + 1}`,
      onclick: () => { this.#set({ statistics: this.state.statistics.filter((_, at) => at !== i) }); byId("form-add").focus(); } }, "Remove"));
    if (!isRows(one.kind) && this.#column(one.column)?.lower === undefined) parts.push(this.#wrong(`lower-${i}`, `upper-${i}`));
    return el("p", { class: "statistic" }, parts);
  }

  #bound(one, part, i, label, put) {
    return el("input", { id: `${part}-${i}`, class: "number", type: "text", inputmode: "decimal", autocomplete: "off", value: one[part], "aria-label": label,
      oninput: (event) => put({ [part]: event.target.value }, false) });
  }

  #groups() {
    const units = [this.#table.privacy_unit, ...(this.#table.privacy_unit_parts ?? [])];
    const columns = this.#table.columns.filter((column) => !units.includes(column.name));
    const toggled = (name, on) => this.#set({ groups: columns.map((c) => c.name).filter((c) => (c === name ? on : this.state.groups.includes(c))) });
    const boxes = columns.map((column, i) => el("label", {},
      el("input", { id: `group-${i}`, type: "checkbox", checked: this.state.groups.includes(column.name), onchange: (event) => toggled(column.name, event.target.checked) }),
      ` ${column.name}`));
    const find = columns.length > MANY ? el("input", { id: "group-find", type: "search", placeholder: "Search columns", "aria-label": "Search columns to group by",
      autocomplete: "off", spellcheck: "false", value: this.wanted, oninput: (event) => { this.wanted = event.target.value; hide(); } }) : null;
    const hide = () => boxes.forEach((box, i) => {
      box.hidden = find !== null && !this.state.groups.includes(columns[i].name) && !columns[i].name.toLowerCase().includes(this.wanted.trim().toLowerCase());
    });
    hide();
    const open = this.state.groups.filter((name) => columns.find((column) => column.name === name)?.domain === undefined);
    const hint = !this.state.groups.length ? "No column is chosen, so there is one answer for all rows."
      : open.length ? `The values of ${open.join(", ")} are not declared: groups of few people are left out, for a delta of 1e-6.`
        : "The answer has every declared value, even those without rows.";
    return [find, el("div", { class: "boxes" }, boxes), el("p", { class: "hint" }, hint)];
  }

  #limits() {
    const number = (id, part, most, text) => el("p", {}, el("label", { class: "inline", for: id },
      el("input", { id, type: "number", min: "1", max: most ?? MOST_LIMIT, step: "1", value: this.state[part], inputmode: "numeric",
        oninput: (event) => this.#set({ [part]: event.target.value }, false) }), ` ${text} `), this.#wrong(id));
    const found = [number("max-rows", "maxRows", this.#table.max_rows, "rows of a person count in a group")];
    if (this.state.groups.length) found.unshift(number("max-groups", "maxGroups", this.#table.max_groups, "groups count for a person"));
    return [...found, el("p", { class: "hint" }, "Lower limits mean less noise. Contributions over a limit are left out or scaled down.")];
  }
}
