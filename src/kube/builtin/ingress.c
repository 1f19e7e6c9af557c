/* SPDX-License-Identifier: Apache-2.0 */
/* Defaults and validation of Ingresses and IngressClasses. */
#include <string.h>

#include "kube/builtin/builtin_int.h"
#include "kube/schema/schema.h"

enum { CONTROLLER_MAX = 250 };

static const char class_note[] = "kubernetes.io/ingress.class";

/* ---- references to any object ---- */

static void check_ref(const struct sw_at *ref)
{
    sw_at_set_name(SW_IN(ref, "apiGroup"), sw_name_dns1123_subdomain);
    sw_at_need_name(SW_IN(ref, "kind"), sw_name_path_segment);
    sw_at_need_name(SW_IN(ref, "name"), sw_name_path_segment);
}

/* ---- backends ---- */

/* With no value to show: the error is about several fields. */
static void invalid(const struct sw_at *at, const char *detail)
{
    sw_ferr_invalid_str(at->e, &at->path, sw_slice("", 0), detail);
}

static void check_service_port(const struct sw_at *port, const struct sw_at *backend)
{
    bool name = sw_at_text(SW_IN(port, "name")).n;
    bool number = sw_at_int(SW_IN(port, "number")) != 0;

    if (name && number)
        invalid(backend, "cannot set both port name & port number");
    else if (name)
        sw_at_name(SW_IN(port, "name"), sw_name_port);
    else if (number)
        sw_b_port_number(SW_IN(port, "number"));
    else
        sw_at_required(backend, "port name or number is required");
}

static void check_backend(const struct sw_at *b)
{
    const struct sw_at *service = SW_IN(b, "service");
    const struct sw_at *resource = SW_IN(b, "resource");

    if (resource->v && service->v) {
        invalid(b, "cannot set both resource and service backends");
    } else if (resource->v) {
        check_ref(resource);
    } else if (service->v) {
        sw_at_need_name(SW_IN(service, "name"), sw_name_dns1035_label);
        check_service_port(SW_IN(service, "port"), b);
    } else {
        invalid(b, "resource or service backend is required");
    }
}

/* ---- rules ---- */

/* What a proxy in front might read as another path. */
static void check_path_text(const struct sw_at *at)
{
    static const char *const inside[] = {"//", "/./", "/../", "%2f", "%2F"};
    static const char *const behind[] = {"/..", "/."};
    struct sw_slice path = sw_at_text(at);

    for (size_t i = 0; i < SW_ARRAY_LEN(inside); i++) {
        if (path.n && memmem(path.p, path.n, inside[i], strlen(inside[i])))
            sw_at_invalid_text(at,
                               sw_arena_printf(at->e->arena, "must not contain '%s'", inside[i]));
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(behind); i++) {
        if (sw_slice_has_suffix(path, sw_slice_str(behind[i])))
            sw_at_invalid_text(at,
                               sw_arena_printf(at->e->arena, "cannot end with '%s'", behind[i]));
    }
}

static void check_path(const struct sw_at *p)
{
    const struct sw_at *type = SW_IN(p, "pathType");
    const struct sw_at *path = SW_IN(p, "path");
    bool strict = sw_at_is(type, "Exact") || sw_at_is(type, "Prefix");

    if (!type->v) {
        sw_at_required(type, "pathType must be specified");
        return;
    }
    sw_at_one_of(type, "Exact ImplementationSpecific Prefix");
    if ((strict || (sw_at_text(path).n && sw_at_is(type, "ImplementationSpecific"))) &&
        !sw_slice_has_prefix(sw_at_text(path), SW_SLICE_LIT("/")))
        sw_at_invalid_text(path, "must be an absolute path");
    if (strict)
        check_path_text(path);
    check_backend(SW_IN(p, "backend"));
}

static void check_host(const struct sw_at *host)
{
    bool wild = sw_slice_find(sw_at_text(host), '*') >= 0;

    sw_at_set_name(host, wild ? sw_name_wildcard : sw_name_dns1123_subdomain);
}

static void check_rule(const struct sw_at *rule)
{
    const struct sw_at *paths = SW_IN(rule, "http.paths");
    const struct sw_at *host = SW_IN(rule, "host");

    if (sw_at_text(host).n) {
        sw_b_no_ip(host);
        check_host(host);
    }
    if (SW_IN(rule, "http")->v)
        (void)sw_at_need(paths, NULL);
    SW_AT_FOREACH (p, paths)
        check_path(&p);
}

static void check_spec(const struct sw_at *spec)
{
    const struct sw_at *fallback = SW_IN(spec, "defaultBackend");
    const struct sw_at *rules = SW_IN(spec, "rules");
    const struct sw_at *tls = SW_IN(spec, "tls");

    if (!fallback->v && !sw_at_len(rules))
        sw_b_invalid_go(spec, "[]networking.IngressRule(nil)",
                        "either `defaultBackend` or `rules` must be specified");
    if (fallback->v)
        check_backend(fallback);
    SW_AT_FOREACH (rule, rules)
        check_rule(&rule);
    SW_AT_FOREACH (t, tls) {
        const struct sw_at *hosts = SW_IN(&t, "hosts");

        SW_AT_FOREACH (host, hosts)
            check_host(&host);
        sw_at_name(SW_IN(&t, "secretName"), sw_name_dns1123_subdomain);
    }
    sw_at_set_name(SW_IN(spec, "ingressClassName"), sw_name_dns1123_subdomain);
}

/* ---- objects ---- */

/* The annotation is older than the field; a new object has one of them, or both the same. */
static void check_class_note(const struct sw_at *obj)
{
    const struct sw_json *note = sw_json_walk(obj->v, "metadata", "annotations", class_note, NULL);
    const struct sw_json *class = sw_json_walk(obj->v, "spec", "ingressClassName", NULL);
    struct sw_field_errs *e = obj->e;
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

void sw_b_check_ingress(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *balancers = SW_IN(obj, "status.loadBalancer.ingress");

    check_spec(SW_IN(obj, "spec"));
    if (!old) {
        check_class_note(obj);
        return;
    }
    SW_AT_FOREACH (in, balancers) {
        if (sw_at_text(SW_IN(&in, "ip")).n)
            (void)sw_b_ip(SW_IN(&in, "ip"));
        sw_at_name(SW_IN(&in, "hostname"), sw_name_dns1123_subdomain);
        sw_b_no_ip(SW_IN(&in, "hostname"));
    }
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
static void check_controller(const struct sw_at *at)
{
    struct sw_slice name = sw_at_text(at);
    struct sw_slice path = name;
    struct sw_slice host = sw_slice_cut(&path, '/');

    if (!sw_at_need(at, NULL))
        return;
    if (name.n > CONTROLLER_MAX)
        sw_ferr_too_long(at->e, &at->path, CONTROLLER_MAX);
    if (!host.n || !path.n) {
        sw_at_invalid(at, "must be a domain-prefixed path (such as \"acme.io/foo\")");
        return;
    }
    sw_name_report(at->e, &at->path, host, sw_name_dns1123_subdomain(host));
    if (!path_letters(path))
        sw_ferr_invalid_str(at->e, &at->path, path,
                            "Invalid path (regex used for validation is "
                            "'[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')");
}

static void check_parameters(const struct sw_at *ref)
{
    const struct sw_at *scope = SW_IN(ref, "scope");
    const struct sw_at *ns = SW_IN(ref, "namespace");

    check_ref(ref);
    if (!scope->v) {
        sw_at_required(scope, NULL);
        return;
    }
    sw_at_one_of(scope, "Cluster Namespace");
    if (sw_at_is(scope, "Namespace") && !ns->v)
        sw_at_required(ns, "`parameters.scope` is set to 'Namespace'");
    else if (sw_at_is(scope, "Namespace"))
        sw_at_set_name(ns, sw_name_namespace);
    else if (sw_at_is(scope, "Cluster") && ns->v)
        sw_at_forbidden(ns, "`parameters.scope` is set to 'Cluster'");
}

void sw_b_check_ingress_class(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *controller = SW_IN(obj, "spec.controller");
    const struct sw_at *ref = SW_IN(obj, "spec.parameters");

    if (old && !sw_slice_eq(sw_at_text(controller),
                            sw_field_text(sw_json_find(old, "spec"), "controller")))
        sw_at_invalid_text(controller, "field is immutable");
    check_controller(controller);
    if (ref->v)
        check_parameters(ref);
}
