/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/cert/pemfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/file.h"
#include "base/mem.h"

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

static const struct sw_slice begin = SW_SLICE_LIT("-----BEGIN CERTIFICATE-----");
static const struct sw_slice end = SW_SLICE_LIT("-----END CERTIFICATE-----");

int sw_pem_next_cert(struct sw_slice *rest, struct sw_slice *ret)
{
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

struct sw_slice sw_pem_leaf_der(struct sw_arena *a, struct sw_slice pem)
{
    struct sw_slice cert;
    SW_BUF_AUTO text = {.max = pem.n};
    SW_BUF_AUTO der = {.max = pem.n};

    if (sw_pem_next_cert(&pem, &cert) != SW_OK)
        return sw_slice("", 0);
    for (size_t i = begin.n; i < cert.n - end.n; i++) {
        if (cert.p[i] > ' ' && sw_buf_putc(&text, cert.p[i]) != SW_OK)
            return sw_slice("", 0);
    }
    if (sw_base64_decode(&der, sw_buf_slice(&text)) != SW_OK)
        return sw_slice("", 0);
    return sw_arena_slice(a, sw_buf_slice(&der));
}

bool sw_pemfile_same(const char *a, const char *b)
{
    struct stat x;
    struct stat y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
