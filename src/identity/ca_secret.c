/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/ca_secret.h"

#include "base/log.h"
#include "base/mem.h"
#include "identity/material.h"
#include "kube/client/client.h"
#include "kube/client/informer.h"
#include "kube/client/kinds.h"

enum { PLUGGED, OWN, SECRETS };

static const char *const names[SECRETS] = {
    [PLUGGED] = SW_CA_SECRET_PLUGGED, [OWN] = SW_CA_SECRET_OWN};

struct sw_ca_secret {
    struct sw_ca_secret_opts o;
    char *ns;
    struct sw_informer *informer[SECRETS];
    struct sw_kube_call *call; /* a write under way */
};

/* The Secret that counts; NULL: there is none. */
static struct sw_kube_obj *current(const struct sw_ca_secret *s)
{
    struct sw_kube_obj *found = NULL;

    for (size_t i = 0; i < SECRETS && !found; i++) {
        char *key SW_AUTO_FREE = sw_asprintf("%s/%s", s->ns, names[i]);

        found = sw_informer_get(s->informer[i], sw_slice_str(key));
    }
    return found;
}

static void report(void *arg)
{
    struct sw_ca_secret *s = arg;
    struct sw_kube_obj *o;

    for (size_t i = 0; i < SECRETS; i++) {
        if (!s->informer[i] || !sw_informer_synced(s->informer[i]))
            return;
    }
    o = current(s);
    s->o.on_secret(s->o.arg, o ? o->json : NULL);
}

static void on_any(void *arg, struct sw_kube_obj *o)
{
    report(arg);
}

static const struct sw_informer_cbs cbs = {.set = on_any, .del = on_any, .synced = report};

struct sw_ca_secret *sw_ca_secret_new(const struct sw_ca_secret_opts *o)
{
    struct sw_ca_secret *s = SW_NEW(struct sw_ca_secret);

    s->o = *o;
    s->ns = sw_strdup(o->ns);
    for (size_t i = 0; i < SECRETS; i++) {
        char *field SW_AUTO_FREE = sw_asprintf("metadata.name=%s", names[i]);

        s->informer[i] = sw_informer_new(o->client,
                                         &(struct sw_informer_opts){.gvr = &sw_secrets_gvr,
                                                                    .ns = sw_slice_str(s->ns),
                                                                    .field_selector = field,
                                                                    .slim = true},
                                         &cbs, s);
    }
    for (size_t i = 0; i < SECRETS; i++)
        sw_informer_start(s->informer[i]);
    return s;
}

void sw_ca_secret_free(struct sw_ca_secret *s)
{
    if (!s)
        return;
    sw_kube_call_cancel(s->call);
    for (size_t i = 0; i < SECRETS; i++)
        sw_informer_free(s->informer[i]);
    sw_free(s->ns);
    sw_free(s);
}

static void on_written(void *arg, struct sw_kube_reply *r)
{
    struct sw_ca_secret *s = arg;

    s->call = NULL;
    if (r->rc != SW_OK && r->code != 409)
        sw_log_warn("ca", "cannot write Secret '%s/%s': %.*s; retrying", s->ns, SW_CA_SECRET_OWN,
                    SW_SLICE_ARG(r->message));
}

void sw_ca_secret_write(struct sw_ca_secret *s, const struct sw_ca_material *m)
{
    struct sw_kube_obj *basis = current(s);
    SW_ARENA_AUTO a = {0};
    struct sw_json *o;

    if (s->call)
        return;
    o = sw_ca_material_to_secret(&a, m, basis ? basis->json : NULL, s->ns, SW_CA_SECRET_OWN);
    s->call = basis ? sw_kube_update(s->o.client, &sw_secrets_gvr, o, NULL, on_written, s)
                    : sw_kube_create(s->o.client, &sw_secrets_gvr, o, on_written, s);
}
