// Items of the first screen, to start a search from.
import { START } from "./address.js";
import { search } from "./api.js";
import { $ } from "./dom.js";
import { tile } from "./grid.js";

const EXAMPLES = 12;

/** Returns a random code: the bits beyond the code length are 0. */
function randomCode(bits) {
  const bytes = crypto.getRandomValues(new Uint8Array(Math.ceil(bits / 8)));
  if (bits % 8) bytes[bytes.length - 1] &= (1 << bits % 8) - 1;
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Shows items of random labels, each the nearest one to a random code. */
export async function showExamples(info, signal) {
  const names = (info.labels ?? []).map(({ name }) => name);
  names.sort(() => Math.random() - 0.5);
  const requests = Array.from({ length: info.items ? EXAMPLES : 0 }, (_, i) => {
    const where = names.length ? { where: { labels: [names[i % names.length]] } } : {};
    return search({ code: randomCode(info.bits) }, { k: 1, codes: true, ...where }, signal).catch(() => ({ hits: [] }));
  });
  const items = new Map((await Promise.all(requests)).flatMap(({ hits }) => hits).map((hit) => [hit.id, hit]));
  const tiles = [...items.values()].map((item) => tile(item, START, { distance: false }));
  for (const each of tiles) each.firstElementChild.tabIndex = 0;
  $("example-grid").replaceChildren(...tiles);
  $("examples").hidden = tiles.length === 0;
}
