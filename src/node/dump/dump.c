/* SPDX-License-Identifier: Apache-2.0 */
/* The page itself, on the main loop: pods, connections and certificates. */
#include "node/dump/dump.h"

#include <semaphore.h>
#include <stdio.h>
#include <time.h>

#include "base/base64.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/vec.h"
#include "node/main.h"

static void put_certificate(struct sw_jw *j, const struct sw_tls_cert_info *c)
{
    char when[SW_RFC3339_LEN];
    SW_BUF_AUTO b64 = {.max = 1 << 20};

    sw_jw_object(j);
    if (sw_base64_append(&b64, c->pem) == SW_OK)
        sw_jw_put_string(j, "pem", sw_buf_slice(&b64));
    sw_jw_put_string(j, "serialNumber", c->serial);
    sw_jw_put_str(j, "validFrom", sw_rfc3339(c->not_before_s * SW_NS_PER_S, 0, when));
    sw_jw_put_str(j, "expirationTime", sw_rfc3339(c->not_after_s * SW_NS_PER_S, 0, when));
    sw_jw_object_end(j);
}

static void put_certificates(struct sw_jw *j, const char *key, const struct sw_tls_cert_info *c,
                             size_t n)
{
    sw_jw_put_array(j, key);
    for (size_t i = 0; i < n; i++)
        put_certificate(j, &c[i]);
    sw_jw_array_end(j);
}

static void put_certs(struct sw_jw *j, struct sw_certs *certs)
{
    sw_jw_put_array(j, "certificates");
    for (size_t i = 0; i < sw_certs_count(certs); i++) {
        struct sw_certs_entry e = sw_certs_at(certs, i);
        const struct sw_tls_cert_info *list = NULL;
        char state[256];
        size_t n;

        sw_jw_object(j);
        sw_jw_put_string(j, "identity", e.identity);
        sw_jw_name(j, "state");
        if (e.error && !e.cred)
            (void)snprintf(state, sizeof(state), "Unavailable: %s", e.error);
        else
            (void)snprintf(state, sizeof(state), "%s", e.cred ? "Available" : "Initializing");
        sw_jw_str(j, state);
        n = e.cred ? sw_tls_cred_chain(e.cred, &list) : 0;
        put_certificates(j, "certChain", list, n);
        n = e.cred ? sw_tls_cred_roots(e.cred, &list) : 0;
        put_certificates(j, "rootCerts", list, n);
        sw_jw_object_end(j);
    }
    sw_jw_array_end(j);
}

/* ---- open connections, asked of every worker ---- */

struct open_conn {
    struct sw_addr src;
    struct sw_addr original_dst;
    struct sw_addr actual_dst;
    unsigned protocol; /* enum sw_live_protocol */
    bool inbound;
    const struct sw_pod *pod;
};

enum { CONNS_MAX = 100000, ASK_TIMEOUT_MS = 1000 };

/* Shared by the asker and one worker; the last of both frees it. */
struct ask {
    struct sw_msg msg;
    struct sw_worker *worker;
    sem_t done;
    atomic_int refs;
    SW_VEC(struct open_conn) conns;
};

static void ask_unref(struct ask *a)
{
    if (atomic_fetch_sub(&a->refs, 1) != 1)
        return;
    (void)sem_destroy(&a->done);
    sw_vec_done(&a->conns);
    sw_free(a);
}

static void on_ask(struct sw_msg *m)
{
    struct ask *a = SW_CONTAINER_OF(m, struct ask, msg);

    SW_LIST_EACH (struct sw_live, l, &a->worker->lives, link) {
        struct open_conn c = {l->src,      l->original_dst, l->actual_dst,
                              l->protocol, l->inbound,      l->pod->pod};

        if (a->conns.n < CONNS_MAX)
            sw_vec_push(&a->conns, c);
    }
    (void)sem_post(&a->done);
    ask_unref(a);
}

static struct ask *ask_worker(struct sw_worker *w)
{
    struct ask *a = SW_NEW(struct ask);

    a->msg.cb = on_ask;
    a->worker = w;
    a->refs = 2;
    (void)sem_init(&a->done, 0, 0);
    sw_loop_post(w->loop, &a->msg);
    return a;
}

static bool answered(struct ask *a)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ASK_TIMEOUT_MS / 1000;
    return sem_timedwait(&a->done, &until) == 0;
}

static void put_addr(struct sw_jw *j, const char *key, const struct sw_addr *a)
{
    char text[SW_ADDR_TEXT];

    sw_jw_put_str(j, key, sw_addr_text(a, text));
}

static void put_connections(struct sw_jw *j, struct ask *const *asks, const bool *ok, size_t n,
                            const struct sw_pod *pod, bool inbound)
{
    static const char *const protocols[] = {"TCP", "HBONE", "DOUBLEHBONE", "SOCKS5"};

    sw_jw_put_array(j, inbound ? "inbound" : "outbound");
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; ok[i] && k < asks[i]->conns.n; k++) {
            const struct open_conn *c = &asks[i]->conns.p[k];

            if (c->pod != pod || c->inbound != inbound)
                continue;
            sw_jw_object(j);
            put_addr(j, "src", &c->src);
            put_addr(j, "originalDst", &c->original_dst);
            put_addr(j, "actualDst", &c->actual_dst);
            sw_jw_put_str(j, "protocol", protocols[c->protocol]);
            sw_jw_object_end(j);
        }
    }
    sw_jw_array_end(j);
}

static void put_pods(struct sw_jw *j, struct sw_node *n)
{
    struct ask **asks = SW_NEW_ARRAY(struct ask *, n->n_workers);
    bool *ok = SW_NEW_ARRAY(bool, n->n_workers);
    bool complete = true;

    for (size_t i = 0; i < n->n_workers; i++)
        asks[i] = ask_worker(&n->workers[i]);
    for (size_t i = 0; i < n->n_workers; i++) {
        ok[i] = answered(asks[i]);
        complete = complete && ok[i];
    }
    sw_jw_put_object(j, "workloadState");
    SW_VEC_FOREACH (struct node_pod, it, &n->pods) {
        const struct sw_pod *p = it->pod;

        sw_jw_put_object(j, p->uid);
        sw_jw_put_str(j, "state", it->up ? "Up" : "Pending");
        if (!it->up)
            sw_jw_put_str(j, "reason", it->why.msg);
        sw_jw_put_object(j, "info");
        sw_jw_put_str(j, "name", p->name);
        sw_jw_put_str(j, "namespace", p->ns);
        sw_jw_put_str(j, "serviceAccount", p->sa);
        sw_jw_object_end(j);
        sw_jw_put_object(j, "connections");
        put_connections(j, asks, ok, n->n_workers, p, true);
        put_connections(j, asks, ok, n->n_workers, p, false);
        sw_jw_object_end(j);
        sw_jw_object_end(j);
    }
    sw_jw_object_end(j);
    /* Not when a worker did not answer: its connections are missing, its state may be older. */
    sw_jw_put_bool(j, "complete", complete);
    for (size_t i = 0; i < n->n_workers; i++)
        ask_unref(asks[i]);
    sw_free(asks);
    sw_free(ok);
}

static void put_settings(struct sw_jw *j, const struct sw_node *n)
{
    sw_jw_put_object(j, "version");
    sw_jw_put_str(j, "version", SW_VERSION);
    sw_jw_put_str(j, "buildTag", "spanwire");
    sw_jw_object_end(j);
    sw_jw_name(j, "config");
    sw_dump_config(j, n->config);
}

int node_config_dump(struct sw_buf *out, void *arg)
{
    struct sw_node *n = arg;
    struct sw_json_write_opts opts = {.indent = 2};
    struct sw_jw j;

    sw_jw_begin(&j, out, &opts);
    sw_jw_object(&j);
    sw_dump_state(&j, n->state);
    sw_jw_put_string(&j, "staticConfig", n->text);
    put_settings(&j, n);
    put_certs(&j, n->certs);
    put_pods(&j, n);
    sw_jw_object_end(&j);
    return sw_jw_end(&j);
}
