/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `token create`. Accounts and roles of devices and gateways are made with the caller's own
 * rights: a caller cannot hand out more than the API lets it grant.
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/secret.h"
#include "base/time.h"
#include "cmd/control/join.h"
#include "cmd/join/token.h"
#include "connector/role.h"
#include "identity/join/client.h"
#include "identity/join/record.h"
#include "io/egress.h"
#include "kube/client/kinds.h"
#include "kube/names.h"
#include "tls/cert/cred.h"
#include "yaml/yaml.h"

#define RBAC "rbac.authorization.k8s.io"

enum { NAME_RANDOM = 10, ROLE_MAX = 64 << 10 };

static const struct sw_kube_gvr configmaps = {"", "v1", "configmaps", "ConfigMap", true};
static const struct sw_kube_gvr kinds[] = {
    {"", "v1", "serviceaccounts", "ServiceAccount", true},
    {RBAC, "v1", "roles", "Role", true},
    {RBAC, "v1", "rolebindings", "RoleBinding", true},
    {RBAC, "v1", "clusterroles", "ClusterRole", false},
    {RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", false},
};

/* What is being made. */
struct making {
    struct sw_token_cmd *t;
    struct sw_join_record r;
    struct sw_join_code code;
    const char *id_name; /* of the Secret */
};

/* ---- where machines join ---- */

static bool has_word(struct sw_slice words, const char *word)
{
    while (words.p) {
        if (sw_slice_eq_str(sw_slice_cut(&words, ' '), word))
            return true;
    }
    return false;
}

static int read_config(struct making *m, struct sw_err *err)
{
    const struct sw_token_settings *s = m->t->set;
    struct sw_json *o;
    const struct sw_json *data;
    struct sw_slice address;
    int rc = sw_cmd_api_ask(&m->t->api,
                            &(struct sw_kube_req){.verb = SW_KUBE_GET,
                                                  .gvr = &configmaps,
                                                  .ns = sw_slice_str(s->system_ns),
                                                  .name = SW_SLICE_LIT(SW_CONTROL_JOIN_CONFIG)},
                            &o, err);

    if (rc != SW_OK)
        return sw_err_prefix(err, "cannot learn where machines join (does 'spanwire control' run "
                                  "with --mesh-listen?)");
    data = sw_json_find(o, "data");
    if (!has_word(sw_json_str(sw_json_find(data, "kinds")), sw_join_kind_name(m->r.kind)))
        return sw_err_set(err, SW_EINVAL,
                          "--for %s: this control plane has no certificate authority for it",
                          sw_join_kind_name(m->r.kind));
    address = s->join_address ? sw_slice_str(s->join_address)
                              : sw_json_str(sw_json_find(data, "address"));
    if (!address.n)
        return sw_err_set(err, SW_EINVAL,
                          "the control plane listens on every address: give it --join-address "
                          "HOST:PORT, or this command");
    if (address.n > SW_JOIN_ADDRESS_MAX)
        return sw_err_set(err, SW_EINVAL, "--join-address is too long");
    memcpy(m->code.address, address.p, address.n);
    return sw_join_root_hash(sw_json_str(sw_json_find(data, "roots")), m->code.root, err);
}

/* ---- settings ---- */

static int read_labels(struct making *m, struct sw_err *err)
{
    const struct sw_opt_list *l = &m->t->set->labels;
    struct sw_json *o = l->n ? sw_json_new_object(&m->t->api.arena) : NULL;

    for (size_t i = 0; i < l->n; i++) {
        struct sw_slice value = sw_slice_str(l->p[i]);
        struct sw_slice key = sw_slice_cut(&value, '=');

        if (!value.p || sw_name_label_key(key).n || sw_name_label_value(value).n)
            return sw_err_set(err, SW_EINVAL, "--label: '%.80s' is not KEY=VALUE", l->p[i]);
        sw_json_set(&m->t->api.arena, o, key, sw_json_new_string(&m->t->api.arena, value));
    }
    m->r.labels = o;
    return SW_OK;
}

static int read_access(struct making *m, struct sw_err *err)
{
    const struct sw_token_settings *s = m->t->set;
    struct sw_slice file = {0};

    m->r.server = s->server ? sw_slice_str(s->server) : m->t->server;
    m->r.ca = m->t->ca;
    if (m->r.kind != SW_JOIN_GATEWAY)
        return SW_OK;
    if (!s->xds_address || !s->gateways.n)
        return sw_err_set(err, SW_EINVAL,
                          "--for gateway needs --xds-address HOST:PORT and --gateway "
                          "NAMESPACE/NAME");
    m->r.xds_address = sw_slice_str(s->xds_address);
    m->r.xds_ca = m->t->ca;
    if (!s->xds_ca)
        return SW_OK;
    if (sw_file_read(s->xds_ca, SW_KUBE_FILE_MAX, &file, err) != SW_OK)
        return err->rc;
    m->r.xds_ca = sw_arena_slice(&m->t->api.arena, file);
    sw_slice_free(&file);
    return SW_OK;
}

static void draw_name(struct making *m)
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz2456789"; /* no words, nothing alike */
    char name[NAME_RANDOM + 1] = "";
    uint8_t raw[8];
    uint64_t n = 0;

    sw_rand_bytes(raw, sizeof(raw));
    memcpy(&n, raw, sizeof(n));
    for (size_t i = 0; i < NAME_RANDOM; i++) {
        name[i] = letters[n % (sizeof(letters) - 1)];
        n /= sizeof(letters) - 1;
    }
    m->id_name = sw_arena_printf(&m->t->api.arena, "join-%s", name);
    m->r.id = sw_slice_str(sw_arena_printf(&m->t->api.arena, "%s/%s", m->t->ns, m->id_name));
}

static int fill(struct making *m, struct sw_err *err)
{
    const struct sw_token_settings *s = m->t->set;
    struct sw_ip ip;
    int rc;

    m->r.kind = m->code.kind = (enum sw_join_kind)(s->kind + 1);
    if (!s->name || sw_name_dns1123_label(sw_slice_str(s->name)).n)
        return sw_err_set(err, SW_EINVAL,
                          "--name is needed: at most 63 of a-z, 0-9 and '-', what the machine "
                          "is called");
    if (s->address && sw_ip_parse(sw_slice_str(s->address), &ip, err) != SW_OK)
        return sw_err_prefix(err, "--address");
    if (s->address && sw_egress_classify(&ip) != SW_EGRESS_OK)
        return sw_err_set(err, SW_EINVAL,
                          "--address: '%.60s' leads nowhere that others may go (%s)", s->address,
                          sw_egress_class_text(sw_egress_classify(&ip)));
    if (m->r.kind == SW_JOIN_PEER)
        m->t->ns = s->system_ns;
    draw_name(m);
    if (m->r.id.n > SW_JOIN_ID_MAX)
        return sw_err_set(err, SW_EINVAL, "--namespace is too long");
    m->r.ns = sw_slice_str(m->t->ns);
    m->r.name = sw_slice_str(s->name);
    m->r.network = sw_slice_str(s->network ? s->network : "");
    m->r.address = sw_slice_str(s->address ? s->address : "");
    m->r.expires_s = (sw_wall_ns() + s->ttl_ns) / SW_NS_PER_S;
    /* Gateways have an account that no other will ever have the name of. */
    m->r.account = m->r.kind == SW_JOIN_NODE     ? sw_slice_str(s->account ? s->account : "default")
                   : m->r.kind == SW_JOIN_DEVICE ? m->r.name
                   : m->r.kind == SW_JOIN_PEER   ? sw_slice("", 0)
                                                 : sw_slice_str(m->id_name);
    memcpy(m->code.id, m->r.id.p, m->r.id.n);
    rc = read_labels(m, err);
    return rc == SW_OK ? read_access(m, err) : rc;
}

/* ---- objects ---- */

static int create(struct making *m, struct sw_json *o, struct sw_err *err)
{
    struct sw_arena *a = &m->t->api.arena;
    const struct sw_kube_gvr *gvr = NULL;
    struct sw_json *meta = sw_json_find(o, "metadata");
    struct sw_json *owners = sw_json_new_array(a);
    int rc;

    for (size_t i = 0; i < SW_ARRAY_LEN(kinds); i++) {
        if (sw_json_str_eq(sw_json_find(o, "kind"), kinds[i].kind))
            gvr = &kinds[i];
    }
    if (!gvr)
        return sw_err_set(err, SW_EINVAL, "an object of a role has no kind that is known");
    sw_json_push(a, owners, sw_join_record_owner(a, &m->r));
    if (gvr->namespaced)
        sw_json_put(a, meta, "ownerReferences", owners);
    rc = sw_cmd_api_ask(&m->t->api,
                        &(struct sw_kube_req){.verb = SW_KUBE_CREATE,
                                              .gvr = gvr,
                                              .ns = gvr->namespaced ? m->r.ns : sw_slice("", 0),
                                              .body = o},
                        NULL, err);
    return rc == SW_OK ? SW_OK
                       : sw_err_prefix(err, "cannot create %s '%.*s'", gvr->kind,
                                       SW_SLICE_ARG(sw_json_str(sw_json_find(meta, "name"))));
}

static int create_all(struct making *m, struct sw_slice yaml, struct sw_err *err)
{
    struct sw_yaml_stream docs;
    int rc = sw_yaml_parse(&m->t->api.arena, yaml, NULL, &docs, err);

    for (size_t i = 0; rc == SW_OK && i < docs.n; i++)
        rc = create(m, sw_yaml_to_json(&m->t->api.arena, docs.docs[i]), err);
    return rc;
}

static int gateway_yaml(const struct making *m, struct sw_buf *out, struct sw_err *err)
{
    const struct sw_opt_list *l = &m->t->set->gateways;
    int rc = sw_buf_printf(out,
                           "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: %s, "
                           "namespace: \"%s\"}\n---\n"
                           "apiVersion: " RBAC "/v1\nkind: ClusterRole\n"
                           "metadata: {name: spanwire-%s}\n"
                           "rules:\n- verbs: [get]\n  nonResourceURLs:\n",
                           m->id_name, m->t->ns, m->id_name);

    for (size_t i = 0; rc == SW_OK && i < l->n; i++) {
        struct sw_slice name = sw_slice_str(l->p[i]);
        struct sw_slice ns = sw_slice_cut(&name, '/');

        if (!name.p || sw_name_dns1123_label(ns).n || sw_name_dns1123_subdomain(name).n)
            return sw_err_set(err, SW_EINVAL, "--gateway: '%.80s' is not NAMESPACE/NAME", l->p[i]);
        rc = sw_buf_printf(out, "  - /xds/%s\n", l->p[i]);
    }
    if (rc == SW_OK)
        rc = sw_buf_printf(out,
                           "---\napiVersion: " RBAC "/v1\nkind: ClusterRoleBinding\n"
                           "metadata: {name: spanwire-%s}\n"
                           "roleRef: {apiGroup: " RBAC ", kind: ClusterRole, name: spanwire-%s}\n"
                           "subjects:\n- {kind: ServiceAccount, name: %s, namespace: \"%s\"}\n",
                           m->id_name, m->id_name, m->id_name, m->t->ns);
    return rc == SW_OK ? SW_OK : sw_err_set(err, SW_ELIMIT, "too many gateways");
}

/* The account of a device or gateway, owned by the record. */
static int create_account(struct making *m, struct sw_err *err)
{
    SW_BUF_AUTO yaml = {.max = ROLE_MAX};
    int rc = SW_OK;

    if (m->r.kind == SW_JOIN_DEVICE)
        rc = sw_device_role(m->r.ns, m->r.name, &yaml, err);
    else if (m->r.kind == SW_JOIN_GATEWAY)
        rc = gateway_yaml(m, &yaml, err);
    return rc == SW_OK && sw_buf_len(&yaml) ? create_all(m, sw_buf_slice(&yaml), err) : rc;
}

static int create_record(struct making *m, struct sw_err *err)
{
    char hash[65];
    struct sw_json *o;
    struct sw_json *secret;
    struct sw_join_record read;
    int rc;

    sw_join_secret_hash(m->code.secret, hash);
    m->r.secret_hash = sw_slice_str(hash);
    secret = sw_join_record_new(&m->t->api.arena, &m->r);
    /* As the control plane will: a code whose record it refuses lets no machine join. */
    rc = sw_join_record_read(&m->t->api.arena, secret, &read, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, "cannot make a code");
    rc = sw_cmd_api_ask(
        &m->t->api,
        &(struct sw_kube_req){
            .verb = SW_KUBE_CREATE, .gvr = &sw_secrets_gvr, .ns = m->r.ns, .body = secret},
        &o, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, "cannot create Secret '%s'", m->code.id);
    m->r.uid = sw_json_str(sw_json_walk(o, "metadata", "uid", NULL));
    rc = create_account(m, err);
    if (rc != SW_OK) {
        struct sw_err ignored = {0};

        (void)!sw_cmd_api_ask(&m->t->api,
                              &(struct sw_kube_req){.verb = SW_KUBE_DELETE,
                                                    .gvr = &sw_secrets_gvr,
                                                    .ns = m->r.ns,
                                                    .name = sw_slice_str(m->id_name),
                                                    .propagation = "Background"},
                              NULL, &ignored);
        sw_token_drop_cluster_role(m->t, m->r.id);
    }
    return rc;
}

int sw_token_create(struct sw_token_cmd *t, struct sw_err *err)
{
    struct making m = {.t = t};
    SW_BUF_SECRET text = {.max = SW_JOIN_CODE_MAX};
    char until[SW_RFC3339_LEN];
    int rc = fill(&m, err);

    if (rc == SW_OK)
        rc = read_config(&m, err);
    sw_rand_bytes(m.code.secret, sizeof(m.code.secret));
    if (rc == SW_OK)
        rc = sw_join_code_write(&m.code, &text, err);
    if (rc == SW_OK)
        rc = create_record(&m, err);
    explicit_bzero(m.code.secret, sizeof(m.code.secret));
    if (rc != SW_OK)
        return rc;
    (void)fprintf(stderr, "Run this on the machine, once, before %s (%s revokes it):\n",
                  sw_rfc3339(m.r.expires_s * SW_NS_PER_S, 0, until),
                  sw_arena_printf(&t->api.arena, "'spanwire token delete %s'", m.code.id));
    printf("spanwire join %.*s\n", SW_SLICE_ARG(sw_buf_slice(&text)));
    return fflush(stdout) == 0 ? SW_OK : sw_err_set(err, SW_ESYS, "cannot write the code");
}
