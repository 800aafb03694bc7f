// The query beside the results: its image if there is one, otherwise the pattern of its code.
import { $ } from "./dom.js";
import { fileName } from "./grid.js";
import { fromBytes, pattern, thumbnail } from "./images.js";

/** Shows the query of a view. `preview` and `name` are those of an uploaded image. */
export function showQuery(view, { preview, name }) {
  const item = { code: view.code ?? "", key: view.key, id: view.id };
  const isItem = view.key !== null || view.id !== null;
  let image = null;
  if (preview) image = fromBytes(preview);
  else if (view.key !== null) image = thumbnail(item);
  else if (view.code) image = pattern(view.code);
  $("search").classList.remove("alone");
  $("preview").replaceChildren(...(image ? [image] : []));
  const title = name ?? (isItem ? fileName(item) : "Query by code");
  $("query-name").textContent = title;
  $("query-name").title = view.key ?? title;
  $("query-kind").textContent = name ? "your image" : isItem ? "item of this collection" : "";
  $("query-code").textContent = view.code ?? "";
  $("query-code").title = view.code ?? "";
  $("share").hidden = !view.code || !navigator.clipboard;
  document.title = `${title} · Image search`;
}
