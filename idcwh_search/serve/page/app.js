// The page of idcwh-serve: queries, views and their history, keyboard.
import { START, format, isStart, parse, similar } from "./address.js";
import { Answer } from "./answer.js";
import * as api from "./api.js";
import { Details } from "./details.js";
import { DistanceFilter } from "./distance.js";
import { Grid, fileName, tile } from "./grid.js";
import { fromBytes, pattern, setAvailable, small, thumbnail } from "./images.js";
import { LabelFilter } from "./labels.js";
import { stacked } from "./stacks.js";

const EXAMPLES = 12;
const RECENT = 12; // answers kept for the back button
const GROUP_RADII = [0, 1, 2, 3, 4, 6, 8, 12, 16, 31];
const GROUP_RADIUS = 2; // of the first grouping
const SKELETONS = 24;
const LONGEST_WAIT = 30; // seconds between attempts

const number = new Intl.NumberFormat("en");
const $ = (id) => document.getElementById(id);
const counted = (count, noun) => `${number.format(count)} ${noun}${count === 1 ? "" : "s"}`;

let info = null;
let view = START;
let answer = null;
let controller = new AbortController();
let timer = 0;
const recent = new Map();

// ---- Text for people

function announce(text) {
  $("live").textContent = text;
}

function element(name, className, ...content) {
  const result = document.createElement(name);
  if (className) result.className = className;
  result.append(...content);
  return result;
}

function button(text, action, className = "button") {
  const result = element("button", className, text);
  result.type = "button";
  result.addEventListener("click", action);
  return result;
}

const groupOption = (radius) => new Option(radius ? `≤ ${counted(radius, "bit")}` : "equal codes", String(radius));

// ---- Information about the service

async function loadInfo() {
  info = await api.info();
  setAvailable(info.images);
  document.body.classList.toggle("no-encoder", !info.encoder);
  labels.setLabels(info.labels ?? []);
  const facts = [
    counted(info.items, "item"),
    counted(info.bits, "bit"),
    info.model ? `model ${info.model.slice(0, 8)}` : "no model",
    info.encoder ? info.provider : "no encoder",
    `generation ${number.format(info.generation)}`,
  ];
  $("status").replaceChildren(...facts.map((fact) => element("span", "", fact)));
  $("status").title = [`idcwh ${info.version}`, info.model].filter(Boolean).join(", model ");
  const radii = GROUP_RADII.filter((radius) => radius < info.bits / 4);
  $("group-radius").replaceChildren(...radii.map(groupOption));
}

let loading = null;
const ready = () => (info ? Promise.resolve() : (loading ??= loadInfo().finally(() => (loading = null))));

// ---- Views

function setBusy(busy) {
  $("progress").hidden = !busy;
  $("content").setAttribute("aria-busy", String(busy));
}

function setMode(mode) {
  document.body.dataset.view = mode;
  $("start").hidden = mode !== "start";
  $("search").hidden = mode !== "search";
}

async function showStart(signal, attempt) {
  setMode("start");
  document.title = "Image search";
  $("text").value = "";
  $("search").classList.add("alone");
  answer = null;
  grid.clear();
  window.scrollTo(0, 0);
  try {
    await ready();
  } catch (error) {
    if (!signal.aborted) showFailure(error, (more) => open(START, { push: false, attempt: more }), attempt);
    return;
  }
  if (info.items === 0) {
    $("lead").replaceChildren("This collection is empty. Add images with ", element("code", "", "idcwh-index add"), ".");
  } else if (!info.encoder) {
    $("lead").textContent = "This service has no model. Search by an item, or enter a key, #id or code above.";
  } else {
    $("lead").textContent = `Finds the most similar of ${counted(info.items, "image")}.`;
  }
  if ($("example-grid").children.length === 0) await showExamples(signal).catch(() => {});
}

/** Returns a random code: the bits beyond the code length are 0. */
function randomCode() {
  const bytes = crypto.getRandomValues(new Uint8Array(Math.ceil(info.bits / 8)));
  if (info.bits % 8) bytes[bytes.length - 1] &= (1 << info.bits % 8) - 1;
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Shows items of random labels, each the nearest one to a random code. */
async function showExamples(signal) {
  const names = (info.labels ?? []).map(({ name }) => name);
  names.sort(() => Math.random() - 0.5);
  const requests = Array.from({ length: info.items ? EXAMPLES : 0 }, (_, i) => {
    const where = names.length ? { where: { labels: [names[i % names.length]] } } : {};
    return api.search({ code: randomCode() }, { k: 1, codes: true, ...where }, signal).catch(() => ({ hits: [] }));
  });
  const items = new Map((await Promise.all(requests)).flatMap(({ hits }) => hits).map((hit) => [hit.id, hit]));
  const tiles = [...items.values()].map((item) => tile(item, START, { distance: false }));
  for (const each of tiles) each.firstElementChild.tabIndex = 0;
  $("example-grid").replaceChildren(...tiles);
  $("examples").hidden = tiles.length === 0;
}

/** Shows the query: its image if there is one, otherwise the pattern of its code. */
function showQuery(state) {
  const item = { code: view.code ?? "", key: view.key, id: view.id };
  const isItem = view.key !== null || view.id !== null;
  let image = null;
  if (state.preview) image = fromBytes(state.preview);
  else if (view.key !== null) image = thumbnail(item);
  else if (view.code) image = pattern(view.code);
  $("search").classList.remove("alone");
  $("preview").replaceChildren(...(image ? [image] : []));
  const name = state.name ?? (isItem ? fileName(item) : "Query by code");
  $("query-name").textContent = name;
  $("query-name").title = view.key ?? name;
  $("query-kind").textContent = state.name ? "your image" : isItem ? "item of this collection" : "";
  $("query-code").textContent = view.code ?? "";
  $("query-code").title = view.code ?? "";
  $("share").hidden = !view.code || !navigator.clipboard;
  document.title = `${name} · Image search`;
}

function showLoading() {
  setMode("search");
  setBusy(true);
  hideNotice();
  $("search").classList.toggle("known", answer !== null);
  timer = setTimeout(() => {
    grid.wait(SKELETONS);
    $("count").textContent = "Searching";
    $("took").textContent = "";
    $("chips").replaceChildren();
    $("end").replaceChildren();
  }, 150);
}

function hideNotice() {
  $("notice").hidden = true;
  $("notice").replaceChildren();
  document.body.classList.remove("failed");
}

function showNotice(title, detail, ...actions) {
  $("notice").hidden = false;
  $("notice").replaceChildren(element("h3", "", title), element("p", "", detail), element("div", "actions", ...actions));
}

const TITLES = {
  401: "A key is required",
  403: "The key does not permit this",
  404: "No such item",
  413: "The image is too large",
  415: "This file cannot be read as an image",
  422: "The query is invalid",
  429: "The service is busy",
  503: "The service is not ready",
};

/** Shows a failure in place of the results. A temporary one is followed by further attempts. */
function showFailure(error, retry, attempt = 0) {
  if (!(error instanceof api.Failure)) throw error;
  setMode("search");
  setBusy(false);
  grid.clear();
  for (const id of ["chips", "end"]) $(id).replaceChildren();
  for (const id of ["count", "took"]) $(id).textContent = "";
  document.body.classList.add("failed");
  const title = error.status === 0 ? error.title : (TITLES[error.status] ?? "The search failed");
  const actions = [];
  if (error.temporary) {
    let seconds = Math.min(LONGEST_WAIT, Math.max(error.retryAfter ?? 1, 2 ** attempt));
    const wait = element("span", "wait");
    wait.setAttribute("aria-hidden", "true");
    const again = () => {
      clearTimeout(timer);
      retry(attempt + 1);
    };
    const tick = () => {
      if (seconds === 0) return again();
      wait.textContent = `Next attempt in ${seconds--} s`;
      timer = setTimeout(tick, 1000);
    };
    tick();
    actions.push(button("Try now", again, "button primary"), wait);
  } else if (error.status === 401) {
    actions.push(button("Enter the key", () => retry(0), "button primary"));
  }
  if (!isStart(parse(location.search)) || !error.temporary) actions.push(button("Back to the start", () => open(START)));
  showNotice(title, error.detail ?? "", ...actions);
  announce(`${title}. ${error.detail ?? ""}`);
}

// ---- Queries

const entry = () => history.state ?? { depth: 0 };

/** Keeps the scroll position of the current view for the back button. */
function keepPosition() {
  history.replaceState({ ...entry(), scroll: window.scrollY, shown: grid.shown }, "");
}

function setAddress(state, push) {
  if (push) {
    keepPosition();
    history.pushState({ ...state, depth: entry().depth + 1 }, "", format(view));
  } else {
    history.replaceState({ ...entry(), ...state }, "", format(view));
  }
}

/**
 * Opens a view.
 *
 * `push` adds an entry to the history. `image` is the file of a query without a code, and `state` has its preview and
 * name, and the position of a view that was left before.
 */
async function open(next, { push = true, image = null, state = {}, attempt = 0 } = {}) {
  controller.abort();
  clearTimeout(timer);
  controller = new AbortController();
  const { signal } = controller;
  writeAddress();
  const focused = grid.list.contains(document.activeElement);
  hideNotice();
  setBusy(false);
  for (const dialog of [details.dialog, $("help-dialog")]) dialog.close();
  view = next;
  if (isStart(view) && !image) {
    if (push && format(view) !== (location.search || "./")) setAddress({}, true);
    return showStart(signal, attempt);
  }
  let pushed = !push;
  if (view.code && !pushed) {
    setAddress(state, true);
    pushed = true;
  }
  showQuery(state);
  showLoading();
  try {
    await ready();
    const byItem = view.key !== null ? { key: view.key } : { id: view.id };
    const query = image ? { image } : view.code ? { code: view.code } : byItem;
    const name = JSON.stringify([view.code, view.labels]);
    let found = view.code ? recent.get(name) : undefined;
    if (found?.generation !== info.generation) found = new Answer(query, view.labels, info.max_results);
    if (!found.code) await found.more(signal);
    while (state.shown > found.hits.length && found.hits.length < found.reachable(view.radius)) await found.more(signal);
    if (signal.aborted) return;
    answer = found;
  } catch (error) {
    if (signal.aborted) return;
    clearTimeout(timer);
    const again = (more) => open(next, { push: !pushed, image, state, attempt: more });
    return showFailure(error, again, attempt);
  }
  clearTimeout(timer);
  setBusy(false);
  const own = view.id !== null && answer.hits.find(({ id }) => id === view.id);
  if (view.code !== answer.code || own?.key) {
    view = { ...view, code: answer.code, ...(own?.key && { key: own.key, id: null }) };
    setAddress(state, !pushed);
    showQuery(state);
  }
  remember();
  grid.clear();
  showFilters();
  paint(state.shown);
  window.scrollTo(0, state.scroll ?? 0);
  if (focused) grid.focus(0);
  if (answer.generation !== info.generation) loadInfo().catch(() => {});
}

function remember() {
  const name = JSON.stringify([answer.code, answer.labels]);
  recent.delete(name);
  recent.set(name, answer);
  if (recent.size > RECENT) recent.delete(recent.keys().next().value);
}

/** Changes the filters of the view. Only other labels need a request. */
function refine(change) {
  view = { ...view, ...change };
  clearTimeout(writing);
  writing = setTimeout(writeAddress, 200);
  if ("labels" in change) open(view, { push: false, state: { ...entry(), scroll: 0, shown: 0 } });
  else paint();
}

let writing = 0; // timer of an address that is not written yet, because browsers limit how often it may change

function writeAddress() {
  if (writing) history.replaceState(entry(), "", format(view));
  clearTimeout(writing);
  writing = 0;
}

async function upload(file, name) {
  const failure = !file.type || file.type.startsWith("image/") ? null : new api.Failure(415, "", `${name} is no image.`);
  const next = { ...view, code: null, key: null, id: null, k: null };
  if (failure) {
    view = next;
    showQuery({ name });
    return showFailure(failure, () => {});
  }
  const preview = await small(file);
  await open(next, { image: file, state: { preview, name } });
}

/** Searches by a text: #id, a code, or the key of an item. */
function searchText(text) {
  const next = { ...view, code: null, key: null, id: null, k: null };
  if (/^#\d+$/.test(text)) next.id = Number(text.slice(1));
  else if (isCode(text)) next.code = text.toLowerCase();
  else next.key = text;
  return open(next);
}

const isCode = (text) => info !== null && /^[0-9a-f]+$/i.test(text) && text.length === 2 * Math.ceil(info.bits / 8);

// ---- Results

function showFilters() {
  distance.show(answer.histogram, answer.farthest, view.radius);
  labels.select(view.labels);
  const radius = view.group ?? GROUP_RADIUS;
  if (![...$("group-radius").options].some((option) => Number(option.value) === radius)) {
    $("group-radius").append(groupOption(radius));
  }
  $("group").checked = view.group !== null;
  $("group-radius").value = String(radius);
  $("group-radius").disabled = view.group === null;
  const chips = view.labels.map((label) => chip(label, () => refine({ labels: view.labels.filter((each) => each !== label) })));
  if (view.k !== null) chips.push(chip(`nearest ${number.format(view.k)}`, () => refine({ k: null })));
  $("chips").replaceChildren(...chips);
  const refined = view.labels.length + (view.group === null ? 0 : 1);
  $("refined").textContent = refined ? String(refined) : "";
}

function chip(text, remove) {
  const result = button(text, remove, "chip");
  result.setAttribute("aria-label", `Remove the filter ${text}`);
  return result;
}

const reachable = () => Math.min(answer.reachable(view.radius), view.k ?? Infinity);
const isOwn = (hit) => (view.key !== null ? hit.key === view.key : hit.id === view.id);

/** Shows the hits of the current answer that pass the filters. */
function paint(least) {
  const reach = reachable();
  const hits = answer.hits.slice(0, reach);
  const complete = hits.length >= reach;
  const stacks = stacked(hits, view.group);
  $("search").classList.add("known");
  showFilters();
  hideNotice();
  grid.show(stacks, view, isOwn, least);

  const within = answer.within(view.radius);
  let text = counted(Math.min(within, view.k ?? Infinity), "image");
  if (view.radius !== null) text += ` within ${counted(view.radius, "bit")}`;
  if (view.group !== null && complete && stacks.length < hits.length) text += ` in ${counted(stacks.length, "group")}`;
  $("count").textContent = text;
  announce(hits.length ? `${text}, nearest at distance ${hits[0].distance}` : text);
  showTook(answer.took);

  $("end").replaceChildren();
  if (hits.length === 0) showEmpty();
  else if (complete && within > reach && view.k === null) {
    $("end").textContent = `The nearest ${number.format(reach)} of ${counted(within, "image")} are shown.`;
  } else if (complete && hits.length > 24) {
    $("end").textContent = "No further images";
  }
}

function showTook(took) {
  if (!took) return;
  const milliseconds = (value) => `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;
  const image = (took.decode ?? 0) + (took.preprocess ?? 0) + (took.encode ?? 0);
  const parts = image > 0.05 ? [`image ${milliseconds(image)}`] : [];
  $("took").textContent = [...parts, `search ${milliseconds(took.search ?? 0)}`].join(" · ");
}

function showEmpty() {
  const nearest = answer.histogram.findIndex((count) => count > 0);
  if (nearest < 0) {
    const action = button("Remove the filter", () => refine({ labels: [] }), "button primary");
    if (view.labels.length) showNotice("No image has this label", view.labels.join(", "), action);
    else showNotice("This collection is empty", "Add images with idcwh-index add.");
    return;
  }
  const action = button("Show the nearest images", () => refine({ radius: null }), "button primary");
  showNotice(`No image within ${counted(view.radius, "bit")}`, `The nearest one is at distance ${number.format(nearest)}.`, action);
}

let fetching = false;

/** Requests further hits when the user reaches the end of those that are shown. */
async function more() {
  if (!answer || fetching || answer.hits.length >= reachable()) return;
  fetching = true;
  const current = answer;
  $("end").replaceChildren(element("span", "spinner"), "Loading more images");
  try {
    await current.more(controller.signal);
    if (current === answer) paint();
  } catch (error) {
    if (!(error instanceof api.Failure) || current !== answer) return;
    $("end").replaceChildren(`${TITLES[error.status] ?? error.title} `, button("Try again", more));
  } finally {
    fetching = false;
  }
}

const grid = new Grid($("grid"), $("end"), more);
const details = new Details(grid, () => view);
const labels = new LabelFilter((selected) => refine({ labels: selected }));
let frame = 0;
const distance = new DistanceFilter((radius) => {
  cancelAnimationFrame(frame);
  frame = requestAnimationFrame(() => refine({ radius, k: null }));
});

// ---- Clicks

const isPlain = (event) => event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;

document.addEventListener("click", (event) => {
  const link = event.target.closest("a.card, #home, #detail-similar");
  if (link && isPlain(event)) {
    event.preventDefault();
    open(link.id === "home" ? START : parse(new URL(link.href).search));
  }
  const control = event.target.closest("#grid .expand, #grid .count");
  if (control?.matches(".expand")) details.show(grid.index(control));
  if (control?.matches(".count")) grid.toggle(grid.index(control));
  if (event.target.closest(".close")) event.target.closest("dialog").close();
  else if (event.target.matches("dialog") && event.target.id !== "key-dialog") event.target.close();
});

$("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("text").value.trim();
  if (text) searchText(text).then(() => $("text").blur());
});
for (const id of ["pick", "drop"]) $(id).addEventListener("click", () => $("file").click());
$("file").addEventListener("change", () => {
  const [file] = $("file").files;
  if (file) upload(file, file.name);
  $("file").value = "";
});
$("shuffle").addEventListener("click", () => showExamples(controller.signal));
$("help").addEventListener("click", () => $("help-dialog").showModal());
$("group").addEventListener("change", () => refine({ group: $("group").checked ? Number($("group-radius").value) : null }));
$("group-radius").addEventListener("change", () => refine({ group: Number($("group-radius").value) }));
$("share").addEventListener("click", async () => {
  writeAddress();
  const text = $("share").querySelector("span");
  await navigator.clipboard.writeText(location.href);
  text.textContent = "Copied";
  announce("The link is copied");
  setTimeout(() => (text.textContent = "Link"), 2000);
});

// ---- Drop and paste

let inside = 0; // nested elements that the file is above
const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
const setDropping = (count) => {
  inside = count;
  $("dropping").hidden = count === 0;
};
document.addEventListener("dragenter", (event) => hasFiles(event) && setDropping(inside + 1));
document.addEventListener("dragleave", (event) => hasFiles(event) && setDropping(Math.max(0, inside - 1)));
document.addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
document.addEventListener("drop", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  setDropping(0);
  const [file] = event.dataTransfer.files;
  if (file) upload(file, file.name);
});
document.addEventListener("paste", (event) => {
  const file = [...event.clipboardData.files].find(({ type }) => type.startsWith("image/"));
  if (file) {
    event.preventDefault();
    upload(file, "Pasted image");
  } else if (!event.target.closest?.("input, select, dialog")) {
    const text = event.clipboardData.getData("text").trim();
    if (isCode(text)) searchText(text);
  }
});

// ---- Keyboard

document.addEventListener("keydown", (event) => {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (document.querySelector("dialog[open]")) {
    if (details.dialog.open && details.key(key)) event.preventDefault();
    return;
  }
  if (target.matches("input:not([type=checkbox], [type=range]), select")) {
    if (key === "Escape") target.blur();
    return;
  }
  const index = grid.index(target);
  let done = true;
  if (key === "/") {
    $("text").focus();
    $("text").select();
  } else if (key === "?") $("help-dialog").showModal();
  else if (key === "Escape") back();
  else if (key === "s" && index >= 0) target.closest(".tile").firstElementChild.click();
  else if (key === " " && target.matches("#grid .card")) details.show(index);
  else if (target === document.body || target === $("content") || index >= 0) {
    done = answer !== null && (index >= 0 || key.startsWith("Arrow")) && grid.move(key);
  } else done = false;
  if (done) event.preventDefault();
});

function back() {
  if (entry().depth > 0) history.back();
  else if (document.body.dataset.view !== "start") open(START);
}

// ---- Theme

const dark = matchMedia("(prefers-color-scheme: dark)");
function showTheme() {
  const theme = document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
  $("theme").setAttribute("aria-pressed", String(theme === "dark"));
  return theme;
}
dark.addEventListener("change", showTheme);
$("theme").addEventListener("click", () => {
  const theme = showTheme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("theme", theme);
  } catch {
    // Not kept.
  }
  showTheme();
});
showTheme();

// ---- API key

api.onUnauthorised(
  (rejected) =>
    new Promise((resolve) => {
      const dialog = $("key-dialog");
      const done = new AbortController();
      let entered = null;
      $("key").value = "";
      $("key-wrong").hidden = !rejected;
      const listen = (target, type, action) => target.addEventListener(type, action, { signal: done.signal });
      listen($("key-form"), "submit", (event) => {
        event.preventDefault();
        entered = $("key").value.trim();
        if (entered) dialog.close();
      });
      listen($("key-cancel"), "click", () => dialog.close());
      listen(dialog, "close", () => {
        done.abort();
        resolve(entered || null);
      });
      dialog.showModal();
    }),
);

// ---- Start

const wide = matchMedia("(min-width: 860px)");
const showRefine = () => ($("refine").open = wide.matches);
wide.addEventListener("change", showRefine);
showRefine();

history.scrollRestoration = "manual";
window.addEventListener("popstate", () => {
  clearTimeout(writing);
  writing = 0;
  open(parse(location.search), { push: false, state: entry() });
});
window.addEventListener("pagehide", () => {
  writeAddress();
  keepPosition();
});
open(parse(location.search), { push: false, state: entry() });
