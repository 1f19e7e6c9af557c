/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods: defaults and the rules that matter to a server that stores pods without running them. Their
 * spec is free JSON here, so every step checks a type before it trusts it.
 */
#include <string.h>

#include "kube/builtin/builtin_int.h"
#include "kube/schema/meta.h"

static const char *const container_lists[] = {"initContainers", "containers"};

static void def_int(struct sw_arena *a, struct sw_json *v, const char *key, int64_t n)
{
    if (sw_json_is(v, SW_JSON_OBJECT) && !sw_field_int(v, key))
        sw_json_put(a, v, key, sw_json_new_i64(a, n));
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

/* What is limited and not requested is requested up to its limit. */
static void default_resources(struct sw_arena *a, struct sw_json *c)
{
    struct sw_json *res = sw_b_object_in(a, c, "resources");
    const struct sw_json *limits = sw_json_find(res, "limits");

    SW_JSON_MEMBERS (m, limits) {
        struct sw_json *requests = sw_b_object_in(a, res, "requests");

        if (sw_json_is(requests, SW_JSON_OBJECT) && !sw_json_get(requests, m->key))
            sw_json_set(a, requests, m->key, sw_json_copy(a, m->value));
    }
}

#define PROBE(name)                                                                                \
    name ".timeoutSeconds=1 " name ".periodSeconds=10 " name ".successThreshold=1 " name           \
         ".failureThreshold=3 " name ".httpGet.path=/ " name ".httpGet.scheme=HTTP "

static void default_container(struct sw_arena *a, struct sw_json *c, bool host_network)
{
    const struct sw_json *ports = sw_json_find(c, "ports");

    if (!sw_json_is(c, SW_JSON_OBJECT))
        return;
    sw_b_defaults(a, c,
                  pinned(sw_field_text(c, "image")) ? "imagePullPolicy=IfNotPresent"
                                                    : "imagePullPolicy=Always");
    sw_b_defaults(a, c,
                  "terminationMessagePath=/dev/termination-log terminationMessagePolicy=File");
    default_resources(a, c);
    sw_b_defaults(
        a, c,
        PROBE("livenessProbe") PROBE("readinessProbe")
            PROBE("startupProbe") "ports[].protocol=TCP env[].valueFrom.fieldRef.apiVersion=v1");
    SW_JSON_ITEMS (p, ports) {
        if (host_network)
            def_int(a, p, "hostPort", sw_field_int(p, "containerPort"));
    }
}

static void default_volume(struct sw_arena *a, struct sw_json *v)
{
    static const char *const moded[] = {"secret", "configMap", "projected", "downwardAPI"};
    const struct sw_json *sources = sw_json_walk(v, "projected", "sources", NULL);

    if (sw_json_is(v, SW_JSON_OBJECT) && sw_json_len(v) == 1 && sw_json_find(v, "name"))
        sw_json_put(a, v, "emptyDir", sw_json_new_object(a));
    for (size_t i = 0; i < SW_ARRAY_LEN(moded); i++)
        def_int(a, sw_json_find(v, moded[i]), "defaultMode", 0644);
    sw_b_defaults(a, sw_json_find(v, "hostPath"), "type=");
    SW_JSON_ITEMS (item, sources)
        def_int(a, sw_json_find(item, "serviceAccountToken"), "expirationSeconds", 3600);
}

void sw_b_default_pod_spec(struct sw_arena *a, struct sw_json *spec)
{
    bool host = sw_json_true(sw_json_find(spec, "hostNetwork"));

    if (!sw_json_is(spec, SW_JSON_OBJECT))
        return;
    sw_b_defaults(a, spec,
                  "restartPolicy=Always dnsPolicy=ClusterFirst schedulerName=default-scheduler "
                  "terminationGracePeriodSeconds=30");
    (void)sw_b_object_in(a, spec, "securityContext");
    /* The older name follows the newer one. */
    if (sw_field_text(spec, "serviceAccountName").n)
        sw_json_put_str(a, spec, "serviceAccount", sw_field_text(spec, "serviceAccountName"));
    else if (sw_field_text(spec, "serviceAccount").n)
        sw_json_put_str(a, spec, "serviceAccountName", sw_field_text(spec, "serviceAccount"));
    for (size_t l = 0; l < SW_ARRAY_LEN(container_lists); l++) {
        SW_JSON_ITEMS (c, sw_json_find(spec, container_lists[l]))
            default_container(a, c, host);
    }
    SW_JSON_ITEMS (v, sw_json_find(spec, "volumes"))
        default_volume(a, v);
}

void sw_b_default_pod(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_b_object_in(a, obj, "spec");

    if (!sw_json_is(spec, SW_JSON_OBJECT))
        return;
    sw_b_default_pod_spec(a, spec);
    sw_b_defaults(a, spec, "enableServiceLinks=true");
    sw_b_defaults(a, sw_b_object_in(a, obj, "status"), "phase=Pending");
}

/* ---- new pods ---- */

static void tolerate(struct sw_arena *a, struct sw_json *list, const char *key)
{
    SW_JSON_ITEMS (x, list) {
        if ((sw_field_is(x, "key", key) || !sw_field_text(x, "key").n) &&
            (sw_field_is(x, "effect", "NoExecute") || !sw_field_text(x, "effect").n))
            return;
    }
    sw_json_push(a, list,
                 SW_JSON_OF(a, {"effect", .str = "NoExecute"}, {"key", .str = key},
                            {"operator", .str = "Exists"},
                            {"tolerationSeconds", .json = sw_json_new_i64(a, 300)}));
}

/* How much the containers were promised. */
static const char *qos_class(const struct sw_json *spec)
{
    static const char *const counted[] = {"cpu", "memory"};
    bool any = false;
    bool all = true;

    for (size_t l = 0; l < SW_ARRAY_LEN(container_lists); l++) {
        SW_JSON_ITEMS (c, sw_json_find(spec, container_lists[l])) {
            const struct sw_json *res = sw_json_find(c, "resources");

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
    struct sw_json *list;

    if (!sw_json_is(spec, SW_JSON_OBJECT))
        return;
    sw_b_defaults(a, spec,
                  "serviceAccountName=default serviceAccount=default "
                  "preemptionPolicy=PreemptLowerPriority priority=0");
    list = sw_json_need(a, spec, "tolerations", SW_JSON_ARRAY);
    tolerate(a, list, "node.kubernetes.io/not-ready");
    tolerate(a, list, "node.kubernetes.io/unreachable");
    sw_json_put(a, obj, "status",
                SW_JSON_OF(a, {"phase", .str = "Pending"}, {"qosClass", .str = qos_class(spec)}));
}

/* ---- validation ---- */

static void check_container_port(const struct sw_at *p, struct sw_map *names)
{
    const struct sw_at *name = SW_IN(p, "name");

    sw_at_name(name, sw_name_port);
    if (!sw_name_port(sw_at_text(name)).n)
        sw_at_unique(name, names);
    if (sw_at_need(SW_IN(p, "containerPort"), NULL))
        sw_b_port_number(SW_IN(p, "containerPort"));
    if (sw_at_int(SW_IN(p, "hostPort")))
        sw_b_port_number(SW_IN(p, "hostPort"));
    sw_at_one_of(SW_IN(p, "protocol"), SW_B_PROTOCOLS);
}

static void check_container(const struct sw_at *c, struct sw_map *names)
{
    const struct sw_at *image = SW_IN(c, "image");
    const struct sw_at *ports = SW_IN(c, "ports");
    struct sw_map port_names = {0};

    sw_at_need_name(SW_IN(c, "name"), sw_name_dns1123_label);
    sw_at_unique(SW_IN(c, "name"), names);
    if (!sw_at_text(image).n)
        sw_at_required(image, NULL);
    else if (sw_slice_trim(sw_at_text(image)).n != sw_at_text(image).n)
        sw_at_invalid(image, "must not have leading or trailing whitespace");
    SW_AT_FOREACH (p, ports)
        check_container_port(&p, &port_names);
    sw_map_done(&port_names);
    sw_at_one_of(SW_IN(c, "imagePullPolicy"), "Always IfNotPresent Never");
}

static void check_containers(const struct sw_at *spec)
{
    struct sw_map names = {0};

    for (size_t l = SW_ARRAY_LEN(container_lists); l > 0; l--) {
        const struct sw_at *list = SW_IN(spec, container_lists[l - 1]);

        if (l == 2)
            (void)sw_at_need(list, NULL);
        SW_AT_FOREACH (c, list)
            check_container(&c, &names);
    }
    sw_map_done(&names);
}

static void check_volumes(const struct sw_at *list)
{
    struct sw_map names = {0};

    SW_AT_FOREACH (v, list) {
        sw_at_need_name(SW_IN(&v, "name"), sw_name_dns1123_label);
        sw_at_unique(SW_IN(&v, "name"), &names);
    }
    sw_map_done(&names);
}

/* The spec without the images, which may change. */
static struct sw_json *without_images(struct sw_arena *a, const struct sw_json *spec)
{
    struct sw_json *v = sw_json_copy(a, spec);

    for (size_t l = 0; l < SW_ARRAY_LEN(container_lists); l++) {
        SW_JSON_ITEMS (c, sw_json_find(v, container_lists[l]))
            (void)sw_json_remove(c, SW_SLICE_LIT("image"));
    }
    return v;
}

void sw_b_check_pod_spec(const struct sw_at *spec)
{

    check_volumes(SW_IN(spec, "volumes"));
    check_containers(spec);
    sw_at_one_of(SW_IN(spec, "restartPolicy"), "Always OnFailure Never");
    sw_at_one_of(SW_IN(spec, "dnsPolicy"), "ClusterFirstWithHostNet ClusterFirst Default None");
    sw_labels_validate(SW_IN(spec, "nodeSelector"));
    sw_at_name(SW_IN(spec, "serviceAccountName"), sw_name_dns1123_subdomain);
    sw_at_name(SW_IN(spec, "nodeName"), sw_name_dns1123_subdomain);
}

void sw_b_check_pod(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *spec = SW_IN(obj, "spec");
    const struct sw_json *was = sw_json_find(old, "spec");
    struct sw_arena *a = obj->e->arena;

    if (sw_b_kept(spec, old))
        return;
    sw_b_check_pod_spec(spec);
    if (was && !sw_b_equal_but(a, without_images(a, spec->v), without_images(a, was),
                               "activeDeadlineSeconds tolerations terminationGracePeriodSeconds"))
        sw_at_forbidden(spec,
                        "pod updates may not change fields other than "
                        "`spec.containers[*].image`,`spec.initContainers[*].image`,"
                        "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
                        "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to "
                        "be set to 1 if it was previously negative)");
}
