// The service, by the token of whoever asks, which is in no address and in no cookie.

const BODY = "application/json";
const MOST_SENT = 3, MOST_WAITED = 600, PAUSE = 1000; // tries, and milliseconds between

/** Return a key by which the service knows a question that is sent again. */
export function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16).padStart(2, "0")).join("");
}

/** What the service says instead of an answer. */
export class Refused extends Error {
  constructor(status, error) {
    super(String(error.text ?? "the service gave no reason"));
    this.status = status;
    this.kind = String(error.kind ?? "");
    this.place = Array.isArray(error.place) ? error.place : null;
  }
}

/** Return JSON with whole numbers that JavaScript cannot hold as texts, where the browser tells them. */
export function parsed(text) {
  const exact = (_, value, context) =>
    typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "")
      ? context.source : value;
  return JSON.parse(text, exact);
}

export class Service {
  constructor(token) {
    this.token = token;
  }

  tables() { return this.#json("v1/tables"); }
  budget(everybody = false) { return this.#json(`v1/budget${everybody ? "?everybody=true" : ""}`); }
  history(everybody = false) { return this.#json(`v1/history${everybody ? "?everybody=true" : ""}`); }
  words() { return this.#json("v1/words"); }

  /** Return cost and expected errors: free, and no row is read. */
  ask(sql, units, epsilons = []) { return this.#json("v1/ask", { sql, units, epsilons }); }

  /** Return the answer as it came, and as data. It spends, unless it queries dummy rows, and only once with the same key. */
  async release(sql, dummy, key) {
    for (let lost = 0, waited = 0; ;) {
      try {
        const text = await this.#text("v1/release", { sql, dummy }, dummy ? {} : { "Idempotency-Key": key });
        return { text, data: parsed(text) };
      } catch (error) {
        // Lost on the way, or under way since it was sent before: the key gets the answer that was paid.
        const again = !dummy && (error.status === 0 ? ++lost < MOST_SENT : error.status === 409 && ++waited < MOST_WAITED);
        if (!again) throw error;
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
      }
    }
  }

  /** Return an answer that was paid before, for nothing. */
  async answer(entry) {
    const text = await this.#text(`v1/answers/${entry}`);
    return { text, data: parsed(text) };
  }

  async #json(path, body) {
    return parsed(await this.#text(path, body));
  }

  async #text(path, body, more = {}) {
    const headers = { Authorization: `Bearer ${this.token}`, Accept: BODY, ...more };
    const how = { headers, cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer" };
    if (body !== undefined) Object.assign(how, { method: "POST", body: JSON.stringify(body), headers: { ...headers, "Content-Type": BODY } });
    let answer, text;
    try {
      answer = await fetch(path, how);
      text = await answer.text();
    } catch {
      throw new Refused(0, { text: "The service does not answer. If it had the question, it may have spent its cost: reload this page, which asks for the answer again, for nothing." });
    }
    if (answer.ok) return text;
    let error = { text: `the service answered with status ${answer.status}` };
    try { error = JSON.parse(text).error ?? error; } catch { /* not in its own words */ }
    throw new Refused(answer.status, error);
  }
}
