/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a command line, the environment and a file against one table. */
#include "opts/opts.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "opts/opts_int.h"

const struct sw_opt *sw_opts_find(const struct sw_opts_cmd *cmd, struct sw_slice name)
{
    for (size_t i = 0; i < cmd->n; i++) {
        if (cmd->opts[i].name && sw_slice_eq_str(name, cmd->opts[i].name))
            return &cmd->opts[i];
    }
    return NULL;
}

static enum sw_opt_source *source_of(struct sw_opts_state *st, const struct sw_opt *o)
{
    return &st->source[o - st->cmd->opts];
}

int sw_opts_set_from(struct sw_opts_state *st, const struct sw_opt *o, enum sw_opt_source source,
                     struct sw_slice value, struct sw_err *err)
{
    enum sw_opt_source *had = source_of(st, o);
    int rc;

    if (*had > source)
        return SW_OK;
    if (o->type == SW_OPT_LIST && *had < source)
        memset((char *)st->dest + o->offset, 0, sizeof(struct sw_opt_list));
    rc = sw_opt_set(o, st->dest, st->arena, value, err);
    if (rc != SW_OK) {
        if (o->flags & SW_OPT_SECRET)
            (void)sw_err_set(err, rc, "the value is not valid");
        return rc;
    }
    *had = source;
    return SW_OK;
}

struct flag {
    const struct sw_opt *opt;
    struct sw_slice name;
    struct sw_slice value;
    bool has_value;
};

static bool is_switch(const struct sw_opt *o)
{
    return o->type == SW_OPT_BOOL || (o->flags & SW_OPT_SWITCH);
}

/* Splits "--name=value" and finds its row; "--no-name" is name=false. */
static int flag_find(const struct sw_opts_cmd *cmd, const char *text, struct flag *f,
                     struct sw_err *err)
{
    struct sw_slice rest = sw_slice_str(text + 2);
    const struct sw_opt *o;

    f->name = sw_slice_cut(&rest, '=');
    f->has_value = rest.p != NULL;
    f->value = rest;
    f->opt = sw_opts_find(cmd, f->name);
    if (f->opt)
        return SW_OK;
    o = sw_slice_has_prefix(f->name, SW_SLICE_LIT("no-"))
            ? sw_opts_find(cmd, sw_slice_from(f->name, 3))
            : NULL;
    if (!o || !is_switch(o))
        return sw_err_set(err, SW_EINVAL, "unknown option (see 'spanwire help %s')", cmd->name);
    if (f->has_value)
        return sw_err_set(err, SW_EINVAL, "takes no value");
    f->opt = o;
    f->has_value = true;
    f->value = SW_SLICE_LIT("false");
    return SW_OK;
}

/* Takes the value from the next word where the option needs one, or a boolean is spelt there. */
static int flag_value(struct flag *f, const char *next, int *used, struct sw_err *err)
{
    if (f->has_value)
        return SW_OK;
    if (is_switch(f->opt)) {
        f->value = SW_SLICE_LIT("true");
        if (next && (strcmp(next, "true") == 0 || strcmp(next, "false") == 0)) {
            f->value = sw_slice_str(next);
            *used += 1;
        }
        return SW_OK;
    }
    if (!next)
        return sw_err_set(err, SW_EINVAL, "needs a value");
    f->value = sw_slice_str(next);
    *used += 1;
    return SW_OK;
}

/* Handles argv[0] = "--...", and returns how many words it used. */
static int parse_flag(struct sw_opts_state *st, char **argv, int *used, struct sw_err *err)
{
    static const struct sw_opt config = {.name = "config", .type = SW_OPT_STR};
    struct flag f;
    int rc = SW_OK;

    *used = 1;
    if (st->cmd->config_file && (strcmp(argv[0], "--config") == 0 ||
                                 strncmp(argv[0], "--config=", strlen("--config=")) == 0)) {
        f = (struct flag){.opt = &config, .has_value = argv[0][strlen("--config")] == '='};
        if (f.has_value)
            f.value = sw_slice_str(argv[0] + strlen("--config="));
        rc = flag_value(&f, argv[1], used, err);
        if (rc == SW_OK)
            st->config = sw_arena_dup(st->arena, f.value);
        return rc == SW_OK ? rc : sw_err_prefix(err, "%s: --config", st->cmd->name);
    }
    rc = flag_find(st->cmd, argv[0], &f, err);
    if (rc == SW_OK)
        rc = flag_value(&f, argv[1], used, err);
    if (rc == SW_OK)
        rc = sw_opts_set_from(st, f.opt, SW_OPT_FROM_FLAG, f.value, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, "%s: --%.*s", st->cmd->name, SW_SLICE_ARG_MAX(f.name, 40));
    return SW_OK;
}

static int parse_argv(struct sw_opts_state *st, int argc, char **argv, struct sw_err *err)
{
    bool plain = false;

    for (int i = 1; i < argc;) {
        int used = 1;

        if (!plain && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0))
            return SW_EOF;
        if (!plain && strcmp(argv[i], "--") == 0) {
            plain = true;
        } else if (!plain && strncmp(argv[i], "--", 2) == 0) {
            int rc = parse_flag(st, argv + i, &used, err);

            if (rc != SW_OK)
                return rc;
        } else if (!plain && argv[i][0] == '-' && argv[i][1]) {
            return sw_err_set(err, SW_EINVAL, "%s: %.40s: unknown option (see 'spanwire help %s')",
                              st->cmd->name, argv[i], st->cmd->name);
        } else if (st->rest->n_args < sw_min(st->cmd->max_args, SW_OPTS_ARGS_MAX)) {
            st->rest->args[st->rest->n_args++] = argv[i];
        } else {
            return sw_err_set(err, SW_EINVAL, "%s: '%.60s': unexpected argument", st->cmd->name,
                              argv[i]);
        }
        i += used;
    }
    return SW_OK;
}

/* The first of the comma-separated variables that is set; an empty one counts as unset. */
static const char *env_value(const char *names, struct sw_slice *ret_name)
{
    struct sw_slice rest = sw_slice_str(names);

    while (rest.p) {
        struct sw_slice name = sw_slice_cut(&rest, ',');
        char text[64];
        const char *v;

        if (name.n >= sizeof(text))
            continue;
        memcpy(text, name.p, name.n);
        text[name.n] = '\0';
        v = getenv(text); /* NOLINT(concurrency-mt-unsafe): at start, before threads */
        if (v && v[0]) {
            *ret_name = name;
            return v;
        }
    }
    return NULL;
}

static int parse_env(struct sw_opts_state *st, struct sw_err *err)
{
    struct sw_slice name;

    for (size_t i = 0; i < st->cmd->n; i++) {
        const struct sw_opt *o = &st->cmd->opts[i];
        const char *v = o->env ? env_value(o->env, &name) : NULL;
        struct sw_slice rest = sw_slice_str(v);

        if (!v || st->source[i] == SW_OPT_FROM_FLAG)
            continue;
        while (rest.p) {
            struct sw_slice value = rest;
            int rc;

            if (o->type == SW_OPT_LIST)
                value = sw_slice_trim(sw_slice_cut(&rest, ','));
            else
                rest = (struct sw_slice){NULL, 0};
            rc = sw_opts_set_from(st, o, SW_OPT_FROM_ENV, value, err);
            if (rc != SW_OK)
                return sw_err_prefix(err, "%s: %.*s", st->cmd->name, SW_SLICE_ARG(name));
        }
    }
    return SW_OK;
}

/* Defaults go in first, so that every later source simply overwrites. */
static int set_defaults(struct sw_opts_state *st, struct sw_err *err)
{
    for (size_t i = 0; i < st->cmd->n; i++) {
        const struct sw_opt *o = &st->cmd->opts[i];
        int rc;

        if (!o->def || o->type == SW_OPT_GROUP)
            continue;
        rc = sw_opt_set(o, st->dest, st->arena, sw_slice_str(o->def), err);
        if (rc != SW_OK)
            return sw_err_prefix(err, "%s: default of '%s'", st->cmd->name, o->name);
    }
    return SW_OK;
}

static int check_set(struct sw_opts_state *st, struct sw_err *err)
{
    for (size_t i = 0; i < st->cmd->n; i++) {
        const struct sw_opt *o = &st->cmd->opts[i];
        bool set = st->source[i] != SW_OPT_FROM_DEFAULT;

        if ((o->flags & SW_OPT_NEEDED) && !set)
            return sw_err_set(err, SW_EINVAL, "%s: --%s is needed", st->cmd->name, o->name);
    }
    return SW_OK;
}

static int parse_all(struct sw_opts_state *st, struct sw_args args, struct sw_err *err)
{
    struct sw_slice name;
    int rc = set_defaults(st, err);

    if (rc == SW_OK)
        rc = parse_argv(st, args.n, args.v, err);
    if (rc == SW_OK)
        rc = parse_env(st, err);
    if (rc == SW_OK && st->cmd->config_file && !st->config)
        st->config = env_value("SPANWIRE_CONFIG", &name);
    if (rc == SW_OK && st->config) {
        rc = sw_opts_load_file(st, st->config, err);
        if (rc != SW_OK)
            (void)sw_err_prefix(err, "%s", st->cmd->name);
    }
    return rc == SW_OK ? check_set(st, err) : rc;
}

int sw_opts_parse(const struct sw_opts_cmd *cmd, void *dest, struct sw_arena *arena,
                  struct sw_args args, struct sw_opts_rest *ret_rest, struct sw_err *err)
{
    struct sw_opts_rest rest = {0};
    struct sw_opts_state st = {
        .cmd = cmd,
        .dest = dest,
        .arena = arena,
        .source = sw_arena_array(arena, cmd->n + 1, sizeof(enum sw_opt_source)),
        .rest = &rest,
    };
    int rc = parse_all(&st, args, err);

    if (rc == SW_OK && ret_rest)
        *ret_rest = rest;
    return rc;
}
