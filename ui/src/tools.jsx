// The tools that clients see, and one of them with a form to call it.
import {h, Fragment} from 'preact';
import {useState, useEffect} from 'preact/hooks';
import {text, post, cards} from './store.js';
import {useLoad, Loaded, Locked, Act, mayAct, State, Type} from './parts.jsx';
import {parse, write, isObject} from './json.js';
import {Field, Box, WRONG, hasWrong} from './form.jsx';
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

function Caller({t}) {
  const schema = isObject(t.definition.inputSchema) ? t.definition.inputSchema : {};
  const [value, set] = useState(initial(schema)), [asJSON, setJSON] = useState(false), [result, setResult] = useState(null);
  const wrong = hasWrong(value);
  const run = async () => {
    setResult(null);
    const began = performance.now(), body = `{"server":${write(t.server)},"tool":${write(t.tool)},"arguments":${write(value ?? {})}}`;
    const answer = await post('call', body);
    setResult({value: parse(answer), size: answer.length});
    return `answered after ${Math.round(performance.now() - began)} ms`;
  };
  return <div class="caller">
    {mayAct() && <label class="check"><input type="checkbox" checked={asJSON} onChange={(e) => setJSON(e.target.checked)} /> as JSON</label>}
    {mayAct() ? asJSON ? <label><span class="label">arguments</span><Box about={{id: 'arguments'}} rows={10} value={value ?? {}} set={(v) => set(v ?? {})} /></label> : <Field key="form" schema={schema.type ? schema : {type: 'object', ...schema}} root={schema} value={value === WRONG ? {} : value} set={(v) => set(v ?? {})} path="a" /> : <Locked />}
    {wrong ? mayAct() && <p class="quiet">something above cannot be sent yet</p> : <Act label="call" run={run} ask={t.readOnly ? null : {title: `Call ${t.name}?`, text: 'The server does not say that this tool only reads: it may change something.', yes: 'Call'}} />}
    {result && <Result of={result} />}
  </div>;
}
// initial has the defaults of the required members, so that nothing is sent that
// nobody has seen.
const initial = (s) => Object.fromEntries(Object.entries(isObject(s.properties) ? s.properties : {}).filter(([k, p]) => (Array.isArray(s.required) ? s.required : []).includes(k) && isObject(p) && 'default' in p).map(([k, p]) => [k, p.default]));

function Result({of: {value, size}}) {
  const content = Array.isArray(value.content) ? value.content : [];
  return <section aria-label="Result" class={value.isError ? 'result bad-edge' : 'result'}><h3>{value.isError ? <span class="bad">✕ the tool says that it failed</span> : 'Result'} <span class="quiet">{bytes(size)}</span></h3>
    {content.map((c, i) => <Part key={i} c={c} />)}
    {value.structuredContent !== undefined && <details open={content.length === 0}><summary>structuredContent</summary><pre tabIndex={0}>{visible(write(value.structuredContent, 2))}</pre></details>}
    <details><summary>all of it</summary><pre tabIndex={0}>{visible(write(value, 2).slice(0, 200e3))}</pre></details></section>;
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
