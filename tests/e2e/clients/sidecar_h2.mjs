// SPDX-License-Identifier: Apache-2.0
// HTTP/2 with prior knowledge on one Unix socket connection, told what to do by lines of JSON on standard input; prints
// one line of JSON per event. Texts are bytes as Latin-1.
//   {"op": "open", "id": X, "headers": {...}, "text": BYTES, "end": BOOL}
//   {"op": "send", "id": X, "text": BYTES, "end": BOOL}  {"op": "recv", "id": X, "n": N or null}  {"op": "reset", "id": X}
import http2 from 'node:http2';
import net from 'node:net';
import { createInterface } from 'node:readline';

const streams = new Map();
const say = (event, more = {}) => process.stdout.write(`${JSON.stringify({ event, ...more })}\n`);

const session = http2.connect('http://sidecar', { createConnection: () => net.connect(process.argv[2]) });
session.on('error', (e) => say('session', { why: String(e.message) }));
session.on('goaway', () => say('goaway'));
await new Promise((resolve) => session.once('remoteSettings', resolve));
say('start', { id: '', addrs: [], extended: session.remoteSettings.enableConnectProtocol });

/* What a reader waits for is answered when enough is there, or the stream ended. */
function serve(x) {
  if (!x.want) return;
  const { n } = x.want;
  if (!x.ended && (n === null || x.bytes.length < n)) return;
  const take = n === null ? x.bytes.length : Math.min(n, x.bytes.length);
  say('got', { id: x.id, text: x.bytes.subarray(0, take).toString('latin1'), ended: x.ended });
  x.bytes = x.bytes.subarray(take);
  x.want = null;
}

const operations = {
  open({ id, headers, text, end }) {
    const stream = session.request(headers, { endStream: Boolean(end) && !text });
    const x = { id, stream, parts: [], bytes: Buffer.alloc(0), ended: false, want: null };
    streams.set(id, x);
    stream.on('response', (h) => say('answer', { id, headers: h }));
    stream.on('data', (part) => {
      x.bytes = Buffer.concat([x.bytes, part]);
      serve(x);
    });
    stream.on('end', () => {
      x.ended = true;
      serve(x);
    });
    stream.on('error', (e) => say('failed', { id, why: String(e.message), code: stream.rstCode }));
    stream.on('close', () => say('closed', { id, code: stream.rstCode }));
    if (text) {
      stream.write(Buffer.from(text, 'latin1'));
      if (end) stream.end();
    }
  },
  send({ id, text, end }) {
    const { stream } = streams.get(id);
    if (text) stream.write(Buffer.from(text, 'latin1'));
    if (end) stream.end();
  },
  recv({ id, n }) {
    const x = streams.get(id);
    x.want = { n };
    serve(x);
  },
  reset({ id }) {
    streams.get(id).stream.close(http2.constants.NGHTTP2_CANCEL);
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  operations[command.op](command);
}
session.destroy();
process.exit(0);
