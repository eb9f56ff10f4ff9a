// All heads of one kind as small pictures, a row a layer; a click chooses a head.

import { arrowKeys, element } from "./elements.js";
import { css, maskedColour, scaleOf, stepOf } from "./colours.js";
import { KINDS, maskedLegend, rolesOf } from "./attention.js";
import { legend, paint, picture } from "./charts.js";
import { inUnits } from "./units.js";

const SIDE = 48; // pixels of a thumbnail at most
const LARGEST_FILE = 1_000_000; // weights of a CSV file

/**
 * The thumbnails of a kind of attention.
 *
 * They are painted layer by layer after the page is shown, since long sentences have many weights.
 */
export function headThumbnails({ data, model, item, go, key, onScreen }, kind, choice) {
  const reference = item.attention[kind];
  const [layers, heads] = reference.shape;
  const choose = (event) => {
    const button = event.target.closest("button");
    if (button)
      go({ show: kind, layer: Number(button.dataset.layer), head: Number(button.dataset.head) });
  };
  const grid = element("div", {
    class: "thumbnails",
    role: "toolbar",
    css: { "--heads": heads },
    "aria-label": `${KINDS[kind].title}: all heads`,
    on: { click: choose },
  });
  const canvases = [];
  let current = null;
  for (let layer = 1; layer <= layers; layer++) {
    const row = element(
      "div",
      { class: heads > 6 ? "layer-row many" : "layer-row" },
      element("span", { class: "layer-name" }, `layer ${layer}`),
    );
    for (let head = 1; head <= heads; head++) {
      const roles = rolesOf(model, KINDS[kind].head(layer, head));
      const isCurrent = choice.kind === kind && choice.layer === layer && choice.head === head;
      const canvas = element("canvas", { width: 1, height: 1 });
      const name = `layer ${layer}, head ${head}${roles && `: ${roles}`}`;
      const button = element(
        "button",
        {
          type: "button",
          "data-layer": layer,
          "data-head": head,
          "aria-label": name,
          title: name,
          "aria-pressed": String(isCurrent),
          "data-key": key(`head.${kind}.${layer}.${head}`),
        },
        canvas,
        element("span", { class: roles ? "has-role" : null }, head),
      );
      if (isCurrent) current = button;
      canvases.push(canvas);
      row.append(button);
    }
    grid.append(row);
  }
  arrowKeys(grid, current);
  onScreen(() => paintAll(data, reference, canvases, kind === "decoder"));
  const rows = kind === "encoder" ? "each word that looks" : "each word that is predicted";
  const colours = legend((along) => css(scaleOf("amount"), Math.round(along * 255)), "0", "100 %");
  if (kind === "decoder") colours.append(maskedLegend());
  return picture(
    {
      title: `All heads: ${KINDS[kind].title.toLowerCase()}`,
      text: inUnits(
        model,
        `Each square is one head: a row for ${rows}, a column for each word that is looked at. Choose one to see it in the words.` +
          (model.roles ? " An underlined number has a known role." : ""),
      ),
      csv:
        layers * heads * reference.shape[2] * reference.shape[3] > LARGEST_FILE
          ? null
          : {
              name: `${kind}-heads`,
              what: "the weights of all heads",
              rows: () => weightRows(data, item, kind),
            },
      className: "heads",
    },
    grid,
    colours,
  );
}

/** The weights of all heads, a row for each query and key. */
async function weightRows(data, item, kind) {
  const { shape, values } = await data.array(item.attention[kind]);
  const [, heads, queries, keys] = shape;
  const source = item.source.pieces;
  const target = item.target?.pieces;
  const predicted = kind === "encoder" ? [] : item.outputs.pieces;
  const [queryNames, keyNames] = {
    encoder: [source, source],
    decoder: [target, target],
    cross: [target, source],
  }[kind];
  const rows = Array.from(values, (value, i) => {
    const [query, key] = [Math.floor(i / keys) % queries, i % keys];
    const matrix = Math.floor(i / (keys * queries));
    return [
      Math.floor(matrix / heads) + 1,
      (matrix % heads) + 1,
      query + 1,
      queryNames[query],
      predicted[query] ?? "",
      key + 1,
      keyNames[key],
      value,
    ];
  });
  return [
    ["layer", "head", "query", "reads", "predicts", "key", "token of the key", "weight"],
    ...rows,
  ];
}

async function paintAll(data, reference, canvases, isCausal) {
  const [layers, heads, rows, columns] = reference.shape;
  for (let layer = 0; layer < layers; layer++) {
    const weights = await data.bytes(reference, [layer]);
    for (let head = 0; head < heads; head++) {
      const size = rows * columns;
      const part = weights.subarray(head * size, (head + 1) * size);
      paintThumbnail(canvases[layer * heads + head], part, rows, columns, isCausal);
    }
    // Between two layers the page answers to the reader.
    await new Promise((resolve) => setTimeout(resolve));
  }
}

/** Paint bytes (rows, columns); a pixel of a large matrix has the largest weight of its cells. */
function paintThumbnail(canvas, bytes, rows, columns, isCausal) {
  const height = Math.min(rows, SIDE);
  const width = Math.min(columns, SIDE);
  const highest = new Uint8Array(height * width);
  for (let row = 0; row < rows; row++) {
    const line = Math.floor((row * height) / rows) * width;
    for (let column = 0; column < columns; column++) {
      const pixel = line + Math.floor((column * width) / columns);
      const byte = bytes[row * columns + column];
      if (byte > highest[pixel]) highest[pixel] = byte;
    }
  }
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const colours = scaleOf("amount");
  highest.forEach((byte, i) => {
    if (isCausal && i % width > Math.floor(i / width)) paint(image.data, i, maskedColour(), 0);
    else paint(image.data, i, colours, stepOf((byte / 255) ** 2, 1, false));
  });
  context.putImageData(image, 0, 0);
}
