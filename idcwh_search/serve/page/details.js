// The dialog with one image at full size.
import { format, similar } from "./address.js";
import { $, element, number } from "./dom.js";
import { shortName } from "./grid.js";
import { full } from "./images.js";

export class Details {
  #index = 0;

  /** @param grid the grid whose images are shown @param view function that returns the current view */
  constructor(grid, view) {
    this.grid = grid;
    this.view = view;
    this.dialog = $("detail");
    $("detail-previous").addEventListener("click", () => this.show(this.#index - 1));
    $("detail-next").addEventListener("click", () => this.show(this.#index + 1));
    this.dialog.addEventListener("close", () => {
      $("stage").replaceChildren();
      grid.focus(this.#index); // the browser focuses the tile that opened the dialog
    });
  }

  /** Shows the image of a tile. */
  show(index) {
    const cell = this.grid.cells[index];
    if (!cell) return;
    const { hit } = cell;
    this.#index = index;
    this.grid.reveal(index);
    $("stage").replaceChildren(full(hit));
    $("detail-name").textContent = shortName(hit);
    const facts = { Distance: number(hit.distance), Label: hit.label, Key: hit.key, Id: hit.id, Code: hit.code };
    $("detail-facts").replaceChildren(
      ...Object.entries(facts).flatMap(([name, value]) => {
        if (value === null || value === undefined || value === "") return [];
        return [element("dt", "", name), element("dd", "", String(value))];
      }),
    );
    $("detail-similar").href = format(similar(hit, this.view()));
    $("detail-previous").disabled = index === 0;
    $("detail-next").disabled = index + 1 === this.grid.cells.length;
    if (!this.dialog.open) {
      this.dialog.showModal();
      $("detail-similar").focus();
    }
  }

  /** Handles a key while the dialog is open. Returns false for other keys. */
  key(key) {
    if (key === "s") $("detail-similar").click();
    else if (key === "ArrowRight") this.show(this.#index + 1);
    else if (key === "ArrowLeft") this.show(this.#index - 1);
    else if (key === " ") this.dialog.close();
    else return false;
    return true;
  }
}
