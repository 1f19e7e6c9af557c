// SPDX-License-Identifier: Apache-2.0
// Drives the xDS server in tests/tools with npm's gRPC and Envoy's own schemas:
//   xds.mjs SERVER-PROGRAM [CHAIN KEY ROOTS]
// Every finished scenario is one line of JSON: {"op": NAME, "got": ...}. Certificates: the server speaks TLS.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { createInterface } from 'node:readline';
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const [program, ...tls] = process.argv.slice(2);
const deps = path.join(path.dirname(createRequire(import.meta.url).resolve('@grpc/grpc-js-xds/package.json')), 'deps');
const schemas = grpc.loadPackageDefinition(loadSync(['envoy/service/discovery/v3/ads.proto'], {
  keepCase: true, longs: String, enums: String, defaults: true, oneofs: true,
  includeDirs: ['envoy-api', 'xds', 'googleapis', 'protoc-gen-validate'].map((d) => path.join(deps, d)),
}));
const Ads = schemas.envoy.service.discovery.v3.AggregatedDiscoveryService;
const url = (short) => `type.googleapis.com/${{
  CDS: 'envoy.config.cluster.v3.Cluster', EDS: 'envoy.config.endpoint.v3.ClusterLoadAssignment',
  LDS: 'envoy.config.listener.v3.Listener', RDS: 'envoy.config.route.v3.RouteConfiguration',
  OWN: 'spanwire.test.v1.Own', ADR: 'istio.workload.Address', AUT: 'istio.security.Authorization' }[short]}`;
const short = (u) => ['CDS', 'EDS', 'LDS', 'RDS', 'OWN', 'ADR', 'AUT'].find((s) => url(s) === u);

// The server under test: lines in, lines out.
class Server {
  constructor(...args) {
    this.child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.lines = createInterface(this.child.stdout)[Symbol.asyncIterator]();
  }

  async line() { return (await this.lines.next()).value; }

  async start() { this.port = Number((await this.line()).split(' ')[1]); }

  // [[name, value, alias, node, service], ...]: Addresses of a mesh; a dash is none.
  async mesh(...entries) {
    for (const [name, value, ...found] of entries) {
      this.child.stdin.write(`mesh ${url('ADR')} ${name} ${Buffer.from(value).toString('hex')} ${found.join(' ')}\n`);
    }
    this.child.stdin.write('commit\n');
    return this.line();
  }

  // {"OWN": {"a": "1", "b": null}}: sets and removes.
  async commit(sets) {
    for (const [type, entries] of Object.entries(sets)) {
      for (const [name, value] of Object.entries(entries)) {
        this.child.stdin.write(value === null ? `del ${url(type)} ${name}\n`
          : `set ${url(type)} ${name} ${Buffer.from(value).toString('hex')}\n`);
      }
    }
    this.child.stdin.write('commit\n');
    return this.line();
  }

  async status() {
    this.child.stdin.write('status\n');
    const out = [];
    for (let l = await this.line(); l !== 'end'; l = await this.line()) out.push(l);
    return out;
  }

  // What a client sends and what is committed come by different ways: waits until the server has heard the former.
  async heard(good) {
    const late = Date.now() + 40000;
    while (!good(await this.status()) && Date.now() < late) await new Promise((r) => { setTimeout(r, 5); });
  }

  stop() { this.child.stdin.end(); }
}

// One stream; responses become "OWN +a=1 -b" and wait in a queue.
class Stream {
  constructor(client, method, metadata) {
    this.queue = [];
    this.waiters = [];
    this.delta = method.startsWith('Delta');
    this.call = client[method](metadata ?? new grpc.Metadata());
    this.ended = new Promise((resolve) => { this.call.on('status', (s) => resolve([s.code, s.details])); });
    this.call.on('error', () => {});
    this.call.on('data', (r) => {
      const text = this.delta
        ? [...r.resources.map((x) => [`+${x.name}=${x.resource.value}`, ...x.aliases].join('@')), ...r.removed_resources.map((n) => `-${n}`).sort()]
        : r.resources.map((x) => `+${x.value}`);
      const item = { text: [short(r.type_url), ...text].join(' '), nonce: r.nonce, type: r.type_url,
        versions: Object.fromEntries((this.delta ? r.resources : []).map((x) => [x.name, x.version])) };
      const waiter = this.waiters.shift();
      if (waiter) waiter(item); else this.queue.push(item);
    });
    this.first = true;
  }

  send(type, fields = {}) {
    this.call.write({ type_url: url(type), ...(this.first && { node: { id: 'js-node', cluster: 'test', metadata: { fields: { NODE_NAME: { stringValue: 'here' } } } } }), ...fields });
    this.first = false;
  }

  next() {
    const item = this.queue.shift();
    return item ? Promise.resolve(item) : new Promise((resolve) => { this.waiters.push(resolve); });
  }

  // The next response, answered: refused when there is a reason.
  async take(nack, fields = {}) {
    const r = await this.next();
    this.last = r;
    this.call.write({ type_url: r.type, response_nonce: r.nonce, ...fields,
      ...(nack && { error_detail: { code: 3, message: nack } }) });
    return r.text;
  }

  quiet(ms = 60) {
    return new Promise((resolve) => { setTimeout(() => resolve(this.queue.map((i) => i.text)), ms); });
  }

  close() { this.call.cancel(); }
}

const server = new Server(...(tls.length ? ['--tls', ...tls, '--token', 's3cret'] : []));
await server.start();
const connect = () => new Ads(`127.0.0.1:${server.port}`,
  tls.length ? grpc.credentials.createSsl(readFileSync(tls[2])) : grpc.credentials.createInsecure());
const client = connect();
const withToken = (t) => { const m = new grpc.Metadata(); if (t) m.set('authorization', `Bearer ${t}`); return m; };
const open = (method = 'DeltaAggregatedResources', token = 's3cret', from = client) =>
  new Stream(from, method, tls.length ? withToken(token) : undefined);

const scenarios = {
  async mesh_all() {
    await server.commit({ AUT: { p: '1' } });
    await server.mesh(['far', '1', 'n/1', 'there', '-'], ['near', '1', 'n/2', 'here', '-']);
    const s = open();
    s.send('ADR');
    s.send('AUT');
    const first = [await s.take(), await s.take()].sort(); // whichever was asked for first
    const versions = { far: 'another', near: '', gone: 'x' };
    await server.commit({ ADR: { far: '2' }, AUT: { p: null, q: '1' } });
    const got = [first, await s.take(), await s.take(), await s.take('far: I refuse'), await s.quiet()];
    s.close();
    const again = open();
    again.send('AUT', { initial_resource_versions: { p: 'x' } });
    again.send('ADR', { initial_resource_versions: versions });
    got.push([await again.take(), await again.take(), await again.take()].sort(), await again.quiet());
    again.close();
    return got;
  },
  async mesh_on_demand() {
    await server.mesh(['ns/svc', 's', 'n/vip', '-', '-'], ['w1', '1', 'n/11', 'there', 'ns/svc'],
      ['near', '1', 'n/2', 'here', '-'], ['other', '1', 'n/12', 'there', '-']);
    const s = open();
    s.send('ADR', { resource_names_subscribe: ['*'], resource_names_unsubscribe: ['*'] });
    const got = [await s.take()];
    s.send('ADR', { resource_names_subscribe: ['n/vip', 'n/99'] });
    got.push(await s.take());
    await server.mesh(['w2', '1', 'n/13', 'there', 'ns/svc'], ['other', '2', 'n/12', 'there', '-']);
    got.push(await s.take());
    s.send('ADR', { resource_names_subscribe: ['other'] });
    got.push(await s.take());
    await server.commit({ ADR: { w1: null } });
    got.push(await s.take(), await s.quiet());
    s.close();
    return got;
  },
  async mesh_state_of_the_world() {
    await server.commit({ AUT: { a: '1' } });
    const s = open('StreamAggregatedResources');
    s.send('AUT');
    const got = [await s.take()];
    await server.commit({ AUT: { a: '2' } });
    got.push(await s.take(), await s.quiet());
    s.close();
    return got;
  },
  async wildcard() {
    await server.commit({ OWN: { a: '1', b: '1' } });
    const s = open();
    s.send('OWN');
    const got = [await s.take()];
    await server.commit({ OWN: { b: '2', c: '1', a: null } });
    got.push(await s.take(), await s.quiet());
    s.close();
    return got;
  },
  async names() {
    await server.commit({ EDS: { x: '1', y: '1' } });
    const s = open();
    s.send('EDS', { resource_names_subscribe: ['x', 'ghost'] });
    const got = [await s.take()];
    s.send('EDS', { resource_names_subscribe: ['x'] });
    got.push(await s.take());
    s.send('EDS', { resource_names_unsubscribe: ['x'] });
    await server.heard((lines) => lines.some((l) => /LoadAssignment .* names=1 /.test(l)));
    await server.commit({ EDS: { x: '2', y: '2', ghost: '3' } });
    got.push(await s.take(), await s.quiet());
    s.close();
    return got;
  },
  async wildcard_and_names() {
    const s = open();
    s.send('OWN', { resource_names_subscribe: ['*', 'b', 'nobody'] });
    const got = [await s.take()];
    s.send('OWN', { resource_names_unsubscribe: ['b'] });
    got.push(await s.take());
    s.send('OWN', { resource_names_unsubscribe: ['*'] });
    await server.heard((lines) => lines.some((l) => /Own .* wildcard=0 names=1 /.test(l)));
    await server.commit({ OWN: { b: '3', nobody: '1' } });
    got.push(await s.take(), await s.quiet());
    s.close();
    return got;
  },
  async nack() {
    const s = open();
    s.send('CDS', { resource_names_subscribe: ['*'] });
    const got = [await s.take()];
    await server.commit({ CDS: { bad: 'x' } });
    const nacks = (lines) => lines.filter((l) => l.includes('Cluster ')).map((l) => l.replace(/^.* nacks=/, 'nacks='));
    got.push(await s.take('I refuse: \u00e4 100%'), await s.quiet());
    await server.heard((lines) => nacks(lines)[0]?.startsWith('nacks=1'));
    got.push(nacks(await server.status()));
    await server.commit({ CDS: { bad: 'y' } });
    got.push(await s.take());
    await server.heard((lines) => nacks(lines)[0]?.endsWith('nack='));
    got.push(nacks(await server.status()));
    s.close();
    return got;
  },
  async reconnect() {
    await server.commit({ RDS: { p: '1', q: '1', r: '1' } });
    const s = open();
    s.send('RDS', { resource_names_subscribe: ['*'] });
    const got = [await s.take()];
    const held = { ...s.last.versions, lost: 'v' };
    s.close();
    await server.commit({ RDS: { q: '2', s: '1', r: null } });
    const again = open();
    again.send('RDS', { resource_names_subscribe: ['*'], initial_resource_versions: held });
    got.push(await again.take(), await again.quiet());
    again.close();
    return got;
  },
  async order() {
    await server.commit({ CDS: { bad: null, c1: 'c1' }, LDS: { l: 'l1' }, RDS: { p: 'r1' } });
    const s = open();
    s.send('CDS');
    s.send('LDS');
    s.send('RDS', { resource_names_subscribe: ['p'] });
    const got = [await s.take(), await s.take(), await s.take()];
    await server.heard((lines) => lines.length === 3 && lines.every((l) => l.includes(' synced=1 ')));
    await server.commit({ CDS: { c1: null, c2: 'c2' }, LDS: { l: 'l2' }, RDS: { p: 'r2' } });
    for (let i = 0; i < 4; i += 1) {
      const r = await s.next();
      got.push([r.text, await s.quiet(40)]);
      s.call.write({ type_url: r.type, response_nonce: r.nonce });
    }
    s.close();
    return got;
  },
  async state_of_the_world() {
    const s = open('StreamAggregatedResources');
    s.send('LDS');
    const got = [await s.take()];
    await server.commit({ LDS: { m: 'm1' } });
    got.push(await s.take());
    await server.commit({ LDS: { l: null } });
    got.push(await s.take());
    s.send('EDS', { resource_names: ['y'] });
    got.push(await s.take(null, { resource_names: ['y', 'late'] }), await s.quiet());
    await server.heard((lines) => lines.some((l) => /LoadAssignment .* names=2 /.test(l)));
    await server.commit({ EDS: { late: '9', x: '9' } });
    got.push(await s.take(null, { resource_names: ['y', 'late'] }), await s.quiet());
    s.close();
    return got;
  },
  async large() {
    const big = 'x'.repeat(10000);
    await server.commit({ OWN: Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`big-${i}`, big])) });
    const s = open();
    s.send('OWN', { resource_names_subscribe: ['*'] });
    const names = new Set();
    let responses = 0;
    while (names.size < 1002) {
      await s.take();
      responses += 1;
      Object.keys(s.last.versions).forEach((n) => names.add(n));
    }
    const got = [names.size >= 1002, responses > 5, await s.quiet()];
    s.close();
    await server.commit({ OWN: Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`big-${i}`, null])) });
    return got;
  },
  async slow() {
    // One client that reads nothing does not keep another from hearing of every change.
    await server.commit({ OWN: { slow: 'x'.repeat(3000000) } });
    const lazy = open('DeltaAggregatedResources', 's3cret', connect());
    lazy.call.pause();
    lazy.send('OWN');
    const s = open();
    s.send('OWN', { resource_names_subscribe: ['pulse'] });
    await s.take();
    let heard = 0;
    for (let i = 0; i < 20; i += 1) {
      await server.commit({ OWN: { slow: `${i}${'y'.repeat(1000000)}`, pulse: `${i}` } });
      if ((await s.take()).endsWith(`+pulse=${i}`)) heard += 1;
    }
    lazy.close();
    s.close();
    await server.commit({ OWN: { slow: null, pulse: null } });
    return heard;
  },
  async refusals() {
    const s = open();
    s.call.write({ type_url: '', node: { id: 'x' } });
    const got = [(await s.ended)[0]];
    if (tls.length) {
      const thief = open('DeltaAggregatedResources', 'wrong');
      thief.send('OWN');
      got.push(await thief.ended);
      const nobody = open('DeltaAggregatedResources', '');
      nobody.send('OWN');
      got.push(await nobody.ended);
    }
    return got;
  },
};

for (const [op, run] of Object.entries(scenarios)) {
  process.stdout.write(`${JSON.stringify({ op, got: await run() })}\n`);
}
client.close();
server.stop();
setTimeout(() => process.exit(0), 200);
