// SPDX-License-Identifier: Apache-2.0
// The backends of the conformance replay, all in one process; every pod has a loopback address of its own.
// A line of JSON on standard input is a command, its answer a line on standard output with the same id:
//   {"id": 1, "op": "start", "ip": "127.100.0.1", "pod": NAME, "namespace": NS, "env": {...}, "cert", "key", "ca"}
//   {"id": 2, "op": "stop", "ip": "127.100.0.1"}
//   {"id": 3, "op": "logs", "ips": [...], "needle": TEXT}    how many log lines hold the text
// What a pod serves is chosen by its environment, as for the image it stands for.
import dgram from 'node:dgram';
import http from 'node:http';
import http2 from 'node:http2';
import net from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import tls from 'node:tls';
import { fileURLToPath } from 'node:url';
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { WebSocketServer } from 'ws';

const MAX_LOG = 20000;
const proto = path.join(path.dirname(fileURLToPath(import.meta.url)), 'echo.proto');
const { GrpcEcho } = grpc.loadPackageDefinition(loadSync(proto, { keepCase: true }))
  .gateway_api_conformance.echo_basic.grpcecho;
const sockets = new WebSocketServer({ noServer: true });
sockets.on('connection', (ws) => {
  ws.on('error', () => {});
  ws.on('message', (data, binary) => ws.send(data, { binary }));
});

const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
const canonical = (name) => name.toLowerCase().replace(/(^|-)[a-z]/g, (c) => c.toUpperCase());

// Go's durations as far as the tests use them.
function milliseconds(text) {
  const m = /^(\d+(?:\.\d+)?)(ms|s|m)$/.exec(text ?? '');
  return m ? Number(m[1]) * { ms: 1, s: 1000, m: 60000 }[m[2]] : 0;
}

const pem = (der) => `-----BEGIN CERTIFICATE-----\n${der.toString('base64').replace(/(.{64})(?=.)/g, '$1\n')}\n`
  + '-----END CERTIFICATE-----\n';

function tlsFacts(socket) {
  if (!socket.encrypted) return undefined;
  const peer = socket.getPeerCertificate();
  return {
    version: socket.getProtocol(),
    peerCertificates: peer && peer.raw ? [pem(peer.raw)] : [],
    serverName: socket.servername || '',
    negotiatedProtocol: socket.alpnProtocol || '',
    cipherSuite: socket.getCipher().standardName,
  };
}

class Pod {
  constructor(spec) {
    this.spec = spec;
    this.env = spec.env ?? {};
    this.lines = [];
    this.attempts = new Map(); // per uuid of a retry simulation
    this.closers = [];
    this.open = new Set();
  }

  context() {
    return {
      namespace: this.spec.namespace,
      ingress: this.env.INGRESS_NAME ?? '',
      service: this.env.SERVICE_NAME ?? '',
      pod: this.spec.pod,
    };
  }

  log(line) {
    if (this.lines.length >= MAX_LOG) this.lines.splice(0, MAX_LOG / 2);
    this.lines.push(line);
  }

  port(name, otherwise) { return Number(this.env[name] ?? otherwise); }

  async start() {
    if (this.env.GRPC_ECHO_SERVER) await this.startGrpc();
    else if (this.env.TCP_ECHO_SERVER) await this.startTcp();
    else if (this.env.UDP_ECHO_SERVER) await this.startUdp(this.port('UDP_PORT', 8080), (d) => this.udpEcho(d));
    else if (this.env.DNS_SERVER) await this.startUdp(53, dnsAnswer);
    else await this.startHttp();
  }

  async stop() {
    for (const s of this.open) s.destroy();
    await Promise.all(this.closers.map((close) => close()));
  }

  listen(server, port) {
    const keep = (s) => {
      this.open.add(s);
      s.on('error', () => {});
      s.on('close', () => this.open.delete(s));
    };
    server.on('connection', keep);
    if (server instanceof tls.Server) server.on('secureConnection', keep);
    server.on('sessionError', () => {});
    server.on('clientError', (e, s) => s.destroy());
    server.on('tlsClientError', () => {});
    this.closers.push(() => new Promise((resolve) => { server.close(resolve); }));
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, this.spec.ip, 511, resolve);
    });
  }

  // ---- HTTP ----

  async startHttp() {
    const handle = (req, res) => this.http(req, res).catch((e) => {
      process.stderr.write(`${this.spec.pod}: ${e.stack}\n`);
      res.destroy?.();
    });
    const plain = http.createServer(handle);
    plain.on('upgrade', (req, socket, head) => {
      if (req.url.split('?')[0] === '/ws') {
        sockets.handleUpgrade(req, socket, head, (ws) => sockets.emit('connection', ws, req));
      } else socket.destroy();
    });
    await this.listen(plain, this.port('HTTP_PORT', 3000));
    const h2c = http2.createServer(handle);
    h2c.on('unknownProtocol', (socket) => socket.end('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n'));
    await this.listen(h2c, this.port('H2C_PORT', 3001));
    if (!this.spec.cert) return;
    const secure = http2.createSecureServer({ ...this.tlsOptions(), allowHTTP1: true }, handle);
    this.checkClients(secure);
    await this.listen(secure, this.port('HTTPS_PORT', 8443));
  }

  tlsOptions() {
    const { cert, key, ca } = this.spec;
    return { cert, key, ca: ca ? [ca] : undefined, requestCert: Boolean(ca), rejectUnauthorized: false };
  }

  // A certificate that a client does give has to be one of the authority.
  checkClients(server) {
    server.prependListener('secureConnection', (s) => {
      if (this.spec.ca && s.getPeerCertificate()?.raw && !s.authorized) s.destroy();
    });
  }

  async http(req, res) {
    const url = new URL(req.url.replace(/^\/\/+/, '/'), 'http://none');
    const query = url.searchParams;
    req.resume();
    if (url.pathname === '/health') return void res.end('OK');
    const status = /^\/status\/(.*)$/.exec(url.pathname);
    if (status) {
      const code = Number(status[1]);
      res.statusCode = code >= 200 && code <= 599 ? code : 400;
      return void res.end();
    }
    if (url.pathname.startsWith('/retry') && query.has('uuid') && await this.fails(query, req, res)) return undefined;
    await sleep(milliseconds(query.get('delay')));
    return void this.echo(req, res);
  }

  // The first calls with one uuid fail as the query asks.
  async fails(query, req, res) {
    const uuid = query.get('uuid');
    const seen = this.attempts.get(uuid) ?? 0;
    this.attempts.set(uuid, seen + 1);
    if (seen >= Number(query.get('succeedAfter') ?? 0)) return false;
    await sleep(milliseconds(query.get('delayRetry')));
    if (query.has('responseCode')) {
      res.statusCode = Number(query.get('responseCode'));
      res.end();
    } else req.socket.resetAndDestroy();
    return true;
  }

  echo(req, res) {
    const socket = req.stream?.session?.socket ?? req.socket;
    const headers = {};
    for (let i = 0; i < req.rawHeaders.length; i += 2) {
      const name = canonical(req.rawHeaders[i]);
      if (name[0] !== ':' && name !== 'Host') (headers[name] ??= []).push(req.rawHeaders[i + 1]);
    }
    const body = {
      path: req.url,
      host: req.headers.host ?? req.authority ?? '',
      method: req.method,
      proto: `HTTP/${req.httpVersion}`,
      headers,
      httpPort: String(socket.localPort ?? ''),
      ...this.context(),
      tls: req.stream ? h2Facts(req.stream.session) : tlsFacts(socket),
    };
    this.log(`Echoing back request made to ${req.url} to client (${socket.remoteAddress}:${socket.remotePort})`);
    const asked = askedHeaders(headers['X-Echo-Set-Header'] ?? []);
    for (const [name, values] of asked) res.setHeader(name, values.join(','));
    res.setHeader('Content-Type', 'application/json');
    res.setHeader('X-Content-Type-Options', 'nosniff');
    res.end(JSON.stringify(body, null, 1));
  }

  // ---- gRPC ----

  async startGrpc() {
    const server = new grpc.Server();
    const answer = (method) => (call, callback) => {
      const headers = Object.entries(call.metadata.toJSON())
        .flatMap(([key, values]) => values.map((value) => ({ key, value: String(value) })));
      const { namespace, ingress, service, pod } = this.context();
      callback(null, { assertions: {
        fully_qualified_method: `/gateway_api_conformance.echo_basic.grpcecho.GrpcEcho/${method}`,
        headers,
        authority: call.getHost(),
        context: { namespace, ingress, service_name: service, pod },
      }, request: {} });
    };
    const unimplemented = (call, callback) => callback({ code: grpc.status.UNIMPLEMENTED, details: 'not here' });
    server.addService(GrpcEcho.service, { Echo: answer('Echo'), EchoTwo: answer('EchoTwo'), EchoThree: unimplemented });
    await new Promise((resolve, reject) => {
      server.bindAsync(`${this.spec.ip}:${this.port('HTTP_PORT', 3000)}`, grpc.ServerCredentials.createInsecure(),
        (e) => (e ? reject(e) : resolve()));
    });
    this.closers.push(async () => server.forceShutdown());
  }

  // ---- TCP ----

  async startTcp() {
    const talk = (socket) => {
      socket.on('error', () => {});
      socket.write('Gateway API Test TCP Server\n');
      createInterface(socket).on('line', (line) => {
        if (line === 'TEST') {
          const facts = { ...this.context(), isTLS: Boolean(socket.encrypted), tls: tlsFacts(socket) };
          socket.write(`${JSON.stringify(facts)}\n`);
        } else if (line === 'IS_TLS') socket.write(`${Boolean(socket.encrypted)}\n`);
        else if (line === 'PING') socket.write('PONG\n');
      });
    };
    await this.listen(net.createServer(talk), this.port('TCP_PORT', 3000));
    if (!this.spec.cert) return;
    const secure = tls.createServer(this.tlsOptions(), talk);
    await this.listen(secure, this.port('TLS_PORT', 8443));
  }

  // ---- UDP ----

  udpEcho(data) {
    return Buffer.from(JSON.stringify({ request: data.subarray(0, 1024).toString(), ...this.context() }));
  }

  async startUdp(port, answer) {
    const socket = dgram.createSocket('udp4');
    socket.on('message', (data, from) => {
      const reply = answer(data, from);
      if (reply) socket.send(reply, from.port, from.address);
    });
    await new Promise((resolve, reject) => {
      socket.once('error', reject);
      socket.bind(port, this.spec.ip, resolve);
    });
    this.closers.push(() => new Promise((resolve) => { socket.close(resolve); }));
  }
}

// The session hides the socket's methods; its own proxy lets these through.
function h2Facts(session) {
  return session.encrypted ? tlsFacts(session.socket) : undefined;
}

function askedHeaders(values) {
  const asked = new Map();
  for (const item of values.join(',').split(',')) {
    const at = item.indexOf(':');
    if (at > 0) {
      const name = item.slice(0, at).trim();
      asked.set(name, [...(asked.get(name) ?? []), item.slice(at + 1).trim()]);
    }
  }
  return asked;
}

// Tells who asks, as the "whoami" zone of the suite: the sender's address in the additional section.
function dnsAnswer(data, from) {
  if (data.length < 17) return null;
  let end = 12;
  while (end < data.length && data[end] !== 0) end += data[end] + 1;
  const question = data.subarray(12, end + 5);
  const head = Buffer.from([data[0], data[1], 0x84, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
  const address = Buffer.from(from.address.split('.').map(Number));
  return Buffer.concat([head, question, Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4]), address]);
}

const pods = new Map();
const operations = {
  async start(spec) {
    const pod = new Pod(spec);
    await pod.start();
    pods.set(spec.ip, pod);
  },
  async stop({ ip }) {
    const pod = pods.get(ip);
    pods.delete(ip);
    await pod?.stop();
  },
  async logs({ ips, needle }) {
    return ips.reduce((n, ip) => n + (pods.get(ip)?.lines.filter((l) => l.includes(needle)).length ?? 0), 0);
  },
};

createInterface(process.stdin).on('line', async (line) => {
  const { id, op, ...rest } = JSON.parse(line);
  let answer;
  try {
    answer = { id, got: (await operations[op](rest)) ?? null };
  } catch (e) {
    answer = { id, error: String(e) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}).on('close', () => process.exit(0));
