// A form for a JSON Schema. What it does not understand becomes a box for JSON:
// nothing is left out, and nothing becomes a text that is none.
import {h, Fragment} from 'preact';
import {useState, useEffect} from 'preact/hooks';
import {parse, write, number, isNumber, isObject} from './json.js';
import {visible} from './format.js';

const DEEP = 3;
const NOTES = new Set(['title', 'description', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly', '$comment', '$schema', '$id', '$defs', 'definitions', '$anchor']);
const KNOWN = {
  string: ['minLength', 'maxLength', 'pattern', 'format', 'contentMediaType', 'contentEncoding'], number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf', 'format'],
  boolean: [], null: [], array: ['items', 'minItems', 'maxItems', 'uniqueItems'], object: ['properties', 'required', 'additionalProperties', 'minProperties', 'maxProperties'],
};
KNOWN.integer = KNOWN.number;

// resolve follows references within the schema, and puts allOf together; null if
// that is not possible.
export function resolve(schema, root, depth = 0) {
  if (schema === true || schema === undefined) return {};
  if (!isObject(schema) || depth > 8) return null;
  let s = schema;
  if (typeof s.$ref === 'string') {
    if (!s.$ref.startsWith('#')) return null;
    let at = root;
    for (const part of s.$ref.slice(1).split('/').slice(1)) at = at?.[decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~')];
    const found = at === undefined ? null : resolve(at, root, depth + 1);
    if (!found) return null;
    const {$ref, ...rest} = s;
    s = both(found, rest);
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
// both is what two schemas say together; null where they say different things.
function both(a, b) {
  const out = {...a};
  for (const [k, v] of Object.entries(b)) {
    if (k === 'properties' && isObject(out.properties)) {
      if (Object.keys(v).some((n) => n in out.properties && write(v[n]) !== write(out.properties[n]))) return null;
      out.properties = {...out.properties, ...v};
    } else if (k === 'required' && out.required) out.required = [...new Set([...out.required, ...v])];
    else if (k in out && write(out[k]) !== write(v) && !NOTES.has(k)) return null;
    else out[k] = v;
  }
  return out;
}

// shape says which field a schema gets; "json" where none of the others is right.
export function shape(s, depth) {
  if (!s) return 'json';
  const asks = Object.keys(s).filter((k) => !NOTES.has(k));
  const only = (...keys) => asks.every((k) => keys.includes(k));
  if ('const' in s && only('const', 'type')) return 'const';
  if (Array.isArray(s.enum) && only('enum', 'type')) return 'enum';
  for (const k of ['anyOf', 'oneOf']) if (Array.isArray(s[k]) && s[k].length > 0 && only(k)) return 'choice';
  if (Array.isArray(s.type)) return s.type.every((t) => KNOWN[t]) && only('type', ...s.type.flatMap((t) => KNOWN[t])) ? 'choice' : 'json';
  const type = s.type || (isObject(s.properties) ? 'object' : '');
  if (!KNOWN[type] || !only('type', ...KNOWN[type])) return 'json';
  if (type === 'object' && (depth >= DEEP || !isObject(s.properties) || isObject(s.additionalProperties))) return 'json';
  if (type === 'array' && (depth >= DEEP || s.items === undefined || typeof s.items === 'boolean')) return 'json';
  return type;
}

// choices are the schemas that a value may be of.
export const choices = (s) => s.anyOf || s.oneOf || s.type.map((t) => ({...Object.fromEntries(Object.entries(s).filter(([k]) => KNOWN[t].includes(k))), type: t}));

export function Field({schema, root, value, set, name, need, depth = 0, path}) {
  const s = resolve(schema, root), kind = shape(s, depth), id = 'f-' + path;
  const title = name !== undefined && <span class="label">{visible(name)}{need && <abbr title="required"> *</abbr>} {s?.title && s.title !== name && <span class="quiet">{visible(s.title)} </span>}<span class="quiet">{kind === 'json' ? 'JSON' : kind === 'choice' ? '' : kind}</span></span>;
  const note = s?.description && <span class="note" id={id + '-n'}>{visible(s.description)}</span>;
  const about = {id, 'aria-describedby': s?.description ? id + '-n' : undefined, 'aria-required': need || undefined};
  switch (kind) {
    case 'object': return <fieldset>{title && <legend>{title}</legend>}{note}<Members {...{s, root, value, set, depth, path}} /></fieldset>;
    case 'array': return <fieldset><legend>{title}</legend>{note}<Items {...{s, root, value, set, depth, path}} /></fieldset>;
    case 'choice': return <fieldset><legend>{title}</legend>{note}<Choice {...{s, root, value, set, depth, path, need}} /></fieldset>;
    case 'const': return <label>{title}<Pick {...{about, options: [s.const], value, set, need}} />{note}</label>;
    case 'enum': return <label>{title}<Pick {...{about, options: s.enum, value, set, need}} />{note}</label>;
    case 'boolean': return <label>{title}<Pick {...{about, options: [true, false], value, set, need}} />{note}</label>;
    case 'null': return <label>{title}<Pick {...{about, options: [null], value, set, need}} />{note}</label>;
    case 'string': return <label>{title}<Words {...{about, s, value, set}} />{note}</label>;
    case 'number': case 'integer': return <label>{title}<Digits {...{about, kind, value, set}} />{note}</label>;
    default: return <label>{title}<Box {...{about, value, set}} />{note}</label>;
  }
}

function Pick({about, options, value, set, need}) {
  const at = options.findIndex((o) => write(o) === write(value));
  return <select {...about} value={at} onChange={(e) => set(+e.target.value < 0 ? undefined : options[+e.target.value])}><option value={-1}>{need ? 'choose' : '–'}</option>{options.map((o, i) => <option value={i}>{visible(typeof o === 'string' ? o : write(o))}</option>)}</select>;
}

function Words({about, s, value, set}) {
  const change = (e) => set(e.target.value === '' && !about['aria-required'] ? undefined : e.target.value);
  if (typeof value !== 'string' && value !== undefined) return <Box {...{about, value, set}} />;
  if (s.format === 'date') return <input {...about} type="date" value={value ?? ''} onInput={change} />;
  return <textarea {...about} rows={1} value={value ?? ''} placeholder={s.format || ''} onInput={change} />;
}

// Digits holds what is typed, and says nothing as long as that is no number.
function Digits({about, kind, value, set}) {
  const [typed, setTyped] = useState(value === undefined ? '' : write(value)), [bad, setBad] = useState(false);
  const change = (e) => {
    const t = e.target.value.trim(), n = number(t);
    setTyped(e.target.value);
    const wrong = t !== '' && (n === undefined || (kind === 'integer' && /[.eE]/.test(t)));
    setBad(wrong);
    set(t === '' ? undefined : wrong ? WRONG : n);
  };
  return <><input {...about} inputMode="decimal" value={typed} aria-invalid={bad} onInput={change} />{bad && <span role="alert" class="bad">not {kind === 'integer' ? 'an integer' : 'a number'}</span>}</>;
}

// WRONG stands for what is typed and cannot be sent.
export const WRONG = Symbol('wrong');
export const hasWrong = (v) => v === WRONG || (Array.isArray(v) ? v.some(hasWrong) : isObject(v) && Object.values(v).some(hasWrong));

export function Box({about, value, set, rows = 3}) {
  const [typed, setTyped] = useState(value === undefined || value === WRONG ? '' : write(value, 2)), [bad, setBad] = useState('');
  const change = (e) => {
    setTyped(e.target.value);
    if (e.target.value.trim() === '') { setBad(''); set(undefined); return; }
    try { set(parse(e.target.value)); setBad(''); } catch (err) { setBad(err.message); set(WRONG); }
  };
  return <><textarea {...about} rows={rows} class="mono" spellcheck={false} value={typed} aria-invalid={!!bad} placeholder="JSON" onInput={change} />{bad && <span role="alert" class="bad">not JSON: {visible(bad)}</span>}</>;
}

function Members({s, root, value, set, depth, path}) {
  const now = isObject(value) ? value : {}, props = s.properties || {}, need = s.required || [];
  const put = (k, v) => { const next = {...now}; v === undefined ? delete next[k] : next[k] = v; set(depth > 0 && !Object.keys(next).length && value === undefined ? undefined : next); };
  const names = [...Object.keys(props), ...need.filter((n) => !(n in props)), ...Object.keys(now).filter((k) => !(k in props) && !need.includes(k))];
  return <>{names.length === 0 && <p class="quiet">no arguments</p>}{names.map((k, i) => <Field key={k} schema={props[k] ?? {}} {...{root}} name={k} need={need.includes(k)} value={now[k]} set={(v) => put(k, v)} depth={depth + 1} path={path + '-' + i} />)}</>;
}

function Items({s, root, value, set, depth, path}) {
  const now = Array.isArray(value) ? value : [];
  return <>{now.map((v, i) => <div class="item" key={i}><Field schema={s.items} {...{root}} name={String(i + 1)} need value={v === null && shape(resolve(s.items, root), depth + 1) !== 'null' ? undefined : v} set={(x) => set(now.map((o, j) => (j === i ? x ?? null : o)))} depth={depth + 1} path={path + '-' + i} /><button type="button" class="small" aria-label={`Remove ${i + 1}`} onClick={() => set(now.length === 1 ? undefined : now.filter((_, j) => j !== i))}>remove</button></div>)}
    <button type="button" class="small" onClick={() => set([...now, null])}>add</button></>;
}

const nameOf = (c, root) => { const s = resolve(c, root); return s?.title || ('const' in (s || {}) ? write(s.const) : s?.type || (s?.properties ? 'object' : 'JSON')); };
function Choice({s, root, value, set, depth, path, need}) {
  const all = choices(s), [at, setAt] = useState(value === undefined ? -1 : Math.max(all.findIndex((c) => fits(resolve(c, root), value)), 0));
  return <><select aria-label="Kind of value" value={at} onChange={(e) => { const i = +e.target.value, c = i < 0 ? null : resolve(all[i], root); setAt(i); set(c && 'const' in c ? c.const : c?.type === 'null' ? null : undefined); }}><option value={-1}>{need ? 'choose' : '–'}</option>{all.map((c, i) => <option value={i}>{visible(String(nameOf(c, root)))}</option>)}</select>
    {at >= 0 && <Field key={at} schema={all[at]} {...{root, value, set, depth}} name="value" path={path + '-c'} />}</>;
}
const TYPES = {string: (v) => typeof v === 'string', number: isNumber, integer: isNumber, boolean: (v) => typeof v === 'boolean', null: (v) => v === null, array: Array.isArray, object: isObject};
const fits = (s, v) => !!s && ('const' in s ? write(s.const) === write(v) : s.enum ? s.enum.some((e) => write(e) === write(v)) : s.type ? [s.type].flat().some((t) => TYPES[t]?.(v)) : isObject(v));
