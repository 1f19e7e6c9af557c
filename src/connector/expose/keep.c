/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run of `expose` that fails changes nothing. New host names are claimed beside those that the
 * HTTPProxy has, while everything else of it stays as it was; only when they are ours the rest is
 * written. Until the run is ready, every failure writes back what was found.
 */
#include "base/log.h"
#include "base/mem.h"
#include "connector/details.h"
#include "connector/expose/expose_int.h"
#include "connector/reg/reg.h"

void expose_keep(struct expose *x, struct expose_object *of, const struct sw_json *found)
{
    if (!of->wrote)
        of->before = sw_json_copy(&x->kept, found);
}

/* Those of 'names' that no other object holds, in 'kept'; NULL: none. */
static const struct sw_json *own_names(struct expose *x, const struct sw_json *proxy,
                                       const struct sw_json *names)
{
    struct sw_json *own = sw_json_new_array(&x->kept);

    SW_JSON_ITEMS (it, names) {
        struct sw_slice name = sw_json_str(it);
        struct sw_slice message;

        if (sw_expose_name_taken(proxy, name, &message))
            sw_log_warn("expose", "hostname '%.*s' left out: %.*s", SW_SLICE_ARG(name),
                        SW_SLICE_ARG(message));
        else
            sw_json_push(&x->kept, own, sw_json_copy(&x->kept, it));
    }
    return sw_json_len(own) ? own : NULL;
}

static bool keeps_hostnames(const struct expose *x)
{
    return x->cfg->hostnames.n == 0 && !x->target.tcp;
}

void expose_keep_hostnames(struct expose *x, const struct sw_json *proxy)
{
    if (keeps_hostnames(x))
        x->hostnames = own_names(x, proxy, sw_json_walk(proxy, "spec", "hostnames", NULL));
}

static bool any_taken(const struct sw_json *proxy, const struct sw_json *names)
{
    struct sw_slice message;

    SW_JSON_ITEMS (it, names) {
        if (sw_expose_name_taken(proxy, sw_json_str(it), &message))
            return true;
    }
    return false;
}

bool expose_leave_out_taken(struct expose *x)
{
    const struct sw_json *proxy = x->seen->json;

    /* 'kept' lasts as long as the run, and this is asked for each change and every second. */
    if (!keeps_hostnames(x) || x->ready || !any_taken(proxy, x->hostnames))
        return false;
    x->hostnames = own_names(x, proxy, x->hostnames);
    expose_go(x, EXPOSE_PROXY);
    return true;
}

static const struct sw_json *names_before(const struct expose *x)
{
    return sw_json_walk(x->httpproxy.before, "spec", "hostnames", NULL);
}

enum expose_step expose_first_write(struct expose *x)
{
    size_t before = sw_json_len(names_before(x));
    const struct sw_json *all = x->httpproxy.before && x->hostnames && !x->settled
                                    ? sw_expose_union(&x->kept, names_before(x), x->hostnames)
                                    : NULL;

    x->claiming = all && sw_json_len(all) > before;
    return x->claiming ? EXPOSE_CLAIM : EXPOSE_PROXY;
}

struct sw_json *expose_before_object(struct sw_arena *a, const struct expose_object *of)
{
    static const char *const heads[] = {"apiVersion", "kind"};
    static const char *const names[] = {"namespace", "name"};
    const struct sw_json *notes = sw_json_walk(of->before, "metadata", "annotations", NULL);
    struct sw_json *o = sw_json_new_object(a);
    struct sw_json *ours = sw_json_new_object(a);
    struct sw_json *meta;

    for (size_t i = 0; i < SW_ARRAY_LEN(heads); i++)
        sw_json_put(a, o, heads[i], sw_json_copy(a, sw_json_find(of->before, heads[i])));
    meta = sw_json_put_object(a, o, "metadata");
    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++)
        sw_json_put(a, meta, names[i],
                    sw_json_copy(a, sw_json_walk(of->before, "metadata", names[i], NULL)));
    for (size_t i = 0; sw_expose_notes[i]; i++) {
        const struct sw_json *note = sw_json_find(notes, sw_expose_notes[i]);

        if (note)
            sw_json_put(a, ours, sw_expose_notes[i], sw_json_copy(a, note));
    }
    if (sw_json_len(ours))
        sw_json_put(a, meta, "annotations", ours);
    sw_json_put(a, o, "spec", sw_json_copy(a, sw_json_find(of->before, "spec")));
    return o;
}

struct sw_json *expose_claim_object(const struct expose *x, struct sw_arena *a)
{
    struct sw_json *o = expose_before_object(a, &x->httpproxy);
    struct sw_json *spec = sw_json_find(o, "spec");

    (void)sw_json_remove(spec, SW_SLICE_LIT("hostnames"));
    sw_json_put(a, spec, "hostnames", sw_expose_union(a, names_before(x), x->hostnames));
    return o;
}

/* "The name is claimed by ..." becomes "'a.example' is claimed by ...". Owned. */
static char *taken_text(const struct sw_json *proxy, struct sw_slice name)
{
    static const struct sw_slice subject = SW_SLICE_LIT("The name");
    struct sw_slice message;

    (void)sw_expose_name_taken(proxy, name, &message);
    message = sw_slice_has_prefix(message, subject) ? sw_slice_from(message, subject.n)
                                                    : SW_SLICE_LIT(" is in use");
    return sw_asprintf("'%.*s'%.*s", SW_SLICE_ARG_MAX(name, 100), SW_SLICE_ARG(message));
}

bool expose_judge_claim(struct expose *x)
{
    struct sw_slice name = {0};
    SW_AUTO_FREE char *why = NULL;

    if (!x->claiming)
        return false;
    switch (sw_expose_names(x->seen->json, x->hostnames, &name)) {
    case SW_EXPOSE_NAMES_PENDING:
        break;
    case SW_EXPOSE_NAMES_OURS:
        x->claiming = false;
        x->settled = true;
        expose_go(x, EXPOSE_PROXY);
        break;
    case SW_EXPOSE_NAMES_TAKEN:
        why = taken_text(x->seen->json, name);
        expose_fail(x, SW_EDENIED, "tunnel_terminal_failure", sw_slice_str(why));
        break;
    }
    return true;
}

bool expose_owes_key(const struct expose *x)
{
    return sw_connector_taken_from(x->device) && !x->ready && !x->not_ours && !x->key_back;
}

bool expose_took_over(const struct expose *x)
{
    return x->other || sw_connector_taken_from(x->device);
}

struct sw_json *expose_former_key(const struct expose *x, struct sw_arena *a)
{
    const struct sw_kube_obj *o = sw_connector_object(x->device);
    struct sw_json *body = sw_json_new_object(a);

    sw_json_put(
        a, sw_json_put_object(a, body, "status"), "connectionDetails",
        sw_details_undo(a, sw_connector_taken_from(x->device),
                        sw_json_walk(o ? o->json : NULL, "status", "connectionDetails", NULL)));
    return body;
}

enum expose_step expose_undo_advert(const struct expose *x)
{
    if (x->advert.wrote && !x->ready)
        return EXPOSE_RESTORE_ADVERT;
    if (x->advert.made)
        return EXPOSE_REMOVE_ADVERT;
    return expose_made_connector(x) ? EXPOSE_REMOVE_USERS : EXPOSE_DONE;
}

enum expose_step expose_undo_step(const struct expose *x)
{
    /* The present owner of the name or the key may use all of it; and this one may win it back. */
    if (x->not_ours || x->lost)
        return EXPOSE_DONE;
    if (x->httpproxy.wrote && !x->ready)
        return EXPOSE_RESTORE_PROXY;
    if (x->httpproxy.made)
        return EXPOSE_REMOVE_PROXY;
    return expose_undo_advert(x);
}
