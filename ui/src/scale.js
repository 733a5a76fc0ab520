// Where a time is in a lane. Hours in which no server did anything can be folded, so
// that the others have the room.
import {signal, computed} from '@preact/signals';
import {lanes, frame, begin, end} from './store.js';
import {option, setOption} from './route.js';

export const width = signal(600); // of all lanes, in pixels
export const folding = signal(option('fold') === '1');
export const setFolding = (on) => { folding.value = on; setOption('fold', on ? '1' : ''); };

const LEAST = 1 / 24; // of the window: what is shorter is not folded
const ROOM = 1 / 120; // of the window, around what happened
const FOLD = 30; // pixels of a folded time

// folds are the times in which no lane has an end, a mark, or an outage: [{from, to}].
export function foldsOf(all, from, to) {
  const busy = [[from, from], [to, to]], room = (to - from) * ROOM;
  for (const {spans, marks, known} of all) {
    if (known > from) busy.push([known, known]);
    for (const s of spans) {
      const still = ['connected', 'idle', 'disabled', 'gap'].includes(s.state);
      if (still) { busy.push([s.from, s.from]); if (s.to) busy.push([s.to, s.to]); } else busy.push([s.from, s.to || to]);
    }
    for (const m of marks) busy.push([m.time, m.time + 60e3]);
  }
  const folds = [];
  let until = from;
  for (const [a, b] of busy.filter(([a, b]) => b >= from && a <= to).sort((p, q) => p[0] - q[0])) {
    if (a - until - 2 * room >= (to - from) * LEAST) folds.push({from: until + room, to: a - room});
    until = Math.max(until, b);
  }
  return folds;
}

export const folds = computed(() => {
  if (!folding.value || !frame.value.span) return [];
  const from = begin(), to = end();
  return foldsOf(lanes.value.values(), from, to);
});

// scale maps between times and pixels.
export const scale = computed(() => {
  const from = begin(), to = end(), W = width.value, away = folds.value;
  const gone = away.reduce((n, f) => n + f.to - f.from, 0), room = Math.max(W - away.length * FOLD, W / 4), each = away.length ? (W - room) / away.length : 0;
  const per = room / Math.max(to - from - gone, 1);
  const x = (t) => {
    let p = 0, at = from;
    for (const f of away) {
      if (t <= f.from) break;
      p += (f.from - at) * per + each * Math.min((t - f.from) / (f.to - f.from), 1);
      at = Math.min(Math.max(t, f.from), f.to);
      if (t < f.to) return p;
    }
    return p + (t - at) * per;
  };
  const time = (px) => {
    let lo = from, hi = to;
    for (let i = 0; i < 50; i++) { const mid = (lo + hi) / 2; x(mid) < px ? lo = mid : hi = mid; }
    return lo;
  };
  return {x, time};
});
export const x = (t) => scale.value.x(t);
