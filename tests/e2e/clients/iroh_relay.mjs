// SPDX-License-Identifier: Apache-2.0
// Real iroh endpoints that know each other by a relay only.
//   pair URL BYTES       two of them; on SIGUSR1 they do it again (the relay was restarted)
//   serve URL            one that sends back what it gets; says its id
//   dial URL BYTES ID    one that asks it
// One JSON object per line.
import { createHash, randomBytes } from 'node:crypto';
import { Endpoint, EndpointAddr, EndpointId, RelayMap, RelayMode, presetMinimal } from '@number0/iroh';

const [mode, url, bytes = '1000', peer] = process.argv.slice(2);
const alpn = Array.from(Buffer.from('spanwire-test/0'));
const say = (o) => console.log(JSON.stringify(o));
const sha = (b) => createHash('sha256').update(b).digest('hex');
const MOST = 64 << 20;

async function endpoint(accepts) {
    const b = Endpoint.builder();
    presetMinimal(b);
    if (process.env.RELAY_TOKEN) {
        const map = RelayMap.empty();
        map.insert({ url, authToken: process.env.RELAY_TOKEN });
        b.relayMode(RelayMode.custom(map));
    } else {
        b.relayMode(RelayMode.customFromUrls([url]));
    }
    if (accepts)
        b.alpns([alpn]);
    b.bindAddr(mode === 'pair' ? '127.0.0.1:0' : '0.0.0.0:0');
    return b.bind();
}

async function echo(incoming) {
    const conn = await (await incoming.accept()).connect();
    const bi = await conn.acceptBi();
    const data = await bi.recv.readToEnd(MOST);
    await bi.send.writeAll(data);
    await bi.send.finish();
    await conn.closed();
}

async function serve(ep) {
    for (let incoming; (incoming = await ep.acceptNext());)
        echo(incoming).catch((e) => say({ what: 'server', error: String(e) }));
}

async function transfer(client, id, what) {
    const data = randomBytes(Number(bytes));
    const start = Date.now();
    const conn = await client.connect(new EndpointAddr(EndpointId.fromString(id), url, []), alpn);
    const relay = conn.paths().map((p) => p.isRelay);
    const bi = await conn.openBi();
    const sent = bi.send.writeAll(Array.from(data)).then(() => bi.send.finish());
    const back = Buffer.from(await bi.recv.readToEnd(MOST));
    await sent;
    say({ what, ok: sha(back) === sha(data), bytes: back.length, ms: Date.now() - start, relay });
    conn.close(0n, []);
}

const attempt = (client, id, what) =>
    transfer(client, id, what).catch((e) => say({ what, error: String(e) }));

async function online(...eps) {
    const late = new Promise((r) => setTimeout(() => r('late'), 120000));
    return await Promise.race([Promise.all(eps.map((e) => e.online())), late]) !== 'late';
}

if (mode === 'pair') {
    const server = await endpoint(true);
    const client = await endpoint(false);
    const id = server.id().toString();
    serve(server);
    process.on('SIGUSR1', () => attempt(client, id, 'again'));
    say({ what: 'online', ok: await online(server, client) });
    await attempt(client, id, 'first');
} else if (mode === 'serve') {
    const server = await endpoint(true);
    serve(server);
    await online(server);
    say({ what: 'serving', id: server.id().toString() });
} else {
    const client = await endpoint(false);
    await attempt(client, peer, 'dial');
}
setTimeout(() => process.exit(0), Number(process.env.STAY_MS || 0));
