// What the page does while it stays open: recording, zooming, and nothing where nobody
// looks.
import {test, before, after} from 'node:test';
import assert from 'node:assert/strict';
import {Everline, scripted, launch, watched, open, until} from './harness.mjs';

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

test('arguments are recorded where a person asks for it, and every tab says so', async () => {
  const e = await new Everline({mcpServers: {db: scripted()}}).start();
  try {
    await e.connected('db');
    const page = await watched(browser), other = await watched(browser);
    await other.visit(e.url + '/ui/');
    await open(page, e, '#/servers/db/calls');
    await page.getByRole('button', {name: 'record arguments for 10 min'}).click();
    await page.getByRole('button', {name: 'Record', exact: true}).click();
    await other.waitForSelector('[data-banner=recording]');
    await e.call('db', 'query', {sql: 'select 1', password: 'hunter2', deep: {api_key: 'k-123'}});
    await page.locator('[data-captured=query] summary').click();
    const text = await page.locator('[data-captured=query] pre').textContent();
    assert.match(text, /select 1/);
    assert.doesNotMatch(text, /hunter2|k-123/);
    await page.locator('tr[data-call]', {hasText: 'web page'}).first().waitFor();
    await page.getByRole('button', {name: 'stop, and forget them'}).click();
    await other.waitForSelector('[data-banner=recording]', {state: 'detached'});
    assert.equal((await e.api('servers/db/captured', {headers: {Authorization: 'Bearer ' + await e.token()}})).length, 0);
    page.clean(); other.clean();
    await page.context().close(); await other.context().close();
  } finally { await e.close(); }
});

test('a configuration that is pasted is read, and neither started nor kept', async () => {
  const e = await new Everline({mcpServers: {db: scripted()}}).start();
  try {
    const page = await watched(browser);
    await open(page, e, '#/config');
    const paste = async (text) => { await page.getByLabel(/Paste what/).fill(text); await page.getByRole('button', {name: 'check it'}).click(); };
    await paste('{"mcpServers": {"files": {"command": "npx", "args": ["-y", "thing"], "env": {"API_TOKEN": "abcdefghijklmnop1"}}, "db": {"url": "https://db.example/mcp", "typo": 1}}}');
    await page.locator('[data-pasted=files] code', {hasText: "everline add files --env 'API_TOKEN=${API_TOKEN}' -- npx -y thing"}).waitFor();
    await page.locator('[data-pasted=db]', {hasText: 'would be replaced'}).waitFor();
    await page.locator('.warning', {hasText: /pasted\.json:1.*typo/}).first().waitFor();
    await paste('{"mcpServers": {');
    await page.getByRole('alert').filter({hasText: /pasted\.json:1/}).waitFor();
    assert.equal(e.status().servers.length, 1);
    page.bad = page.bad.filter((t) => !/422/.test(t));
    page.clean();
    await page.context().close();
  } finally { await e.close(); }
});

test('a hidden tab does nothing, and goes on where it was', async () => {
  const e = await new Everline({mcpServers: {db: scripted()}}).start();
  try {
    await e.connected('db');
    const page = await watched(browser);
    await page.clock.install();
    await page.addInitScript(() => {
      let hidden = false;
      Object.defineProperty(document, 'hidden', {get: () => hidden});
      window.hide = (h) => { hidden = h; document.dispatchEvent(new Event('visibilitychange')); };
    });
    const asked = [];
    page.on('request', (r) => { if (/\/api\//.test(r.url())) asked.push(r.url().split('/v1/')[1].split('?')[0] + (r.headers()['last-event-id'] ? ' again' : '')); });
    await open(page, e);
    await page.waitForSelector('.row[data-server=db][data-state=connected]');
    await page.evaluate(() => window.hide(true));
    await page.clock.fastForward(61e3);
    asked.length = 0;
    const s = await e.server('db');
    process.kill(s.pid, 'SIGKILL');
    const next = await e.connected('db', s.generation);
    await page.clock.fastForward(20 * 60e3);
    assert.deepEqual(asked, [], 'while it is hidden it asks for nothing');
    assert.equal(await page.locator('.row[data-server=db]').getAttribute('data-generation'), String(s.generation), 'it has heard of nothing');
    await page.evaluate(() => window.hide(false));
    await page.clock.runFor(2000);
    await page.waitForSelector(`.row[data-server=db][data-generation="${next.generation}"]`);
    assert.ok(asked.includes('stream again'), `it goes on behind what it has seen: ${asked}`);
    // Hidden for a moment it stays.
    asked.length = 0;
    await page.evaluate(() => window.hide(true));
    await page.clock.runFor(30e3);
    await page.evaluate(() => window.hide(false));
    await page.clock.runFor(1000);
    assert.ok(!asked.some((a) => a.startsWith('stream')), String(asked));
    page.clean();
    await page.context().close();
  } finally { await e.close(); }
});

test('lanes are zoomed by wheel, fingers and keys, and quiet times are folded', async () => {
  const e = await new Everline({mcpServers: {db: scripted()}}).start();
  try {
    const s = await e.connected('db');
    const page = await watched(browser);
    await open(page, e, '#/?window=6h');
    await page.locator('.row[data-server=db] rect[data-state=connected]').first().waitFor();
    const ticks = () => page.locator('.axis .at').allTextContents().then(String);
    const box = await page.locator('.axis').boundingBox();
    const changes = async (what, act) => { const before = await ticks(); await act(); await until(what, async () => (await ticks()) !== before); };
    await page.mouse.move(box.x + box.width / 2, box.y + 5);
    await page.keyboard.down('Control');
    await changes('the wheel', () => page.mouse.wheel(0, -300));
    await page.keyboard.up('Control');
    await changes('the key', () => page.keyboard.press('-'));
    const finger = (type, id, x) => page.locator('.axis').dispatchEvent(type, {pointerId: id, clientX: box.x + x, clientY: box.y + 5, pointerType: 'touch', bubbles: true});
    await changes('two fingers', async () => {
      await finger('pointerdown', 11, 200); await finger('pointerdown', 12, 260);
      for (const x of [320, 400, 500]) await finger('pointermove', 12, x);
      await finger('pointerup', 11, 200); await finger('pointerup', 12, 500);
    });
    await page.keyboard.press('0');
    process.kill(s.pid, 'SIGKILL');
    await e.connected('db', s.generation);
    await page.getByRole('button', {name: '24h'}).click();
    await page.getByLabel('fold quiet times').check();
    await page.locator('.row[data-server=db] [data-fold]').first().waitFor();
    assert.match(page.url(), /fold=1/);
    const red = page.locator('.row[data-server=db] rect:is([data-state=disconnected], [data-state=mixed])').first();
    await red.waitFor();
    assert.ok((await red.boundingBox()).width >= 2.5);
    await page.getByLabel('fold quiet times').uncheck();
    await page.locator('[data-fold]').first().waitFor({state: 'detached'});
    // Enter goes to the event behind an outage.
    await page.getByRole('button', {name: '15m'}).click();
    await page.locator('.row[data-server=db] .lane').focus();
    for (let i = 0; i < 10; i++) {
      await page.keyboard.press('ArrowRight');
      if (/SIGKILL/.test(await page.locator('.row[data-server=db] .tip').textContent())) break;
    }
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => /^#\/events\?server=db&at=\d+/.test(location.hash));
    await page.locator('li.here', {hasText: 'SIGKILL'}).waitFor();
    // The calls of the last minutes are a small picture.
    for (let i = 0; i < 3; i++) await e.call('db', 'query');
    await page.evaluate(() => { location.hash = '#/'; });
    await page.reload();
    await page.locator('.row[data-server=db] .spark').waitFor();
    page.clean();
    await page.context().close();
  } finally { await e.close(); }
});

test('a drill is a mark', async () => {
  const e = await new Everline({mcpServers: {db: scripted()}}).start();
  try {
    await e.connected('db');
    const page = await watched(browser);
    await open(page, e);
    e.run('drill', 'db', '--fault', 'kill', '--for', '100ms', '--yes');
    await page.locator('.row[data-server=db] [data-mark=drill]').waitFor();
    page.clean();
    await page.context().close();
  } finally { await e.close(); }
});

test('a tab that stays open costs next to nothing, and grows no heap in a day', {timeout: 300e3}, async () => {
  const mcpServers = Object.fromEntries(Array.from({length: 10}, (_, i) => ['s' + i, scripted()]));
  const e = await new Everline({mcpServers}).start();
  try {
    for (const name of Object.keys(mcpServers)) await e.connected(name);
    const page = await watched(browser);
    await open(page, e);
    await page.getByRole('button', {name: '1h'}).click();
    await page.waitForSelector('.row[data-server=s9][data-state=connected]');
    const devtools = await page.context().newCDPSession(page);
    await devtools.send('Performance.enable', {timeDomain: 'threadTicks'});
    const metric = async (name) => (await devtools.send('Performance.getMetrics')).metrics.find((m) => m.name === name).value;
    const [busy, began] = [await metric('TaskDuration'), performance.now()];
    await new Promise((r) => setTimeout(r, 20e3)); // what is measured is time
    const share = ((await metric('TaskDuration')) - busy) / ((performance.now() - began) / 1000);
    // A day in steps of five minutes, with something to tell in each.
    await page.close();
    const day = await page.context().newPage();
    await day.clock.install();
    await open(Object.assign(day, {visit: (url) => day.goto(url)}), e);
    const heap = await page.context().newCDPSession(day);
    const used = async () => { await heap.send('HeapProfiler.collectGarbage'); return (await heap.send('Runtime.getHeapUsage')).usedSize / 2 ** 20; };
    const first = await used();
    for (let i = 0; i < 288; i++) {
      await e.call('s' + (i % 10), 'query', {sql: 'x'.repeat(1000)});
      await day.clock.fastForward(300e3);
    }
    await day.clock.runFor(20e3);
    await day.waitForSelector('[data-live=live]');
    const last = await used();
    console.log(`# a tab: ${(share * 100).toFixed(2)} % of a core while nothing happens; heap ${first.toFixed(1)} MiB, and ${last.toFixed(1)} after a day`);
    assert.ok(share <= .01, `${share * 100} % of a core`);
    assert.ok(last <= 60, `${last} MiB`);
    await day.context().close();
  } finally { await e.close(); }
});
