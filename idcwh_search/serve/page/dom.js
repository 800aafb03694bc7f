// Elements of the page, and text for people.

const en = new Intl.NumberFormat("en");

export const $ = (id) => document.getElementById(id);

export const number = (value) => en.format(value);

/** Returns a number with its noun, "1 image" or "2 images". */
export const counted = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

export function element(name, className, ...content) {
  const result = document.createElement(name);
  if (className) result.className = className;
  result.append(...content);
  return result;
}

export function button(text, action, className = "button") {
  const result = element("button", className, text);
  result.type = "button";
  result.addEventListener("click", action);
  return result;
}

/** Has a screen reader read a text. */
export function announce(text) {
  $("live").textContent = text;
}
