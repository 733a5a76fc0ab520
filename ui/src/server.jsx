// One server: what it is, its generations, calls, tools, log and settings.
import {h, Fragment} from 'preact';
import {useEffect, useState, useRef} from 'preact/hooks';
import {cards, lanes, events, get, post, want, begin, end, frame, hello, capturing} from './store.js';
import {State, Ago, At, Act, Locked, Type, Remedy, operate, questions, copy, mayAct, useLoad, Loaded} from './parts.jsx';
import {Lane, Axis, Windows, words, markWords} from './lane.jsx';
import {Trouble, EventLine, shell} from './overview.jsx';
import {Calls} from './calls.jsx';
import {ToolList} from './tools.jsx';
import {trouble, millis, bytes, span, visible, when, date, clock} from './format.js';
import {link, go} from './route.js';

export const TABS = ['timeline', 'calls', 'tools', 'logs', 'config'];

export function Server({name, tab = 'timeline'}) {
  const card = cards.get(name);
  if (!card) return hello.value ? <><h1>No server is called {visible(name)}</h1><p><a href={link()}>All servers</a></p></> : <p class="quiet">loading …</p>;
  const s = card.value;
  return <article data-server={s.name} data-state={s.state} data-generation={s.generation}>
    <h1>{visible(name)} <State state={s.state} /></h1>
    <p class="line">{[
      s.generation > 0 && `generation ${s.generation}`, s.since && <>since <At time={s.since} /> (<Ago time={s.since} word="" />)</>, s.pid && `pid ${s.pid}`,
      s.memoryBytes && bytes(s.memoryBytes), s.transport, s.protocolVersion, s.required && 'required', s.url && visible(s.url), <span class="quiet">{visible(s.origin)}</span>,
    ].filter(Boolean).map((p, i) => <span key={i}>{i > 0 && ' · '}{p}</span>)}</p>
    {trouble(s) && <Trouble s={s} />}
    {[...s.warnings, ...s.configWarnings].map((w) => <p class="warning">{visible(w)}</p>)}
    <p class="buttons">{s.state === 'disabled' || s.state === 'disabling' ? <Act label="enable" run={() => operate(name, 'enable')} /> : <>
      {!trouble(s) && <Act label="restart" run={() => operate(name, 'restart')} ask={questions.restart(name)} />}
      <Act label="disable" danger run={() => operate(name, 'disable')} ask={questions.disable(name)} /></>}</p>
    <Locked />
    <nav class="tabs" aria-label={name}>{TABS.map((t) => <a href={link('servers', name, t)} aria-current={t === tab ? 'page' : undefined}>{t}</a>)}</nav>
    {tab === 'calls' ? <><Arguments name={name} /><Calls server={name} /></> : tab === 'tools' ? <ToolList server={name} /> : tab === 'logs' ? <Logs name={name} key={name} /> : tab === 'config' ? <Settings s={s} /> : <Timeline s={s} />}
  </article>;
}

// Arguments are recorded for ten minutes where a person asks for it.
function Arguments({name}) {
  const until = capturing.value[name], act = (op) => post(`servers/${encodeURIComponent(name)}/${op}`);
  const newest = cards.get(name)?.value.calls;
  const of = useLoad(() => (until && mayAct() ? get(`servers/${encodeURIComponent(name)}/captured`) : Promise.resolve([])), [name, until, newest]);
  if (!until) return <p><Act label="record arguments for 10 min" run={() => act('capture').then(() => '')} ask={{title: `Record what ${name} is asked?`, text: 'For ten minutes the arguments of its calls are kept in memory, the newest 100, and every page says so. Values whose names say that they are secret are left out. Then all of it is gone.', yes: 'Record'}} /></p>;
  return <section aria-label="Recorded arguments"><h2>Arguments, recorded until <At time={until} /> <Act label="stop, and forget them" run={() => act('capture-end').then(() => '')} /></h2>
    <Loaded of={of}>{(all) => all.length === 0 ? <p class="quiet">no call since</p> : all.map((c) => <details key={c.time + c.name} data-captured={c.name}><summary><At time={c.time} /> {visible(c.name)} <span class="quiet">{visible(c.client)} {c.outcome}</span></summary><pre tabIndex={0}>{visible(c.arguments)}{c.cut && ' … (it was longer)'}</pre></details>)}</Loaded></section>;
}

// Phases are the parts of how a generation came up.
function Phases({of}) {
  const most = Math.max(...of.map((p) => p.ms), 1);
  return <ul class="phases">{of.map((p) => <li key={p.phase}><span>{visible(p.phase)}</span> <meter aria-label={p.phase} min="0" max={most} value={p.ms} /> <span>{millis(p.ms)}</span></li>)}</ul>;
}

// cameUp are the phases of a generation, by what its event says; [] where that is not
// kept.
const cameUp = (name, gen) => Object.entries(events.value.find((e) => e.kind === 'connected' && e.server === name && e.generation === gen)?.data?.phases ?? {}).map(([phase, ms]) => ({phase, ms}));

function Timeline({s}) {
  const lane = lanes.value.get(s.name);
  return <section aria-label="Timeline">
    <div class="tools"><Windows /></div>
    <Axis /><Lane name={s.name} height={34} />
    <Rates name={s.name} />
    {s.handshake.length > 0 && <><h2>How generation {s.generation} came up</h2><Phases of={s.handshake} /></>}
    <h2>Generations and outages</h2>
    <div class="scroll" tabIndex={0} role="region" aria-label="Generations and outages"><table><thead><tr><th>from</th><th>to</th><th>what</th></tr></thead><tbody>
      {(lane?.spans || []).slice(-100).reverse().map((p) => <tr key={p.from}><td>{when(p.from)}</td><td>{p.to ? when(p.to) : 'now'}</td><td>{visible(words(p))}{p.state === 'connected' && cameUp(s.name, p.generation).length > 0 && <details><summary>how it came up</summary><Phases of={cameUp(s.name, p.generation)} /></details>}</td></tr>)}
      {(lane?.marks || []).slice(-50).reverse().filter(markWords).map((m) => <tr key={'m' + m.time}><td>{when(m.time)}</td><td>{when(m.time + 60e3)}</td><td>{markWords(m)}</td></tr>)}
    </tbody></table></div>
    <h2>Events</h2><ul class="news">{events.value.filter((e) => e.server === s.name).slice(0, 50).map((e) => <EventLine key={e.seq} e={e} />)}</ul>
  </section>;
}

// Rates are calls and failures by step, under the lane.
function Rates({name}) {
  const f = frame.value, calls = cards.get(name)?.value.calls;
  const of = useLoad(() => get('series?' + new URLSearchParams({server: name, from: new Date(begin()).toISOString(), to: new Date(end()).toISOString()})), [name, f, Math.floor(Date.now() / 10e3), calls > 0]);
  if (!of.data) return null;
  const {calls: all, failed, p95us, stepSeconds} = of.data, most = Math.max(...all, 1), n = all.length;
  const sum = all.reduce((a, b) => a + b, 0), bad = failed.reduce((a, b) => a + b, 0);
  const path = all.map((v, i) => `M${(i / n) * 1000} 40V${40 - (v / most) * 38}`).join('');
  const red = failed.map((v, i) => (v ? `M${(i / n) * 1000} 40V${40 - (v / most) * 38}` : '')).join('');
  return <figure class="rates"><svg viewBox="0 0 1000 40" preserveAspectRatio="none" role="img" aria-label={`${sum} calls, ${bad} failed`}><path d={path} class="calls" /><path d={red} class="failed" /></svg>
    <figcaption class="quiet">{sum} calls in this window, {bad} failed; at most {most} in {span(stepSeconds * 1000)}; slowest p95 {millis(Math.max(...p95us, 0) / 1000)}</figcaption></figure>;
}

const KEPT = 1000;
function Logs({name}) {
  const [lines, set] = useState([]), [filter, setFilter] = useState(''), [unseen, setUnseen] = useState(0);
  const box = useRef(), follow = useRef(true);
  useEffect(() => want('logs:' + name, (l) => {
    if (l.server !== name) return;
    set((old) => (old.some((o) => o.n === l.n) ? old : [...old, l].slice(-KEPT)));
    if (!follow.current) setUnseen((n) => n + 1);
  }), [name]);
  useEffect(() => { if (follow.current) box.current.scrollTop = box.current.scrollHeight; }, [lines]);
  const scrolled = () => { follow.current = box.current.scrollHeight - box.current.scrollTop - box.current.clientHeight < 30; if (follow.current) setUnseen(0); };
  const want_ = lines.filter((l) => !filter || l.text.toLowerCase().includes(filter.toLowerCase()));
  let gen = 0;
  return <section aria-label="Log">
    <div class="tools"><input type="search" aria-label="Search in the log" placeholder="search" value={filter} onInput={(e) => setFilter(e.target.value)} />
      {unseen > 0 && <button type="button" onClick={() => { follow.current = true; setUnseen(0); box.current.scrollTop = box.current.scrollHeight; }}>{unseen} new ↓</button>}
      <button type="button" disabled={!lines.length} onClick={() => copy(want_.map((l) => `${l.time} g${l.generation} ${l.text}`).join('\n'))}>copy</button>
      <span class="quiet">what its processes wrote to stderr; the newest {KEPT} lines</span></div>
    <div class="log" ref={box} tabIndex={0} role="log" aria-label={'Log of ' + name} onScroll={scrolled}>
      {want_.length === 0 && <p class="quiet">{lines.length ? 'no line has this' : 'nothing so far'}</p>}
      {want_.map((l) => { const first = l.generation !== gen; gen = l.generation; return <div key={l.n}>{first && <div class="rule">generation {gen}</div>}<span class="quiet">{clock(Date.parse(l.time), true)}</span> {visible(l.text)}</div>; })}
    </div></section>;
}

function Settings({s}) {
  const a = s.auth;
  const rows = [['configured at', s.origin], ['transport', s.transport], ['URL', s.url], ['era', s.era], ['protocol', s.protocolVersion], ['required', s.required ? 'yes' : 'no'],
    ['offers', `${s.tools} tools, ${s.prompts} prompts, ${s.resources} resources, ${s.templates} templates`], ['tokens of its tools', s.toolTokensEstimate], ['catalog of', s.catalogAt && date(Date.parse(s.catalogAt))],
    ['starts', s.starts], ['away in all', span(s.outageMs)], ['calls', s.calls], ['sent again', s.repeated], ['waited for it', s.parked],
    ['login', a && `${a.kind}: ${a.state}${a.expiresAt ? ', until ' + date(Date.parse(a.expiresAt)) : ''}`]];
  return <section aria-label="Settings"><table class="pairs"><tbody>{rows.filter(([, v]) => v !== null && v !== undefined && v !== false).map(([k, v]) => <tr><th scope="row">{k}</th><td>{visible(String(v))}</td></tr>)}</tbody></table>
    {a?.remedy && <p><Remedy text={a.remedy} /></p>}
    {s.sessions.length > 0 && <><h2>Connections of single clients</h2><table><thead><tr><th>client</th><th>state</th><th>generation</th><th>in flight</th></tr></thead><tbody>{s.sessions.map((o) => <tr><td>{o.client}</td><td><State state={o.state} /></td><td>{o.generation}</td><td>{o.out}</td></tr>)}</tbody></table></>}
    <p class="quiet">Its settings are edited in the file. What is applied: <a href={link('config')}>configuration</a>, or <Type command="everline config" /></p></section>;
}
