// The tiles of a list of hits, in parts of some rows. The browser skips parts that are not near the screen, and further
// parts are added when their end comes near it.
import { format, similar } from "./address.js";
import { $, element, number } from "./dom.js";
import { thumbnail } from "./images.js";

const ROWS = 20; // per part
const template = $("tile");

/** Returns the name of an item for people: the end of its path. */
export const shortName = (item) => item.key?.split("/").slice(-2).join("/") || `#${item.id}`;

export const fileName = (item) => item.key?.split("/").pop() || `#${item.id}`;

/** Returns a tile. `distance` is false for items that are no hits. */
export function tile(hit, view, { distance = true, own = false } = {}) {
  const item = template.content.firstElementChild.cloneNode(true);
  const [card, ...others] = item.children;
  const [image, badge, caption] = card.children;
  const [label, name] = caption.children;
  card.href = format(similar(hit, view));
  card.title = hit.key ?? `#${hit.id}`;
  item.hit = hit;
  image.append(thumbnail(hit));
  if (distance) badge.textContent = hit.distance;
  else badge.remove();
  label.textContent = hit.label ?? "";
  name.textContent = fileName(hit);
  const words = [shortName(hit)];
  if (hit.label) words.push(hit.label);
  if (distance) words.push(`distance ${hit.distance}`);
  if (own) words.push("the query");
  card.setAttribute("aria-label", words.join(", "));
  item.classList.toggle("own", own);
  for (const control of [card, ...others]) control.tabIndex = -1;
  return item;
}

export class Grid {
  #stacks = [];
  #cells = []; // {hit, stack, member}, one per tile
  #tiles = new Map(); // id of a hit: its tile
  #parts = []; // {element, tiles}
  #shown = 0;
  #opened = new Set(); // ids of the first hits of opened stacks
  #active = 0;
  #view = null;
  #isOwn = null;
  #columns = 0;

  /** @param list the element @param end the element behind it @param more called when the user reaches the end */
  constructor(list, end, more) {
    this.list = list;
    this.more = more;
    this.end = end;
    this.observer = new IntersectionObserver((entries) => entries.at(-1).isIntersecting && this.#extend(), {
      rootMargin: "1200px",
    });
    this.observer.observe(end);
    list.addEventListener("focusin", (event) => this.#activate(this.index(event.target)));
    new ResizeObserver(() => this.#parts.length && this.#measure() && this.#draw()).observe(list);
  }

  get cells() {
    return this.#cells;
  }

  get shown() {
    return this.#shown;
  }

  get active() {
    return this.#active;
  }

  get #size() {
    return ROWS * this.#columns;
  }

  /** Removes all tiles. */
  clear() {
    this.#tiles.clear();
    this.#opened.clear();
    this.#stacks = [];
    this.#cells = [];
    this.#parts = [];
    this.#active = 0;
    this.#shown = 0;
    this.list.replaceChildren();
  }

  /** Shows stacks of hits. Tiles of hits that were shown before are kept. */
  show(stacks, view, isOwn, least = 0) {
    this.#stacks = stacks;
    this.#view = view;
    this.#isOwn = isOwn;
    if (!this.#parts.length) {
      this.list.replaceChildren();
      this.#part(0);
      this.#measure();
    }
    this.#update(Math.max(this.#shown, least, this.#size));
  }

  /** Shows placeholders. */
  wait(count) {
    this.clear();
    const tiles = Array.from({ length: count }, () => element("div", "tile skeleton"));
    const part = element("div", "part", ...tiles);
    part.setAttribute("aria-hidden", "true");
    this.list.append(part);
  }

  #part(i) {
    if (!this.#parts[i]) {
      this.#parts[i] = { element: element("div", "part"), tiles: [] };
      this.list.append(this.#parts[i].element);
    }
    return this.#parts[i];
  }

  /** Counts the columns. Returns true if their number has changed. */
  #measure() {
    const columns = getComputedStyle(this.#parts[0].element).gridTemplateColumns.split(" ").length;
    const changed = columns !== this.#columns;
    this.#columns = columns;
    return changed;
  }

  #update(wanted) {
    this.#cells = this.#stacks.flatMap((stack) => {
      const first = { hit: stack.hit, stack, member: false };
      if (!this.#opened.has(stack.hit.id)) return [first];
      return [first, ...stack.members.map((hit) => ({ hit, stack, member: true }))];
    });
    this.#shown = Math.min(wanted, this.#cells.length);
    this.#draw();
    this.#activate(Math.min(this.#active, Math.max(0, this.#shown - 1)));
    this.#watch();
  }

  #draw() {
    const parts = Math.max(1, Math.ceil(this.#shown / this.#size));
    for (const { element } of this.#parts.splice(parts)) element.remove();
    for (let i = 0; i < parts; i++) this.#drawPart(i);
  }

  #drawPart(i) {
    const part = this.#part(i);
    const from = i * this.#size;
    const cells = this.#cells.slice(from, Math.min(from + this.#size, this.#shown));
    const tiles = cells.map((cell, offset) => this.#tile(cell, from + offset));
    if (tiles.length === part.tiles.length && tiles.every((each, n) => each === part.tiles[n])) return;
    part.tiles = tiles;
    part.element.replaceChildren(...tiles);
    part.element.style.setProperty("--rows", Math.ceil(tiles.length / this.#columns));
  }

  /** Adds a part, or calls `more` if all hits are shown. */
  #extend() {
    if (this.#shown >= this.#cells.length) return this.more();
    const part = Math.floor(this.#shown / this.#size);
    this.#shown = Math.min((part + 1) * this.#size, this.#cells.length);
    this.#drawPart(part);
    this.#watch();
  }

  // The observer reports changes only, so an end that stays near the screen is observed again.
  #watch() {
    this.observer.unobserve(this.end);
    this.observer.observe(this.end);
  }

  #tile({ hit, stack, member }, index) {
    let item = this.#tiles.get(hit.id);
    if (!item || item.hit.distance !== hit.distance) {
      item = tile(hit, this.#view, { own: this.#isOwn(hit) });
      this.#tiles.set(hit.id, item);
    }
    item.index = index;
    const size = member ? 0 : stack.members.length;
    const opened = size > 0 && this.#opened.has(hit.id);
    const state = `${size} ${opened} ${member}`;
    if ((item.state ?? "0 false false") !== state) {
      const count = item.lastElementChild;
      item.classList.toggle("stack", size > 0 && !opened);
      item.classList.toggle("opened", opened);
      item.classList.toggle("member", member);
      count.hidden = size === 0;
      count.textContent = `×${number(size + 1)}`;
      count.setAttribute("aria-expanded", String(opened));
      count.setAttribute("aria-label", `${number(size + 1)} duplicates`);
    }
    item.state = state;
    return item;
  }

  #at(index) {
    return index >= 0 && index < this.#shown ? this.#tiles.get(this.#cells[index].hit.id) : undefined;
  }

  /** Opens or closes the stack of a tile. */
  toggle(index) {
    const { hit, stack } = this.#cells[index];
    const opens = !this.#opened.delete(hit.id);
    if (opens) this.#opened.add(hit.id);
    this.#update(this.#shown + (opens ? stack.members.length : 0));
    this.#at(index)?.lastElementChild.focus();
  }

  /** Returns the index of the tile that contains an element, or -1. */
  index(element) {
    const item = this.list.contains(element) ? element.closest(".tile") : null;
    return item?.index ?? -1;
  }

  // One tile is reachable with the tabulator key, the others with the arrows.
  #activate(index) {
    if (index < 0) return;
    for (const control of this.list.querySelectorAll("[tabindex='0']")) control.tabIndex = -1;
    for (const control of this.#at(index)?.children ?? []) control.tabIndex = 0;
    this.#active = index;
  }

  /** Focuses another tile: the next one for ArrowRight, and so on. Returns false for other keys. */
  move(key) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.#columns, ArrowDown: this.#columns }[key];
    if (step === undefined && key !== "Home" && key !== "End") return false;
    let index = this.list.contains(document.activeElement) ? this.#active + (step ?? 0) : this.#active;
    if (key === "Home") index = 0;
    if (key === "End") index = this.#shown - 1;
    if (index >= this.#shown) this.#extend();
    if (step > 1 && index >= this.#shown && Math.floor(this.#active / step) < Math.floor((this.#shown - 1) / step)) {
      index = this.#shown - 1; // the last row is shorter
    }
    this.focus(index);
    return true;
  }

  focus(index) {
    const item = this.#at(index);
    item?.firstElementChild.focus({ preventScroll: true });
    item?.scrollIntoView({ block: "nearest" });
  }

  /** Adds tiles up to an index, and makes this one the active one. */
  reveal(index) {
    while (index >= this.#shown && this.#shown < this.#cells.length) this.#extend();
    this.#activate(index);
  }
}
