// The box for SQL: completions while it is written, and the place of an error marked in it.

import { byId, el } from "./dom.js";
import { name, reserve } from "./sql.js";

const MOST = 8;

export class Editor {
  /** `changed` is told of each new text. */
  constructor(changed) {
    this.box = byId("sql");
    this.marks = byId("marks");
    this.list = byId("words");
    this.words = [];
    this.found = [];
    this.active = -1;
    this.place = null;
    this.box.addEventListener("input", () => { this.#typed(); changed(); });
    this.box.addEventListener("keydown", (event) => this.#key(event, changed));
    this.box.addEventListener("blur", () => this.#close());
    this.box.addEventListener("click", () => this.#close());
  }

  get text() { return this.box.value; }

  set text(given) {
    this.box.value = given;
    this.mark(null);
  }

  /** Say which words there are: of the tables, and of the language. */
  know(tables, language) {
    reserve(language.reserved);
    const columns = tables.flatMap((table) => table.columns.map((column) => ({
      text: column.name, insert: name(column.name), kind: `column of ${table.name}, ${column.type}`, table: table.name })));
    this.words = [
      ...tables.map((table) => ({ text: table.name, insert: name(table.name), kind: table.public ? "public table" : "table" })),
      ...columns,
      ...language.aggregates.map((one) => ({ text: one.name, insert: `${one.name}(`, kind: one.form })),
      ...language.options.map((text) => ({ text, insert: text, kind: "option" })),
      ...language.keywords.map((text) => ({ text, insert: text, kind: "keyword" })),
      ...language.functions.map((text) => ({ text, insert: `${text}(`, kind: "function of a row" })),
    ];
  }

  /** Mark a place, two positions; null for none. */
  mark(place) {
    this.place = place;
    if (place) this.box.setAttribute("aria-invalid", "true");
    else this.box.removeAttribute("aria-invalid");
    this.box.setAttribute("aria-describedby", place ? "error-text sql-hint" : "sql-hint");
    this.#draw();
  }

  /** Bring the cursor to the place that is marked. */
  go() {
    if (!this.place) return;
    this.box.focus();
    this.box.setSelectionRange(...this.place);
  }

  /** Be as high as the text, once it is seen. */
  fit() {
    this.box.style.height = "auto";
    this.box.style.height = `${this.box.scrollHeight + 2}px`;
  }

  #draw() {
    const text = this.text;
    const [start, stop] = this.place ?? [text.length, text.length];
    const wrong = text.slice(start, stop).trim() ? text.slice(start, stop) : `${text.slice(start, stop)} `;
    this.marks.replaceChildren(text.slice(0, start), this.place ? el("mark", {}, wrong) : "", text.slice(stop), "\n");
    this.fit();
  }

  #typed() {
    this.mark(null);
    const { prefix } = this.#word();
    const whole = this.words.some((one) => one.text.toLowerCase() === prefix.toLowerCase());
    if (prefix.length >= 2 && !whole) this.#open(prefix, -1);
    else this.#close();
  }

  /** Return the part of a word before the cursor, and where it begins. */
  #word() {
    const at = this.box.selectionStart;
    const prefix = /[\p{L}\p{N}_]*$/u.exec(this.text.slice(0, at))[0];
    return { prefix, start: at - prefix.length, at };
  }

  #open(prefix, active) {
    const wanted = prefix.toLowerCase(), text = this.text.toLowerCase();
    const fits = this.words.filter((one) => one.text.toLowerCase().startsWith(wanted) && one.text !== prefix);
    // Columns of tables that the text names come first.
    const near = (one) => (one.table && text.includes(one.table.toLowerCase()) ? 0 : 1);
    const seen = new Set();
    this.found = fits.sort((a, b) => near(a) - near(b)).filter((one) => !seen.has(one.text) && seen.add(one.text)).slice(0, MOST);
    this.active = Math.min(active, this.found.length - 1);
    if (!this.found.length) { this.#close(); return; }
    this.list.replaceChildren(...this.found.map((one, i) =>
      el("li", { id: `word-${i}`, role: "option", onmousedown: (event) => { event.preventDefault(); this.#take(i); } },
        el("span", {}, one.text), el("span", { class: "kind" }, one.kind))));
    this.list.hidden = false;
    this.#put();
    this.#choose(this.active);
  }

  /** Put the list below the line of the cursor. */
  #put() {
    const probe = el("span", {}, "\u200b");
    const { start } = this.#word();
    this.marks.replaceChildren(this.text.slice(0, start), probe, this.text.slice(start), "\n");
    const top = probe.offsetTop + probe.offsetHeight, left = probe.offsetLeft;
    this.#draw();
    const room = this.box.clientWidth - this.list.offsetWidth;
    this.list.style.top = `${top + 4}px`;
    this.list.style.left = `${Math.max(0, Math.min(left, room))}px`;
  }

  #choose(i) {
    this.active = i;
    [...this.list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === i)));
    if (i >= 0) this.box.setAttribute("aria-activedescendant", `word-${i}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  #close() {
    this.list.hidden = true;
    this.found = [];
    this.#choose(-1);
  }

  #take(i) {
    const { start, at } = this.#word();
    this.box.setRangeText(this.found[i].insert, start, at, "end");
    this.#close();
    this.box.dispatchEvent(new Event("input"));
    this.#close();
  }

  #key(event) {
    const open = !this.list.hidden;
    if (event.ctrlKey && event.key === " ") this.#open(this.#word().prefix, 0);
    else if (!open) return;
    else if (event.key === "ArrowDown") this.#choose((this.active + 1) % this.found.length);
    else if (event.key === "ArrowUp") this.#choose(this.active <= 0 ? this.found.length - 1 : this.active - 1);
    else if (event.key === "Escape") this.#close();
    else if ((event.key === "Enter" || event.key === "Tab") && this.active >= 0) this.#take(this.active);
    else return;
    event.preventDefault();
  }
}
