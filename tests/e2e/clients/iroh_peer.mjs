// SPDX-License-Identifier: Apache-2.0
// A real iroh endpoint for system tests. It echoes streams and datagrams of whoever connects, does what lines of JSON
// on standard input say, and prints one line of JSON per event. Options come as one JSON argument:
//   {"alpn": NAME, "seed": BYTE, "incoming": "accept"|"retry"|"refuse"|"ignore", "relay": URL, "datagrams": BOOL}
//   {"op": "connect", "peer": HEX, "addrs": ["ip:port"], "relay": URL, "alpn": NAME}
//   {"op": "echo", "bytes": N}   {"op": "datagram", "bytes": N}   {"op": "close", "code": N}   {"op": "paths"}
import { createInterface } from 'node:readline';
import { Endpoint, EndpointAddr, EndpointId, RelayMap, RelayMode, presetMinimal } from '@number0/iroh';

const options = JSON.parse(process.argv[2] ?? '{}');
const alpnDefault = options.alpn ?? 'spanwire-test/1';
const CHUNK = 256 * 1024;
let dialled = null;

const bytesOf = (text) => Array.from(Buffer.from(text));
const say = (event, more = {}) => process.stdout.write(`${JSON.stringify({ event, ...more })}\n`);
const pattern = (at) => (at * 31 + (at >>> 8) + (at >>> 16)) & 255;
const textOf = (e) => String(e?.message ?? e);

async function echoStream({ send, recv }) {
  for (;;) {
    const part = await recv.read(CHUNK);
    if (part.length === 0) break;
    await send.writeAll(part);
  }
  await send.finish();
}

async function echoDatagrams(connection) {
  for (;;) connection.sendDatagram(await connection.readDatagram());
}

async function serve(incoming) {
  const how = options.incoming ?? 'accept';
  if (how === 'refuse') return incoming.refuse();
  if (how === 'ignore') return incoming.ignore();
  if (how === 'retry' && !(await incoming.remoteAddrValidated())) {
    say('retry');
    return incoming.retry();
  }
  const accepting = await incoming.accept();
  const connection = await accepting.connect();
  say('accepted', { peer: connection.remoteId().toString(), datagrams: connection.maxDatagramSize() });
  connection.closed().then((why) => say('closed', { dialled: false, why }));
  echoDatagrams(connection).catch(() => {});
  for (;;) echoStream(await connection.acceptBi()).catch((e) => say('stream', { why: textOf(e) }));
}

const operations = {
  async connect({ peer, addrs, relay, alpn }) {
    const to = new EndpointAddr(EndpointId.fromString(peer), relay ?? null, addrs ?? []);
    dialled = await endpoint.connect(to, bytesOf(alpn ?? alpnDefault));
    dialled.closed().then((why) => say('closed', { dialled: true, why }));
    say('ready', { peer: dialled.remoteId().toString(), datagrams: dialled.maxDatagramSize() });
  },
  async echo({ bytes }) {
    const { send, recv } = await dialled.openBi();
    const began = Date.now();
    const writing = (async () => {
      for (let at = 0; at < bytes; at += CHUNK) {
        const part = new Array(Math.min(CHUNK, bytes - at));
        for (let i = 0; i < part.length; i += 1) part[i] = pattern(at + i);
        await send.writeAll(part);
      }
      await send.finish();
    })();
    let got = 0;
    let ok = true;
    for (;;) {
      const part = await recv.read(CHUNK);
      if (part.length === 0) break;
      for (let i = 0; i < part.length; i += 1) ok &&= part[i] === pattern(got + i);
      got += part.length;
    }
    await writing;
    say('echo', { bytes: got, ok: ok && got === bytes, ms: Date.now() - began });
  },
  async datagram({ bytes }) {
    dialled.sendDatagram(Array.from({ length: bytes }, (_, i) => pattern(i)));
    const back = await dialled.readDatagram();
    say('datagram', { bytes: back.length, ok: back.every((b, i) => b === pattern(i)) });
  },
  async close({ code }) {
    dialled.close(BigInt(code), bytesOf('told to'));
  },
  async paths() {
    say('paths', { paths: dialled.paths() });
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
builder.alpns([bytesOf(alpnDefault)]);
builder.bindAddr(options.bind ?? '127.0.0.1:0');
if (options.seed !== undefined) builder.secretKey(new Array(32).fill(options.seed));
const endpoint = await builder.bind();
if (options.relay) await endpoint.online();
say('start', { id: endpoint.id().toString(), addrs: endpoint.boundSockets() });

(async () => {
  for (;;) {
    const incoming = await endpoint.acceptNext();
    if (!incoming) return;
    serve(incoming).catch((e) => say('refused', { why: textOf(e) }));
  }
})();

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  operations[command.op](command).catch((e) => say('error', { op: command.op, why: textOf(e) }));
}
await endpoint.close();
process.exit(0);
