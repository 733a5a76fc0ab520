// A form for a JSON Schema. What it does not understand becomes a box for JSON:
// nothing is left out, and nothing becomes a text that is none.
import {h, Fragment} from 'preact';
import {useState, useRef} from 'preact/hooks';
import {parse, write, number, isObject, member, Raw} from './json.js';
import {resolve, shape, choices, conditions, fits, initial, isOf} from './schema.js';
import {visible} from './format.js';

// WRONG stands for what cannot be sent yet: it was not chosen, or is not what it must be.
export const WRONG = Symbol('wrong');
export const hasWrong = (v) => v === WRONG || (Array.isArray(v) ? v.some(hasWrong) : isObject(v) && Object.values(v).some(hasWrong));

// showable tells whether the field of a kind can show a value as it is.
function showable(kind, s, value) {
  if (value === undefined || value === WRONG || kind === 'json' || kind === 'choice') return true;
  if (value instanceof Raw) return false;
  if (kind === 'const' || kind === 'enum') return options(kind, s).some((o) => write(o) === write(value));
  return isOf(kind === 'integer' ? 'number' : kind, value) && !(kind === 'string' && /[\r\0]/.test(value)); // a text field turns line ends
}
const options = (kind, s) => ({const: [s.const], enum: s.enum, boolean: [true, false], null: [null]})[kind];

export function Field({schema, root, value: given, set, name, need, depth = 0, path}) {
  const s = resolve(schema, root), best = shape(s, root, depth), kind = showable(best, s, given) ? best : 'json', id = 'f-' + path;
  const value = given === WRONG ? undefined : given;
  const title = name !== undefined && <span class="label">{visible(name)}{need && <abbr title="required"> *</abbr>} {s?.title && s.title !== name && <span class="quiet">{visible(s.title)} </span>}<span class="quiet">{kind === 'json' ? 'JSON' : kind === 'choice' ? '' : kind}</span></span>;
  const note = s?.description && <span class="note" id={id + '-n'}>{visible(s.description)}</span>;
  const about = {id, 'aria-describedby': s?.description ? id + '-n' : undefined, 'aria-required': need || undefined}, data = {'data-field': path, 'data-kind': kind, 'data-name': name};
  const group = (inside) => <fieldset {...data}>{title && <legend>{title}</legend>}{note}{inside}</fieldset>;
  switch (kind) {
    case 'object': return group(<Members {...{s, root, value, set, depth, path, need}} />);
    case 'array': return group(<Items {...{s, root, value, set, depth, path, need}} />);
    case 'choice': return group(<Choice {...{s, root, value, set, depth, path, need}} />);
    case 'const': case 'enum': case 'boolean': case 'null': return <label {...data}>{title}<Pick {...{about, options: options(kind, s), value, set, need}} />{note}</label>;
    case 'string': return <label {...data}>{title}<Words {...{about, s, value, set}} />{note}</label>;
    case 'number': case 'integer': return <label {...data}>{title}<Digits {...{about, kind, value, set}} />{note}</label>;
    default: return <label {...data}>{title}<Box {...{about, value, set}} />{note}{s === null && isObject(schema) && <span class="note">its schema: {visible(write(schema).slice(0, 500))}</span>}</label>;
  }
}

function Pick({about, options, value, set, need}) {
  const at = options.findIndex((o) => write(o) === write(value));
  return <select {...about} value={at} onChange={(e) => set(+e.target.value < 0 ? undefined : options[+e.target.value])}><option value={-1}>{need ? 'choose' : '–'}</option>{options.map((o, i) => <option value={i}>{visible(typeof o === 'string' ? o : write(o))}</option>)}</select>;
}

const DATE = /^\d{4}-\d\d-\d\d$/, LIKE = {'date-time': '2026-01-31T12:00:00Z', time: '12:00:00Z', uri: 'https://', email: 'name@example.com'};
function Words({about, s, value, set}) {
  const change = (e) => set(e.target.value === '' && !about['aria-required'] ? undefined : e.target.value);
  if (s.format === 'date' && (value === undefined || DATE.test(value))) return <input {...about} type="date" value={value ?? ''} onInput={change} />;
  return <textarea {...about} rows={1} value={value ?? ''} placeholder={LIKE[s.format] ?? s.format ?? ''} onInput={change} />;
}

// Digits holds what is typed, and says nothing as long as that is no number.
function Digits({about, kind, value, set}) {
  const [typed, setTyped] = useState(value === undefined ? '' : write(value)), [bad, setBad] = useState(false);
  const change = (e) => {
    const t = e.target.value.trim(), n = number(t);
    setTyped(e.target.value);
    const wrong = t !== '' && (n === undefined || (kind === 'integer' && !isOf('integer', n)));
    setBad(wrong);
    set(t === '' ? undefined : wrong ? WRONG : n);
  };
  return <><input {...about} inputMode="decimal" value={typed} aria-invalid={bad} onInput={change} />{bad && <span role="alert" class="bad">not {kind === 'integer' ? 'an integer' : 'a number'}</span>}</>;
}

// Box takes JSON, which goes out as it was typed.
export function Box({about, value, set, rows = 3}) {
  const [typed, setTyped] = useState(value === undefined || value === WRONG ? '' : write(value, 2)), [bad, setBad] = useState('');
  const change = (e) => {
    const t = e.target.value;
    setTyped(t);
    if (t.trim() === '') { setBad(''); set(undefined); return; }
    try { parse(t); setBad(''); set(new Raw(t)); } catch (err) { setBad(err.message); set(WRONG); }
  };
  return <><textarea {...about} rows={rows} class="mono" spellcheck={false} value={typed} aria-invalid={!!bad} placeholder="JSON" onInput={change} />{bad && <span role="alert" class="bad">not JSON: {visible(bad)}</span>}</>;
}

function Members({s, root, value, set, depth, path, need}) {
  const now = isObject(value) ? value : {}, props = s.properties || {}, required = Array.isArray(s.required) ? s.required : [], further = conditions(s);
  const put = (k, v) => { const next = member(now, k, v); set(depth > 0 && !need && !Object.keys(next).length ? undefined : next); };
  const has = (o, k) => Object.hasOwn(o, k);
  const names = [...Object.keys(props), ...required.filter((n) => !has(props, n)), ...Object.keys(now).filter((k) => !has(props, k) && !required.includes(k))];
  return <>{names.length === 0 && <p class="quiet">no arguments</p>}{names.map((k, i) => <Field key={k} schema={has(props, k) ? props[k] : {}} {...{root}} name={k} need={required.includes(k)} value={has(now, k) ? now[k] : undefined} set={(v) => put(k, v)} depth={depth + 1} path={path + '-' + i} />)}
    {further && <p class="note">and besides: <code>{visible(write(further).slice(0, 1000))}</code></p>}</>;
}

// Items are told apart by a number of their own: what is typed into one is not that
// of its neighbor when one before it is removed.
function Items({s, root, value, set, depth, path, need}) {
  const now = Array.isArray(value) ? value : [], ids = useRef([]), next = useRef(0);
  while (ids.current.length < now.length) ids.current.push(next.current++);
  ids.current.length = now.length;
  const remove = (i) => { ids.current.splice(i, 1); const rest = now.filter((_, j) => j !== i); set(rest.length || need ? rest : undefined); };
  const kind = shape(resolve(s.items, root), root, depth + 1);
  const blank = () => (kind === 'object' ? initial(s.items, root, depth + 1) ?? {} : kind === 'array' ? [] : WRONG);
  return <>{now.map((v, i) => <div class="item" key={ids.current[i]}><Field schema={s.items} {...{root}} name={String(i + 1)} need value={v} set={(x) => set(now.map((o, j) => (j === i ? x ?? WRONG : o)))} depth={depth + 1} path={path + '-' + i} /><button type="button" class="small" aria-label={`Remove ${i + 1}`} onClick={() => remove(i)}>remove</button></div>)}
    <button type="button" class="small" data-add onClick={() => set([...now, blank()])}>add</button> {value === undefined && <button type="button" class="small" data-none onClick={() => set([])}>empty list</button>}</>;
}

const nameOf = (c, root) => { const s = resolve(c, root); return s?.title || ('const' in (s || {}) ? write(s.const) : s?.type || (s?.properties ? 'object' : 'JSON')); };
function Choice({s, root, value, set, depth, path, need}) {
  const all = choices(s, root), guess = () => { const i = all.findIndex((c) => fits(c, root, value)); return i >= 0 ? i : all.length; };
  const [at, setAt] = useState(value === undefined ? -1 : guess);
  const choose = (i) => {
    const c = i >= 0 && i < all.length ? resolve(all[i], root) : null;
    setAt(i);
    set(c && 'const' in c ? c.const : c?.type === 'null' ? null : shape(c, root, depth) === 'object' && i >= 0 ? initial(all[i], root, depth) : undefined);
  };
  return <><select aria-label="Kind of value" data-choice value={at} onChange={(e) => choose(+e.target.value)}><option value={-1}>{need ? 'choose' : '–'}</option>{all.map((c, i) => <option value={i}>{visible(String(nameOf(c, root)))}</option>)}<option value={all.length}>another: JSON</option></select>
    {at >= 0 && <Field key={at} schema={all[at] ?? {}} {...{root, value, set, depth}} name="value" need path={path + '-c'} />}</>;
}
