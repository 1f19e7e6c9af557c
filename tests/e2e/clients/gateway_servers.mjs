// SPDX-License-Identifier: Apache-2.0
// Servers of another make behind the gateway: a gRPC service (npm's @grpc/grpc-js) and a WebSocket
// echo (npm's ws). Prints one line of JSON with their ports and serves until its standard input ends.
import * as grpc from '@grpc/grpc-js';
import { WebSocketServer } from 'ws';

const bytes = (b) => b;
const method = (name, requestStream, responseStream) => ({ path: `/test.Shop/${name}`, requestStream, responseStream,
  requestSerialize: bytes, requestDeserialize: bytes, responseSerialize: bytes, responseDeserialize: bytes });
export const methods = { Unary: method('Unary', false, false), Upload: method('Upload', true, false),
  Download: method('Download', false, true), Chat: method('Chat', true, true) };

const trailer = (entries) => {
  const m = new grpc.Metadata();
  Object.entries(entries).forEach(([k, v]) => m.set(k, v));
  return m;
};

const service = {
  // "fail CODE TEXT", "wait MS" or anything to be said back, with what the metadata was.
  Unary(call, done) {
    const [word, ...rest] = call.request.toString().split(' ');
    const head = new grpc.Metadata();
    head.set('x-saw', String(call.metadata.get('x-ask')));
    head.set('x-saw-bin', call.metadata.get('x-ask-bin')[0] ?? Buffer.from([0]));
    call.sendMetadata(head);
    if (word === 'fail') {
      done({ code: Number(rest[0]), details: rest.slice(1).join(' '), metadata: trailer({ 'x-why': 'told' }) });
    } else if (word === 'wait') {
      const timer = setTimeout(() => done(null, Buffer.from('late')), Number(rest[0]));
      call.on('cancelled', () => { clearTimeout(timer); cancelled += 1; });
    } else if (word === 'cancelled') {
      done(null, Buffer.from(String(cancelled)));
    } else {
      done(null, call.request, trailer({ 'x-end': 'here', 'x-end-bin': Buffer.from([1, 255, 0]) }));
    }
  },
  Upload(call, done) {
    let count = 0;
    let size = 0;
    call.on('data', (d) => { count += 1; size += d.length; });
    call.on('end', () => done(null, Buffer.from(`${count} ${size}`)));
  },
  async Download(call) {
    const [count, size] = call.request.toString().split(' ').map(Number);
    for (let i = 0; i < count; i += 1) {
      if (!call.write(Buffer.alloc(size, i % 251))) await new Promise((r) => { call.once('drain', r); });
    }
    call.end(trailer({ 'x-count': String(count) }));
  },
  Chat(call) {
    call.on('data', (d) => call.write(Buffer.concat([Buffer.from('re:'), d])));
    call.on('end', () => call.end());
  },
};
let cancelled = 0;

const server = new grpc.Server({ 'grpc.max_receive_message_length': -1 });
server.addService(methods, service);
const grpcPort = await new Promise((resolve) => {
  server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (e, port) => resolve(port));
});

const ws = new WebSocketServer({ host: '127.0.0.1', port: 0, maxPayload: 64 << 20,
  handleProtocols: (offered) => (offered.has('chat') ? 'chat' : false) });
ws.on('connection', (socket, request) => {
  socket.send(JSON.stringify({ url: request.url, host: request.headers.host, via: request.headers.via }));
  socket.on('message', (data, binary) => {
    const text = binary ? '' : data.toString();
    if (text.startsWith('close ')) socket.close(Number(text.split(' ')[1]), 'as asked');
    else if (text === 'ping me') socket.ping(Buffer.from('how are you'));
    else if (text === 'vanish') socket.terminate();
    else socket.send(data, { binary });
  });
  socket.on('pong', (data) => socket.send(`pong ${data}`));
});
await new Promise((r) => { ws.once('listening', r); });

process.stdout.write(`${JSON.stringify({ grpc: grpcPort, ws: ws.address().port })}\n`);
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
