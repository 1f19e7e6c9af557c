// SPDX-License-Identifier: Apache-2.0
// Clients of other makes for the conformance replay: npm's gRPC and WebSocket. Lines of JSON as in echo.mjs:
//   {"id": 1, "op": "grpc", "target": "127.64.0.1:80", "authority": HOST, "method": "Echo", "headers": {}, "count": 1}
//   {"id": 2, "op": "ws", "url": "ws://127.64.0.1:80/ws", "host": HOST, "text": TEXT}
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import WebSocket from 'ws';

const DEADLINE_MS = 60000;
const PARALLEL = 8;
const proto = path.join(path.dirname(fileURLToPath(import.meta.url)), 'echo.proto');
const { GrpcEcho } = grpc.loadPackageDefinition(loadSync(proto, { keepCase: true }))
  .gateway_api_conformance.echo_basic.grpcecho;

function call(client, method, headers) {
  const metadata = new grpc.Metadata();
  for (const [k, v] of Object.entries(headers ?? {})) metadata.set(k, v);
  return new Promise((resolve) => {
    client[method]({}, metadata, { deadline: Date.now() + DEADLINE_MS }, (e, answer) => {
      resolve(e ? { code: e.code, details: e.details } : { code: 0, assertions: answer.assertions });
    });
  });
}

const operations = {
  async grpc({ target, authority, method, headers, count }) {
    const client = new GrpcEcho(target, grpc.credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1, ...(authority ? { 'grpc.default_authority': authority } : {}) });
    const got = [];
    try {
      for (let left = count ?? 1; left > 0; left -= PARALLEL) {
        // eslint-disable-next-line no-await-in-loop
        got.push(...await Promise.all(Array.from({ length: Math.min(left, PARALLEL) },
          () => call(client, method, headers))));
      }
    } finally {
      client.close();
    }
    return got;
  },
  ws({ url, host, text }) {
    return new Promise((resolve, reject) => {
      const ws = new WebSocket(url, { headers: host ? { host } : {}, handshakeTimeout: DEADLINE_MS });
      ws.on('open', () => ws.send(text));
      ws.on('message', (data) => {
        resolve(data.toString());
        ws.close();
      });
      ws.on('error', reject);
      ws.on('close', () => reject(new Error('closed')));
    });
  },
};

createInterface(process.stdin).on('line', async (line) => {
  const { id, op, ...rest } = JSON.parse(line);
  let answer;
  try {
    answer = { id, got: await operations[op](rest) };
  } catch (e) {
    answer = { id, error: String(e) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}).on('close', () => process.exit(0));
