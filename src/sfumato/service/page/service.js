// The service, by the token of whoever asks, which is in no address and in no cookie.

const BODY = "application/json";

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
  budget() { return this.#json("v1/budget"); }
  history() { return this.#json("v1/history"); }
  words() { return this.#json("v1/words"); }

  /** Return cost and expected errors: free, and no row is read. */
  ask(sql, units, epsilons = []) { return this.#json("v1/ask", { sql, units, epsilons }); }

  /** Return the answer as it came, and as data. It spends, unless it asks made-up rows. */
  async release(sql, dummy) {
    const text = await this.#text("v1/release", { sql, dummy });
    return { text, data: parsed(text) };
  }

  async #json(path, body) {
    return parsed(await this.#text(path, body));
  }

  async #text(path, body) {
    const headers = { Authorization: `Bearer ${this.token}`, Accept: BODY };
    const how = { headers, cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer" };
    if (body !== undefined) Object.assign(how, { method: "POST", body: JSON.stringify(body), headers: { ...headers, "Content-Type": BODY } });
    let answer, text;
    try {
      answer = await fetch(path, how);
      text = await answer.text();
    } catch {
      throw new Refused(0, { text: "The service does not answer. If it had the question, it may have spent its cost: reload this page, and see what you asked." });
    }
    if (answer.ok) return text;
    let error = { text: `the service answered with status ${answer.status}` };
    try { error = JSON.parse(text).error ?? error; } catch { /* not in its own words */ }
    throw new Refused(answer.status, error);
  }
}
