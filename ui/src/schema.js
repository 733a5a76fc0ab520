// What a JSON Schema says, as far as a form can ask for it. It knows of draft-04 to
// 2020-12, and says so where it does not understand something.
import {write, isNumber, isObject, plain} from './json.js';

const DEEP = 3; // objects and lists within each other

// ASSERTS are the keywords that decide which values are right. Every other one is a
// note (2020-12 core, 6.5: unknown keywords are annotations).
const ASSERTS = new Set(['$ref', '$dynamicRef', '$recursiveRef', 'allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else', 'dependentSchemas', 'dependentRequired', 'dependencies',
  'prefixItems', 'items', 'additionalItems', 'contains', 'minContains', 'maxContains', 'properties', 'patternProperties', 'additionalProperties', 'propertyNames', 'unevaluatedItems',
  'unevaluatedProperties', 'type', 'enum', 'const', 'multipleOf', 'maximum', 'exclusiveMaximum', 'minimum', 'exclusiveMinimum', 'maxLength', 'minLength', 'pattern', 'maxItems',
  'minItems', 'uniqueItems', 'maxProperties', 'minProperties', 'required', 'format', 'extends', 'disallow', 'divisibleBy']);
const KNOWN = {
  string: ['minLength', 'maxLength', 'pattern', 'format'], number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf', 'format'],
  boolean: [], null: [], array: ['items', 'minItems', 'maxItems', 'uniqueItems'], object: ['properties', 'required', 'additionalProperties', 'minProperties', 'maxProperties'],
};
KNOWN.integer = KNOWN.number;
const LEAVES = ['string', 'number', 'integer', 'boolean', 'null'].flatMap((t) => KNOWN[t]);
// CONDITIONS narrow an object without adding a member: its form has a note of them.
const CONDITIONS = ['anyOf', 'oneOf', 'not', 'if', 'then', 'else', 'dependentRequired', 'dependentSchemas', 'dependencies', 'propertyNames'];

const own = (o, k) => isObject(o) && Object.hasOwn(o, k);
const asserts = (s) => Object.keys(s).filter((k) => ASSERTS.has(k));
const older = (root) => /draft-0[34567]/.test(String(root?.$schema ?? ''));

// resolve follows references within the schema, and puts allOf together; null if
// that is not possible.
export function resolve(schema, root, depth = 0) {
  if (schema === true || schema === undefined) return {};
  if (!isObject(schema) || depth > 16 || (schema.$id && schema !== root)) return null;
  let s = schema;
  if (typeof s.$ref === 'string') {
    const found = resolve(pointed(s.$ref, root), root, depth + 1);
    const {$ref, ...rest} = s;
    // Beside a reference drafts before 2019-09 read nothing.
    const beside = older(root) ? Object.fromEntries(Object.entries(rest).filter(([k]) => !ASSERTS.has(k))) : rest;
    s = found && both(found, beside);
  }
  if (s && Array.isArray(s.allOf)) {
    const {allOf, ...rest} = s;
    s = rest;
    for (const part of allOf) {
      const found = resolve(part, root, depth + 1);
      s = found && s && both(s, found);
    }
  }
  return s;
}

// pointed is where a reference leads to; null for one that leads out of the schema.
function pointed(ref, root) {
  if (ref !== '#' && !ref.startsWith('#/')) return null;
  let at = root;
  try {
    for (const part of ref.split('/').slice(1)) {
      const key = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
      at = own(at, key) || (Array.isArray(at) && /^\d+$/.test(key)) ? at[key] : null;
    }
  } catch { return null; }
  return at ?? null;
}

// both is what two schemas say together; null where that cannot be said in one.
function both(a, b) {
  const closed = (s) => 'additionalProperties' in s && s.additionalProperties !== true;
  if ((closed(a) && b.properties) || (closed(b) && a.properties)) return null; // each looks at members of its own
  const out = {...a};
  for (const [k, v] of Object.entries(b)) {
    if (k === 'properties' && isObject(out.properties)) {
      if (Object.keys(v).some((n) => own(out.properties, n) && write(v[n]) !== write(out.properties[n]))) return null;
      out.properties = {...out.properties, ...v};
    } else if (k === 'required' && out.required) out.required = [...new Set([...out.required, ...v])];
    else if (k in out && ASSERTS.has(k) && write(out[k]) !== write(v)) return null;
    else out[k] = v;
  }
  return out;
}

// shape says which field a schema gets; "json" where none of the others is right.
export function shape(s, root, depth) {
  if (!s) return 'json';
  const asks = asserts(s), only = (...keys) => asks.every((k) => keys.includes(k));
  if ('const' in s && only('const', 'type', ...LEAVES)) return 'const';
  if (Array.isArray(s.enum) && s.enum.length > 0 && only('enum', 'type', ...LEAVES)) return 'enum';
  const type = s.type ?? (isObject(s.properties) ? 'object' : '');
  if (type === 'object' && isObject(s.properties) && depth < DEEP && !isObject(s.additionalProperties) && only('type', ...KNOWN.object, ...CONDITIONS) && narrows(s)) return 'object';
  if (choices(s, root)) return 'choice';
  if (typeof type !== 'string' || !own(KNOWN, type) || !only('type', ...KNOWN[type])) return 'json';
  if (type === 'object') return 'json'; // of members that nobody names
  if (type === 'array' && (depth >= DEEP || !isObject(s.items))) return 'json';
  return type;
}

// narrows tells whether the conditions of an object are about its own members alone.
function narrows(s) {
  const named = (c) => {
    if (Array.isArray(c)) return c.every(named);
    if (!isObject(c)) return true;
    return !c.$ref && [...Object.keys(c.properties || {}), ...(Array.isArray(c.required) ? c.required : [])].every((n) => own(s.properties, n))
      && ['allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else'].every((k) => named(c[k]));
  };
  return CONDITIONS.every((k) => !(k in s) || (/^depend/.test(k) ? Object.values(s[k]).every((d) => Array.isArray(d) ? d.every((n) => own(s.properties, n)) : named(d)) : k === 'propertyNames' || named(s[k])));
}

// conditions are those that the note of an object tells of; null for none.
export function conditions(s) {
  const found = Object.fromEntries(Object.entries(s).filter(([k]) => CONDITIONS.includes(k)));
  return Object.keys(found).length ? found : null;
}

// choices are the schemas of which a value has one; null if there is nothing to choose.
export function choices(s, root) {
  for (const k of ['anyOf', 'oneOf']) {
    if (!Array.isArray(s[k]) || s[k].length === 0) continue;
    const {[k]: all, title, description, default: _, ...rest} = s;
    const merged = all.map((c) => { const found = resolve(c, root); return found && both(rest, found); });
    return asserts(rest).length === 0 ? all : merged.every(Boolean) ? merged : null;
  }
  if (!Array.isArray(s.type) || s.type.length === 0 || !s.type.every((t) => own(KNOWN, t))) return null;
  if (!asserts(s).every((k) => k === 'type' || s.type.some((t) => KNOWN[t].includes(k)))) return null;
  return s.type.map((t) => ({...Object.fromEntries(Object.entries(s).filter(([k]) => KNOWN[t].includes(k))), type: t}));
}

const TYPES = {
  string: (v) => typeof v === 'string', number: isNumber, integer: (v) => isNumber(v) && Number.isInteger(Number(write(v))),
  boolean: (v) => typeof v === 'boolean', null: (v) => v === null, array: Array.isArray, object: isObject,
};
export const isOf = (type, v) => !own(TYPES, type) || TYPES[type](v);

// problems are what a server would find wrong with a value, as far as it can be told
// here: a server decides.
export function problems(schema, root, value, path = '', depth = 0) {
  if (value === undefined || depth > 12) return [];
  const v = plain(value);
  if (schema === false) return [`${path || 'it'} is not allowed`];
  const s = resolve(schema, root);
  if (!s) return [];
  const out = [], say = (text) => out.push(`${path || 'it'} ${text}`), kinds = s.type === undefined ? [] : [s.type].flat();
  if (kinds.length && !kinds.some((t) => isOf(t, v))) { say(`must be ${kinds.join(' or ')}`); return out; }
  if ('const' in s && write(s.const) !== write(v)) say(`must be ${write(s.const)}`);
  if (Array.isArray(s.enum) && !s.enum.some((e) => write(e) === write(v))) say('is none of its values');
  if (isNumber(v)) ofNumber(s, Number(write(v)), say);
  else if (typeof v === 'string') ofText(s, v, say);
  else if (Array.isArray(v)) {
    if (v.length < s.minItems) say(`has fewer than ${s.minItems} items`);
    if (v.length > s.maxItems) say(`has more than ${s.maxItems} items`);
    if (s.uniqueItems && new Set(v.map((x) => write(x))).size < v.length) say('has an item twice');
    if (isObject(s.items)) v.forEach((x, i) => out.push(...problems(s.items, root, x, `${path}[${i}]`, depth + 1)));
  } else if (isObject(v)) ofObject(s, root, v, path, depth, say, out);
  for (const k of ['anyOf', 'oneOf']) if (Array.isArray(s[k]) && !s[k].some((c) => problems(c, root, v, path, depth + 1).length === 0)) say(`is none of what ${k} allows`);
  return out;
}
function ofNumber(s, n, say) {
  if (n < s.minimum) say(`is less than ${s.minimum}`);
  if (n > s.maximum) say(`is more than ${s.maximum}`);
  if (typeof s.exclusiveMinimum === 'number' && n <= s.exclusiveMinimum) say(`must be more than ${s.exclusiveMinimum}`);
  if (typeof s.exclusiveMaximum === 'number' && n >= s.exclusiveMaximum) say(`must be less than ${s.exclusiveMaximum}`);
}
function ofText(s, text, say) {
  const long = [...text].length;
  if (long < s.minLength) say(`is shorter than ${s.minLength} characters`);
  if (long > s.maxLength) say(`is longer than ${s.maxLength} characters`);
  try { if (typeof s.pattern === 'string' && !new RegExp(s.pattern, 'u').test(text)) say(`does not match ${s.pattern}`); } catch { /* of another dialect */ }
}
function ofObject(s, root, v, path, depth, say, out) {
  for (const n of Array.isArray(s.required) ? s.required : []) if (!own(v, n)) say(`lacks ${n}`);
  if (s.additionalProperties === false && !s.patternProperties) for (const n of Object.keys(v)) if (!own(s.properties, n)) say(`has ${n}, which it may not have`);
  for (const [n, part] of Object.entries(isObject(s.properties) ? s.properties : {})) if (own(v, n)) out.push(...problems(part, root, v[n], path ? `${path}.${n}` : n, depth + 1));
}

// fits tells whether a value is of a schema.
export const fits = (schema, root, value) => problems(schema, root, value).length === 0;

// initial is what a form begins with: what is required and has a default, and objects
// that are required, so that nothing is sent that nobody has seen.
export function initial(schema, root, depth = 0) {
  const s = resolve(schema, root);
  if (!s || shape(s, root, depth) !== 'object') return undefined;
  return Object.fromEntries((Array.isArray(s.required) ? s.required : []).filter((n) => own(s.properties, n)).map((n) => {
    const part = resolve(s.properties[n], root);
    return [n, part && 'default' in part && fits(part, root, part.default) ? part.default : initial(s.properties[n], root, depth + 1)];
  }).filter(([, v]) => v !== undefined));
}
