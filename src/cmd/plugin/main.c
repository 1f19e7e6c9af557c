/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CNI plugin as a program of its own, linked statically: it runs on the host, which has other
 * libraries than the image of the node agent, or none.
 */
#include <stdio.h>

#include "cni/plugin/plugin.h"

int main(int argc, char **argv)
{
    if (argc == 1 && sw_cni_called())
        return sw_cni_plugin();
    (void)fprintf(stderr, SW_CNI_PLUGIN " " SW_VERSION ": a container runtime runs this program, "
                                        "see spanwire-cni(8)\n");
    return 1;
}
