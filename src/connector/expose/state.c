/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/expose/state.h"

#include "connector/details.h"
#include "kube/fields.h"

#define URL_NOTE "spanwire.dev/url"

enum { HOSTNAMES_MAX = 16 }; /* of an HTTPProxy */

/* ---- status ---- */

static const struct {
    const char *name;
    const char *type;
    bool of_connector;
    bool optional; /* absent counts as done */
} steps[SW_EXPOSE_STEPS] = {
    [SW_EXPOSE_PROXY_ACCEPTED] = {"proxy_accepted", "Accepted", false, false},
    [SW_EXPOSE_CERTIFICATES_READY] = {"certificates_ready", "CertificatesReady", false, true},
    [SW_EXPOSE_CONNECTOR_READY] = {"connector_ready", "Ready", true, false},
    [SW_EXPOSE_DNS_PUBLISHED] = {"iroh_dns_published", "IrohDNSPublished", true, true},
    [SW_EXPOSE_PROXY_PROGRAMMED] = {"proxy_programmed", "Programmed", false, false},
    [SW_EXPOSE_METADATA_PROGRAMMED] = {"connector_metadata_programmed",
                                       "ConnectorMetadataProgrammed", false, true},
};

const char *sw_expose_step_name(enum sw_expose_step s)
{
    return steps[s].name;
}

static struct sw_slice condition_of(const struct sw_json *obj, const char *type,
                                    struct sw_slice *reason, struct sw_slice *message)
{
    return sw_condition(sw_json_walk(obj, "status", "conditions", NULL), type, reason, message);
}

/* A condition of an older generation is no verdict on the present spec. */
static bool found(const struct sw_json *obj, const char *type, const char *status,
                  const char *reason, struct sw_slice *ret_message)
{
    struct sw_slice why;
    struct sw_slice is = condition_of(obj, type, &why, ret_message);

    return sw_slice_eq_str(is, status) && (!reason || sw_slice_eq_str(why, reason)) &&
           sw_condition_current(obj, type);
}

static void judge_failure(const struct sw_json *proxy, const struct sw_json *connector,
                          struct sw_expose_state *ret)
{
    struct sw_slice message;

    if (found(proxy, "Accepted", "False", "Invalid", &message) ||
        found(proxy, "HostnamesInUse", "True", NULL, &message) ||
        found(proxy, "PortInUse", "True", NULL, &message))
        ret->failed = message;
    ret->lost = found(connector, "IrohDNSPublished", "False", "DeferredToOwner", &message);
    if (ret->lost)
        ret->failed = message;
}

void sw_expose_judge(const struct sw_json *proxy, const struct sw_json *connector, bool need_tls,
                     struct sw_expose_state *ret)
{
    *ret = (struct sw_expose_state){.ready = true};
    for (size_t i = 0; i < SW_EXPOSE_STEPS; i++) {
        const struct sw_json *obj = steps[i].of_connector ? connector : proxy;
        struct sw_slice reason;
        struct sw_slice message;
        struct sw_slice status = condition_of(obj, steps[i].type, &reason, &message);
        bool done = sw_condition_true(obj, steps[i].type);
        /* A certificate that is not there yet does not keep clients from plain HTTP. */
        bool needless = i == SW_EXPOSE_CERTIFICATES_READY && !need_tls;

        ret->waived[i] = !done && steps[i].optional && (status.n == 0 || needless);
        ret->done[i] = done || ret->waived[i];
        if (!ret->done[i] && ret->ready) {
            ret->ready = false;
            ret->waiting = message;
        }
    }
    judge_failure(proxy, connector, ret);
}

/* ---- names ---- */

struct sw_json *sw_expose_union(struct sw_arena *a, const struct sw_json *before,
                                const struct sw_json *wanted)
{
    const struct sw_json *from[] = {before, wanted};
    struct sw_json *all = sw_json_new_array(a);

    for (size_t k = 0; k < SW_ARRAY_LEN(from); k++) {
        SW_JSON_ITEMS (it, from[k]) {
            struct sw_slice name = sw_json_str(it);

            if (!sw_field_list_has(all, name))
                sw_json_push(a, all, sw_json_new_string(a, name));
        }
    }
    return sw_json_len(all) <= HOSTNAMES_MAX ? all : NULL;
}

/* The condition Available of one name: the status, empty without one. */
static struct sw_slice availability(const struct sw_json *proxy, struct sw_slice name,
                                    struct sw_slice *ret_reason, struct sw_slice *ret_message)
{
    const struct sw_json *list = sw_json_walk(proxy, "status", "hostnameStatuses", NULL);

    *ret_reason = *ret_message = SW_SLICE_LIT("");
    return sw_condition(sw_json_find(sw_json_find_item(list, "hostname", name), "conditions"),
                        "Available", ret_reason, ret_message);
}

bool sw_expose_name_taken(const struct sw_json *proxy, struct sw_slice name,
                          struct sw_slice *ret_message)
{
    struct sw_slice reason;

    (void)availability(proxy, name, &reason, ret_message);
    return sw_slice_eq_str(reason, "InUse");
}

enum sw_expose_names sw_expose_names(const struct sw_json *proxy, const struct sw_json *wanted,
                                     struct sw_slice *ret_name)
{
    enum sw_expose_names all = SW_EXPOSE_NAMES_OURS;

    if (!sw_condition_current(proxy, "Accepted"))
        return SW_EXPOSE_NAMES_PENDING;
    SW_JSON_ITEMS (it, wanted) {
        struct sw_slice name = sw_json_str(it);
        struct sw_slice reason;
        struct sw_slice message;

        if (sw_expose_name_taken(proxy, name, &message)) {
            *ret_name = name;
            return SW_EXPOSE_NAMES_TAKEN;
        }
        if (!sw_slice_eq_str(availability(proxy, name, &reason, &message), "True"))
            all = SW_EXPOSE_NAMES_PENDING;
    }
    return all;
}

/* ---- where ---- */

/* The port of "http://name:port/", as clients dial it; 80 without one. */
static uint64_t port_of(struct sw_slice url)
{
    struct sw_slice rest = sw_slice_from(url, sizeof("http://") - 1);
    struct sw_slice authority = sw_slice_cut(&rest, '/');
    ptrdiff_t colon = sw_slice_rfind(authority, ':');
    uint64_t port = 80;

    if (colon < 0 ||
        !sw_slice_to_u64(sw_slice_from(authority, (size_t)colon + 1), 65535 - 443, &port) ||
        port == 0)
        return 80;
    return port;
}

static struct sw_slice url_note(const struct sw_json *proxy)
{
    return sw_json_str(sw_json_walk(proxy, "metadata", "annotations", URL_NOTE, NULL));
}

const char *sw_expose_l4_url(struct sw_arena *a, const struct sw_json *proxy)
{
    struct sw_slice note = url_note(proxy);
    struct sw_slice name =
        sw_json_str(sw_json_at(sw_json_walk(proxy, "spec", "hostnames", NULL), 0));
    ptrdiff_t colon = sw_slice_rfind(note, ':');

    if (sw_slice_has_prefix(note, SW_SLICE_LIT("tcp://")))
        return sw_arena_dup(a, note);
    if (!sw_slice_has_prefix(note, SW_SLICE_LIT("tls://")) || colon < 6)
        return NULL;
    return name.n ? sw_arena_printf(a, "tls://%.*s%.*s", SW_SLICE_ARG(name),
                                    SW_SLICE_ARG(sw_slice_from(note, (size_t)colon)))
                  : sw_arena_dup(a, note);
}

uint16_t sw_expose_https_port(const struct sw_json *proxy)
{
    uint64_t port = port_of(url_note(proxy));

    return port == 80 ? 0 : (uint16_t)(port - 80 + 443);
}

const char *sw_expose_url(struct sw_arena *a, const struct sw_json *proxy, bool https)
{
    struct sw_slice name =
        sw_json_str(sw_json_at(sw_json_walk(proxy, "spec", "hostnames", NULL), 0));
    /* Ports below 1024 may be served higher up, HTTP and HTTPS by the same distance. */
    uint64_t port = port_of(url_note(proxy));

    if (!name.n)
        name = sw_json_str(sw_json_walk(proxy, "status", "canonicalHostname", NULL));
    if (!name.n)
        return NULL;
    if (https)
        port = port - 80 + 443;
    if (port == (https ? 443 : 80))
        return sw_arena_printf(a, "%s://%.*s/", https ? "https" : "http", SW_SLICE_ARG(name));
    return sw_arena_printf(a, "%s://%.*s:%u/", https ? "https" : "http", SW_SLICE_ARG(name),
                           (unsigned)port);
}
