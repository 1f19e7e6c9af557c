/* SPDX-License-Identifier: Apache-2.0 */
#include "sidecar/sidecar.h"
#include "cmd/cmd.h"

int sw_cmd_sidecar(int argc, char **argv)
{
    struct sw_sidecar_config c;
    struct sw_err err = {0};
    int rc = sw_sidecar_config_read(&c, argc, argv, &err);
    int status;

    if (rc == SW_OK)
        rc = sw_cmd_start_log(c.process.log_level, c.process.log_format, &err);
    if (rc == SW_OK)
        rc = sw_sidecar_run(&c, true, NULL, NULL, &err);
    status = sw_cmd_end(&sw_sidecar_options, rc, &err);
    sw_sidecar_config_done(&c);
    return status;
}
