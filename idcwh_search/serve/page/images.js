// Images of items, and a pattern of the code for items without an image.
import { hasKey, request } from "./api.js";
import { path } from "./address.js";

const SVG = "http://www.w3.org/2000/svg";
const MOST_BITS = 1024; // in a pattern
const THUMBNAIL = 256;

let available = true;

/** Sets whether the service has image files. */
export function setAvailable(images) {
  available = images;
}

/** Returns the bits of a code as a square pattern. */
export function pattern(code) {
  const bits = [];
  for (let i = 0; i + 1 < code.length && bits.length < MOST_BITS; i += 2) {
    const byte = parseInt(code.slice(i, i + 2), 16);
    for (let bit = 0; bit < 8; bit++) bits.push((byte >> bit) & 1);
  }
  const side = Math.ceil(Math.sqrt(bits.length)) || 1;
  const squares = bits.map((bit, i) => (bit ? `M${i % side} ${Math.floor(i / side)}h1v1h-1z` : "")).join("");
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "pattern");
  svg.setAttribute("viewBox", `-1 -1 ${side + 2} ${Math.ceil(bits.length / side) + 2}`);
  svg.setAttribute("aria-hidden", "true");
  const shape = document.createElementNS(SVG, "path");
  shape.setAttribute("d", squares);
  svg.append(shape);
  return svg;
}

// An image that needs the key in a header is fetched when it comes near the screen.
const pending = new WeakMap();
const observer = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      load(target, pending.get(target));
    }
  },
  { rootMargin: "600px" },
);

async function load(image, address) {
  try {
    image.src = URL.createObjectURL(await (await request(address)).blob());
  } catch {
    image.dispatchEvent(new Event("error"));
  }
}

function release(image) {
  if (image.src.startsWith("blob:")) URL.revokeObjectURL(image.src);
}

/** Shows an address in an image element, now or when it comes near the screen. */
function show(image, address, lazy) {
  if (hasKey()) {
    image.addEventListener("load", () => release(image), { once: true });
    pending.set(image, address);
    if (lazy) observer.observe(image);
    else load(image, address);
  } else {
    if (lazy) image.loading = "lazy";
    image.src = address;
  }
}

/** Returns the thumbnail of an item, which becomes a pattern if there is no image. */
export function thumbnail(item) {
  if (!available || item.key === null) return pattern(item.code);
  const image = new Image();
  image.alt = "";
  image.decoding = "async";
  image.draggable = false;
  image.addEventListener("error", () => image.replaceWith(pattern(item.code)), { once: true });
  image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth < 64), { once: true });
  show(image, `v1/thumbnails/${path(item.key)}?size=${THUMBNAIL}`, true);
  return image;
}

/** Returns the image of an item at full size. A format that the browser lacks is replaced by a large thumbnail. */
export function full(item) {
  if (!available || item.key === null) return pattern(item.code);
  const image = new Image();
  image.alt = "";
  image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth < 64));
  image.addEventListener(
    "error",
    () => {
      image.addEventListener("error", () => image.replaceWith(pattern(item.code)), { once: true });
      show(image, `v1/thumbnails/${path(item.key)}?size=1024`, false);
    },
    { once: true },
  );
  show(image, `v1/images/${path(item.key)}`, false);
  return image;
}

const PREVIEW = 320;

/** Returns a small JPEG of an image file, or null for a format that the browser lacks. */
export async function small(file) {
  try {
    const bitmap = await createImageBitmap(file);
    const scale = Math.min(1, PREVIEW / Math.max(bitmap.width, bitmap.height));
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(bitmap.width * scale));
    canvas.height = Math.max(1, Math.round(bitmap.height * scale));
    const context = canvas.getContext("2d");
    context.fillStyle = "#fff";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    bitmap.close();
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.85));
    return blob && (await blob.arrayBuffer());
  } catch {
    return null;
  }
}

/** Returns the image of such a JPEG. */
export function fromBytes(bytes) {
  const image = new Image();
  image.alt = "";
  image.addEventListener("load", () => {
    release(image);
    image.classList.toggle("tiny", image.naturalWidth < 64);
  });
  image.src = URL.createObjectURL(new Blob([bytes], { type: "image/jpeg" }));
  return image;
}
