/* SPDX-License-Identifier: Apache-2.0 */
/* What is done to the files of a database without SQLite. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/db_int.h"

int sw_db_check_header(const char *path, struct sw_err *err)
{
    unsigned char h[100];
    SW_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    ssize_t n;

    if (fd < 0)
        return sw_err_sys(err, errno, "cannot open '%s'", path);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return sw_err_set(err, SW_EINVAL, "'%s' is not a regular file", path);
    n = pread(fd, h, sizeof(h), 0);
    if (n < 0)
        return sw_err_sys(err, errno, "cannot read '%s'", path);
    if ((size_t)n < sizeof(h))
        return sw_err_set(err, SW_EINVAL, "'%s' is damaged: cut to %zd bytes", path, n);
    if (memcmp(h, "SQLite format 3", 16) != 0)
        return sw_err_set(err, SW_EINVAL, "'%s' is not a store (not an SQLite file)", path);
    if (memcmp(h + 68, "SpWs", 4) != 0)
        return sw_err_set(err, SW_EINVAL, "'%s' is not a store (it belongs to another program)",
                          path);
    return SW_OK;
}

void sw_db_remove_side_files(const char *path)
{
    static const char *const suffix[] = {"-wal", "-shm", "-journal"};

    for (size_t i = 0; i < SW_ARRAY_LEN(suffix); i++) {
        SW_AUTO_FREE char *name = sw_asprintf("%s%s", path, suffix[i]);

        (void)unlink(name);
    }
}

int sw_db_touch(const char *path, struct sw_err *err)
{
    int fd;

    (void)unlink(path);
    sw_db_remove_side_files(path);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0)
        return sw_err_sys(err, errno, "cannot create '%s'", path);
    (void)close(fd);
    return SW_OK;
}

int sw_db_sync_dir(const char *path, struct sw_err *err)
{
    const char *slash = strrchr(path, '/');
    SW_AUTO_FREE char *dir = slash ? sw_strndup(path, (size_t)(slash - path) + 1) : sw_strdup(".");
    SW_AUTO_FD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 || fsync(fd) != 0)
        return sw_err_sys(err, errno, "cannot sync the directory of '%s'", path);
    return SW_OK;
}

int sw_db_rename(const char *from, const char *to, struct sw_err *err)
{
    SW_AUTO_FD fd = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 || fsync(fd) != 0)
        return sw_err_sys(err, errno, "cannot sync '%s'", from);
    if (rename(from, to) != 0)
        return sw_err_sys(err, errno, "cannot rename '%s' to '%s'", from, to);
    return sw_db_sync_dir(to, err);
}
