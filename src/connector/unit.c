/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/unit.h"

#include <errno.h>
#include <string.h>

#include "base/dirs.h"
#include "base/file.h"
#include "base/mem.h"
#include "connector/dirs.h"

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

/* Text of a value, in which '%' means something; quotes and backslashes only in a word. */
static void put_text(struct sw_print *p, const char *text, const char *escaped, const char *doubled)
{
    for (const char *c = text; *c; c++) {
        if (strchr(escaped, *c))
            sw_print_char(p, '\\');
        else if (strchr(doubled, *c))
            sw_print_char(p, *c);
        sw_print_char(p, *c);
    }
}

/* One word in systemd's quotes: '%' is a specifier and '$' a variable even inside them. */
static void put_word(struct sw_print *p, const char *word, bool command)
{
    sw_print_char(p, '"');
    put_text(p, word, "\"\\", command ? "%$" : "%");
    sw_print_char(p, '"');
}

static bool is_printable(const char *text)
{
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return false;
    }
    return true;
}

static bool all_printable(const struct sw_unit *u)
{
    for (size_t i = 0; i < u->n_args; i++) {
        if (!is_printable(u->args[i]))
            return false;
    }
    return is_printable(u->program) && is_printable(u->directory) &&
           (!u->kubeconfig || is_printable(u->kubeconfig));
}

int sw_unit_write(const struct sw_unit *u, struct sw_buf *out, struct sw_err *err)
{
    struct sw_print p = {.to = out};

    if (!name_ok(u->name))
        return sw_err_set(err, SW_EINVAL, "'%.60s': not a name for a unit", u->name);
    if (!all_printable(u))
        return sw_err_set(err, SW_EINVAL, "a control character cannot go into a unit");
    sw_print_fmt(&p,
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
    put_text(&p, u->directory, "", "%");
    if (u->kubeconfig) {
        SW_AUTO_FREE char *set = sw_asprintf("KUBECONFIG=%s", u->kubeconfig);

        sw_print_str(&p, "\nEnvironment=");
        put_word(&p, set, false);
    }
    sw_print_str(&p, "\nExecStart=");
    put_word(&p, u->program, true);
    sw_print_str(&p, " connector run");
    for (size_t i = 0; i < u->n_args; i++) {
        sw_print_char(&p, ' ');
        put_word(&p, u->args[i], true);
    }
    sw_print_str(&p, "\nRestart=on-failure\n"
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
    return p.rc == SW_OK ? SW_OK : sw_err_set(err, p.rc, "the unit is too long");
}

char *sw_unit_path(const char *name, struct sw_err *err)
{
    SW_AUTO_FREE char *dir = sw_user_dir("XDG_CONFIG_HOME", ".config");

    if (!name_ok(name))
        (void)sw_err_set(err, SW_EINVAL, "'%.60s': not a name for a unit", name);
    else if (!dir)
        (void)sw_err_set(err, SW_ENOENT, "neither HOME nor XDG_CONFIG_HOME is set");
    else
        return sw_asprintf("%s/systemd/user/%s.service", dir, name);
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
