/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/install/conflist.h"

#include "cni/plugin/request.h"

static const struct sw_json_write_opts layout = {.indent = 2};

bool sw_conflist_is_file(struct sw_slice name)
{
    return sw_slice_has_suffix(name, SW_SLICE_LIT(".conf")) ||
           sw_slice_has_suffix(name, SW_SLICE_LIT(".conflist")) ||
           sw_slice_has_suffix(name, SW_SLICE_LIT(".json"));
}

static int parse(struct sw_arena *a, struct sw_slice text, struct sw_json **ret, struct sw_err *err)
{
    static const struct sw_json_opts opts = {.max_bytes = SW_CONFLIST_MAX, .max_depth = 64};
    struct sw_json *doc;
    const struct sw_json *plugins;
    int rc = sw_json_parse(a, text, &opts, &doc, err);

    if (rc != SW_OK)
        return rc;
    plugins = sw_json_find(doc, "plugins");
    if (!sw_json_is(doc, SW_JSON_OBJECT) || (plugins && !sw_json_is(plugins, SW_JSON_ARRAY)) ||
        (plugins ? sw_json_len(plugins) == 0
                 : !sw_json_is(sw_json_find(doc, "type"), SW_JSON_STRING)))
        return sw_err_set(err, SW_EINVAL, "neither a plugin nor a list of plugins");
    for (size_t i = 0; i < sw_json_len(plugins); i++) {
        if (!sw_json_is(sw_json_find(sw_json_at(plugins, i), "type"), SW_JSON_STRING))
            return sw_err_set(err, SW_EINVAL, "plugin %zu has no type", i);
    }
    *ret = doc;
    return SW_OK;
}

bool sw_conflist_valid(struct sw_slice text)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *doc;

    return parse(&a, text, &doc, NULL) == SW_OK;
}

static struct sw_slice type_of(const struct sw_json *plugin)
{
    return sw_json_str(sw_json_find(plugin, "type"));
}

static bool drop(struct sw_json *plugins, struct sw_slice type)
{
    bool found = false;

    for (size_t i = sw_json_len(plugins); i-- > 0;) {
        if (sw_slice_eq(type_of(sw_json_at(plugins, i)), type)) {
            (void)sw_json_remove_at(plugins, i);
            found = true;
        }
    }
    return found;
}

/*
 * As runtimes read a single plugin. The network keeps its name: plugins store addresses under it,
 * and would hand out those of running pods again. Versions before lists have no prevResult.
 */
static struct sw_json *as_list(struct sw_arena *a, struct sw_json *single)
{
    struct sw_json *list = sw_json_new_object(a);
    struct sw_slice name = sw_json_str(sw_json_find(single, "name"));
    struct sw_slice version = sw_json_str(sw_json_find(single, "cniVersion"));

    sw_json_put_str(a, list, "name", name.n ? name : SW_SLICE_LIT("k8s-pod-network"));
    sw_json_put_str(a, list, "cniVersion",
                    sw_cni_version_known(version) ? version : SW_SLICE_LIT("0.3.1"));
    (void)sw_json_remove(single, SW_SLICE_LIT("cniVersion"));
    sw_json_push(a, sw_json_put_array(a, list, "plugins"), single);
    return list;
}

int sw_conflist_insert(struct sw_arena *a, struct sw_slice text, const struct sw_json *plugin,
                       struct sw_slice *ret, bool *ret_list, struct sw_err *err)
{
    struct sw_json *doc;
    struct sw_json *plugins;
    int rc = parse(a, text, &doc, err);

    if (rc != SW_OK)
        return rc;
    *ret_list = sw_json_find(doc, "plugins") == NULL;
    if (*ret_list)
        doc = as_list(a, doc);
    plugins = sw_json_find(doc, "plugins");
    (void)drop(plugins, type_of(plugin));
    if (sw_json_len(plugins) == 0)
        return sw_err_set(err, SW_EINVAL, "the list has no plugin but ours");
    sw_json_push(a, plugins, sw_json_copy(a, plugin));
    *ret = sw_json_text(a, doc, &layout);
    return SW_OK;
}

int sw_conflist_remove(struct sw_arena *a, struct sw_slice text, const char *type,
                       struct sw_slice *ret, bool *ret_found, struct sw_err *err)
{
    struct sw_json *doc;
    int rc = parse(a, text, &doc, err);

    if (rc != SW_OK)
        return rc;
    *ret_found = drop(sw_json_find(doc, "plugins"), sw_slice_str(type));
    *ret = sw_json_text(a, doc, &layout);
    return SW_OK;
}

bool sw_conflist_has(struct sw_slice text, const struct sw_json *plugin)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *doc;
    struct sw_json *plugins;
    size_t n;

    if (parse(&a, text, &doc, NULL) != SW_OK)
        return false;
    plugins = sw_json_find(doc, "plugins");
    n = sw_json_len(plugins);
    for (size_t i = 0; i + 1 < n; i++) {
        if (sw_slice_eq(type_of(sw_json_at(plugins, i)), type_of(plugin)))
            return false;
    }
    return n > 0 && sw_json_equal(sw_json_at(plugins, n - 1), plugin, SW_JSON_EQ_VALUE);
}
