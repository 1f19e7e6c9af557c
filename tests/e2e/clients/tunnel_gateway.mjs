// SPDX-License-Identifier: Apache-2.0
// A real iroh endpoint that speaks iroh-http-proxy/1 to a device, as a gateway does. Does what lines of JSON on standard
// input say and prints one line of JSON per event. Texts are bytes as Latin-1. Options come as one JSON argument:
//   {"seed": BYTE, "bind": "ip:port", "relay": URL}
//   {"op": "connect", "peer": HEX, "addrs": ["ip:port"], "relay": URL, "alpn": NAME}
//   {"op": "ask", "id": X, "text": HEAD AND BODY}        sends, finishes, reads to the end
//   {"op": "open", "id": X, "text": HEAD}                sends, reads one piece, keeps the stream
//   {"op": "send", "id": X, "text": BYTES, "fin": BOOL}  {"op": "recv", "id": X, "until": TEXT}  {"op": "drop"}
import { createHash } from 'node:crypto';
import { createInterface } from 'node:readline';
import { Endpoint, EndpointAddr, EndpointId, RelayMap, RelayMode, presetMinimal } from '@number0/iroh';

const options = JSON.parse(process.argv[2] ?? '{}');
const CHUNK = 256 * 1024;
const TEXT_MAX = 64 * 1024;
const streams = new Map();
let connection = null;

const bytesOf = (text) => Array.from(Buffer.from(text, 'latin1'));
const say = (event, more = {}) => process.stdout.write(`${JSON.stringify({ event, ...more })}\n`);

async function readAll(recv) {
  const hash = createHash('sha256');
  let text = '';
  let bytes = 0;
  for (;;) {
    const part = Buffer.from(await recv.read(CHUNK));
    if (part.length === 0) return { text, bytes, sha256: hash.digest('hex') };
    hash.update(part);
    bytes += part.length;
    if (text.length < TEXT_MAX) text += part.toString('latin1').slice(0, TEXT_MAX - text.length);
  }
}

const operations = {
  async connect({ peer, addrs, relay, alpn }) {
    const to = new EndpointAddr(EndpointId.fromString(peer), relay ?? null, addrs ?? []);
    connection = await endpoint.connect(to, bytesOf(alpn ?? 'iroh-http-proxy/1'));
    connection.closed().then((why) => say('closed', { why: String(why) }));
    say('connected', { peer: connection.remoteId().toString() });
  },
  async ask({ id, text }) {
    const { send, recv } = await connection.openBi();
    await send.writeAll(bytesOf(text));
    await send.finish();
    say('answer', { id, ...(await readAll(recv)) });
  },
  async open({ id, text }) {
    const { send, recv } = await connection.openBi();
    streams.set(id, { send, recv });
    await send.writeAll(bytesOf(text));
    say('opened', { id, text: Buffer.from(await recv.read(CHUNK)).toString('latin1') });
  },
  async send({ id, text, fin }) {
    const { send } = streams.get(id);
    if (text) await send.writeAll(bytesOf(text));
    if (fin) await send.finish();
    say('sent', { id });
  },
  async recv({ id, until }) {
    const { recv } = streams.get(id);
    let text = '';
    while (until === null || !text.includes(until)) {
      const part = Buffer.from(await recv.read(CHUNK));
      if (part.length === 0) break;
      text += part.toString('latin1');
    }
    say('got', { id, text });
  },
  async drop() {
    connection.close(0n, []);
    say('dropped');
  },
};

const builder = Endpoint.builder();
presetMinimal(builder);
if (options.relay) {
  const map = RelayMap.empty();
  map.insert({ url: options.relay });
  builder.relayMode(RelayMode.custom(map));
} else {
  builder.relayMode(RelayMode.disabled());
}
builder.bindAddr(options.bind ?? '127.0.0.1:0');
if (options.seed !== undefined) builder.secretKey(new Array(32).fill(options.seed));
const endpoint = await builder.bind();
if (options.relay) await endpoint.online();
say('start', { id: endpoint.id().toString(), addrs: endpoint.boundSockets() });

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  operations[command.op](command).catch((e) => say('error', { op: command.op, id: command.id, why: String(e?.message ?? e) }));
}
await endpoint.close();
process.exit(0);
