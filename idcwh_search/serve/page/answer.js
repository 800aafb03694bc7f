// The hits of one query, requested in growing parts in the order of (distance, id).
import { search } from "./api.js";

const FIRST = 120;
const GROWTH = 4;

export class Answer {
  hits = [];
  histogram = [];
  took = null;
  generation = null;
  #asked = 0; // hits requested so far

  /** @param query code, key, id or image file @param labels filter @param most hits per request at most */
  constructor(query, labels, most) {
    this.query = query;
    this.labels = labels;
    this.most = most;
  }

  /** Returns the number of items within a radius, or of all eligible items. */
  within(radius) {
    if (radius === null) return this.histogram.reduce((sum, count) => sum + count, 0);
    return this.histogram.slice(0, radius + 1).reduce((sum, count) => sum + count, 0);
  }

  /** Returns the number of hits that can be shown within a radius. */
  reachable(radius) {
    return Math.min(this.within(radius), this.most);
  }

  /** Returns the largest distance of an eligible item, at least 1. */
  get farthest() {
    return Math.max(1, this.histogram.findLastIndex((count) => count > 0));
  }

  /** Requests the first hits, or more of them. All hits are replaced, because the database may have changed. */
  async more(signal) {
    const k = Math.min(this.#asked ? this.#asked * GROWTH : FIRST, this.most);
    const where = this.labels.length ? { where: { labels: this.labels } } : {};
    const answer = await search(this.query, { k, codes: true, histogram: true, ...where }, signal);
    this.#asked = k;
    this.code = answer.code;
    this.query = { code: answer.code };
    this.hits = answer.hits;
    this.histogram = answer.histogram;
    this.generation = answer.generation;
    this.took ??= answer.took_ms;
  }
}

const RECENT = 12;

/** The latest answers, for the back button. */
export class RecentAnswers {
  #answers = new Map();

  #name = ({ code, labels }) => JSON.stringify([code, labels]);

  /** Returns the answer of a view, or undefined. */
  get = (view) => this.#answers.get(this.#name(view));

  keep(answer) {
    const name = this.#name(answer);
    this.#answers.delete(name);
    this.#answers.set(name, answer);
    if (this.#answers.size > RECENT) this.#answers.delete(this.#answers.keys().next().value);
  }
}
