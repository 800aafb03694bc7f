// The history of the tab: one entry per query, with its depth, its preview, and the position that it was left at.
import { format } from "./address.js";

/** Returns the state of the current entry. */
export const entry = () => history.state ?? { depth: 0 };

/** Keeps the position of the current entry: its scroll position and the number of tiles. */
export function keepPosition(shown) {
  history.replaceState({ ...entry(), scroll: window.scrollY, shown }, "");
}

/** Adds an entry for a view. `shown` is the number of tiles of the entry that is left. */
export function push(view, state, shown) {
  keepPosition(shown);
  history.pushState({ ...state, depth: entry().depth + 1 }, "", format(view));
}

/** Changes the current entry. */
export function replace(view, state) {
  history.replaceState({ ...entry(), ...state }, "", format(view));
}

// Browsers limit how often an address may change, so that of a slider is written when it rests.
const REST = 200; // milliseconds
let unwritten = null; // view
let timer = 0;

/** Writes the address of a view soon. */
export function replaceSoon(view) {
  unwritten = view;
  clearTimeout(timer);
  timer = setTimeout(flush, REST);
}

/** Writes the address that is not written yet. */
export function flush() {
  if (unwritten) replace(unwritten, {});
  forget();
}

/** Drops the address that is not written yet. */
export function forget() {
  clearTimeout(timer);
  unwritten = null;
}
