// Where a report's data come from. Views know only the methods `report`, `array`, `part` and
// `bytes`, all of which are asynchronous: a server can offer the same.
//
// A reference to an array is {blob, start, shape, kind, split}. `kind` is "weight8" (a byte each, the
// value is (byte / 255)²), "float16" or "float32", little-endian. With `split`, entry i of the first
// axis is at the start of blob `blob + i`.

const WIDTHS = { weight8: 1, float16: 2, float32: 4 };

/** Data whose blobs are texts; a subclass has `report()`, and `text(number)` of a blob in base64. */
export class ReportData {
  constructor() {
    this.blobs = new Map();
    this.arrays = new Map();
  }

  /** A whole array: {shape, values}, the values as a Float32Array in row-major order. */
  async array(reference) {
    return this.part(reference, []);
  }

  /** The part of an array with these first indices, e.g. [layer, head]: {shape, values}. */
  async part(reference, indices) {
    const key = JSON.stringify([reference, indices]);
    if (!this.arrays.has(key)) {
      // Limited, since all parts of all arrays may exceed the memory.
      if (this.arrays.size > 100) this.arrays.delete(this.arrays.keys().next().value);
      const decoded = this.bytes(reference, indices).then((bytes) => ({
        shape: reference.shape.slice(indices.length),
        values: decode(bytes, reference.kind),
      }));
      this.arrays.set(key, decoded);
    }
    return this.arrays.get(key);
  }

  /** The part of an array as it is stored. */
  async bytes(reference, indices) {
    const { shape, kind, split } = reference;
    if (split && !indices.length) {
      const parts = await Promise.all(
        Array.from({ length: shape[0] }, (_, first) => this.bytes(reference, [first])),
      );
      return concatenated(parts);
    }
    const skipped = split ? 1 : 0;
    const blob = reference.blob + (split ? indices[0] : 0);
    let size = WIDTHS[kind];
    for (const length of shape.slice(indices.length)) size *= length;
    let entry = 0;
    for (let axis = skipped; axis < indices.length; axis++) {
      entry = entry * shape[axis] + indices[axis];
    }
    const start = reference.start + entry * size;
    return size ? (await this.blob(blob)).subarray(start, start + size) : new Uint8Array(0);
  }

  blob(number) {
    if (!this.blobs.has(number)) this.blobs.set(number, inflated(fromBase64(this.text(number))));
    return this.blobs.get(number);
  }
}

/** The data that are embedded in this page. */
export class EmbeddedData extends ReportData {
  constructor(page) {
    super();
    this.page = page;
  }

  /** Everything but the arrays. */
  async report() {
    return JSON.parse(this.page.getElementById("report").textContent);
  }

  text(number) {
    return this.page.getElementById(`blob-${number}`).textContent;
  }
}

function concatenated(parts) {
  const joined = new Uint8Array(parts.reduce((total, part) => total + part.length, 0));
  let start = 0;
  for (const part of parts) {
    joined.set(part, start);
    start += part.length;
  }
  return joined;
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function decode(bytes, kind) {
  if (kind === "float32") return new Float32Array(bytes.slice().buffer);
  const table = kind === "weight8" ? weightTable() : halfTable();
  const stored = kind === "weight8" ? bytes : new Uint16Array(bytes.slice().buffer);
  const values = new Float32Array(stored.length);
  for (let i = 0; i < stored.length; i++) values[i] = table[stored[i]];
  return values;
}

const tables = {};

function weightTable() {
  tables.weights ??= Float32Array.from({ length: 256 }, (_, byte) => (byte / 255) ** 2);
  return tables.weights;
}

function halfTable() {
  tables.halves ??= Float32Array.from({ length: 65536 }, (_, bits) => half(bits));
  return tables.halves;
}

/** The number that 16 bits stand for (IEEE 754, half precision). */
function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
