// The page: who asks, what there is, a question, its cost, its answer, and what was asked before.

import { showAnswer } from "./answer.js";
import { amount, byId, el, table } from "./dom.js";
import { Editor } from "./editor.js";
import { Expected } from "./expected.js";
import { Form } from "./form.js";
import { newKey, parsed, Service } from "./service.js";
import { epsilonOf, placeOf } from "./sql.js";

const TOKEN = "sfumato.token", DRAFT = "sfumato.draft", ANSWER = "sfumato.answer", PENDING = "sfumato.pending";
const LONGEST = 2_000_000; // characters of an answer that is kept for a reload
const MOST_ASKED = 200;
const MANY_TABLES = 5, MANY_COLUMNS = 30; // of which more are searched

const NO_TOKEN = "There is no such token, or it is not valid any more.";

let service = null;
let asking = false;
let cost = null;
let left = null; // of the budget of whoever asks
let isOwner = false;
let epsilon = 1; // of the last question that had one

// What a reload keeps, in this tab alone; a browser may have no room for it.
const kept = {
  get(key) { try { return sessionStorage.getItem(key); } catch { return null; } },
  put(key, value) { try { sessionStorage.setItem(key, value); } catch { /* no room */ } },
  remove(key) { try { sessionStorage.removeItem(key); } catch { /* nothing is kept */ } },
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
  const lacking = cost === null || cost.repeats !== undefined || left === null ? []
    : ["epsilon", "delta"].filter((name) => cost[name] > left[name] * (1 + 1e-12)).map((name) => `${name} ${amount(cost[name])}, and ${amount(left[name])} is left`);
  if (lacking.length) button.disabled = true;
  byId("too-dear").textContent = lacking.length ? `This question costs more than is left: ${lacking.join("; ")}. Ask for less.` : "";
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

/** Ask; or ask what a reload has interrupted, `pending`, by the key that it was sent with. */
async function release(dummy, pending = null) {
  if (asking) return;
  asking = true;
  label();
  const { sql, key } = pending ?? { sql: editor.text, key: newKey() }, status = byId("status"), asker = service;
  showError(null);
  status.textContent = dummy ? "Querying dummy rows…" : pending ? "Fetching the answer to what you asked before the reload…" : "Asking…";
  if (!dummy) kept.put(PENDING, JSON.stringify({ sql, key }));
  try {
    const { text, data } = await asker.release(sql, dummy, key);
    if (asker !== service) return; // who has left: it is not for the next one
    if (!dummy) kept.remove(PENDING);
    show({ text, data, sql });
    status.textContent = `Answered, in ${data.rows.length} ${data.rows.length === 1 ? "row" : "rows"}${data.dummy ? ", of dummy rows" : ""}.`;
    if (!dummy && editor.text === sql) expected.changed(); // asked once more, it may cost nothing
  } catch (error) {
    if (asker !== service) return;
    if (error.status) kept.remove(PENDING); // else it may be paid, and a reload asks for the answer
    status.textContent = "";
    showError(error);
  } finally {
    asking = false;
    label();
    if (!dummy) await account();
  }
}

/** Show an answer, and keep it for a reload. */
function show({ text, data, sql }) {
  const answer = JSON.stringify({ text, sql });
  showAnswer({ text, data, sql });
  if (answer.length < LONGEST) kept.put(ANSWER, answer);
  byId("answer").focus();
}

/** Show the answer to what was asked before, which is paid. */
async function showAgain(entry) {
  const asker = service;
  showError(null);
  try {
    const { text, data } = await asker.answer(entry);
    if (asker === service) show({ text, data, sql: null });
  } catch (error) {
    if (asker === service) showError(error);
  }
}

/** Return a budget, or null of whoever has none, as an owner may. */
async function ownBudget(asker) {
  try {
    return await asker.budget();
  } catch (error) {
    if (error.status === 402 && isOwner) return null;
    throw error;
  }
}

/** Show what is left, and what was asked, to an owner by everybody: also in other tabs. */
async function account() {
  const asker = service;
  if (!asker) return;
  try {
    const [own, { history }, everybody] = await Promise.all([ownBudget(asker), asker.history(isOwner), isOwner ? asker.budget(true) : null]);
    if (asker !== service) return;
    const { total, remaining } = own ?? { total: { epsilon: 0, delta: 0 }, remaining: { epsilon: 0, delta: 0 } };
    byId("left").textContent = own ? `${own.analyst}: epsilon ${amount(remaining.epsilon)} of ${amount(total.epsilon)} left` : "Owner, without a budget to ask with";
    byId("left-meter").value = total.epsilon > 0 ? remaining.epsilon / total.epsilon : 0;
    expected.left = remaining.epsilon;
    left = remaining;
    label();
    const again = (one) => one.entry && !isOwner ? el("button", { type: "button", onclick: () => showAgain(one.entry), "aria-label": `Show the answer of entry ${one.entry}` }, "Show the answer") : "";
    const rows = history.slice(-MOST_ASKED).reverse().map((one) =>
      [one.what, ...(isOwner ? [one.analyst ?? ""] : []), when(one.at), amount(one.epsilon), amount(one.delta), ...(isOwner ? [] : [again(one)])]);
    const title = isOwner ? "What everybody asked" : "What you asked";
    byId("history-title").textContent = title;
    const delta = total.delta ? ` A question can have a delta of up to ${amount(remaining.delta)}, and all together ${amount(total.delta)}.` : "";
    byId("history-body").replaceChildren(
      rows.length ? table(title, ["Asked", ...(isOwner ? ["Who"] : []), "When", "Epsilon", "Delta", ...(isOwner ? [] : ["Answer"])], rows) : el("p", { class: "hint" }, "Nothing yet."),
      history.length > MOST_ASKED ? el("p", { class: "hint" }, `The last ${MOST_ASKED} of ${history.length}; /v1/history has all.`) : "",
      everybody ? el("p", { class: "hint" }, `Left of the budget over all analysts: epsilon ${amount(everybody.remaining.epsilon)} of ${amount(everybody.total.epsilon)}.`) : "",
      own ? el("p", { class: "hint" }, `Left: epsilon ${amount(remaining.epsilon)} of ${amount(total.epsilon)}.${delta}`) : "");
  } catch (error) {
    if (asker === service) showError(error);
  }
}

function when(at) {
  const time = at ? new Date(at) : null;
  return time && !Number.isNaN(time.getTime()) ? time.toLocaleString() : "";
}

/** Show tables and columns; where there are many, those alone whose names have a text. */
function showTables(tables) {
  const find = byId("find"), columns = tables.reduce((sum, one) => sum + one.columns.length, 0);
  byId("search").hidden = tables.length <= MANY_TABLES && columns <= MANY_COLUMNS;
  find.value = "";
  find.oninput = () => listTables(tables, find.value.trim().toLowerCase());
  listTables(tables, "");
}

function listTables(all, wanted) {
  const has = (name) => name.toLowerCase().includes(wanted);
  const tables = !wanted ? all : all.map((one) => (has(one.name) ? one : { ...one, columns: one.columns.filter((column) => has(column.name)) }))
    .filter((one) => has(one.name) || one.columns.length);
  const shownColumns = tables.reduce((sum, one) => sum + one.columns.length, 0);
  byId("found").textContent = !wanted ? "" : tables.length ? `${tables.length} of ${all.length} tables, ${shownColumns} columns` : "No table or column has this text in its name.";
  byId("table-list").replaceChildren(...tables.map((one, i) => el("details", { open: i < 3 },
    el("summary", {}, one.name, one.public ? " (public)" : ""),
    one.public ? null : el("p", { class: "hint" }, `Each ${one.privacy_unit} is protected with all its rows.${counted(one)}`),
    table(`Columns of ${one.name}`, ["Column", "Type", "Declared"], one.columns.map((column) => [column.name, column.type, declared(column)]), "small"))));
}

function counted(one) {
  const limits = [one.max_groups ? `in at most ${one.max_groups} groups` : "", one.max_rows ? `with at most ${one.max_rows} rows in each group` : ""].filter(Boolean);
  return limits.length ? ` It counts ${limits.join(", ")}.` : "";
}

function declared(column) {
  const bounds = column.lower === undefined ? "" : `${column.lower} to ${column.upper}`;
  const some = (column.domain ?? []).slice(0, 12).map(String).join(", ");
  return [bounds, some + (column.domain?.length > 12 ? ", …" : "")].filter(Boolean).join("; ");
}

async function enter(token) {
  const asker = new Service(token);
  const [{ tables, role }, words] = await Promise.all([asker.tables(), asker.words()]);
  service = asker;
  isOwner = role === "owner";
  kept.put(TOKEN, token);
  byId("sign-in").hidden = true;
  byId("desk").hidden = byId("who").hidden = false;
  showTables(tables);
  editor.know(tables, words);
  restore(tables);
  await account();
  let pending = null;
  try { pending = JSON.parse(kept.get(PENDING) ?? "null"); } catch { /* nothing is kept */ }
  if (pending) release(false, pending);
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
  for (const key of [TOKEN, DRAFT, ANSWER, PENDING]) kept.remove(key);
  left = null;
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

/** Enter; `focus` brings whoever has given a token by hand to the question. */
async function begin(token, focus = false) {
  if (!/^[\x21-\x7e]+$/.test(token)) { leave(NO_TOKEN); return; } // which no header could carry
  try {
    await enter(token);
    if (focus) byId("ask").focus();
  } catch (error) {
    leave(error.status === 401 ? NO_TOKEN : error.message);
  }
}

byId("sign-in").addEventListener("submit", (event) => { event.preventDefault(); begin(byId("token").value.trim(), true); });
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
