/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/memo.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/json.h"
#include "tls/cert/pemfile.h"

enum { NODES_MAX = 4 * SW_ALLOW_MAX + 2 * SW_PEERS_MAX };

static const char *const members[] = {"id",    "server",   "namespace",    "connector",
                                      "relay", "gateways", "destinations", "ports"};

/* The sum detects damage, not malice: a process that can write here has the key. */
static uint64_t sum_of(struct sw_slice body)
{
    return sw_siphash13(SW_MEMO_VERSION, 0x6d656d6f, body.p, body.n);
}

void sw_memo_done(struct sw_memo *m)
{
    sw_peers_done(&m->gateways);
    sw_allow_done(&m->allow);
    sw_arena_clear(&m->arena);
    *m = (struct sw_memo){0};
}

/* ---- writing ---- */

static void put_lists(struct sw_jw *w, const struct sw_memo *m, size_t first_allow)
{
    SW_ARENA_AUTO a = {0};

    sw_jw_put_array(w, "gateways");
    for (size_t i = 0; i < m->gateways.ids.n; i++) {
        char hex[SW_NODEID_HEX];

        sw_jw_str(w, sw_nodeid_hex(&m->gateways.ids.p[i], hex));
    }
    sw_jw_array_end(w);
    sw_jw_put_array(w, "destinations");
    for (size_t i = first_allow; i < m->allow.entries.n; i++) {
        const struct sw_allow_entry *e = &m->allow.entries.p[i];

        sw_jw_array(w);
        sw_jw_str(w, sw_allow_text(&a, e));
        sw_jw_string(w, e->from);
        sw_jw_array_end(w);
    }
    sw_jw_array_end(w);
    sw_jw_put_array(w, "ports");
    for (size_t i = 0; i < m->n_ports; i++)
        sw_jw_u64(w, m->ports[i]);
    sw_jw_array_end(w);
}

static int write_body(const struct sw_memo *m, size_t first_allow, struct sw_buf *out)
{
    const struct sw_slice texts[] = {m->server, m->ns, m->connector, m->relay};
    struct sw_jw w;
    char hex[SW_NODEID_HEX];

    sw_jw_begin(&w, out, &(struct sw_json_write_opts){.indent = 1});
    sw_jw_object(&w);
    sw_jw_name(&w, members[0]);
    sw_jw_str(&w, sw_nodeid_hex(&m->id, hex));
    for (size_t i = 0; i < SW_ARRAY_LEN(texts); i++) {
        sw_jw_name(&w, members[i + 1]);
        sw_jw_string(&w, texts[i].n ? texts[i] : SW_SLICE_LIT(""));
    }
    put_lists(&w, m, first_allow);
    sw_jw_object_end(&w);
    return sw_jw_end(&w);
}

int sw_memo_write(const struct sw_memo *m, size_t first_allow, struct sw_buf *out)
{
    SW_BUF_AUTO body = {.max = SW_MEMO_MAX};
    int rc = write_body(m, first_allow, &body);

    if (rc == SW_OK)
        rc = sw_buf_printf(out, "spanwire-memo %d %016llx\n", SW_MEMO_VERSION,
                           (unsigned long long)sum_of(sw_buf_slice(&body)));
    if (rc == SW_OK)
        rc = sw_buf_append_slice(out, sw_buf_slice(&body));
    return rc;
}

/* ---- reading ---- */

static int read_text(struct sw_memo *m, const struct sw_json *v, const char *name,
                     struct sw_slice *ret, struct sw_err *err)
{
    struct sw_slice s = sw_json_str(sw_json_find(v, name));

    if (!s.p || s.n > SW_MEMO_TEXT_MAX || memchr(s.p, 0, s.n))
        return sw_err_set(err, SW_EINVAL, "'%s' is not a text that we wrote", name);
    *ret = sw_arena_slice(&m->arena, s);
    return SW_OK;
}

static int read_gateways(struct sw_memo *m, const struct sw_json *list, struct sw_err *err)
{
    if (!sw_json_is(list, SW_JSON_ARRAY))
        return sw_err_set(err, SW_EINVAL, "no list of gateways");
    SW_JSON_ITEMS (it, list) {
        struct sw_nodeid id;
        int rc = sw_nodeid_parse(sw_json_str(it), &id, err);

        if (rc == SW_OK)
            rc = sw_peers_add(&m->gateways, &id, err);
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

static int read_destinations(struct sw_memo *m, const struct sw_json *list, struct sw_err *err)
{
    if (!sw_json_is(list, SW_JSON_ARRAY))
        return sw_err_set(err, SW_EINVAL, "no list of destinations");
    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *one = sw_json_at(list, i);
        struct sw_slice to = sw_json_str(sw_json_at(one, 0));
        struct sw_slice from = sw_json_str(sw_json_at(one, 1));
        int rc;

        if (sw_json_len(one) != 2 || !to.n || !from.p || from.n > SW_MEMO_TEXT_MAX)
            return sw_err_set(err, SW_EINVAL, "destination %zu is not one", i);
        rc = sw_allow_add_text(&m->allow, to, err);
        if (rc != SW_OK)
            return rc;
        m->allow.entries.p[m->allow.entries.n - 1].from = sw_arena_slice(&m->allow.arena, from);
    }
    return SW_OK;
}

static int read_ports(struct sw_memo *m, const struct sw_json *list, struct sw_err *err)
{
    if (!sw_json_is(list, SW_JSON_ARRAY) || sw_json_len(list) > SW_ARRAY_LEN(m->ports))
        return sw_err_set(err, SW_EINVAL, "no list of ports");
    for (size_t i = 0; i < sw_json_len(list); i++) {
        uint64_t port;

        if (!sw_json_u64(sw_json_at(list, i), &port) || port < 1 || port > 65535)
            return sw_err_set(err, SW_EINVAL, "port %zu is not one", i);
        m->ports[m->n_ports++] = (uint16_t)port;
    }
    return SW_OK;
}

static int read_body(struct sw_memo *m, const struct sw_json *v, struct sw_err *err)
{
    struct sw_slice *const texts[] = {&m->server, &m->ns, &m->connector, &m->relay};
    int rc = sw_nodeid_parse(sw_json_str(sw_json_find(v, members[0])), &m->id, err);

    if (!sw_json_is(v, SW_JSON_OBJECT) || sw_json_len(v) != SW_ARRAY_LEN(members))
        return sw_err_set(err, SW_EINVAL, "not the members that we write");
    for (size_t i = 0; i < SW_ARRAY_LEN(texts) && rc == SW_OK; i++)
        rc = read_text(m, v, members[i + 1], texts[i], err);
    if (rc == SW_OK)
        rc = read_gateways(m, sw_json_find(v, "gateways"), err);
    if (rc == SW_OK)
        rc = read_destinations(m, sw_json_find(v, "destinations"), err);
    if (rc == SW_OK)
        rc = read_ports(m, sw_json_find(v, "ports"), err);
    return rc;
}

int sw_memo_parse_body(struct sw_slice body, struct sw_memo *ret, struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json_opts o = {.max_bytes = SW_MEMO_MAX, .max_nodes = NODES_MAX};
    struct sw_memo m = {0};
    struct sw_json *v;
    int rc = sw_json_parse(&a, body, &o, &v, err);

    if (rc == SW_OK)
        rc = read_body(&m, v, err);
    if (rc != SW_OK) {
        sw_memo_done(&m);
        return rc;
    }
    *ret = m;
    return SW_OK;
}

int sw_memo_parse(struct sw_slice text, struct sw_memo *ret, struct sw_err *err)
{
    struct sw_slice body = text;
    struct sw_slice first = sw_slice_cut(&body, '\n');
    char want[64];

    if (!body.p)
        return sw_err_set(err, SW_EINVAL, "cut off");
    (void)snprintf(want, sizeof(want), "spanwire-memo %d ", SW_MEMO_VERSION);
    if (!sw_slice_has_prefix(first, sw_slice_str(want)))
        return sw_err_set(err, SW_EINVAL, "of another version");
    (void)snprintf(want, sizeof(want), "spanwire-memo %d %016llx", SW_MEMO_VERSION,
                   (unsigned long long)sum_of(body));
    if (!sw_slice_eq_str(first, want))
        return sw_err_set(err, SW_EINVAL, "damaged: the sum is wrong");
    return sw_memo_parse_body(body, ret, err);
}

int sw_memo_load(const char *path, struct sw_memo *ret, struct sw_err *err)
{
    SW_BUF_AUTO text = {.max = SW_MEMO_MAX};
    struct stat st;
    int rc;

    if (lstat(path, &st) != 0) {
        int e = errno;

        (void)sw_err_sys(err, e, "%.120s", path);
        return e == ENOENT ? SW_ENOENT : SW_ESYS;
    }
    if (!S_ISREG(st.st_mode) || (st.st_mode & 077) || st.st_uid != geteuid())
        return sw_err_set(err, SW_EDENIED, "not a file of mode 0600 that is ours");
    rc = sw_pemfile_read(path, &text, err);
    return rc == SW_OK ? sw_memo_parse(sw_buf_slice(&text), ret, err) : rc;
}
