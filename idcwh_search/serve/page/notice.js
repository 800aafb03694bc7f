// The notice in place of the results: failures, and answers without hits.
import { $, button, element } from "./dom.js";

const LONGEST_WAIT = 30; // seconds between attempts
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

let timer = 0; // of the next attempt

/** Returns the title of a failure for people. */
export const titleOf = (failure) => TITLES[failure.status] ?? (failure.status === 0 ? failure.title : "The search failed");

export function hideNotice() {
  clearTimeout(timer);
  $("notice").hidden = true;
  $("notice").replaceChildren();
  document.body.classList.remove("failed");
}

export function showNotice(title, detail, ...actions) {
  $("notice").hidden = false;
  const level = $("search").classList.contains("alone") ? "h1" : "h2"; // alone, without the name of a query
  $("notice").replaceChildren(element(level, "", title), element("p", "", detail), element("div", "actions", ...actions));
}

/** Returns a button for another attempt and a countdown, after which retry is called as well. */
export function nextAttempt(failure, retry, attempt) {
  let seconds = Math.min(LONGEST_WAIT, Math.max(failure.retryAfter ?? 1, 2 ** attempt));
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
  clearTimeout(timer);
  tick();
  return [button("Try now", again, "button primary"), wait];
}
