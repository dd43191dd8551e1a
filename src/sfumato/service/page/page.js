// The page: who asks, what there is, a question, its cost, its answer, and what was asked before.

import { showAnswer } from "./answer.js";
import { amount, byId, el, table } from "./dom.js";
import { Editor } from "./editor.js";
import { Expected } from "./expected.js";
import { Form } from "./form.js";
import { parsed, Service } from "./service.js";
import { epsilonOf, placeOf } from "./sql.js";

const TOKEN = "sfumato.token", DRAFT = "sfumato.draft", ANSWER = "sfumato.answer";
const LONGEST = 2_000_000; // characters of an answer that is kept for a reload
const MOST_ASKED = 200;

const NO_TOKEN = "There is no such token, or it is not valid any more.";

let service = null;
let asking = false;
let cost = null;
let epsilon = 1; // of the last question that had one

// What a reload keeps, in this tab alone; a browser may have no room for it.
const kept = {
  get(key) { try { return sessionStorage.getItem(key); } catch { return null; } },
  put(key, value) { try { sessionStorage.setItem(key, value); } catch { /* no room */ } },
};

const editor = new Editor(() => changed());
const form = new Form(() => written());
const expected = new Expected({
  service: () => service,
  text: () => editor.text,
  lacks: () => (mode() === "form" ? form.lacks : "There is no question yet: write one in SQL."),
  chose: (text) => { editor.text = text; keep(); },
  refused: showError,
  priced: (found) => { cost = found; label(); },
});

function mode() {
  return document.querySelector("input[name=mode]:checked").value;
}

/** Let the form's question be the text. */
function written() {
  epsilon = epsilonOf(editor.text) ?? epsilon;
  editor.text = form.sql(epsilon) ?? "";
  changed();
}

function changed() {
  showError(null);
  byId("status").textContent = "";
  keep();
  expected.changed();
}

function keep() {
  kept.put(DRAFT, JSON.stringify({ mode: mode(), sql: editor.text, form: form.state }));
}

function label() {
  const button = byId("release");
  button.textContent = cost === null ? "Ask"
    : cost.repeats !== undefined ? `Ask again, for nothing: the answer of entry ${cost.repeats}`
    : `Ask, and spend epsilon ${amount(cost.epsilon)}${cost.delta ? `, delta ${amount(cost.delta)}` : ""}`;
  for (const one of [button, byId("try")]) one.disabled = asking || !editor.text.trim();
}

function showError(error) {
  const place = error ? placeOf(editor.text, error) : null;
  byId("error").hidden = !error;
  // The line and its mark are in the box already, where they stay together when it is narrow.
  byId("error-text").textContent = error ? (place ? error.message.replace(/:?\n {4}[^]*$/, "") : error.message) : "";
  byId("go-to-error").hidden = !place;
  editor.mark(place);
  if (error?.status === 401) leave("This token is not valid any more. Enter one that is.");
}

function switchMode() {
  byId("by-form").hidden = mode() !== "form";
  byId("by-sql").hidden = mode() !== "sql";
  if (mode() === "form") written();
  else { editor.fit(); keep(); }
}

async function release(dummy) {
  if (asking) return;
  asking = true;
  label();
  const sql = editor.text, status = byId("status"), asker = service;
  showError(null);
  status.textContent = dummy ? "Asking made-up rows…" : "Asking…";
  try {
    const { text, data } = await asker.release(sql, dummy);
    if (asker !== service) return; // who has left: it is not for the next one
    const answer = JSON.stringify({ text, sql });
    showAnswer({ text, data, sql });
    if (answer.length < LONGEST) kept.put(ANSWER, answer);
    status.textContent = `Answered, in ${data.rows.length} ${data.rows.length === 1 ? "row" : "rows"}${data.dummy ? ", of made-up rows" : ""}.`;
    byId("answer").focus();
    if (!dummy && editor.text === sql) expected.changed(); // asked once more, it may cost nothing
  } catch (error) {
    if (asker !== service) return;
    status.textContent = "";
    showError(error);
  } finally {
    asking = false;
    label();
    if (!dummy) await account();
  }
}

/** Show what is left, and what was asked: also in other tabs. */
async function account() {
  const asker = service;
  if (!asker) return;
  try {
    const [budget, { history }] = await Promise.all([asker.budget(), asker.history()]);
    if (asker !== service) return;
    const { total, remaining } = budget;
    byId("left").textContent = `${budget.analyst}: epsilon ${amount(remaining.epsilon)} of ${amount(total.epsilon)} left`;
    byId("left-meter").value = total.epsilon > 0 ? remaining.epsilon / total.epsilon : 0;
    expected.left = remaining.epsilon;
    const rows = history.slice(-MOST_ASKED).reverse().map((one) => [one.what, when(one.at), amount(one.epsilon), amount(one.delta)]);
    const delta = total.delta ? ` A question may name a delta of up to ${amount(remaining.delta)}; ${amount(total.delta)} are for all.` : "";
    byId("history-body").replaceChildren(
      rows.length ? table("What you asked", ["Asked", "When", "Epsilon", "Delta"], rows) : el("p", { class: "hint" }, "Nothing yet."),
      history.length > MOST_ASKED ? el("p", { class: "hint" }, `The last ${MOST_ASKED} of ${history.length}; /v1/history has all.`) : "",
      el("p", { class: "hint" }, `Left: epsilon ${amount(remaining.epsilon)} of ${amount(total.epsilon)}.${delta}`));
  } catch (error) {
    if (asker === service) showError(error);
  }
}

function when(at) {
  const time = at ? new Date(at) : null;
  return time && !Number.isNaN(time.getTime()) ? time.toLocaleString() : "";
}

function showTables(tables) {
  byId("table-list").replaceChildren(...tables.map((one, i) => el("details", { open: i < 3 },
    el("summary", {}, one.name, one.public ? " (public)" : ""),
    one.public ? null : el("p", { class: "hint" }, [`One value of ${one.privacy_unit} is protected, with all its rows`,
      one.max_groups ? `, which count in at most ${one.max_groups} groups` : "", one.max_rows ? `, as at most ${one.max_rows} rows in each` : "", "."].join("")),
    table(`Columns of ${one.name}`, ["Column", "Type", "Declared"], one.columns.map((column) => [column.name, column.type, declared(column)]), "small"))));
}

function declared(column) {
  const bounds = column.lower === undefined ? "" : `${column.lower} to ${column.upper}`;
  const some = (column.domain ?? []).slice(0, 12).map(String).join(", ");
  return [bounds, some + (column.domain?.length > 12 ? ", …" : "")].filter(Boolean).join("; ");
}

async function enter(token) {
  const asker = new Service(token);
  const [{ tables }, words] = await Promise.all([asker.tables(), asker.words()]);
  service = asker;
  kept.put(TOKEN, token);
  byId("sign-in").hidden = true;
  byId("desk").hidden = byId("who").hidden = false;
  showTables(tables);
  editor.know(tables, words);
  restore(tables);
  await account();
}

/** Show again what a reload has interrupted. */
function restore(tables) {
  let draft = {}, answer = null;
  try { draft = JSON.parse(kept.get(DRAFT) ?? "{}"); answer = JSON.parse(kept.get(ANSWER) ?? "null"); } catch { /* nothing is kept */ }
  if (answer) showAnswer({ ...answer, data: parsed(answer.text) });
  if (draft.sql) editor.text = draft.sql;
  form.know(tables, draft.form);
  document.querySelector(`input[name=mode][value=${draft.mode === "sql" ? "sql" : "form"}]`).checked = true;
  switchMode();
  if (mode() === "sql") expected.changed();
}

function leave(why = "") {
  service = null;
  expected.stop();
  for (const key of [TOKEN, DRAFT, ANSWER]) { try { sessionStorage.removeItem(key); } catch { /* nothing is kept */ } }
  byId("desk").hidden = byId("who").hidden = byId("answer").hidden = true;
  editor.text = "";
  byId("answer-body").replaceChildren();
  byId("status").textContent = "";
  byId("error").hidden = true;
  byId("history-body").replaceChildren();
  byId("sign-in").hidden = false;
  byId("sign-in-error").textContent = why;
  byId("token").value = "";
  byId("token").focus();
}

async function begin(token) {
  if (!/^[\x21-\x7e]+$/.test(token)) { leave(NO_TOKEN); return; } // which no header could carry
  try {
    await enter(token);
  } catch (error) {
    leave(error.status === 401 ? NO_TOKEN : error.message);
  }
}

byId("sign-in").addEventListener("submit", (event) => { event.preventDefault(); begin(byId("token").value.trim()); });
byId("leave").addEventListener("click", () => leave());
byId("release").addEventListener("click", () => release(false));
byId("try").addEventListener("click", () => release(true));
byId("go-to-error").addEventListener("click", () => {
  if (mode() === "form") { document.querySelector("input[name=mode][value=sql]").checked = true; switchMode(); }
  editor.go();
});
for (const one of document.querySelectorAll("input[name=mode]")) one.addEventListener("change", switchMode);
document.addEventListener("visibilitychange", () => { if (document.visibilityState === "visible") account(); });

const token = kept.get(TOKEN);
if (token) await begin(token);
else leave();
