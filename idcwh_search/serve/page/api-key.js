// The dialog that requests the API key.
import { $ } from "./dom.js";

/** Returns a promise of the key that the user enters, or of null. `rejected` is true after a wrong key. */
export function enterKey(rejected) {
  return new Promise((resolve) => {
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
  });
}
