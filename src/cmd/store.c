/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire store check|backup|restore`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/cmd.h"
#include "store/store.h"

struct settings {
    bool force;
};

static const struct sw_opt table[] = {
    {"force", NULL, SW_OPT_BOOL, .offset = offsetof(struct settings, force), .def = "false",
     .arg = "BOOL", .help = "Overwrite the target of backup or restore."},
};

const struct sw_opts_cmd sw_store_options = {
    .name = "store",
    .usage = "check STORE | backup STORE FILE | restore FILE STORE [options]",
    .summary =
        "Verifies, copies and brings back the objects of the control plane. STORE is the\n"
        "directory given to 'spanwire control --data', or the store.db file in it. check and\n"
        "backup work while the control plane runs; restore does not.",
    SW_OPTS_OF(table),
    .max_args = 3,
};

/* A data directory stands for the store in it. */
static const char *store_path(struct sw_arena *arena, const char *given)
{
    struct stat st;

    if (stat(given, &st) == 0 && S_ISDIR(st.st_mode))
        return sw_arena_printf(arena, "%s/store.db", given);
    return given;
}

static void print_report(const char *what, const char *path, const struct sw_store_report *r)
{
    (void)printf("%s %s: %" PRIu64 " objects at revision %" PRIu64 ", history from %" PRIu64
                 ", %" PRIu64 " rows, restored %" PRIu64 " times\n",
                 what, path, r->objects, r->revision, r->floor, r->rows, r->epoch);
}

static int run(void *settings, const struct sw_opts_rest *rest, struct sw_arena *arena,
               struct sw_err *err)
{
    const struct settings *s = settings;
    const char *verb = rest->n_args ? rest->args[0] : "";
    struct sw_store_report report = {0};
    const char *path;
    int rc;

    if (strcmp(verb, "check") == 0 && rest->n_args == 2) {
        path = store_path(arena, rest->args[1]);
        rc = sw_store_check(path, &report, err);
    } else if (strcmp(verb, "backup") == 0 && rest->n_args == 3) {
        path = rest->args[2];
        rc = sw_store_backup(store_path(arena, rest->args[1]), path, s->force, &report, err);
    } else if (strcmp(verb, "restore") == 0 && rest->n_args == 3) {
        path = store_path(arena, rest->args[2]);
        rc = sw_store_restore(rest->args[1], path, s->force, &report, err);
    } else {
        return sw_err_set(err, SW_EINVAL,
                          "say check STORE, backup STORE FILE or restore FILE "
                          "STORE (see 'spanwire help store')");
    }
    if (rc == SW_OK)
        print_report(strcmp(verb, "check") == 0 ? "sound" : verb, path, &report);
    return rc;
}

int sw_cmd_store(int argc, char **argv)
{
    struct settings s = {0};

    return sw_cmd_run(&sw_store_options, (struct sw_args){argc, argv}, &s, run);
}
