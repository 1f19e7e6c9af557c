/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file: a YAML map from long option names to values. */
#include "base/file.h"
#include "base/secret.h"
#include "opts/opts_int.h"
#include "yaml/yaml.h"

enum { FILE_MAX = 1 << 20 };

static int set_scalar(struct sw_opts_state *st, const struct sw_opt *o, const struct sw_yaml *v,
                      struct sw_err *err)
{
    struct sw_slice text;
    int rc = sw_yaml_text(v, &text, err);
    struct sw_err why;

    if (rc != SW_OK)
        return rc;
    rc = sw_opts_set_from(st, o, SW_OPT_FROM_FILE, text, &why);
    if (rc != SW_OK)
        return sw_yaml_error(v, err, "%s: %s", o->name, why.msg);
    return SW_OK;
}

static int set_entry(struct sw_opts_state *st, const struct sw_yaml *v, struct sw_err *err)
{
    const struct sw_opt *o = sw_opts_find(st->cmd, v->key->text);
    int rc = SW_OK;

    if (!o)
        return sw_yaml_error(v->key, err, "unknown option '%.*s'",
                             SW_SLICE_ARG_MAX(v->key->text, 40));
    if (v->kind == SW_YAML_SEQ && o->type == SW_OPT_LIST) {
        SW_YAML_FOREACH (item, v) {
            if (rc == SW_OK)
                rc = set_scalar(st, o, item, err);
        }
        return rc;
    }
    if (v->kind != SW_YAML_SCALAR)
        return sw_yaml_error(v, err, "%s: one value is needed, this is %s", o->name,
                             sw_yaml_describe(v));
    return set_scalar(st, o, v, err);
}

int sw_opts_load_file(struct sw_opts_state *st, const char *path, struct sw_err *err)
{
    struct sw_slice text = {0};
    SW_ARENA_AUTO tmp = {0};
    const struct sw_yaml *doc;
    int rc = sw_file_read(path, FILE_MAX, &text, err);

    if (rc != SW_OK)
        return rc;
    rc = sw_yaml_parse_one(&tmp, text, NULL, &doc, err);
    /* An empty file sets nothing. */
    if (rc == SW_OK && !sw_yaml_is_null(doc))
        rc = sw_yaml_expect(doc, SW_YAML_MAP, err);
    if (rc == SW_OK && !sw_yaml_is_null(doc)) {
        SW_YAML_FOREACH (v, doc) {
            if (rc == SW_OK)
                rc = set_entry(st, v, err);
        }
    }
    sw_slice_free_secret(&text);
    return rc == SW_OK ? rc : sw_err_prefix(err, "%s", path);
}
