// JSON that is sent as it was typed: numbers keep their digits, and a part that was
// typed as JSON its text.
const rawJSON = typeof JSON.rawJSON === 'function';

// Raw is a text that was typed, and is JSON.
export class Raw { constructor(text) { this.text = text; } }

// parse keeps the digits of a number that a double cannot hold, where the browser
// can tell that.
export function parse(text) {
  if (!rawJSON) return JSON.parse(text);
  return JSON.parse(text, (_, v, context) => (typeof v === 'number' && context.source !== String(v) ? JSON.rawJSON(context.source) : v));
}
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
// number is what a person typed, or undefined if that is no number.
export function number(text) {
  if (!NUMBER.test(text)) return undefined;
  return rawJSON && String(Number(text)) !== text ? JSON.rawJSON(text) : Number(text);
}
const isRawNumber = (v) => rawJSON && JSON.isRawJSON(v);
export const isNumber = (v) => typeof v === 'number' || isRawNumber(v);
export const isObject = (v) => v !== null && typeof v === 'object' && !Array.isArray(v) && !(v instanceof Raw) && !isRawNumber(v);
// plain is a value without texts in it.
export const plain = (v) => (v instanceof Raw ? parse(v.text) : v);

export function write(v, indent = 0, at = '') {
  if (v instanceof Raw) return v.text;
  const list = Array.isArray(v);
  if (!list && !isObject(v)) return JSON.stringify(v);
  const deeper = at + ' '.repeat(indent), colon = indent ? ': ' : ':';
  const all = list ? v.map((x) => write(x, indent, deeper) ?? 'null')
    : Object.keys(v).filter((k) => v[k] !== undefined).map((k) => JSON.stringify(k) + colon + write(v[k], indent, deeper));
  const [open, close] = list ? '[]' : '{}';
  if (all.length === 0) return open + close;
  return indent ? `${open}\n${deeper}${all.join(`,\n${deeper}`)}\n${at}${close}` : open + all.join(',') + close;
}

// member is an object with one member set, or taken away by undefined. A name may be
// any text, __proto__ as well.
export function member(object, name, value) {
  const all = Object.entries(object).filter(([k, v]) => k !== name || v !== undefined), at = all.findIndex(([k]) => k === name);
  if (at >= 0) all[at] = [name, value];
  else all.push([name, value]);
  return Object.fromEntries(all.filter(([, v]) => v !== undefined));
}
