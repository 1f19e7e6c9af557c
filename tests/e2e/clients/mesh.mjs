// SPDX-License-Identifier: Apache-2.0
// A node proxy as others build it (npm's gRPC, messages encoded by hand): asks the mesh's port for certificates and
// opens streams. mesh.mjs ADDRESS ROOTS [CHAIN KEY]; standard input is a list of steps, each answered by a line:
//   {"do": "sign", "csr", "ttl", "identity", "token", "cluster"} -> {"code", "text", "chain"}
//   {"do": "twice", "csr", "token"}: a call with two requests -> {"code", "text"}
//   {"do": "stream", "id", "metadata", "token", "types", "hold"} -> {"code", "text"} or {"open": [types answered]};
//     "hold": the stream stays open and a line {"ended": code, "text"} follows when it ends
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
}, 'Mesh');
const read = (f) => (f ? readFileSync(f) : undefined);
const client = new Client(address, grpc.credentials.createSsl(readFileSync(roots), read(key), read(chain)),
  { 'grpc.ssl_target_name_override': 'istiod.istio-system.svc', 'grpc.default_authority': 'istiod.istio-system.svc' });

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

const metadata = (step) => {
  const m = new grpc.Metadata();
  if (step.token) m.set('authorization', `Bearer ${step.token}`);
  if (step.cluster) m.set('clusterid', step.cluster);
  return m;
};

const steps = {
  sign: (step) => new Promise((resolve) => {
    const request = Buffer.concat([bytes(1, step.csr), ...(step.ttl === undefined ? [] : [varint(24), varint(step.ttl)]),
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

for (const step of JSON.parse(readFileSync(0))) console.log(JSON.stringify(await steps[step.do](step)));
