// The numbers behind a picture as a CSV file.

import { element, shown } from "./elements.js";

/**
 * The text of a CSV file (RFC 4180).
 *
 * A spreadsheet would compute a text that starts like a formula, so such a text gets an apostrophe.
 */
export function csv(rows) {
  return rows.map((row) => row.map(cell).join(",") + "\r\n").join("");
}

function cell(value) {
  if (typeof value === "number") return String(Number(value.toPrecision(7)));
  if (value === null || value === undefined) return "";
  const text = String(value);
  const safe = /^[=+\-@\t\r]./s.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/**
 * A button that saves numbers.
 *
 * @param {string} name - of the file, without its ending.
 * @param {string} what - completes "Save … as CSV".
 * @param {function(): (Array|Promise<Array>)} rows - the rows, the first with names.
 */
export function csvButton(name, what, rows) {
  const save = async () => {
    // The mark at the start makes spreadsheets read UTF-8.
    const file = new Blob(["\ufeff", csv(await rows())], { type: "text/csv;charset=utf-8" });
    const address = URL.createObjectURL(file);
    element("a", { href: address, download: `${name}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  };
  const label = `Save ${shown(what)} as CSV`;
  return element(
    "button",
    { type: "button", class: "csv", "aria-label": label, title: label, on: { click: save } },
    "CSV",
  );
}

/** Matrix values as rows of a table with the names of rows and columns. */
export function matrixRows(corner, rowNames, columnNames, values) {
  const width = columnNames.length;
  return [
    [corner, ...columnNames],
    ...rowNames.map((name, row) => [name, ...values.slice(row * width, (row + 1) * width)]),
  ];
}
