/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire connector run|install|uninstall|role`: the device as a process of its own. */
#include "connector/connector.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "connector/role.h"
#include "connector/unit.h"

enum { UNIT_MAX = 1 << 16, ARGS_MAX = 256 };

struct options {
    struct sw_connector_config c;
    const char *unit;
    bool print;
};

static const struct sw_opt table[] = {
    SW_CONNECTOR_OPTS_API(struct options, c),
    {"name", NULL, SW_OPT_STR, offsetof(struct options, c.name), .arg = "NAME",
     .help = "Name of the device's Connector [the one that has its key; a new one gets a name made "
             "up]."},
    {"standalone", NULL, SW_OPT_BOOL, offsetof(struct options, c.standalone), .def = "false",
     .help = "Use no API at all: gateways, destinations and relay are those of the options."},
    {"inspect", NULL, SW_OPT_BOOL, offsetof(struct options, c.inspect), .def = "false",
     .help =
         "Keep the last requests with headers and the beginning of their bodies, in memory, and "
         "show them on a page of --admin-addr whose URL is printed."},
    {"inspect-secrets", NULL, SW_OPT_BOOL, offsetof(struct options, c.inspect_secrets),
     .def = "false", .help = "Show the values of headers that carry secrets there, too."},
    SW_CONNECTOR_OPTS_NET(struct options, c),
    SW_CONNECTOR_OPTS_POLICY(struct options, c),
    SW_CONNECTOR_OPTS_RUN(struct options, c, "127.0.0.1:15060", "10s", "info"),
    {.type = SW_OPT_GROUP, .help = "install and uninstall"},
    {"unit", NULL, SW_OPT_STR, offsetof(struct options, unit), .def = "spanwire-connector",
     .arg = "NAME", .help = "Name of the systemd user unit."},
    {"print", NULL, SW_OPT_BOOL, offsetof(struct options, print), .def = "false",
     .help = "Print the unit and write nothing."},
};

const struct sw_opts_cmd sw_connector_options = {
    .name = "connector",
    .usage = "run|install|uninstall|role [options]",
    .summary =
        "run: connects this device to the fabric: the gateways reach what is advertised\n"
        "through it, without an inbound port.\n"
        "install: writes a systemd user unit that does 'run' with the same options.\n"
        "uninstall: removes it.\n"
        "role: prints the account and the rights of a device (--name, --namespace), for kubectl\n"
        "apply.",
    .epilogue = "SIGTERM drains. See spanwire-connector(8).",
    SW_OPTS_OF(table),
    .config_file = true,
};

static int run(const struct options *o)
{
    struct sw_err err = {0};
    int rc;

    if (sw_cmd_start_log(o->c.log_level, o->c.log_format, &err) != SW_OK)
        return sw_cmd_bad_use(&err);
    rc = sw_connector_run(&o->c, &err);
    sw_log_stop();
    return rc == SW_OK ? 0 : sw_cmd_fail(&err);
}

/* The words of the command line that belong to `run`; those of install itself are left out. */
static size_t run_args(int argc, char **argv, const char **out)
{
    size_t n = 0;

    for (int i = 1; i < argc && n < ARGS_MAX; i++) {
        if (strncmp(argv[i], "--print", 7) == 0 || strcmp(argv[i], "--no-print") == 0 ||
            strncmp(argv[i], "--unit=", 7) == 0)
            continue;
        if (strcmp(argv[i], "--unit") == 0)
            i++;
        else
            out[n++] = argv[i];
    }
    return n;
}

static int install(const struct options *o, int argc, char **argv, struct sw_err *err)
{
    const char *args[ARGS_MAX];
    char program[4096];
    SW_AUTO_FREE char *path = NULL;
    SW_BUF_AUTO text = {.max = UNIT_MAX};
    char here[4096];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    struct sw_unit u = {.name = o->unit, .program = program, .args = args, .directory = here};
    int rc;

    if (n < 0 || !getcwd(here, sizeof(here)))
        return sw_err_sys(err, errno, "the place of this program");
    program[n] = '\0';
    u.n_args = run_args(argc, argv, args);
    u.kubeconfig =
        o->c.kubeconfig ? NULL : getenv("KUBECONFIG"); /* NOLINT(concurrency-mt-unsafe) */
    rc = sw_unit_write(&u, &text, err);
    if (rc != SW_OK)
        return rc;
    if (o->print) {
        (void)fwrite(sw_buf_data(&text), 1, sw_buf_len(&text), stdout);
        return SW_OK;
    }
    path = sw_unit_path(o->unit, err);
    rc = path ? sw_unit_install(path, sw_buf_slice(&text), err) : err->rc;
    if (rc == SW_OK)
        (void)printf("Wrote %s. To start it, now and at every login:\n"
                     "  systemctl --user daemon-reload\n"
                     "  systemctl --user enable --now %s.service\n"
                     "To keep it running while you are logged out: loginctl enable-linger\n",
                     path, o->unit);
    return rc;
}

static int uninstall(const struct options *o, struct sw_err *err)
{
    SW_AUTO_FREE char *path = sw_unit_path(o->unit, err);

    if (!path)
        return err->rc;
    if (unlink(path) != 0)
        return errno == ENOENT ? sw_err_set(err, SW_ENOENT, "%.120s: not installed", path)
                               : sw_err_sys(err, errno, "%.120s", path);
    (void)printf("Removed %s. If it is running:\n"
                 "  systemctl --user disable --now %s.service\n"
                 "  systemctl --user daemon-reload\n",
                 path, o->unit);
    return SW_OK;
}

static int role(const struct options *o, struct sw_err *err)
{
    SW_BUF_AUTO text = {.max = UNIT_MAX};
    int rc;

    if (!o->c.name)
        return sw_err_set(err, SW_EINVAL, "connector role: --name is needed");
    rc = sw_device_role(sw_slice_str(o->c.ns ? o->c.ns : "default"), sw_slice_str(o->c.name), &text,
                        err);
    if (rc == SW_OK)
        (void)fwrite(sw_buf_data(&text), 1, sw_buf_len(&text), stdout);
    return rc;
}

static int act(const char *verb, const struct options *o, int argc, char **argv)
{
    struct sw_err err = {0};
    int rc;

    if (strcmp(verb, "run") == 0)
        return run(o);
    if (strcmp(verb, "role") == 0) {
        if (role(o, &err) != SW_OK)
            return sw_cmd_bad_use(&err);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    rc = strcmp(verb, "install") == 0 ? install(o, argc, argv, &err) : uninstall(o, &err);
    if (rc != SW_OK)
        return sw_cmd_fail(&err);
    return fflush(stdout) == 0 ? 0 : 1;
}

int sw_cmd_connector(int argc, char **argv)
{
    SW_ARENA_AUTO arena = {0};
    struct options o = {0};
    struct sw_err err = {0};
    int rc;

    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return sw_cmd_help(&sw_connector_options);
    if (argc < 2 || (strcmp(argv[1], "run") != 0 && strcmp(argv[1], "install") != 0 &&
                     strcmp(argv[1], "uninstall") != 0 && strcmp(argv[1], "role") != 0)) {
        (void)sw_err_set(&err, SW_EINVAL,
                         "connector: one of run, install, uninstall and role is needed");
        return sw_cmd_bad_use(&err);
    }
    rc = sw_opts_parse(&sw_connector_options, &o, &arena, (struct sw_args){argc - 1, argv + 1},
                       NULL, &err);
    if (rc == SW_EOF)
        return sw_cmd_help(&sw_connector_options);
    if (rc != SW_OK)
        return sw_cmd_bad_use(&err);
    return act(argv[1], &o, argc - 1, argv + 1);
}
