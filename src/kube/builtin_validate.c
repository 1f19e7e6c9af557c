/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of built-in kinds beyond their types. */
#include "base/map.h"
#include "kube/builtin.h"

enum { DATA_MAX = 1 << 20 };

static struct sw_slice text_of(const struct sw_json *v, const char *key)
{
    struct sw_slice s = sw_json_str(sw_json_find(v, key));

    return s.p ? s : sw_slice("", 0);
}

static void one_of(const struct sw_json *v, const char *const *allowed, const struct sw_fpath *at,
                   struct sw_field_errs *e)
{
    for (size_t i = 0; allowed[i]; i++) {
        if (sw_json_str_eq(v, allowed[i]))
            return;
    }
    sw_ferr_unsupported(e, at, v ? v : sw_json_new_str(e->arena, ""), allowed);
}

static void immutable(const struct sw_json *obj, const struct sw_json *old, const char *key,
                      struct sw_field_errs *e)
{
    struct sw_fpath at = sw_fpath_str(NULL, key);

    if (!sw_json_equal(sw_json_find(obj, key), sw_json_find(old, key), SW_JSON_EQ_VALUE))
        sw_ferr_invalid(e, &at, sw_json_find(obj, key), "field is immutable");
}

/* ---- ConfigMap, Secret ---- */

static size_t check_keys(const struct sw_json *data, const char *name, struct sw_field_errs *e)
{
    struct sw_fpath up = sw_fpath_str(NULL, name);
    size_t total = 0;

    for (size_t i = 0; i < sw_json_len(data); i++) {
        const struct sw_json_member *m = sw_json_member_at(data, i);
        struct sw_fpath at = sw_fpath_key(&up, m->key);
        struct sw_slice v = sw_json_str(m->value);
        struct sw_name_msgs msgs = sw_name_config_key(m->key);

        /* "." and ".." have the right letters: only their own text is given. */
        sw_name_report(e, &at, m->key, msgs);
        total += v.n;
    }
    return total;
}

static size_t base64_bytes(const struct sw_json *data)
{
    size_t total = 0;

    for (size_t i = 0; i < sw_json_len(data); i++) {
        struct sw_slice v = sw_json_str(sw_json_member_at(data, i)->value);

        total += v.n / 4 * 3;
        for (size_t k = v.n; k > 0 && v.p[k - 1] == '='; k--)
            total--;
    }
    return total;
}

static void check_frozen(const struct sw_json *obj, const struct sw_json *old,
                         const char *const *fields, struct sw_field_errs *e)
{
    static const char text[] = "field is immutable when `immutable` is set";
    struct sw_fpath at = sw_fpath_str(NULL, "immutable");

    if (!old || !sw_json_true(sw_json_find(old, "immutable")))
        return;
    if (!sw_json_true(sw_json_find(obj, "immutable")))
        sw_ferr_forbidden(e, &at, text);
    for (; *fields; fields++) {
        at = sw_fpath_str(NULL, *fields);
        if (!sw_json_equal(sw_json_find(obj, *fields), sw_json_find(old, *fields),
                           SW_JSON_EQ_VALUE))
            sw_ferr_forbidden(e, &at, text);
    }
}

static void check_config_map(const struct sw_json *obj, const struct sw_json *old,
                             struct sw_field_errs *e)
{
    static const char *const fields[] = {"data", "binaryData", NULL};
    const struct sw_json *data = sw_json_find(obj, "data");
    const struct sw_json *bin = sw_json_find(obj, "binaryData");
    struct sw_fpath whole = sw_fpath_str(NULL, "[]");
    struct sw_fpath up = sw_fpath_str(NULL, "data");
    size_t total = check_keys(data, "data", e) + base64_bytes(bin);

    (void)check_keys(bin, "binaryData", e);
    for (size_t i = 0; i < sw_json_len(data); i++) {
        const struct sw_json_member *m = sw_json_member_at(data, i);
        struct sw_fpath at = sw_fpath_key(&up, m->key);

        if (sw_json_get(bin, m->key))
            sw_ferr_invalid_str(e, &at, m->key, "duplicate of key present in binaryData");
    }
    if (total > DATA_MAX)
        sw_ferr_too_long(e, &whole, DATA_MAX);
    check_frozen(obj, old, fields, e);
}

static void need_key(const struct sw_json *data, const char *key, struct sw_field_errs *e)
{
    struct sw_fpath up = sw_fpath_str(NULL, "data");
    struct sw_fpath at = sw_fpath_key(&up, sw_slice_str(key));

    if (!sw_json_find(data, key))
        sw_ferr_required(e, &at, NULL);
}

static void check_secret(const struct sw_json *obj, const struct sw_json *old,
                         struct sw_field_errs *e)
{
    static const char *const fields[] = {"data", NULL};
    static const struct {
        const char *type;
        const char *keys[2];
    } needs[] = {
        {"kubernetes.io/tls", {"tls.crt", "tls.key"}},
        {"kubernetes.io/dockercfg", {".dockercfg", NULL}},
        {"kubernetes.io/dockerconfigjson", {".dockerconfigjson", NULL}},
        {"kubernetes.io/ssh-auth", {"ssh-privatekey", NULL}},
    };
    const struct sw_json *data = sw_json_find(obj, "data");
    struct sw_fpath at = sw_fpath_str(NULL, "data");

    (void)check_keys(data, "data", e);
    if (base64_bytes(data) > DATA_MAX)
        sw_ferr_too_long(e, &at, DATA_MAX);
    for (size_t i = 0; i < SW_ARRAY_LEN(needs); i++) {
        if (!sw_json_str_eq(sw_json_find(obj, "type"), needs[i].type))
            continue;
        for (size_t k = 0; k < 2 && needs[i].keys[k]; k++)
            need_key(data, needs[i].keys[k], e);
    }
    if (old)
        immutable(obj, old, "type", e);
    check_frozen(obj, old, fields, e);
}

/* ---- Service ---- */

static void check_port_number(const struct sw_json *v, const struct sw_fpath *at,
                              struct sw_field_errs *e)
{
    int64_t n = 0;

    if (!v || !sw_json_exact_i64(v, &n) || n < 1 || n > 65535)
        sw_ferr_invalid(e, at, v ? v : sw_json_new_i64(e->arena, 0),
                        "must be between 1 and 65535, inclusive");
}

/* Names and port/protocol pairs that came before. */
struct seen_ports {
    struct sw_map names;
    struct sw_map ports;
};

static void check_service_port(const struct sw_json *ports, size_t i, const struct sw_fpath *path,
                               struct seen_ports *seen, struct sw_field_errs *e)
{
    static const char *const protocols[] = {"SCTP", "TCP", "UDP", NULL};
    const struct sw_json *p = sw_json_at(ports, i);
    const struct sw_json *target = sw_json_find(p, "targetPort");
    struct sw_fpath at_name = sw_fpath_str(path, "name");
    struct sw_fpath at_port = sw_fpath_str(path, "port");
    struct sw_fpath at_proto = sw_fpath_str(path, "protocol");
    struct sw_fpath at_target = sw_fpath_str(path, "targetPort");
    struct sw_slice name = text_of(p, "name");

    if (!name.n && sw_json_len(ports) > 1)
        sw_ferr_required(e, &at_name, NULL);
    if (name.n)
        sw_name_report(e, &at_name, name, sw_name_dns1123_label(name));
    if (name.n && sw_map_put(&seen->names, name, seen))
        sw_ferr_duplicate(e, &at_name, sw_json_find(p, "name"));
    check_port_number(sw_json_find(p, "port"), &at_port, e);
    one_of(sw_json_find(p, "protocol"), protocols, &at_proto, e);
    if (sw_json_is(target, SW_JSON_STRING))
        sw_name_report(e, &at_target, target->text, sw_name_port(target->text));
    else
        check_port_number(target, &at_target, e);
    if (sw_map_put(&seen->ports,
                   sw_slice_str(sw_arena_printf(e->arena, "%s/%.*s",
                                                sw_go_value(e->arena, sw_json_find(p, "port")),
                                                SW_SLICE_ARG(text_of(p, "protocol")))),
                   seen))
        sw_ferr_duplicate(e, path, p);
}

static void check_cluster_ips(const struct sw_json *spec, const struct sw_json *was,
                              const struct sw_fpath *path, struct sw_field_errs *e)
{
    const struct sw_json *ips = sw_json_find(spec, "clusterIPs");
    const struct sw_json *old = sw_json_find(was, "clusterIPs");
    struct sw_fpath up = sw_fpath_str(path, "clusterIPs");
    struct sw_fpath at = sw_fpath_index(&up, 0);
    struct sw_slice ip = text_of(spec, "clusterIP");

    if (sw_json_len(ips))
        ip = sw_json_str(sw_json_at(ips, 0));
    if (ip.n && !sw_slice_eq_str(ip, "None") && !sw_is_ipv4(ip) && !sw_is_ipv6(ip))
        sw_ferr_invalid_str(e, &at, ip,
                            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    if (sw_json_len(old) && sw_json_str(sw_json_at(old, 0)).n &&
        !sw_slice_eq(sw_json_str(sw_json_at(old, 0)), text_of(spec, "clusterIP")) &&
        !sw_json_str_eq(sw_json_find(spec, "type"), "ExternalName"))
        sw_ferr_invalid(e, &at, old, "may not change once set");
}

static void check_external_name(const struct sw_json *spec, const struct sw_fpath *path,
                                struct sw_field_errs *e)
{
    struct sw_fpath at = sw_fpath_str(path, "externalName");
    struct sw_slice name = text_of(spec, "externalName");

    if (!sw_json_str_eq(sw_json_find(spec, "type"), "ExternalName"))
        return;
    if (!name.n)
        sw_ferr_required(e, &at, NULL);
    else
        sw_name_report(e, &at, name, sw_name_dns1123_subdomain(name));
}

static void check_service(const struct sw_json *obj, const struct sw_json *old,
                          struct sw_field_errs *e)
{
    static const char *const types[] = {"ClusterIP", "ExternalName", "LoadBalancer", "NodePort",
                                        NULL};
    static const char *const affinities[] = {"ClientIP", "None", NULL};
    const struct sw_json *spec = sw_json_find(obj, "spec");
    const struct sw_json *ports = sw_json_find(spec, "ports");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at_ports = sw_fpath_str(&path, "ports");
    struct sw_fpath at_type = sw_fpath_str(&path, "type");
    struct sw_fpath at_aff = sw_fpath_str(&path, "sessionAffinity");
    struct sw_fpath at_sel = sw_fpath_str(&path, "selector");
    bool headless = sw_json_str_eq(sw_json_find(spec, "clusterIP"), "None");
    bool external = sw_json_str_eq(sw_json_find(spec, "type"), "ExternalName");
    struct seen_ports seen = {0};

    if (!sw_json_len(ports) && !headless && !external)
        sw_ferr_required(e, &at_ports, NULL);
    for (size_t i = 0; i < sw_json_len(ports); i++) {
        struct sw_fpath at = sw_fpath_index(&at_ports, i);

        check_service_port(ports, i, &at, &seen, e);
    }
    sw_map_done(&seen.names);
    sw_map_done(&seen.ports);
    sw_labels_validate(sw_json_find(spec, "selector"), &at_sel, e);
    one_of(sw_json_find(spec, "type"), types, &at_type, e);
    one_of(sw_json_find(spec, "sessionAffinity"), affinities, &at_aff, e);
    check_external_name(spec, &path, e);
    check_cluster_ips(spec, sw_json_find(old, "spec"), &path, e);
}

/* ---- Lease, EndpointSlice ---- */

static void check_lease(const struct sw_json *obj, const struct sw_json *old,
                        struct sw_field_errs *e)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    const struct sw_json *d = sw_json_find(spec, "leaseDurationSeconds");
    const struct sw_json *t = sw_json_find(spec, "leaseTransitions");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at_d = sw_fpath_str(&path, "leaseDurationSeconds");
    struct sw_fpath at_t = sw_fpath_str(&path, "leaseTransitions");
    int64_t n;

    if (d && sw_json_exact_i64(d, &n) && n <= 0)
        sw_ferr_invalid(e, &at_d, d, "must be greater than 0");
    if (t && sw_json_exact_i64(t, &n) && n < 0)
        sw_ferr_invalid(e, &at_t, t, "must be greater than or equal to 0");
}

static void check_address(struct sw_slice addr, const struct sw_json *type,
                          const struct sw_fpath *at, struct sw_field_errs *e)
{
    if (sw_json_str_eq(type, "IPv4") && !sw_is_ipv4(addr))
        sw_ferr_invalid_str(e, at, addr, "must be an IPv4 address");
    else if (sw_json_str_eq(type, "IPv6") && !sw_is_ipv6(addr))
        sw_ferr_invalid_str(e, at, addr, "must be an IPv6 address");
    else if (sw_json_str_eq(type, "FQDN"))
        sw_name_report(e, at, addr, sw_name_dns1123_subdomain(addr));
}

static void check_endpoints(const struct sw_json *obj, struct sw_field_errs *e)
{
    const struct sw_json *list = sw_json_find(obj, "endpoints");
    struct sw_fpath up = sw_fpath_str(NULL, "endpoints");

    if (sw_json_len(list) > 1000)
        sw_ferr_too_many(e, &up, sw_json_len(list), 1000);
    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *addrs = sw_json_find(sw_json_at(list, i), "addresses");
        struct sw_fpath at = sw_fpath_index(&up, i);
        struct sw_fpath at_addr = sw_fpath_str(&at, "addresses");

        if (!sw_json_len(addrs))
            sw_ferr_required(e, &at_addr, "must contain at least 1 address");
        else if (sw_json_len(addrs) > 100)
            sw_ferr_too_many(e, &at_addr, sw_json_len(addrs), 100);
        for (size_t k = 0; k < sw_json_len(addrs); k++)
            check_address(sw_json_str(sw_json_at(addrs, k)), sw_json_find(obj, "addressType"),
                          &at_addr, e);
    }
}

static void check_endpoint_slice(const struct sw_json *obj, const struct sw_json *old,
                                 struct sw_field_errs *e)
{
    static const char *const types[] = {"FQDN", "IPv4", "IPv6", NULL};
    static const char *const protocols[] = {"SCTP", "TCP", "UDP", NULL};
    const struct sw_json *ports = sw_json_find(obj, "ports");
    struct sw_fpath at_type = sw_fpath_str(NULL, "addressType");
    struct sw_fpath up = sw_fpath_str(NULL, "ports");
    struct sw_map seen = {0};

    if (!text_of(obj, "addressType").n)
        sw_ferr_required(e, &at_type, NULL);
    else
        one_of(sw_json_find(obj, "addressType"), types, &at_type, e);
    /* What did not change was judged under the address type it was written for. */
    if (!old || !sw_json_equal(sw_json_find(obj, "endpoints"), sw_json_find(old, "endpoints"),
                               SW_JSON_EQ_VALUE))
        check_endpoints(obj, e);
    for (size_t i = 0; i < sw_json_len(ports); i++) {
        const struct sw_json *p = sw_json_at(ports, i);
        struct sw_fpath at = sw_fpath_index(&up, i);
        struct sw_fpath at_name = sw_fpath_str(&at, "name");
        struct sw_fpath at_proto = sw_fpath_str(&at, "protocol");
        struct sw_slice name = text_of(p, "name");

        if (name.n)
            sw_name_report(e, &at_name, name, sw_name_dns1123_label(name));
        if (sw_map_put(&seen, name, &seen))
            sw_ferr_duplicate(e, &at_name, sw_json_find(p, "name"));
        one_of(sw_json_find(p, "protocol"), protocols, &at_proto, e);
    }
    sw_map_done(&seen);
    if (old)
        immutable(obj, old, "addressType", e);
}

/* ---- RBAC ---- */

static void check_rule(const struct sw_json *r, bool namespaced, const struct sw_fpath *path,
                       struct sw_field_errs *e)
{
    struct sw_fpath at_verbs = sw_fpath_str(path, "verbs");
    struct sw_fpath at_groups = sw_fpath_str(path, "apiGroups");
    struct sw_fpath at_res = sw_fpath_str(path, "resources");
    struct sw_fpath at_urls = sw_fpath_str(path, "nonResourceURLs");
    const struct sw_json *urls = sw_json_find(r, "nonResourceURLs");

    if (!sw_json_len(sw_json_find(r, "verbs")))
        sw_ferr_required(e, &at_verbs, "verbs must contain at least one value");
    if (sw_json_len(urls)) {
        if (namespaced)
            sw_ferr_invalid(e, &at_urls, urls,
                            "namespaced rules cannot apply to non-resource URLs");
        if (sw_json_len(sw_json_find(r, "apiGroups")) ||
            sw_json_len(sw_json_find(r, "resources")) ||
            sw_json_len(sw_json_find(r, "resourceNames")))
            sw_ferr_invalid(e, &at_urls, urls,
                            "rules cannot apply to both regular resources and non-resource URLs");
        return;
    }
    if (!sw_json_len(sw_json_find(r, "apiGroups")))
        sw_ferr_required(e, &at_groups, "resource rules must supply at least one api group");
    if (!sw_json_len(sw_json_find(r, "resources")))
        sw_ferr_required(e, &at_res, "resource rules must supply at least one resource");
}

static void check_role(const struct sw_json *obj, const struct sw_json *old,
                       struct sw_field_errs *e)
{
    const struct sw_json *rules = sw_json_find(obj, "rules");
    struct sw_fpath up = sw_fpath_str(NULL, "rules");
    bool namespaced = text_of(sw_json_find(obj, "metadata"), "namespace").n;

    for (size_t i = 0; i < sw_json_len(rules); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        check_rule(sw_json_at(rules, i), namespaced, &at, e);
    }
}

static void check_subject(const struct sw_json *s, bool namespaced, const struct sw_fpath *path,
                          struct sw_field_errs *e)
{
    static const char *const known[] = {"ServiceAccount", "User", "Group", NULL};
    const struct sw_json *kind = sw_json_find(s, "kind");
    struct sw_fpath at_name = sw_fpath_str(path, "name");
    struct sw_fpath at_kind = sw_fpath_str(path, "kind");
    struct sw_fpath at_ns = sw_fpath_str(path, "namespace");
    struct sw_slice name = text_of(s, "name");

    if (!name.n)
        sw_ferr_required(e, &at_name, NULL);
    one_of(kind, known, &at_kind, e);
    if (!sw_json_str_eq(kind, "ServiceAccount"))
        return;
    if (name.n)
        sw_name_report(e, &at_name, name, sw_name_dns1123_subdomain(name));
    if (!namespaced && !text_of(s, "namespace").n)
        sw_ferr_required(e, &at_ns, NULL);
}

static void check_binding(const struct sw_json *obj, const struct sw_json *old,
                          struct sw_field_errs *e)
{
    static const char *const role_kinds[] = {"Role", "ClusterRole", NULL};
    const struct sw_json *ref = sw_json_find(obj, "roleRef");
    const struct sw_json *subjects = sw_json_find(obj, "subjects");
    bool namespaced = text_of(sw_json_find(obj, "metadata"), "namespace").n;
    struct sw_fpath at_ref = sw_fpath_str(NULL, "roleRef");
    struct sw_fpath at_name = sw_fpath_str(&at_ref, "name");
    struct sw_fpath at_kind = sw_fpath_str(&at_ref, "kind");
    struct sw_fpath up = sw_fpath_str(NULL, "subjects");

    one_of(sw_json_find(ref, "kind"), namespaced ? role_kinds : role_kinds + 1, &at_kind, e);
    if (!text_of(ref, "name").n)
        sw_ferr_required(e, &at_name, NULL);
    else
        sw_name_report(e, &at_name, text_of(ref, "name"),
                       sw_name_path_segment(text_of(ref, "name")));
    for (size_t i = 0; i < sw_json_len(subjects); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        check_subject(sw_json_at(subjects, i), namespaced, &at, e);
    }
    if (old && !sw_json_equal(ref, sw_json_find(old, "roleRef"), SW_JSON_EQ_VALUE))
        sw_ferr_invalid(e, &at_ref, ref, "cannot change roleRef");
}

/* ---- all ---- */

static void check_kube_finalizers(const struct sw_json *obj, struct sw_field_errs *e)
{
    static const char *const standard[] = {"kubernetes", "orphan", "foregroundDeletion"};
    const struct sw_json *list = sw_json_walk(obj, "metadata", "finalizers", NULL);
    struct sw_fpath up = sw_fpath_str(NULL, "metadata.finalizers");

    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_slice f = sw_json_str(sw_json_at(list, i));
        struct sw_fpath at = sw_fpath_index(&up, i);
        bool known = !f.p || sw_slice_find(f, '/') >= 0;

        for (size_t k = 0; k < SW_ARRAY_LEN(standard); k++)
            known = known || sw_slice_eq_str(f, standard[k]);
        if (!known)
            sw_ferr_invalid_str(e, &at, f,
                                "name is neither a standard finalizer name nor is it fully "
                                "qualified");
    }
}

/* ---- events ---- */

static void event_text(const struct sw_json *obj, const char *key, const char *shown, size_t max,
                       struct sw_field_errs *e)
{
    struct sw_slice v = text_of(obj, key);
    struct sw_fpath at = sw_fpath_str(NULL, shown);

    if (!v.n)
        sw_ferr_required(e, &at, NULL);
    else if (v.n > max)
        sw_ferr_invalid_str(e, &at, sw_slice("", 0),
                            sw_arena_printf(e->arena, "can have at most %zu characters", max));
}

/* An event lives where its object does; one about the cluster lives in two known places. */
static void check_event_namespace(const struct sw_json *obj, const char *about,
                                  struct sw_field_errs *e)
{
    struct sw_slice ns = sw_json_str(sw_json_walk(obj, "metadata", "namespace", NULL));
    struct sw_slice other = sw_json_str(sw_json_walk(obj, about, "namespace", NULL));
    struct sw_fpath up = sw_fpath_str(NULL, "involvedObject");
    struct sw_fpath at = sw_fpath_str(&up, "namespace");
    bool ok = other.n ? sw_slice_eq(other, ns)
                      : sw_slice_eq_str(ns, "default") || sw_slice_eq_str(ns, "kube-system");

    if (!ok)
        sw_ferr_invalid_str(e, &at, other.p ? other : sw_slice("", 0),
                            "does not match event.namespace");
}

static void check_new_style(const struct sw_json *obj, const char *controller,
                            struct sw_field_errs *e)
{
    event_text(obj, controller, controller, 128, e);
    event_text(obj, "reportingInstance", "reportingInstance", 128, e);
    event_text(obj, "action", "action", 128, e);
    event_text(obj, "reason", "reason", 128, e);
}

static void check_event(const struct sw_json *obj, const struct sw_json *old,
                        struct sw_field_errs *e)
{
    if (old)
        return;
    check_event_namespace(obj, "involvedObject", e);
    if (text_of(obj, "eventTime").n)
        check_new_style(obj, "reportingComponent", e);
}

static void check_event_v1(const struct sw_json *obj, const struct sw_json *old,
                           struct sw_field_errs *e)
{
    struct sw_slice type = text_of(obj, "type");
    struct sw_fpath at = sw_fpath_str(NULL, "eventTime");

    if (old)
        return;
    check_event_namespace(obj, "regarding", e);
    if (!text_of(obj, "eventTime").n)
        sw_ferr_required(e, &at, NULL);
    else
        check_new_style(obj, "reportingController", e);
    at = sw_fpath_str(NULL, "type");
    if (!sw_slice_eq_str(type, "Normal") && !sw_slice_eq_str(type, "Warning"))
        sw_ferr_invalid_str(
            e, &at, sw_slice("", 0),
            sw_arena_printf(e->arena, "has invalid value: %.*s", SW_SLICE_ARG(type)));
}

void sw_builtin_validate(const struct sw_builtin *b, const struct sw_json *obj,
                         const struct sw_json *old, struct sw_field_errs *e)
{
    static const struct {
        const char *type;
        void (*check)(const struct sw_json *, const struct sw_json *, struct sw_field_errs *);
    } table[] = {
        {"ConfigMap", check_config_map},
        {"Secret", check_secret},
        {"Service", check_service},
        {"Lease", check_lease},
        {"EndpointSlice", check_endpoint_slice},
        {"Event", check_event},
        {"EventV1", check_event_v1},
        {"Role", check_role},
        {"ClusterRole", check_role},
        {"RoleBinding", check_binding},
        {"ClusterRoleBinding", check_binding},
    };

    sw_meta_validate(obj, b->namespaced, b->name_check, e);
    if (old)
        sw_meta_validate_update(obj, old, e);
    if (b->flags & SW_B_KUBE_FINALIZERS)
        check_kube_finalizers(obj, e);
    for (size_t i = 0; i < SW_ARRAY_LEN(table); i++) {
        if (strcmp(b->type, table[i].type) == 0)
            table[i].check(obj, old, e);
    }
}
