// SPDX-License-Identifier: Apache-2.0
// An authorisation service by Envoy's own definitions (npm's @grpc/grpc-js and the protos of @grpc/grpc-js-xds).
// Prints {"port": N} first, then each CheckRequest as a line of JSON. What it answers follows from the header
// authorization: "good" passes and changes headers, "bare" is OK without more, "refuse" denies with a page,
// "fail" fails the call, everything else is denied without a word. It ends with its standard input.
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import * as grpc from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const deps = path.join(path.dirname(fileURLToPath(import.meta.url)), 'node_modules/@grpc/grpc-js-xds/deps');
const { Authorization } = grpc.loadPackageDefinition(loadSync('envoy/service/auth/v3/external_auth.proto', {
  keepCase: true, longs: Number, bytes: String, includeDirs: ['envoy-api', 'xds', 'googleapis',
    'protoc-gen-validate'].map((d) => path.join(deps, d)) })).envoy.service.auth.v3;
const header = (key, value, more = {}) => ({ header: { key, value }, ...more });

const answers = {
  good: { status: { code: 0 }, ok_response: {
    headers: [header('x-user', 'alice'), header('x-list', 'more', { append: { value: true } }), header('host', 'evil')],
    headers_to_remove: ['x-secret'], response_headers_to_add: [header('x-checked', 'yes')] } },
  bare: { status: { code: 0 } },
  refuse: { status: { code: 16 }, denied_response: { status: { code: 401 }, body: 'who are you?',
    headers: [header('www-authenticate', 'Bearer')] } },
};

function check(call, reply) {
  const { http } = call.request.attributes.request;
  console.log(JSON.stringify(call.request));
  const how = http.headers.authorization;
  if (how === 'fail') reply({ code: grpc.status.INTERNAL, details: 'broken' });
  else reply(null, answers[how] ?? { status: { code: 7 } });
}

const server = new grpc.Server();
server.addService(Authorization.service, { Check: check });
server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log(JSON.stringify({ port }));
});
process.stdin.on('end', () => process.exit(0)).resume();
