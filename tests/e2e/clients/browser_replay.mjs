// SPDX-License-Identifier: Apache-2.0
// A browser that opens the request inspector, follows the link of a path, and clicks on 'Send again'.
// argv: browser, profile directory, URL of the list, path. Prints one JSON line.
import { spawn } from 'node:child_process';
import WebSocket from 'ws';

const [browser, profile, url, path] = process.argv.slice(2);
const child = spawn(browser, ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
  '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
  '--disable-extensions', `--user-data-dir=${profile}`, '--remote-debugging-port=0', 'about:blank'],
{ stdio: ['ignore', 'ignore', 'pipe'] });

const address = await new Promise((resolve, reject) => {
  let text = '';
  child.stderr.on('data', (d) => {
    text += d;
    const found = /DevTools listening on (ws:\S+)/.exec(text);
    if (found) resolve(found[1]);
  });
  child.on('exit', () => reject(new Error(`the browser ended: ${text}`)));
});
const socket = new WebSocket(address);
await new Promise((resolve) => { socket.on('open', resolve); });

const waiting = new Map();
let last = 0;
socket.on('message', (text) => {
  const m = JSON.parse(text);
  if (waiting.has(m.id)) {
    waiting.get(m.id)(m);
    waiting.delete(m.id);
  }
});
function call(method, params = {}, sessionId = undefined) {
  last += 1;
  const id = last;
  return new Promise((resolve) => {
    waiting.set(id, resolve);
    socket.send(JSON.stringify({ id, method, params, sessionId }));
  });
}

const { result: { targetId } } = await call('Target.createTarget', { url: 'about:blank' });
const { result: { sessionId } } = await call('Target.attachToTarget', { targetId, flatten: true });
async function run(expression) {
  const m = await call('Runtime.evaluate', { expression, returnByValue: true }, sessionId);
  return m.result?.result?.value;
}
// Pages come and go while one asks: until it is so.
async function until(expression) {
  for (;;) {
    const value = await run(expression);
    if (value) return value;
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
}

await call('Page.navigate', { url }, sessionId);
const quoted = JSON.stringify(path);
const list = await until(`document.querySelector('table a') && document.querySelector('h1').textContent`);
await until(`(() => { const a = [...document.querySelectorAll('a')].find((x) => x.textContent === ${quoted});
  if (a) a.click(); return Boolean(a); })()`);
const request = await until(`document.querySelector('#request')?.textContent`);
const page = await until(`document.querySelector('#answer') && document.body.innerText`);
const bold = await run(`document.querySelectorAll('pre b').length`);
await until(`(() => { const b = document.querySelector('#replay'); if (b) b.click(); return Boolean(b); })()`);
const title = await until(`document.querySelector('h1')?.textContent.includes('again') && document.querySelector('h1').textContent`);
const answer = await until(`document.querySelector('#answer')?.textContent`);
const after = await until(`document.body.innerText`);
console.log(JSON.stringify({ list, request, page, bold, title, answer, after }));
await call('Browser.close');
process.exit(0);
