// Words, or the pieces that the model reads: what is a row, a column or a button.

/**
 * The units of a sequence, in order: {text, positions}.
 *
 * @param {string[]} pieces
 * @param {Array} words - [text, [positions]] of each word; a piece that is in no word (the end of a
 *   sentence) is a unit of its own.
 * @param {boolean} joined - words if true, pieces if false.
 */
export function unitsOf(pieces, words, joined) {
  const single = (position) => ({ text: pieces[position], positions: [position] });
  if (!joined) return pieces.map((_, position) => single(position));
  const covered = new Set(words.flatMap(([, positions]) => positions));
  const units = words
    .filter(([, positions]) => positions.length)
    .map(([text, positions]) => ({ text, positions }));
  for (let position = 0; position < pieces.length; position++) {
    if (!covered.has(position)) units.push(single(position));
  }
  return units.sort((a, b) => a.positions[0] - b.positions[0]);
}

/** A text about words, in a report on frames about frames. */
export function inUnits(model, text) {
  return model.unit === "frame" ? text.replace(/(?:source )?\bword(s?)\b/g, "frame$1") : text;
}

/** Whether joining changes anything: some word has several pieces. */
export function hasSubwords(item) {
  const several = (side) => side.words.some(([, positions]) => positions.length > 1);
  return several(item.source) || several(item.outputs);
}

/**
 * A matrix over units from one over positions: sums over keys (columns), means over queries (rows).
 * Parts of a log-probability are summed over queries too.
 *
 * @param {Float32Array} values - (rows, width)
 * @param {number} width - the number of columns of `values`
 * @param {boolean} nats - whether these are parts of a log-probability
 * @returns {Float32Array} (row units, column units)
 */
export function joinedMatrix(values, width, rowUnits, columnUnits, nats = false) {
  const joined = new Float32Array(rowUnits.length * columnUnits.length);
  rowUnits.forEach((row, r) => {
    columnUnits.forEach((column, c) => {
      let sum = 0;
      for (const query of row.positions) {
        for (const key of column.positions) sum += values[query * width + key];
      }
      joined[r * columnUnits.length + c] = nats ? sum : sum / row.positions.length;
    });
  });
  return joined;
}
