// Conditions that rows have to meet: what a column can be compared with, and its values as SQL has them.

import { name, quoted } from "./sql.js";

const WORDS = {
  is: "is", not: "is not", more: "is more than", least: "is at least", less: "is less than", most: "is at most",
  contains: "contains", begins: "begins with", missing: "is missing", present: "is not missing",
};
const OF_TIMES = { more: "is after", least: "is at or after", less: "is before", most: "is at or before" };
const SIGNS = { is: "=", not: "<>", more: ">", least: ">=", less: "<", most: "<=" };
const ORDERED = ["is", "not", "more", "least", "less", "most"];
const COMPARED = { truth: ["is"], text: ["is", "not", "contains", "begins"], other: [] };
const DIGITS = 37; // of a number: with more, no type of numbers has all of them
const LISTED = 200; // declared values that are chosen from a list
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i;
const DAY = /^\d{4}-\d\d-\d\d$/, CLOCK = /^([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?$/;

/** Return what values of a type are: "whole", "number", "date", "moment", "instant", "time", "truth", "text", or "other". */
export function kindOf(type) {
  if (/^U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)$/.test(type)) return "whole";
  if (/^(DOUBLE|FLOAT|DECIMAL(\(\d+,\s*\d+\))?)$/.test(type)) return "number";
  if (/^TIMESTAMP(_S|_MS|_NS)?$/.test(type)) return "moment";
  return { DATE: "date", "TIMESTAMP WITH TIME ZONE": "instant", TIME: "time", BOOLEAN: "truth", VARCHAR: "text" }[type] ?? "other";
}

/** Return the comparisons of a column, each with its words. */
export function comparisons(column) {
  const kind = kindOf(column.type), words = ["date", "moment", "instant", "time"].includes(kind) ? { ...WORDS, ...OF_TIMES } : WORDS;
  return [...(COMPARED[kind] ?? ORDERED), "missing", "present"].map((one) => [one, words[one]]);
}

/** Whether a comparison is with a value. */
export function isCompared(comparison) {
  return comparison !== "missing" && comparison !== "present";
}

/** Return the values that a column is known to have, to choose from; null where they have to be written. */
export function listed(column, comparison) {
  if (comparison !== "is" && comparison !== "not") return null;
  if (kindOf(column.type) === "truth") return ["true", "false"];
  const known = column.domain?.filter((value) => value !== null).map(String);
  return known?.length && known.length <= LISTED ? known : null;
}

/** Return a value as SQL has it, `{sql}`, or what is wrong with it, `{wrong}`: nothing else ever gets into the text. */
export function literal(type, given) {
  const kind = kindOf(type), text = kind === "text" ? given : given.trim();
  if (!text) return { wrong: "needs a value" };
  switch (kind) {
    case "whole":
    case "number": return ofNumber(kind, text);
    case "date": return isDay(text) ? { sql: `DATE ${quoted(text)}` } : { wrong: "needs a day, such as 2024-01-31" };
    case "time": return CLOCK.test(text) ? { sql: `TIME ${quoted(text)}` } : { wrong: "needs a time of day, such as 08:30" };
    case "moment":
    case "instant": {
      const [day, clock = "00:00", ...more] = text.split(/[T ]/);
      if (!isDay(day) || !CLOCK.test(clock) || more.length) return { wrong: "needs a day and a time, such as 2024-01-31 08:30" };
      const full = `${day} ${clock.length === 5 ? `${clock}:00` : clock}`;
      return { sql: kind === "moment" ? `TIMESTAMP ${quoted(full)}` : `TIMESTAMPTZ ${quoted(`${full}+00:00`)}` };
    }
    case "truth": return text === "true" || text === "false" ? { sql: text } : { wrong: "needs true or false" };
    case "text": return text.includes("\0") || !text.isWellFormed() ? { wrong: "has a character that no text of a table has" } : { sql: quoted(text) };
    default: return { wrong: "cannot be compared with a value here" };
  }
}

function ofNumber(kind, text) {
  if (kind === "whole" && !/^[+-]?\d+$/.test(text)) return { wrong: NUMBER.test(text) ? "needs a whole number" : "needs a whole number, such as 12" };
  if (!NUMBER.test(text)) return { wrong: "needs a number, such as 12.5" };
  if (text.replace(/e.*$/i, "").replace(/\D/g, "").length > DIGITS || !Number.isFinite(Number(text))) return { wrong: `needs a number of at most ${DIGITS} digits` };
  return { sql: text.replace("+", "").replace(/^(-?)0+(?=\d)/, "$1") };
}

function isDay(text) {
  const day = DAY.test(text) && !text.startsWith("0000") ? new Date(`${text}T00:00:00Z`) : null;
  return day !== null && !Number.isNaN(day.getTime()) && day.toISOString().slice(0, 10) === text; // no 30th of February
}

/** Return a condition as SQL, `{sql}`, or what is wrong with its value, `{wrong}`. */
export function condition(column, comparison, value) {
  const of = name(column.name);
  if (comparison === "missing") return { sql: `${of} IS NULL` };
  if (comparison === "present") return { sql: `${of} IS NOT NULL` };
  const found = literal(column.type, value);
  if (found.wrong) return found;
  if (comparison === "contains") return { sql: `contains(${of}, ${found.sql})` };
  if (comparison === "begins") return { sql: `starts_with(${of}, ${found.sql})` };
  return { sql: `${of} ${SIGNS[comparison]} ${found.sql}` };
}

/** Return what a box for a value is like. */
export function boxFor(column) {
  const kind = kindOf(column.type);
  if (kind === "date") return { type: "date", min: "0001-01-01", max: "9999-12-31" };
  if (kind === "moment" || kind === "instant") return { type: "datetime-local", step: "1", min: "0001-01-01T00:00", max: "9999-12-31T23:59" };
  if (kind === "time") return { type: "time", step: "1" };
  const bounds = column.lower === undefined ? "" : `${column.lower} to ${column.upper}`;
  return { type: "text", inputmode: kind === "text" ? "text" : "decimal", autocomplete: "off", spellcheck: "false", placeholder: bounds };
}
