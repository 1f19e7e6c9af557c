/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rand.h"
#include "base/secret.h"

enum { CHUNK = 64 << 10, TMP_DIGITS = 8 };
#define TMP_SUFFIX ".tmp"

int sw_fd_read_all(int fd, const char *path, struct sw_buf *out, struct sw_err *err)
{
    size_t most = out->max - sw_buf_len(out);

    for (;;) {
        size_t room = sw_min(CHUNK, out->max - sw_buf_len(out));
        char over; /* a byte more than out takes is one too many */
        char *to = room ? sw_buf_reserve(out, room) : &over;
        ssize_t n = read(fd, to, room ? room : 1);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sw_err_sys(err, errno, "cannot read '%s'", path);
        if (n == 0)
            return SW_OK;
        if (!room)
            return sw_err_set(err, SW_ELIMIT, "'%s' is larger than %zu bytes", path, most);
        sw_buf_commit(out, (size_t)n);
    }
}

int sw_fd_write_all(int fd, struct sw_slice s)
{
    while (s.n) {
        ssize_t n = write(fd, s.p, s.n);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return SW_ESYS;
        s = sw_slice_from(s, (size_t)n);
    }
    return SW_OK;
}

int sw_file_read(const char *path, size_t max, struct sw_slice *ret, struct sw_err *err)
{
    /* O_NONBLOCK: a pipe without a writer must not block the open. */
    SW_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    SW_BUF_SECRET b = {.max = max};
    int rc;

    if (fd < 0) {
        int saved = errno;

        (void)sw_err_sys(err, saved, "cannot read '%s'", path);
        return saved == ENOENT ? SW_ENOENT : SW_ESYS;
    }
    (void)fcntl(fd, F_SETFL, 0);
    rc = sw_fd_read_all(fd, path, &b, err);
    if (rc != SW_OK)
        return rc;
    ret->n = sw_buf_len(&b);
    ret->p = sw_buf_take_str(&b);
    return SW_OK;
}

int sw_file_write(const char *path, struct sw_slice content, mode_t mode, bool replace,
                  struct sw_err *err)
{
    SW_AUTO_FREE char *tmp =
        sw_asprintf("%s.%0*x" TMP_SUFFIX, path, TMP_DIGITS, (unsigned)sw_rand_u64());
    SW_AUTO_FD fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = SW_OK;

    if (fd < 0)
        return sw_err_sys(err, errno, "cannot write '%s'", path);
    if (fchmod(fd, mode) != 0 || sw_fd_write_all(fd, content) != SW_OK || fsync(fd) != 0) {
        rc = sw_err_sys(err, errno, "cannot write '%s'", path);
    } else if (replace) {
        if (rename(tmp, path) != 0)
            rc = sw_err_sys(err, errno, "cannot write '%s'", path);
    } else if (link(tmp, path) != 0) {
        /* link, unlike rename, refuses to replace: no moment between looking and writing. */
        if (errno == EEXIST)
            rc = sw_err_set(err, SW_EINVAL, "'%s' already exists", path);
        else
            rc = sw_err_sys(err, errno, "cannot write '%s'", path);
    }
    if (rc != SW_OK || !replace)
        (void)unlink(tmp);
    return rc;
}

/* A name that sw_file_write gives to what it has not finished. */
static bool is_temporary(struct sw_slice name)
{
    const size_t tail = 1 + TMP_DIGITS + strlen(TMP_SUFFIX);

    if (name.n <= tail || !sw_slice_has_suffix(name, SW_SLICE_LIT(TMP_SUFFIX)))
        return false;
    name = sw_slice_from(name, name.n - tail);
    for (size_t i = 1; i <= TMP_DIGITS; i++) {
        if (!memchr("0123456789abcdef", name.p[i], 16))
            return false;
    }
    return name.p[0] == '.';
}

void sw_file_remove_temporary(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *e;

    while (d && (e = readdir(d)) != NULL) {
        if (is_temporary(sw_slice_str(e->d_name)))
            (void)unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d)
        (void)closedir(d);
}
