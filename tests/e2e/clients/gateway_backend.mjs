// SPDX-License-Identifier: Apache-2.0
// A quick HTTP/1.1 backend that says its name: gateway_backend.mjs NAME [PORT]
// Prints its port; ends with its standard input.
import { createServer } from 'node:http';

const [name, port = '0'] = process.argv.slice(2);
const server = createServer((request, response) => {
  request.resume();
  request.on('end', () => {
    response.writeHead(200, { 'content-type': 'text/plain', 'content-length': name.length });
    response.end(name);
  });
});
server.keepAliveTimeout = 120000;
server.listen(Number(port), '127.0.0.1', 4096, () => process.stdout.write(`${server.address().port}\n`));
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
