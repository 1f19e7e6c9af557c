/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/admin_token.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dirs.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"

enum { RANDOM = 32, LEAST = 16, MOST = 512 };

static const char scope[] = "admin";

struct sw_admin_token {
    char *path;        /* owned; NULL: in memory only */
    struct sw_err why; /* why it is */
    size_t n;
    char text[MOST + 1];
};

/* Of systemd, of the session, of root; false: there is none. */
static bool default_path(char out[PATH_MAX])
{
    const char *unit = getenv("RUNTIME_DIRECTORY"); /* NOLINT(concurrency-mt-unsafe) */
    const char *user = getenv("XDG_RUNTIME_DIR");   /* NOLINT(concurrency-mt-unsafe) */
    int n = -1;

    if (unit && unit[0] == '/')
        n = snprintf(out, PATH_MAX, "%.*s/admin.token", (int)strcspn(unit, ":"), unit);
    else if (geteuid() == 0)
        n = snprintf(out, PATH_MAX, "/run/spanwire/admin.token");
    else if (user && user[0] == '/')
        n = snprintf(out, PATH_MAX, "%s/spanwire/admin.token", user);
    return n > 0 && n < PATH_MAX;
}

static void make_text(struct sw_admin_token *t)
{
    uint8_t raw[RANDOM];

    sw_rand_bytes(raw, sizeof(raw));
    (void)sw_hex_write(t->text, raw, RANDOM);
    t->n = 2 * RANDOM;
    explicit_bzero(raw, sizeof(raw));
}

/* Whole or not at all: another role may look for it at the same time. */
static int make_file(struct sw_admin_token *t, const char *path, struct sw_err *err)
{
    SW_AUTO_FREE char *tmp = sw_calloc(1, strlen(path) + 32);
    SW_AUTO_FD fd = -1;
    char line[2 * RANDOM + 1];
    int rc = SW_OK;

    (void)snprintf(tmp, strlen(path) + 32, "%s.%d.new", path, (int)getpid());
    (void)unlink(tmp);
    fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return sw_err_sys(err, errno, "cannot make '%s'", tmp);
    make_text(t);
    memcpy(line, t->text, t->n);
    line[t->n] = '\n';
    if (write(fd, line, t->n + 1) != (ssize_t)t->n + 1)
        rc = sw_err_sys(err, errno, "cannot write '%s'", tmp);
    else if (link(tmp, path) != 0 && errno != EEXIST)
        rc = sw_err_sys(err, errno, "cannot make '%s'", path);
    (void)unlink(tmp);
    explicit_bzero(line, sizeof(line));
    return rc;
}

static int read_open(struct sw_admin_token *t, int fd, const char *path, struct sw_err *err)
{
    struct stat st;
    ssize_t n;

    if (fstat(fd, &st) != 0)
        return sw_err_sys(err, errno, "cannot read '%s'", path);
    if (!S_ISREG(st.st_mode) || (st.st_mode & 077) || (st.st_uid != geteuid() && st.st_uid != 0))
        return sw_err_set(err, SW_EDENIED,
                          "'%s' must be a file that only its owner, this user or root, can use",
                          path);
    n = read(fd, t->text, MOST + 1);
    if (n < 0)
        return sw_err_sys(err, errno, "cannot read '%s'", path);
    while (n > 0 && (t->text[n - 1] == '\n' || t->text[n - 1] == '\r' || t->text[n - 1] == ' '))
        n--;
    if (n < LEAST || n > MOST)
        return sw_err_set(err, SW_EINVAL, "the token in '%s' needs %d to %d bytes", path, LEAST,
                          MOST);
    t->n = (size_t)n;
    return SW_OK;
}

static int load(struct sw_admin_token *t, const char *path, struct sw_err *err)
{
    SW_AUTO_FREE char *dir = sw_strdup(path);
    char *slash = strrchr(dir, '/');
    SW_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int rc = SW_OK;

    if (fd < 0 && errno == ENOENT) {
        if (slash && slash != dir) {
            *slash = '\0';
            rc = sw_make_dirs(dir, err);
        }
        if (rc == SW_OK)
            rc = make_file(t, path, err);
        if (rc != SW_OK)
            return rc;
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    }
    if (fd < 0)
        return sw_err_sys(err, errno, "cannot read '%s'", path);
    return read_open(t, fd, path, err);
}

struct sw_admin_token *sw_admin_token_new(const char *file, struct sw_err *err)
{
    struct sw_admin_token *t = SW_NEW(struct sw_admin_token);
    char place[PATH_MAX];

    if (file) {
        if (load(t, file, err) == SW_OK) {
            t->path = sw_strdup(file);
            return t;
        }
        (void)sw_err_prefix(err, "--admin-token-file");
        sw_admin_token_free(t);
        return NULL;
    }
    if (!default_path(place))
        (void)sw_err_set(&t->why, SW_ENOENT, "there is no runtime directory");
    else if (load(t, place, &t->why) == SW_OK)
        t->path = sw_strdup(place);
    if (!t->path)
        make_text(t);
    return t;
}

void sw_admin_token_free(struct sw_admin_token *t)
{
    if (!t)
        return;
    explicit_bzero(t->text, sizeof(t->text));
    sw_free(t->path);
    sw_free(t);
}

void sw_admin_token_log(const struct sw_admin_token *t)
{
    if (t->path)
        sw_log_info(scope, "admin token in '%s'", t->path);
    else
        sw_log_info(scope,
                    "no admin token: %s; pages that need one are closed, see "
                    "--admin-token-file",
                    t->why.msg);
}

struct sw_slice sw_admin_token_text(const struct sw_admin_token *t)
{
    return sw_slice(t->text, t->n);
}

bool sw_admin_token_ok(const struct sw_admin_token *t, struct sw_slice authorization)
{
    struct sw_slice rest = authorization;
    struct sw_slice scheme = sw_slice_cut(&rest, ' ');
    unsigned char differ = 0;

    if (!rest.p || !sw_slice_ieq(scheme, SW_SLICE_LIT("Bearer")))
        return false;
    rest = sw_slice_trim(rest);
    if (rest.n != t->n)
        return false;
    for (size_t i = 0; i < t->n; i++)
        differ |= (unsigned char)(rest.p[i] ^ t->text[i]);
    return differ == 0;
}
