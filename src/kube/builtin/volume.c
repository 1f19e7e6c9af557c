/* SPDX-License-Identifier: Apache-2.0 */
/* PersistentVolumes and PersistentVolumeClaims: kept, never bound to each other here. */
#include <string.h>

#include "kube/builtin/builtin_int.h"

static const char *const modes[] = {"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce",
                                    "ReadWriteOncePod", NULL};
static const char *const volume_modes[] = {"Block", "Filesystem", NULL};

/* ---- defaults ---- */

void sw_b_default_claim(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_b_object_in(a, obj, "spec");

    (void)sw_b_object_in(a, spec, "resources");
    sw_b_def_str(a, spec, "volumeMode", "Filesystem");
    sw_b_def_str(a, sw_b_object_in(a, obj, "status"), "phase", "Pending");
}

void sw_b_default_volume(struct sw_arena *a, struct sw_json *obj)
{
    struct sw_json *spec = sw_b_object_in(a, obj, "spec");
    struct sw_json *host = sw_json_find(spec, "hostPath");

    sw_b_def_str(a, spec, "persistentVolumeReclaimPolicy", "Retain");
    sw_b_def_str(a, spec, "volumeMode", "Filesystem");
    if (sw_json_is(host, SW_JSON_OBJECT) && !sw_json_find(host, "type"))
        sw_json_put(a, host, "type", sw_json_new_str(a, ""));
    sw_b_def_str(a, sw_b_object_in(a, obj, "status"), "phase", "Pending");
}

/* ---- validation ---- */

static bool known_mode(const struct sw_json *v)
{
    for (size_t i = 0; modes[i]; i++) {
        if (sw_json_str_eq(v, modes[i]))
            return true;
    }
    return false;
}

static void check_modes(const struct sw_json *spec, const char *missing, struct sw_field_errs *e)
{
    const struct sw_json *list = sw_json_find(spec, "accessModes");
    struct sw_fpath at = sw_fpath_str(NULL, "spec.accessModes");
    bool alone = false;
    size_t others = 0;

    if (!sw_json_len(list))
        sw_ferr_required(e, &at, missing);
    for (size_t i = 0; i < sw_json_len(list); i++) {
        sw_field_one_of(sw_json_at(list, i), modes, &at, e);
        if (sw_json_str_eq(sw_json_at(list, i), "ReadWriteOncePod"))
            alone = true;
        else
            others += known_mode(sw_json_at(list, i));
    }
    if (alone && others)
        sw_ferr_forbidden(e, &at, "may not use ReadWriteOncePod with other access modes");
}

static void check_volume_mode(const struct sw_json *spec, struct sw_field_errs *e)
{
    struct sw_fpath at = sw_fpath_str(NULL, "spec.volumeMode");

    sw_field_one_of(sw_json_find(spec, "volumeMode"), volume_modes, &at, e);
}

/* Equal but for the members named; those may change. */
static bool equal_but(struct sw_arena *a, const struct sw_json *x, const struct sw_json *y,
                      const char *const *but)
{
    struct sw_json *p = sw_json_copy(a, x);
    struct sw_json *q = sw_json_copy(a, y);

    for (; *but; but++) {
        (void)sw_json_remove(p, sw_slice_str(*but));
        (void)sw_json_remove(q, sw_slice_str(*but));
    }
    return sw_json_equal(p, q, SW_JSON_EQ_VALUE);
}

void sw_b_check_claim(const struct sw_json *obj, const struct sw_json *old, struct sw_field_errs *e)
{
    /* Whoever binds a claim names the volume. */
    static const char *const bind[] = {"volumeName", NULL};
    static const char *const grow[] = {"resources", "volumeAttributesClassName", NULL};
    const struct sw_json *spec = sw_json_find(obj, "spec");
    const struct sw_json *was = sw_json_find(old, "spec");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at = sw_fpath_str(&path, "resources");
    struct sw_fpath at_size = sw_fpath_key(&at, SW_SLICE_LIT("storage"));
    bool bound = sw_field_is(sw_json_find(old, "status"), "phase", "Bound");

    if (old && sw_json_equal(spec, was, SW_JSON_EQ_VALUE))
        return;
    check_modes(spec, "at least 1 access mode is required", e);
    if (!sw_json_walk(spec, "resources", "requests", "storage", NULL))
        sw_ferr_required(e, &at_size, NULL);
    check_volume_mode(spec, e);
    if (old && !(sw_field_text(was, "volumeName").n == 0 && equal_but(e->arena, spec, was, bind)) &&
        !(bound && equal_but(e->arena, spec, was, grow)))
        sw_ferr_forbidden(e, &path,
                          "spec is immutable after creation except resources.requests and "
                          "volumeAttributesClassName for bound claims");
}

/* Every member of a volume's spec that is not one of these says where its data is. */
static bool is_source(struct sw_slice key)
{
    static const char *const others[] = {"capacity",
                                         "accessModes",
                                         "claimRef",
                                         "persistentVolumeReclaimPolicy",
                                         "storageClassName",
                                         "mountOptions",
                                         "volumeMode",
                                         "nodeAffinity",
                                         "volumeAttributesClassName"};

    for (size_t i = 0; i < SW_ARRAY_LEN(others); i++) {
        if (sw_slice_eq_str(key, others[i]))
            return false;
    }
    return true;
}

void sw_b_check_volume(const struct sw_json *obj, const struct sw_json *old,
                       struct sw_field_errs *e)
{
    static const char *const policies[] = {"Delete", "Recycle", "Retain", NULL};
    const struct sw_json *spec = sw_json_find(obj, "spec");
    const struct sw_json *was = sw_json_find(old, "spec");
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath at_capacity = sw_fpath_str(&path, "capacity");
    struct sw_fpath at_policy = sw_fpath_str(&path, "persistentVolumeReclaimPolicy");
    struct sw_fpath at_source = sw_fpath_str(&path, "persistentvolumesource");
    size_t sources = 0;
    bool moved = false;

    check_modes(spec, NULL, e);
    if (!sw_json_walk(spec, "capacity", "storage", NULL))
        sw_ferr_required(e, &at_capacity, NULL);
    sw_field_one_of(sw_json_find(spec, "persistentVolumeReclaimPolicy"), policies, &at_policy, e);
    for (size_t i = 0; i < sw_json_len(spec); i++) {
        const struct sw_json_member *m = sw_json_member_at(spec, i);

        if (!is_source(m->key))
            continue;
        moved = moved || !sw_json_equal(m->value, sw_json_get(was, m->key), SW_JSON_EQ_VALUE);
        if (++sources > 1) {
            struct sw_fpath at = sw_fpath_key(&path, m->key);

            sw_ferr_forbidden(e, &at, "may not specify more than 1 volume type");
        }
    }
    if (!sources)
        sw_ferr_required(e, &path, "must specify a volume type");
    check_volume_mode(spec, e);
    if (old && moved)
        sw_ferr_forbidden(e, &at_source, "spec.persistentvolumesource is immutable after creation");
}
