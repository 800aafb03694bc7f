// The stored theme, set before the first paint. Not a module, because modules run later.
try {
  document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "";
} catch {
  // Storage is blocked, so the system's theme is used.
}
