// The keys of the page. Those of the browser, and those of fields, remain.
import { $ } from "./dom.js";

/** Handles the keys. `grid` and `details` have the tiles, and `back` leaves the current view. */
export function onKeys(grid, details, back) {
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
      done = grid.cells.length > 0 && (index >= 0 || key.startsWith("Arrow")) && grid.move(key);
    } else done = false;
    if (done) event.preventDefault();
  });
}
