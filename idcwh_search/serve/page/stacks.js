// Groups of near-duplicate hits.

const WORD = 8; // hex digits per 32 bits

function words(code) {
  const result = new Uint32Array(Math.ceil(code.length / WORD));
  for (let i = 0; i < result.length; i++) result[i] = parseInt(code.slice(i * WORD, (i + 1) * WORD), 16);
  return result;
}

function bits(x) {
  x -= (x >>> 1) & 0x55555555;
  x = (x & 0x33333333) + ((x >>> 2) & 0x33333333);
  return Math.imul((x + (x >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

function isWithin(a, b, radius) {
  let distance = 0;
  for (let i = 0; i < a.length; i++) {
    distance += bits(a[i] ^ b[i]);
    if (distance > radius) return false;
  }
  return true;
}

/**
 * Returns stacks of hits, {hit, members}. A hit joins the first stack whose hit is within the radius, so that stacks
 * keep their place when more hits arrive. Each hit is its own stack if the radius is null.
 *
 * Hits are ordered by distance. By the triangle inequality, only stacks of about the same distance are compared.
 */
export function stacked(hits, radius) {
  if (radius === null) return hits.map((hit) => ({ hit, members: [] }));
  const stacks = [];
  const codes = [];
  let first = 0;
  for (const hit of hits) {
    const code = (hit.words ??= words(hit.code));
    while (first < stacks.length && hit.distance - stacks[first].hit.distance > radius) first++;
    let i = first;
    while (i < stacks.length && !isWithin(codes[i], code, radius)) i++;
    if (i < stacks.length) {
      stacks[i].members.push(hit);
    } else {
      stacks.push({ hit, members: [] });
      codes.push(code);
    }
  }
  return stacks;
}
