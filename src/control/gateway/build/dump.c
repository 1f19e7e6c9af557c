/* SPDX-License-Identifier: Apache-2.0 */
/* Models as text: one line for each thing, indented by what it belongs to. */
#include "control/gateway/build/build.h"

struct dump {
    struct sw_buf *out;
    int rc;
};

static void line(struct dump *d, const char *fmt, ...) SW_PRINTF(2, 3);

static void line(struct dump *d, const char *fmt, ...)
{
    va_list ap;

    if (d->rc != SW_OK)
        return;
    va_start(ap, fmt);
    d->rc = sw_buf_vprintf(d->out, fmt, ap);
    va_end(ap);
}

static void list(struct dump *d, const char *label, const struct sw_slice *p, size_t n)
{
    if (!n)
        return;
    line(d, " %s=", label);
    for (size_t i = 0; i < n; i++)
        line(d, "%s%.*s", i ? "," : "", SW_SLICE_ARG(p[i]));
}

static void text(struct dump *d, const char *label, struct sw_slice s)
{
    if (s.n)
        line(d, " %s=%.*s", label, SW_SLICE_ARG(s));
}

/* ---- routes ---- */

static void headers(struct dump *d, const char *label, const struct sw_model_headers *h)
{
    for (size_t i = 0; i < h->n_remove; i++)
        line(d, " %s-remove=%.*s", label, SW_SLICE_ARG(h->remove[i]));
    for (size_t i = 0; i < h->n_set; i++)
        line(d, " %s-set=%.*s:%.*s", label, SW_SLICE_ARG(h->set[i].name),
             SW_SLICE_ARG(h->set[i].value));
    for (size_t i = 0; i < h->n_add; i++)
        line(d, " %s-add=%.*s:%.*s", label, SW_SLICE_ARG(h->add[i].name),
             SW_SLICE_ARG(h->add[i].value));
}

static void values(struct dump *d, const char *label, const struct sw_model_value_match *m,
                   size_t n)
{
    for (size_t i = 0; i < n; i++)
        line(d, " %s:%.*s%s%.*s", label, SW_SLICE_ARG(m[i].name),
             m[i].kind == SW_MODEL_MATCH_REGEX ? "~" : "=", SW_SLICE_ARG(m[i].value));
}

static void match(struct dump *d, const struct sw_model_match *m)
{
    static const char *const kinds[] = {[SW_MODEL_PATH_EXACT] = "exact",
                                        [SW_MODEL_PATH_PREFIX] = "prefix",
                                        [SW_MODEL_PATH_START] = "start",
                                        [SW_MODEL_PATH_REGEX] = "regex"};

    line(d, " %s:%.*s", kinds[m->path_kind], SW_SLICE_ARG(m->path));
    text(d, "method", m->method);
    values(d, "header", m->headers, m->n_headers);
    values(d, "query", m->queries, m->n_queries);
    if (m->grpc)
        line(d, " grpc");
}

static void path_edit(struct dump *d, enum sw_model_path_edit e, struct sw_slice path)
{
    if (e == SW_MODEL_PATH_FULL)
        line(d, " full-path=%.*s", SW_SLICE_ARG(path));
    else if (e == SW_MODEL_PATH_REPLACE_PREFIX)
        line(d, " replace-prefix=%.*s", SW_SLICE_ARG(path));
}

static void backends(struct dump *d, const char *indent, const struct sw_model_backend *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct sw_model_cluster *c = p[i].cluster;

        line(d, "%sbackend %.*s weight=%u", indent, c ? (int)c->name.n : 7,
             c ? c->name.p : "invalid", p[i].weight);
        text(d, "host-rewrite", p[i].host_rewrite);
        headers(d, "request", &p[i].request);
        headers(d, "response", &p[i].response);
        line(d, "\n");
    }
}

static void action(struct dump *d, const struct sw_model_route *r)
{
    switch (r->action) {
    case SW_MODEL_RESPOND:
        line(d, " respond=%u", r->status);
        text(d, "body", r->body);
        text(d, "reason", sw_slice_str(r->reason));
        text(d, "device", r->device);
        break;
    case SW_MODEL_REDIRECT:
        line(d, " redirect=%u", r->redirect->status);
        text(d, "scheme", r->redirect->scheme);
        text(d, "host", r->redirect->host);
        if (r->redirect->port)
            line(d, " port=%u", r->redirect->port);
        path_edit(d, r->redirect->path_edit, r->redirect->path);
        break;
    case SW_MODEL_FORWARD:
        line(d, " forward invalid=%u", r->invalid_status);
        break;
    }
    if (r->rewrite) {
        text(d, "rewrite-host", r->rewrite->host);
        path_edit(d, r->rewrite->path_edit, r->rewrite->path);
    }
}

static void extras(struct dump *d, const struct sw_model_route *r)
{
    if (r->request_timeout_ms >= 0)
        line(d, " timeout=%lldms", (long long)r->request_timeout_ms);
    if (r->backend_timeout_ms >= 0)
        line(d, " backend-timeout=%lldms", (long long)r->backend_timeout_ms);
    if (r->retry) {
        line(d, " retry=%u", r->retry->attempts);
        for (size_t i = 0; i < r->retry->n_codes; i++)
            line(d, "%s%u", i ? "," : ":", r->retry->codes[i]);
        if (r->retry->backoff_ms)
            line(d, " backoff=%llums", (unsigned long long)r->retry->backoff_ms);
    }
    if (r->session)
        line(d, " session=%s:%.*s%s ttl=%llums",
             r->session->kind == SW_MODEL_SESSION_COOKIE ? "cookie" : "header",
             SW_SLICE_ARG(r->session->name), r->session->permanent ? " permanent" : "",
             (unsigned long long)r->session->ttl_ms);
    headers(d, "request", &r->request);
    headers(d, "response", &r->response);
    if (r->cors) {
        line(d, " cors max-age=%u%s", r->cors->max_age_s,
             r->cors->credentials ? " credentials" : "");
        list(d, "origins", r->cors->origins, r->cors->n_origins);
        list(d, "methods", r->cors->methods, r->cors->n_methods);
        list(d, "headers", r->cors->headers, r->cors->n_headers);
        list(d, "expose", r->cors->expose, r->cors->n_expose);
    }
}

static void auth(struct dump *d, const struct sw_model_auth *x)
{
    line(d, "      auth %s %.*s", x->grpc ? "grpc" : "http", SW_SLICE_ARG(x->cluster->name));
    text(d, "path", x->path);
    list(d, "headers", x->headers, x->n_headers);
    list(d, "copied", x->copied, x->n_copied);
    if (x->body_max)
        line(d, " body=%u", x->body_max);
    line(d, "\n");
}

static void route(struct dump *d, const struct sw_model_route *r)
{
    line(d, "    route %.*s", SW_SLICE_ARG(r->name));
    match(d, &r->match);
    if (r->share)
        line(d, " share=%u", r->share);
    action(d, r);
    extras(d, r);
    line(d, "\n");
    if (r->auth)
        auth(d, r->auth);
    backends(d, "      ", r->backends, r->n_backends);
    for (size_t i = 0; i < r->n_mirrors; i++)
        line(d, "      mirror %.*s %u/%u\n", SW_SLICE_ARG(r->mirrors[i].cluster->name),
             r->mirrors[i].numerator, r->mirrors[i].denominator);
}

static void table(struct dump *d, const struct sw_model_table *t)
{
    line(d, "table %.*s\n", SW_SLICE_ARG(t->name));
    for (size_t i = 0; i < t->n_vhosts; i++) {
        const struct sw_model_vhost *v = t->vhosts[i];

        line(d, "  host %.*s%s\n", SW_SLICE_ARG(v->host), v->misdirected ? " misdirected" : "");
        for (size_t k = 0; k < v->n_routes; k++)
            route(d, v->routes[k]);
    }
}

/* ---- listeners ---- */

static void chain(struct dump *d, const struct sw_model_chain *c)
{
    static const char *const kinds[] = {[SW_MODEL_CHAIN_HTTP] = "http",
                                        [SW_MODEL_CHAIN_L4] = "l4",
                                        [SW_MODEL_CHAIN_REFUSE] = "refuse"};
    static const char *const modes[] = {[SW_MODEL_TLS_NONE] = "",
                                        [SW_MODEL_TLS_TERMINATE] = " terminate",
                                        [SW_MODEL_TLS_PASSTHROUGH] = " passthrough"};
    static const char *const clients[] = {[SW_MODEL_CLIENT_NONE] = "",
                                          [SW_MODEL_CLIENT_REQUIRE] = " client=require",
                                          [SW_MODEL_CLIENT_INSECURE] = " client=insecure"};

    line(d, "  chain %.*s %s%s", SW_SLICE_ARG(c->name), kinds[c->kind], modes[c->tls]);
    list(d, "names", c->server_names, c->n_server_names);
    list(d, "certs", c->certs, c->n_certs);
    line(d, "%s", clients[c->client_mode]);
    text(d, "ca", c->client_ca);
    if (c->alpn_http)
        line(d, " alpn=h2,http/1.1");
    text(d, "route", c->route);
    line(d, "\n");
    backends(d, "    ", c->backends, c->n_backends);
}

static void listener(struct dump *d, const struct sw_model_listener *l)
{
    line(d, "listener %.*s bind=%.*s:%u%s%s\n", SW_SLICE_ARG(l->name), SW_SLICE_ARG(l->bind),
         l->bind_port, l->udp ? " udp" : "", l->inspect_tls ? " inspect-tls" : "");
    for (size_t i = 0; i < l->n_chains; i++)
        chain(d, l->chains[i]);
}

static void cluster(struct dump *d, const struct sw_model_cluster *c)
{
    static const char *const protos[] = {[SW_MODEL_PROTO_HTTP1] = "http1",
                                         [SW_MODEL_PROTO_HTTP2] = "http2",
                                         [SW_MODEL_PROTO_WS] = "ws",
                                         [SW_MODEL_PROTO_TCP] = "tcp",
                                         [SW_MODEL_PROTO_UDP] = "udp"};

    line(d, "cluster %.*s %s endpoints=%.*s%s", SW_SLICE_ARG(c->name), protos[c->proto],
         SW_SLICE_ARG(c->endpoints), c->sticky ? " sticky" : "");
    if (c->tunnel)
        line(d, " tunnel");
    if (sw_model_is_udp_tunnel(c))
        line(d, "=%.*s:%u by %.*s", SW_SLICE_ARG(c->udp_host), c->udp_port,
             c->udp_id.n ? (int)c->udp_id.n : 4, c->udp_id.n ? c->udp_id.p : "none");
    if (c->dns_host.n)
        line(d, " dns=%.*s:%u", SW_SLICE_ARG(c->dns_host), c->dns_port);
    if (c->tls) {
        line(d, " tls sni=%.*s", SW_SLICE_ARG(c->tls->sni));
        text(d, "ca", c->tls->ca.n ? c->tls->ca : SW_SLICE_LIT("system"));
        text(d, "client-cert", c->tls->client_cert);
        for (size_t i = 0; i < c->tls->n_sans; i++)
            line(d, " san=%s:%.*s", c->tls->sans[i].kind == SW_MODEL_SAN_DNS ? "dns" : "uri",
                 SW_SLICE_ARG(c->tls->sans[i].value));
    }
    line(d, "\n");
}

int sw_model_dump(const struct sw_model *m, struct sw_buf *out)
{
    struct dump d = {out, SW_OK};

    for (size_t i = 0; i < m->n_listeners; i++)
        listener(&d, m->listeners[i]);
    for (size_t i = 0; i < m->n_tables; i++)
        table(&d, m->tables[i]);
    for (size_t i = 0; i < m->n_clusters; i++)
        cluster(&d, m->clusters[i]);
    for (size_t i = 0; i < m->n_secrets; i++) /* never their content */
        line(&d, "secret %.*s %s %zu bytes\n", SW_SLICE_ARG(m->secrets[i]->name),
             m->secrets[i]->kind == SW_MODEL_SECRET_CERT ? "certificate" : "ca",
             m->secrets[i]->chain_pem.n);
    for (size_t i = 0; i < m->n_endpoints; i++)
        line(&d, "needs %.*s\n", SW_SLICE_ARG(m->endpoints[i]));
    return d.rc;
}

int sw_model_endpoints_dump(const struct sw_endpoint_model *m, struct sw_buf *out)
{
    struct dump d = {out, SW_OK};

    for (size_t i = 0; i < m->n_sets; i++) {
        const struct sw_model_endpoints *s = m->sets[i];

        line(&d, "endpoints %.*s\n", SW_SLICE_ARG(s->name));
        for (size_t k = 0; k < s->n; k++) {
            if (s->p[k].tunnel_id.n)
                line(&d, "  %.*s by %.*s", SW_SLICE_ARG(s->p[k].tunnel_target),
                     SW_SLICE_ARG(s->p[k].tunnel_id));
            else
                line(&d, "  %.*s:%u", SW_SLICE_ARG(s->p[k].address), s->p[k].port);
            text(&d, "zone", s->p[k].zone);
            line(&d, "%s\n", s->p[k].draining ? " draining" : "");
        }
    }
    return d.rc;
}
