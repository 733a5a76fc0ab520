// The tools that clients see, and one of them with a form to call it.
import {h, Fragment} from 'preact';
import {useState, useEffect, useRef} from 'preact/hooks';
import {text, call, cards} from './store.js';
import {useLoad, Loaded, Locked, Act, mayAct, State, Type} from './parts.jsx';
import {parse, write, isObject, plain, Raw} from './json.js';
import {Field, Box, hasWrong} from './form.jsx';
import {initial, problems} from './schema.js';
import {visible, plural, bytes} from './format.js';
import {option, setOption, link} from './route.js';

const load = () => text('tools').then(parse);

function Badges({t}) {
  const a = isObject(t.definition.annotations) ? t.definition.annotations : {};
  return <>{t.readOnly && <span class="badge good">read-only</span>}{t.idempotent && !t.readOnly && <span class="badge">idempotent</span>}{a.destructiveHint === true && !t.readOnly && <span class="badge bad">destructive</span>}{t.hidden && <span class="badge">hidden</span>}</>;
}

export function ToolList({server = ''}) {
  const of = useLoad(load, []), filter = option('filter').toLowerCase();
  return <section aria-label="Tools">{!server && <h1>Tools</h1>}
    <div class="tools"><input id="filter" type="search" aria-label="Filter tools" placeholder="/ filter" value={option('filter')} onInput={(e) => setOption('filter', e.target.value)} /></div>
    <Loaded of={of}>{(tools) => {
      const some = tools.filter((t) => (!server || t.server === server) && (!filter || (t.name + ' ' + (t.definition.description || '')).toLowerCase().includes(filter)));
      const groups = Map.groupBy ? Map.groupBy(some, (t) => t.server) : some.reduce((m, t) => m.set(t.server, [...(m.get(t.server) || []), t]), new Map());
      return some.length === 0 ? <p>No tool is like that. <Type command="everline tools" /></p> : [...groups].map(([name, list]) => <section key={name}><h2>{!server && <a href={link('servers', name)}>{visible(name)}</a>} <span class="quiet">{plural(list.length, 'tool')}, about {list.reduce((n, t) => n + t.tokensEstimate, 0)} tokens</span> {cards.get(name) && <State state={cards.get(name).value.state} />}</h2>
        <ul class="list">{list.slice(0, 300).map((t) => <li key={t.name}><a href={link('tools', t.name)}>{visible(t.name)}</a> <Badges t={t} /> <span class="quiet cut">{visible(String(t.definition.description || '').slice(0, 200))}</span></li>)}</ul>{list.length > 300 && <p class="quiet">and {list.length - 300} more: filter</p>}</section>);
    }}</Loaded></section>;
}

export function Tool({name}) {
  const of = useLoad(load, []);
  return <Loaded of={of}>{(tools) => {
    const t = tools.find((t) => t.name === name);
    if (!t) return <><h1>No tool is called {visible(name)}</h1><p><a href={link("tools")}>All tools</a></p></>;
    const d = t.definition;
    return <article><h1 class="mono">{visible(t.name)} <Badges t={t} /></h1>
      <p class="line">of <a href={link('servers', t.server)}>{visible(t.server)}</a>, which calls it <code>{visible(t.tool)}</code>; about {t.tokensEstimate} tokens {cards.get(t.server) && <State state={cards.get(t.server).value.state} />}</p>
      {d.description && <p class="pre">{visible(d.description)}</p>}
      <h2>Call</h2><Caller t={t} key={t.name} />
      <details><summary>Schema of its arguments</summary><pre tabIndex={0}>{visible(write(d.inputSchema, 2) ?? 'none')}</pre></details>
      <details><summary>Definition, as the server sent it</summary><pre tabIndex={0}>{visible(write(d, 2))}</pre></details></article>;
  }}</Loaded>;
}

// Caller has one document in two forms: a form, and its text, which goes out as it
// was typed.
function Caller({t}) {
  const schema = isObject(t.definition.inputSchema) ? t.definition.inputSchema : {}, root = schema.type ? schema : {type: 'object', properties: {}, ...schema};
  const [value, put] = useState(() => initial(root, root) ?? {}), [asJSON, setJSON] = useState(false), [result, setResult] = useState(null), [questions, setQuestions] = useState([]);
  const [touched, touch] = useState(false), set = (v) => { touch(true); put(v); };
  const wrong = hasWrong(value), found = wrong || !touched ? [] : problems(root, root, value), running = useRef(null), [busy, setBusy] = useState(false);
  useEffect(() => () => running.current?.abort(), []);
  const ask = (q) => new Promise((resolve) => setQuestions((old) => [...old, {...q, resolve: (answer) => { setQuestions((left) => left.filter((o) => o.id !== q.id)); resolve(answer); }}]));
  const run = async () => {
    setResult(null);
    running.current = new AbortController();
    setBusy(true);
    const began = performance.now(), body = `{"server":${write(t.server)},"tool":${write(t.tool)},"forms":true,"arguments":${write(value ?? {})}}`;
    try {
      setResult(await call(body, ask, running.current.signal));
      return `answered after ${Math.round(performance.now() - began)} ms`;
    } finally { setBusy(false); setQuestions([]); }
  };
  const turn = (e) => { const on = e.target.checked; if (!on && value instanceof Raw) put(plain(value)); setJSON(on); };
  if (!mayAct()) return <Locked />;
  return <div class="caller">
    <label class="check"><input type="checkbox" checked={asJSON} disabled={wrong} onChange={turn} /> as JSON</label>
    {asJSON ? <label><span class="label">arguments</span><Box about={{id: 'arguments'}} rows={10} value={value ?? {}} set={(v) => set(v ?? {})} /></label> : <Field key="form" schema={root} root={root} value={value} set={(v) => set(v ?? {})} need path="a" />}
    {wrong && <p class="quiet">something above cannot be sent yet</p>}
    {found.length > 0 && <p class="warn" data-problems>The server may refuse this: {visible(found.slice(0, 5).join('; '))}</p>}
    {!wrong && <Act label={found.length ? 'call anyway' : 'call'} run={run} ask={t.readOnly ? null : {title: `Call ${t.name}?`, text: 'The server does not say that this tool only reads: it may change something.', yes: 'Call'}} />}
    {busy && <button type="button" onClick={() => running.current?.abort()}>give it up</button>}
    {questions.map((q) => <Question key={q.id} q={q} />)}
    {result && <Result value={result} />}
  </div>;
}

// Question is a form that the server wants to be filled in before it answers.
function Question({q}) {
  const schema = isObject(q.params.requestedSchema) ? q.params.requestedSchema : {type: 'object', properties: {}};
  const [value, set] = useState(() => initial(schema, schema) ?? {}), box = useRef(), wrong = hasWrong(value), found = wrong ? [] : problems(schema, schema, value);
  useEffect(() => box.current.focus(), []);
  const end = (action) => q.resolve(action === 'accept' ? `{"action":"accept","content":${write(value)}}` : `{"action":"${action}"}`);
  return <section class="question" aria-label="The server asks" tabIndex={-1} ref={box}><h3>The server asks before it answers</h3><p class="pre">{visible(String(q.params.message ?? ''))}</p>
    <Field schema={schema} root={schema} value={value} set={(v) => set(v ?? {})} need path={'q' + q.id} />
    {found.length > 0 && <p class="warn">The server may refuse this: {visible(found.slice(0, 5).join('; '))}</p>}
    <p class="quiet">What you write goes to the server of this tool. A secret belongs into no form.</p>
    <p class="buttons"><button type="button" disabled={wrong} onClick={() => end('accept')}>send</button><button type="button" onClick={() => end('decline')}>decline</button><button type="button" onClick={() => end('cancel')}>cancel</button></p></section>;
}

function Result({value}) {
  const content = Array.isArray(value.content) ? value.content : [], all = write(value, 2);
  return <section aria-label="Result" class={value.isError ? 'result bad-edge' : 'result'}><h3>{value.isError ? <span class="bad">✕ the tool says that it failed</span> : 'Result'} <span class="quiet">{bytes(all.length)}</span></h3>
    {content.map((c, i) => <Part key={i} c={c} />)}
    {value.structuredContent !== undefined && <details open={content.length === 0}><summary>structuredContent</summary><div class="tree"><Tree v={value.structuredContent} /></div></details>}
    <details><summary>all of it</summary><pre tabIndex={0}>{visible(all.slice(0, 200e3))}{all.length > 200e3 && '…'}</pre></details></section>;
}

// Tree is JSON whose parts can be opened and closed; long lists show their begin.
function Tree({v, name}) {
  const [most, more] = useState(100), head = name !== undefined && <span class="quiet">{visible(name)}: </span>;
  if (!Array.isArray(v) && !isObject(v)) return <div>{head}<span class="leaf">{visible(write(v))}</span></div>;
  const all = Object.entries(v);
  return <details open={all.length <= 20}><summary>{head}{Array.isArray(v) ? `[${all.length}]` : `{${all.length}}`}</summary>{all.slice(0, most).map(([k, x]) => <Tree key={k} name={k} v={x} />)}{all.length > most && <button type="button" class="small" onClick={() => more(most + 1000)}>{all.length - most} more</button>}</details>;
}

// Part shows text as text. What is no text can be saved, and is never opened.
function Part({c}) {
  const blob = c?.data ?? c?.resource?.blob, kind = c?.mimeType ?? c?.resource?.mimeType;
  if (c?.type === 'text' && typeof c.text === 'string') return <pre tabIndex={0}>{visible(c.text.slice(0, 200e3))}</pre>;
  if (typeof blob === 'string') return <p><button type="button" onClick={() => save(blob)}>save {visible(c.type)} {visible(kind || '')}</button></p>;
  return <pre tabIndex={0}>{visible(write(c, 2))}</pre>;
}
function save(base64) {
  let bytes;
  try { bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)); } catch { return; }
  const url = URL.createObjectURL(new Blob([bytes], {type: 'application/octet-stream'})), a = document.createElement('a');
  a.href = url;
  a.download = 'result.bin';
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
