// Elements, always by their own functions: no text of anybody is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

/** Return a new element; children are nodes, or texts. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Return a new element of SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

export function byId(id) {
  return document.getElementById(id);
}

/** Return a wide table in a box that scrolls by itself, also by keys. */
export function table(label, head, rows, className = "") {
  const cells = (row) => row.map((cell, i) => el(i === 0 ? "th" : "td", i === 0 ? { scope: "row" } : {}, cell));
  return el("div", { class: `scroll ${className}`, tabindex: "0", role: "region", "aria-label": label },
    el("table", {},
      el("caption", { class: "hidden" }, label),
      el("thead", {}, el("tr", {}, head.map((cell) => el("th", { scope: "col" }, cell)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, cells(row))))));
}

/** Return a number as a text, to the digits that its error leaves it. */
export function shown(value, error = null) {
  if (value === null || value === undefined) return "none";
  if (Array.isArray(value)) return value.map((one) => shown(one)).join(", ");
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-6)) return value.toExponential(3);
  let digits = Number.isInteger(value) ? 0 : Math.max(0, 5 - Math.floor(Math.log10(size || 1)));
  if (typeof error === "number" && error > 0 && !Number.isInteger(value)) digits = Math.max(0, 1 - Math.floor(Math.log10(error)));
  digits = Math.min(digits, 12);
  return value.toLocaleString("en-US", { maximumFractionDigits: digits, minimumFractionDigits: error === null || Number.isInteger(value) ? 0 : digits });
}

/** Return a number with its error bar as a text, or numbers with theirs. */
export function withError(value, error) {
  if (error === null || error === undefined) return shown(value);
  if (Array.isArray(value) && Array.isArray(error)) return value.map((one, i) => withError(one, error[i])).join(", ");
  return `${shown(value, error)} ± ${shown(error, error)}`;
}

/** Return epsilon or delta as a text. */
export function amount(value) {
  return value === 0 || Math.abs(value) >= 1e-3 ? String(Number(value.toPrecision(4))) : value.toExponential().replace(/(\.\d{3})\d*e/, "$1e");
}

/** Give a text to be kept as a file. */
export function download(name, media, text) {
  const url = URL.createObjectURL(new Blob([text], { type: media }));
  const link = el("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
