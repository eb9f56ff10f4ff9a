// What is known of a model over many sentences: which measure may be believed, which heads matter,
// and what heads do.

import { disclosure, element, plain } from "./elements.js";
import { headNamed, headTitle } from "./attention.js";
import { nameCell, numberCell, picture, scrolled, table } from "./charts.js";
import { decimal, largest, ranking, signed } from "./numbers.js";

/** The view "What to believe". */
export async function beliefView(context) {
  const { model } = context;
  return element(
    "div",
    {},
    model.belief && [measures(model.belief), curves(model.belief)],
    model.importance && importance(context),
    model.roles && roles(context),
  );
}

function measures(belief) {
  const order = ranking(belief.rows, (row) => row.comprehensiveness[0]);
  return picture(
    {
      title: "Which measure may be believed",
      text: [
        element("strong", {}, plain(belief.text)),
        ` Measured on ${belief.sentences} sentences. Comprehensiveness (DeYoung et al. 2020): how much the probability of the output falls when the words that a measure ranks first are deleted; higher is better. Sufficiency: how much it falls when only these are left; lower is better. In brackets: the 95 % confidence interval. The sums of integrated gradients miss what they should be by ${decimal(belief.completeness_error, 3)} nats on average.`,
      ],
      csv: {
        name: "faithfulness",
        what: "the faithfulness of the measures",
        rows: () => [
          [
            "measure",
            ...["comprehensiveness", "sufficiency"].flatMap((name) => [
              name,
              `${name} low`,
              `${name} high`,
            ]),
          ],
          ...belief.rows.map((row) => [row.title, ...row.comprehensiveness, ...row.sufficiency]),
        ],
      },
    },
    table(
      "Faithfulness of the measures",
      ["measure", "comprehensiveness", "sufficiency"],
      order
        .map((i) => belief.rows[i])
        .map((row) => ({
          isCurrent: belief.believed.includes(row.measure),
          cells: [
            nameCell(plain(row.title)),
            numberCell(withInterval(row.comprehensiveness, 2)),
            numberCell(withInterval(row.sufficiency, 2)),
          ],
        })),
    ),
  );
}

const CHART = { width: 720, height: 340, left: 52, right: 190, top: 14, bottom: 44 };
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 4", "1 4", "12 4", "6 2 1 2"];

/** Probability after deletion of a share of the source words, a line for each measure. */
function curves(belief) {
  const names = Object.keys(belief.curves).filter((name) => belief.curves[name].length);
  if (!names.length) return null;
  const title = (name) => belief.rows.find((row) => row.measure === name)?.title ?? name;
  const { width, height, left, right, top, bottom } = CHART;
  const most = Math.max(...names.map((name) => largest(belief.curves[name])));
  const x = (share) => left + (share * (width - left - right)) / (belief.grid.at(-1) || 1);
  const y = (value) => height - bottom - (value / most) * (height - top - bottom);
  const line = (name, number) =>
    element("svg:path", {
      class: `curve curve-${number % 4}${name === belief.believed[0] ? " best" : ""}${name === "random" ? " random" : ""}`,
      "stroke-dasharray": name === belief.believed[0] ? null : DASHES[number % DASHES.length],
      d: belief.curves[name]
        .map((value, i) => `${i ? "L" : "M"}${x(belief.grid[i]).toFixed(1)} ${y(value).toFixed(1)}`)
        .join(""),
    });
  const text = (options, ...content) => element("svg:text", options, ...content);
  const ticks = ticksUpTo(most);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const labels = apart(
    names.map((name) => y(mean(belief.curves[name]))),
    17,
    top + 6,
    height - bottom,
  );
  const drawing = element(
    "svg:svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      class: "chart",
      "aria-label":
        "Probability after deletion of source words, by measure. The table below has the numbers.",
    },
    ticks.map((value) => [
      element("svg:path", { class: "grid-line", d: `M${left} ${y(value)}H${width - right}` }),
      text({ x: left - 8, y: y(value) + 4, "text-anchor": "end" }, decimal(value)),
    ]),
    belief.grid.map((share) =>
      text(
        { x: x(share), y: height - bottom + 18, "text-anchor": "middle" },
        `${Math.round(share * 100)} %`,
      ),
    ),
    text(
      { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" },
      "source words deleted",
    ),
    names.map(line),
    names.map((name, number) => [
      element("svg:path", {
        class: `curve curve-${number % 4}${name === belief.believed[0] ? " best" : ""}${name === "random" ? " random" : ""}`,
        "stroke-dasharray": name === belief.believed[0] ? null : DASHES[number % DASHES.length],
        d: `M${width - right + 8} ${labels[number]}h22`,
      }),
      text(
        {
          x: width - right + 36,
          y: labels[number] + 4,
          class: name === belief.believed[0] ? "best" : null,
        },
        title(name),
      ),
    ]),
  );
  const asTable = () =>
    table(
      "Deletion curves",
      ["measure", ...belief.grid.map((share) => `${Math.round(share * 100)} %`)],
      names.map((name) => ({
        cells: [
          nameCell(plain(title(name))),
          ...belief.curves[name].map((value) => numberCell(decimal(value, 3))),
        ],
      })),
    );
  return picture(
    {
      title: "Deletion curves",
      text: "Source words are deleted in the order in which each measure ranks them. The faster the probability falls, the better the measure found the words that count. The strong line is the measure to be believed.",
      csv: {
        name: "deletion-curves",
        what: "the deletion curves",
        rows: () => [
          ["measure", ...belief.grid],
          ...names.map((name) => [title(name), ...belief.curves[name]]),
        ],
      },
    },
    scrolled("Chart of the deletion curves", drawing),
    disclosure("The same as a table", asTable),
  );
}

/** At most six round numbers from 0 up to a limit. */
function ticksUpTo(limit) {
  const power = 10 ** Math.floor(Math.log10(limit));
  const step = [0.1, 0.2, 0.5, 1, 2]
    .map((each) => each * power)
    .find((each) => limit / each <= 5.5);
  return Array.from({ length: Math.floor(limit / step) + 1 }, (_, i) => i * step);
}

/** Heights of labels, moved so that they are at least `gap` apart. */
function apart(heights, gap, top, bottom) {
  const order = heights.map((_, i) => i).sort((a, b) => heights[a] - heights[b]);
  const moved = [...heights];
  let next = top;
  for (const i of order) {
    moved[i] = Math.max(moved[i], next);
    next = moved[i] + gap;
  }
  let limit = bottom;
  for (const i of order.reverse()) {
    moved[i] = Math.min(moved[i], limit);
    limit = moved[i] - gap;
  }
  return moved;
}

function importance({ model, link }) {
  const rows = ranking(model.importance, (row) => row.loss[0]).map((i) => model.importance[i]);
  const most = Math.max(...rows.flatMap((row) => row.loss.map(Math.abs))) || 1;
  const withChrf = rows.some((row) => row.chrf);
  const position = (value) => `${(50 + (value / most) * 50).toFixed(2)}%`;
  const track = ([mean, low, high]) =>
    element(
      "td",
      { class: "track middle", "aria-hidden": "true" },
      element("span", {
        class: mean < 0 ? "bar against" : "bar",
        css: { "inline-size": `${((Math.abs(mean) / most) * 50).toFixed(2)}%` },
      }),
      element("span", {
        class: "interval",
        css: { left: position(low), width: `${(((high - low) / most) * 50).toFixed(2)}%` },
      }),
    );
  const line = (row) => {
    const { kind, layer, head } = headNamed(row.head);
    return element(
      "tr",
      {},
      element(
        "th",
        { scope: "row" },
        element(
          "a",
          { href: link({ view: "words", show: kind, layer, head }) },
          headTitle(row.head),
        ),
      ),
      element("td", { class: "number" }, withInterval(row.loss)),
      track(row.loss),
      withChrf && element("td", { class: "number" }, row.chrf ? withInterval(row.chrf, 1) : ""),
      element("td", { class: "number" }, decimal(row.gradient, 3)),
    );
  };
  const heads = (some) =>
    scrolled(
      "Importance of heads",
      element(
        "table",
        { class: "bars plain importance" },
        element(
          "thead",
          {},
          element(
            "tr",
            {},
            element("th", { scope: "col" }, "head"),
            element("th", { scope: "col", colspan: "2" }, "rise of the loss"),
            withChrf && element("th", { scope: "col" }, "change of chrF"),
            element("th", { scope: "col" }, "gradient"),
          ),
        ),
        element("tbody", {}, some.map(line)),
      ),
    );
  const few = 12;
  return picture(
    {
      title: "Which heads matter",
      text: `For all sentences of a sample, ${model.ablate_by === "mean" ? "its mean output" : "zero"} replaces the output of each head. To the right: the loss rises without it, so the model needs it. The thin line is the 95 % confidence interval; the gradient is the estimate of Michel et al. (2019).`,
      csv: {
        name: "head-importance",
        what: "the importance of the heads",
        rows: () => [
          [
            "head",
            ...["rise of the loss", "change of chrF"].flatMap((name) => [
              name,
              `${name}, low`,
              `${name}, high`,
            ]),
            "gradient",
          ],
          ...rows.map((row) => [
            row.head,
            ...row.loss,
            ...(row.chrf ?? [null, null, null]),
            row.gradient,
          ]),
        ],
      },
    },
    heads(rows.slice(0, few)),
    rows.length > few && disclosure(`${rows.length - few} more`, () => heads(rows.slice(few))),
  );
}

const withInterval = ([mean, low, high], digits = 3) =>
  `${signed(mean, digits)} (${signed(low, digits)} to ${signed(high, digits)})`;

function roles({ model, link }) {
  const heads = Object.entries(model.roles).filter(([, found]) => found.length);
  if (!heads.length) return null;
  return picture(
    {
      title: "What heads do",
      text: "Heads whose attention over a sample fits a known pattern, with the share of attention that does. Heads without one are not listed.",
      csv: {
        name: "head-roles",
        what: "the roles of the heads",
        rows: () => [
          ["head", "role", "score"],
          ...heads.flatMap(([name, found]) => found.map(([role, score]) => [name, role, score])),
        ],
      },
    },
    element(
      "ul",
      { class: "roles" },
      heads.map(([name, found]) => {
        const { kind, layer, head } = headNamed(name);
        return element(
          "li",
          {},
          element("a", { href: link({ view: "words", show: kind, layer, head }) }, headTitle(name)),
          " ",
          found.map(([role, score], i) => [
            i ? ", " : "",
            plain(role),
            element("small", {}, ` ${score.toFixed(2)}`),
          ]),
        );
      }),
    ),
  );
}
