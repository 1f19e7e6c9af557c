// SPDX-License-Identifier: Apache-2.0
// An informer of @kubernetes/client-node over the configmaps of a namespace, run until it is killed:
// informer.mjs KUBECONFIG NAMESPACE
//
// Every callback is one line: "add|update|delete NAME N RESOURCEVERSION", N being data.n; "connect"; "started"
// once the first list is in; "error TEXT". A line "list" on standard input is answered with "list NAME=N ..."
// from the cache.
import { createInterface } from 'node:readline';
import * as k8s from '@kubernetes/client-node';

const [kubeconfig, ns] = process.argv.slice(2);
const config = new k8s.KubeConfig();
config.loadFromFile(kubeconfig);
const core = config.makeApiClient(k8s.CoreV1Api);
const say = (...words) => process.stdout.write(`${words.join(' ')}\n`);

const informer = k8s.makeInformer(config, `/api/v1/namespaces/${ns}/configmaps`,
  () => core.listNamespacedConfigMap({ namespace: ns }));
for (const verb of ['add', 'update', 'delete']) {
  informer.on(verb, (o) => o.data?.n === undefined
    || say(verb, o.metadata.name, o.data.n, o.metadata.resourceVersion));
}
informer.on('connect', () => say('connect'));
// The library leaves starting again to its user.
informer.on('error', (e) => {
  say('error', String(e.message ?? e).replaceAll('\n', ' '));
  setTimeout(() => informer.start(), 50);
});
createInterface(process.stdin).on('line', () => {
  say('list', ...informer.list(ns).filter((o) => o.data?.n !== undefined)
    .map((o) => `${o.metadata.name}=${o.data.n}`));
});
await informer.start();
say('started');
