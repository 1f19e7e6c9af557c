/* SPDX-License-Identifier: Apache-2.0 */
#include "control/device/device.h"

#include "control/objects.h"

const char *sw_connector_lacks(const struct sw_json *connector, const char *capability,
                               const char **ret_why)
{
    bool tcp = sw_slice_eq_str(sw_slice_str(capability), "ConnectTCP");
    const struct sw_json *wanted = sw_json_walk(connector, "spec", "capabilities", NULL);
    const struct sw_json *list = sw_json_walk(connector, "status", "capabilities", NULL);
    const struct sw_json *said = cn_condition(list, capability); /* by "type", like conditions */
    const struct sw_json *ready = cn_condition(sw_json_find(said, "conditions"), "Ready");

    if (tcp && sw_json_true(sw_json_walk(cn_condition(wanted, capability), "connectTCP", "disabled",
                                         NULL))) {
        *ret_why = "has it turned off in its spec";
        return "CapabilityDisabled";
    }
    if (!said && !(tcp && !sw_json_len(list))) {
        *ret_why = "does not report it";
        return "CapabilityMissing";
    }
    /* TCP goes unless the device says no; anything else only when it says yes. */
    if (tcp ? sw_json_str_eq(sw_json_find(ready, "status"), "False")
            : !sw_json_str_eq(sw_json_find(ready, "status"), "True")) {
        *ret_why = "reports that it is not ready";
        return "CapabilityNotReady";
    }
    return NULL;
}

struct sw_slice sw_connector_target(struct sw_arena *a, struct sw_slice host, uint16_t port)
{
    bool v6 = sw_slice_find(host, ':') >= 0;

    return sw_slice_str(
        sw_arena_printf(a, "%s%.*s%s:%u", v6 ? "[" : "", SW_SLICE_ARG(host), v6 ? "]" : "", port));
}
