/* SPDX-License-Identifier: Apache-2.0 */
/* PersistentVolumes and PersistentVolumeClaims: kept, never bound to each other here. */
#include <string.h>

#include "base/search.h"
#include "kube/builtin/builtin_int.h"

static const char modes[] = "ReadOnlyMany ReadWriteMany ReadWriteOnce ReadWriteOncePod";
static const char volume_modes[] = "Block Filesystem";

static void check_modes(const struct sw_at *spec, const char *missing)
{
    const struct sw_at *list = SW_IN(spec, "accessModes");
    bool alone = false;
    size_t others = 0;

    (void)sw_at_need(list, missing);
    for (size_t i = 0; i < sw_at_len(list); i++) {
        struct sw_at mode = sw_at_path(sw_json_at(list->v, i), &list->path, list->e);
        bool once = sw_at_is(&mode, "ReadWriteOncePod");

        sw_at_one_of(&mode, modes);
        alone = alone || once;
        others += sw_at_is_any(&mode, modes) && !once;
    }
    if (alone && others)
        sw_at_forbidden(list, "may not use ReadWriteOncePod with other access modes");
}

void sw_b_check_claim(const struct sw_at *obj, const struct sw_json *old)
{
    /* The controller that binds a claim sets volumeName. */
    const struct sw_at *spec = SW_IN(obj, "spec");
    const struct sw_json *was = sw_json_find(old, "spec");
    struct sw_arena *a = obj->e->arena;
    bool bound = sw_field_is(sw_json_find(old, "status"), "phase", "Bound");

    if (sw_b_kept(spec, old))
        return;
    check_modes(spec, "at least 1 access mode is required");
    if (!SW_IN(spec, "resources.requests.storage")->v)
        sw_at_required(SW_KEY(SW_IN(spec, "resources"), SW_SLICE_LIT("storage")), NULL);
    sw_at_one_of(SW_IN(spec, "volumeMode"), volume_modes);
    if (old &&
        !(sw_field_text(was, "volumeName").n == 0 &&
          sw_b_equal_but(a, spec->v, was, "volumeName")) &&
        !(bound && sw_b_equal_but(a, spec->v, was, "resources volumeAttributesClassName")))
        sw_at_forbidden(spec, "spec is immutable after creation except resources.requests and "
                              "volumeAttributesClassName for bound claims");
}

/* Every member of a volume's spec that is not one of these is a volume source. */
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
                                         "volumeAttributesClassName",
                                         NULL};

    return !sw_word_in(key, others);
}

void sw_b_check_volume(const struct sw_at *obj, const struct sw_json *old)
{
    const struct sw_at *spec = SW_IN(obj, "spec");
    const struct sw_json *was = sw_json_find(old, "spec");
    size_t sources = 0;
    bool moved = false;

    check_modes(spec, NULL);
    if (!SW_IN(spec, "capacity.storage")->v)
        sw_at_required(SW_IN(spec, "capacity"), NULL);
    sw_at_one_of(SW_IN(spec, "persistentVolumeReclaimPolicy"), "Delete Recycle Retain");
    SW_JSON_MEMBERS (m, spec->v) {
        if (!is_source(m->key))
            continue;
        moved = moved || !sw_json_equal(m->value, sw_json_get(was, m->key), SW_JSON_EQ_VALUE);
        if (++sources > 1)
            sw_at_forbidden(SW_KEY(spec, m->key), "may not specify more than 1 volume type");
    }
    if (!sources)
        sw_at_required(spec, "must specify a volume type");
    sw_at_one_of(SW_IN(spec, "volumeMode"), volume_modes);
    if (old && moved)
        sw_at_forbidden(SW_IN(spec, "persistentvolumesource"),
                        "spec.persistentvolumesource is immutable after creation");
}
