// The beam as a tree: time goes down, a column for each hypothesis of a step.

import { disclosure, element, plain, quoted } from "./elements.js";
import { nameCell, numberCell, picture, scrolled, table } from "./charts.js";
import { above, formula, fraction, mathRow, tall } from "./formulas.js";
import { decimal } from "./numbers.js";

const CELL = { width: 112, height: 52, gap: 8, margin: 44 };
const STATES = { kept: "kept", pruned: "pruned", finished: "finished" };

/** The view "Beam". */
export async function beamView(context) {
  const { item, state, go, key } = context;
  const { beam } = item;
  const nodes = new Map(beam.nodes.map((node) => [node.id, node]));
  const chosen = beam.hypotheses[state.hypothesis - 1] ?? beam.hypotheses[0];
  const path = pathTo(nodes, chosen?.node);
  return element(
    "div",
    {},
    beam.differs &&
      element(
        "p",
        { class: "warning", role: "note" },
        "This is the search of PyTorch. The output of the report is not its best hypothesis: another engine found it, whose numbers differ in the last digits.",
      ),
    hypotheses(context, beam, chosen),
    picture(
      {
        title: "The tree of hypotheses",
        text: `Time goes down: each line is a step of the search, each box a token with the total log-probability so far. A line leads from a token to the one before it. At most ${beam.beam_size} stay; the chosen one is drawn strong, the best pruned ones are pale, finished ones have a double border.`,
        csv: { name: "beam", what: "the tree", rows: () => nodeRows(beam.nodes) },
      },
      element(
        "div",
        { class: "controls" },
        element(
          "label",
          { class: "check" },
          element("input", {
            type: "checkbox",
            checked: state.pruned,
            "data-key": key("pruned"),
            on: { change: (event) => go({ pruned: event.target.checked }) },
          }),
          " Show pruned hypotheses",
        ),
      ),
      tree(beam, path, state.pruned),
      disclosure("All tokens as a table", () => nodeTable(beam.nodes)),
    ),
  );
}

/** The ids of the nodes from a node up to the root. */
function pathTo(nodes, id) {
  const path = new Set();
  for (let node = nodes.get(id); node && !path.has(node.id); node = nodes.get(node.parent))
    path.add(node.id);
  return path;
}

/** The finished hypotheses, the best first, with what the length penalty did. */
function hypotheses({ go, key }, beam, chosen) {
  const byTotal = [...beam.hypotheses].sort((a, b) => b.total - a.total)[0];
  const winner = beam.hypotheses[0];
  const isDecisive = winner && byTotal !== winner;
  const rows = beam.hypotheses.map((hypothesis, i) => {
    const button = {
      type: "button",
      class: "link",
      "aria-pressed": String(hypothesis === chosen),
      "data-key": key(`hypothesis.${i}`),
      on: { click: () => go({ hypothesis: i + 1 }) },
    };
    const unfinished = hypothesis.finished ? null : element("small", {}, "not finished");
    return {
      isCurrent: hypothesis === chosen,
      cells: [
        numberCell(i + 1),
        nameCell(element("button", button, plain(hypothesis.text || "(empty)")), unfinished),
        numberCell(decimal(hypothesis.total)),
        numberCell(decimal(hypothesis.normalised)),
      ],
    };
  });
  return picture(
    {
      title: "Where the winner came from",
      text: [
        winner ? [quoted(winner.text), " won. "] : "No hypothesis was finished. ",
        `Hypotheses are compared by their total log-probability divided by a penalty of their length, with α = ${beam.length_penalty}. `,
        isDecisive
          ? ["Without the penalty ", quoted(byTotal.text), " would have won."]
          : "The same one would have won without the penalty.",
        " Choose one to see its way through the tree.",
      ],
      csv: {
        name: "hypotheses",
        what: "the hypotheses",
        rows: () => [
          ["rank", "text", "total", "normalised", "finished"],
          ...beam.hypotheses.map((each, i) => [
            i + 1,
            each.text,
            each.total,
            each.normalised,
            String(each.finished),
          ]),
        ],
      },
    },
    formula(
      "score",
      "=",
      fraction(
        mathRow("log", "P", "(", "y", "|", "x", ")"),
        above(mathRow(tall("("), fraction(mathRow("5", "+", "length"), "6"), tall(")")), "α"),
      ),
    ),
    table("Hypotheses", ["rank", "hypothesis", "total", "score"], rows),
  );
}

/** The boxes of each step, the best first, and lines between them. */
function tree(beam, path, withPruned) {
  const steps = new Map();
  for (const node of beam.nodes) {
    if (!steps.has(node.step)) steps.set(node.step, []);
    steps.get(node.step).push(node);
  }
  const placed = new Map();
  const ordered = [...steps.entries()].sort(([a], [b]) => a - b);
  let widest = 1;
  const isPruned = (node) => node.state === "pruned" && !path.has(node.id);
  ordered.forEach((each, row) => {
    const all = each[1].sort((a, b) => isPruned(a) - isPruned(b) || b.total - a.total);
    const stayed = all.filter((node) => !isPruned(node)).length;
    const line = all.slice(0, stayed + (withPruned ? beam.beam_size : 0));
    each[1] = line;
    widest = Math.max(widest, line.length);
    line.forEach((node, column) =>
      placed.set(node.id, {
        node,
        x: CELL.margin + column * (CELL.width + CELL.gap),
        y: row * (CELL.height + 22),
      }),
    );
  });
  const width = CELL.margin + widest * (CELL.width + CELL.gap);
  const height = ordered.length * (CELL.height + 22);
  const drawing = element(
    "div",
    { class: "tree", css: { "inline-size": `${width}px`, "block-size": `${height}px` } },
    edges(placed, path, width, height),
    element(
      "ol",
      { class: "tree-steps" },
      ordered.map(([, line], row) =>
        element(
          "li",
          {},
          element(
            "span",
            { class: "step-number", css: { top: `${row * (CELL.height + 22)}px` } },
            element("span", { class: "aloud" }, "step "),
            row + 1,
          ),
          element(
            "ul",
            {},
            line.map((node) => box(placed.get(node.id), path)),
          ),
        ),
      ),
    ),
  );
  const region = scrolled("Tree of hypotheses", drawing);
  region.classList.add("whole");
  return region;
}

function box({ node, x, y }, path) {
  const kinds = ["box", node.state, path.has(node.id) ? "on-path" : ""].filter(Boolean).join(" ");
  return element(
    "li",
    {
      class: kinds,
      css: { left: `${x}px`, top: `${y}px`, width: `${CELL.width}px`, height: `${CELL.height}px` },
      title: `${node.piece}: ${decimal(node.score)}, total ${decimal(node.total)}, ${STATES[node.state] ?? ""}`,
    },
    element("bdi", { class: "piece" }, node.piece || "·"),
    element(
      "small",
      {},
      decimal(node.total),
      node.state === "finished" && typeof node.normalised === "number"
        ? ` → ${decimal(node.normalised)}`
        : "",
    ),
    element(
      "span",
      { class: "aloud" },
      ` ${STATES[node.state] ?? ""}${path.has(node.id) ? ", on the chosen way" : ""}`,
    ),
  );
}

function edges(placed, path, width, height) {
  const middle = CELL.width / 2;
  const lines = [...placed.values()]
    .filter(({ node }) => placed.has(node.parent))
    .map(({ node, x, y }) => {
      const parent = placed.get(node.parent);
      const [x1, y1, x2, y2] = [parent.x + middle, parent.y + CELL.height, x + middle, y];
      const halfway = (y1 + y2) / 2;
      return {
        strong: path.has(node.id),
        line: element("svg:path", {
          class: path.has(node.id) ? "edge on-path" : `edge ${node.state}`,
          d: `M${x1} ${y1}C${x1} ${halfway} ${x2} ${halfway} ${x2} ${y2}`,
        }),
      };
    });
  // The strong lines last, on top of the others.
  lines.sort((a, b) => a.strong - b.strong);
  return element(
    "svg:svg",
    { "aria-hidden": "true", width, height, viewBox: `0 0 ${width} ${height}` },
    lines.map(({ line }) => line),
  );
}

function nodeRows(nodes) {
  return [
    ["id", "parent", "step", "token", "log-probability", "total", "state", "score"],
    ...nodes.map((node) => [
      node.id,
      node.parent,
      node.step,
      node.piece,
      node.score,
      node.total,
      node.state,
      node.normalised,
    ]),
  ];
}

function nodeTable(nodes) {
  const [head, ...rows] = nodeRows(nodes);
  const text = (value) =>
    typeof value === "number" && !Number.isInteger(value) ? decimal(value) : (value ?? "");
  const cells = (row) =>
    row.map((value) => (typeof value === "string" ? plain(value) : text(value)));
  return table(
    "All tokens of the tree",
    head,
    rows.map((row) => ({ cells: cells(row) })),
  );
}
