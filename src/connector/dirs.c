/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/dirs.h"

#include <stdlib.h>

#include "base/mem.h"

char *sw_user_dir(const char *variable, const char *below_home)
{
    const char *dir = getenv(variable); /* NOLINT(concurrency-mt-unsafe): at the start */
    const char *home = getenv("HOME");  /* NOLINT(concurrency-mt-unsafe) */

    if (dir && *dir == '/')
        return sw_strdup(dir);
    return home && *home == '/' ? sw_asprintf("%s/%s", home, below_home) : NULL;
}

char *sw_default_data(void)
{
    SW_AUTO_FREE char *dir = sw_user_dir("XDG_DATA_HOME", ".local/share");

    return dir ? sw_asprintf("%s/spanwire/connector", dir) : sw_strdup("spanwire-connector");
}
