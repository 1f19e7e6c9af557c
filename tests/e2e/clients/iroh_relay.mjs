// SPDX-License-Identifier: Apache-2.0
// Two real iroh endpoints that know each other by a relay only: node iroh_relay.mjs URL [BYTES]
// Prints one JSON object per line; on SIGUSR1 a second transfer runs (after a restart of the relay).
import { createHash, randomBytes } from 'node:crypto';
import { Endpoint, EndpointAddr, EndpointId, RelayMap, RelayMode, presetMinimal } from '@number0/iroh';

const [url, bytesText = '2000000'] = process.argv.slice(2);
const alpn = Array.from(Buffer.from('spanwire-test/0'));
const say = (o) => console.log(JSON.stringify(o));
const sha = (b) => createHash('sha256').update(b).digest('hex');

async function endpoint(accepts) {
    const b = Endpoint.builder();
    presetMinimal(b);
    const token = process.env.RELAY_TOKEN;
    if (token) {
        const map = RelayMap.empty();
        map.insert({ url, authToken: token });
        b.relayMode(RelayMode.custom(map));
    } else {
        b.relayMode(RelayMode.customFromUrls([url]));
    }
    if (accepts)
        b.alpns([alpn]);
    b.bindAddr('127.0.0.1:0');
    return b.bind();
}

async function serve(ep) {
    for (;;) {
        const incoming = await ep.acceptNext();
        if (!incoming)
            return;
        (async () => {
            const conn = await (await incoming.accept()).connect();
            const bi = await conn.acceptBi();
            const data = Buffer.from(await bi.recv.readToEnd(64 << 20));
            await bi.send.writeAll(Array.from(data));
            await bi.send.finish();
            await conn.closed();
        })().catch((e) => say({ server: String(e) }));
    }
}

async function transfer(client, server, what) {
    const data = randomBytes(Number(bytesText));
    const addr = new EndpointAddr(EndpointId.fromString(server.id().toString()), url, []);
    const start = Date.now();
    const conn = await client.connect(addr, alpn);
    const first = conn.paths().map((p) => p.isRelay);
    const bi = await conn.openBi();
    const send = (async () => { await bi.send.writeAll(Array.from(data)); await bi.send.finish(); })();
    const back = Buffer.from(await bi.recv.readToEnd(64 << 20));
    await send;
    say({ what, ok: sha(back) === sha(data), bytes: back.length, ms: Date.now() - start, relay: first });
    conn.close(0n, []);
}

const server = await endpoint(true);
const client = await endpoint(false);
serve(server);
process.on('SIGUSR1', () => transfer(client, server, 'again').catch((e) => say({ what: 'again', error: String(e) })));
const online = Promise.all([server.online(), client.online()]);
const late = new Promise((r) => setTimeout(() => r('late'), 10000));
if (await Promise.race([online, late]) === 'late') {
    say({ what: 'online', ok: false });
} else {
    say({ what: 'online', ok: true, ids: [server.id().toString(), client.id().toString()] });
    await transfer(client, server, 'first').catch((e) => say({ what: 'first', error: String(e) }));
}
setTimeout(() => process.exit(0), Number(process.env.STAY_MS || 0));
