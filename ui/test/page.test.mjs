// What the page promises, in a browser, with the real binary behind it.
import {test, before, after} from 'node:test';
import assert from 'node:assert/strict';
import {mkdirSync} from 'node:fs';
import {join} from 'node:path';
import {createServer} from 'node:http';
import {AxeBuilder} from '@axe-core/playwright';
import {hostile} from './hostile.mjs';
import {Everline, scripted, launch, watched, open, until} from './harness.mjs';

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

const failing = (text) => ({command: 'sh', args: ['-c', `echo '${text}' >&2; exit 1`]});

const lane = (page, name, state) => page.locator(`[data-server="${name}"] rect[data-state="${state}"]`);

// shown is an everline with something of everything, and where its views are.
async function shown() {
  const big = {name: 'big', description: 'Takes everything. ' + hostile, inputSchema: {type: 'object', required: ['name'], properties: {
    name: {type: 'string', description: 'Who'}, size: {type: 'integer'}, kind: {enum: ['a', 'b']}, on: {type: 'boolean'}, when: {type: 'string', format: 'date'},
    list: {type: 'array', items: {type: 'object', properties: {x: {type: 'number'}}}}, either: {anyOf: [{type: 'string'}, {type: 'null'}]}, odd: {not: {type: 'string'}}}}};
  const e = await new Everline({everline: {pins: 'warn'}, mcpServers: {github: scripted(), postgres: scripted(), files: scripted({tools: [big]}), broken: failing('FATAL: no such database'), old: {...scripted(), disabled: true}}}).start();
  try {
    await e.connected('github'); await e.connected('files'); await e.connected('postgres');
    for (let i = 0; i < 25; i++) await e.call('github', 'query', {sql: 'select ' + i});
    const was = await e.server('github');
    process.kill(was.pid, 'SIGKILL');
    await e.call('github', 'query', {});
    await e.connected('github', was.generation);
    // postgres worked, and does not start any more: a call costs something.
    e.write({everline: {pins: 'warn'}, mcpServers: {github: scripted(), postgres: {...failing('FATAL: password authentication failed for user app'), everline: {parkFor: '1s'}}, files: scripted({tools: [{...big, description: 'Takes all'}]}), broken: failing('FATAL: no such database'), old: {...scripted(), disabled: true}}});
    await until('postgres is away', async () => (await e.server('postgres')).state === 'disconnected');
    await e.call('postgres', 'query', {}).then(() => assert.fail('answered'), () => {});
    await until('files has changed', async () => (await e.api('pins')).changes.length > 0);
    const call = (await e.api('calls?server=github')).calls[0].id;
    const views = {overview: '#/', table: '#/?as=table', server: '#/servers/github', 'server-calls': '#/servers/github/calls', 'server-tools': '#/servers/files/tools', 'server-logs': '#/servers/postgres/logs', 'server-config': '#/servers/github/config',
      calls: '#/calls', call: '#/calls/' + call, tools: '#/tools', tool: '#/tools/files__big', pins: '#/pins', events: '#/events', config: '#/config', connect: '#/connect', about: '#/about', none: '#/servers/nobody'};
    return {e, views};
  } catch (err) { await e.close(); throw err; }
}

const loaded = (page) => page.waitForFunction(() => document.querySelector('main > *') && !/loading …/.test(document.querySelector('main').textContent));

const images = process.env.UI_IMAGES;
test('the pictures of the docs', {skip: !images && 'IMAGES=1 makes them', timeout: 900e3}, async () => {
  const {e, views} = await shown();
  try {
    // Some minutes of a life: calls, a server that is killed, a drill.
    for (let i = 0; i < 100; i++) {
      await e.call('github', 'query', {sql: 'select ' + i});
      if (i % 40 === 30) process.kill((await e.connected('github')).pid, 'SIGKILL');
      if (i === 60) e.run('drill', 'files', '--fault', 'kill', '--for', '100ms', '--yes');
      await new Promise((r) => setTimeout(r, 1000));
    }
    mkdirSync(images, {recursive: true});
    for (const colorScheme of ['light', 'dark']) {
      const page = await watched(browser, {colorScheme});
      await open(page, e);
      await lane(page, 'github', 'connected').first().waitFor();
      for (const name of ['overview', 'server', 'calls', 'tool', 'pins']) {
        await page.evaluate((h) => { location.hash = h; }, views[name]);
        await loaded(page);
        await page.screenshot({path: join(images, `${name}-${colorScheme}.png`)});
      }
      page.clean();
      await page.context().close();
    }
  } finally { await e.close(); }
});

test('every view, in two themes and two sizes', {timeout: 1800e3}, async () => {
  const {e, views} = await shown(), wrong = [];
  try {
    for (const colorScheme of ['light', 'dark']) {
      const page = await watched(browser, {colorScheme});
      await open(page, e);
      await lane(page, 'github', 'connected').first().waitFor();
      for (const width of [1280, 360, 320]) { // 320 is 1280 at 400 %
        await page.setViewportSize({width, height: 900});
        for (const [name, path] of Object.entries(views)) {
          await page.evaluate((h) => { location.hash = h; }, path);
          await loaded(page);
          const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
          if (over !== 0) wrong.push(`${name} at ${width} scrolls sideways by ${over}`);
          if (width === 320) continue;
          const found = await new AxeBuilder({page}).setLegacyMode(true).options({resultTypes: ['violations']}).withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']).analyze();
          wrong.push(...found.violations.map((v) => `${name}, ${colorScheme}, ${width}: ${v.id}: ${v.nodes.map((n) => `${n.html} ${n.failureSummary}`).join(' | ').slice(0, 400)}`));
        }
      }
      page.clean();
      await page.context().close();
    }
    assert.deepEqual(wrong, []);
  } finally { await e.close(); }
});

test('a server that is killed: a red bar, a new generation, and what was saved', async () => {
  const e = await new Everline({mcpServers: {db: scripted()}}).start();
  try {
    await e.connected('db');
    const page = await watched(browser);
    await open(page, e);
    const s = await e.server('db');
    await page.waitForSelector(`.row[data-server=db][data-state=connected][data-generation="${s.generation}"]`);
    process.kill(s.pid, 'SIGKILL');
    await e.call('db', 'query');
    await page.waitForSelector(`.row[data-server=db][data-state=connected][data-generation="${s.generation + 1}"]`);
    await page.waitForSelector('.row[data-server=db] [data-mark=saved]');
    const red = page.locator('.row[data-server=db] rect:is([data-state=disconnected], [data-state=mixed])').first();
    await red.waitFor();
    assert.ok((await red.boundingBox()).width >= 2.5, 'the outage can be seen');
    // The keyboard reads the same.
    await page.locator('.row[data-server=db] .lane').focus();
    const read = new Set();
    for (let i = 0; i < 8; i++) { await page.keyboard.press('ArrowRight'); read.add(await page.locator('.row[data-server=db] .tip').textContent()); }
    assert.match([...read].join('\n'), /SIGKILL/);
    assert.match([...read].join('\n'), /1 saved/);
    page.clean();
    await page.context().close();
  } finally { await e.close(); }
});

test('everline is killed and comes back: a banner, a gap, and the tab may still act', async () => {
  const e = await new Everline({mcpServers: {db: scripted()}}).start();
  try {
    await e.connected('db');
    const page = await watched(browser);
    await open(page, e, '#/servers/db');
    await page.getByRole('button', {name: 'restart'}).waitFor();
    assert.ok(!page.url().includes('code='), page.url());
    await e.end('SIGKILL');
    await page.waitForSelector('[data-banner=lost]');
    assert.equal(await page.getByRole('button', {name: 'restart'}).count(), 0, 'no button that cannot work');
    await e.start();
    await page.waitForSelector('[data-banner=restarted]');
    await e.connected('db');
    await page.waitForSelector('article[data-server=db][data-state=connected]');
    await page.waitForSelector('.lane rect[data-state=gap]');
    const gen = (await e.server('db')).generation;
    await page.getByRole('button', {name: 'restart'}).click();
    await page.getByRole('button', {name: 'Restart', exact: true}).click();
    await e.connected('db', gen);
    await page.waitForSelector(`article[data-generation="${gen + 1}"]`);
    const by = (await e.api('events')).filter((ev) => ev.kind === 'operated');
    assert.deepEqual(by.map((ev) => [ev.server, ev.data.by, ev.data.action]), [['db', 'web', 'restart']]);
    // Who takes the right away takes it from the open tab.
    e.run('ui', '--revoke');
    await page.reload();
    await page.getByText('You are looking.').waitFor();
    page.bad = page.bad.filter((t) => !/401/.test(t));
    page.clean();
    await page.context().close();
  } finally { await e.close(); }
});

test('a thousand servers are painted within two seconds', async () => {
  const mcpServers = {};
  // Disabled: a thousand processes would measure the machine, and a lazy server starts once to be listed.
  for (let i = 0; i < 1000; i++) mcpServers['server-' + i] = {...scripted(), everline: {disabled: true}};
  const e = await new Everline({mcpServers}).start();
  try {
    const page = await watched(browser);
    page.host = new URL(e.url).host;
    // The budget is of CPU time, of everline and of the page's own thread: so it holds on a busy machine.
    const devtools = await page.context().newCDPSession(page);
    await devtools.send('Performance.enable', {timeDomain: 'threadTicks'});
    const before = e.cpu(), began = performance.now();
    await page.goto(e.url + '/ui/', {waitUntil: 'commit'});
    await page.waitForSelector('.row[data-server=server-0]');
    const took = performance.now() - began;
    const nodes = await page.evaluate(() => document.querySelectorAll('*').length);
    const page_ = (await devtools.send('Performance.getMetrics')).metrics.find((m) => m.name === 'TaskDuration').value * 1000, own = e.cpu() - before;
    console.log(`# 1,000 servers: first paint after ${Math.round(took)} ms (CPU: page ${Math.round(page_)} ms, everline ${own} ms), ${nodes} nodes`);
    assert.ok(page_ + own <= 2000, `${page_} + ${own} ms`);
    assert.ok(nodes <= 3000, `${nodes} nodes`);
    await page.fill('#filter', 'server-999');
    await page.waitForSelector('.row[data-server=server-999]');
    await page.fill('#filter', '');
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight / 2));
    await page.waitForFunction(() => [...document.querySelectorAll('.row[data-server]')].some((r) => r.dataset.server === 'server-500'));
    assert.ok(await page.evaluate(() => document.querySelectorAll('*').length) <= 3000);
    page.clean();
    await page.context().close();
  } finally { await e.close(); }
});

test('hostile texts are texts', async () => {
  const name = 'a<b onclick=alert(3)>';
  const e = await new Everline({mcpServers: {[name]: scripted({hostile: true}), other: scripted()}}).start();
  try {
    await e.connected(name);
    const page = await watched(browser);
    await open(page, e, '#/tools');
    await page.locator('.list a', {hasText: 'evil'}).click();
    await page.getByRole('button', {name: 'call'}).click();
    await page.getByRole('heading', {name: /Result/}).waitFor();
    assert.match(await page.locator('.result pre').first().textContent(), /<img src=x onerror=alert\(1\)>.*⟨U\+202E⟩gnp\.exe⟨U\+200B⟩/s);
    await page.evaluate((n) => { location.hash = '#/servers/' + encodeURIComponent(n) + '/logs'; }, name);
    await page.locator('.log', {hasText: '<script>alert(2)'}).waitFor();
    assert.equal(await page.locator('main img, main script, main b[onclick]').count(), 0);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0);
    page.clean();
    await page.context().close();
  } finally { await e.close(); }
});

test('a form sends what was typed, digit by digit, and drops nothing', async () => {
  const root = {type: 'object', required: ['id', 'deep'], $defs: {node: {type: 'object', properties: {next: {$ref: '#/$defs/node'}, n: {type: 'number'}}}}, properties: {
    id: {type: 'integer'}, ratio: {type: 'number'}, on: {type: 'boolean'}, kind: {oneOf: [{const: 'x', title: 'The X'}, {const: 'y', title: 'The Y'}]}, deep: {$ref: '#/$defs/node'},
    odd: {if: {type: 'string'}, then: {minLength: 1}}, tags: {type: 'array', items: {type: 'string'}}, both: {allOf: [{type: 'string'}, {minLength: 2}]}, huge: {const: 1}}};
  const e = await new Everline({mcpServers: {db: scripted({tools: [{name: 'take', inputSchema: root, annotations: {readOnlyHint: true}}]})}}).start();
  try {
    await e.connected('db');
    const page = await watched(browser);
    await open(page, e, '#/tools/take');
    const field = (name) => page.locator('label, fieldset', {has: page.locator(`.label:text-matches("^${name}\\\\b")`)}).last();
    await field('id').locator('input').fill('12345678901234567890');
    await field('ratio').locator('input').fill('1.10');
    await field('on').locator('select').selectOption({label: 'true'});
    await field('kind').locator('select').first().selectOption({label: 'The Y'});
    await field('odd').locator('textarea').fill('{"any": [1.0, "thing"]}');
    await field('tags').getByRole('button', {name: 'add'}).click();
    await field('tags').locator('textarea').fill('one');
    await field('both').locator('textarea').fill('ok');
    await field('n').locator('input').first().fill('1e400');
    await page.getByRole('button', {name: 'call'}).click();
    await page.getByRole('heading', {name: /Result/}).waitFor();
    const line = await page.locator('.result pre').first().textContent();
    for (const part of ['"id":12345678901234567890', '"ratio":1.10', '"on":true', '"kind":"y"', '"odd":{"any": [1.0, "thing"]}', '"tags":["one"]', '"both":"ok"', '"n":1e400']) assert.ok(line.includes(part), `${part} is not in ${line}`);
    await page.getByLabel('as JSON').check();
    assert.match(await page.locator('#arguments').inputValue(), /12345678901234567890/);
    // What is no number is not sent at all.
    await page.getByLabel('as JSON').uncheck();
    await field('id').locator('input').fill('12a');
    await page.getByText('cannot be sent yet').waitFor();
    assert.equal(await page.getByRole('button', {name: 'call', exact: true}).count(), 0);
    page.clean();
    await page.context().close();
  } finally { await e.close(); }
});

test('the page says what status says', {timeout: 120e3}, async () => {
  const mcpServers = {up: scripted(), away: failing('no'), lazy: {...scripted(), everline: {lazy: true}}, off: {...scripted(), disabled: true}, wrong: {url: 'nonsense://x'}, gone: {command: '/nonexistent/program'}};
  const e = await new Everline({mcpServers}).start();
  try {
    await e.connected('up');
    const page = await watched(browser);
    await open(page, e);
    const facts = (s) => ({state: s.state, generation: String(s.generation), calls: String(s.calls), out: String(s.out), waiting: String(s.waiting), saved: String(s.saved), attempt: String(s.attempt), unknown: String(s.outcomes.unknown), since: s.awaySince || '', cause: s.cause || '', next: s.nextAttempt || ''});
    const same = async (what) => until('the same after ' + what, async () => {
      const status = Object.fromEntries(e.status().servers.map((s) => [s.name, facts(s)]));
      const dom = await page.evaluate(() => Object.fromEntries([...document.querySelectorAll('.row[data-server]')].map(({dataset: d}) => [d.server, {state: d.state, generation: d.generation, calls: d.calls, out: d.out, waiting: d.waiting, saved: d.saved, attempt: d.attempt, unknown: d.outcomeUnknown, since: d.awaySince, cause: d.cause, next: d.nextAttempt}])));
      assert.deepEqual(dom, status);
      return true;
    });
    await same('the start');
    const steps = [
      ['calls', () => Promise.all(Array.from({length: 7}, () => e.call('up', 'query')))], ['a kill', async () => { const s = await e.connected('up'); process.kill(s.pid, 'SIGKILL'); await e.connected('up', s.generation); }],
      ['disable', () => e.post('servers/up/disable')], ['enable', () => e.post('servers/up/enable')], ['a lazy start', () => e.post('servers/lazy/reconnect')], ['enabling another', () => e.post('servers/off/enable')], ['a reconnect', () => e.post('servers/away/reconnect')],
    ];
    let seed = 20260101;
    const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
    for (let i = 0; i < 10; i++) { const [what, run] = steps[random(steps.length)]; await run().catch(() => {}); await same(what); }
    page.clean();
    await page.context().close();
  } finally { await e.close(); }
});

test('the keyboard is enough', async () => {
  const e = await new Everline({mcpServers: {one: scripted(), two: scripted()}}).start();
  try {
    await e.connected('two');
    const page = await watched(browser);
    await open(page, e);
    await page.waitForSelector('.row[data-server=two]');
    const at = (hash) => page.waitForFunction((h) => location.hash === h, hash);
    for (const [keys, hash] of [[['j', 'j', 'l'], '#/servers/two/logs'], [['g', 'c'], '#/calls'], [['g', 't'], '#/tools'], [['?'], '#/about'], [['g', 'o'], '#/']]) {
      for (const k of keys) await page.keyboard.press(k);
      await at(hash);
    }
    await page.keyboard.press('/');
    await page.keyboard.type('tw');
    await page.waitForFunction(() => document.querySelectorAll('.row[data-server]').length === 1);
    await page.keyboard.press('Escape');
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await at('#/servers/two');
    // What is done by a key is asked for first.
    for (const k of ['g', 'o']) await page.keyboard.press(k);
    await page.locator('.row[data-server=two] a').first().focus();
    for (const [key, button, state] of [['d', 'Disable', 'disabled'], ['e', 'Enable', 'connected']]) {
      await page.keyboard.press(key);
      await page.getByRole('button', {name: button, exact: true}).waitFor();
      await page.keyboard.press('Shift+Tab');
      await page.keyboard.press('Enter');
      await page.waitForSelector(`.row[data-server=two][data-state=${state}]`);
      assert.ok(await page.evaluate(() => document.activeElement.closest('[data-server=two]')), 'the focus is back');
    }
    await page.locator('.sr[aria-live]', {hasText: 'two is'}).waitFor({state: 'attached'}); // it is chosen
    page.clean();
    await page.context().close();
  } finally { await e.close(); }
});

test('a page of another origin gets nothing', async () => {
  const e = await new Everline({mcpServers: {db: scripted()}}).start();
  const other = createServer((_, w) => w.end('<!doctype html><title>x</title>')).listen(0, '127.0.0.1');
  const port = new URL(e.url).port, evil = await launch([`--host-resolver-rules=MAP evil.test 127.0.0.1`]);
  try {
    await until('the other one listens', () => other.address());
    const token = await e.token();
    const page = await (await evil.newContext()).newPage();
    const steal = (url) => page.evaluate(([u, t]) => fetch(u, {headers: {Authorization: 'Bearer ' + t}}).then((r) => r.status, () => 'blocked'), [url, token]);
    await page.goto(`http://127.0.0.1:${other.address().port}/`);
    assert.equal(await steal(`${e.url}/api/v1/status`), 'blocked', 'from another port');
    assert.equal(await page.evaluate((u) => fetch(u, {mode: 'no-cors'}).then((r) => r.type, () => 'blocked'), `${e.url}/api/v1/status`), 'blocked', 'without asking for the answer');
    const answer = await page.goto(`http://evil.test:${port}/ui/`);
    assert.equal(answer.status(), 403, 'under a name that was rebound');
    assert.equal(await steal(`http://evil.test:${port}/api/v1/status`), 403);
  } finally { await evil.close(); other.close(); await e.close(); }
});

test('no server: the page says which commands bring some', async () => {
  const e = await new Everline({mcpServers: {}}).start();
  try {
    const page = await watched(browser);
    await page.visit(e.url + '/ui/');
    await page.getByText('everline import').waitFor();
    // A tab without a code looks, and says how to act.
    e.write({mcpServers: {db: scripted()}});
    e.run('reload');
    await page.waitForSelector('.row[data-server=db]');
    await page.getByText('everline ui').first().waitFor();
    page.clean();
    await page.context().close();
  } finally { await e.close(); }
});
