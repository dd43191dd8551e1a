// Cost and expected errors, before anything is spent; and the slider that says how both change with epsilon.

import { amount, byId, el, shown, table } from "./dom.js";
import { epsilonOf, withEpsilon } from "./sql.js";

const STOPS = [0.1, 0.2, 0.5, 1, 2, 5];
const PAUSE = 600; // milliseconds without a change, before the service is asked
const KEPT = 50;

export class Expected {
  /**
   * `service` gives the service, `text` the question, `lacks` what is missing where there is none; `chose` is told of another text, `refused` of an error or
   * of none, and `priced` of the cost, with the entry that
   * it `repeats` for nothing, or of null while it is not known.
   */
  constructor({ service, text, lacks, chose, refused, priced }) {
    Object.assign(this, { service, text, lacks, chose, refused, priced });
    this.slider = byId("epsilon");
    this.value = byId("epsilon-value");
    this.size = byId("size");
    this.place = byId("expected");
    this.previews = new Map();
    this.left = null;
    this.stops = STOPS;
    this.turn = 0;
    this.slider.addEventListener("input", () => this.#slid(false));
    this.slider.addEventListener("change", () => this.#slid(true));
    for (const begun of ["focus", "pointerdown"]) this.slider.addEventListener(begun, () => this.#compare());
    this.size.addEventListener("input", () => this.changed());
  }

  /** Ask again, when nothing has changed for a moment. */
  changed() {
    this.turn += 1;
    this.priced(null);
    this.#place();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#check(), PAUSE);
  }

  /** Ask nothing more: whoever asked has left. */
  stop() {
    this.turn += 1;
    clearTimeout(this.timer);
    this.previews.clear();
    this.comparing = null;
    this.place.replaceChildren();
  }

  get #chosen() {
    return this.stops[Number(this.slider.value)];
  }

  get #units() {
    const size = Number(this.size.value);
    return Number.isInteger(size) && size >= 1 && size <= 1_000_000 ? size : 1000;
  }

  /** Return what is known of this question, and of this size of group: by epsilon. */
  #known(text = this.text()) {
    const key = JSON.stringify([withEpsilon(text, "?"), this.#units]);
    if (!this.previews.has(key)) {
      if (this.previews.size > KEPT) this.previews.clear();
      this.previews.set(key, new Map());
    }
    return this.previews.get(key);
  }

  /** Put the slider where the text's epsilon is. */
  #place() {
    const epsilon = epsilonOf(this.text());
    this.slider.disabled = epsilon === null;
    if (epsilon === null) { this.value.textContent = this.text().trim() ? "as the text says" : ""; return; }
    this.stops = [...new Set([...STOPS, epsilon])].sort((a, b) => a - b);
    this.slider.max = String(this.stops.length - 1);
    this.slider.value = String(this.stops.indexOf(epsilon));
    this.#tell(epsilon);
  }

  #tell(epsilon) {
    const more = this.left !== null && epsilon > this.left ? ", more than is left" : "";
    this.value.textContent = `${amount(epsilon)}${more}`;
    this.slider.setAttribute("aria-valuetext", `epsilon ${amount(epsilon)}${more}`);
  }

  #slid(done) {
    this.#tell(this.#chosen);
    this.#show(this.#chosen);
    if (done && this.#chosen !== epsilonOf(this.text())) {
      this.chose(withEpsilon(this.text(), this.#chosen));
      this.changed();
    } else if (!done) this.#compare();
  }

  async #check() {
    const turn = this.turn, text = this.text(), epsilon = epsilonOf(text);
    if (!text.trim()) { this.place.replaceChildren(el("p", { class: "hint" }, this.lacks())); this.refused(null); return; }
    try {
      const { cost, remaining, notes, repeats } = await this.service().ask(text, []);
      if (turn !== this.turn) return;
      this.left = remaining.epsilon;
      this.refused(null);
      this.priced(repeats === null ? cost : { ...cost, repeats });
      if (epsilon !== null) this.#tell(epsilon);
      if (notes.length) { this.place.replaceChildren(...notes.map((note) => el("p", { class: "hint" }, note))); return; }
      if (!this.#show(epsilon)) await this.#preview(text, []);
      if (turn === this.turn) this.#show(epsilon);
    } catch (error) {
      if (turn === this.turn) { this.place.replaceChildren(); this.refused(error); }
    }
  }

  /** Ask at all stops at once, when the slider is first touched. */
  async #compare() {
    const text = this.text(), known = this.#known(), missing = this.stops.filter((one) => !known.has(one));
    if (epsilonOf(text) === null || !missing.length || this.comparing === known) return;
    this.comparing = known;
    try {
      await this.#preview(text, missing);
      if (this.#known() === known) this.#show(this.#chosen);
    } catch {
      this.comparing = null; // what is wrong is told when the text is checked
    }
  }

  async #preview(text, epsilons) {
    const known = this.#known(text);
    const found = await this.service().ask(text, [this.#units], epsilons);
    for (const epsilon of epsilons.length ? epsilons : [epsilonOf(text)]) {
      known.set(epsilon, found.previews.map((one) => ({ names: one.columns.map((column) => column.name),
        row: one.rows.find((row) => row[0] === epsilon) ?? one.rows[0], notes: one.notes })));
    }
  }

  /** Show the errors at an epsilon; until they are known, about how large they are. Return whether they are. */
  #show(epsilon) {
    const known = this.#known(), exact = known.has(epsilon);
    const nearest = exact ? epsilon : [...known.keys()].sort((a, b) => Math.abs(Math.log(a / epsilon)) - Math.abs(Math.log(b / epsilon)))[0];
    const tables = known.get(nearest);
    if (!tables) { this.place.replaceChildren(el("p", { class: "hint" }, "Computing expected errors…")); return false; }
    const told = (error) => (exact ? `± ${shown(error, error)}` : `about ± ${shown(error * nearest / epsilon, error)}`); // half the epsilon, twice the noise
    this.place.replaceChildren(...tables.flatMap(({ names, row, notes }) => {
      const outputs = names.map((name, i) => [name, row[i]]).slice(3).filter((_, i) => i % 2 === 0);
      const chance = row[2] < 0.995 ? [el("p", {}, `Such a group is shown with a chance of ${shown(Math.round(row[2] * 100))}%.`)] : [];
      return [
        table("Expected errors", ["Statistic", "95 of 100 answers are within"], outputs.map(([name, error]) => [name, told(error)]), "small"),
        ...chance,
        el("details", { class: "hint" }, el("summary", {}, "No row was read: what was assumed"), notes.map((note) => el("p", {}, note)))];
    }));
    if (!tables.length) this.place.replaceChildren(el("p", { class: "hint" }, "The errors of this question are known only after its release."));
    return exact;
  }
}
