// Times and sizes as people read them, and what a state looks like.
import {signal} from '@preact/signals';

export const utc = signal(localStorage.getItem('everline.utc') === '1');

export const STATES = {
  connected: ['●', 'good'], idle: ['◌', 'quiet'], connecting: ['◐', 'warn'], reconnecting: ['◐', 'warn'],
  disconnected: ['✕', 'bad'], failed: ['✕', 'bad'], auth_required: ['⚿', 'bad'], misconfigured: ['⚠', 'bad'],
  disabled: ['○', 'quiet'], disabling: ['○', 'quiet'], mixed: ['▓', 'warn'], gap: ['╱', 'quiet'],
};
export const trouble = (s) => STATES[s.state]?.[1] === 'bad' || s.state === 'reconnecting' || (s.state === 'connecting' && s.attempt > 0);
export const isAway = (state) => !['connected', 'idle', 'disabled', 'disabling', 'mixed', 'gap'].includes(state);

const two = (n) => String(n).padStart(2, '0');
const parts = (t) => { const d = new Date(t); return utc.value
  ? [d.getUTCFullYear(), d.getUTCMonth() + 1, d.getUTCDate(), d.getUTCHours(), d.getUTCMinutes(), d.getUTCSeconds(), d.getUTCMilliseconds()]
  : [d.getFullYear(), d.getMonth() + 1, d.getDate(), d.getHours(), d.getMinutes(), d.getSeconds(), d.getMilliseconds()]; };
export function clock(t, ms) {
  const [, , , h, m, s, milli] = parts(t);
  return `${two(h)}:${two(m)}:${two(s)}${ms ? '.' + String(milli).padStart(3, '0') : ''}`;
}
export function date(t) {
  const [y, mo, d] = parts(t);
  return `${y}-${two(mo)}-${two(d)} ${clock(t, true)}${utc.value ? ' UTC' : ''}`;
}
// when is the time of day, with the day where that is another.
export const when = (t) => (Math.abs(Date.now() - t) < 20 * 3600e3 ? clock(t) : date(t).slice(0, 16));

export function span(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return m < 10 ? `${m} min ${Math.floor(s % 60)} s` : `${m} min`;
  const h = Math.floor(m / 60);
  return h < 48 ? `${h} h ${m % 60} min` : `${Math.floor(h / 24)} d ${h % 24} h`;
}
export const millis = (ms) => (ms == null ? '–' : ms < 1 ? `${ms.toFixed(2)} ms` : ms < 1000 ? `${Math.round(ms)} ms` : span(ms));
export function bytes(n) {
  if (n == null) return '–';
  const units = ['B', 'kB', 'MB', 'GB'];
  let i = 0;
  while (n >= 1000 && i < 3) { n /= 1000; i++; }
  return `${n < 10 && i ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}
export const plural = (n, word) => `${n} ${word}${n === 1 ? '' : 's'}`;

// visible writes out what could hide something, or turn the text around.
export function visible(text) {
  return String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udfff]/g,
    (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`);
}
