// The shell of the page: what is always there, which view, and the keys.
import {h, render, Fragment} from 'preact';
import {useEffect, useState} from 'preact/hooks';
import {signal} from '@preact/signals';
import {order, cards, capturing, live, lastByte, retryAt, token, hello, restarted, stale, said, now, frame, show, end, connect, unlock} from './store.js';
import {Dialogs, Left, Type, operate, questions, confirmed, mayAct} from './parts.jsx';
import {clock, span, utc, visible, STATES} from './format.js';
import {route, go, link, selected} from './route.js';
import {fit, Patterns} from './lane.jsx';
import {Overview, shown} from './overview.jsx';
import {Server} from './server.jsx';
import {Calls, Call} from './calls.jsx';
import {ToolList, Tool} from './tools.jsx';
import {Pins, Events, Config, Connect, About} from './others.jsx';

const keys = signal(localStorage.getItem('everline.keys') !== '0');
const setKeys = (on) => { keys.value = on; localStorage.setItem('everline.keys', on ? '1' : '0'); };

const VIEWS = [['', 'servers'], ['calls', 'calls'], ['tools', 'tools'], ['pins', 'pins'], ['events', 'events'], ['config', 'config'], ['connect', 'connect'], ['about', 'about']];

function View() {
  const [first, second, third] = route.value.parts;
  switch (first) {
    case undefined: return <Overview />;
    case 'servers': return second ? <Server name={second} tab={third} key={second} /> : <Overview />;
    case 'calls': return second ? <Call id={second} /> : <Calls />;
    case 'tools': return second ? <Tool name={second} key={second} /> : <ToolList />;
    case 'pins': return <Pins />;
    case 'events': return <Events />;
    case 'config': return <Config />;
    case 'connect': return <Connect />;
    case 'about': return <About keys={keys.value} setKeys={setKeys} utc={utc} />;
    default: return <><h1>There is no such view</h1><p><a href={link()}>Servers</a></p></>;
  }
}

function Top() {
  const count = {};
  let saved = 0, unknown = 0;
  for (const name of order.value) {
    const s = cards.get(name).value;
    count[s.state] = (count[s.state] || 0) + 1;
    saved += s.saved;
    unknown += s.outcomes.unknown;
  }
  const here = route.value.parts[0] === 'servers' ? '' : route.value.parts[0] || '';
  return <header><a class="brand" href={link()}>everline</a>
    <Live />
    <ul class="counts" aria-label="Servers by state">{Object.entries(STATES).filter(([s]) => count[s]).map(([s, [sign, tone]]) => <li class={tone}><a href={`#/?state=${s}`}><span aria-hidden="true">{sign}</span> {count[s]} {s}</a></li>)}</ul>
    {hello.value && <span class="total" title={'since everline started'}><a href="#/calls?outcome=saved" class="m-saved">▲ {saved} saved</a> <a href="#/calls?outcome=unknown" class={unknown ? 'bad' : 'quiet'}>✕ {unknown} unknown</a></span>}
    <nav aria-label="Views">{VIEWS.map(([path, word]) => <a href={path ? link(path) : '#/'} aria-current={path === here ? 'page' : undefined}>{word}</a>)}</nav>
  </header>;
}

function Live() {
  const l = live.value;
  return <span class={'live ' + l} data-live={l}><span aria-hidden="true">{l === 'live' ? '●' : '○'}</span> {l}{l === 'live' && hello.value && <span class="quiet" title="when this page last heard of everline"> {clock(lastByte.value)}</span>}</span>;
}

function Banner() {
  const l = live.value;
  if (l === 'lost') return <div class="banner bad" role="alert" data-banner="lost">No answer since {clock(lastByte.value)} ({span(Math.max(0, now.value - lastByte.value))}): what you see is as old. Trying again {retryAt.value > Date.now() ? `in ${Math.ceil((retryAt.value - Date.now()) / 1000)} s` : 'now'}. <button type="button" onClick={() => connect(true)}>try now</button></div>;
  if (l === 'locked') return <div class="banner" role="alert" data-banner="locked">This page is for who has opened it with a code. Type <Type command="everline ui" /></div>;
  if (restarted.value) return <div class="banner warn" role="status" data-banner="restarted">everline was restarted, and serves since {clock(Date.parse(restarted.value.at))}{restarted.value.was !== restarted.value.is && ` (it was ${restarted.value.was}, and is ${restarted.value.is})`}. {stale.value && <button type="button" onClick={() => location.reload()}>load the new page</button>} <button type="button" onClick={() => { restarted.value = null; }}>close</button></div>;
  return null;
}

// Recording is told on every page: somebody reads what clients ask for.
function Recording() {
  const all = Object.entries(capturing.value);
  if (!all.length) return null;
  return <div class="banner warn" role="status" data-banner="recording">The arguments of {all.map(([name, until], i) => <span key={name}>{i > 0 && ', '}<a href={link('servers', name, 'calls')}>{visible(name)}</a> (<Left time={until} />)</span>)} are being recorded.</div>;
}

function App() {
  useEffect(() => { document.body.classList.toggle('lost', live.value === 'lost'); });
  const bad = order.value.filter((n) => STATES[cards.get(n).value.state]?.[1] === 'bad').length;
  useEffect(() => { document.title = (live.value === 'lost' ? '✕ ' : bad ? `(${bad}) ` : '') + 'everline'; });
  useEffect(() => { if (route.value.parts.length) document.querySelector('main')?.focus({preventScroll: true}); scrollTo(0, 0); }, [route.value.parts.join('/')]);
  return <><a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.querySelector('main').focus(); }}>To the content</a><Top /><Banner /><Recording /><main id="main" tabIndex={-1}><View /></main><Dialogs /><Patterns /><div class="sr" aria-live="polite">{said.value}</div></>;
}

/* ---- keys ---- */

let waiting = '';
function step(by) {
  const rows = [...document.querySelectorAll('.row[data-server]')], at = rows.findIndex((r) => r.contains(document.activeElement));
  const next = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
  next?.querySelector('a').focus();
  next?.scrollIntoView({block: 'nearest'});
}
const press = {
  '/': () => document.getElementById('filter')?.focus(), j: () => step(1), k: () => step(-1), '?': () => go('about'),
  l: () => selected() && go('servers', selected(), 'logs'), c: () => selected() && go('servers', selected(), 'calls'), t: () => selected() && go('servers', selected(), 'tools'),
  r: () => selected() && mayAct() && operate(selected(), 'reconnect').catch(() => {}),
  e: () => change('enable'), d: () => change('disable'),
  '+': () => show(frame.value.span / 2, frame.value.end), '-': () => show(frame.value.span * 2, frame.value.end), 0: fit,
  '[': () => show(frame.value.span, end() - frame.value.span / 2), ']': () => show(frame.value.span, end() + frame.value.span / 2), g: () => { waiting = 'g'; },
};
const jump = {o: [], s: [], c: ['calls'], t: ['tools'], p: ['pins'], e: ['events']};
async function change(op) {
  const name = selected();
  if (name && mayAct() && await confirmed(questions[op](name))) operate(name, op).catch(() => {}); // the state says it
}
addEventListener('keydown', (e) => {
  if (e.key === 'Escape' && e.target.matches('input[type=search]')) { e.target.blur(); return; }
  if (!keys.value || e.ctrlKey || e.metaKey || e.altKey || e.target.matches('input, select, textarea') || document.querySelector('dialog[open]')) return;
  const was = waiting;
  waiting = '';
  if (was === 'g' && jump[e.key]) { e.preventDefault(); go(...jump[e.key]); return; }
  if (press[e.key]) { e.preventDefault(); press[e.key](); }
});

/* ---- begin ---- */

const code = /^#code=(.+)$/.exec(location.hash)?.[1];
if (code) {
  history.replaceState(null, '', location.pathname + '#/');
  route.value = {parts: [], query: new URLSearchParams()};
  unlock(code).catch(() => connect());
} else connect();
render(<App />, document.getElementById('app'));
