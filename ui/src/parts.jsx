// Small parts that all views are made of.
import {h, Fragment} from 'preact';
import {useEffect, useState, useRef} from 'preact/hooks';
import {now, token, live, post, Failed} from './store.js';
import {STATES, span, date, when, visible} from './format.js';

export function State({state}) {
  const [sign, tone] = STATES[state] || ['?', 'quiet'];
  return <span class={'state ' + tone}><span aria-hidden="true">{sign}</span> {state}</span>;
}

// Ago is a time as long as it is past, or to come; the whole of it in the title.
export function Ago({time, word = 'ago'}) {
  if (!time) return <>–</>;
  const t = Date.parse(time), d = now.value - t;
  return <time dateTime={time} title={date(t)}>{d >= 0 ? `${span(d)}${word ? ' ' + word : ''}` : `in ${span(-d)}`}</time>;
}
export const At = ({time}) => time ? <time dateTime={time} title={date(Date.parse(time))}>{when(Date.parse(time))}</time> : <>–</>;
// Left is a countdown.
export function Left({time}) {
  const d = Date.parse(time) - now.value;
  return <time dateTime={time} title={date(Date.parse(time))}>{d > 0 ? `in ${span(d)}` : 'now'}</time>;
}

// Type is a command to type, with a button that copies it.
export function Type({command}) {
  const [done, set] = useState(false);
  return <span class="type"><code>{visible(command)}</code><button type="button" class="small" onClick={() => copy(command).then(() => set(true))}>{done ? 'copied' : 'copy'}</button></span>;
}
export async function copy(text) {
  try { await navigator.clipboard.writeText(text); } catch {
    const area = document.createElement('textarea'); // without HTTPS there is no clipboard
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

// Remedy tells a command from a sentence.
export const Remedy = ({text}) => /^everline [a-z]/.test(text) ? <Type command={text} /> : <span>{visible(text)}</span>;

export const mayAct = () => token.value === 'ok' && live.value === 'live';

// Act is a button for who may act. What it did, or why not, is told beside it.
export function Act({label, run, danger, ask: question}) {
  const [state, set] = useState(null);
  if (!mayAct()) return null;
  const press = async () => {
    if (question && !(await confirmed(question))) return;
    set({busy: true});
    try { set({text: await run() || 'done'}); } catch (e) {
      if (e.name === 'AbortError') { set({text: 'given up'}); return; }
      if (!(e instanceof Failed) && !(e instanceof TypeError)) throw e;
      set({error: e.message, remedy: e.remedy});
    }
  };
  return <span class="act"><button type="button" class={danger ? 'danger' : ''} disabled={state?.busy} onClick={press}>{label}</button>
    {state?.text && <span role="status" class="quiet"> {state.text}</span>}
    {state?.error && <span role="alert" class="bad"> {visible(state.error)} {state.remedy && <Remedy text={state.remedy} />}</span>}</span>;
}

// Locked says how to get the right to act, where it is not there.
export function Locked() {
  if (token.value === 'ok') return null;
  return <p class="locked">{token.value === 'expired' ? 'The right to act has expired.' : 'You are looking.'} To act, type <Type command="everline ui" /></p>;
}

const dialogs = {};
export function Dialogs() {
  const [state, set] = useState(null);
  const box = useRef();
  dialogs.ask = (q) => new Promise((resolve) => set({...q, resolve}));
  useEffect(() => { if (state) box.current.showModal(); }, [state]);
  if (!state) return null;
  const close = (answer) => { box.current.close(); state.resolve(answer); set(null); }; // it gives the focus back
  return <dialog ref={box} aria-label={state.title} onCancel={() => close(false)}><form method="dialog" onSubmit={(e) => { e.preventDefault(); close(true); }}>
    <h2>{state.title}</h2><p>{state.text}</p>
    {state.type && <label>Type <code>{visible(state.type)}</code> to go on<input autofocus name="typed" onInput={(e) => { state.typed = e.target.value; set({...state}); }} /></label>}
    <p class="buttons"><button type="submit" class="danger" disabled={state.type && state.typed !== state.type}>{state.yes || 'Yes'}</button> <button type="button" autofocus={!state.type} onClick={() => close(false)}>Cancel</button></p>
  </form></dialog>;
}
export const confirmed = (q) => dialogs.ask(q);

// Load gets something for a view, again where the deps change. What was there
// before stays while it is asked for, and when that fails.
export function useLoad(load, deps) {
  const [state, set] = useState({});
  const again = useRef(0);
  const run = () => {
    const mine = ++again.current;
    load().then((data) => { if (mine === again.current) set({data, at: Date.now()}); },
      (error) => { if (mine === again.current) set((old) => ({...old, error})); });
  };
  useEffect(run, deps);
  return {...state, reload: run};
}

// Loaded shows what was loaded, how old it is if it cannot be loaded again, or why
// there is nothing.
export function Loaded({of, children}) {
  return <>{of.error && <p role="alert" class="bad">{visible(of.error.message)}{of.at && <> – this is <Ago time={new Date(of.at).toISOString()} word="old" /></>} <button type="button" class="small" onClick={of.reload}>try again</button></p>}
    {of.data ? children(of.data) : !of.error && <p class="quiet">loading …</p>}</>;
}

// questions are asked before something is done to a server.
export const questions = {
  restart: (name) => ({title: `Restart ${visible(name)}?`, text: 'Calls in flight may finish first; new ones wait for the next generation.', yes: 'Restart'}),
  disable: (name) => ({title: `Disable ${visible(name)}?`, text: 'It is stopped, and its calls are refused until it is enabled.', yes: 'Disable'}),
  enable: (name) => ({title: `Enable ${visible(name)}?`, text: 'It is started, and its calls are served again.', yes: 'Enable'}),
};
export const operate = (name, op) => post(`servers/${encodeURIComponent(name)}/${op}`).then(() => op + ' done');
