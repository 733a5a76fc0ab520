// The smaller views: approvals, events, configuration, clients, and everline itself.
import {h, Fragment} from 'preact';
import {useState} from 'preact/hooks';
import {get, post, events, hello, order, cards} from './store.js';
import {useLoad, Loaded, Act, Locked, Type, At, Ago, mayAct} from './parts.jsx';
import {EventLine, shell} from './overview.jsx';
import {visible, plural, date} from './format.js';
import {option, setOption, link} from './route.js';

/* ---- pins ---- */

// lines are the JSON of a definition with its members in order, or a text.
function lines(v) {
  if (v === null || v === undefined) return [];
  if (typeof v === 'string') return v.split('\n');
  const sorted = (x) => Array.isArray(x) ? x.map(sorted) : x && typeof x === 'object' ? Object.fromEntries(Object.keys(x).sort().map((k) => [k, sorted(x[k])])) : x;
  return JSON.stringify(sorted(v), null, 2).split('\n');
}

// diff is the shortest way from one list of lines to another.
export function diff(a, b) {
  if (a.length * b.length > 4e6) return [...a.map((l) => ['-', l]), ...b.map((l) => ['+', l])];
  const best = Array.from({length: a.length + 1}, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) best[i][j] = a[i] === b[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  const out = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { out.push([' ', a[i++]]); j++; }
    else if (i < a.length && (j === b.length || best[i + 1][j] >= best[i][j + 1])) out.push(['-', a[i++]]);
    else out.push(['+', b[j++]]);
  }
  return out;
}

// Diff marks what differs within a line that was changed.
function Diff({was, now}) {
  const all = diff(lines(was), lines(now));
  return <pre class="diff" tabIndex={0}>{all.map(([sign, line], i) => {
    const other = sign === '-' && all[i + 1]?.[0] === '+' && all[i - 1]?.[0] !== '-' ? all[i + 1][1] : sign === '+' && all[i - 1]?.[0] === '-' && all[i + 1]?.[0] !== '+' ? all[i - 1][1] : null;
    let a = 0, z = 0;
    if (other) {
      while (a < line.length && line[a] === other[a]) a++;
      while (z < line.length - a && z < other.length - a && line.at(-1 - z) === other.at(-1 - z)) z++;
    }
    return <div class={sign === '+' ? 'plus' : sign === '-' ? 'minus' : ''}>{sign} {other ? <>{visible(line.slice(0, a))}<mark>{visible(line.slice(a, line.length - z))}</mark>{visible(line.slice(line.length - z))}</> : visible(line)}</div>;
  })}</pre>;
}

export function Pins() {
  const of = useLoad(() => get('pins'), [events.value.find((e) => e.kind === 'unapproved' || e.kind === 'operated')?.seq]);
  const approve = (body) => post('pins/approve', body).then((t) => { of.reload(); return plural(JSON.parse(t).count, 'definition') + ' approved'; });
  return <section aria-label="Pins"><h1>Pins</h1><Loaded of={of}>{(p) => {
    if (p.mode === 'off') return <p>Definitions are not pinned: a server may change what its tools say. To be told, write <code>"pins": "warn"</code>, or <code>"enforce"</code> to withhold them, into the configuration.</p>;
    const groups = p.changes.map((c, i) => ({...c, i})).reduce((m, c) => m.set(c.server, [...(m.get(c.server) || []), c]), new Map());
    return <>{p.problem && <p class="warning">{visible(p.problem.text)} {p.problem.remedy}</p>}<Locked />
      {groups.size === 0 ? <p>Every definition is as it was approved. Mode: {p.mode}{p.file && <>; kept in <code>{visible(p.file)}</code></>}.</p> : <p>{plural(p.changes.length, 'definition')} not as approved, mode {p.mode}. {groups.size > 1 && <Act label="approve all" danger run={() => approve({seen: p.seen['']})} ask={{title: 'Approve all?', text: `${plural(p.changes.length, 'definition')} of ${plural(groups.size, 'server')}.`, type: 'all', yes: 'Approve'}} />}</p>}
      {[...groups].map(([server, list]) => <section key={server}><h2><a href={link('servers', server)}>{visible(server)}</a> <Act label="approve this server" danger run={() => approve({server, seen: p.seen[server]})} ask={{title: `Approve ${server}?`, text: `${plural(list.length, 'definition')} as they are now.`, type: server, yes: 'Approve'}} /></h2>
        {list.map((c) => <details key={c.i} open={list.length <= 5} data-pin={c.tool}><summary>{visible(c.tool || 'its instructions')} <span class={c.withheld ? 'bad' : 'warn'}>{c.what}{c.withheld && ', withheld'}</span></summary><Diff was={c.was} now={c.now} />{c.tool && <Act label="approve" run={() => approve({server, tool: c.tool, seen: p.each[c.i]})} />}</details>)}</section>)}
      <p class="quiet">The same: <Type command="everline tools diff" /></p></>;
  }}</Loaded></section>;
}

/* ---- events ---- */

export function Events() {
  const server = option('server'), kind = option('kind');
  const kinds = [...new Set(events.value.map((e) => e.kind))].sort();
  const some = events.value.filter((e) => (!server || e.server.includes(server)) && (!kind || e.kind === kind));
  return <section aria-label="Events"><h1>Events</h1><div class="tools"><input id="filter" type="search" aria-label="Server" placeholder="/ server" value={server} onInput={(e) => setOption('server', e.target.value)} />
    <select aria-label="Kind" value={kind} onChange={(e) => setOption('kind', e.target.value)}><option value="">every kind</option>{kinds.map((k) => <option value={k}>{k}</option>)}</select></div>
    {some.length === 0 ? <p>Nothing happened so far.</p> : <ul class="news">{some.slice(0, 300).map((e) => <EventLine key={e.seq} e={e} at={option('at')} />)}</ul>}
    <p class="quiet">The newest. More of them: <Type command="everline events" /></p></section>;
}

/* ---- configuration ---- */

export function Config() {
  const of = useLoad(() => get('config'), [events.value.find((e) => e.kind === 'reconfigured' || e.kind === 'operated')?.seq]), [plan, setPlan] = useState(null);
  const check = async () => { const p = JSON.parse(await post('reload?dryRun=1')); setPlan(p); return ''; };
  const apply = async () => { setPlan(JSON.parse(await post('reload'))); of.reload(); return 'applied'; };
  const none = plan && !plan.added.length && !plan.removed.length && !plan.restarted.length && !plan.adjusted.length;
  return <section aria-label="Configuration"><h1>Configuration</h1><Loaded of={of}>{(c) => <>
    <p>{c.files.map((f) => <code key={f}>{visible(f)} </code>)}</p>
    {c.error && <p class="warning" role="alert">The files, as they are now, are not applied: {visible(c.error)} {c.remedy && visible(c.remedy)}</p>}
    {c.warnings.map((w) => <p class="warning">{visible(w)}</p>)}
    <Locked />
    <p class="buttons"><Act label="check the files" run={check} /> {plan && !plan.applied && !none && <Act label="apply" run={apply} danger ask={{title: 'Apply the files?', text: [[plan.added, 'added'], [plan.removed, 'removed'], [plan.restarted, 'restarted']].filter(([l]) => l.length).map(([l, w]) => `${l.join(', ')} ${w}`).join('; '), yes: 'Apply'}} />}</p>
    {plan && <div role="status">{none ? <p>{plan.applied ? 'Applied: nothing differs.' : 'The files say what is applied.'}</p> : <ul>{[['added', 'added'], ['removed', 'removed'], ['restarted', 'restarted: calls wait for the next generation'], ['adjusted', 'adjusted without a restart']].filter(([k]) => plan[k].length).map(([k, w]) => <li>{visible(plan[k].join(', '))} {plan.applied ? '' : 'would be '}{w}</li>)}<li>{plan.kept} kept</li></ul>}{plan.warnings.map((w) => <p class="warning">{visible(w)}</p>)}</div>}
    <Paste />
    <h2>What is applied, without secrets</h2><pre tabIndex={0}>{visible(c.effective)}</pre>
    <p class="quiet">It is edited in the files; saving them applies it.</p></>}</Loaded></section>;
}

// Paste says what a part of some client's file would be here. It changes nothing.
function Paste() {
  const [pasted, setPasted] = useState(''), [found, setFound] = useState(null);
  const check = async () => { setFound(null); setFound(JSON.parse(await post('validate', {text: pasted}))); return ''; };
  if (!mayAct()) return null;
  return <section aria-label="Try a server"><h2>Try a server</h2><label>Paste what a README or another client's file says. It is read, and neither started nor kept.
    <textarea class="mono" rows={5} spellcheck={false} value={pasted} placeholder={'{"mcpServers": {"name": {"command": "…"}}}'} onInput={(e) => setPasted(e.target.value)} /></label>
    {pasted.trim() && <Act label="check it" run={check} />}
    {found && <div role="status"><p>Read as a file of {found.format}: {plural(found.servers.length, 'server')}.</p>
      {found.warnings.map((w) => <p class="warning">{visible(w)}</p>)}
      {found.servers.map((s) => <div key={s.name} data-pasted={s.name}><h3>{visible(s.name)}</h3>{s.exists && <p class="warn">One of this name is configured here: it would be replaced.</p>}
        {s.command ? <p>To add it, type <Type command={s.command} /></p> : <p>No command says all of this. Put it into the file of everline:</p>}
        <details open={!s.command}><summary>as the file of everline says it</summary><pre tabIndex={0}>{visible(s.text)}</pre></details></div>)}</div>}
  </section>;
}

/* ---- clients ---- */

export function Connect() {
  const of = useLoad(() => Promise.all([get('connect'), get('status')]), []);
  return <section aria-label="Connect"><h1>Connect a client</h1><Loaded of={of}>{([all, st]) => <>
    <p>Any MCP client that takes a URL: <Type command={st.endpoint} /></p>
    <p>Its command writes it into a client's own file, and keeps what else is there:</p>
    {all.map((c) => <details key={c.client}><summary>{c.title}</summary><p><Type command={c.command} /></p>{c.text && <><p>or by hand:</p><pre tabIndex={0}>{visible(c.text)}</pre></>}</details>)}</>}</Loaded></section>;
}

/* ---- everline ---- */

export const KEYS = [['/', 'filter'], ['j k', 'next, previous server'], ['Enter', 'open it'], ['l c t', 'its logs, calls, tools'], ['r', 'reconnect it'], ['e d', 'enable, disable it'], ['+ − 0 [ ]', 'zoom in, out, to the last hour; earlier, later'], ['g o, g c, g t, g p, g e', 'overview, calls, tools, pins, events'], ['Esc', 'leave the filter'], ['?', 'this page'], ['← →', 'on a lane: from one outage to the next']];
export function About({keys, setKeys, utc}) {
  const of = useLoad(() => get('status'), []);
  return <section aria-label="About"><h1>everline</h1><Loaded of={of}>{(s) => <>
    {s.problems.map((p) => <p class="warning">{visible(p.text)} {visible(p.remedy)}</p>)}
    <table class="pairs"><tbody>{[['version', s.version], ['ready', s.ready ? 'yes' : 'no: a required server is away'], ['process', s.pid], ['started', <><At time={s.startedAt} /> (<Ago time={s.startedAt} />)</>], ['run', s.run], ['endpoint', s.endpoint], ['state folder', visible(s.stateDir)], ['servers', s.servers.length]].map(([k, v]) => <tr><th scope="row">{k}</th><td>{v}</td></tr>)}</tbody></table></>}</Loaded>
    <h2>Keys</h2><label class="check"><input type="checkbox" checked={keys} onChange={(e) => setKeys(e.target.checked)} /> single keys do something</label>
    <table class="pairs"><tbody>{KEYS.map(([k, w]) => <tr><th scope="row"><kbd>{k}</kbd></th><td>{w}</td></tr>)}</tbody></table>
    <h2>Times</h2><label class="check"><input type="checkbox" checked={utc.value} onChange={(e) => { utc.value = e.target.checked; localStorage.setItem('everline.utc', utc.value ? '1' : ''); }} /> in UTC</label></section>;
}
