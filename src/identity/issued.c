/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/issued.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/time.h"

enum { LINE_MAX_BYTES = 8192, DEFAULT_MAX = 16 << 20 };

struct sw_issued {
    char *path;
    int fd;
    size_t bytes;
    size_t max;
    bool torn; /* the last line is not complete: the disk was full, or the program ended */
};

static int open_file(struct sw_issued *s, struct sw_err *err)
{
    struct stat st;

    char last = '\n';

    s->fd = open(s->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (s->fd < 0 || fstat(s->fd, &st) != 0 ||
        (st.st_size && pread(s->fd, &last, 1, st.st_size - 1) != 1))
        return sw_err_sys(err, errno, "cannot open '%s'", s->path);
    s->bytes = (size_t)st.st_size;
    s->torn = last != '\n';
    return SW_OK;
}

struct sw_issued *sw_issued_open(const char *path, size_t max_bytes, struct sw_err *err)
{
    struct sw_issued *s = SW_NEW(struct sw_issued);

    s->path = sw_strdup(path);
    s->max = max_bytes ? max_bytes : DEFAULT_MAX;
    if (open_file(s, err) == SW_OK)
        return s;
    sw_issued_close(s);
    return NULL;
}

void sw_issued_close(struct sw_issued *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        (void)close(s->fd);
    sw_free(s->path);
    sw_free(s);
}

static int rotate(struct sw_issued *s, struct sw_err *err)
{
    char *old SW_AUTO_FREE = sw_asprintf("%s.1", s->path);

    if (s->bytes < s->max)
        return SW_OK;
    if (rename(s->path, old) != 0)
        return sw_err_sys(err, errno, "cannot rename '%s'", s->path);
    (void)close(s->fd);
    return open_file(s, err);
}

static int write_line(struct sw_buf *b, const struct sw_issued_cert *c)
{
    struct sw_jw w;

    sw_jw_begin(&w, b, NULL);
    sw_jw_object(&w);
    sw_jw_put_u64(&w, "time", sw_wall_ns() / SW_NS_PER_S);
    sw_jw_put_string(&w, "serial", c->serial);
    sw_jw_put_string(&w, "identity", c->id);
    sw_jw_put_string(&w, "requester", c->requester);
    sw_jw_put_u64(&w, "notAfter", c->not_after_s);
    sw_jw_object_end(&w);
    return sw_jw_end(&w) == SW_OK ? sw_buf_putc(b, '\n') : SW_ELIMIT;
}

int sw_issued_add(struct sw_issued *s, const struct sw_issued_cert *c, struct sw_err *err)
{
    SW_BUF_AUTO b = {.max = LINE_MAX_BYTES};
    int rc = s->fd < 0 ? open_file(s, err) : rotate(s, err);
    ssize_t n;

    if (rc != SW_OK)
        return rc;
    if ((s->torn && sw_buf_putc(&b, '\n') != SW_OK) || write_line(&b, c) != SW_OK)
        return sw_err_set(err, SW_ELIMIT, "the record of a certificate is too long");
    n = write(s->fd, sw_buf_data(&b), sw_buf_len(&b));
    if (n < 0)
        return sw_err_sys(err, errno, "cannot write '%s'", s->path);
    s->bytes += (size_t)n;
    s->torn = n != (ssize_t)sw_buf_len(&b);
    return s->torn ? sw_err_sys(err, ENOSPC, "cannot write '%s'", s->path) : SW_OK;
}
