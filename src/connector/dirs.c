/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/dirs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

enum { PATH_MAX_OURS = 4000 };

int sw_make_dirs(const char *path, struct sw_err *err)
{
    SW_AUTO_FREE char *part = sw_strdup(path);

    if (strlen(path) > PATH_MAX_OURS)
        return sw_err_set(err, SW_EINVAL, "the path is too long");
    for (char *p = part + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return sw_err_sys(err, errno, "%s", part);
        *p = '/';
    }
    if (mkdir(part, 0700) != 0 && errno != EEXIST)
        return sw_err_sys(err, errno, "%s", part);
    return SW_OK;
}

char *sw_default_data(void)
{
    const char *xdg = getenv("XDG_DATA_HOME"); /* NOLINT(concurrency-mt-unsafe): at the start */
    const char *home = getenv("HOME");         /* NOLINT(concurrency-mt-unsafe) */

    if (xdg && *xdg == '/')
        return sw_asprintf("%s/spanwire/connector", xdg);
    if (home && *home == '/')
        return sw_asprintf("%s/.local/share/spanwire/connector", home);
    return sw_strdup("spanwire-connector");
}
