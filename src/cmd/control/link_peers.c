/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/link_peers.h"

#include "base/mem.h"
#include "base/time.h"
#include "cmd/control/link.h"
#include "cmd/join/peer.h"
#include "control/link/auth/certificate.h"
#include "identity/fabric.h"
#include "identity/join/service.h"
#include "tls/cert/ca.h"
#include "tls/cert/pemfile.h"

struct sw_control_link_peers {
    const struct sw_control_link_opts *o;
    struct sw_join_peers hook;
    struct sw_arena arena; /* of the site's name, as it was last */
    const char **gateways;
};

static int read_site(struct sw_control_link_peers *p, struct sw_slice *ret, struct sw_err *err)
{
    char *path SW_AUTO_FREE = sw_asprintf("%s/" SW_FABRIC_CERT, p->o->fabric);
    SW_BUF_AUTO text = {.max = SW_TLS_PEM_MAX};
    int rc = sw_pemfile_read(path, &text, err);

    if (rc != SW_OK)
        return rc;
    sw_arena_clear(&p->arena);
    *ret = sw_link_first_dns(&p->arena, sw_pem_leaf_der(&p->arena, sw_buf_slice(&text)));
    return ret->n ? SW_OK : sw_err_set(err, SW_EINVAL, "%s has no DNS name", path);
}

/* The files are read each time: they may change. */
static int sign(void *arg, struct sw_slice name, struct sw_slice csr, struct sw_join_peer_cert *ret,
                struct sw_err *err)
{
    struct sw_control_link_peers *p = arg;
    char *text SW_AUTO_FREE = sw_slice_dup(name);
    struct sw_slice site;
    struct sw_ca *ca;
    int rc = read_site(p, &site, err);

    if (rc != SW_OK)
        return rc;
    if (sw_slice_eq(site, name))
        return sw_err_set(err, SW_EDENIED, "'%s' is this site's own name", text);
    ca = sw_fabric_load(p->o->fabric, err);
    rc = ca ? sw_fabric_sign(ca, text, p->o->peer_ttl_ns / SW_NS_PER_S, csr, ret->certificate, err)
            : err->rc;
    if (rc == SW_OK)
        rc = sw_buf_append_slice(ret->roots, sw_ca_root_pem(ca));
    sw_ca_free(ca);
    ret->gateways = p->gateways;
    ret->site = sw_arena_dup(&p->arena, site);
    return rc;
}

static struct sw_json *object(void *arg, struct sw_arena *a, struct sw_slice name,
                              const struct sw_join_gateways *at)
{
    const struct sw_control_link_peers *p = arg;

    return sw_peer_object(a, p->o->ns, name, at);
}

int sw_control_link_peers_new(const struct sw_control_link_opts *o,
                              struct sw_control_link_peers **ret, struct sw_err *err)
{
    struct sw_join_gateways checked = {.n = 0};
    struct sw_control_link_peers *p;
    int rc = sw_peer_gateways(&o->gateways, "--link-gateway", &checked, err);

    *ret = NULL;
    if (rc != SW_OK || !o->listen.ip.family || !o->fabric || !sw_fabric_signs(o->fabric))
        return rc;
    p = SW_NEW(struct sw_control_link_peers);
    p->o = o;
    p->hook = (struct sw_join_peers){.sign = sign, .object = object, .gvr = &sw_peer_gvr, .arg = p};
    p->gateways = SW_NEW_ARRAY(const char *, o->gateways.n + 1);
    for (size_t i = 0; i < o->gateways.n; i++)
        p->gateways[i] = o->gateways.p[i];
    *ret = p;
    return SW_OK;
}

void sw_control_link_peers_free(struct sw_control_link_peers *p)
{
    if (!p)
        return;
    sw_arena_clear(&p->arena);
    sw_free(p->gateways);
    sw_free(p);
}

const struct sw_join_peers *sw_control_link_peers_hook(const struct sw_control_link_peers *p)
{
    return p ? &p->hook : NULL;
}
