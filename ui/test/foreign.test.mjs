// What pages of other sites can do to the endpoint, in a browser on the user's own
// machine: nothing. A tool of the server behind it counts what is executed.
import {test, before, after} from 'node:test';
import assert from 'node:assert/strict';
import {createServer} from 'node:http';
import {connect, createServer as listen} from 'node:net';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {Everline, scripted, launch, until} from './harness.mjs';

let browser, site, folder;
before(async () => {
  // Every name of .example is this machine: a foreign site, whose pages ask for ours.
  browser = await launch(['--host-resolver-rules=MAP *.example 127.0.0.1']);
  site = createServer((req, res) => { res.setHeader('Content-Type', 'text/html'); res.end('<!doctype html><title>a page</title><body>'); });
  await new Promise((r) => site.listen(0, '127.0.0.1', r));
  folder = mkdtempSync(join(tmpdir(), 'everline-foreign-'));
});
after(async () => { await browser.close(); site.closeAllConnections(); site.close(); rmSync(folder, {recursive: true, force: true}); });

const port = () => site.address().port;
const modern = {'Mcp-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call', 'Mcp-Name': 'query'};
const meta = {'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo': {name: 'page', version: '1'}, 'io.modelcontextprotocol/clientCapabilities': {}};
const rpc = (method, params) => JSON.stringify({jsonrpc: '2.0', id: 1, method, params});
const call = rpc('tools/call', {name: 'query', arguments: {}, _meta: meta});
const json = {'Content-Type': 'application/json', Accept: 'application/json, text/event-stream'};

// served is an everline whose server counts its calls, with a session of each
// transport that has them: what a page may have learned.
async function served(name, everline = {}, flags = []) {
  const calls = join(folder, name);
  writeFileSync(calls, '');
  const e = await new Everline({everline, mcpServers: {db: scripted({calls})}}, flags).start();
  e.executed = () => readFileSync(calls, 'utf8').split('\n').length - 1;
  try {
    await until('db is connected', () => e.status().servers[0].state === 'connected');
    e.known = {base: e.url, call, json, modern, headers: {}};
    if (everline.auth?.tokens) e.known.headers = {Authorization: 'Bearer ' + e.run('token', 'create', 'page').trim()};
    await until('the token is taken', async () => (await fetch(e.url + '/readyz', {headers: e.known.headers})).status === 200);
    const hello = await fetch(e.url + '/mcp', {method: 'POST', headers: {...json, ...e.known.headers}, body: rpc('initialize', {protocolVersion: '2025-11-25', capabilities: {}, clientInfo: {name: 'page', version: '1'}})});
    e.known.session = hello.headers.get('Mcp-Session-Id');
    assert.ok(e.known.session, 'a session for the page to know');
    const sse = await fetch(e.url + '/sse', {headers: {Accept: 'text/event-stream', ...e.known.headers}});
    e.reader = sse.body.getReader();
    for (let said = ''; !e.known.messages;) {
      said += new TextDecoder().decode((await e.reader.read()).value);
      const told = /data: \/?(\S+)\n/.exec(said);
      if (told) e.known.messages = e.url + '/' + told[1];
    }
    const legit = await fetch(e.known.messages, {method: 'POST', headers: {...json, ...e.known.headers}, body: call});
    assert.equal(legit.status, 202, 'the session of HTTP+SSE works');
    await until('the counter counts', () => e.executed() === 1);
  } catch (err) { await e.close(); throw err; }
  return e;
}

// attack tries what a page can do, and tells what it could read. It runs in the page.
const attack = async ({base, call, json, modern, headers, session, messages}) => {
  const read = [], ended = [];
  const attempt = (name, run) => ended.push(Promise.race([
    (async () => { const got = await run(); if (got) read.push(name + ': ' + got); })().catch(() => {}),
    new Promise((r) => setTimeout(r, 5000)),
  ]));
  const fetched = (name, url, options) => attempt(name, async () => {
    const r = await fetch(url, options);
    return r.type === 'opaque' ? '' : r.status + ' ' + await r.text();
  });
  const plain = {'Content-Type': 'text/plain;charset=UTF-8'};
  for (const credentials of ['omit', 'include']) {
    for (const [kind, url] of [['mcp', base + '/mcp'], ['messages', messages], ['sse', base + '/sse'], ['page', base + '/api/v1/call']]) {
      const name = `${kind}, ${credentials}: `;
      fetched(name + 'simple', url, {method: 'POST', body: call, credentials});
      fetched(name + 'no-cors', url, {method: 'POST', mode: 'no-cors', headers: plain, body: call, credentials});
      fetched(name + 'no-cors JSON', url, {method: 'POST', mode: 'no-cors', body: new Blob([call], {type: 'application/json'}), credentials});
      fetched(name + 'JSON', url, {method: 'POST', headers: {...json, ...modern}, body: call, credentials});
      fetched(name + 'JSON, all that is known', url, {method: 'POST', headers: {...json, ...modern, ...headers}, body: call, credentials});
      fetched(name + 'JSON in a session', url, {method: 'POST', headers: {...json, ...headers, 'Mcp-Session-Id': session}, body: call, credentials});
      fetched(name + 'keepalive', url, {method: 'POST', keepalive: true, body: call, credentials});
      fetched(name + 'GET', url, {credentials});
      fetched(name + 'DELETE', url, {method: 'DELETE', headers: {'Mcp-Session-Id': session}, credentials});
    }
  }
  for (const url of [base + '/mcp', messages]) {
    navigator.sendBeacon?.(url, call);
    navigator.sendBeacon?.(url, new Blob([call], {type: 'text/plain'}));
    try { navigator.sendBeacon?.(url, new Blob([call], {type: 'application/json'})); } catch { /* may be forbidden outright */ }
    for (const enctype of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
      attempt('form ' + enctype, () => new Promise((r) => {
        const frame = document.createElement('iframe'), form = document.createElement('form');
        frame.name = 'f' + Math.random();
        Object.assign(form, {action: url, method: 'POST', enctype, target: frame.name});
        const input = Object.assign(document.createElement('input'), {name: call.slice(0, -1) + ',"x":"', value: '"}'});
        form.append(input);
        document.body.append(frame, form);
        frame.addEventListener('load', () => r(''));
        form.submit();
      }));
    }
    attempt('XMLHttpRequest', () => new Promise((r) => {
      const x = new XMLHttpRequest();
      x.open('POST', url);
      x.onloadend = () => r(x.responseText);
      x.send(call);
    }));
  }
  for (const path of ['/mcp', '/sse', '/readyz', '/metrics', '/api/v1/servers']) {
    attempt('EventSource ' + path, () => new Promise((r) => {
      const s = new EventSource(base + path, {withCredentials: true});
      s.onmessage = (m) => r(m.data);
      s.addEventListener('endpoint', (m) => r(m.data));
      s.onerror = () => { s.close(); r(''); };
    }));
    attempt('WebSocket ' + path, () => new Promise((r) => {
      const s = new WebSocket(base.replace('http', 'ws') + path);
      s.onopen = () => { s.send(call); r('open'); };
      s.onerror = () => r('');
    }));
    for (const element of ['img', 'script']) {
      attempt(element + ' ' + path, () => new Promise((r) => {
        const el = Object.assign(document.createElement(element), {src: base + path, onload: () => r('loaded'), onerror: () => r('')});
        document.body.append(el);
      }));
    }
  }
  await Promise.all(ended);
  return read;
};

// from opens a page, runs fn in its frame of a kind, and waits until all of its
// requests are over.
async function from(url, fn, known, {frame = 'own', loaded} = {}) {
  const context = await browser.newContext(), page = await context.newPage();
  let open = 0, all = 0;
  page.on('request', () => { open++; all++; });
  for (const over of ['requestfinished', 'requestfailed']) page.on(over, () => { open--; });
  try {
    await page.goto(url);
    loaded?.();
    let where = page.mainFrame();
    if (frame === 'opaque') {
      await page.evaluate(() => { document.body.append(Object.assign(document.createElement('iframe'), {sandbox: 'allow-scripts allow-forms', srcdoc: '<!doctype html><body>'})); });
      where = await until('the frame is there', () => page.frames().find((f) => f !== page.mainFrame()));
    }
    const read = await where.evaluate(fn, known);
    await until('all requests are over', () => open <= 0);
    return {read, all};
  } finally { await context.close(); }
}

// A name that led to the attacker when its page was loaded, and leads to us from then on.
async function rebinding(e) {
  const at = new URL(e.url), sockets = new Set();
  let bound = false;
  const server = listen((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    if (!bound) return socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<!doctype html><body>'));
    const ours = connect(at.port, at.hostname, () => { socket.pipe(ours).pipe(socket); });
    sockets.add(ours);
    ours.on('error', () => socket.destroy());
  });
  await new Promise((r) => server.listen(0, '127.0.0.1', r));
  return {name: 'http://rebind.example:' + server.address().port, bind: () => { bound = true; }, close: () => { for (const s of sockets) s.destroy(); server.close(); }};
}

const foreign = () => [
  ['a foreign site', `http://evil.example:${port()}/`],
  ['another port of localhost', `http://localhost:${port()}/`],
  ['another port of 127.0.0.1', `http://127.0.0.1:${port()}/`],
  ['a frame without an origin', `http://evil.example:${port()}/`, {frame: 'opaque'}],
];

for (const [how, everline] of [['the user is known', {}], ['a token is asked for', {clients: 'tokens', auth: {tokens: true}}]]) {
  test(`pages of other sites execute nothing where ${how}`, {timeout: 300e3}, async () => {
    const e = await served(how, everline);
    try {
      for (const [name, url, options] of foreign()) {
        const {read, all} = await from(url, attack, e.known, options);
        assert.ok(all > 90, `${name}: the browser made ${all} requests`);
        assert.deepEqual(read, [], name + ' reads something');
        assert.equal(e.executed(), 1, name + ' executes something');
      }
      // DNS rebinding: to the browser it is the page's own origin, which may read what it is told.
      const r = await rebinding(e);
      try {
        const {read} = await from(r.name + '/', attack, {...e.known, base: r.name, messages: e.known.messages.replace(e.url, r.name)}, {loaded: r.bind});
        const [forbidden, more] = [read.filter((t) => /: 403 |not served under the name/.test(t)), read.filter((t) => !/: 403 |not served under the name/.test(t))];
        assert.ok(forbidden.length > 50, `${forbidden.length} requests of a page under a name that was bound to us were refused`);
        assert.deepEqual(more, [], 'it reads something');
        assert.equal(e.executed(), 1, 'it executes something');
      } finally { r.close(); }
      const refused = Number(/everline_requests_refused_total\{reason="origin"\} (\d+)/.exec(await (await fetch(e.url + '/metrics', {headers: e.known.headers})).text())[1]);
      assert.ok(refused > 100, `${refused} requests reached us, and were refused`);
      await e.reader.cancel();
    } finally { await e.close(); }
  });
}

test('a page that posts a form and goes there executes nothing', async () => {
  const e = await served('top');
  try {
    const context = await browser.newContext(), page = await context.newPage();
    await page.goto(`http://evil.example:${port()}/`);
    const answered = page.waitForResponse(e.known.messages);
    await page.evaluate(({call, messages}) => {
      const form = Object.assign(document.createElement('form'), {action: messages, method: 'POST', enctype: 'text/plain'});
      form.append(Object.assign(document.createElement('input'), {name: call.slice(0, -1) + ',"x":"', value: '"}'}));
      document.body.append(form);
      form.submit();
    }, e.known);
    assert.equal((await answered).status(), 403);
    assert.equal(e.executed(), 1);
    await context.close();
    await e.reader.cancel();
  } finally { await e.close(); }
});

test('a page of an allowed origin works, and no other', async () => {
  const origin = `http://localhost:${port()}`;
  const e = await served('allowed', {clients: 'tokens', auth: {tokens: true}}, ['--allow-origin', origin]);
  try {
    const ask = async ({base, call, json, modern, headers}) => {
      const post = async (more) => {
        try {
          const r = await fetch(base + '/mcp', {method: 'POST', headers: {...json, ...modern, ...more}, body: call});
          return [r.status, r.headers.get('WWW-Authenticate'), (await r.text()).includes('"result"')];
        } catch { return 'unreadable'; }
      };
      return [await post({}), await post(headers)];
    };
    assert.deepEqual((await from(origin + '/', ask, e.known)).read, [[401, 'Bearer', false], [200, null, true]]);
    assert.equal(e.executed(), 2);
    assert.deepEqual((await from(`http://127.0.0.1:${port()}/`, ask, e.known)).read, ['unreadable', 'unreadable']);
    assert.equal(e.executed(), 2);
    await e.reader.cancel();
  } finally { await e.close(); }
});

test('what is open to every page: where to log in, and the way back from there', async () => {
  const e = await served('public', {auth: {tokens: true, oidc: [{issuer: 'http://127.0.0.1:9'}]}});
  try {
    const look = async ({base}) => (await (await fetch(base + '/.well-known/oauth-protected-resource/mcp', {headers: {'MCP-Protocol-Version': '2025-11-25'}})).json()).resource;
    assert.equal((await from(`http://evil.example:${port()}/`, look, e.known)).read, e.url + '/mcp');
    const context = await browser.newContext(), page = await context.newPage();
    await page.goto(`http://issuer.example:${port()}/`);
    const back = page.waitForResponse((r) => r.url().startsWith(e.url));
    await page.evaluate((to) => { location.href = to; }, e.url + '/oauth/callback?code=x&state=nobody');
    assert.equal((await back).status(), 400, 'the login is unknown, and not the page');
    await context.close();
    await e.reader.cancel();
  } finally { await e.close(); }
});
