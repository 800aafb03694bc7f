// The button that switches between the light and the dark theme. theme.js sets the stored theme before the first paint.
import { $ } from "./dom.js";

const dark = matchMedia("(prefers-color-scheme: dark)");

function show() {
  const theme = document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
  $("theme").setAttribute("aria-pressed", String(theme === "dark"));
  return theme;
}

dark.addEventListener("change", show);
$("theme").addEventListener("click", () => {
  const theme = show() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("theme", theme);
  } catch {
    // Not kept.
  }
  show();
});
show();
