// Starts the real binary with scripted servers, and a browser on its page.
import {spawn, execFileSync} from 'node:child_process';
import {mkdtempSync, writeFileSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join, dirname} from 'node:path';
import {fileURLToPath} from 'node:url';
import assert from 'node:assert/strict';
import {chromium} from 'playwright-core';

const here = dirname(fileURLToPath(import.meta.url));
const binary = process.env.EVERLINE;
const executablePath = process.env.CHROMIUM || '/usr/bin/chromium';

export const scripted = (script = {}) => ({command: process.execPath, args: [join(here, 'server.mjs'), JSON.stringify(script)]});

// until waits for something to be true, and says what was not.
export async function until(what, look, limit = 120e3) {
  const end = Date.now() + limit;
  for (let last; ;) {
    try { const got = await look(); if (got) return got; last = got; } catch (e) { last = e; }
    if (Date.now() > end) assert.fail(`${what}: not within ${limit} ms; last: ${last?.stack || last}`);
    await new Promise((r) => setTimeout(r, 25));
  }
}

export class Everline {
  constructor(config, flags = []) {
    this.flags = flags;
    this.dir = mkdtempSync(join(tmpdir(), 'everline-ui-'));
    this.file = join(this.dir, 'everline.json');
    this.write(config);
  }
  write(config) { writeFileSync(this.file, JSON.stringify(config, null, 2), {mode: 0o600}); }

  async start() {
    const args = ['serve', '--config', 'everline.json', '--state-dir', join(this.dir, 'state'), '--listen', this.address || '127.0.0.1:0', '--log-level', 'error', ...this.flags];
    this.process = spawn(binary, args, {stdio: ['ignore', 'ignore', 'pipe'], cwd: this.dir});
    let said = '';
    this.process.stderr.on('data', (d) => { said += d; });
    this.url = await until('everline serves', () => {
      if (this.process.exitCode !== null) throw new Error(said);
      return /serves (http:\S+)\/mcp/.exec(said)?.[1];
    });
    this.address = this.url.replace('http://', '');
    return this;
  }
  run(...args) { return execFileSync(binary, [...args, '--state-dir', join(this.dir, 'state')], {encoding: 'utf8', cwd: this.dir, stdio: ['ignore', 'pipe', 'pipe']}); }
  link() { return this.run('ui', '--no-open').trim(); }
  status() { return JSON.parse(this.run('status', '-o', 'json')); }
  async api(path, options) {
    const r = await fetch(this.url + '/api/v1/' + path, options);
    if (!r.ok) throw new Error(`${path}: ${r.status} ${await r.text()}`);
    return r.json();
  }
  async token() {
    if (!this.secret) this.secret = (await this.api('unlock', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify({code: this.link().split('#code=')[1]})})).token;
    return this.secret;
  }
  async post(path, body = {}) { return this.api(path, {method: 'POST', headers: {'Content-Type': 'application/json', Authorization: 'Bearer ' + await this.token()}, body: JSON.stringify(body)}); }
  call(server, tool, args = {}) { return this.post('call', {server, tool, arguments: args}); }
  async server(name) { return this.api('servers/' + encodeURIComponent(name)); }
  async connected(name, after = 0) { return until(name + ' is connected', async () => { const s = await this.server(name); return s.state === 'connected' && s.generation > after && s; }); }

  // cpu is what everline has used so far, in milliseconds.
  cpu() { const f = readFileSync(`/proc/${this.process.pid}/stat`, 'utf8').split(') ')[1].split(' '); return (+f[11] + +f[12]) * 10; }
  async end(signal = 'SIGTERM') {
    const p = this.process;
    if (p.exitCode === null && p.signalCode === null) { const gone = new Promise((r) => p.once('exit', r)); p.kill(signal); await gone; }
  }
  async close() { await this.end(); rmSync(this.dir, {recursive: true, force: true}); }
}

export const launch = (args = []) => chromium.launch({executablePath, args});

// watched is a page of a context of its own, which notes what must never happen.
export async function watched(browser, options = {}) {
  const context = await browser.newContext({viewport: {width: 1280, height: 900}, timezoneId: 'UTC', locale: 'en-GB', ...options});
  context.setDefaultTimeout(120e3); // a busy machine is no mistake of the page
  const page = await context.newPage();
  page.bad = [];
  await page.addInitScript(() => addEventListener('securitypolicyviolation', (e) => console.error('CSP ' + e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sourceFile)));
  page.on('console', (m) => { if (m.type() === 'error' && !/ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|status of 503/.test(m.text())) page.bad.push(m.text()); });
  page.on('pageerror', (e) => page.bad.push(e.stack));
  page.on('dialog', (d) => { page.bad.push('dialog: ' + d.message()); d.dismiss(); });
  page.host = '';
  page.on('request', (r) => { const u = new URL(r.url()); if (page.host && u.protocol !== 'blob:' && u.host !== page.host) page.bad.push('foreign request: ' + r.url()); });
  page.visit = async (url) => { page.host = new URL(url).host; await page.goto(url); };
  page.clean = () => assert.deepEqual(page.bad, []);
  return page;
}

// open opens the page with the right to act.
export async function open(page, e, path = '#/') {
  await page.visit(e.link());
  await page.waitForSelector('[data-live=live]');
  if (path !== '#/') await page.evaluate((h) => { location.hash = h; }, path);
}
