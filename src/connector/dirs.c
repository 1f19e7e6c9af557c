/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/dirs.h"

#include <stdlib.h>

#include "base/mem.h"

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
