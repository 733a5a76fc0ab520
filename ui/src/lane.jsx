// The lane: what a server did over time, by generation, with what its outages cost.
import {h, Fragment} from 'preact';
import {useState, useEffect, useRef} from 'preact/hooks';
import {lanes, frame, begin, end, show, now, edge, events} from './store.js';
import {width, x, scale, folds, folding, setFolding} from './scale.js';
import {setOption, option, go} from './route.js';
import {clock, when, span, isAway, visible, utc} from './format.js';

const LEAST = 2.5; // pixels of an outage, so that the shortest is seen

const TICKS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600].map((s) => s * 1000);
export function ticks(from, to, px) {
  const step = TICKS.find((t) => (to - from) / t <= px / 80) || TICKS.at(-1);
  const offset = utc.value ? 0 : new Date().getTimezoneOffset() * 60e3;
  const all = [];
  for (let t = Math.ceil((from - offset) / step) * step + offset; t <= to; t += step) all.push(t);
  return {step, all};
}

// boxes are the spans that are seen, from left to right, with the least width.
function boxes(spans) {
  const W = width.value, out = [];
  for (const s of spans) {
    let a = x(s.from), b = x(s.to || end());
    if (b < 0 || a > W) continue;
    a = Math.max(0, a);
    b = Math.min(W, b);
    if (isAway(s.state) || s.state === 'mixed') b = Math.max(b, a + LEAST);
    out.push({s, a, b});
  }
  const top = ({s}) => isAway(s.state) && s.state !== 'connecting'; // drawn wider than its time, a short outage lies over its neighbors
  return [...out.filter((box) => !top(box)), ...out.filter(top)];
}

export function words(s) {
  const long = span((s.to || edge.value) - s.from);
  const at = `${when(s.from)} – ${s.to ? when(s.to) : 'now'}`;
  switch (s.state) {
    case 'connected': return `generation ${s.generation} served ${long}, ${at}`;
    case 'mixed': return `${s.generations === 1 ? '1 generation' : `${s.generations || 0} generations`} and ${span(s.awayMs || 0)} away within ${long}, ${at}${s.text ? ': ' + s.text : ''}; zoom in to tell them apart`;
    case 'gap': return `everline did not run for ${long}, ${at}`;
    default: return `${s.state} for ${long}, ${at}${s.text ? ': ' + s.text : ''}`;
  }
}

const MARKS = [['unknown', '✕', 'outcome unknown'], ['failed', '✕', 'failed'], ['saved', '▲', 'saved'], ['catalog', '◆', 'catalog changed'], ['config', '⚙', 'configuration changed'], ['drill', '⚡', 'drill']];
export function markWords(m) {
  return MARKS.filter(([k]) => m[k]).map(([k, , word]) => `${m[k]} ${word}`).join(', ');
}

// bunch puts marks together that would lie on each other.
function bunch(marks, known) {
  const out = [];
  for (const m of marks) {
    const at = x(Math.min(Math.max(m.time + 30e3, known), edge.value)); // somewhere in its minute
    if (at < 0 || at > width.value) continue;
    const last = out.at(-1);
    if (last && at - last.at < 14) {
      for (const [k] of MARKS) last[k] = (last[k] || 0) + (m[k] || 0);
      last.to = m.time;
    } else out.push({...m, at, to: m.time});
  }
  return out;
}

// openAt goes to the event that began a span, or to the calls behind a mark.
function openAt(name, {b, m}) {
  const from = b ? b.s.from : m.time, to = b ? from + 1000 : m.to + 60e3;
  const called = m && (m.saved || m.unknown || m.failed);
  const until = b?.s.state === 'mixed' ? b.s.to || now.value : to, inside = events.value.filter((e) => e.server === name && Date.parse(e.time) >= from - 5 && Date.parse(e.time) <= until);
  const out = b && (b.s.state === 'mixed' || isAway(b.s.state)), e = (out && inside.findLast((e) => /^(lost|start_failed|stopped)$/.test(e.kind))) || inside.at(-1);
  if (called) go('servers', name, 'calls');
  else location.hash = `#/events?server=${encodeURIComponent(name)}${e ? '&at=' + e.seq : ''}`;
}

export function Lane({name, height = 20}) {
  const lane = lanes.value.get(name);
  const [chosenID, choose] = useState(''); // what is chosen stays so while the lane moves
  if (!lane) return <div class="lane" />;
  const seen = boxes(lane.spans), marks = bunch(lane.marks, lane.known);
  const items = [...seen.map((b) => ({id: `s${b.s.from}`, at: b.a, text: words(b.s), b})), ...marks.map((m) => ({id: `m${m.time}`, at: m.at, text: `${markWords(m)}, ${when(m.time)}${m.to > m.time ? ' – ' + when(m.to + 60e3) : ''}`, m}))].sort((p, q) => p.at - q.at);
  const at = items.findIndex((i) => i.id === chosenID), chosen = items[at], setAt = (i) => choose(items[i]?.id || '');
  const top = 7, full = top + height + 9;
  const key = (e) => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[e.key];
    if (step) { e.preventDefault(); e.stopPropagation(); setAt(Math.min(Math.max(at < 0 ? (step > 0 ? 0 : items.length - 1) : at + step, 0), items.length - 1)); }
    if (e.key === 'Escape') setAt(-1);
    if (e.key === 'Enter' && chosen) { e.preventDefault(); openAt(name, chosen); }
  };
  const hover = (e) => {
    const px = e.clientX - e.currentTarget.getBoundingClientRect().left;
    const m = marks.findIndex((m) => Math.abs(m.at - px) < 7);
    const y = e.clientY - e.currentTarget.getBoundingClientRect().top;
    const item = m >= 0 && (y < top + 3 || y > top + height - 3) ? items.findIndex((i) => i.m === marks[m]) : items.findIndex((i) => i.b && px >= i.b.a && px <= i.b.b);
    setAt(item);
  };
  return <div class="lane" tabIndex={0} role="group" aria-label={`${name}: ${summary(lane)}`} onKeyDown={key} onPointerMove={hover} onPointerLeave={() => setAt(-1)} onBlur={() => setAt(-1)}>
    <svg width={width.value} height={full} aria-hidden="true" focusable="false">
      <rect class="ground" x="0" y={top + height / 2 - .5} width={width.value} height="1" />
      {lane.known > begin() && !lane.spans.some((s) => s.kept) && <rect class="s-gap" x="0" y={top} width={Math.max(0, Math.min(x(lane.known), width.value))} height={height} />}
      {seen.map(({s, a, b}) => <Bar key={s.from + s.state} s={s} a={a} b={b} top={top} height={height} on={chosen?.b?.s === s} />)}
      {folds.value.map((f) => <g key={f.from} data-fold><rect class="fold" x={x(f.from)} y="0" width={Math.max(x(f.to) - x(f.from), 1)} height={full} /><text class="m-note" x={(x(f.from) + x(f.to)) / 2} y={top + height / 2 + 4} text-anchor="middle">⋯</text></g>)}
      {marks.map((m) => <Mark m={m} top={top} height={height} on={chosen?.m === m} />)}
    </svg>
    <div class="tip" role="status">{chosen ? visible(chosen.text) : ''}</div>
  </div>;
}

// Patterns are what lanes are filled with where a color alone would not tell.
export const Patterns = () => <svg class="patterns" width="0" height="0" aria-hidden="true"><defs>
  <pattern id="starting" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="5" height="5" class="p-ground" /><rect width="2.5" height="5" class="p-warn" /></pattern>
  <pattern id="unknown" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><rect width="7" height="7" class="p-ground" /><rect width="1.5" height="7" class="p-line" /></pattern></defs></svg>;

function Bar({s, a, b, top, height, on}) {
  const w = Math.max(b - a, .5), hue = s.state === 'connected' ? ' hue' + (s.generation % 6) : '';
  const thin = s.state === 'idle' || s.state === 'disabled' || s.state === 'disabling';
  return <><rect data-state={s.state} data-generation={s.generation} class={'s-' + s.state + hue + (on ? ' on' : '')} x={a} y={thin ? top + height / 2 - 1.5 : top} width={w} height={thin ? 3 : height} rx={w > 6 && !isAway(s.state) ? 3 : 0} />
    {s.state === 'connected' && w >= 24 && <text class="g" x={a + 5} y={top + height - 6}>g{s.generation}</text>}
    {s.state === 'mixed' && w >= 40 && <text class="g" x={a + 4} y={top + height - 6}>▓ {s.generations}x</text>}</>;
}

function Mark({m, top, height, on}) {
  const bad = (m.unknown || 0) + (m.failed || 0), many = (n) => (n > 1 ? n : '');
  return <g class={on ? 'mark on' : 'mark'}>
    {bad > 0 && <text class="m-bad" data-mark={m.unknown ? 'unknown' : 'failed'} x={m.at} y={top - 0} text-anchor="middle">✕{many(bad)}</text>}
    {m.saved > 0 && <text class="m-saved" data-mark="saved" x={m.at} y={top + height + 8} text-anchor="middle">▲{many(m.saved)}</text>}
    {!bad && (m.drill > 0 || m.catalog > 0) && <text class={m.drill ? 'm-drill' : 'm-note'} data-mark={m.drill ? 'drill' : 'catalog'} x={m.at} y={top - 0} text-anchor="middle">{m.drill ? '⚡' : '◆'}{many(m.drill || m.catalog)}</text>}
    {!m.saved && m.config > 0 && <text class="m-note" x={m.at} y={top + height + 8} text-anchor="middle">⚙</text>}
  </g>;
}

export function summary(lane) {
  let away = 0, outages = 0, last = null;
  const from = begin();
  for (const s of lane.spans) {
    if ((s.to || end()) < from) continue;
    if (isAway(s.state)) { away += Math.min(s.to || edge.value, end()) - Math.max(s.from, from); if (!last || !isAway(last.state)) outages++; }
    if (s.state === 'mixed') { away += s.awayMs || 0; outages += s.generations || 0; }
    last = s;
  }
  const sum = (k) => lane.marks.reduce((n, m) => n + (m.time + 60e3 > from ? m[k] || 0 : 0), 0);
  const cost = [[sum('saved'), 'saved'], [sum('failed'), 'failed'], [sum('unknown'), 'unknown']].filter(([n]) => n).map(([n, w]) => `${n} ${w}`).join(', ');
  return `${outages ? `${outages} outage${outages === 1 ? '' : 's'}, away ${span(away)}` : 'no outage'}${cost ? '; calls: ' + cost : ''}`;
}

// Axis has the ticks, and tells all lanes how wide they are. Dragging over it
// zooms, as do two fingers and the wheel with Ctrl, around where they are; a wheel to
// the side moves.
export function Axis() {
  const box = useRef(), [drag, setDrag] = useState(null), fingers = useRef(new Map());
  useEffect(() => {
    const see = new ResizeObserver(([e]) => { width.value = Math.max(60, Math.floor(e.contentRect.width)); });
    see.observe(box.current);
    const wheel = (e) => { // not passive: else the browser would zoom the page
      if (!e.ctrlKey && Math.abs(e.deltaX) <= Math.abs(e.deltaY)) return;
      e.preventDefault();
      if (e.ctrlKey) zoom(Math.exp(Math.max(-1, Math.min(1, e.deltaY / 100))), px(e));
      else show(frame.value.span, end() + (e.deltaX / width.value) * frame.value.span);
    };
    box.current.addEventListener('wheel', wheel, {passive: false});
    return () => see.disconnect();
  }, []);
  const px = (e) => e.clientX - box.current.getBoundingClientRect().left, time = (p) => scale.value.time(p);
  const {step, all} = ticks(begin(), end(), width.value);
  const down = (e) => {
    if (e.pointerType === 'mouse') e.currentTarget.setPointerCapture(e.pointerId); // a finger is captured by itself
    fingers.current.set(e.pointerId, px(e));
    setDrag(fingers.current.size === 1 ? {from: px(e), to: px(e)} : null);
  };
  const move = (e) => {
    const at = fingers.current, other = [...at].find(([id]) => id !== e.pointerId), was = at.get(e.pointerId);
    if (was === undefined) return;
    at.set(e.pointerId, px(e));
    if (other) { const [, o] = other; if (Math.abs(px(e) - o) > 10) zoom(Math.abs(was - o) / Math.abs(px(e) - o), (px(e) + o) / 2); }
    else if (drag) setDrag({...drag, to: px(e)});
  };
  const up = (e) => {
    fingers.current.delete(e.pointerId);
    if (drag && Math.abs(px(e) - drag.from) > 8) { const a = time(Math.min(drag.from, px(e))), b = time(Math.max(drag.from, px(e))); show(b - a, b); }
    setDrag(null);
  };
  const gone = (e) => { fingers.current.delete(e.pointerId); setDrag(null); };
  const shown = all.filter((t) => !folds.value.some((f) => t > f.from && t < f.to));
  return <div class="axis" ref={box} onDblClick={fit} onPointerDown={down} onPointerMove={move} onPointerUp={up} onPointerCancel={gone}>
    <svg width={width.value} height="16" aria-hidden="true">{shown.map((t) => <g key={t}><rect class="tick" x={x(t)} y="11" width="1" height="5" /><text class="at" x={x(t)} y="9" text-anchor={x(t) < 30 ? 'start' : x(t) > width.value - 30 ? 'end' : 'middle'}>{step < 60e3 ? clock(t) : clock(t).slice(0, 5)}</text></g>)}
      {folds.value.map((f) => <text key={f.from} class="at" x={(x(f.from) + x(f.to)) / 2} y="9" text-anchor="middle">⋯{brief(f.to - f.from)}⋯</text>)}
      {drag && <rect class="drag" x={Math.min(drag.from, drag.to)} y="0" width={Math.abs(drag.to - drag.from)} height="16" />}</svg>
  </div>;
}
const brief = (ms) => (ms < 5400e3 ? Math.round(ms / 60e3) + 'm' : Math.round(ms / 3600e3) + 'h');

// zoom makes the window longer or shorter, and what is at a pixel stays there.
function zoom(by, at) {
  const f = frame.value, to = end(), fixed = to - f.span * (1 - at / width.value), next = Math.min(Math.max(f.span * by, 60e3), 24 * 3600e3);
  show(next, fixed + (to - fixed) * (next / f.span));
}

// fit shows all that is known.
export function fit() {
  const first = Math.min(now.value - 60e3, ...[...lanes.value.values()].map((l) => l.known));
  show((now.value - first) * 1.02, 0);
}

const WINDOWS = [['1m', 60e3], ['5m', 300e3], ['15m', 900e3], ['1h', 3600e3], ['6h', 21600e3], ['24h', 86400e3]];
const asked = WINDOWS.find(([word]) => word === option('window'));
if (asked) show(asked[1], 0);

export function Windows() {
  const f = frame.value, back = () => show(f.span, end() - f.span / 2), on = () => show(f.span, end() + f.span / 2);
  return <span class="windows" role="group" aria-label="Time window">
    {WINDOWS.map(([word, ms]) => <button type="button" aria-pressed={f.span === ms} onClick={() => { show(ms, f.end); setOption('window', word); }}>{word}</button>)}
    <button type="button" aria-label="Earlier" onClick={back}>◀</button><button type="button" aria-label="Later" disabled={!f.end} onClick={on}>▶</button>
    <button type="button" aria-label="Zoom out" onClick={() => show(f.span * 2, f.end)}>−</button><button type="button" aria-label="Zoom in" onClick={() => show(f.span / 2, f.end)}>+</button>
    {f.end ? <button type="button" onClick={() => show(f.span, 0)}>to now</button> : <span class="quiet">to now</span>}
    <label class="check"><input type="checkbox" checked={folding.value} onChange={(e) => setFolding(e.target.checked)} /> fold quiet times</label>
  </span>;
}
