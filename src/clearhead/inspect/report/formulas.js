// Formulas in MathML.

import { element } from "./elements.js";

const tokens = { i: "math:mi", o: "math:mo", n: "math:mn" };

/** Part of a formula: a letter, an operator, a number or a text; strings of other parts are rows. */
export const letter = (text) => element(tokens.i, {}, text);
export const operator = (text) => element(tokens.o, { stretchy: "false" }, text);
export const tall = (text) => element(tokens.o, { stretchy: "true" }, text);
export const numeral = (text) => element(tokens.n, {}, text);
export const mathRow = (...parts) => element("math:mrow", {}, parts.map(part));
export const below = (base, index) => element("math:msub", {}, part(base), part(index));
export const above = (base, index) => element("math:msup", {}, part(base), part(index));
export const fraction = (top, bottom) => element("math:mfrac", {}, part(top), part(bottom));
export const root = (inside) => element("math:msqrt", {}, part(inside));

const OPERATORS = "=+−·×∑,()[]|";

/** A string as part of a formula: one character of OPERATORS, a number, or a letter or name. */
function part(value) {
  if (value instanceof Node) return value;
  if (OPERATORS.includes(value)) return operator(value);
  return /^[−\d]/.test(value) ? numeral(value) : letter(value);
}

/** A formula on a line of its own. */
export function formula(...parts) {
  return element(
    "div",
    { class: "formula" },
    element("math:math", { display: "block" }, element("math:mrow", {}, parts.map(part))),
  );
}

/** softmax(QKᵀ/√d_k)V and its parts, as the paper writes them. */
export const scoreFormula = () =>
  formula(
    below("s", mathRow("i", "j")),
    "=",
    fraction(mathRow(below("q", "i"), "·", below("k", "j")), root(below("d", "k"))),
  );

export const weightFormula = () =>
  formula(
    below("α", mathRow("i", "j")),
    "=",
    fraction(
      above("e", below("s", mathRow("i", "j"))),
      mathRow(below(operator("∑"), "m"), above("e", below("s", mathRow("i", "m")))),
    ),
  );

export const headFormula = () =>
  formula(
    below("head", "h"),
    "=",
    below(operator("∑"), "j"),
    below("α", mathRow("i", "j")),
    below("v", "j"),
  );

export const projectionFormula = (of, from) =>
  element(
    "div",
    { class: "formulas" },
    formula(below("q", "i"), "=", below(of, "i"), above("W", "Q")),
    formula(below("k", "j"), "=", below(from, "j"), above("W", "K")),
    formula(below("v", "j"), "=", below(from, "j"), above("W", "V")),
  );

export const outputFormula = () =>
  formula(
    "MultiHead",
    "=",
    "Concat",
    "(",
    below("head", "1"),
    ",",
    "…",
    ",",
    below("head", "h"),
    ")",
    above("W", "O"),
  );

export const feedForwardFormula = (of, activation) =>
  formula(
    ...["FFN", "(", of, ")", "="],
    ...(activation === "relu" ? ["max", "(", "0", ","] : [activation, "("]),
    ...[of, below("W", "1"), "+", below("b", "1"), ")", below("W", "2"), "+", below("b", "2")],
  );

/** The norm of a vector `of`; the form is a setting of the model. */
export const normFormula = (of, form) =>
  formula(
    "LayerNorm",
    "(",
    of,
    ")",
    "=",
    fraction(
      mathRow(of, "−", "μ"),
      form === "std_plus_epsilon"
        ? mathRow("σ", "+", "ε")
        : root(mathRow(above("σ", "2"), "+", "ε")),
    ),
    "·",
    "γ",
    "+",
    "β",
  );

export const residualFormula = (sublayer, of) => formula("x", "+", sublayer, "(", of, ")");

/**
 * The input of a stack.
 *
 * @param {boolean} isFrames - projected features, or else embeddings
 * @param {{positions: boolean, norm: boolean, spelled: boolean}} input - what is added
 * @param {boolean} isConvolved - whether convolutions over it are added
 */
export const inputFormula = (isFrames, input, isConvolved) => {
  const vector = isFrames
    ? [below("f", "i"), "W", "+", "b"]
    : ["Embedding", "(", below("w", "i"), ")"];
  if (input.spelled && !isFrames) vector.push("+", "Ngrams", "(", below("w", "i"), ")");
  if (input.positions) vector.push("+", "PE", "(", "i", ")");
  const inner = input.norm ? ["LayerNorm", "(", ...vector, ")"] : vector;
  if (!isConvolved) return formula(below("x", "i"), "=", ...inner);
  return element(
    "div",
    { class: "formulas" },
    formula(below("y", "i"), "=", ...inner),
    formula(below("x", "i"), "=", below("y", "i"), "+", below("Convolution(y)", "i")),
  );
};
