// What the page knows, and how it hears of it: one stream for what changes, and
// requests for what happened before.
import {signal, batch} from '@preact/signals';
import {parse} from './json.js';
import {selected} from './route.js';

export const order = signal([]); // names of servers
export const cards = new Map(); // name -> signal of the server as in status
export const events = signal([]); // newest first
export const rates = signal(new Map()); // name -> calls by the minute, oldest first
export const lanes = signal(new Map()); // name -> {spans, marks}
export const live = signal('connecting'); // connecting, live, lost or locked
export const lastByte = signal(Date.now());
export const retryAt = signal(0);
export const token = signal('none'); // none, ok or expired
export const hello = signal(null);
export const restarted = signal(null); // {at, was, is}: everline came back as another process
export const stale = signal(false); // the files of the page have changed
export const now = signal(Date.now()); // of everline's clock, each second
export const edge = signal(Date.now()); // now, as far as lanes are drawn
export const said = signal(''); // for a screen reader
export const capturing = signal({}); // server -> until when its arguments are recorded
export const frame = signal({span: 0, end: 0, grows: true}); // what lanes show; end 0 follows now, and it grows with everline's age until a person chooses

const listeners = {call: new Set(), log: new Set()};
let skew = 0;
let past = []; // what lanes showed of an everline that is gone: {run end, map}

export const EVENTS_KEPT = 500;

/* ---- requests ---- */

const key = 'everline.token';
let secret = read();
function read() {
  try { return JSON.parse(sessionStorage.getItem(key)) || {}; } catch { return {}; }
}
function keep(t) {
  secret = t;
  sessionStorage.setItem(key, JSON.stringify(t));
}

export class Failed extends Error {
  constructor(body, status) {
    super(body.message || 'it was refused');
    Object.assign(this, body, {status});
  }
}

const base = new URL('../api/v1/', location.href.split('#')[0]);

async function ask(path, options = {}) {
  const headers = {...options.headers};
  if (secret.token) headers.Authorization = 'Bearer ' + secret.token;
  if (options.body !== undefined) headers['Content-Type'] = 'application/json';
  const r = await fetch(new URL(path, base), {...options, headers, cache: 'no-store'});
  if (r.ok) return r;
  if (r.status === 401 && token.value === 'ok') token.value = 'expired';
  let body = {};
  try { body = (await r.json()).error; } catch { /* a proxy's page */ }
  throw new Failed(body, r.status);
}
export const get = async (path) => (await ask(path)).json();
export const text = async (path) => (await ask(path)).text();
// post sends a text as it is, so that no number of a person loses a digit.
export const post = async (path, body = '{}') => (await ask(path, {method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body)})).text();

// call makes a call. Forms that the server wants to be filled in meanwhile go to
// question, which returns the result of elicitation/create as a text.
export async function call(body, question, signal) {
  const r = await ask('call', {method: 'POST', body, signal});
  if (!/ndjson/.test(r.headers.get('Content-Type'))) return parse(await r.text());
  const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let buffer = ''; ;) {
    const {done, value} = await reader.read();
    if (done) throw new Failed({message: 'the answer ended early'}, 0);
    const lines = (buffer += value).split('\n');
    buffer = lines.pop();
    for (const line of lines.filter(Boolean)) {
      const l = parse(line);
      if (l.error) throw new Failed(l.error, 0);
      if (!l.question) return l.result;
      question(l.question).then((result) => post('answer', `{"id":${JSON.stringify(l.question.id)},"result":${result}}`)).catch(() => {}); // the call may be over: its end comes
    }
  }
}

export async function unlock(code) {
  keep(JSON.parse(await post('unlock', {code})));
  token.value = 'ok';
  connect();
}

async function renew() {
  const until = Date.parse(secret.expiresAt || 0);
  if (token.value !== 'ok' || until - Date.now() > 6 * 3600e3) return;
  try { keep(JSON.parse(await post('renew'))); } catch { /* the next time */ }
}

/* ---- the stream ---- */

let stop = null;
let tries = 0;
let topics = '';
let wanted = new Set();
let lastID = '';
let timer = 0;

export function want(topic, hear) {
  const kind = topic.split(':')[0] === 'logs' ? 'log' : 'call';
  listeners[kind].add(hear);
  wanted.add(topic);
  connect();
  return () => {
    listeners[kind].delete(hear);
    wanted.delete(topic);
    connect();
  };
}

// connect begins the stream anew where it should say something else than it does.
export function connect(force) {
  const now = ['servers', 'events', 'tick', ...wanted].join(',');
  if (!force && stop && now === topics) return;
  topics = now;
  clearTimeout(timer);
  stop?.abort();
  run(stop = new AbortController());
}

async function run(mine) {
  let alive = Date.now();
  const watch = setInterval(() => { if (Date.now() - alive > 35e3) mine.abort('quiet'); }, 5e3);
  let refused = 0;
  try {
    const r = await ask('stream?topics=' + encodeURIComponent(topics), {signal: mine.signal, headers: lastID ? {'Last-Event-ID': lastID} : {}});
    const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
    let buffer = '';
    for (;;) {
      const {done, value} = await reader.read();
      if (done) break;
      alive = lastByte.value = Date.now();
      tries = 0;
      buffer += value;
      const parts = buffer.split('\n\n');
      buffer = parts.pop();
      for (const part of parts) take(part);
    }
  } catch (e) {
    refused = e.status || 0;
  } finally {
    clearInterval(watch);
  }
  if (stop !== mine) return; // another one took over
  stop = null;
  if (mine.signal.reason === 'hidden') { if (!document.hidden) connect(true); return; }
  if (refused === 401) { live.value = 'locked'; return; }
  live.value = 'lost';
  const wait = Math.min(250 * 2 ** tries++, 10e3) * (0.75 + Math.random() / 2);
  retryAt.value = Date.now() + wait;
  timer = setTimeout(() => connect(true), wait);
}

// A tab that nobody sees does nothing after a minute: its stream ends, so that six of
// them do not use up the connections of the browser, and goes on where it was.
let hideTimer = 0;
document.addEventListener('visibilitychange', () => {
  clearTimeout(hideTimer);
  if (document.hidden) {
    hideTimer = setTimeout(() => { clearTimeout(timer); stop?.abort('hidden'); }, 60e3);
    return;
  }
  tick();
  if (!stop) connect(true);
  else loadLanes();
});

// Words wait for the next frame, so that many of them are one change of the page.
let queue = [];
function take(part) {
  let name = '', id = '', data = '';
  for (const line of part.split('\n')) {
    if (line.startsWith('event: ')) name = line.slice(7);
    if (line.startsWith('id: ')) id = line.slice(4);
    if (line.startsWith('data: ')) data = line.slice(6);
  }
  if (!name) return;
  queue.push([name, JSON.parse(data), id]);
  if (queue.length === 1) document.hidden ? setTimeout(drain, 1000) : requestAnimationFrame(drain);
}
function drain() {
  const words = queue;
  queue = [];
  batch(() => { for (const [name, data, id] of words) words_[name]?.(data, id); });
}

const words_ = {
  hello(h) {
    const old = hello.value;
    if (old && old.run !== h.run) {
      restarted.value = {at: h.startedAt, was: old.version, is: h.version};
      remember(lastSeen, Date.parse(h.startedAt));
      events.value = [];
    }
    if (old && old.assets !== h.assets) stale.value = true;
    hello.value = h;
    capturing.value = {};
    token.value = h.token;
    live.value = 'live';
    grow();
    renew();
    loadLanes();
    loadRates();
  },
  servers({set, order: names}) {
    for (const s of set) {
      const c = cards.get(s.name);
      if (c) {
        if (c.value.state !== s.state && (s.required || selected() === s.name)) say(s.name + ' is ' + s.state);
        c.value = s;
      } else cards.set(s.name, signal(s));
    }
    if (names) {
      for (const name of [...cards.keys()]) if (!names.includes(name)) cards.delete(name);
      order.value = names;
    }
  },
  tick({t, s}) {
    skew = Date.parse(t) - Date.now();
    for (const [name, n] of Object.entries(s)) {
      const c = cards.get(name);
      if (!c) continue;
      const [calls, answered, failed, unknown, saved, out, waiting, p50, p95, memory, minute] = n;
      if (saved !== c.value.saved || unknown !== c.value.outcomes.unknown || failed !== c.value.failed) touch(name);
      c.value = {...c.value, calls, answered, failed, saved, out, waiting, minute, memoryBytes: memory || null,
        outcomes: {...c.value.outcomes, unknown}, latencyMsP50: p50 / 1000 || null, latencyMsP95: p95 / 1000 || null};
    }
  },
  event(e, id) {
    lastID = id;
    events.value = [e, ...events.value].slice(0, EVENTS_KEPT);
    if (e.server) touch(e.server);
  },
  gap(g) { events.value = [{gap: g, seq: g.to, kind: 'gap', server: '', text: `${g.to - g.from + 1} events are not kept any more`}, ...events.value]; },
  capture(c) { capturing.value = c; },
  call(c) { for (const hear of listeners.call) hear(c); },
  log(l) { for (const hear of listeners.log) hear(l); },
  bye() { lastSeen = Date.now(); },
};

let lastSeen = Date.now();
let saidAt = 0;
function say(text) {
  if (Date.now() - saidAt < 5e3) return;
  saidAt = Date.now();
  said.value = text;
}

/* ---- lanes ---- */

const touched = new Set();
let laneTimer = 0;
function touch(name) {
  if (document.hidden) return; // all is asked for when somebody looks
  touched.add(name);
  laneTimer ||= setTimeout(() => {
    laneTimer = 0;
    const names = [...touched];
    touched.clear();
    names.length > 5 ? loadLanes() : names.forEach((n) => loadLanes(n));
  }, 500);
}

export const begin = () => end() - frame.value.span;
export const end = () => frame.value.end || edge.value;

export async function loadLanes(server) {
  if (!frame.value.span) return;
  const to = frame.value.end || Date.now() + skew, from = to - frame.value.span;
  const q = new URLSearchParams({from: new Date(from).toISOString(), to: new Date(to + 1).toISOString(), px: '1200'});
  if (server) q.set('server', server);
  let h;
  try { h = await get('history?' + q); } catch { return; } // the stream says what is wrong
  const next = new Map(lanes.value);
  for (const s of h.servers) {
    const spans = [...past.flatMap((p) => p.of.get(s.name) || []), ...s.spans.map((sp) => ({...sp, from: Date.parse(sp.from), to: sp.to && Date.parse(sp.to)}))];
    next.set(s.name, {spans, marks: s.marks.map((m) => ({...m, time: Date.parse(m.time)})), known: Date.parse(h.startedAt)});
  }
  batch(() => { lanes.value = next; edge.value = Date.now() + skew; });
}

// remember keeps what lanes show of an everline that is gone, and since when.
function remember(gone, back) {
  const of = new Map();
  for (const [name, lane] of lanes.value) {
    const spans = lane.spans.filter((s) => !s.kept).map((s) => ({...s, to: s.to || gone, kept: true}));
    of.set(name, [...spans, {state: 'gap', from: gone, to: back, kept: true, text: 'everline did not run'}]);
  }
  past = [...past, {of}].slice(-10);
}

// grow has all of a young everline in the lanes, and the last hour of an older one.
function grow() {
  if (!frame.value.grows || !hello.value) return;
  const age = now.value - Date.parse(hello.value.startedAt), span = [60e3, 300e3, 900e3].find((s) => age < s) ?? 3600e3;
  if (span === frame.value.span) return;
  frame.value = {span, end: 0, grows: true};
  loadLanes();
}

export function show(span, end) {
  edge.value = now.value;
  frame.value = {span: Math.min(Math.max(span, 60e3), 24 * 3600e3), end: end && end < now.value - 1000 ? end : 0};
  loadLanes();
}

// loadRates asks for the calls of all servers by the minute at once.
async function loadRates() {
  try { rates.value = new Map(Object.entries((await get('rates')).servers)); } catch { /* the stream says what is wrong */ }
}

function tick() {
  if (document.hidden) return;
  now.value = Date.now() + skew;
  grow();
  if (now.value - edge.value >= frame.value.span / 300) edge.value = now.value; // what is less than some pixels draws nothing anew
  if (live.value === 'live') lastSeen = lastByte.value;
}
setInterval(tick, 1000);
setInterval(() => { if (live.value === 'live' && !document.hidden) { loadLanes(); loadRates(); } }, 30e3);
