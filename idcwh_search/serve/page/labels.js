// The filter by label: a list of check boxes, which a text narrows.
import { $, element, number } from "./dom.js";

const MOST = 200; // rows

export class LabelFilter {
  #labels = [];
  #selected = [];

  /** @param changed called with the selected labels */
  constructor(changed) {
    this.section = $("labels");
    this.list = $("label-list");
    this.text = $("label-text");
    this.clear = $("labels-clear");
    this.text.addEventListener("input", () => this.#draw());
    this.clear.addEventListener("click", () => {
      this.text.value = "";
      changed([]);
      this.text.focus();
    });
    this.list.addEventListener("change", (event) => {
      const { value, checked } = event.target;
      changed(checked ? [...this.#selected, value] : this.#selected.filter((label) => label !== value));
    });
  }

  /** Sets the labels of the collection, [{name, count}]. */
  setLabels(labels) {
    this.#labels = labels;
    this.section.hidden = labels.length === 0;
    this.text.hidden = labels.length <= 8;
    this.#draw();
  }

  select(labels) {
    this.#selected = labels;
    this.clear.hidden = labels.length === 0;
    this.#draw();
  }

  #draw() {
    const focused = this.list.contains(document.activeElement) ? document.activeElement.value : null;
    const part = this.text.value.trim().toLowerCase();
    const matching = this.#labels.filter(({ name }) => name.toLowerCase().includes(part));
    const rows = matching.slice(0, MOST).map(({ name, count }) => this.#row(name, count));
    const left = matching.length - rows.length;
    if (left > 0 || matching.length === 0) {
      rows.push(element("li", "note", left > 0 ? `${number(left)} more; type to narrow` : "No label contains this text"));
    }
    this.list.replaceChildren(...rows);
    if (focused !== null) [...this.list.querySelectorAll("input")].find((box) => box.value === focused)?.focus();
  }

  #row(name, count) {
    const box = element("input");
    box.type = "checkbox";
    box.value = name;
    box.checked = this.#selected.includes(name);
    return element("li", "", element("label", "", box, element("span", "", name), element("small", "", number(count))));
  }
}
