// SPDX-License-Identifier: Apache-2.0
// A WebSocket within an HTTP/2 stream (RFC 8441): ws_over_h2.mjs URL PATH HOST [CA-FILE]
// Sends a text and prints the first two that come, as JSON.
import http2 from 'node:http2';
import { readFileSync } from 'node:fs';

const [url, path, host, ca] = process.argv.slice(2);
const session = http2.connect(url, ca ? { ca: readFileSync(ca), servername: host } : {});

function fail(why) {
  console.log(String(why));
  process.exit(1);
}

session.on('error', fail);
session.on('remoteSettings', (settings) => {
  if (!settings.enableConnectProtocol) fail('not offered');
  const stream = session.request({
    ':method': 'CONNECT', ':protocol': 'websocket', ':scheme': ca ? 'https' : 'http', ':path': path, ':authority': host,
    'sec-websocket-version': '13',
  });
  const texts = [];
  let got = Buffer.alloc(0);

  stream.on('error', fail);
  stream.on('response', (h) => {
    if (h[':status'] !== 200) fail(`status ${h[':status']}`);
    const text = Buffer.from('hello from a stream');
    const mask = Buffer.from([1, 2, 3, 4]);
    stream.write(Buffer.concat([Buffer.from([0x81, 0x80 | text.length]), mask, text.map((b, i) => b ^ mask[i % 4])]));
  });
  stream.on('data', (d) => {
    got = Buffer.concat([got, d]);
    for (;;) {
      const wide = got.length > 1 && got[1] === 126;
      const at = wide ? 4 : 2;
      const end = got.length < at ? Infinity : at + (wide ? got.readUInt16BE(2) : got[1]);
      if (got.length < end) return;
      texts.push(got.subarray(at, end).toString());
      got = got.subarray(end);
      if (texts.length === 2) break;
    }
    console.log(JSON.stringify(texts));
    stream.close();
    session.close();
  });
});
setTimeout(() => fail('too slow'), 80000).unref();
