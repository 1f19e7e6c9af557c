/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods: defaults and the rules that matter to those who keep pods without running them. Their spec
 * is free JSON here, so every step looks before it trusts a type.
 */
#include <string.h>

#include "base/map.h"
#include "kube/builtin/builtin_int.h"
#include "kube/schema/meta.h"

static const char *const container_lists[] = {"initContainers", "containers"};

static void def(struct sw_arena *a, struct sw_json *v, const char *key, const char *text)
{
    const struct sw_json *x = sw_json_find(v, key);

    if (sw_json_is(v, SW_JSON_OBJECT) &&
        (!x || x->type == SW_JSON_NULL || (x->type == SW_JSON_STRING && !x->text.n)))
        sw_json_put(a, v, key, sw_json_new_str(a, text));
}

static void def_int(struct sw_arena *a, struct sw_json *v, const char *key, int64_t n)
{
    if (sw_json_is(v, SW_JSON_OBJECT) && !sw_field_int(v, key))
        sw_json_put(a, v, key, sw_json_new_i64(a, n));
}

static struct sw_json *def_object(struct sw_arena *a, struct sw_json *v, const char *key)
{
    struct sw_json *x = sw_json_find(v, key);

    if (!x || x->type == SW_JSON_NULL) {
        x = sw_json_new_object(a);
        sw_json_put(a, v, key, x);
    }
    return x;
}

/* ---- defaults ---- */

/* A tag behind the last slash other than "latest", or a digest, needs no second look. */
static bool pinned(struct sw_slice image)
{
    struct sw_slice last = image;
    struct sw_slice tag;

    if (sw_slice_find(image, '@') >= 0)
        return true;
    while (sw_slice_find(last, '/') >= 0)
        last = sw_slice_from(last, (size_t)sw_slice_find(last, '/') + 1);
    tag = last;
    (void)sw_slice_cut(&tag, ':');
    return tag.p && !sw_slice_eq_str(tag, "latest");
}

static void default_probe(struct sw_arena *a, struct sw_json *probe)
{
    struct sw_json *http = sw_json_find(probe, "httpGet");

    if (!sw_json_is(probe, SW_JSON_OBJECT))
        return;
    def_int(a, probe, "timeoutSeconds", 1);
    def_int(a, probe, "periodSeconds", 10);
    def_int(a, probe, "successThreshold", 1);
    def_int(a, probe, "failureThreshold", 3);
    def(a, http, "path", "/");
    def(a, http, "scheme", "HTTP");
}

/* What is limited and not requested is requested up to its limit. */
static void default_resources(struct sw_arena *a, struct sw_json *c)
{
    struct sw_json *res = def_object(a, c, "resources");
    const struct sw_json *limits = sw_json_find(res, "limits");

    for (size_t i = 0; sw_json_is(limits, SW_JSON_OBJECT) && i < sw_json_len(limits); i++) {
        const struct sw_json_member *m = sw_json_member_at(limits, i);
        struct sw_json *requests = def_object(a, res, "requests");

        if (sw_json_is(requests, SW_JSON_OBJECT) && !sw_json_get(requests, m->key))
            sw_json_set(a, requests, m->key, sw_json_copy(a, m->value));
    }
}

static void default_container(struct sw_arena *a, struct sw_json *c, bool host_network)
{
    static const char *const probes[] = {"livenessProbe", "readinessProbe", "startupProbe"};
    const struct sw_json *ports = sw_json_find(c, "ports");
    const struct sw_json *env = sw_json_find(c, "env");

    if (!sw_json_is(c, SW_JSON_OBJECT))
        return;
    def(a, c, "imagePullPolicy", pinned(sw_field_text(c, "image")) ? "IfNotPresent" : "Always");
    def(a, c, "terminationMessagePath", "/dev/termination-log");
    def(a, c, "terminationMessagePolicy", "File");
    default_resources(a, c);
    for (size_t i = 0; i < SW_ARRAY_LEN(probes); i++)
        default_probe(a, sw_json_find(c, probes[i]));
    for (size_t i = 0; i < sw_json_len(ports); i++) {
        struct sw_json *p = sw_json_at(ports, i);

        def(a, p, "protocol", "TCP");
        if (host_network)
            def_int(a, p, "hostPort", sw_field_int(p, "containerPort"));
    }
    for (size_t i = 0; i < sw_json_len(env); i++)
        def(a, sw_json_walk(sw_json_at(env, i), "valueFrom", "fieldRef", NULL), "apiVersion", "v1");
}

static void default_volume(struct sw_arena *a, struct sw_json *v)
{
    static const char *const moded[] = {"secret", "configMap", "projected", "downwardAPI"};
    const struct sw_json *sources = sw_json_walk(v, "projected", "sources", NULL);

    if (sw_json_is(v, SW_JSON_OBJECT) && sw_json_len(v) == 1 && sw_json_find(v, "name"))
        sw_json_put(a, v, "emptyDir", sw_json_new_object(a));
    for (size_t i = 0; i < SW_ARRAY_LEN(moded); i++)
        def_int(a, sw_json_find(v, moded[i]), "defaultMode", 0644);
    if (sw_json_find(v, "hostPath") && !sw_json_walk(v, "hostPath", "type", NULL))
        def(a, sw_json_find(v, "hostPath"), "type", "");
    for (size_t i = 0; i < sw_json_len(sources); i++)
        def_int(a, sw_json_find(sw_json_at(sources, i), "serviceAccountToken"), "expirationSeconds",
                3600);
}

void sw_b_default_pod_spec(struct sw_arena *a, struct sw_json *spec)
{
    const struct sw_json *volumes = sw_json_find(spec, "volumes");
    bool host = sw_json_true(sw_json_find(spec, "hostNetwork"));

    if (!sw_json_is(spec, SW_JSON_OBJECT))
        return;
    def(a, spec, "restartPolicy", "Always");
    def(a, spec, "dnsPolicy", "ClusterFirst");
    def(a, spec, "schedulerName", "default-scheduler");
    if (!sw_json_find(spec, "terminationGracePeriodSeconds"))
        def_int(a, spec, "terminationGracePeriodSeconds", 30);
    (void)def_object(a, spec, "securityContext");
    /* The older name follows the newer one. */
    if (sw_field_text(spec, "serviceAccountName").n)
        sw_json_put_str(a, spec, "serviceAccount", sw_field_text(spec, "serviceAccountName"));
    else if (sw_field_text(spec, "serviceAccount").n)
        sw_json_put_str(a, spec, "serviceAccountName", sw_field_text(spec, "serviceAccount"));
    for (size_t l = 0; l < SW_ARRAY_LEN(container_lists); l++) {
        const struct sw_json *list = sw_json_find(spec, container_lists[l]);

        for (size_t i = 0; i < sw_json_len(list); i++)
            default_container(a, sw_json_at(list, i), host);
    }
    for (size_t i = 0; i < sw_json_len(volumes); i++)
        default_volume(a, sw_json_at(volumes, i));
}

void sw_b_default_pod(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = def_object(a, obj, "spec");

    if (!sw_json_is(spec, SW_JSON_OBJECT))
        return;
    sw_b_default_pod_spec(a, spec);
    if (!sw_json_find(spec, "enableServiceLinks"))
        sw_json_put(a, spec, "enableServiceLinks", sw_json_new_bool(a, true));
    def(a, def_object(a, obj, "status"), "phase", "Pending");
}

/* ---- new pods ---- */

static void tolerate(struct sw_arena *a, struct sw_json *list, const char *key)
{
    struct sw_json *t;

    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *x = sw_json_at(list, i);

        if ((sw_field_is(x, "key", key) || !sw_field_text(x, "key").n) &&
            (sw_field_is(x, "effect", "NoExecute") || !sw_field_text(x, "effect").n))
            return;
    }
    t = sw_json_new_object(a);
    sw_json_put_str(a, t, "effect", SW_SLICE_LIT("NoExecute"));
    sw_json_put_str(a, t, "key", sw_slice_str(key));
    sw_json_put_str(a, t, "operator", SW_SLICE_LIT("Exists"));
    sw_json_put(a, t, "tolerationSeconds", sw_json_new_i64(a, 300));
    sw_json_push(a, list, t);
}

/* How much the containers were promised. */
static const char *qos_class(const struct sw_json *spec)
{
    static const char *const counted[] = {"cpu", "memory"};
    bool any = false;
    bool all = true;

    for (size_t l = 0; l < SW_ARRAY_LEN(container_lists); l++) {
        const struct sw_json *list = sw_json_find(spec, container_lists[l]);

        for (size_t i = 0; i < sw_json_len(list); i++) {
            const struct sw_json *res = sw_json_find(sw_json_at(list, i), "resources");

            for (size_t k = 0; k < SW_ARRAY_LEN(counted); k++) {
                const struct sw_json *limit = sw_json_walk(res, "limits", counted[k], NULL);
                const struct sw_json *request = sw_json_walk(res, "requests", counted[k], NULL);

                any = any || limit || request;
                all = all && limit && request && sw_json_equal(limit, request, SW_JSON_EQ_VALUE);
            }
        }
    }
    return !any ? "BestEffort" : all ? "Guaranteed" : "Burstable";
}

void sw_b_admit_pod(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_json_find(obj, "spec");
    struct sw_json *status;
    struct sw_json *list;

    if (!sw_json_is(spec, SW_JSON_OBJECT))
        return;
    def(a, spec, "serviceAccountName", "default");
    def(a, spec, "serviceAccount", "default");
    def(a, spec, "preemptionPolicy", "PreemptLowerPriority");
    if (!sw_json_find(spec, "priority"))
        sw_json_put(a, spec, "priority", sw_json_new_i64(a, 0));
    list = sw_json_find(spec, "tolerations");
    if (!sw_json_is(list, SW_JSON_ARRAY)) {
        list = sw_json_new_array(a);
        sw_json_put(a, spec, "tolerations", list);
    }
    tolerate(a, list, "node.kubernetes.io/not-ready");
    tolerate(a, list, "node.kubernetes.io/unreachable");
    status = sw_json_new_object(a);
    sw_json_put_str(a, status, "phase", SW_SLICE_LIT("Pending"));
    sw_json_put_str(a, status, "qosClass", sw_slice_str(qos_class(spec)));
    sw_json_put(a, obj, "status", status);
}

/* ---- validation ---- */

static void check_container_port(const struct sw_json *p, const struct sw_fpath *at,
                                 struct sw_map *names, struct sw_field_errs *e)
{
    static const char *const protocols[] = {"SCTP", "TCP", "UDP", NULL};
    struct sw_slice name = sw_field_text(p, "name");
    struct sw_fpath at_name = sw_fpath_str(at, "name");
    struct sw_fpath at_port = sw_fpath_str(at, "containerPort");
    struct sw_fpath at_host = sw_fpath_str(at, "hostPort");
    struct sw_fpath at_proto = sw_fpath_str(at, "protocol");

    if (name.n && sw_name_port(name).n)
        sw_name_report(e, &at_name, name, sw_name_port(name));
    else if (name.n && sw_map_put(names, name, names))
        sw_ferr_duplicate(e, &at_name, sw_json_find(p, "name"));
    if (!sw_field_int(p, "containerPort"))
        sw_ferr_required(e, &at_port, NULL);
    else
        sw_b_port_number(sw_json_find(p, "containerPort"), &at_port, e);
    if (sw_field_int(p, "hostPort"))
        sw_b_port_number(sw_json_find(p, "hostPort"), &at_host, e);
    sw_field_one_of(sw_json_find(p, "protocol"), protocols, &at_proto, e);
}

static void check_container(const struct sw_json *c, const struct sw_fpath *at,
                            struct sw_map *names, struct sw_field_errs *e)
{
    static const char *const pulls[] = {"Always", "IfNotPresent", "Never", NULL};
    struct sw_slice name = sw_field_text(c, "name");
    struct sw_slice image = sw_field_text(c, "image");
    const struct sw_json *ports = sw_json_find(c, "ports");
    struct sw_fpath at_name = sw_fpath_str(at, "name");
    struct sw_fpath at_image = sw_fpath_str(at, "image");
    struct sw_fpath at_pull = sw_fpath_str(at, "imagePullPolicy");
    struct sw_fpath at_ports = sw_fpath_str(at, "ports");
    struct sw_map port_names = {0};

    if (!name.n)
        sw_ferr_required(e, &at_name, NULL);
    else
        sw_name_report(e, &at_name, name, sw_name_dns1123_label(name));
    if (name.n && sw_map_put(names, name, names))
        sw_ferr_duplicate(e, &at_name, sw_json_find(c, "name"));
    if (!image.n)
        sw_ferr_required(e, &at_image, NULL);
    else if (sw_slice_trim(image).n != image.n)
        sw_ferr_invalid_str(e, &at_image, image, "must not have leading or trailing whitespace");
    for (size_t i = 0; i < sw_json_len(ports); i++) {
        struct sw_fpath item = sw_fpath_index(&at_ports, i);

        check_container_port(sw_json_at(ports, i), &item, &port_names, e);
    }
    sw_map_done(&port_names);
    sw_field_one_of(sw_json_find(c, "imagePullPolicy"), pulls, &at_pull, e);
}

static void check_containers(const struct sw_json *spec, const struct sw_fpath *path,
                             struct sw_field_errs *e)
{
    struct sw_map names = {0};

    for (size_t l = SW_ARRAY_LEN(container_lists); l > 0; l--) {
        const struct sw_json *list = sw_json_find(spec, container_lists[l - 1]);
        struct sw_fpath up = sw_fpath_str(path, container_lists[l - 1]);

        if (l == 2 && !sw_json_len(list))
            sw_ferr_required(e, &up, NULL);
        for (size_t i = 0; i < sw_json_len(list); i++) {
            struct sw_fpath at = sw_fpath_index(&up, i);

            check_container(sw_json_at(list, i), &at, &names, e);
        }
    }
    sw_map_done(&names);
}

static void check_volumes(const struct sw_json *spec, const struct sw_fpath *path,
                          struct sw_field_errs *e)
{
    const struct sw_json *list = sw_json_find(spec, "volumes");
    struct sw_fpath up = sw_fpath_str(path, "volumes");
    struct sw_map names = {0};

    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_slice name = sw_field_text(sw_json_at(list, i), "name");
        struct sw_fpath item = sw_fpath_index(&up, i);
        struct sw_fpath at = sw_fpath_str(&item, "name");

        if (!name.n)
            sw_ferr_required(e, &at, NULL);
        else
            sw_name_report(e, &at, name, sw_name_dns1123_label(name));
        if (name.n && sw_map_put(&names, name, &names))
            sw_ferr_duplicate(e, &at, sw_json_find(sw_json_at(list, i), "name"));
    }
    sw_map_done(&names);
}

/* The spec with what may change taken from the other one. */
static struct sw_json *frozen_part(struct sw_arena *a, const struct sw_json *spec)
{
    static const char *const free_fields[] = {"activeDeadlineSeconds", "tolerations",
                                              "terminationGracePeriodSeconds"};
    struct sw_json *v = sw_json_copy(a, spec);

    for (size_t i = 0; i < SW_ARRAY_LEN(free_fields); i++)
        (void)sw_json_remove(v, sw_slice_str(free_fields[i]));
    for (size_t l = 0; l < SW_ARRAY_LEN(container_lists); l++) {
        const struct sw_json *list = sw_json_find(v, container_lists[l]);

        for (size_t i = 0; i < sw_json_len(list); i++)
            (void)sw_json_remove(sw_json_at(list, i), SW_SLICE_LIT("image"));
    }
    return v;
}

static void check_pod_change(const struct sw_json *spec, const struct sw_json *was,
                             struct sw_field_errs *e)
{
    struct sw_fpath at = sw_fpath_str(NULL, "spec");

    if (was &&
        !sw_json_equal(frozen_part(e->arena, spec), frozen_part(e->arena, was), SW_JSON_EQ_VALUE))
        sw_ferr_forbidden(e, &at,
                          "pod updates may not change fields other than "
                          "`spec.containers[*].image`,`spec.initContainers[*].image`,"
                          "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
                          "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to "
                          "be set to 1 if it was previously negative)");
}

void sw_b_check_pod_spec(const struct sw_json *spec, const struct sw_fpath *path,
                         struct sw_field_errs *e)
{
    static const char *const restarts[] = {"Always", "OnFailure", "Never", NULL};
    static const char *const dns[] = {"ClusterFirstWithHostNet", "ClusterFirst", "Default", "None",
                                      NULL};
    struct sw_slice account = sw_field_text(spec, "serviceAccountName");
    struct sw_slice node = sw_field_text(spec, "nodeName");
    struct sw_fpath at_restart = sw_fpath_str(path, "restartPolicy");
    struct sw_fpath at_dns = sw_fpath_str(path, "dnsPolicy");
    struct sw_fpath at_account = sw_fpath_str(path, "serviceAccountName");
    struct sw_fpath at_node = sw_fpath_str(path, "nodeName");
    struct sw_fpath at_selector = sw_fpath_str(path, "nodeSelector");

    check_volumes(spec, path, e);
    check_containers(spec, path, e);
    sw_field_one_of(sw_json_find(spec, "restartPolicy"), restarts, &at_restart, e);
    sw_field_one_of(sw_json_find(spec, "dnsPolicy"), dns, &at_dns, e);
    sw_labels_validate(sw_json_find(spec, "nodeSelector"), &at_selector, e);
    if (account.n)
        sw_name_report(e, &at_account, account, sw_name_dns1123_subdomain(account));
    if (node.n)
        sw_name_report(e, &at_node, node, sw_name_dns1123_subdomain(node));
}

void sw_b_check_pod(const struct sw_json *obj, const struct sw_json *old, struct sw_field_errs *e)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");

    /* A stored spec that stays is not judged again. */
    if (old && sw_json_equal(spec, sw_json_find(old, "spec"), SW_JSON_EQ_VALUE))
        return;
    sw_b_check_pod_spec(spec, &path, e);
    check_pod_change(spec, sw_json_find(old, "spec"), e);
}
