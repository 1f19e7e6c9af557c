/* SPDX-License-Identifier: Apache-2.0 */
/* Defaults and validation of Ingresses and IngressClasses. */
#include <string.h>

#include "kube/builtin/builtin_int.h"
#include "kube/schema/schema.h"

enum { CONTROLLER_MAX = 250 };

static const char class_note[] = "kubernetes.io/ingress.class";

/* ---- references to any object ---- */

static void check_segment(const struct sw_json *ref, const char *key, const struct sw_fpath *path,
                          struct sw_field_errs *e)
{
    struct sw_fpath at = sw_fpath_str(path, key);
    struct sw_slice v = sw_field_text(ref, key);

    if (!v.n)
        sw_ferr_required(e, &at, NULL);
    else
        sw_name_report(e, &at, v, sw_name_path_segment(v));
}

static void check_ref(const struct sw_json *ref, const struct sw_fpath *path,
                      struct sw_field_errs *e)
{
    const struct sw_json *group = sw_json_find(ref, "apiGroup");
    struct sw_fpath at = sw_fpath_str(path, "apiGroup");

    if (group)
        sw_name_report(e, &at, sw_json_str(group), sw_name_dns1123_subdomain(sw_json_str(group)));
    check_segment(ref, "kind", path, e);
    check_segment(ref, "name", path, e);
}

/* ---- backends ---- */

static void check_service_port(const struct sw_json *port, const struct sw_fpath *backend,
                               const struct sw_fpath *service, struct sw_field_errs *e)
{
    struct sw_fpath up = sw_fpath_str(service, "port");
    struct sw_fpath at_name = sw_fpath_str(&up, "name");
    struct sw_fpath at_number = sw_fpath_str(&up, "number");
    struct sw_slice name = sw_field_text(port, "name");
    bool number = sw_field_int(port, "number") != 0;

    if (name.n && number)
        sw_ferr_invalid_str(e, backend, sw_slice("", 0), "cannot set both port name & port number");
    else if (name.n)
        sw_name_report(e, &at_name, name, sw_name_port(name));
    else if (number)
        sw_b_port_number(sw_json_find(port, "number"), &at_number, e);
    else
        sw_ferr_required(e, backend, "port name or number is required");
}

static void check_backend(const struct sw_json *b, const struct sw_fpath *path,
                          struct sw_field_errs *e)
{
    const struct sw_json *service = sw_json_find(b, "service");
    const struct sw_json *resource = sw_json_find(b, "resource");
    struct sw_fpath at_resource = sw_fpath_str(path, "resource");
    struct sw_fpath at_service = sw_fpath_str(path, "service");
    struct sw_fpath at_name = sw_fpath_str(&at_service, "name");
    struct sw_slice name = sw_field_text(service, "name");

    if (resource && service) {
        sw_ferr_invalid_str(e, path, sw_slice("", 0),
                            "cannot set both resource and service backends");
    } else if (resource) {
        check_ref(resource, &at_resource, e);
    } else if (service) {
        if (!name.n)
            sw_ferr_required(e, &at_name, NULL);
        else
            sw_name_report(e, &at_name, name, sw_name_dns1035_label(name));
        check_service_port(sw_json_find(service, "port"), path, &at_service, e);
    } else {
        sw_ferr_invalid_str(e, path, sw_slice("", 0), "resource or service backend is required");
    }
}

/* ---- rules ---- */

/* What a proxy in front might read as another path. */
static void check_path_text(struct sw_slice path, const struct sw_fpath *at,
                            struct sw_field_errs *e)
{
    static const char *const inside[] = {"//", "/./", "/../", "%2f", "%2F"};
    static const char *const behind[] = {"/..", "/."};

    for (size_t i = 0; i < SW_ARRAY_LEN(inside); i++) {
        if (path.n && memmem(path.p, path.n, inside[i], strlen(inside[i])))
            sw_ferr_invalid_str(e, at, path,
                                sw_arena_printf(e->arena, "must not contain '%s'", inside[i]));
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(behind); i++) {
        if (sw_slice_has_suffix(path, sw_slice_str(behind[i])))
            sw_ferr_invalid_str(e, at, path,
                                sw_arena_printf(e->arena, "cannot end with '%s'", behind[i]));
    }
}

static void check_path(const struct sw_json *p, const struct sw_fpath *path,
                       struct sw_field_errs *e)
{
    static const char *const types[] = {"Exact", "ImplementationSpecific", "Prefix", NULL};
    const struct sw_json *type = sw_json_find(p, "pathType");
    struct sw_fpath at_type = sw_fpath_str(path, "pathType");
    struct sw_fpath at_path = sw_fpath_str(path, "path");
    struct sw_fpath at_backend = sw_fpath_str(path, "backend");
    struct sw_slice text = sw_field_text(p, "path");
    bool strict = sw_json_str_eq(type, "Exact") || sw_json_str_eq(type, "Prefix");

    if (!type) {
        sw_ferr_required(e, &at_type, "pathType must be specified");
        return;
    }
    sw_field_one_of(type, types, &at_type, e);
    if ((strict || (text.n && sw_json_str_eq(type, "ImplementationSpecific"))) &&
        !sw_slice_has_prefix(text, SW_SLICE_LIT("/")))
        sw_ferr_invalid_str(e, &at_path, text, "must be an absolute path");
    if (strict)
        check_path_text(text, &at_path, e);
    check_backend(sw_json_find(p, "backend"), &at_backend, e);
}

static void check_host(struct sw_slice host, const struct sw_fpath *at, struct sw_field_errs *e)
{
    sw_name_report(e, at, host,
                   sw_slice_find(host, '*') >= 0 ? sw_name_wildcard(host)
                                                 : sw_name_dns1123_subdomain(host));
}

/* Names only: an address can be no host of its own. */
static void check_no_ip(struct sw_slice host, const struct sw_fpath *at, struct sw_field_errs *e)
{
    if (sw_is_ipv4(host) || sw_is_ipv6(host))
        sw_ferr_invalid_str(e, at, host, "must be a DNS name, not an IP address");
}

static void check_rule(const struct sw_json *rule, const struct sw_fpath *path,
                       struct sw_field_errs *e)
{
    const struct sw_json *http = sw_json_find(rule, "http");
    const struct sw_json *paths = sw_json_find(http, "paths");
    struct sw_slice host = sw_field_text(rule, "host");
    struct sw_fpath at_host = sw_fpath_str(path, "host");
    struct sw_fpath at_http = sw_fpath_str(path, "http");
    struct sw_fpath up = sw_fpath_str(&at_http, "paths");

    if (host.n) {
        check_no_ip(host, &at_host, e);
        check_host(host, &at_host, e);
    }
    if (http && !sw_json_len(paths))
        sw_ferr_required(e, &up, NULL);
    for (size_t i = 0; i < sw_json_len(paths); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        check_path(sw_json_at(paths, i), &at, e);
    }
}

static void check_tls(const struct sw_json *tls, const struct sw_fpath *path,
                      struct sw_field_errs *e)
{
    const struct sw_json *hosts = sw_json_find(tls, "hosts");
    struct sw_slice secret = sw_field_text(tls, "secretName");
    struct sw_fpath up = sw_fpath_str(path, "hosts");
    struct sw_fpath at_secret = sw_fpath_str(path, "secretName");

    for (size_t i = 0; i < sw_json_len(hosts); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        check_host(sw_json_str(sw_json_at(hosts, i)), &at, e);
    }
    if (secret.n)
        sw_name_report(e, &at_secret, secret, sw_name_dns1123_subdomain(secret));
}

static void check_each(const struct sw_json *spec, const char *key,
                       void (*check)(const struct sw_json *, const struct sw_fpath *,
                                     struct sw_field_errs *),
                       const struct sw_fpath *path, struct sw_field_errs *e)
{
    const struct sw_json *list = sw_json_find(spec, key);
    struct sw_fpath up = sw_fpath_str(path, key);

    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);

        check(sw_json_at(list, i), &at, e);
    }
}

static void check_spec(const struct sw_json *spec, struct sw_field_errs *e)
{
    const struct sw_json *fallback = sw_json_find(spec, "defaultBackend");
    const struct sw_json *class = sw_json_find(spec, "ingressClassName");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at_fallback = sw_fpath_str(&path, "defaultBackend");
    struct sw_fpath at_class = sw_fpath_str(&path, "ingressClassName");

    if (!fallback && !sw_json_len(sw_json_find(spec, "rules")))
        sw_b_invalid_go(e, &path, "[]networking.IngressRule(nil)",
                        "either `defaultBackend` or `rules` must be specified");
    if (fallback)
        check_backend(fallback, &at_fallback, e);
    check_each(spec, "rules", check_rule, &path, e);
    check_each(spec, "tls", check_tls, &path, e);
    if (class)
        sw_name_report(e, &at_class, sw_json_str(class),
                       sw_name_dns1123_subdomain(sw_json_str(class)));
}

/* ---- objects ---- */

/* The annotation is older than the field; a new object has one of them, or both the same. */
static void check_class_note(const struct sw_json *obj, struct sw_field_errs *e)
{
    const struct sw_json *note = sw_json_walk(obj, "metadata", "annotations", class_note, NULL);
    const struct sw_json *class = sw_json_walk(obj, "spec", "ingressClassName", NULL);
    struct sw_fpath up = sw_fpath_str(NULL, "annotations");
    struct sw_fpath at = sw_fpath_str(&up, class_note);

    if (!note)
        return;
    if (class && !sw_slice_eq(sw_json_str(note), sw_json_str(class)))
        sw_ferr_invalid(e, &at, note, "must match `ingressClassName` when both are specified");
    if (!class && e->warnings)
        sw_texts_add(e->warnings, sw_arena_printf(e->arena,
                                                  "annotation \"%s\" is deprecated, please use "
                                                  "'spec.ingressClassName' instead",
                                                  class_note));
}

static void check_balancer(const struct sw_json *obj, struct sw_field_errs *e)
{
    const struct sw_json *list = sw_json_walk(obj, "status", "loadBalancer", "ingress", NULL);
    struct sw_fpath up = sw_fpath_str(NULL, "status.loadBalancer.ingress");

    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_fpath item = sw_fpath_index(&up, i);
        struct sw_fpath at_ip = sw_fpath_str(&item, "ip");
        struct sw_fpath at_host = sw_fpath_str(&item, "hostname");
        struct sw_slice ip = sw_field_text(sw_json_at(list, i), "ip");
        struct sw_slice host = sw_field_text(sw_json_at(list, i), "hostname");

        if (ip.n)
            (void)sw_b_ip(ip, &at_ip, e);
        if (!host.n)
            continue;
        sw_name_report(e, &at_host, host, sw_name_dns1123_subdomain(host));
        check_no_ip(host, &at_host, e);
    }
}

void sw_b_check_ingress(const struct sw_json *obj, const struct sw_json *old,
                        struct sw_field_errs *e)
{
    check_spec(sw_json_find(obj, "spec"), e);
    if (old)
        check_balancer(obj, e);
    else
        check_class_note(obj, e);
}

/* A new one has no address, whatever it says. */
void sw_b_admit_ingress(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *status = sw_json_new_object(a);

    sw_json_put(a, status, "loadBalancer", sw_json_new_object(a));
    sw_json_put(a, obj, "status", status);
}

/* ---- IngressClass ---- */

void sw_b_default_ingress_class(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *ref = sw_json_walk(obj, "spec", "parameters", NULL);

    if (sw_json_is(ref, SW_JSON_OBJECT) && !sw_json_find(ref, "scope"))
        sw_json_put(a, ref, "scope", sw_json_new_str(a, "Cluster"));
}

static bool path_letters(struct sw_slice s)
{
    static const char others[] = "/-._~%!$&'()*+,;=:";

    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!alnum && !memchr(others, c, sizeof(others) - 1))
            return false;
    }
    return s.n > 0;
}

/* A domain, a slash, a path. */
static void check_controller(struct sw_slice name, const struct sw_fpath *at,
                             struct sw_field_errs *e)
{
    struct sw_slice path = name;
    struct sw_slice host = sw_slice_cut(&path, '/');

    if (!name.n) {
        sw_ferr_required(e, at, NULL);
        return;
    }
    if (name.n > CONTROLLER_MAX)
        sw_ferr_too_long(e, at, CONTROLLER_MAX);
    if (!host.n || !path.n) {
        sw_ferr_invalid_str(e, at, name,
                            "must be a domain-prefixed path (such as \"acme.io/foo\")");
        return;
    }
    sw_name_report(e, at, host, sw_name_dns1123_subdomain(host));
    if (!path_letters(path))
        sw_ferr_invalid_str(e, at, path,
                            "Invalid path (regex used for validation is "
                            "'[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')");
}

static void check_parameters(const struct sw_json *ref, const struct sw_fpath *path,
                             struct sw_field_errs *e)
{
    static const char *const scopes[] = {"Cluster", "Namespace", NULL};
    const struct sw_json *scope = sw_json_find(ref, "scope");
    const struct sw_json *ns = sw_json_find(ref, "namespace");
    struct sw_fpath at_scope = sw_fpath_str(path, "scope");
    struct sw_fpath at_ns = sw_fpath_str(path, "namespace");

    check_ref(ref, path, e);
    if (!scope) {
        sw_ferr_required(e, &at_scope, NULL);
        return;
    }
    sw_field_one_of(scope, scopes, &at_scope, e);
    if (sw_json_str_eq(scope, "Namespace") && !ns)
        sw_ferr_required(e, &at_ns, "`parameters.scope` is set to 'Namespace'");
    else if (sw_json_str_eq(scope, "Namespace"))
        sw_name_report(e, &at_ns, sw_json_str(ns), sw_name_namespace(sw_json_str(ns)));
    else if (sw_json_str_eq(scope, "Cluster") && ns)
        sw_ferr_forbidden(e, &at_ns, "`parameters.scope` is set to 'Cluster'");
}

void sw_b_check_ingress_class(const struct sw_json *obj, const struct sw_json *old,
                              struct sw_field_errs *e)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    const struct sw_json *ref = sw_json_find(spec, "parameters");
    struct sw_slice controller = sw_field_text(spec, "controller");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at = sw_fpath_str(&path, "controller");
    struct sw_fpath at_ref = sw_fpath_str(&path, "parameters");

    if (old && !sw_slice_eq(controller, sw_field_text(sw_json_find(old, "spec"), "controller")))
        sw_ferr_invalid_str(e, &at, controller, "field is immutable");
    check_controller(controller, &at, e);
    if (ref)
        check_parameters(ref, &at_ref, e);
}
