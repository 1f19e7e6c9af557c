// SPDX-License-Identifier: Apache-2.0
// A gRPC client (npm's @grpc/grpc-js) through the gateway: gateway_grpc.mjs ADDRESS [CA-FILE NAME]
// Prints a line of JSON per step: {"op": NAME, "got": ...}.
import { readFileSync } from 'node:fs';
import * as grpc from '@grpc/grpc-js';

const [address, ca, name] = process.argv.slice(2);
const bytes = (b) => b;
const method = (n, requestStream, responseStream) => ({ path: `/test.Shop/${n}`, requestStream, responseStream,
  requestSerialize: bytes, requestDeserialize: bytes, responseSerialize: bytes, responseDeserialize: bytes });
const Shop = grpc.makeGenericClientConstructor({ Unary: method('Unary', false, false),
  Upload: method('Upload', true, false), Download: method('Download', false, true), Chat: method('Chat', true, true),
  Nothing: method('Nothing', false, false) }, 'Shop');
const credentials = ca ? grpc.credentials.createSsl(readFileSync(ca)) : grpc.credentials.createInsecure();
const options = { 'grpc.max_receive_message_length': -1, 'grpc.default_authority': name ?? 'grpc.test' };
if (name) options['grpc.ssl_target_name_override'] = name;
const client = new Shop(address, credentials, options);

const unary = (text, { deadline = 120000, metadata = {}, of = 'Unary' } = {}) => new Promise((resolve) => {
  const m = new grpc.Metadata();
  Object.entries(metadata).forEach(([k, v]) => m.set(k, v));
  const got = {};
  const call = client[of](Buffer.from(text), m, { deadline: Date.now() + deadline }, (e, r) => {
    got.code = e ? e.code : 0;
    got.text = e ? e.details : r.toString();
    if (e) got.why = e.metadata?.get('x-why')[0];
  });
  call.on('metadata', (h) => { got.saw = h.get('x-saw')[0]; got.sawBin = h.get('x-saw-bin')[0]?.toString('hex'); });
  call.on('status', (s) => {
    got.end = s.metadata.get('x-end')[0];
    got.endBin = s.metadata.get('x-end-bin')[0]?.toString('hex');
    setImmediate(() => resolve(got));
  });
});

const steps = {
  unary: () => unary('hello', { metadata: { 'x-ask': 'metadata passes', 'x-ask-bin': Buffer.from([0, 128, 255]) } }),
  error: () => unary('fail 5 nothing there: \u00fc'),
  every_code: async () => {
    const got = [];
    for (let c = 1; c <= 16; c += 1) got.push((await unary(`fail ${c} x`)).code);
    return got;
  },
  no_method: async () => (await unary('x', { of: 'Nothing' })).code,
  deadline: async () => {
    // The server begins its answer and never ends it. A machine that is busy may need longer for that beginning.
    let got = {};
    for (let deadline = 300; deadline < 60000 && got.saw === undefined; deadline *= 3) {
      got = await unary('wait 600000', { deadline });
    }
    let cancelled = false;
    for (const end = Date.now() + 40000; !cancelled && Date.now() < end;) {
      cancelled = Number((await unary('cancelled')).text) >= 1;
    }
    return { code: got.code, began: got.saw !== undefined, cancelled };
  },
  upload: () => new Promise((resolve) => {
    const call = client.Upload((e, r) => resolve(e ? `status ${e.code} ${e.details}` : r.toString()));
    for (let i = 0; i < 200; i += 1) call.write(Buffer.alloc(20000, i));
    call.end();
  }),
  download: () => new Promise((resolve) => {
    let count = 0;
    let wrong = 0;
    const call = client.Download(Buffer.from('300 20000'));
    call.on('data', (d) => { if (d.length !== 20000 || d[7] !== count % 251) wrong += 1; count += 1; });
    call.on('error', (e) => resolve(`status ${e.code} ${e.details}`));
    call.on('status', (s) => resolve({ count, wrong, code: s.code, trailer: s.metadata.get('x-count')[0] }));
  }),
  chat: async () => {
    const call = client.Chat();
    const got = [];
    let wake;
    call.on('data', (d) => { got.push(d.toString()); wake(); });
    const ended = new Promise((resolve) => { call.on('status', (s) => resolve(s.code)); });
    for (const word of ['one', 'two', 'three']) {
      const answer = new Promise((r) => { wake = r; });
      call.write(Buffer.from(word));
      await answer; // each before the next: nothing is held back on the way
    }
    call.end();
    return [...got, await ended];
  },
  cancel: async () => {
    const call = client.Chat();
    const code = new Promise((resolve) => { call.on('error', (e) => resolve(e.code)); });
    call.write(Buffer.from('x'));
    await new Promise((r) => { call.once('data', r); });
    call.cancel();
    return code;
  },
  large: async () => (await unary('y'.repeat(3000000))).text.length,
  parallel: async () => {
    const answers = await Promise.all(Array.from({ length: 300 }, (_, i) => unary(`n${i}`)));
    return answers.filter((a, i) => a.text === `n${i}`).length;
  },
};

for (const [op, run] of Object.entries(steps)) {
  process.stdout.write(`${JSON.stringify({ op, got: await run() })}\n`);
}
client.close();
