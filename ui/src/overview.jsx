// The page that stays open: every server, what is wrong first.
import {h, Fragment} from 'preact';
import {useEffect, useRef, useState} from 'preact/hooks';
import {order, cards, events, lanes, rates, hello, now, live} from './store.js';
import {State, Ago, At, Left, Type, Remedy, Act, Locked, operate} from './parts.jsx';
import {Lane, Axis, Windows, summary} from './lane.jsx';
import {trouble, STATES, millis, plural, span, visible, isAway} from './format.js';
import {option, setOption, link, go} from './route.js';

const rank = (s) => (trouble(s) ? (s.required ? 0 : 1) : s.state === 'connecting' ? 2 : s.configWarnings.length + s.warnings.length ? 3 : s.state === 'disabled' ? 5 : 4);

// shown are the names that the filter leaves, in order.
export function shown() {
  const want = option('filter').toLowerCase(), state = option('state'), sort = option('sort');
  const all = order.value.filter((name) => {
    const s = cards.get(name).value;
    return (!want || name.toLowerCase().includes(want)) && (!state || s.state === state || (state === 'away' && isAway(s.state)));
  });
  const at = new Map(order.value.map((n, i) => [n, i]));
  const by = {
    name: (a, b) => a.localeCompare(b), file: (a, b) => at.get(a) - at.get(b),
    calls: (a, b) => cards.get(b).value.calls - cards.get(a).value.calls,
  }[sort] || ((a, b) => rank(cards.get(a).value) - rank(cards.get(b).value) || at.get(a) - at.get(b));
  return all.sort(by);
}

const CHUNK = 20;

export function Overview() {
  const names = shown(), table = option('as') === 'table';
  if (order.value.length === 0) return hello.value ? <Empty /> : <p class="quiet">loading …</p>;
  const chunks = [];
  for (let i = 0; i < names.length; i += CHUNK) chunks.push(names.slice(i, i + CHUNK));
  return <>
    <h1 class="sr">Servers</h1>
    <div class="tools">
      <input id="filter" type="search" placeholder="/ filter" aria-label="Filter servers by name" value={option('filter')} onInput={(e) => setOption('filter', e.target.value)} />
      <select aria-label="State" value={option('state')} onChange={(e) => setOption('state', e.target.value)}><option value="">every state</option><option value="away">away</option>{Object.keys(STATES).slice(0, 10).map((s) => <option value={s}>{s}</option>)}</select>
      <select aria-label="Sort" value={option('sort')} onChange={(e) => setOption('sort', e.target.value)}><option value="">trouble first</option><option value="name">by name</option><option value="calls">by calls</option><option value="file">as configured</option></select>
      <Windows />
      <label class="check"><input type="checkbox" checked={table} onChange={(e) => setOption('as', e.target.checked ? 'table' : '')} /> table</label>
    </div>
    <Locked />
    <div role="table" aria-label="Servers" aria-rowcount={names.length + 1} class="rows">
      <div role="rowgroup"><div role="row" class="row head"><span role="columnheader">server</span><span role="columnheader">state</span><span role="columnheader" class="wide">{table ? 'in this window' : <><span class="sr">over time</span><Axis /></>}</span><span role="columnheader" class="n" title="calls in the last minute">/min</span><span role="columnheader" class="n" title="95 of 100 of the newest answers took at most this long">p95</span><span role="columnheader" class="n" title="calls in flight / calls that wait for the server">out/wait</span></div></div>
      {chunks.map((c, i) => <Chunk key={i} names={c} first={i < 2} table={table} />)}
    </div>
    {names.length === 0 && <p>No server is like that. <button type="button" onClick={() => { setOption('filter', ''); setOption('state', ''); }}>show all</button></p>}
    <p class="legend quiet"><span><i class="swatch hue1" /> generation</span> <span><i class="swatch s-disconnected" /> away</span> <span><b class="m-saved">▲</b> calls saved by everline</span> <span><b class="m-bad">✕</b> calls that failed, or whose outcome is unknown</span> <span>◆ catalog changed</span> <span>⚙ configuration changed</span> <span><b class="m-drill">⚡</b> drill</span> <span><i class="swatch s-gap" /> not recorded</span></p>
    <News />
  </>;
}

// Spark is how many calls there were in each of the last minutes.
function Spark({name}) {
  const all = rates.value.get(name);
  if (!all || !all.some(Boolean)) return null;
  const most = Math.max(...all), n = all.length - 1;
  return <svg class="spark" width="34" height="12" role="img" aria-label={`calls by the minute: ${all.join(', ')}`}><path d={all.map((v, i) => `${i ? 'L' : 'M'}${(i / n) * 34} ${11.5 - (v / most) * 11}`).join('')} /></svg>;
}

// Chunk has the rows of some servers while they are near the screen, so that a
// thousand servers are a page of a few.
function Chunk({names, first, table}) {
  const box = useRef(), [near, setNear] = useState(first), height = useRef(names.length * 42);
  useEffect(() => {
    const see = new IntersectionObserver(([e]) => {
      if (!e.isIntersecting && e.boundingClientRect.height) height.current = e.boundingClientRect.height;
      setNear(e.isIntersecting);
    }, {rootMargin: '400px'});
    see.observe(box.current);
    return () => see.disconnect();
  }, []);
  return <div role="rowgroup" ref={box} style={near ? {} : {height: height.current + 'px'}}>
    {near ? names.map((n) => cards.has(n) && <Row key={n} name={n} table={table} />) : <div role="row"><span role="cell" class="quiet">{plural(names.length, 'server')}</span></div>}
  </div>;
}

function Row({name, table}) {
  const s = cards.get(name).value, bad = trouble(s), lane = lanes.value.get(name);
  return <div role="row" class={'row' + (bad ? ' trouble' : '')} data-server={name} data-state={s.state} data-generation={s.generation} data-calls={s.calls} data-out={s.out} data-waiting={s.waiting} data-saved={s.saved} data-attempt={s.attempt}
    data-outcome-unknown={s.outcomes.unknown} data-away-since={s.awaySince || ''} data-cause={s.cause || ''} data-next-attempt={s.nextAttempt || ''}>
    <span role="cell" class="name"><a href={link('servers', name)}>{visible(name)}</a>{s.required && <span class="badge" title="everline is not ready without it">required</span>}</span>
    <span role="cell"><State state={s.state} />{s.generation > 0 && <span class="quiet"> g{s.generation}</span>}</span>
    <span role="cell" class="wide">{table ? (lane ? summary(lane) : '–') : <Lane name={name} />}</span>
    <span role="cell" class="n"><Spark name={name} />{s.minute || 0}<span class="unit">/min</span></span>
    <span role="cell" class="n">{millis(s.latencyMsP95)}<span class="unit">p95</span></span>
    <span role="cell" class="n">{s.out}/{s.waiting}<span class="unit">out/wait</span></span>
    {bad && <div role="cell" class="more"><Trouble s={s} /></div>}
  </div>;
}

// cost is what calls an outage has cost so far.
export function cost(s) {
  const lane = lanes.value.get(s.name), since = Date.parse(s.awaySince || s.since) - 60e3;
  const sum = (k) => (lane?.marks || []).reduce((n, m) => n + (m.time >= since ? m[k] || 0 : 0), 0);
  return {failed: sum('failed'), unknown: sum('unknown'), waiting: s.waiting};
}

// Trouble says since when, why, what it cost, and what to do.
export function Trouble({s}) {
  const c = cost(s), since = s.awaySince || s.since;
  const paid = [[c.failed, 'failed'], [c.unknown, 'with unknown outcome'], [c.waiting, 'waiting now']].filter(([n]) => n).map(([n, w]) => `${plural(n, 'call')} ${w}`).join(', ');
  return <dl class="facts">
    <div><dt>since</dt><dd><At time={since} /> (<Ago time={since} word="" />){s.attempt > 1 && <>, {s.attempt} attempts</>}{s.nextAttempt && <>, next attempt <Left time={s.nextAttempt} /></>}</dd></div>
    <div><dt>why</dt><dd class="cause">{s.cause ? visible(s.cause) : <span class="quiet">not known yet</span>}{s.stderr.length > 0 && !s.cause?.includes(s.stderr.at(-1)) && <pre>{visible(s.stderr.slice(-3).join('\n'))}</pre>}</dd></div>
    <div><dt>cost</dt><dd>{paid || 'no call so far'}</dd></div>
    <div><dt>do</dt><dd>{s.remedy ? <Remedy text={s.remedy} /> : <Type command={`everline logs ${shell(s.name)}`} />} <Act label="reconnect" run={() => operate(s.name, 'reconnect')} /> <a href={link('servers', s.name, 'logs')}>logs</a></dd></div>
  </dl>;
}
export const shell = (name) => (/^[\w.-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);

function News() {
  return <section aria-label="Newest events"><h2>Events</h2><ul class="news">{events.value.filter((e) => e.kind !== 'connecting' && e.data?.action !== 'call').slice(0, 8).map((e) => <EventLine key={e.seq} e={e} />)}</ul><a href={link('events')}>all events</a></section>;
}
export function EventLine({e, at}) {
  const here = at === String(e.seq), line = useRef();
  useEffect(() => { if (here) { line.current.focus(); line.current.scrollIntoView({block: 'center'}); } }, [here]);
  return <li ref={line} tabIndex={here ? -1 : undefined} class={'k-' + e.kind + (here ? ' here' : '')}><At time={e.time} /> {e.server && <a href={link('servers', e.server)}>{visible(e.server)}</a>} <span>{visible(e.text)}</span></li>;
}

export function Empty() {
  return <section class="empty"><h1>No server is configured</h1><p>One of these brings some:</p><ul>
    <li><Type command="everline import" /> takes over those that your clients have</li>
    <li><Type command="everline add files -- npx -y @modelcontextprotocol/server-filesystem ." /> adds one</li>
    <li><Type command="everline demo" /> shows everything with servers that are made up</li></ul></section>;
}
