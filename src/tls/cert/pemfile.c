/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/cert/pemfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rand.h"

int sw_pemfile_read(const char *path, struct sw_buf *out, struct sw_err *err)
{
    /* O_NONBLOCK: a FIFO under this name must not hang us. */
    SW_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;

    if (fd < 0 && errno == ENOENT)
        return sw_err_set(err, SW_ENOENT, "'%s' does not exist", path);
    if (fd < 0)
        return sw_err_sys(err, errno, "cannot open '%s'", path);
    if (fstat(fd, &st) != 0)
        return sw_err_sys(err, errno, "cannot read '%s'", path);
    if (!S_ISREG(st.st_mode))
        return sw_err_set(err, SW_EINVAL, "'%s' is not a regular file", path);
    return sw_fd_read_all(fd, path, out, err);
}

int sw_pem_next_cert(struct sw_slice *rest, struct sw_slice *ret)
{
    static const struct sw_slice begin = SW_SLICE_LIT("-----BEGIN CERTIFICATE-----");
    static const struct sw_slice end = SW_SLICE_LIT("-----END CERTIFICATE-----");
    const char *from = rest->n ? memmem(rest->p, rest->n, begin.p, begin.n) : NULL;
    struct sw_slice tail;
    const char *to;

    if (!from)
        return SW_ENOENT;
    tail = sw_slice_from(*rest, (size_t)(from - rest->p));
    to = memmem(tail.p, tail.n, end.p, end.n);
    if (!to)
        return SW_EINVAL;
    *ret = sw_slice_head(tail, (size_t)(to - from) + end.n);
    *rest = sw_slice_from(tail, ret->n);
    return SW_OK;
}

bool sw_pemfile_same(const char *a, const char *b)
{
    struct stat x;
    struct stat y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
