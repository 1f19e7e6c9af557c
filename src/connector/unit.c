/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dirs.h"
#include "base/file.h"
#include "base/mem.h"

static bool name_ok(const char *name)
{
    size_t n = strlen(name);

    if (n == 0 || n > 200 || name[0] == '.' || name[0] == '-')
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = name[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '_' || c == '.'))
            return false;
    }
    return true;
}

/* One word in systemd's quotes: '%' is a specifier and '$' a variable even inside them. */
static int put_word(struct sw_buf *out, const char *word, bool command, struct sw_err *err)
{
    int rc = sw_buf_putc(out, '"');

    for (const char *p = word; *p && rc == SW_OK; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return sw_err_set(err, SW_EINVAL, "a control character cannot go into a unit");
        if (*p == '"' || *p == '\\')
            rc = sw_buf_putc(out, '\\');
        else if (*p == '%' || (*p == '$' && command))
            rc = sw_buf_putc(out, *p);
        if (rc == SW_OK)
            rc = sw_buf_putc(out, *p);
    }
    return rc == SW_OK ? sw_buf_putc(out, '"') : rc;
}

/* A path that is a value of its own: no quotes, but '%' means something. */
static int put_path(struct sw_buf *out, const char *path, struct sw_err *err)
{
    int rc = SW_OK;

    for (const char *p = path; *p && rc == SW_OK; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return sw_err_set(err, SW_EINVAL, "a control character cannot go into a unit");
        if (*p == '%')
            rc = sw_buf_putc(out, '%');
        if (rc == SW_OK)
            rc = sw_buf_putc(out, *p);
    }
    return rc;
}

static int put_command(const struct sw_unit *u, struct sw_buf *out, struct sw_err *err)
{
    int rc = sw_buf_append_str(out, "ExecStart=");

    if (rc == SW_OK)
        rc = put_word(out, u->program, true, err);
    if (rc == SW_OK)
        rc = sw_buf_append_str(out, " connector run");
    for (size_t i = 0; i < u->n_args && rc == SW_OK; i++) {
        rc = sw_buf_putc(out, ' ');
        if (rc == SW_OK)
            rc = put_word(out, u->args[i], true, err);
    }
    return rc == SW_OK ? sw_buf_putc(out, '\n') : rc;
}

int sw_unit_write(const struct sw_unit *u, struct sw_buf *out, struct sw_err *err)
{
    int rc;

    if (!name_ok(u->name))
        return sw_err_set(err, SW_EINVAL, "'%.60s': not a name for a unit", u->name);
    rc = sw_buf_printf(out,
                       "# %s.service: written by 'spanwire connector install'\n"
                       "[Unit]\n"
                       "Description=Spanwire connector: this device in the fabric\n"
                       "Documentation=man:spanwire-connector(8)\n"
                       "Wants=network-online.target\n"
                       "After=network-online.target\n"
                       "\n"
                       "[Service]\n"
                       "Type=exec\n"
                       "WorkingDirectory=",
                       u->name);
    if (rc == SW_OK)
        rc = put_path(out, u->directory, err);
    if (rc == SW_OK && u->kubeconfig) {
        SW_AUTO_FREE char *set = sw_asprintf("KUBECONFIG=%s", u->kubeconfig);

        rc = sw_buf_append_str(out, "\nEnvironment=");
        if (rc == SW_OK)
            rc = put_word(out, set, false, err);
    }
    if (rc == SW_OK)
        rc = sw_buf_putc(out, '\n');
    if (rc == SW_OK)
        rc = put_command(u, out, err);
    if (rc == SW_OK)
        rc = sw_buf_append_str(out, "Restart=on-failure\n"
                                    "RestartSec=5\n"
                                    "# bad options: starting again does not help\n"
                                    "RestartPreventExitStatus=64\n"
                                    "TimeoutStopSec=30\n"
                                    "NoNewPrivileges=yes\n"
                                    "LimitCORE=0\n"
                                    "UMask=0077\n"
                                    "LockPersonality=yes\n"
                                    "MemoryDenyWriteExecute=yes\n"
                                    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK\n"
                                    "RestrictNamespaces=yes\n"
                                    "RestrictRealtime=yes\n"
                                    "RestrictSUIDSGID=yes\n"
                                    "SystemCallArchitectures=native\n"
                                    "SystemCallFilter=@system-service\n"
                                    "SystemCallFilter=~@privileged @resources\n"
                                    "SystemCallErrorNumber=EPERM\n"
                                    "\n"
                                    "[Install]\n"
                                    "WantedBy=default.target\n");
    return rc == SW_ELIMIT ? sw_err_set(err, rc, "the unit is too long") : rc;
}

char *sw_unit_path(const char *name, struct sw_err *err)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"); /* NOLINT(concurrency-mt-unsafe) */
    const char *home = getenv("HOME");           /* NOLINT(concurrency-mt-unsafe) */

    if (!name_ok(name)) {
        (void)sw_err_set(err, SW_EINVAL, "'%.60s': not a name for a unit", name);
        return NULL;
    }
    if (xdg && *xdg == '/')
        return sw_asprintf("%s/systemd/user/%s.service", xdg, name);
    if (home && *home == '/')
        return sw_asprintf("%s/.config/systemd/user/%s.service", home, name);
    (void)sw_err_set(err, SW_ENOENT, "neither HOME nor XDG_CONFIG_HOME is set");
    return NULL;
}

int sw_unit_install(const char *path, struct sw_slice text, struct sw_err *err)
{
    SW_AUTO_FREE char *dir = sw_strdup(path);
    int rc;

    *strrchr(dir, '/') = '\0';
    rc = sw_make_dirs(dir, err);
    return rc == SW_OK ? sw_file_write(path, text, 0600, true, err) : rc;
}
