/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dirs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

enum { PATH_MAX_OURS = 4000 };

static int make_dir(const char *path, struct sw_err *err)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return SW_OK;
    return sw_err_sys(err, errno, "cannot make directory '%s'", path);
}

int sw_make_dirs(const char *path, struct sw_err *err)
{
    SW_AUTO_FREE char *part = NULL;
    size_t n = strlen(path);

    if (n == 0 || n > PATH_MAX_OURS)
        return sw_err_set(err, SW_EINVAL, "the path of a directory is %s",
                          n ? "too long" : "empty");
    part = sw_strdup(path);
    for (char *p = part + 1; *p; p++) {
        int rc;

        if (*p != '/')
            continue;
        *p = '\0';
        rc = make_dir(part, err);
        if (rc != SW_OK)
            return rc;
        *p = '/';
    }
    return make_dir(part, err);
}

const char *sw_dir_next(DIR *d)
{
    const struct dirent *e = d ? readdir(d) : NULL;

    return e ? e->d_name : NULL;
}

void sw_dir_close_indirect(DIR *const *d)
{
    if (*d)
        (void)closedir(*d);
}
