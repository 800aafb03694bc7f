// Image files that the user drops, pastes or chooses, and pasted text.
import { $ } from "./dom.js";

/** Calls image(file, name) for each image, and text(text) for text that is pasted outside of fields. */
export function onIncoming(image, text) {
  let inside = 0; // nested elements that the file is above
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  const setDropping = (count) => {
    inside = count;
    $("dropping").hidden = count === 0;
  };
  document.addEventListener("dragenter", (event) => hasFiles(event) && setDropping(inside + 1));
  document.addEventListener("dragleave", (event) => hasFiles(event) && setDropping(Math.max(0, inside - 1)));
  document.addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  document.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    setDropping(0);
    const [file] = event.dataTransfer.files;
    if (file) image(file, file.name);
  });

  document.addEventListener("paste", (event) => {
    const file = [...event.clipboardData.files].find(({ type }) => type.startsWith("image/"));
    if (file) {
      event.preventDefault();
      image(file, "Pasted image");
    } else if (!event.target.closest?.("input, select, dialog")) {
      text(event.clipboardData.getData("text").trim());
    }
  });

  for (const id of ["pick", "drop"]) $(id).addEventListener("click", () => $("file").click());
  $("file").addEventListener("change", () => {
    const [file] = $("file").files;
    if (file) image(file, file.name);
    $("file").value = "";
  });
}
