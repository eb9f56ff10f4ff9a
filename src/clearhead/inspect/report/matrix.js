// One attention or measure large. A row of the decoder's attention has the name "what the decoder
// reads → what it predicts"; a row of a measure has that of the output.

import { disclosure, element, quoted, shown } from "./elements.js";
import {
  choiceOf,
  matrixLegend,
  matrixNumber,
  matrixOf,
  numbersOf,
  rowNamesOf,
  subjectOf,
} from "./attention.js";
import { matrixTable, paint, picture, scrolled } from "./charts.js";
import { inkOn, maskedColour, scaleOf, stepOf } from "./colours.js";
import { matrixRows } from "./downloads.js";
import { inUnits } from "./units.js";
import { headThumbnails } from "./heads.js";

const LONGEST_NAME = 190; // CSS pixels of the name of a row or column
const LARGEST_TABLE = 10_000; // cells of the table for screen readers

/** The view "Matrix". */
export async function matrixView(context) {
  const { data, model, item, state, width } = context;
  const choice = choiceOf(state, item);
  const matrix = await matrixOf(data, model, item, choice, state.joined);
  const rowNames = rowNamesOf(matrix).map(shown);
  const columnNames = matrix.columns.map((unit) => shown(unit.text));
  const readout = element("p", { class: "readout" }, "Point at a cell to read it.");
  const hasThumbnails = choice.show !== "measure";
  const isBeside = hasThumbnails && width > 900 && columnNames.length <= 24;
  const canvas = paintedMatrix(
    matrix,
    rowNames,
    columnNames,
    isBeside ? width - 400 : width,
    readout,
  );
  const isSmall = matrix.values.length <= LARGEST_TABLE;
  const asTable = () =>
    matrixTable(
      `Table of ${matrix.title}`,
      rowNames,
      columnNames,
      matrix,
      (value) => matrixNumber(matrix, value),
    );
  const rowsAre = matrix.reads
    ? "“what the decoder reads → what it predicts”"
    : matrix.rowSide === "source"
      ? inUnits(model, "the word that looks")
      : item.labels
        ? "a label"
        : "an output word";
  return element(
    "div",
    { class: isBeside ? "words-view" : null },
    picture(
      {
        title: matrix.title,
        text: `${matrix.meaning} A row is ${rowsAre}, a column is what it takes from.${matrix.isSigned ? "" : " The square root of a number chooses its colour, so that small ones can be seen."}`,
        csv: {
          name: matrix.name,
          what: `the matrix (${matrix.title})`,
          rows: () => matrixRows("", rowNames, columnNames, numbersOf(matrix)),
        },
      },
      scrolled(`Picture of ${matrix.title}`, canvas),
      readout,
      matrixLegend(matrix),
      isSmall
        ? disclosure("The same as a table", asTable)
        : element(
            "p",
            { class: "how" },
            "The matrix is too large for a table here; the CSV file has all numbers.",
          ),
    ),
    hasThumbnails && headThumbnails(context, choice.kind, choice),
  );
}

function paintedMatrix(matrix, rowNames, columnNames, width, readout) {
  const measure = element("canvas").getContext("2d");
  const font = (size) => `${size}px ${getComputedStyle(document.body).fontFamily}`;
  measure.font = font(13);
  const longest = (names) =>
    Math.min(
      LONGEST_NAME,
      Math.max(...names.map((name) => Math.ceil(measure.measureText(name).width))) + 10,
    );
  let left = longest(rowNames);
  let top = longest(columnNames);
  // Cells as large as fit; below 11 pixels the names of rows could not be read.
  let side = Math.min(56, Math.floor((width - left) / columnNames.length));
  const named = side >= 11 || columnNames.length <= 80;
  if (named) side = Math.max(side, 15);
  else [left, top, side] = [0, 0, Math.max(1, Math.floor(width / columnNames.length))];
  const [wide, high] = [left + side * columnNames.length, top + side * rowNames.length];
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const canvas = element("canvas", {
    class: "matrix",
    role: "img",
    width: Math.ceil(wide * ratio),
    height: Math.ceil(high * ratio),
    "aria-label": `${matrix.title}: ${rowNames.length} rows, ${columnNames.length} columns`,
  });
  [canvas.style.inlineSize, canvas.style.blockSize] = [`${wide}px`, `${high}px`];
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.imageSmoothingEnabled = false;
  context.drawImage(
    cellImage(matrix, rowNames.length, columnNames.length),
    left,
    top,
    wide - left,
    high - top,
  );
  if (matrix.masked) hatch(context, matrix, columnNames.length, left, top, side);
  if (named) {
    drawNames(context, rowNames, columnNames, left, top, side, font);
    if (side >= 34) drawNumbers(context, matrix, left, top, side, font);
  }
  canvas.addEventListener("pointermove", (event) => {
    const row = Math.floor((event.offsetY - top) / side);
    const column = Math.floor((event.offsetX - left) / side);
    if (row < 0 || column < 0 || row >= rowNames.length || column >= columnNames.length) return;
    const cell = row * columnNames.length + column;
    const seen = matrix.masked?.[cell]
      ? [" cannot look at ", quoted(columnNames[column]), ", which comes later (masked)."]
      : [
          matrix.unit === "share" ? " looks at " : " depends on ",
          quoted(columnNames[column]),
          `: ${matrixNumber(matrix, matrix.values[cell])}`,
        ];
    readout.replaceChildren(...subjectOf(matrix, row), ...seen);
  });
  return canvas;
}

/** Lines over the masked cells. */
function hatch(context, matrix, width, left, top, side) {
  context.save();
  context.beginPath();
  matrix.masked.forEach((isMasked, i) => {
    const [row, column] = [Math.floor(i / width), i % width];
    if (isMasked) context.rect(left + column * side, top + row * side, side, side);
  });
  context.clip();
  context.strokeStyle = getComputedStyle(document.body).color;
  context.globalAlpha = 0.4;
  context.beginPath();
  const [wide, high] = [width * side, matrix.rows.length * side];
  for (let x = left - high; x < left + wide; x += 8) {
    context.moveTo(x, top + high);
    context.lineTo(x + high, top);
  }
  context.stroke();
  context.restore();
}

/** The matrix with a pixel for each cell. */
function cellImage(matrix, height, width) {
  const canvas = element("canvas", { width, height });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const colours = scaleOf(matrix.isSigned ? "signed" : "amount");
  matrix.values.forEach((value, i) => {
    if (matrix.masked?.[i]) paint(image.data, i, maskedColour(), 0);
    else paint(image.data, i, colours, stepOf(value, matrix.limit, matrix.isSigned));
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

function drawNames(context, rowNames, columnNames, left, top, side, font) {
  context.fillStyle = getComputedStyle(document.body).color;
  context.font = font(Math.min(13, side - 2));
  context.textBaseline = "middle";
  context.textAlign = "right";
  rowNames.forEach((name, row) => {
    // Both parts of "reads → predicts" must be seen.
    const parts = context.measureText(name).width <= left - 8 ? [name] : name.split(" → ");
    const width = (left - 8) / parts.length - 12 * (parts.length - 1);
    const cut = parts.map((part) => fitted(context, part, width));
    context.fillText(cut.join(" → "), left - 6, top + (row + 0.5) * side);
  });
  context.textAlign = "left";
  columnNames.forEach((name, column) => {
    context.save();
    context.translate(left + (column + 0.5) * side, top - 6);
    context.rotate(-Math.PI / 2);
    context.fillText(fitted(context, name, top - 8), 0, 0);
    context.restore();
  });
}

/** A name that is cut with an ellipsis if it is too wide. */
function fitted(context, name, width) {
  if (context.measureText(name).width <= width) return name;
  const characters = [...name];
  while (characters.length > 1 && context.measureText(`${characters.join("")}…`).width > width)
    characters.pop();
  return `${characters.join("")}…`;
}

function drawNumbers(context, matrix, left, top, side, font) {
  const colours = scaleOf(matrix.isSigned ? "signed" : "amount");
  const width = matrix.columns.length;
  context.font = font(side >= 44 ? 12 : 10);
  context.textAlign = "center";
  matrix.values.forEach((value, i) => {
    if (matrix.masked?.[i]) return;
    const step = stepOf(value, matrix.limit, matrix.isSigned);
    context.fillStyle = inkOn(colours, step);
    const text =
      matrix.unit === "share" ? String(Math.round(value * 100)) : matrixNumber(matrix, value);
    context.fillText(
      text,
      left + ((i % width) + 0.5) * side,
      top + (Math.floor(i / width) + 0.5) * side,
    );
  });
}
