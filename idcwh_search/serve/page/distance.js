// The slider of the radius, below a histogram of distances.
import { $, counted, number } from "./dom.js";

const BARS = 240; // at most
const SVG = "http://www.w3.org/2000/svg";

export class DistanceFilter {
  #histogram = [];
  #shapes = ["inside", "outside"].map((name) => {
    const shape = document.createElementNS(SVG, "path");
    shape.setAttribute("class", name);
    return shape;
  });

  /** @param changed called with the radius, or null for any distance */
  constructor(changed) {
    this.svg = $("histogram");
    this.slider = $("radius");
    this.text = $("radius-text");
    this.end = $("axis-end");
    this.svg.append(...this.#shapes);
    this.slider.addEventListener("input", () => {
      const value = Number(this.slider.value);
      this.radius = value === Number(this.slider.max) ? null : value;
      this.#draw();
      changed(this.radius);
    });
  }

  /** Shows the counts per distance, up to the farthest item. */
  show(histogram, farthest, radius) {
    this.#histogram = histogram.slice(0, farthest + 1);
    this.radius = radius !== null && radius < farthest ? radius : null;
    this.slider.max = farthest;
    this.slider.value = this.radius ?? farthest;
    this.end.textContent = number(farthest);
    this.#draw();
  }

  #draw() {
    const farthest = this.#histogram.length - 1;
    const radius = this.radius ?? farthest;
    const each = Math.ceil((farthest + 1) / BARS); // distances per bar
    const bars = [];
    for (let i = 0; i <= farthest; i += each) {
      bars.push(this.#histogram.slice(i, i + each).reduce((sum, count) => sum + count, 0));
    }
    const scale = Math.log1p(Math.max(...bars, 1));
    const gap = bars.length > 80 ? 0 : 0.16;
    const outlines = ["", ""];
    bars.forEach((count, i) => {
      if (count === 0) return;
      const height = Math.max(3, (100 * Math.log1p(count)) / scale);
      outlines[i * each <= radius ? 0 : 1] += `M${i + gap / 2} 100v${-height}h${1 - gap}v${height}z`;
    });
    this.svg.setAttribute("viewBox", `0 0 ${bars.length} 100`);
    this.#shapes.forEach((shape, i) => shape.setAttribute("d", outlines[i]));
    const text = this.radius === null ? "any" : `at most ${counted(radius, "bit")}`;
    this.text.textContent = text;
    this.slider.setAttribute("aria-valuetext", text);
  }
}
