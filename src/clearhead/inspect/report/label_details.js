// A classifier's answer: which words or frames count for its label, the pooling, and the effects.

import { element, plain, quoted } from "./elements.js";
import { matrixNumber } from "./attention.js";
import { picture, rankedBars } from "./charts.js";
import { outputDetails } from "./output_details.js";
import { percent, ranking } from "./numbers.js";

/** What the shown measure says, the pooling weights, and what is known of the label. */
export async function labelDetails(context, matrix) {
  const { data, item, state } = context;
  const pooling = item.pooling && (await data.array(item.pooling)).values;
  const place = Math.max(1, Math.min(state.place, item.outputs.pieces.length));
  const effects = await outputDetails({ ...context, state: { ...state, place } });
  return [
    effects,
    element(
      "div",
      { class: "details-grid" },
      // The exact effects of words are above.
      matrix.rowSide === "output" && matrix.name !== "removal" && counting(context, matrix, place - 1),
      pooling && pooled(context, pooling),
    ),
  ];
}

function counting({ item, model }, matrix, place) {
  const width = matrix.columns.length;
  const values = matrix.values.subarray(place * width, (place + 1) * width);
  const rows = ranking(values, Math.abs).map((i) => ({
    label: plain(matrix.columns[i].text),
    value: values[i],
    text: matrixNumber(matrix, values[i]),
  }));
  const what = model.unit === "frame" ? "frames" : "words";
  return picture(
    {
      title: `The ${what} that count`,
      level: 4,
      text: [
        `The ${what} in the order in which they count for `,
        quoted(item.outputs.pieces[place]),
        `, by the measure ${matrix.title}.`,
      ],
      csv: {
        name: `counting-${matrix.name}`,
        what: `the ${what} that count`,
        rows: () => [
          [what, matrix.title],
          ...matrix.columns.map((unit, i) => [unit.text, values[i]]),
        ],
      },
    },
    rankedBars(rows, {
      caption: `The ${what} that count`,
      isSigned: matrix.isSigned,
      head: [what, matrix.title],
    }),
  );
}

function pooled({ item, model }, weights) {
  const what = model.unit === "frame" ? "frames" : "pieces";
  const rows = ranking(weights).map((i) => ({
    label: plain(item.source.pieces[i]),
    value: weights[i],
    text: percent(weights[i]),
  }));
  return picture(
    {
      title: "Pooling",
      level: 4,
      text: `The label is read from a mean of all ${what}, in which they have these learned weights.`,
      csv: {
        name: "pooling",
        what: "the pooling weights",
        rows: () => [
          [what, "weight"],
          ...item.source.pieces.map((piece, i) => [piece, weights[i]]),
        ],
      },
    },
    rankedBars(rows, { caption: "Pooling weights", head: [what, "weight"] }),
  );
}
