// SPDX-License-Identifier: Apache-2.0
// Drives an API server with @kubernetes/client-node: operations.mjs KUBECONFIG NAMESPACE
//
// Prints one JSON line per operation. operations.py does the same with python3-kubernetes, and
// test_control_clients.py expects the same of both.
import * as k8s from '@kubernetes/client-node';

const [kubeconfig, ns] = process.argv.slice(2);
const config = new k8s.KubeConfig();
config.loadFromFile(kubeconfig);
const client = (kind) => config.makeApiClient(kind);
const core = client(k8s.CoreV1Api);
const custom = client(k8s.CustomObjectsApi);

const group = 'clients.example.com';
const as = (type) => k8s.setHeaderOptions('Content-Type', type);
const { JsonPatch, MergePatch, StrategicMergePatch, ServerSideApply } = k8s.PatchStrategy;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// The HTTP status and the reason of a refusal; what worked is 200.
async function statusOf(call) {
  try {
    await call();
  } catch (e) {
    const body = typeof e.body === 'string' ? JSON.parse(e.body) : e.body;
    return [e.code, body.reason];
  }
  return [200, null];
}

async function soon(predicate, seconds = 60) {
  const deadline = Date.now() + seconds * 1000;
  while (Date.now() < deadline) {
    if (await predicate()) return true;
    await sleep(20);
  }
  return false;
}
const gone = (get) => soon(async () => (await statusOf(get))[0] === 404);

const configMap = (name, data, meta = {}) =>
  core.createNamespacedConfigMap({ namespace: ns, body: { metadata: { name, ...meta }, data } });
const read = (name) => core.readNamespacedConfigMap({ name, namespace: ns });
const patch = (name, body, type) => core.patchNamespacedConfigMap({ name, namespace: ns, body }, as(type));
const names = (list) => list.items.map((o) => o.metadata.name);

const operations = {
  async namespace() {
    const made = await core.createNamespace({ body: { metadata: { name: ns, labels: { made: 'here' } } } });
    const listed = await core.listNamespace({ labelSelector: 'made=here' });
    return { phase: made.status.phase, label: made.metadata.labels['kubernetes.io/metadata.name'] === ns,
      listed: names(listed).includes(ns) };
  },

  async create() {
    const made = await configMap('create', { a: '1' });
    return { data: made.data, uid: made.metadata.uid.length, again: await statusOf(() => configMap('create')),
      version: /^\d+$/.test(made.metadata.resourceVersion), bad: await statusOf(() => configMap('No Name')) };
  },

  async get() {
    await configMap('get', { a: '1' });
    const everywhere = (await core.listConfigMapForAllNamespaces()).items.filter((o) => o.metadata.namespace === ns);
    return { data: (await read('get')).data, missing: await statusOf(() => read('none')),
      listed: names(await core.listNamespacedConfigMap({ namespace: ns })).includes('get'),
      everywhere: names({ items: everywhere }).includes('get') };
  },

  async replace() {
    const made = await configMap('replace', { a: '1' });
    const body = { ...made, data: { a: '2' } };
    const put = () => core.replaceNamespacedConfigMap({ name: 'replace', namespace: ns, body });
    const done = await put();
    return { data: done.data, newer: Number(done.metadata.resourceVersion) > Number(made.metadata.resourceVersion),
      stale: await statusOf(put) };
  },

  async patch_json() {
    await configMap('patch-json', { a: '1', b: '1' });
    const done = await patch('patch-json', [
      { op: 'test', path: '/data/a', value: '1' }, { op: 'replace', path: '/data/a', value: '2' },
      { op: 'remove', path: '/data/b' }, { op: 'add', path: '/data/c', value: '3' }], JsonPatch);
    const bad = [{ op: 'test', path: '/data/a', value: 'nope' }];
    return { data: done.data, test: await statusOf(() => patch('patch-json', bad, JsonPatch)) };
  },

  async patch_merge() {
    await configMap('patch-merge', { a: '1', b: '1' });
    return { data: (await patch('patch-merge', { data: { a: null, c: '3' } }, MergePatch)).data };
  },

  async patch_strategic() {
    await core.createNamespacedService({ namespace: ns, body: { metadata: { name: 'strategic' },
      spec: { ports: [{ name: 'a', port: 80, protocol: 'TCP' }], selector: { app: 'x' } } } });
    const ports = async (list) => {
      const done = await core.patchNamespacedService(
        { name: 'strategic', namespace: ns, body: { spec: { ports: list } } }, as(StrategicMergePatch));
      return done.spec.ports.map((p) => [p.name, p.port]).sort();
    };
    return { added: await ports([{ name: 'b', port: 81, protocol: 'TCP' }]),
      removed: await ports([{ port: 80, $patch: 'delete' }]) };
  },

  async apply() {
    const put = (fieldManager, value, force) => core.patchNamespacedConfigMap({ name: 'apply', namespace: ns,
      fieldManager, force, body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'apply' },
        data: { a: value } } }, as(ServerSideApply));
    const first = await put('one', '1');
    const second = await put('one', '1');
    let conflict = null;
    try {
      await put('two', '2');
    } catch (e) {
      const body = JSON.parse(e.body);
      conflict = [e.code, body.message, body.details.causes[0].field];
    }
    const forced = await put('two', '2', true);
    return { same: first.metadata.resourceVersion === second.metadata.resourceVersion, conflict, forced: forced.data,
      managers: forced.metadata.managedFields.map((m) => `${m.manager}/${m.operation}`).sort() };
  },

  async delete() {
    const got = {};
    for (const policy of ['Background', 'Foreground', 'Orphan']) {
      const name = `delete-${policy.toLowerCase()}`;
      const owner = await configMap(name);
      await configMap(`${name}-child`, undefined, { ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name,
        uid: owner.metadata.uid, blockOwnerDeletion: true }] });
      await core.deleteNamespacedConfigMap({ name, namespace: ns, propagationPolicy: policy });
      const went = await gone(() => read(name));
      const child = policy === 'Orphan' ? (await read(`${name}-child`)).metadata.ownerReferences ?? null
        : await gone(() => read(`${name}-child`));
      got[policy] = [went, child];
    }
    got.body = Boolean((await configMap('delete-uid')).metadata.uid);
    got.uid = await statusOf(() => core.deleteNamespacedConfigMap(
      { name: 'delete-uid', namespace: ns, body: { preconditions: { uid: 'other' } } }));
    return got;
  },

  async delete_collection() {
    for (let i = 0; i < 4; i++) await configMap(`collection-${i}`, undefined, { labels: { half: String(i % 2) } });
    await core.deleteCollectionNamespacedConfigMap({ namespace: ns, labelSelector: 'half=0' });
    return { left: names(await core.listNamespacedConfigMap({ namespace: ns, labelSelector: 'half' })) };
  },

  async watch() {
    const start = (await core.listNamespacedConfigMap({ namespace: ns })).metadata.resourceVersion;
    await configMap('watch', { n: '0' });
    for (const i of [1, 2]) await patch('watch', { data: { n: String(i) } }, MergePatch);
    await core.deleteNamespacedConfigMap({ name: 'watch', namespace: ns });
    const events = [];
    await new Promise((resolve, reject) => {
      let request;
      const timer = setTimeout(() => reject(new Error(`only ${JSON.stringify(events)}`)), 60000);
      new k8s.Watch(config).watch(`/api/v1/namespaces/${ns}/configmaps`,
        { resourceVersion: start, fieldSelector: 'metadata.name=watch', timeoutSeconds: 60 },
        (type, object) => {
          events.push([type, object.data.n]);
          if (type !== 'DELETED') return;
          clearTimeout(timer);
          resolve();
          request?.abort();
        }, () => {}).then((r) => { request = r; if (events.length === 4) r.abort(); });
    });
    return { events };
  },

  async custom_objects() {
    const plural = `widgets${ns}`;
    const kind = `Widget${ns.toUpperCase()}`;
    const extensions = client(k8s.ApiextensionsV1Api);
    const name = `${plural}.${group}`;
    const schema = { type: 'object', properties: {
      spec: { type: 'object', required: ['size'], properties: {
        size: { type: 'integer', maximum: 10 }, color: { type: 'string', _default: 'blue' } } },
      status: { type: 'object', properties: { seen: { type: 'integer' } } } } };
    await extensions.createCustomResourceDefinition({ body: { metadata: { name }, spec: {
      group, scope: 'Namespaced', names: { plural, kind }, versions: [{ name: 'v1', served: true, storage: true,
        subresources: { status: {} }, schema: { openAPIV3Schema: schema } }] } } });
    await soon(async () => {
      const crd = await extensions.readCustomResourceDefinition({ name });
      return (crd.status?.conditions ?? []).some((x) => x.type === 'Established' && x.status === 'True');
    });

    const where = { group, version: 'v1', namespace: ns, plural };
    const w = { ...where, name: 'w' };
    const body = { apiVersion: `${group}/v1`, kind, metadata: { name: 'w' }, spec: { size: 3 } };
    const made = await custom.createNamespacedCustomObject({ ...where, body: { ...body, status: { seen: 9 } } });
    const bad = { ...body, metadata: { name: 'bad' }, spec: { size: 11 } };
    const status = await custom.patchNamespacedCustomObjectStatus(
      { ...w, body: { status: { seen: 2 }, spec: { size: 4 } } }, as(MergePatch));
    const spec = await custom.patchNamespacedCustomObject(
      { ...w, body: { spec: { size: 5 }, status: { seen: 3 } } }, as(MergePatch));
    const replaced = await custom.replaceNamespacedCustomObject({ ...w, body: { ...spec, spec: { size: 6 } } });
    const got = { spec: made.spec, status_ignored: !('status' in made),
      bad: await statusOf(() => custom.createNamespacedCustomObject({ ...where, body: bad })),
      status: [status.spec.size, status.status.seen, status.metadata.generation],
      patched: [spec.spec.size, spec.status.seen, spec.metadata.generation],
      replaced: [replaced.spec, replaced.metadata.generation],
      listed: (await custom.listNamespacedCustomObject(where)).items.length };
    await custom.deleteNamespacedCustomObject(w);
    got.deleted = await statusOf(() => custom.getNamespacedCustomObject(w));
    await extensions.deleteCustomResourceDefinition({ name });
    got.crd = await gone(() => extensions.readCustomResourceDefinition({ name }));
    return got;
  },

  async token() {
    await core.createNamespacedServiceAccount({ namespace: ns, body: { metadata: { name: 'robot' } } });
    const made = await core.createNamespacedServiceAccountToken({ name: 'robot', namespace: ns,
      body: { spec: { audiences: [], expirationSeconds: 3600 } } });
    const review = await client(k8s.AuthenticationV1Api).createTokenReview({ body: { spec: { token: made.status.token } } });
    const robot = new k8s.KubeConfig();
    robot.loadFromClusterAndUser(config.getCurrentCluster(), { name: 'robot', token: made.status.token });
    return { user: review.status.user.username === `system:serviceaccount:${ns}:robot`,
      refused: await statusOf(() => robot.makeApiClient(k8s.CoreV1Api).listNamespacedSecret({ namespace: ns })),
      authenticated: review.status.authenticated,
      version: (await robot.makeApiClient(k8s.VersionApi).getCode()).major,
      expires: made.status.expirationTimestamp > new Date() };
  },

  async access() {
    const auth = client(k8s.AuthorizationV1Api);
    const rbac = client(k8s.RbacAuthorizationV1Api);
    const resourceAttributes = { namespace: ns, verb: 'get', resource: 'secrets' };
    const may = async (user) =>
      (await auth.createSubjectAccessReview({ body: { spec: { user, resourceAttributes } } })).status.allowed;
    const me = (await auth.createSelfSubjectAccessReview({ body: { spec: { resourceAttributes } } })).status.allowed;
    const before = await may('alice');
    await rbac.createNamespacedRole({ namespace: ns, body: { metadata: { name: 'r' },
      rules: [{ apiGroups: [''], resources: ['secrets'], verbs: ['get'] }] } });
    await rbac.createNamespacedRoleBinding({ namespace: ns, body: { metadata: { name: 'b' },
      subjects: [{ kind: 'User', name: 'alice', apiGroup: 'rbac.authorization.k8s.io' }],
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'r' } } });
    const rules = await auth.createSelfSubjectRulesReview({ body: { spec: { namespace: ns } } });
    return { me, before, after: await may('alice'), bob: await may('bob'), rules: rules.status.resourceRules.length > 0 };
  },

  async selectors() {
    for (const [i, color] of ['red', 'green', 'blue', null].entries()) {
      await configMap(`sel-${i}`, undefined, { labels: { sel: '1', ...(color ? { color } : {}) } });
    }
    const find = async (labelSelector, fieldSelector) =>
      names(await core.listNamespacedConfigMap({ namespace: ns, labelSelector, fieldSelector }));
    return { equal: await find('sel=1,color=red'), in: await find('color in (red, blue)'),
      not: await find('sel,color notin (red,green)'), absent: await find('sel,!color'),
      field: await find(undefined, 'metadata.name=sel-2'), both: await find('color!=red,sel', 'metadata.name!=sel-3'),
      bad: await statusOf(() => find('a===b')), bad_field: await statusOf(() => find(undefined, 'data.a=1')) };
  },

  async paging() {
    const want = [...Array(25).keys()].map((i) => `page-${String(i).padStart(2, '0')}`);
    for (const name of want) await configMap(name, undefined, { labels: { page: '1' } });
    const seen = [], sizes = [], versions = new Set();
    for (let token; ;) {
      const page = await core.listNamespacedConfigMap({ namespace: ns, limit: 10, labelSelector: 'page', _continue: token });
      seen.push(...names(page));
      sizes.push(page.items.length);
      versions.add(page.metadata.resourceVersion);
      token = page.metadata._continue;
      if (!token) break;
    }
    return { sizes, versions: versions.size, all: JSON.stringify(seen) === JSON.stringify(want),
      bad: await statusOf(() => core.listNamespacedConfigMap({ namespace: ns, _continue: 'x', limit: 1 })) };
  },

  async secrets() {
    const secret = (body) => core.createNamespacedSecret({ namespace: ns, body });
    const map = (body) => core.createNamespacedConfigMap({ namespace: ns, body });
    const made = await secret({ metadata: { name: 's' }, stringData: { a: 'hello' }, data: { b: 'AP8=' } });
    const blob = await map({ metadata: { name: 'blob' }, binaryData: { x: 'AP8=' } });
    const locked = await map({ metadata: { name: 'locked' }, data: { a: '1' }, immutable: true });
    return { type: made.type, data: made.data, string: made.stringData ?? null, blob: blob.binaryData,
      bad: (await statusOf(() => secret({ metadata: { name: 'bad' }, data: { a: '***' } })))[0],
      tls: await statusOf(() => secret({ metadata: { name: 'bad' }, type: 'kubernetes.io/tls', data: {} })),
      locked: locked.immutable, change: await statusOf(() => patch('locked', { data: { a: '2' } }, MergePatch)) };
  },

  async leases() {
    const api = client(k8s.CoordinationV1Api);
    const now = new k8s.V1MicroTime('2024-05-06T07:08:09.123Z');
    const made = await api.createNamespacedLease({ namespace: ns, body: { metadata: { name: 'l' }, spec: {
      holderIdentity: 'me', leaseDurationSeconds: 15, acquireTime: now, renewTime: now, leaseTransitions: 0 } } });
    made.spec.holderIdentity = 'you';
    const put = () => api.replaceNamespacedLease({ name: 'l', namespace: ns, body: made });
    const done = await put();
    return { holder: done.spec.holderIdentity, ms: new Date(done.spec.renewTime).getTime(), stale: await statusOf(put) };
  },

  async events() {
    const involved = { kind: 'ConfigMap', name: 'get', namespace: ns };
    await core.createNamespacedEvent({ namespace: ns, body: { metadata: { name: 'old' }, involvedObject: involved,
      reason: 'Tested', message: 'hello', type: 'Normal' } });
    const api = client(k8s.EventsV1Api);
    await api.createNamespacedEvent({ namespace: ns, body: { metadata: { name: 'new' },
      eventTime: new k8s.V1MicroTime('2024-05-06T07:08:09.123Z'), action: 'Test', reason: 'Tested',
      reportingController: 'example.com/c', reportingInstance: 'c-1', note: 'hi', type: 'Warning', regarding: involved } });
    const found = await core.listNamespacedEvent(
      { namespace: ns, fieldSelector: 'involvedObject.name=get,type=Warning' });
    return { found: found.items.map((e) => [e.metadata.name, e.message, e.reportingComponent]),
      note: (await api.readNamespacedEvent({ name: 'old', namespace: ns })).note };
  },

  async dry_run() {
    const made = await core.createNamespacedConfigMap({ namespace: ns, dryRun: 'All', body: { metadata: { name: 'dry' } } });
    return { name: made.metadata.name, stored: await statusOf(() => read('dry')) };
  },

  async informer() {
    const labels = { informer: '1' };
    const log = [];
    await configMap('inf-0', { n: '0' }, { labels });
    const informer = k8s.makeInformer(config, `/api/v1/namespaces/${ns}/configmaps`,
      () => core.listNamespacedConfigMap({ namespace: ns, labelSelector: 'informer' }), 'informer');
    for (const verb of ['add', 'update', 'delete']) {
      informer.on(verb, (o) => log.push([verb, o.metadata.name, o.data.n]));
    }
    await informer.start();
    await configMap('inf-1', { n: '0' }, { labels });
    for (const i of [1, 2, 3]) await patch('inf-0', { data: { n: String(i) } }, MergePatch);
    await core.deleteNamespacedConfigMap({ name: 'inf-0', namespace: ns });
    await soon(() => log.some((e) => e[0] === 'delete'));
    const cache = Object.fromEntries(informer.list(ns).map((o) => [o.metadata.name, o.data.n]));
    await informer.stop();
    return { log, cache };
  },

  async namespace_goes() {
    await core.deleteNamespace({ name: ns });
    return { gone: await gone(() => core.readNamespace({ name: ns })) };
  },
};

for (const [op, run] of Object.entries(operations)) {
  let got;
  try {
    got = await run();
  } catch (e) {
    got = { error: String(e.stack ?? e).slice(0, 2500) };
  }
  console.log(JSON.stringify({ op, got }));
}
process.exit(0);
