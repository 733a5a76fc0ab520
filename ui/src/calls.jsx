// The newest calls, what became of them, and one of them with its parts.
import {h, Fragment} from 'preact';
import {useEffect, useState} from 'preact/hooks';
import {get, want, cards} from './store.js';
import {useLoad, Loaded, Type, Remedy, At} from './parts.jsx';
import {millis, bytes, clock, date, visible} from './format.js';
import {option, setOption, link} from './route.js';
import {shell} from './overview.jsx';

const OUTCOMES = {
  answered: ['✓', 'good'], tool_error: ['!', 'warn'], rpc_error: ['!', 'warn'], not_sent: ['✕', 'bad'], unknown: ['?', 'bad'], refused: ['⊘', 'warn'], canceled: ['–', 'quiet'],
};
const MEANING = {
  answered: 'The server answered.', tool_error: 'The server answered, and its tool says that it failed.', rpc_error: 'The server answered with an error.',
  not_sent: 'It was not executed: that is certain. It may be made again.', unknown: 'It was sent, and whether it was executed cannot be told. Look at the server before you make it again.',
  refused: 'everline did not send it.', canceled: 'The client gave it up.',
};

export function Outcome({c}) {
  const [sign, tone] = OUTCOMES[c.outcome];
  return <span class={tone}><span aria-hidden="true">{c.saved ? '▲' : sign}</span> {c.saved ? `saved (${c.saved})` : c.outcome}{c.kind && <span class="quiet"> {c.kind}</span>}</span>;
}

// Who is a client as it calls itself, and as whom it was let in if that is not the
// user of this machine.
function Who({c}) {
  const as = c?.subject && !/^uid:/.test(c.subject) && c.subject;
  if (!c || (!c.name && !as)) return <span class="quiet">{c?.id ? 'client ' + c.id : '–'}</span>;
  return <span title={[c.name, c.version, c.protocol, c.subject].filter(Boolean).join(' · ')}>{visible(c.name || 'client ' + c.id)}{as && <span class="quiet"> {visible(as)}</span>}</span>;
}

// sends are the parts of a call that was sent, each with the generation it went to.
function sends(c) {
  const [first, last] = c.generations;
  if (c.sends < 2) return [[`at the server${first ? `, on g${first}` : ''}`, c.upstreamMs, 'upstream']];
  return [[`${c.sends} sends: the first on g${first} failed (${c.firstFailed}), the last on g${last ?? first} ${c.saved || /^(answered|tool_error|rpc_error)$/.test(c.outcome) ? 'was answered' : 'failed'}`, c.upstreamMs, 'upstream']];
}

export function Calls({server = ''}) {
  const outcome = option('outcome'), name = option('name'), client = option('client'), of_ = server || option('server');
  const q = new URLSearchParams({limit: '100', ...(of_ && {server: of_}), ...(outcome && {outcome}), ...(name && {name}), ...(client && {client})});
  const of = useLoad(() => get('calls?' + q), [String(q)]);
  const [fresh, setFresh] = useState([]), [older, setOlder] = useState([]), [next, setNext] = useState(null);
  useEffect(() => { setFresh([]); setOlder([]); setNext(of.data?.next); }, [of.data]);
  useEffect(() => want('calls', (c) => {
    if ((of_ && c.server !== of_) || (name && !(c.name + ' ' + (c.exposed || '')).includes(name)) || (client && !(c.client && (c.client.name + ' ' + (c.client.subject || '')).includes(client))) || (outcome && c.outcome !== outcome && !(outcome === 'saved' && c.saved))) return;
    setFresh((old) => [c, ...old].slice(0, 400));
  }), [String(q)]);
  const more = async () => { const page = await get(`calls?${q}&before=${next}`); setOlder([...older, ...page.calls]); setNext(page.next); };
  return <section aria-label="Calls">
    {!server && <h1>Calls</h1>}
    <div class="tools">
      {!server && <input type="search" aria-label="Server" placeholder="server" value={of_} onInput={(e) => setOption('server', e.target.value)} />}
      <input id="filter" type="search" aria-label="Tool" placeholder="/ tool" value={name} onInput={(e) => setOption('name', e.target.value)} />
      <input type="search" aria-label="Client" placeholder="client" value={client} onInput={(e) => setOption('client', e.target.value)} />
      <select aria-label="Outcome" value={outcome} onChange={(e) => setOption('outcome', e.target.value)}><option value="">every outcome</option><option value="saved">saved</option>{Object.keys(OUTCOMES).map((o) => <option value={o}>{o}</option>)}</select>
      <span class="quiet">the newest 2,000; neither arguments nor results are kept</span></div>
    <Loaded of={of}>{(data) => {
      const seen = new Set(), all = [...fresh, ...data.calls, ...older].filter((c) => !seen.has(c.id) && seen.add(c.id));
      return all.length === 0 ? <p>No call is like that so far.</p> : <><div class="scroll" tabIndex={0} role="region" aria-label="Table of calls"><table class="calls"><thead><tr><th>time</th><th>server</th><th>what</th><th>client</th><th>outcome</th><th class="n">took</th><th class="n">waited</th><th class="n">sends</th><th class="n">in/out</th><th>trace</th></tr></thead>
        <tbody>{all.map((c) => <tr key={c.id} data-call={c.id} data-outcome={c.outcome} data-saved={c.saved || ''}><td><a href={link('calls', c.id)} title={date(Date.parse(c.time))}>{clock(Date.parse(c.time), true)}</a></td><td>{c.server ? <a href={link('servers', c.server)}>{visible(c.server)}</a> : '–'}</td><td class="cut">{c.method !== 'tools/call' && <span class="quiet">{visible(c.method)} </span>}{visible(c.name)}</td><td class="cut"><Who c={c.client} /></td><td><Outcome c={c} />{c.generations.length > 1 && <span class="quiet"> g{c.generations.join(' → g')}</span>}</td><td class="n">{millis(c.tookMs)}</td><td class="n">{c.waitedMs ? millis(c.waitedMs) : '–'}</td><td class="n">{c.sends}</td><td class="n">{bytes(c.requestBytes)}/{bytes(c.resultBytes)}</td><td>{c.traceId ? <a href={link('calls', c.id)} title={c.traceId}>{c.traceId.slice(0, 4)}…</a> : '–'}</td></tr>)}</tbody></table></div>
        {next && <button type="button" onClick={more}>older ones</button>}</>;
    }}</Loaded></section>;
}

export function Call({id}) {
  const of = useLoad(() => get('calls/' + encodeURIComponent(id)), [id]);
  return <Loaded of={of}>{(c) => {
    const remedy = cards.get(c.server)?.value.remedy;
    const rest = Math.max(0, c.tookMs - c.waitedMs - c.upstreamMs), all = Math.max(c.tookMs, .001);
    const parts = [['waited for the server', c.waitedMs, 'waited'], ...sends(c), ['in everline', rest, 'own']];
    return <article><h1>{visible(c.name || c.method)} <Outcome c={c} /></h1>
      <p>{MEANING[c.outcome]}{c.saved === 'replay' && ' A send of it failed, and everline sent it again: without everline the call had failed.'}{c.saved === 'parking' && ' The server was away when it came, and everline held it until there was one: without everline the call had failed.'}</p>
      {c.sends > 1 && <p>{visible(sends(c)[0][0])}.</p>}
      <ul class="bar" aria-label="Parts of its time">{parts.filter(([, ms]) => ms > 0).map(([word, ms, cls]) => <li class={cls} style={{flexGrow: Math.max(ms / all, .02)}} title={`${word}: ${millis(ms)}`}><span>{word} {millis(ms)}</span></li>)}</ul>
      <table class="pairs"><tbody>{[['came', <At time={c.time} />], ['server', c.server && <a href={link('servers', c.server)}>{visible(c.server)}</a>], ['client', c.client && <Who c={c.client} />], ['version', c.client && visible(c.client.version)], ['speaks', c.client?.protocol], ['identity', c.client?.subject && visible(c.client.subject)], ['asked for', c.exposed && visible(c.exposed)], ['generation', c.generations.map((g) => 'g' + g).join(' → ') || 'none'], ['method', visible(c.method)], ['outcome', c.outcome], ['why', c.kind], ['error code', c.code], ['took', millis(c.tookMs)], ['waited', millis(c.waitedMs)], ['sends', c.sends], ['request', bytes(c.requestBytes)], ['result', bytes(c.resultBytes)], ['trace', c.traceId && <Type command={c.traceId} />], ['id', c.id]].filter(([, v]) => v != null && v !== '').map(([k, v]) => <tr><th scope="row">{k}</th><td>{v}</td></tr>)}</tbody></table>
      {['not_sent', 'unknown'].includes(c.outcome) && remedy && <p>{visible(c.server)} is away: <Remedy text={remedy} /></p>}
      {c.method === 'tools/call' && c.server && <p>Make it again, with arguments of your own: <Type command={`everline call ${shell(c.server)} ${shell(c.name)}`} /></p>}
      <p><a href={link('calls')}>all calls</a></p></article>;
  }}</Loaded>;
}
