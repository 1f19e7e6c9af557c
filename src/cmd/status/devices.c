/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/status/devices.h"

#include <stdio.h>

#include "cmd/cmd.h"

static bool online(const struct sw_json *connector)
{
    const struct sw_json *list = sw_json_walk(connector, "status", "conditions", NULL);
    const struct sw_json *ready = sw_json_find_item(list, "type", SW_SLICE_LIT("Ready"));

    return sw_json_str_eq(sw_json_find(ready, "status"), "True");
}

struct sw_json *sw_status_devices(struct sw_arena *a, const struct sw_json *list)
{
    const struct sw_json *items = sw_json_find(list, "items");
    struct sw_json *out = sw_json_new_array(a);

    SW_JSON_ITEMS (o, items) {
        const struct sw_json *paths = sw_json_walk(o, "status", "connectionDetails", "paths", NULL);
        struct sw_json *row = sw_json_new_object(a);

        sw_json_put_str(a, row, "namespace",
                        sw_json_str(sw_json_walk(o, "metadata", "namespace", NULL)));
        sw_json_put_str(a, row, "name", sw_json_str(sw_json_walk(o, "metadata", "name", NULL)));
        sw_json_put(a, row, "online", sw_json_new_bool(a, online(o)));
        sw_json_put(a, row, "paths", paths ? sw_json_copy(a, paths) : sw_json_new_array(a));
        sw_json_push(a, out, row);
    }
    return out;
}

static void print_path(const struct sw_json *row, const struct sw_json *path)
{
    bool up = sw_json_true(sw_json_find(row, "online"));
    struct sw_slice gateway = sw_json_str(sw_json_find(path, "gateway"));
    struct sw_slice note = sw_json_str(sw_json_find(path, "note"));
    int64_t rtt = 0;

    sw_cmd_print_cell(sw_json_str(sw_json_find(row, "namespace")), 20);
    sw_cmd_print_cell(sw_json_str(sw_json_find(row, "name")), 28);
    sw_cmd_print_cell(sw_slice_str(up ? "yes" : "NO"), 6);
    sw_cmd_print_cell(sw_slice_head(gateway, 10), 10);
    sw_cmd_print_cell(path ? sw_json_str(sw_json_find(path, "type")) : SW_SLICE_LIT("-"), 6);
    sw_cmd_print_cell(path ? sw_json_str(sw_json_find(path, "address")) : SW_SLICE_LIT(""), 40);
    if (path && sw_json_i64(sw_json_find(path, "roundTripMicroseconds"), &rtt))
        printf("%7.1f ms ", (double)rtt / 1000);
    if (note.n)
        sw_cmd_print_cell(note, 0);
    (void)putchar('\n');
}

void sw_status_print_devices(const struct sw_json *devices)
{
    if (sw_json_len(devices))
        printf("%-20s %-28s %-6s %-10s %-6s %-40s %s %s\n", "NAMESPACE", "DEVICE", "ONLINE",
               "GATEWAY", "PATH", "ADDRESS", "ROUND TRIP", "WHY NOT DIRECT");
    SW_JSON_ITEMS (row, devices) {
        const struct sw_json *paths = sw_json_find(row, "paths");

        if (!sw_json_len(paths))
            print_path(row, NULL);
        SW_JSON_ITEMS (it, paths)
            print_path(row, it);
    }
}
