// Numbers as a reader sees them.

const THIN = "\u202f";

/** A share or probability (0…1) in percent: 83 %, 4.2 %, < 0.1 %. */
export function percent(share) {
  const value = share * 100;
  if (value >= 99.5 && value < 100) {
    return value < 99.95 ? `${value.toFixed(1)}${THIN}%` : `>${THIN}99.9${THIN}%`;
  }
  if (value >= 9.95 || value === 0) return `${Math.round(value)}${THIN}%`;
  return value >= 0.05 ? `${value.toFixed(1)}${THIN}%` : `<${THIN}0.1${THIN}%`;
}

/** A number with a sign: +0.42, −0.42. */
export function signed(value, digits = 2) {
  const text = Math.abs(value).toFixed(digits);
  if (Number(text) === 0) return text;
  return (value < 0 ? "−" : "+") + text;
}

/** Digits after the point with which numbers up to a limit can be told apart. */
export function digitsFor(limit) {
  return limit >= 1 ? 2 : Math.min(4, 2 - Math.floor(Math.log10(limit)));
}

/** A number with a true minus. */
export function decimal(value, digits = 2) {
  const text = value.toFixed(digits);
  return Number(text) < 0 ? `−${text.slice(1)}` : text.replace("-", "");
}

/** A count with its noun: 1 head, 12 heads, 1,024 tokens. */
export function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** The smallest and the largest of many numbers. */
export function extent(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return values.length ? [low, high] : [0, 0];
}

/** The largest absolute value; 1 if all are 0, so that one can divide by it. */
export function largest(values) {
  const [low, high] = extent(values);
  return Math.max(Math.abs(low), Math.abs(high)) || 1;
}

/** The places of a list, the largest value first. */
export function ranking(values, key = (value) => value) {
  const keys = Array.from(values, key);
  return keys.map((_, place) => place).sort((a, b) => keys[b] - keys[a] || a - b);
}
