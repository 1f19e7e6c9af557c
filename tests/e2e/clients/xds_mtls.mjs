// SPDX-License-Identifier: Apache-2.0
// An xDS server (npm's @grpc/grpc-js) that only talks to clients with a certificate: xds_mtls.mjs CA CERT KEY
// Prints {"port": N}, then a line for each first request of a stream with the node's bytes in hex.
import { readFileSync } from 'node:fs';
import * as grpc from '@grpc/grpc-js';

const [ca, cert, key] = process.argv.slice(2).map((f) => readFileSync(f));
const bytes = (b) => b;
const path = '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources';
const server = new grpc.Server();
server.addService({ ads: { path, requestStream: true, responseStream: true, requestSerialize: bytes, requestDeserialize: bytes,
  responseSerialize: bytes, responseDeserialize: bytes } }, {
  ads: (call) => call.once('data', (d) => process.stdout.write(`${JSON.stringify({ first: d.toString('latin1') })}\n`)),
});
const credentials = grpc.ServerCredentials.createSsl(ca, [{ private_key: key, cert_chain: cert }], true);
server.bindAsync('127.0.0.1:0', credentials, (e, port) => process.stdout.write(`${JSON.stringify({ port })}\n`));
process.stdin.on('end', () => process.exit(0)).resume();
