// Where the page is: a path and options, in the fragment, so that no name of a
// server comes into a log.
import {signal} from '@preact/signals';

const parse = () => {
  const [path, query = ''] = location.hash.replace(/^#/, '').split('?');
  return {parts: path.split('/').filter(Boolean).map(decode), query: new URLSearchParams(query)};
};
function decode(s) { try { return decodeURIComponent(s); } catch { return s; } }

export const route = signal(parse());
addEventListener('hashchange', () => { route.value = parse(); });

export const link = (...parts) => '#/' + parts.map(encodeURIComponent).join('/');
// selected is the server whose page this is, or whose row has the focus; '' for none.
export const selected = () => (route.value.parts[0] === 'servers' && route.value.parts[1]) || document.activeElement?.closest?.('[data-server]')?.dataset.server || '';
export const go = (...parts) => { location.hash = link(...parts).slice(1); };

// option is one of the options; set without a value takes it away.
export const option = (name) => route.value.query.get(name) || '';
export function setOption(name, value) {
  const q = new URLSearchParams(route.value.query);
  value ? q.set(name, value) : q.delete(name);
  const text = q.toString();
  history.replaceState(null, '', '#/' + route.value.parts.map(encodeURIComponent).join('/') + (text ? '?' + text : ''));
  route.value = parse();
}
