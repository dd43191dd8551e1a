// Texts of SQL and of Python: names and values are quoted where they have to be.

const reserved = new Set();

/** Say which words are none of a column's before they are quoted. */
export function reserve(words) {
  for (const word of words) reserved.add(word);
}

/** Return a name as SQL has it. */
export function name(text) {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(text) && !reserved.has(text.toLowerCase()) ? text : `"${text.replaceAll('"', '""')}"`;
}

/** Return a text as SQL has it. */
export function quoted(text) {
  return `'${text.replaceAll("'", "''")}'`;
}

const NO_CODE = /'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|--[^\n]*|\/\*[^]*?\*\//g; // texts, names in quotes, remarks
const OPTIONS = /\bOPTIONS\s*\((?:[^()]|\([^()]*\))*\)?/gi;
const EPSILON = /(?<=\bepsilon\s*=\s*)[0-9.]+(?:e[+-]?[0-9]+)?(?=\s*(?:[,)]|$))/gi; // and no part of what is computed

/** Return where a text has its epsilons, in options alone: a column or a value may be called so, too. */
function epsilons(sql) {
  const code = sql.replace(NO_CODE, (found) => " ".repeat(found.length));
  return [...code.matchAll(OPTIONS)].flatMap((part) => [...part[0].matchAll(EPSILON)].map((one) => [part.index + one.index, one[0]]));
}

/** Return the epsilon of a text; null where it has none, or several. */
export function epsilonOf(sql) {
  const found = epsilons(sql);
  const value = found.length === 1 ? Number(found[0][1]) : NaN;
  return value > 0 && Number.isFinite(value) ? value : null;
}

/** Return the text with another epsilon. */
export function withEpsilon(sql, epsilon) {
  return epsilons(sql).reverse().reduce((text, [at, old]) => `${text.slice(0, at)}${epsilon}${text.slice(at + old.length)}`, sql);
}

/** Return what is asked by a form, as SQL. */
export function fromForm(asked, epsilon) {
  const { table, statistics, groups, conditions } = asked;
  const options = [`epsilon = ${epsilon}`];
  if (groups.some((group) => !group.known)) options.push("delta = 1e-6");
  if (groups.length) options.push(`max_groups_contributed = ${asked.maxGroups}`);
  options.push(`max_rows_per_group = ${asked.maxRows}`);
  const columns = [...groups.map((group) => name(group.name)), ...named(statistics, groups)];
  const lines = ["SELECT WITH DIFFERENTIAL_PRIVACY", `  OPTIONS (${options.join(", ")})`, columns.map((one) => `  ${one}`).join(",\n"), `FROM ${name(table)}`];
  if (conditions.length) lines.push(`WHERE ${conditions.join("\n  AND ")}`);
  if (groups.length) lines.push(`GROUP BY ${groups.map((group) => name(group.name)).join(", ")}`);
  return lines.join("\n");
}

const CALLS = { sum: "SUM", mean: "AVG", variance: "VAR_POP", deviation: "STDDEV_POP", median: "MEDIAN" };

function named(statistics, groups) {
  const taken = new Set(groups.map((group) => group.name.toLowerCase()));
  return statistics.map((one) => {
    const [call, wanted] = written(one);
    let called = wanted;
    for (let i = 2; taken.has(called.toLowerCase()); i += 1) called = `${wanted}_${i}`;
    taken.add(called.toLowerCase());
    return `${call} AS ${name(called)}`;
  });
}

function written({ kind, column, unit, lower, upper }) {
  if (kind === "rows") return ["COUNT(*)", "n"];
  if (kind === "units") return [`COUNT(DISTINCT ${name(unit)})`, "people"];
  const bounds = lower === null ? "" : `, contribution_bounds_per_row => (${lower}, ${upper})`;
  return [`${CALLS[kind]}(${name(column)}${bounds})`, `${kind}_${column}`];
}

/** Return a program that asks the same. */
export function python(sql, address) {
  const plain = !sql.includes("\\") && !sql.includes('"""') && !sql.endsWith('"');
  const literal = plain ? `"""\n${sql}\n"""` : JSON.stringify(sql);
  return [
    "import os",
    "",
    "from sfumato.client import connect",
    "",
    `service = connect(${JSON.stringify(address)}, os.environ["SFUMATO_TOKEN"])`,
    `table = service.sql(${literal})  # it may spend again`,
    'print(table.to_pandas(), table.errors().to_pandas(), sep="\\n\\n")',
    "",
  ].join("\n");
}

/** Return where a text is wrong, by what an error says: positions in JavaScript's units, or null. */
export function placeOf(sql, error) {
  if (error.place) {
    const units = (count) => Array.from(sql).slice(0, count).join("").length; // it counts characters
    return [units(error.place[0]), Math.max(units(error.place[1]), units(error.place[0]) + 1)];
  }
  const marked = /\n {4}([^\n]+)\n {4}( *)\^/.exec(error.message); // an expression's line, and its mark
  if (marked && sql.indexOf(marked[1]) >= 0) {
    const start = sql.indexOf(marked[1]) + marked[2].length;
    return [start, start + 1];
  }
  const quoted = /'([^'\n]+)'/.exec(error.message);
  const found = quoted && new RegExp(`(?<![\\w])${quoted[1].replace(/[^\w\s]/g, "\\$&")}(?![\\w])`, "iu").exec(sql);
  return found ? [found.index, found.index + found[0].length] : null;
}
