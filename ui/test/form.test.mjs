// The form for arguments: what is put in goes out, whatever the schema is.
import {test, before, after} from 'node:test';
import assert from 'node:assert/strict';
import Ajv7 from 'ajv';
import Ajv2020 from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import {Everline, scripted, launch, watched, open, until} from './harness.mjs';
import {schemas} from './schemas.mjs';

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

const readOnly = {readOnlyHint: true};
const validator = (schema) => formats(new (/draft-07/.test(schema.$schema ?? '') ? Ajv7 : Ajv2020)({strict: false})).compile(schema);

// fill types a value into a form, by what stands there alone. It runs in the page.
async function fill([path, wanted]) {
  const settle = () => new Promise((r) => setTimeout(() => requestAnimationFrame(r)));
  const type = async (el, text) => { el.value = text; el.dispatchEvent(new Event('input', {bubbles: true})); el.dispatchEvent(new Event('change', {bubbles: true})); await settle(); };
  const find = (p) => document.querySelector(`[data-field="${CSS.escape(p)}"]`);
  const inside = (el) => [...el.children].filter((c) => c.dataset.field !== undefined);
  const words = (v) => (typeof v === 'string' ? v : JSON.stringify(v));
  const can = (el, v) => {
    const kind = el.dataset.kind;
    if (kind === 'json') return true;
    if (kind === 'choice') return true;
    if (['const', 'enum', 'boolean', 'null'].includes(kind)) return [...el.querySelector('select').options].some((o) => +o.value >= 0 && o.text === words(v));
    if (kind === 'object') return v !== null && typeof v === 'object' && !Array.isArray(v) && Object.keys(v).every((k) => inside(el).some((c) => c.dataset.name === k && can(c, v[k])));
    if (kind === 'array') return Array.isArray(v);
    if (kind === 'integer') return Number.isInteger(v);
    return typeof v === kind;
  };
  const put = async (p, v) => {
    const el = find(p), kind = el.dataset.kind;
    switch (kind) {
      case 'object':
        for (const [k, x] of Object.entries(v)) {
          const child = inside(find(p)).find((c) => c.dataset.name === k);
          if (!child) throw new Error(`no field for ${k} in ${p}`);
          await put(child.dataset.field, x);
        }
        return;
      case 'array':
        if (v.length === 0) { el.querySelector(':scope > [data-none]')?.click(); await settle(); return; }
        for (let i = 0; i < v.length; i++) {
          if (find(p).querySelectorAll(':scope > .item').length <= i) { find(p).querySelector(':scope > [data-add]').click(); await settle(); }
          await put(`${p}-${i}`, v[i]);
        }
        return;
      case 'choice': {
        const select = el.querySelector(':scope > select[data-choice]');
        for (const o of select.options) {
          if (+o.value < 0) continue;
          await type(select, o.value);
          const child = inside(find(p))[0];
          if (child && can(child, v)) return put(child.dataset.field, v);
        }
        throw new Error(`no choice at ${p} takes ${words(v)}`);
      }
      case 'const': case 'enum': case 'boolean': case 'null': {
        const select = el.querySelector('select');
        return type(select, [...select.options].find((o) => +o.value >= 0 && o.text === words(v)).value);
      }
      case 'string': return type(el.querySelector('textarea, input'), v);
      case 'json': return type(el.querySelector('textarea'), JSON.stringify(v));
      default: return type(el.querySelector('input'), JSON.stringify(v));
    }
  };
  await put(path, wanted);
  return [...document.querySelectorAll('[data-kind=json]')].map((el) => el.dataset.name ?? '');
}

test('forms over the schemas of real servers: what is put in goes out, and is right', {timeout: 600e3}, async () => {
  assert.ok(schemas.length >= 60, `${schemas.length} schemas`);
  const tools = schemas.map(([what, inputSchema], i) => ({name: 's' + i, description: what, inputSchema, annotations: readOnly}));
  const e = await new Everline({mcpServers: {db: scripted({tools})}}).start();
  const wrong = [];
  try {
    await e.connected('db');
    const page = await watched(browser);
    let sent = '';
    page.on('request', (r) => { if (/\/call$/.test(r.url())) sent = r.postData(); });
    await open(page, e, '#/tools/s0');
    const arguments_ = async () => {
      sent = '';
      await page.getByRole('button', {name: 'call', exact: true}).click();
      await page.getByRole('heading', {name: /Result/}).waitFor();
      return JSON.parse(await page.locator('.result pre').first().textContent()).params.arguments;
    };
    for (const [i, [what, schema, value, boxes]] of schemas.entries()) {
      try {
        const valid = validator(schema);
        assert.ok(valid(value), `the arguments of this test are not right: ${JSON.stringify(valid.errors)}`);
        await page.evaluate((h) => { location.hash = h; }, '#/tools/s' + i);
        await page.locator('article h1', {hasText: new RegExp(`^s${i}\\b`)}).waitFor();
        await page.waitForSelector('[data-field=a]');
        // Typed into the form.
        const found = await page.evaluate(fill, ['a', value]);
        assert.equal(found.length, boxes, `boxes for JSON: ${found}`);
        assert.equal(await page.locator('[data-problems]').count(), 0, await page.locator('[data-problems]').allTextContents().then(String));
        let got = await arguments_();
        assert.deepEqual(got, value, 'by the form');
        assert.ok(valid(got), JSON.stringify(valid.errors));
        // Written as JSON, looked at in the form and touched there.
        await page.getByLabel('as JSON').check();
        const text = JSON.stringify(value).replaceAll('":', '" :  ');
        await page.locator('#arguments').fill(text);
        got = await arguments_();
        assert.deepEqual(got, value, 'as JSON');
        assert.ok(sent.endsWith(`"arguments":${text}}`), `sent was ${sent}`);
        await page.getByLabel('as JSON').uncheck();
        await page.waitForSelector('[data-field=a]');
        got = await arguments_();
        assert.deepEqual(got, value, 'through the form');
        assert.equal(sent.slice(sent.indexOf('"arguments":') + 12, -1), JSON.stringify(value), 'byte for byte');
        await page.evaluate(fill, ['a', value]);
        got = await arguments_();
        assert.deepEqual(got, value, 'touched in the form');
      } catch (err) { wrong.push(`${i} ${what}: ${err.message}`); await page.getByLabel('as JSON').uncheck({timeout: 1000}).catch(() => {}); }
    }
    assert.deepEqual(wrong, []);
    page.clean();
    await page.context().close();
  } finally { await e.close(); }
});

test('a value that no field can show is a box, and stays what it is', async () => {
  const inputSchema = {type: 'object', properties: {s: {type: 'string'}, n: {type: 'integer'}, l: {type: 'array', items: {type: 'string'}}, o: {type: 'object', properties: {a: {type: 'string'}}}, e: {enum: ['a']}, d: {type: 'string', format: 'date'}, ['__proto__']: {type: 'string'}}};
  const e = await new Everline({mcpServers: {db: scripted({tools: [{name: 'take', inputSchema, annotations: readOnly}]})}}).start();
  try {
    await e.connected('db');
    const page = await watched(browser);
    let sent = '';
    page.on('request', (r) => { if (/\/call$/.test(r.url())) sent = r.postData(); });
    await open(page, e, '#/tools/take');
    const text = '{"s":"a\\r\\nb","n":"no number","l":{"0":"x"},"o":["y"],"e":"z","d":"tomorrow","extra":{"x":1.10},"__proto__":"p","big":12345678901234567890}';
    await page.getByLabel('as JSON').check();
    await page.locator('#arguments').fill(text);
    await page.getByLabel('as JSON').uncheck();
    await page.locator('[data-name=extra] textarea').waitFor();
    await page.getByText('The server may refuse this').waitFor();
    await page.locator('[data-name=extra] textarea').fill('{ "x":1.10}'); // touched
    await page.getByRole('button', {name: 'call anyway'}).click();
    await page.getByRole('heading', {name: /Result/}).waitFor();
    assert.ok(sent.endsWith('"arguments":' + text.replace('{"x":1.10}', '{ "x":1.10}') + '}'), sent);
    // An item that is removed takes what was typed into it along, and nothing else.
    await page.evaluate(() => { location.hash = '#/tools'; });
    await page.evaluate(() => { location.hash = '#/tools/take'; });
    await page.waitForSelector('[data-field=a]');
    await page.evaluate(fill, ['a', {l: ['one', 'two', 'three']}]);
    await page.getByLabel('Remove 2').click();
    assert.deepEqual(await page.locator('[data-name=l] textarea').evaluateAll((all) => all.map((t) => t.value)), ['one', 'three']);
    page.clean();
    await page.context().close();
  } finally { await e.close(); }
});

test('a server asks for a form during a call', async () => {
  const requestedSchema = {type: 'object', properties: {name: {type: 'string', title: 'Your name'}, age: {type: 'integer', minimum: 0}, color: {type: 'string', enum: ['red', 'blue']}}, required: ['name']};
  const e = await new Everline({mcpServers: {db: scripted({tools: [{name: 'ask', inputSchema: {type: 'object', properties: {}}, annotations: readOnly}], ask: {message: 'Who are <b>you</b>?', requestedSchema}})}}).start();
  try {
    await e.connected('db');
    const page = await watched(browser);
    await open(page, e, '#/tools/ask');
    const answered = async (end) => {
      await page.getByRole('button', {name: 'call', exact: true}).click();
      const question = page.getByRole('region', {name: 'The server asks'});
      await question.waitFor();
      await question.getByText('Who are <b>you</b>?').waitFor();
      await end(question);
      await page.getByRole('heading', {name: /Result/}).waitFor();
      return JSON.parse(await page.locator('.result pre').first().textContent());
    };
    const said = await answered(async (q) => {
      await q.locator('[data-name=name] textarea').fill('Ada');
      await q.locator('[data-name=age] input').fill('36');
      await q.locator('[data-name=color] select').selectOption({label: 'blue'});
      await q.getByRole('button', {name: 'send'}).click();
    });
    assert.deepEqual(said, {action: 'accept', content: {name: 'Ada', age: 36, color: 'blue'}});
    assert.deepEqual(await answered((q) => q.getByRole('button', {name: 'decline'}).click()), {action: 'decline'});
    // Who leaves the page gives the call up.
    await page.getByRole('button', {name: 'call', exact: true}).click();
    await page.getByRole('region', {name: 'The server asks'}).waitFor();
    await page.evaluate(() => { location.hash = '#/calls'; });
    await until('the call is over', async () => (await e.api('calls?outcome=canceled')).calls.length === 1);
    page.clean();
    await page.context().close();
  } finally { await e.close(); }
});
