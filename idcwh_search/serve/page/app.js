// The page of idcwh-serve: opens views, and shows their results.
import { START, format, isStart, parse } from "./address.js";
import { Answer, RecentAnswers } from "./answer.js";
import * as api from "./api.js";
import { enterKey } from "./api-key.js";
import { Details } from "./details.js";
import { DistanceFilter } from "./distance.js";
import { $, announce, button, counted, element, number } from "./dom.js";
import { showExamples } from "./examples.js";
import { Grid } from "./grid.js";
import * as visits from "./history.js";
import { setAvailable, small } from "./images.js";
import { onIncoming } from "./incoming.js";
import { onKeys } from "./keyboard.js";
import { LabelFilter } from "./labels.js";
import { hideNotice, nextAttempt, showNotice, titleOf } from "./notice.js";
import { showQuery } from "./query.js";
import { stacked } from "./stacks.js";
import "./theme-switch.js";

const GROUP_RADII = [0, 1, 2, 3, 4, 6, 8, 12, 16, 31];
const GROUP_RADIUS = 2; // of the first grouping
const SKELETONS = 24;

let info = null;
let view = START;
let answer = null;
let controller = new AbortController();
let timer = 0; // of the placeholders
const recent = new RecentAnswers();

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
    `generation ${number(info.generation)}`,
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
  $("start-title").textContent = "Search with an image";
  $("drop").hidden = info.items === 0;
  if (info.items === 0) {
    $("start-title").textContent = "This collection is empty";
    $("lead").replaceChildren("Add images with ", element("code", "", "idcwh-index add"), ", then reload this page.");
  } else if (!info.encoder) {
    $("start-title").textContent = "Search by an item";
    $("examples-title").textContent = "Start with one of these";
    $("lead").textContent = "This service has no model for other images. Enter a key, #id or code above.";
  } else {
    $("lead").textContent = `Finds the most similar of ${counted(info.items, "image")}.`;
  }
  if ($("example-grid").children.length === 0) await showExamples(info, signal).catch(() => {});
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

/** Shows a failure in place of the results. A temporary one is followed by further attempts. */
function showFailure(error, retry, attempt = 0) {
  if (!(error instanceof api.Failure)) throw error;
  setMode("search");
  setBusy(false);
  grid.clear();
  for (const id of ["chips", "end"]) $(id).replaceChildren();
  for (const id of ["count", "took"]) $(id).textContent = "";
  document.body.classList.add("failed");
  const isQuery = !$("search").classList.contains("alone");
  if (!error.temporary) $("search").classList.add("alone"); // the query is not an image or item
  const title = titleOf(error);
  const actions = error.temporary ? nextAttempt(error, retry, attempt) : [];
  if (error.status === 401) actions.push(button("Enter the key", () => retry(0), "button primary"));
  if (isQuery) actions.push(button("Back to the start", () => open(START)));
  showNotice(title, error.detail ?? "", ...actions);
  announce(`${title}. ${error.detail ?? ""}`);
}

// ---- Queries

/** Ends what the current view still does. */
function leave() {
  controller.abort();
  clearTimeout(timer);
  controller = new AbortController();
  visits.flush();
  hideNotice();
  setBusy(false);
  for (const dialog of [details.dialog, $("help-dialog")]) dialog.close();
}

/**
 * Opens a view.
 *
 * `push` adds an entry to the history. `image` is the file of a query without a code, and `state` has its preview and
 * name, and the position of a view that was left before.
 */
async function open(next, { push = true, image = null, state = {}, attempt = 0 } = {}) {
  const focused = grid.list.contains(document.activeElement);
  leave();
  const { signal } = controller;
  view = next;
  if (isStart(view) && !image) {
    if (push && format(view) !== (location.search || "./")) visits.push(view, {}, grid.shown);
    return showStart(signal, attempt);
  }
  let pushed = !push;
  if (view.code && !pushed) {
    visits.push(view, state, grid.shown);
    pushed = true;
  }
  showQuery(view, state);
  showLoading();
  try {
    await ready();
    const byItem = view.key !== null ? { key: view.key } : { id: view.id };
    const query = image ? { image } : view.code ? { code: view.code } : byItem;
    let found = view.code ? recent.get(view) : undefined;
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
    if (pushed) visits.replace(view, state);
    else visits.push(view, state, grid.shown);
    showQuery(view, state);
  }
  recent.keep(answer);
  grid.clear();
  showFilters();
  paint(state.shown);
  window.scrollTo(0, state.scroll ?? 0);
  if (focused) grid.focus(0);
  if (answer.generation !== info.generation) loadInfo().catch(() => {});
}

/** Changes the filters of the view. Only other labels need a request. */
function refine(change) {
  view = { ...view, ...change };
  visits.replaceSoon(view);
  if ("labels" in change) open(view, { push: false, state: { ...visits.entry(), scroll: 0, shown: 0 } });
  else paint();
}

async function upload(file, name) {
  const failure = !file.type || file.type.startsWith("image/") ? null : new api.Failure(415, "", `${name} is not an image.`);
  const next = { ...view, code: null, key: null, id: null, k: null };
  if (failure) {
    leave();
    view = next;
    showQuery(view, { name });
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
  if (view.k !== null) chips.push(chip(`nearest ${number(view.k)}`, () => refine({ k: null })));
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
    $("end").textContent = `The nearest ${number(reach)} of ${counted(within, "image")} are shown.`;
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
  showNotice(`No image within ${counted(view.radius, "bit")}`, `The nearest one is at distance ${number(nearest)}.`, action);
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
    $("end").replaceChildren(`${titleOf(error)} `, button("Try again", more));
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
$("shuffle").addEventListener("click", () => showExamples(info, controller.signal));
$("help").addEventListener("click", () => $("help-dialog").showModal());
$("group").addEventListener("change", () => refine({ group: $("group").checked ? Number($("group-radius").value) : null }));
$("group-radius").addEventListener("change", () => refine({ group: Number($("group-radius").value) }));
$("share").addEventListener("click", async () => {
  visits.flush();
  const text = $("share").querySelector("span");
  await navigator.clipboard.writeText(location.href);
  text.textContent = "Copied";
  announce("The link is copied");
  setTimeout(() => (text.textContent = "Link"), 2000);
});

function back() {
  if (visits.entry().depth > 0) history.back();
  else if (document.body.dataset.view !== "start") open(START);
}

// ---- Start

api.onUnauthorised(enterKey);
onIncoming(upload, (text) => isCode(text) && searchText(text));
onKeys(grid, details, back);

const wide = matchMedia("(min-width: 860px)");
const showRefine = () => ($("refine").open = wide.matches);
wide.addEventListener("change", showRefine);
showRefine();

history.scrollRestoration = "manual";
window.addEventListener("popstate", () => {
  visits.forget();
  open(parse(location.search), { push: false, state: visits.entry() });
});
window.addEventListener("pagehide", () => {
  visits.flush();
  visits.keepPosition(grid.shown);
});
open(parse(location.search), { push: false, state: visits.entry() });
