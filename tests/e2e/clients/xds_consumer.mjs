// SPDX-License-Identifier: Apache-2.0
// A gRPC application that finds its server through xDS (npm's @grpc/grpc-js-xds, state of the world):
//   xds_consumer.mjs SERVER-PROGRAM
// Prints a line of JSON per step: {"op": NAME, "got": ...}. Resources are encoded with Envoy's own schemas.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';
import { createInterface } from 'node:readline';
import * as grpc from '@grpc/grpc-js';
import '@grpc/proto-loader'; // brings google/protobuf/descriptor.proto
import protobuf from 'protobufjs';

const [program] = process.argv.slice(2);
const deps = path.join(path.dirname(createRequire(import.meta.url).resolve('@grpc/grpc-js-xds/package.json')), 'deps');
const root = new protobuf.Root();
const { resolvePath } = root;
root.resolvePath = (origin, target) => {
  if (protobuf.common.get(target)) return target;
  for (const d of ['envoy-api', 'xds', 'googleapis', 'protoc-gen-validate']) {
    const full = path.join(deps, d, target);
    if (protobuf.util.fs.existsSync(full)) return full;
  }
  return resolvePath(origin, target);
};
root.loadSync(['envoy/config/listener/v3/listener.proto', 'envoy/config/route/v3/route.proto',
  'envoy/config/cluster/v3/cluster.proto', 'envoy/config/endpoint/v3/endpoint.proto',
  'envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.proto',
  'envoy/extensions/filters/http/router/v3/router.proto'], { keepCase: true });
const types = { LDS: 'envoy.config.listener.v3.Listener', RDS: 'envoy.config.route.v3.RouteConfiguration',
  CDS: 'envoy.config.cluster.v3.Cluster', EDS: 'envoy.config.endpoint.v3.ClusterLoadAssignment' };
const encode = (type, o) => {
  const t = root.lookupType(type);
  return Buffer.from(t.encode(t.fromObject(o)).finish());
};
const any = (type, o) => ({ type_url: `type.googleapis.com/${type}`, value: encode(type, o) });
const ads = { ads: {}, resource_api_version: 'V3' };

const listener = { name: 'shop', api_listener: { api_listener: any(
  'envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager', {
    stat_prefix: 'shop', rds: { config_source: ads, route_config_name: 'shop-routes' },
    http_filters: [{ name: 'router', typed_config: any('envoy.extensions.filters.http.router.v3.Router', {}) }],
  }) } };
const routes = (cluster) => ({ name: 'shop-routes', virtual_hosts: [{ name: 'all', domains: ['*'],
  routes: [{ match: { prefix: '' }, route: { cluster } }] }] });
const cluster = (name) => ({ name, type: 'EDS', eds_cluster_config: { eds_config: ads }, lb_policy: 'ROUND_ROBIN' });
const endpoints = (name, port) => ({ cluster_name: name, endpoints: [{ locality: { region: 'r', zone: 'z' },
  load_balancing_weight: { value: 1 }, lb_endpoints: [{ endpoint: { address: { socket_address: {
    address: '127.0.0.1', port_value: port } } }, load_balancing_weight: { value: 1 } }] }] });

// A method of bytes: no schema needed.
const bytes = (b) => b;
const methods = { Echo: { path: '/test.Shop/Echo', requestStream: false, responseStream: false,
  requestSerialize: bytes, requestDeserialize: bytes, responseSerialize: bytes, responseDeserialize: bytes } };
const backend = (name) => new Promise((resolve) => {
  const s = new grpc.Server();
  s.addService(methods, { Echo: (call, done) => done(null, Buffer.from(`${name}:${call.request}`)) });
  s.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (e, port) => resolve(port));
});

const child = spawn(program, [], { stdio: ['pipe', 'pipe', 'inherit'] });
const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
const line = async () => (await lines.next()).value;
const commit = async (sets) => {
  for (const [type, name, o] of sets) {
    child.stdin.write(o === null ? `del type.googleapis.com/${types[type]} ${name}\n`
      : `set type.googleapis.com/${types[type]} ${name} ${encode(types[type], o).toString('hex')}\n`);
  }
  child.stdin.write('commit\n');
  return line();
};
const say = (op, got) => process.stdout.write(`${JSON.stringify({ op, got })}\n`);

const port = (await line()).split(' ')[1];
process.env.GRPC_XDS_BOOTSTRAP_CONFIG = JSON.stringify({ node: { id: 'shop-client', locality: {} },
  xds_servers: [{ server_uri: `127.0.0.1:${port}`, channel_creds: [{ type: 'insecure' }], server_features: ['xds_v3'] }] });
(await import('@grpc/grpc-js-xds')).register();
const [one, two] = [await backend('one'), await backend('two')];
const Shop = grpc.makeGenericClientConstructor(methods, 'Shop');
const client = new Shop('xds:///shop', grpc.credentials.createInsecure());
const ask = (text) => new Promise((resolve) => {
  client.Echo(Buffer.from(text), { deadline: Date.now() + 60000 }, (e, r) => resolve(e ? `status ${e.code} ${e.details}` : `${r}`));
});
const eventually = async (want) => {
  const until = Date.now() + 60000;
  let got = await ask('x');
  while (got !== want && Date.now() < until) {
    await new Promise((r) => { setTimeout(r, 20); });
    got = await ask('x');
  }
  return got;
};

await commit([['LDS', 'shop', listener], ['RDS', 'shop-routes', routes('a')], ['CDS', 'a', cluster('a')],
  ['EDS', 'a', endpoints('a', one)]]);
say('first', await ask('hello'));
await commit([['EDS', 'a', endpoints('a', two)]]);
say('endpoints', await eventually('two:x'));
// From cluster a to b while calls go on: none may fail.
const results = [];
let going = true;
const load = (async () => { while (going) results.push(await ask('x')); })();
for (let i = 0; i < 10; i += 1) {
  const [now, then] = i % 2 ? ['a', 'b'] : ['b', 'a'];
  await commit([['CDS', now, cluster(now)], ['EDS', now, endpoints(now, i % 2 ? two : one)],
    ['RDS', 'shop-routes', routes(now)], ['CDS', then, null], ['EDS', then, null]]);
  const before = results.length; // some calls that began before it, some after
  while (results.length < before + 5) await new Promise((r) => { setTimeout(r, 10); });
}
going = false;
await load;
say('switches', { calls: results.length > 20, failed: results.filter((r) => !/^(one|two):x$/.test(r)).slice(0, 3) });
child.stdin.write('status\n');
const status = [];
for (let l = await line(); l !== 'end'; l = await line()) status.push(l);
say('status', status.map((l) => l.replace(/^node=(\S+) type=\S*\.(\w+) delta=(\d).* nacks=(\d+).*$/, '$1 $2 $3 $4')));
client.close();
child.stdin.end();
setTimeout(() => process.exit(0), 200);
