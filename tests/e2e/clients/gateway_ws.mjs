// SPDX-License-Identifier: Apache-2.0
// A WebSocket client (npm's ws) through the gateway: gateway_ws.mjs URL CA-FILE-OR-NOTHING HOST
// Prints a line of JSON per step: {"op": NAME, "got": ...}.
import { readFileSync } from 'node:fs';
import { randomBytes } from 'node:crypto';
import WebSocket from 'ws';

const [url, ca, host] = process.argv.slice(2);
const options = { maxPayload: 64 << 20, ...(ca ? { ca: readFileSync(ca), servername: host } : {}), headers: { host } };

const open = (protocols = [], path = '/ws?x=1') => new Promise((resolve, reject) => {
  const socket = new WebSocket(url + path, protocols, options);
  const inbox = [];
  let wake = () => {};
  socket.next = async () => {
    while (!inbox.length) await new Promise((r) => { wake = r; });
    return inbox.shift();
  };
  socket.on('message', (data, binary) => { inbox.push(binary ? data : data.toString()); wake(); });
  socket.over = new Promise((r) => { socket.on('close', (code, reason) => r([code, reason.toString()])); });
  socket.on('error', reject);
  socket.on('open', () => resolve(socket));
});

const steps = {
  greeting: async () => {
    const s = await open(['other', 'chat']);
    const got = { ...JSON.parse(await s.next()), protocol: s.protocol };
    s.close();
    return got;
  },
  text: async () => {
    const s = await open();
    await s.next();
    s.send('h\u00e9llo \u{1f30d}');
    const got = await s.next();
    s.close(1000, 'bye');
    return [got, await s.over];
  },
  binary: async () => {
    const s = await open();
    await s.next();
    const blob = randomBytes(3000);
    s.send(blob);
    const same = blob.equals(await s.next());
    s.close();
    return same;
  },
  large: async () => {
    const s = await open();
    await s.next();
    const blob = randomBytes(8 << 20);
    s.send(blob);
    const same = blob.equals(await s.next());
    s.close();
    return same;
  },
  many: async () => {
    const s = await open();
    await s.next();
    for (let i = 0; i < 500; i += 1) s.send(`m${i}`);
    let good = 0;
    for (let i = 0; i < 500; i += 1) good += (await s.next()) === `m${i}`;
    s.close();
    return good;
  },
  pings: async () => {
    const s = await open();
    await s.next();
    const pong = new Promise((r) => { s.on('pong', (d) => r(d.toString())); });
    s.ping('to you');
    s.send('ping me');
    const got = [await pong, await s.next()];
    s.close();
    return got;
  },
  close_codes: async () => {
    const got = [];
    for (const code of [1000, 1001, 1011, 3000, 4321]) {
      const s = await open();
      await s.next();
      s.send(`close ${code}`);
      got.push(await s.over);
    }
    return got;
  },
  vanish: async () => {
    const s = await open();
    await s.next();
    s.send('vanish');
    return (await s.over)[0];
  },
  refused: () => open([], '/plain').then(() => 'open', (e) => e.message),
};

for (const [op, run] of Object.entries(steps)) {
  process.stdout.write(`${JSON.stringify({ op, got: await run() })}\n`);
}
process.exit(0);
