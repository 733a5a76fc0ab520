// JSON whose numbers keep their digits: one that a double cannot hold stays as it
// was written, where the browser can tell that.
const raw = typeof JSON.rawJSON === 'function';

export function parse(text) {
  if (!raw) return JSON.parse(text);
  return JSON.parse(text, (_, v, context) => (typeof v === 'number' && context.source !== String(v) ? JSON.rawJSON(context.source) : v));
}
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
// number is what a person typed, or undefined if that is no number.
export function number(text) {
  if (!NUMBER.test(text)) return undefined;
  return raw && String(Number(text)) !== text ? JSON.rawJSON(text) : Number(text);
}
export const isNumber = (v) => typeof v === 'number' || (raw && JSON.isRawJSON(v));
export const write = (v, indent) => JSON.stringify(v, null, indent);
export const isObject = (v) => v !== null && typeof v === 'object' && !Array.isArray(v) && !(raw && JSON.isRawJSON(v));
