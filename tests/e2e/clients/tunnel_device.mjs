// SPDX-License-Identifier: Apache-2.0
// A real iroh endpoint that serves iroh-http-proxy/1, as a device of another make does: CONNECT to a TCP port of this
// host, absolute-form requests to an HTTP server, everything else refused. Prints one line of JSON per event; ends with
// its standard input. Options come as one JSON argument: {"seed": BYTE, "alpn": NAME, "relay": URL, "deny": PORT}
import http from 'node:http';
import net from 'node:net';
import { createInterface } from 'node:readline';
import { Endpoint, RelayMap, RelayMode, presetMinimal } from '@number0/iroh';

const options = JSON.parse(process.argv[2] ?? '{}');
const CHUNK = 256 * 1024;
const bytesOf = (x) => Array.from(typeof x === 'string' ? Buffer.from(x, 'latin1') : x);
const say = (event, more = {}) => process.stdout.write(`${JSON.stringify({ event, ...more })}\n`);

/* The head as text, and the bytes that came with it. */
async function readHead(recv) {
  let all = Buffer.alloc(0);
  for (;;) {
    const end = all.indexOf('\r\n\r\n');
    if (end >= 0) return { head: all.subarray(0, end).toString('latin1'), rest: all.subarray(end + 4) };
    const part = Buffer.from(await recv.read(CHUNK));
    if (part.length === 0 || all.length > 8192) throw new Error('no head');
    all = Buffer.concat([all, part]);
  }
}

async function tunnel({ send, recv }, target, rest) {
  const [, host, port] = target.match(/^\[?(.*?)\]?:(\d+)$/);
  if (options.deny === Number(port)) {
    await send.writeAll(bytesOf('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n'));
    return send.finish();
  }
  const socket = net.connect({ host, port: Number(port), allowHalfOpen: true });
  try {
    await new Promise((ok, no) => socket.once('connect', ok).once('error', no));
  } catch {
    await send.writeAll(bytesOf('HTTP/1.1 502 Origin Is Unreachable\r\ncontent-length: 0\r\n\r\n'));
    return send.finish();
  }
  socket.on('error', () => {});
  await send.writeAll(bytesOf('HTTP/1.1 200 Connection Established\r\n\r\n'));
  const up = (async () => {
    if (rest.length) socket.write(rest);
    for (;;) {
      const part = Buffer.from(await recv.read(CHUNK));
      if (part.length === 0) break;
      if (!socket.write(part)) await new Promise((ok) => socket.once('drain', ok));
    }
    socket.end();
  })();
  for await (const part of socket) await send.writeAll(bytesOf(part));
  await send.finish();
  return up;
}

async function request({ send, recv }, method, target, fields, rest) {
  const body = [rest];
  for (;;) {
    const part = Buffer.from(await recv.read(CHUNK));
    if (part.length === 0) break;
    body.push(part);
  }
  const answer = await new Promise((ok, no) => {
    const r = http.request(target, { method, headers: fields }, ok).on('error', no);
    r.end(Buffer.concat(body));
  });
  const lines = [`HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}`];
  for (const [name, value] of Object.entries(answer.headers)) {
    if (!['connection', 'keep-alive', 'transfer-encoding'].includes(name)) lines.push(`${name}: ${value}`);
  }
  await send.writeAll(bytesOf(`${lines.join('\r\n')}\r\n\r\n`));
  for await (const part of answer) await send.writeAll(bytesOf(part));
  await send.finish();
}

async function serve(stream) {
  const { head, rest } = await readHead(stream.recv);
  const [line, ...more] = head.split('\r\n');
  const [method, target] = line.split(' ');
  const fields = Object.fromEntries(more.map((x) => [x.slice(0, x.indexOf(':')).toLowerCase(), x.slice(x.indexOf(':') + 1).trim()]));
  say('head', { line, fields });
  if (method === 'CONNECT') return tunnel(stream, target, rest);
  return request(stream, method, target, fields, rest);
}

async function accept(incoming) {
  const connection = await (await incoming.accept()).connect();
  say('accepted', { peer: connection.remoteId().toString() });
  connection.closed().then((why) => say('closed', { why: String(why) }));
  for (;;) serve(await connection.acceptBi()).catch((e) => say('stream', { why: String(e?.message ?? e) }));
}

const builder = Endpoint.builder();
presetMinimal(builder);
if (options.relay) {
  const map = RelayMap.empty();
  map.insert({ url: options.relay });
  builder.relayMode(RelayMode.custom(map));
} else {
  builder.relayMode(RelayMode.disabled());
}
builder.alpns([bytesOf(options.alpn ?? 'iroh-http-proxy/1')]);
builder.bindAddr('127.0.0.1:0');
if (options.seed !== undefined) builder.secretKey(new Array(32).fill(options.seed));
const endpoint = await builder.bind();
if (options.relay) await endpoint.online();
say('start', { id: endpoint.id().toString(), addrs: endpoint.boundSockets() });

(async () => {
  for (;;) {
    const incoming = await endpoint.acceptNext();
    if (!incoming) return;
    accept(incoming).catch((e) => say('refused', { why: String(e?.message ?? e) }));
  }
})();
for await (const _ of createInterface({ input: process.stdin }));
await endpoint.close();
process.exit(0);
