// The address of a view: its query, filters and grouping.

/**
 * @typedef {object} View
 * @property {?string} code query as hex
 * @property {?string} key item of the query; without a code, the query itself
 * @property {?number} id the same for an item without a key
 * @property {string[]} labels labels of the hits; none for every label
 * @property {?number} radius largest distance of a hit
 * @property {?number} k largest number of hits
 * @property {?number} group largest distance between duplicates, or null without grouping
 */

/** @type {View} */
export const START = Object.freeze({ code: null, key: null, id: null, labels: [], radius: null, k: null, group: null });

const natural = (text) => (/^\d{1,15}$/.test(text ?? "") ? Number(text) : null);

/** Returns the view of a query string. Invalid numbers are ignored. */
export function parse(search) {
  const values = new URLSearchParams(search);
  return {
    code: values.get("code")?.toLowerCase() || null,
    key: values.get("key") || null,
    id: natural(values.get("id")),
    labels: values.getAll("label"),
    radius: natural(values.get("radius")),
    k: natural(values.get("k")) || null,
    group: natural(values.get("group")),
  };
}

/** Returns the relative address of a view. */
export function format(view) {
  const values = new URLSearchParams();
  for (const name of ["code", "key", "id", "k", "radius", "group"]) {
    if (view[name] !== null) values.set(name, view[name]);
  }
  for (const label of view.labels) values.append("label", label);
  const text = values.toString();
  return text ? `?${text}` : "./";
}

/** Returns the view that searches by an item, with the filters of another view. */
export const similar = (item, view) => ({
  ...view,
  code: item.code,
  key: item.key,
  id: item.key === null ? item.id : null,
  k: null,
});

export const isStart = (view) => view.code === null && view.key === null && view.id === null;

// A file name that is not UTF-8 has its other bytes as U+DC80 to U+DCFF.
function escape(text) {
  const isByte = (letter) => /^[\udc80-\udcff]$/.test(letter);
  const escaped = (letter) => (isByte(letter) ? `%${(letter.charCodeAt(0) - 0xdc00).toString(16)}` : encodeURIComponent(letter));
  return Array.from(text, escaped).join("");
}

/** Returns a key as the end of a path. A key with segments that browsers or proxies would drop has no segments. */
export function path(key) {
  const segments = key.split("/");
  const fragile = segments.some((segment) => ["", ".", ".."].includes(segment));
  return fragile ? escape(key) : segments.map(escape).join("/");
}
