// SPDX-License-Identifier: Apache-2.0
// A node proxy as others build it (npm's gRPC, messages encoded by hand): asks the mesh's port for certificates and
// opens streams. mesh.mjs ADDRESS ROOTS [CHAIN KEY]; standard input is a list of steps, each answered by a line:
//   {"do": "sign", "csr", "ttl", "identity", "token", "cluster"} -> {"code", "text", "chain"};
//     "raw": these bytes (hex digits) as the request instead; "zeros": that many bytes of 0
//   {"do": "twice", "csr", "token"}: a call with two requests -> {"code", "text"}
//   {"do": "crowd", "calls"}: that many calls at once, without a request, on several connections; those that end in
//     another way than for being too many are made again -> {"code", "text"} of the first that was
//   {"do": "stream", "id", "metadata", "token", "types", "hold"} -> {"code", "text"} or {"open": [types answered]};
//     "hold": the stream stays open and a line {"ended": code, "text"} follows when it ends
//   {"do": "talk", "id", "metadata", "token", "world", "turns": [{"type", "subscribe", "unsubscribe", "initial", "nack",
//     "quiet"}]}: one stream ("world": state of the world), each turn a request that answers for the response before
//     ("nack": refuses it with this text; "raw", "zeros": as above) and waits for one ("quiet": for none within a
//     while) -> {"turns": [{"type", "resources": {name: version}, "aliases", "removed", "count", "names"} or null],
//     "ended"}; "count" and "names" are those of the state of the world
//   {"do": "follow", "id", "metadata", "token", "type"}: a client that opens stream after stream, says what it holds,
//     and goes on until it is killed -> {"resources", "removed", "have"} for each response, {"ended"} for each stream
import { readFileSync } from 'node:fs';
import * as grpc from '@grpc/grpc-js';

const [address, roots, chain, key] = process.argv.slice(2);
const asBytes = (b) => b;
const method = (path, stream) => ({ path, requestStream: stream, responseStream: stream, requestSerialize: asBytes,
  requestDeserialize: asBytes, responseSerialize: asBytes, responseDeserialize: asBytes });
const Client = grpc.makeGenericClientConstructor({
  sign: method('/istio.v1.auth.IstioCertificateService/CreateCertificate', false),
  twice: method('/istio.v1.auth.IstioCertificateService/CreateCertificate', true),
  stream: method('/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources', true),
  world: method('/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources', true),
}, 'Mesh');
const read = (f) => (f ? readFileSync(f) : undefined);
const connect = (options) => new Client(address, grpc.credentials.createSsl(readFileSync(roots), read(key), read(chain)),
  { 'grpc.ssl_target_name_override': 'istiod.istio-system.svc', 'grpc.default_authority': 'istiod.istio-system.svc', ...options });
const client = connect({});

const varint = (n) => {
  const out = [];
  for (let v = BigInt.asUintN(64, BigInt(n)); ; v >>= 7n) {
    if (v < 128n) { out.push(Number(v)); return Buffer.from(out); }
    out.push(Number(v & 127n) | 128);
  }
};
const bytes = (field, b) => Buffer.concat([varint(field << 3 | 2), varint(Buffer.from(b).length), Buffer.from(b)]);
const struct = (o) => Buffer.concat(Object.entries(o).map(([k, v]) =>
  bytes(1, Buffer.concat([bytes(1, k), bytes(2, bytes(3, v))]))));
const fields = (b) => { // length-delimited fields by number
  const out = {};
  for (let at = 0; at < b.length;) {
    const next = () => { let v = 0, s = 1; for (;;) { const c = b[at++]; v += (c & 127) * s; s *= 128; if (c < 128) return v; } };
    const tag = next();
    if ((tag & 7) === 0) { next(); continue; }
    const n = next();
    (out[tag >> 3] ??= []).push(b.subarray(at, at + n));
    at += n;
  }
  return out;
};

const nameOf = (type, f) => { // of a resource that comes without its name
  const one = (f) => (n) => String(f[n]?.[0] ?? '');
  if (!type.endsWith('.Address')) return `${one(f)(2)}/${one(f)(1)}`;
  return f[1] ? one(fields(f[1][0]))(20) : `${one(fields(f[2][0]))(2)}/${one(fields(f[2][0]))(3)}`;
};

const told = (r, world) => { // a response, by the schema of either protocol
  const f = fields(r);
  if (world) return { type: String(f[4][0]), nonce: f[5][0], version: f[1]?.[0], count: (f[2] ?? []).length,
    names: (f[2] ?? []).map((any) => nameOf(String(f[4][0]), fields(fields(any)[2][0]))) };
  const resources = {}, aliases = {};
  for (const one of (f[2] ?? []).map(fields)) {
    resources[String(one[3][0])] = String(one[1]?.[0] ?? '');
    if (one[4]) aliases[String(one[3][0])] = one[4].map(String);
  }
  return { type: String(f[4][0]), nonce: f[5][0], resources, aliases, removed: (f[6] ?? []).map(String) };
};

const request = (turn, node, last, world) => Buffer.concat(world
  ? [...(last?.version ? [bytes(1, last.version)] : []), ...(node ? [bytes(2, node)] : []),
     ...(turn.subscribe ?? []).map((n) => bytes(3, n)), bytes(4, turn.type), ...(last ? [bytes(5, last.nonce)] : []),
     ...(turn.nack ? [bytes(6, bytes(2, turn.nack))] : [])]
  : [...(node ? [bytes(1, node)] : []), bytes(2, turn.type), ...(turn.subscribe ?? []).map((n) => bytes(3, n)),
     ...(turn.unsubscribe ?? []).map((n) => bytes(4, n)),
     ...Object.entries(turn.initial ?? {}).map(([k, v]) => bytes(5, Buffer.concat([bytes(1, k), bytes(2, v)]))),
     ...(last ? [bytes(6, last.nonce)] : []), ...(turn.nack ? [bytes(7, bytes(2, turn.nack))] : [])]);

const metadata = (step) => {
  const m = new grpc.Metadata();
  if (step.token) m.set('authorization', `Bearer ${step.token}`);
  if (step.cluster) m.set('clusterid', step.cluster);
  return m;
};

const steps = {
  sign: (step) => new Promise((resolve) => {
    const request = step.zeros ? Buffer.alloc(step.zeros) : step.raw ? Buffer.from(step.raw, 'hex') : Buffer.concat([bytes(1, step.csr), ...(step.ttl === undefined ? [] : [varint(24), varint(step.ttl)]),
      ...(step.identity ? [bytes(4, struct({ ImpersonatedIdentity: step.identity }))] : [])]);
    client.sign(request, metadata(step), { deadline: Date.now() + 60000 }, (e, r) => resolve(e
      ? { code: e.code, text: e.details } : { code: 0, chain: fields(r)[1].map(String) }));
  }),
  twice: (step) => new Promise((resolve) => {
    const call = client.twice(metadata(step));
    call.on('error', () => {});
    call.on('data', () => {});
    call.on('status', (s) => resolve({ code: s.code, text: s.details }));
    call.write(bytes(1, step.csr));
    call.write(bytes(1, step.csr));
    call.end();
  }),
  crowd: (step) => new Promise((resolve) => {
    const clients = Array.from({ length: Math.ceil(step.calls / 100) }, () => connect({ 'grpc.use_local_subchannel_pool': 1 }));
    const calls = [];
    let full;
    const open = (i) => {
      const call = clients[i % clients.length].twice(metadata(step));
      calls[i] = call;
      call.on('error', () => {});
      call.on('data', () => {});
      call.on('status', (s) => {
        if (full) return;
        if (s.code !== grpc.status.RESOURCE_EXHAUSTED) { setTimeout(open, 10, i); return; }
        full = true;
        calls.forEach((c) => c.cancel());
        clients.forEach((c) => c.close());
        resolve({ code: s.code, text: s.details });
      });
    };
    for (let i = 0; i < step.calls; i++) open(i);
  }),
  stream: (step) => new Promise((resolve) => {
    const call = client.stream(metadata(step));
    const open = [];
    let told = false;
    call.on('error', () => {});
    call.on('status', (s) => {
      if (!told) resolve({ code: s.code, text: s.details });
      else if (step.hold) console.log(JSON.stringify({ ended: s.code, text: s.details }));
    });
    call.on('data', (r) => {
      const f = fields(r);
      open.push(String(f[4][0]));
      call.write(Buffer.concat([bytes(2, f[4][0]), bytes(6, f[5][0])]));
      if (open.length < step.types.length) return;
      told = true;
      if (!step.hold) call.cancel();
      resolve({ open });
    });
    const node = Buffer.concat([bytes(1, step.id), bytes(3, struct(step.metadata ?? {}))]);
    step.types.forEach((t, i) => call.write(Buffer.concat([...(i ? [] : [bytes(1, node)]), bytes(2, t)])));
  }),
};

steps.talk = async (step) => {
  const call = (step.world ? client.world : client.stream).call(client, metadata(step));
  const came = [];
  const waiting = [];
  let ended;
  call.on('error', () => {});
  call.on('status', (s) => { ended = { code: s.code, text: s.details }; waiting.forEach((w) => w()); });
  call.on('data', (r) => { came.push(told(r, step.world)); waiting.splice(0).forEach((w) => w()); });
  const next = async (quiet) => {
    const end = Date.now() + (quiet ? 700 : 60000);
    while (!came.length && !ended && Date.now() < end)
      await new Promise((resolve) => { waiting.push(resolve); setTimeout(resolve, Math.min(200, end - Date.now())); });
    return came.shift();
  };
  const turns = [];
  const last = {};
  let node = Buffer.concat([bytes(1, step.id), bytes(3, struct(step.metadata ?? {}))]);
  for (const turn of step.turns) {
    call.write(turn.zeros ? Buffer.alloc(turn.zeros) : turn.raw ? Buffer.from(turn.raw, 'hex')
      : request(turn, node, last[turn.type], step.world));
    node = undefined;
    const got = await next(turn.quiet);
    if (got) last[got.type] = got;
    turns.push(got ? { ...got, nonce: undefined, version: undefined } : null);
  }
  if (!ended) call.cancel();
  return { turns, ended };
};

steps.follow = (step) => new Promise(() => {
  const node = Buffer.concat([bytes(1, step.id), bytes(3, struct(step.metadata ?? {}))]);
  const have = {};
  const open = () => {
    const call = client.stream(metadata(step));
    let served = false;
    call.on('error', () => {});
    call.on('data', (r) => {
      const { type, nonce, resources, removed } = told(r);
      served = true;
      Object.assign(have, resources);
      removed.forEach((name) => delete have[name]);
      call.write(request({ type }, undefined, { nonce }));
      console.log(JSON.stringify({ resources: Object.keys(resources), removed, have: Object.keys(have) }));
    });
    call.on('status', (s) => {
      if (served) console.log(JSON.stringify({ ended: s.code }));
      setTimeout(open, 200);
    });
    call.write(request({ type: step.type, initial: have }, node));
  };
  open();
});

// Piece by piece: readFileSync(0) failed on a long input with Node.js 18.
const input = [];
for await (const piece of process.stdin) input.push(piece);
for (const step of JSON.parse(Buffer.concat(input))) console.log(JSON.stringify(await steps[step.do](step)));
