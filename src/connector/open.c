/* SPDX-License-Identifier: Apache-2.0 */
/* What a device needs before it can begin: policy, key, client, status page, socket. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dirs.h"
#include "base/hash.h"
#include "base/mem.h"
#include "connector/connector_int.h"
#include "connector/dirs.h"
#include "http/bearer.h"
#include "quic/wire/relay_url.h"

/* Two processes with one key would take each other's traffic. */
static int lock_data(struct sw_connector *c, struct sw_err *err)
{
    SW_AUTO_FREE char *path = sw_asprintf("%s/lock", c->data);

    c->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (c->lock_fd < 0)
        return sw_err_sys(err, errno, "%.120s", path);
    if (flock(c->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return sw_err_set(err, SW_EDENIED, "another process uses '%.120s' (see --data)", c->data);
    return SW_OK;
}

/*
 * Names this installation in the Lease: the same after a restart, another for a copy of the key on
 * another machine or in another directory.
 */
static char *make_identity(struct sw_connector *c, const char *key_path)
{
    struct stat st = {0};
    char machine[64] = "";
    char host[64] = "device";
    char peer[SW_NODEID_SHORT];
    SW_AUTO_FREE char *all = NULL;
    SW_AUTO_FD fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);

    if (fd >= 0)
        (void)!read(fd, machine, sizeof(machine) - 1);
    (void)stat(key_path, &st);
    (void)gethostname(host, sizeof(host) - 1);
    all = sw_asprintf("%s/%s/%llu/%llu", machine, host, (unsigned long long)st.st_dev,
                      (unsigned long long)st.st_ino);
    return sw_asprintf("%s_%s-%016llx", sw_nodeid_short(sw_rawkey_id(c->key), peer), host,
                       (unsigned long long)sw_siphash13(1, 2, all, strlen(all)));
}

static int open_data(struct sw_connector *c, struct sw_err *err)
{
    SW_AUTO_FREE char *path = NULL;
    int rc;

    c->data = c->config->data ? sw_strdup(c->config->data) : sw_default_data();
    path = sw_asprintf("%s/connector.key", c->data);
    rc = sw_make_dirs(c->data, err);
    if (rc == SW_OK)
        rc = lock_data(c, err);
    if (rc != SW_OK)
        return rc;
    c->key = sw_rawkey_open(path, err);
    if (!c->key)
        return err->rc;
    (void)sw_nodeid_hex(sw_rawkey_id(c->key), c->id);
    c->identity = make_identity(c, path);
    return SW_OK;
}

/* "IP", "IP:PORT", "[v6]", "[v6]:PORT". */
static int parse_address(struct sw_slice in, struct sw_addr *ret, struct sw_err *err)
{
    struct sw_slice bare = in;

    if (sw_addr_parse(in, ret, NULL) == SW_OK)
        return SW_OK;
    if (in.n > 2 && in.p[0] == '[' && in.p[in.n - 1] == ']')
        bare = sw_slice(in.p + 1, in.n - 2);
    *ret = (struct sw_addr){0};
    if (sw_ip_parse(bare, &ret->ip, err) != SW_OK)
        return sw_err_prefix(err, "--address");
    return SW_OK;
}

static int check_relay(const char *url, struct sw_err *err)
{
    struct sw_relay_url u;

    if (!url || sw_relay_url_parse(sw_slice_str(url), &u, err) == SW_OK)
        return SW_OK;
    return sw_err_prefix(err, "--relay '%.100s'", url);
}

static int read_policy(struct sw_connector *c, struct sw_err *err)
{
    const struct sw_connector_config *o = c->config;
    int rc = check_relay(o->relay, err);

    if (rc != SW_OK)
        return rc;
    for (size_t i = 0; i < o->allow.n && rc == SW_OK; i++)
        rc = sw_allow_add_text(&c->admit.allow_fixed, sw_slice_str(o->allow.p[i]), err);
    if (rc != SW_OK)
        return sw_err_prefix(err, "--allow");
    for (size_t i = 0; i < o->gateways.n; i++) {
        if (sw_peers_add_list(&c->admit.peers_fixed, sw_slice_str(o->gateways.p[i]), err))
            return sw_err_prefix(err, "--allow-gateway");
    }
    if (o->addresses.n > SW_QUIC_ADDRS_MAX)
        return sw_err_set(err, SW_ELIMIT, "--address: more than %d", SW_QUIC_ADDRS_MAX);
    for (size_t i = 0; i < o->addresses.n && rc == SW_OK; i++)
        rc = parse_address(sw_slice_str(o->addresses.p[i]), &c->local.given[c->local.n_given++],
                           err);
    if (rc == SW_OK && o->standalone && !o->open && !o->gateways.n)
        rc = sw_err_set(err, SW_EINVAL, "--standalone needs --allow-gateway or --open");
    return rc;
}

static int find_kubeconfig(const struct sw_connector_config *o, struct sw_kube_config *ret,
                           struct sw_err *err)
{
    int rc = sw_kube_config_find(o->kubeconfig, o->context, ret, err);
    struct sw_err other;

    /* What `spanwire up` leaves where it runs. */
    if (rc == SW_ENOENT && !o->kubeconfig &&
        sw_kubeconfig_load("spanwire-data/admin.kubeconfig", o->context, ret, &other) == SW_OK)
        return SW_OK;
    return rc;
}

static int open_client(struct sw_connector *c, struct sw_err *err)
{
    struct sw_kube_config kc = {0};
    int rc;

    if (c->config->standalone) {
        c->ns = sw_strdup("");
        return SW_OK;
    }
    rc = find_kubeconfig(c->config, &kc, err);
    if (rc != SW_OK)
        return rc;
    c->server = sw_asprintf("%.*s:%u", SW_SLICE_ARG(kc.host), kc.port);
    c->client = sw_kube_client_new(c->loop, &kc, NULL, err);
    if (!c->client)
        return err->rc;
    c->ns = c->config->ns ? sw_strdup(c->config->ns) : sw_slice_dup(sw_kube_client_ns(c->client));
    return SW_OK;
}

static int read_token(struct sw_connector *c, struct sw_err *err)
{
    int rc;

    if (!c->config->relay_token_file)
        return SW_OK;
    rc = sw_bearer_read(c->config->relay_token_file, &c->home.token, err);
    return rc == SW_OK ? rc : sw_err_prefix(err, "--relay-token-file");
}

/*
 * The port of the last run, unless the user chose one: peers that know it need not learn another.
 * NULL when another process has bound it by now, of either family.
 */
static struct sw_quic *open_same_port(struct sw_connector *c, struct sw_quic_config o)
{
    struct sw_addr bound[2];
    struct sw_err err = {0};
    struct sw_quic *q;

    if (o.bind.port || c->known.n_ports == 0)
        return NULL;
    o.bind.port = c->known.ports[0];
    q = sw_quic_new(c->loop, &o, &err);
    if (q && sw_quic_bound(q, bound) < c->known.n_ports && !o.bind.ip.family) {
        sw_quic_free(SW_TAKE(q));
    }
    return q;
}

static int open_quic(struct sw_connector *c, struct sw_err *err)
{
    static const struct sw_slice alpns[] = {{SW_QTUNNEL_ALPN, sizeof(SW_QTUNNEL_ALPN) - 1}};
    struct sw_quic_config o = {
        .key = c->key,
        .bind = c->config->bind,
        .alpns = alpns,
        .n_alpns = SW_ARRAY_LEN(alpns),
        .max_conns = c->config->max_conns,
        .max_streams = 1024,
        .max_buffered = (uint64_t)c->config->max_buffered << 20,
        .congestion = (enum sw_qcc)c->config->congestion,
        .datagrams = true, /* for direct paths; tunnels of UDP are another matter */
        .admit = connector_admit,
        .accepted = connector_accepted,
        .arg = c,
        .relay_ca_file = c->config->relay_ca,
        .relay_token_for = sw_slice_str(c->config->relay),
        .relay_sign_over_tls = c->config->relay_sign_over_tls,
        .relay_refused = connector_relay_refused,
        .relay_state = connector_relay_state,
        .mapped = connector_mapped,
    };
    int rc = read_token(c, err);

    if (rc != SW_OK)
        return rc;
    o.relay_token = c->home.token;
    c->quic = open_same_port(c, o);
    if (!c->quic)
        c->quic = sw_quic_new(c->loop, &o, err);
    if (!c->quic)
        return err->rc;
    c->serve = connector_serve_new(c);
    return SW_OK;
}

static bool on_guarded(struct sw_http_req *req, struct sw_http_resp *resp, void *arg)
{
    struct sw_connector *c = arg;

    return sw_inspect_page(&c->inspect, req, resp);
}

static int open_admin(struct sw_connector *c, struct sw_err *err)
{
    struct sw_admin_opts o = {
        .title = "spanwire connector",
        .admin = {c->config->admin},
        .access = c->config->access,
        .one_port = true,
        .metrics = c->meter.metrics,
        .on_scrape = connector_scrape,
        .ready = c->ready,
        .egress = c->egress,
        .log_filter = c->config->log_level,
        .extra = connector_page,
        .guarded = on_guarded,
        .arg = c,
    };

    if (!sw_ip_is_loopback(&c->config->admin.ip))
        return sw_err_set(err, SW_EINVAL, "--admin-addr: not a loopback address");
    c->admin = sw_admin_new(c->loop, &o, err);
    return c->admin ? SW_OK : err->rc;
}

int connector_open(struct sw_connector *c, struct sw_err *err)
{
    int rc = read_policy(c, err);

    if (rc == SW_OK) {
        c->egress = sw_upstream_filter(c->loop, &c->config->upstream, false, err);
        rc = c->egress ? SW_OK : err->rc;
    }
    if (rc == SW_OK)
        rc = open_client(c, err);
    if (rc == SW_OK)
        rc = open_data(c, err);
    if (rc == SW_OK)
        connector_recall(c);
    if (rc == SW_OK)
        rc = open_admin(c, err);
    if (rc == SW_OK)
        rc = open_quic(c, err);
    return rc;
}
