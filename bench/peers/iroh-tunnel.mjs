// SPDX-License-Identifier: Apache-2.0
// A TCP tunnel over the real iroh, for comparison: `node iroh-tunnel.mjs exit HOST:PORT` prints its
// id and address; `node iroh-tunnel.mjs entry LISTEN ID ADDR` sends every connection to it, one
// bidirectional stream each.
import net from 'node:net';
import { createRequire } from 'node:module';

const require = createRequire(process.env.SPANWIRE_CLIENTS + '/');
const { Endpoint, EndpointAddr, EndpointId, RelayMode, presetMinimal } = require('@number0/iroh');
const ALPN = [...Buffer.from('spanwire-bench/1')];
const CHUNK = 1 << 18;

async function bind(alpns) {
  const b = Endpoint.builder();
  presetMinimal(b);
  b.relayMode(RelayMode.disabled());
  b.alpns(alpns);
  b.bindAddr('127.0.0.1:0');
  return (globalThis.endpoint = await b.bind()); // collected, it would close
}

function pump(socket, bi) {
  const out = (async () => {
    for await (const chunk of socket) await bi.send.writeAll([...chunk]);
    await bi.send.finish();
  })();
  const back = (async () => {
    for (;;) {
      const got = await bi.recv.read(CHUNK);
      if (!got || got.length === 0) break;
      if (!socket.write(Buffer.from(got))) await new Promise((r) => socket.once('drain', r));
    }
    socket.end();
  })();
  Promise.all([out, back]).catch(() => socket.destroy());
  socket.on('error', () => socket.destroy());
}

function split(text) {
  const at = text.lastIndexOf(':');
  return { host: text.slice(0, at), port: Number(text.slice(at + 1)) };
}

async function exit(target) {
  const endpoint = await bind([ALPN]);
  const bound = endpoint.boundSockets().find((a) => a.startsWith('127.'));
  console.log(`${endpoint.id().toString()} ${bound}`);
  for (;;) {
    const incoming = await endpoint.acceptNext();
    if (!incoming) return;
    const connection = await (await incoming.accept()).connect();
    (async () => {
      for (;;) {
        const bi = await connection.acceptBi();
        const socket = net.connect({ ...split(target), noDelay: true });
        pump(socket, bi);
      }
    })().catch(() => {});
  }
}

async function entry(listen, id, address) {
  const endpoint = await bind([ALPN]);
  const to = new EndpointAddr(EndpointId.fromString(id), null, [address]);
  const connection = await endpoint.connect(to, ALPN);
  const server = net.createServer({ noDelay: true }, async (socket) => {
    try {
      pump(socket, await connection.openBi());
    } catch {
      socket.destroy();
    }
  });
  server.listen(split(listen));
}

const [role, ...rest] = process.argv.slice(2);
await (role === 'exit' ? exit : entry)(...rest);
