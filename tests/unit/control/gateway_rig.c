/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway_rig.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rand.h"
#include "control/runtime_int.h"
#include "yaml/yaml.h"

enum { TEXT_MAX = 64 * 1024 * 1024 };

struct rig *rig_new(void)
{
    struct rig *r = SW_NEW(struct rig);

    r->conf.controller = SW_SLICE_LIT("spanwire.dev/gateway");
    r->conf.ingress_controller = SW_SLICE_LIT("spanwire.dev/ingress");
    return r;
}

void rig_clear(struct rig *r)
{
    struct sw_model_address *addrs;
    struct sw_err err;

    for (size_t k = 0; k < SW_ARRAY_LEN(r->n); k++) {
        for (size_t i = 0; i < r->n[k]; i++)
            sw_kube_obj_unref(r->objs[k][i]);
        r->n[k] = 0;
    }
    sw_arena_clear(&r->arena);
    r->conf.port_offset = 8000;
    r->conf.max_listeners = 0;
    r->conf.max_sockets = 0;
    r->conf.ingress_shared_hosts = false;
    r->conf.reserved = NULL;
    r->conf.n_reserved = 0;
    r->planes = (struct sw_slice){0};
    if (sw_gateway_addrs_parse(&r->arena, SW_SLICE_LIT("127.0.0.1"), &addrs, &r->conf.n_addrs,
                               &err) == SW_OK)
        r->conf.addrs = addrs;
}

void rig_free(struct rig *r)
{
    rig_clear(r);
    sw_arena_clear(&r->arena);
    sw_free(r);
}

/* ---- loading ---- */

static struct sw_json *to_json(struct sw_arena *a, const struct sw_yaml *y)
{
    struct sw_json *v;

    if (y->kind == SW_YAML_MAP) {
        v = sw_json_new_object(a);
        SW_YAML_FOREACH (it, y)
            sw_json_set(a, v, it->key->text, to_json(a, it));
        return v;
    }
    if (y->kind == SW_YAML_SEQ) {
        v = sw_json_new_array(a);
        SW_YAML_FOREACH (it, y)
            sw_json_push(a, v, to_json(a, it));
        return v;
    }
    switch (sw_yaml_type(y)) {
    case SW_YAML_NULL:
        return sw_json_new_null(a);
    case SW_YAML_BOOL:
        return sw_json_new_bool(a, y->text.p[0] == 't' || y->text.p[0] == 'T');
    case SW_YAML_INT:
    case SW_YAML_FLOAT:
        if (sw_json_number_valid(y->text))
            return sw_json_new_number(a, y->text);
        break; /* 0x10, 007 */
    case SW_YAML_STR:
        break;
    }
    return sw_json_new_string(a, y->text);
}

static void configure(struct rig *r, const struct sw_json *v)
{
    struct sw_slice text = sw_json_str(sw_json_find(v, "addresses"));
    struct sw_gateway_ports *reserved;
    struct sw_model_address *addrs;
    struct sw_err err;
    int64_t offset;

    if (text.p && sw_gateway_addrs_parse(&r->arena, text, &addrs, &r->conf.n_addrs, &err) == SW_OK)
        r->conf.addrs = addrs;
    if (sw_json_i64(sw_json_find(v, "portOffset"), &offset))
        r->conf.port_offset = (uint16_t)offset;
    if (sw_json_i64(sw_json_find(v, "maxListeners"), &offset))
        r->conf.max_listeners = (size_t)offset;
    if (sw_json_i64(sw_json_find(v, "maxSockets"), &offset))
        r->conf.max_sockets = (size_t)offset;
    r->conf.ingress_shared_hosts = sw_json_true(sw_json_find(v, "ingressSharedHosts"));
    text = sw_json_str(sw_json_find(v, "reservedPorts"));
    if (text.p &&
        sw_gateway_ports_parse(&r->arena, text, &reserved, &r->conf.n_reserved, &err) == SW_OK)
        r->conf.reserved = reserved;
    text = sw_json_str(sw_json_find(v, "dataPlanes"));
    if (text.p)
        r->planes = sw_arena_slice(&r->arena, text);
}

static const char *kind_of(size_t k)
{
    return k < SW_MODEL_KINDS ? sw_gateway_kinds[k].gvr->kind
                              : sw_gateway_endpoint_kinds[k - SW_MODEL_KINDS].gvr->kind;
}

static const char *group_of(size_t k)
{
    return k < SW_MODEL_KINDS ? sw_gateway_kinds[k].gvr->group
                              : sw_gateway_endpoint_kinds[k - SW_MODEL_KINDS].gvr->group;
}

static bool of_kind(const struct sw_json *v, size_t k)
{
    struct sw_slice version = sw_json_str(sw_json_find(v, "apiVersion"));
    struct sw_slice group = sw_slice("", 0);

    if (sw_slice_find(version, '/') >= 0)
        group = sw_slice_cut(&version, '/');
    return sw_json_str_eq(sw_json_find(v, "kind"), kind_of(k)) &&
           sw_slice_eq_str(group, group_of(k));
}

static void add_object(struct rig *r, const struct sw_json *v)
{
    if (sw_json_str_eq(sw_json_find(v, "kind"), "TestConfig"))
        configure(r, v);
    for (size_t k = 0; k < SW_ARRAY_LEN(r->n); k++) {
        struct sw_kube_obj *o;

        if (!of_kind(v, k) || r->n[k] == RIG_OBJECTS_MAX)
            continue;
        o = sw_kube_obj_new(v);
        if (o)
            r->objs[k][r->n[k]++] = o;
    }
}

static bool load_docs(struct rig *r, struct sw_slice text, struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_yaml_stream docs;

    if (sw_yaml_parse(&a, text, NULL, &docs, err) != SW_OK)
        return false;
    for (size_t i = 0; i < docs.n; i++)
        add_object(r, to_json(&a, docs.docs[i]));
    return true;
}

bool rig_load_quiet(struct rig *r, struct sw_slice text)
{
    struct sw_err err;

    return load_docs(r, text, &err);
}

bool rig_load_text(struct rig *r, struct sw_slice text)
{
    struct sw_err err;
    bool ok = load_docs(r, text, &err);

    if (!ok)
        (void)fprintf(stderr, "%s\n", err.msg);
    return ok;
}

static void put_class(struct sw_buf *out, struct sw_slice in)
{
    static const struct sw_slice mark = SW_SLICE_LIT("{GATEWAY_CLASS_NAME}");

    for (;;) {
        const char *p = in.n ? memmem(in.p, in.n, mark.p, mark.n) : NULL;

        if (sw_buf_append(out, in.p, p ? (size_t)(p - in.p) : in.n) != SW_OK || !p)
            return;
        if (sw_buf_append_str(out, "sw") != SW_OK)
            return;
        in = sw_slice(p + mark.n, in.n - (size_t)(p - in.p) - mark.n);
    }
}

bool rig_load(struct rig *r, const char *path)
{
    SW_BUF_AUTO raw = {0};
    SW_BUF_AUTO text = {0};
    FILE *f = fopen(path, "re");
    char chunk[4096];
    size_t n;
    bool ok;

    if (!f)
        return false;
    sw_buf_init(&raw, TEXT_MAX);
    sw_buf_init(&text, TEXT_MAX);
    while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0) {
        if (sw_buf_append(&raw, chunk, n) != SW_OK)
            break;
    }
    (void)fclose(f);
    put_class(&text, sw_buf_slice(&raw));
    ok = rig_load_text(r, sw_buf_slice(&text));
    if (!ok)
        (void)fprintf(stderr, "in %s\n", path);
    return ok;
}

void rig_shuffle(struct rig *r, unsigned seed)
{
    for (size_t k = 0; k < SW_ARRAY_LEN(r->n); k++) {
        for (size_t i = r->n[k]; i > 1; i--) {
            struct sw_kube_obj *o = r->objs[k][i - 1];
            size_t j;

            seed = seed * 1103515245u + 12345u;
            j = (seed >> 8) % i;
            r->objs[k][i - 1] = r->objs[k][j];
            r->objs[k][j] = o;
        }
    }
}

/* ---- views ---- */

static int by_key(const void *x, const void *y)
{
    const struct sw_kube_obj *const *p = x;
    const struct sw_kube_obj *const *q = y;

    return sw_slice_cmp((*p)->key, (*q)->key);
}

/* As informers do: ordered, one of each key (the last). */
static struct view_kind *view_of(struct rig *r, size_t k)
{
    struct sw_kube_obj **list = SW_NEW_ARRAY(struct sw_kube_obj *, r->n[k] + 1);
    struct view_kind *out;
    size_t n = 0;

    for (size_t i = 0; i < r->n[k]; i++)
        list[i] = r->objs[k][i];
    if (r->n[k] > 1)
        qsort(list, r->n[k], sizeof(struct sw_kube_obj *), by_key);
    for (size_t i = 0; i < r->n[k]; i++) {
        if (n && sw_slice_eq(list[n - 1]->key, list[i]->key))
            n--;
        list[n++] = list[i];
    }
    for (size_t i = 0; i < n; i++)
        (void)sw_kube_obj_ref(list[i]);
    out = view_kind_new(list, n);
    sw_free(list);
    return out;
}

static struct sw_view *view_range(struct rig *r, size_t from, size_t n)
{
    struct view_kind *kinds[SW_MODEL_KINDS];
    struct view_input *input = view_input_new(from ? sw_slice("", 0) : r->planes);
    struct sw_view *v;

    for (size_t i = 0; i < n; i++)
        kinds[i] = view_of(r, from + i);
    v = view_new(kinds, n, input);
    for (size_t i = 0; i < n; i++)
        view_kind_unref(kinds[i]);
    view_input_unref(input);
    return v;
}

struct sw_view *rig_view(struct rig *r)
{
    return view_range(r, 0, SW_MODEL_KINDS);
}

struct sw_view *rig_endpoint_view(struct rig *r)
{
    return view_range(r, SW_MODEL_KINDS, SW_MODEL_EP_KINDS);
}

/* ---- results as text ---- */

static void say(struct sw_buf *out, const char *fmt, ...) SW_PRINTF(2, 3);

static void say(struct sw_buf *out, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)!sw_buf_vprintf(out, fmt, ap);
    va_end(ap);
}

static void show_conditions(struct sw_buf *out, const char *indent, const struct sw_json *list)
{
    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *c = sw_json_at(list, i);
        struct sw_slice msg = sw_json_str(sw_json_find(c, "message"));
        const struct sw_json *gen = sw_json_find(c, "observedGeneration");

        say(out, "%s%.*s=%.*s/%.*s", indent, SW_SLICE_ARG(sw_json_str(sw_json_find(c, "type"))),
            SW_SLICE_ARG(sw_json_str(sw_json_find(c, "status"))),
            SW_SLICE_ARG(sw_json_str(sw_json_find(c, "reason"))));
        if (gen)
            say(out, " g%.*s", SW_SLICE_ARG(gen->text));
        say(out, "%s%.*s\n", msg.n ? " " : "", SW_SLICE_ARG(msg));
    }
}

static void show_listeners(struct sw_buf *out, const struct sw_json *list)
{
    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *l = sw_json_at(list, i);
        const struct sw_json *kinds = sw_json_find(l, "supportedKinds");
        const struct sw_json *n = sw_json_find(l, "attachedRoutes");

        say(out, "  listener %.*s attached=%.*s kinds=",
            SW_SLICE_ARG(sw_json_str(sw_json_find(l, "name"))), SW_SLICE_ARG(n->text));
        for (size_t k = 0; k < sw_json_len(kinds); k++)
            say(out, "%s%.*s", k ? "," : "",
                SW_SLICE_ARG(sw_json_str(sw_json_find(sw_json_at(kinds, k), "kind"))));
        say(out, "\n");
        show_conditions(out, "    ", sw_json_find(l, "conditions"));
    }
}

static void show_entries(struct sw_buf *out, const char *what, const struct sw_json *list)
{
    SW_ARENA_AUTO a = {0};

    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *e = sw_json_at(list, i);
        const struct sw_json *ref = sw_json_find(e, "parentRef");

        if (!ref)
            ref = sw_json_find(e, "ancestorRef");
        say(out, "  %s %.*s %.*s\n", what,
            SW_SLICE_ARG(ref ? sw_json_text(&a, ref, NULL) : sw_slice_str("nothing")),
            SW_SLICE_ARG(sw_json_str(sw_json_find(e, "controllerName"))));
        show_conditions(out, "    ", sw_json_find(e, "conditions"));
    }
}

static void show_status(struct sw_buf *out, const struct sw_model_status *s)
{
    const struct sw_json *v = s->status;
    const struct sw_json *addrs = sw_json_find(v, "addresses");
    const struct sw_json *sets = sw_json_find(v, "attachedListenerSets");
    SW_ARENA_AUTO a = {0};

    say(out, "status %s %.*s\n", sw_gateway_kinds[s->kind].gvr->kind, SW_SLICE_ARG(s->of->key));
    for (size_t i = 0; i < sw_json_len(addrs); i++)
        say(out, "  address %.*s%s\n",
            SW_SLICE_ARG(sw_json_str(sw_json_find(sw_json_at(addrs, i), "value"))),
            sw_json_str_eq(sw_json_find(sw_json_at(addrs, i), "type"), "Hostname") ? " (hostname)"
                                                                                   : "");
    if (sets && !sw_slice_eq_str(sets->text, "0"))
        say(out, "  sets %.*s\n", SW_SLICE_ARG(sets->text));
    if (s->kind == SW_MODEL_INGRESS)
        say(out, "  %.*s\n", SW_SLICE_ARG(sw_json_text(&a, v, NULL)));
    show_conditions(out, "  ", sw_json_find(v, "conditions"));
    show_listeners(out, sw_json_find(v, "listeners"));
    show_entries(out, "parent", sw_json_find(v, "parents"));
    show_entries(out, "ancestor", sw_json_find(v, "ancestors"));
}

static void show_want(struct sw_buf *out, const struct sw_model_want *w)
{
    static const char *const hows[] = {[SW_MODEL_WANT_OBJECT] = "apply",
                                       [SW_MODEL_WANT_GONE] = "delete",
                                       [SW_MODEL_WANT_FINALIZER] = "hold",
                                       [SW_MODEL_WANT_NO_FINALIZER] = "release"};
    SW_ARENA_AUTO a = {0};

    say(out, "%s %s", hows[w->how], sw_gateway_kinds[w->kind].gvr->kind);
    if (w->json)
        say(out, " %.*s\n", SW_SLICE_ARG(sw_json_text(&a, w->json, NULL)));
    else
        say(out, " %.*s\n", SW_SLICE_ARG(w->of->key));
}

/* ---- what must hold for every model ---- */

static void check_backends(const struct sw_model *m, const struct sw_model_backend *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool found = !p[i].cluster;

        assert(p[i].weight <= 1000000);
        for (size_t k = 0; k < m->n_clusters && !found; k++)
            found = m->clusters[k] == p[i].cluster;
        assert(found);
    }
}

static void check_route(const struct sw_model *m, const struct sw_model_route *r)
{
    bool any = false;

    for (size_t i = 0; i < r->n_backends; i++)
        any |= r->backends[i].cluster && r->backends[i].weight;
    assert(r->action != SW_MODEL_FORWARD || any);
    assert((r->action == SW_MODEL_REDIRECT) == (r->redirect != NULL));
    assert(r->action != SW_MODEL_RESPOND || (r->status >= 400 && r->status <= 599));
    assert(r->match.path.n &&
           (r->match.path_kind == SW_MODEL_PATH_REGEX || r->match.path.p[0] == '/'));
    assert(r->name.n);
    check_backends(m, r->backends, r->n_backends);
}

static void check_table(const struct sw_model *m, const struct sw_model_table *t)
{
    for (size_t i = 0; i < t->n_vhosts; i++) {
        const struct sw_model_vhost *v = t->vhosts[i];

        assert(v->host.n);
        assert(!i || sw_slice_cmp(t->vhosts[i - 1]->host, v->host) < 0);
        assert(!v->misdirected || !v->n_routes);
        for (size_t k = 0; k < v->n_routes; k++) {
            check_route(m, v->routes[k]);
            /* Quadratic, so only where it is cheap. */
            for (size_t j = 0; j < k && v->n_routes < 100; j++)
                assert(!sw_slice_eq(v->routes[j]->name, v->routes[k]->name));
        }
    }
}

static bool has_secret(const struct sw_model *m, struct sw_slice name)
{
    for (size_t i = 0; i < m->n_secrets; i++) {
        if (sw_slice_eq(m->secrets[i]->name, name))
            return true;
    }
    return false;
}

static void check_chain(const struct sw_model *m, const struct sw_model_chain *c)
{
    assert((c->kind == SW_MODEL_CHAIN_HTTP) == (c->table != NULL));
    assert(c->kind == SW_MODEL_CHAIN_REFUSE || c->tls != SW_MODEL_TLS_TERMINATE || c->n_certs);
    assert(c->tls != SW_MODEL_TLS_NONE || !c->n_server_names);
    assert(c->client_mode == SW_MODEL_CLIENT_NONE || has_secret(m, c->client_ca));
    for (size_t i = 0; i < c->n_certs; i++)
        assert(has_secret(m, c->certs[i]));
    if (c->table)
        check_table(m, c->table);
    check_backends(m, c->backends, c->n_backends);
}

/* No two chains of a socket may claim a name, and each must be reachable by its own. */
static void check_listener(const struct sw_model *m, const struct sw_model_listener *l)
{
    size_t open = 0;

    assert(l->n_chains && l->bind_port && l->port);
    for (size_t i = 0; i < l->n_chains; i++) {
        const struct sw_model_chain *c = l->chains[i];

        assert(!i || sw_slice_cmp(l->chains[i - 1]->name, c->name) < 0);
        open += !c->n_server_names;
        check_chain(m, c);
        for (size_t k = 0; k < i; k++) {
            for (size_t x = 0; x < c->n_server_names; x++) {
                for (size_t y = 0; y < l->chains[k]->n_server_names; y++)
                    assert(!sw_slice_eq(c->server_names[x], l->chains[k]->server_names[y]));
            }
        }
    }
    assert(open <= 1);
}

void rig_check(const struct sw_model *m)
{
    for (size_t i = 0; i < m->n_listeners; i++) {
        assert(!i || sw_slice_cmp(m->listeners[i - 1]->name, m->listeners[i]->name) < 0);
        check_listener(m, m->listeners[i]);
    }
    for (size_t i = 1; i < m->n_tables; i++)
        assert(sw_slice_cmp(m->tables[i - 1]->name, m->tables[i]->name) < 0);
    for (size_t i = 1; i < m->n_clusters; i++)
        assert(sw_slice_cmp(m->clusters[i - 1]->name, m->clusters[i]->name) < 0);
    for (size_t i = 1; i < m->n_secrets; i++)
        assert(sw_slice_cmp(m->secrets[i - 1]->name, m->secrets[i]->name) < 0);
    for (size_t i = 1; i < m->n_endpoints; i++)
        assert(sw_slice_cmp(m->endpoints[i - 1], m->endpoints[i]) < 0);
}

/* The class of the common file is the same everywhere and looked at once, elsewhere. */
static bool common_class(const struct sw_model_status *s)
{
    return s->kind == SW_MODEL_CLASS && sw_slice_eq_str(s->of->name, "sw");
}

char *rig_run(struct rig *r, bool *ret_any_status)
{
    SW_ARENA_AUTO a = {0};
    struct sw_view *v = rig_view(r);
    struct sw_view *ev = rig_endpoint_view(r);
    struct sw_endpoint_model em;
    struct sw_model_result res;
    struct sw_buf out;

    sw_buf_init(&out, TEXT_MAX);
    sw_gateway_build(v, &r->conf, &a, &res);
    rig_check(res.model);
    (void)!sw_model_dump(res.model, &out);
    sw_gateway_endpoints(ev, res.model->endpoints, res.model->n_endpoints, &a, &em);
    (void)!sw_model_endpoints_dump(&em, &out);
    for (size_t i = 0; i < res.n_statuses; i++) {
        if (!common_class(&res.statuses[i]))
            show_status(&out, &res.statuses[i]);
    }
    for (size_t i = 0; i < res.n_wants; i++) {
        if (res.wants[i].kind != SW_MODEL_CLASS || !sw_slice_eq_str(res.wants[i].of->name, "sw"))
            show_want(&out, &res.wants[i]);
    }
    for (size_t i = 0; i < res.n_notes; i++)
        say(&out, "note %.*s: %.*s\n", SW_SLICE_ARG(res.notes[i].subject),
            SW_SLICE_ARG(res.notes[i].text));
    if (ret_any_status)
        *ret_any_status = res.n_statuses > 0;
    view_unref(v);
    view_unref(ev);
    return sw_buf_take_str(&out);
}

/* ---- as an API ---- */

static void write_status(struct rig *r, const struct sw_model_status *s, uint64_t wall_ns)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *copy = sw_json_copy(&a, s->of->json);
    struct sw_json *status = sw_json_find(copy, "status");
    const struct sw_json *now = sw_gateway_stamp(&a, s->status, wall_ns);

    if (!status) {
        status = sw_json_new_object(&a);
        sw_json_put(&a, copy, "status", status);
    }
    for (size_t i = 0; i < sw_json_len(now); i++) {
        const struct sw_json_member *m = sw_json_member_at(now, i);

        sw_json_set(&a, status, m->key, m->value);
    }
    for (size_t i = 0; i < r->n[s->kind]; i++) {
        if (r->objs[s->kind][i] != s->of)
            continue;
        sw_kube_obj_unref(r->objs[s->kind][i]);
        r->objs[s->kind][i] = sw_kube_obj_new(copy);
        return;
    }
}

size_t rig_apply_statuses(struct rig *r, uint64_t wall_ns)
{
    SW_ARENA_AUTO a = {0};
    struct sw_view *v = rig_view(r);
    struct sw_model_result res;

    sw_gateway_build(v, &r->conf, &a, &res);
    for (size_t i = 0; i < res.n_statuses; i++)
        write_status(r, &res.statuses[i], wall_ns);
    view_unref(v);
    return res.n_statuses;
}
