/* SPDX-License-Identifier: Apache-2.0 */
/* The status of an HTTPProxy: its own conditions, and those of each of its names. */
#include "control/connector/proxy_int.h"

static const char *const owned[] = {"Accepted",
                                    "Programmed",
                                    "HostnamesVerified",
                                    "HostnamesInUse",
                                    "PortInUse",
                                    "ConnectorMetadataProgrammed",
                                    "CertificatesReady",
                                    "AdvertisementMatched",
                                    "ConnectorSelection",
                                    "DNSRecordsProgrammed",
                                    NULL};
static const char *const owned_host[] = {"Available", "Verified", "CertificateReady",
                                         "DNSRecordProgrammed", NULL};

enum { CONDITIONS_MAX = 13 };

#define FOREIGN "OutsideCertificateDomains"

struct conds {
    struct cond p[CONDITIONS_MAX];
    size_t n;
};

static void say(struct conds *c, const char *type, bool yes, const char *reason, const char *msg)
{
    c->p[c->n++] = (struct cond){type, yes, reason, msg};
}

/* ---- Programmed ---- */

/* True when the condition is true and says it of the object as it is now. */
static bool true_now(const struct sw_kube_obj *o, const struct sw_json *conditions,
                     const char *type)
{
    const struct sw_json *c = cn_condition(conditions, type);

    return sw_json_str_eq(sw_json_find(c, "status"), "True") &&
           js_int(c, "observedGeneration", INT64_MAX, INT64_MAX) >= generation_of(o);
}

static bool is_false(const struct sw_json *conditions, const char *type)
{
    return sw_json_str_eq(sw_json_find(cn_condition(conditions, type), "status"), "False");
}

/* The reason in the condition of another object. */
static const char *pending(const struct hp *h, const char *what, const struct sw_json *conditions,
                           const char *type)
{
    struct sw_slice m = js_or(cn_condition(conditions, type), "message", "");

    return cn_text(h->a, "%s%s%.*s", what, m.n ? ": " : ".", SW_SLICE_ARG(m));
}

/* The name is free, and the claim is not written yet. */
static const char *unrecorded_text(const struct hp *h)
{
    return sw_view_served(h->v, SW_HP_CLAIM)
               ? "The claim on the name is being recorded."
               : "The claim on the name cannot be recorded: the API does not serve "
                 "claims.spanwire.dev.";
}

static const struct hp_host *first_unrecorded(const struct hp *h)
{
    for (size_t i = 0; i < h->n_hosts; i++) {
        if (h->hosts[i].state == HP_NAME_UNRECORDED)
            return &h->hosts[i];
    }
    return NULL;
}

/* Why it has no port. */
static const char *port_text(const struct hp *h)
{
    if (h->l4.state == HP_NAME_IN_USE)
        return cn_text(h->a, "Port %u is claimed by %s.", h->l4.wanted, h->l4.holder);
    return sw_view_served(h->v, SW_HP_CLAIM)
               ? "No port is recorded for it yet: the claim is being written, or no port is free."
               : "The claim on a port cannot be recorded: the API does not serve "
                 "claims.spanwire.dev.";
}

static void port_conditions(const struct hp *h, struct conds *c)
{
    if (h->l4.kind != HP_L4_TCP || h->l4.state != HP_NAME_IN_USE)
        return;
    cn_note(h->out, "PortInUse", "httpproxy", h->obj, port_text(h));
    say(c, "PortInUse", true, "PortInUse", port_text(h));
}

static void programmed(const struct hp *h, struct conds *c)
{
    const struct sw_json *gw = cn_conditions(h->gateway);
    const struct sw_json *parents =
        h->route ? sw_json_walk(h->route->json, "status", "parents", NULL) : NULL;
    const struct sw_json *rt = sw_json_find(sw_json_at(parents, 0), "conditions");
    const struct hp_host *unrecorded = first_unrecorded(h);

    if (h->conflict.reason) {
        cn_note(h->out, h->conflict.reason, "httpproxy", h->obj, h->conflict.msg);
        say(c, "Programmed", false, h->conflict.reason, h->conflict.msg);
    } else if (h->missing_instance) {
        say(c, "Programmed", false, "InstanceBackendNotFound", h->missing_instance);
    } else if (h->incapable.reason) {
        say(c, "Programmed", false, h->incapable.reason, h->incapable.msg);
    } else if (unrecorded) {
        say(c, "Programmed", false, "Pending",
            cn_text(h->a, "'%.*s': %s", SW_SLICE_ARG(unrecorded->name), unrecorded_text(h)));
    } else if (h->l4.kind == HP_L4_TCP && h->l4.state != HP_NAME_OURS) {
        say(c, "Programmed", false, "Pending", port_text(h));
    } else if (!h->gateway || !true_now(h->gateway, gw, "Programmed")) {
        say(c, "Programmed", false, "Pending",
            pending(h, "The Gateway is not programmed yet", gw, "Programmed"));
    } else if (!h->route || !true_now(h->route, rt, "Accepted")) {
        say(c, "Programmed", false, "Pending",
            pending(h, "The route is not accepted yet", rt, "Accepted"));
    } else if (is_false(rt, "ResolvedRefs")) {
        say(c, "Programmed", false, "Pending",
            pending(h, "The route refers to something that cannot be used", rt, "ResolvedRefs"));
    } else if (!sw_slice_eq(cn_meta_of(h->obj, "annotations", SW_CONNECTOR_URL), h->url)) {
        /* Another write than this one: who waits for us reads it next. */
        say(c, "Programmed", false, "Pending", "The URL annotation is not written yet.");
    } else {
        say(c, "Programmed", true, "Programmed", "The HTTPProxy is served.");
    }
}

/* ---- names ---- */

static void note_foreign(const struct hp *h, struct conds *c, const struct hp_host *host)
{
    const char *msg =
        cn_text(h->a, "'%.*s' is under no domain that the fabric's CA signs for: HTTP only.",
                SW_SLICE_ARG(host->name));

    cn_note(h->out, FOREIGN, "httpproxy", h->obj, msg);
    say(c, "CertificatesReady", false, FOREIGN, msg);
}

static void host_conditions(const struct hp *h, struct conds *c)
{
    const struct hp_host *lost = NULL;
    const struct hp_host *foreign = NULL;
    size_t pending = 0;
    size_t failed = 0;

    for (size_t i = 0; i < h->n_hosts; i++) {
        if (!lost && (h->hosts[i].state == HP_NAME_IN_USE || h->hosts[i].lost))
            lost = &h->hosts[i];
        pending +=
            h->hosts[i].state == HP_NAME_OURS && !h->hosts[i].no_cert && !h->hosts[i].certified;
        failed += h->hosts[i].failed;
        foreign = foreign ? foreign : h->hosts[i].no_cert ? &h->hosts[i] : NULL;
    }
    say(c, "HostnamesVerified", true, "HostnamesVerified",
        "This control plane takes names as they are given.");
    if (lost) {
        const char *msg = cn_text(h->a, "'%.*s' is claimed by %s, which had it first.",
                                  SW_SLICE_ARG(lost->name), lost->holder);

        cn_note(h->out, "HostnameInUse", "httpproxy", h->obj, msg);
        say(c, "HostnamesInUse", true, "HostnameInUse", msg);
    }
    say(c, "DNSRecordsProgrammed", true, "AllApplicableRecordsCreated",
        "No record is this control plane's to make.");
    if (!h->conf->issuer.n || h->l4.kind != HP_L4_NONE)
        return;
    if (failed)
        say(c, "CertificatesReady", false, "CertificatesFailed",
            cn_text(h->a, "%zu certificates could not be issued.", failed));
    else if (foreign)
        note_foreign(h, c, foreign);
    else if (pending)
        say(c, "CertificatesReady", false, "CertificatesPending",
            cn_text(h->a, "%zu certificates are being issued.", pending));
    else
        say(c, "CertificatesReady", true, "AllCertificatesReady", "All certificates are there.");
}

const struct sw_json *hp_host_conditions(const struct sw_kube_obj *proxy, struct sw_slice name)
{
    const struct sw_json *list = sw_json_walk(proxy->json, "status", "hostnameStatuses", NULL);

    return sw_json_find(sw_json_find_item(list, "hostname", name), "conditions");
}

/* True when the Gateway's status says that a listener of the name conflicts with another one. */
static bool lost_place(const struct hp *h, const struct hp_host *host)
{
    const struct sw_json *spec =
        h->gateway ? sw_json_walk(h->gateway->json, "spec", "listeners", NULL) : NULL;
    const struct sw_json *have =
        h->gateway ? sw_json_walk(h->gateway->json, "status", "listeners", NULL) : NULL;

    for (size_t i = 0; i < sw_json_len(spec); i++) {
        struct sw_slice name = js(sw_json_at(spec, i), "name");

        if (!sw_slice_eq(js_or(sw_json_at(spec, i), "hostname", ""), host->name))
            continue;
        for (size_t k = 0; k < sw_json_len(have); k++) {
            if (sw_slice_eq(js(sw_json_at(have, k), "name"), name) &&
                cn_is_true(sw_json_find(sw_json_at(have, k), "conditions"), "Conflicted"))
                return true;
        }
    }
    return false;
}

static void find_lost(struct hp *h)
{
    for (size_t i = 0; i < h->n_hosts && !h->conflict.reason; i++) {
        if (h->hosts[i].state == HP_NAME_OURS && lost_place(h, &h->hosts[i])) {
            h->hosts[i].lost = true;
            h->hosts[i].holder = "a Gateway";
        }
    }
}

static void available(const struct hp *h, const struct hp_host *host, struct conds *c)
{
    switch (host->state) {
    case HP_NAME_OURS:
        if (host->lost)
            say(c, "Available", false, "InUse",
                "The name belongs to this HTTPProxy, but a Gateway serves it already.");
        else
            say(c, "Available", true, "Claimed", "The name belongs to this HTTPProxy.");
        break;
    case HP_NAME_UNRECORDED:
        say(c, "Available", false, "Pending", unrecorded_text(h));
        break;
    case HP_NAME_IN_USE:
        say(c, "Available", false, "InUse",
            cn_text(h->a, "The name is claimed by %s.", host->holder));
        break;
    }
}

static struct sw_json *host_status(const struct hp *h, const struct hp_host *host)
{
    struct conds c = {.n = 0};

    available(h, host, &c);
    say(&c, "Verified", true, "Verified", "This control plane takes names as they are given.");
    if (host->failed)
        say(&c, "CertificateReady", false, "ProvisioningFailed",
            cn_text(h->a, "Secret '%.*s' could not be written; the log says why.",
                    SW_SLICE_ARG(host->secret)));
    else if (host->no_cert)
        say(&c, "CertificateReady", false, FOREIGN,
            "The fabric's CA signs no such name (--certificate-domain of control).");
    else if (h->conf->issuer.n && host->state == HP_NAME_OURS && h->l4.kind == HP_L4_NONE)
        say(&c, "CertificateReady", host->certified,
            host->certified ? "CertificateIssued" : "Pending",
            host->certified ? "The certificate is there." : "The certificate is being issued.");
    if (host->state == HP_NAME_OURS)
        say(&c, "DNSRecordProgrammed", true, "NotApplicable",
            "This control plane has no zone for public names.");
    return SW_JSON_OF(
        h->a, {"hostname", .text = host->name},
        {"conditions", .json = merge_conditions(h->a, hp_host_conditions(h->obj, host->name),
                                                owned_host, c.p, c.n, generation_of(h->obj))});
}

static void put_hosts(const struct hp *h, struct sw_json *status)
{
    struct sw_json *names = sw_json_new_array(h->a);
    struct sw_json *list = sw_json_new_array(h->a);

    for (size_t i = 0; i < h->n_hosts; i++) {
        if (h->hosts[i].state == HP_NAME_OURS)
            sw_json_push(h->a, names, sw_json_new_string(h->a, h->hosts[i].name));
        sw_json_push(h->a, list, host_status(h, &h->hosts[i]));
    }
    sw_json_put_str(h->a, status, "canonicalHostname", h->hosts[0].name);
    sw_json_put(h->a, status, "hostnames", names);
    sw_json_put(h->a, status, "hostnameStatuses", list);
}

/* ---- all ---- */

static void connector_conditions(const struct hp *h, struct conds *c)
{
    if (!h->any_connector)
        return;
    if (h->selection.reason)
        c->p[c->n++] = h->selection;
    if (h->unadvertised)
        say(c, "AdvertisementMatched", false, "NotAdvertised", h->unadvertised);
    else
        say(c, "AdvertisementMatched", true, "Advertised",
            "A ConnectorAdvertisement has every endpoint.");
    if (!h->conf->patch_policies)
        return;
    if (h->n_offline)
        say(c, "ConnectorMetadataProgrammed", false, "Pending",
            cn_text(h->a, "%zu backends wait for their Connector.", h->n_offline));
    else
        say(c, "ConnectorMetadataProgrammed", true, "ConnectorMetadataApplied",
            "The EnvoyPatchPolicy has every connector.");
}

void hp_status(struct hp *h, const char *invalid)
{
    struct sw_json *status = sw_json_new_object(h->a);
    const struct sw_json *addresses =
        h->gateway && !h->conflict.reason
            ? sw_json_walk(h->gateway->json, "status", "addresses", NULL)
            : NULL;
    struct conds c = {.n = 0};

    if (invalid) {
        cn_note(h->out, "Invalid", "httpproxy", h->obj, invalid);
        say(&c, "Accepted", false, "Invalid", invalid);
        say(&c, "Programmed", false, "Pending", "The HTTPProxy is not valid.");
    } else {
        say(&c, "Accepted", true, "Accepted", "The HTTPProxy has been accepted.");
        find_lost(h);
        programmed(h, &c);
        port_conditions(h, &c);
        if (h->n_hosts)
            host_conditions(h, &c);
        connector_conditions(h, &c);
        if (h->n_hosts)
            put_hosts(h, status);
    }
    if (addresses)
        sw_json_put(h->a, status, "addresses", sw_json_copy(h->a, addresses));
    sw_json_put(
        h->a, status, "conditions",
        merge_conditions(h->a, cn_conditions(h->obj), owned, c.p, c.n, generation_of(h->obj)));
    sw_out_status(h->out, SW_HP_PROXY, h->obj, status);
}
