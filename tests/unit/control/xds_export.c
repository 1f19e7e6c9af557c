/* SPDX-License-Identifier: Apache-2.0 */
#include "xds_export.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <proto/discovery.pb-c.h>
#include <proto/google.pb-c.h>

#include "base/arena.h"
#include "proto/pb.h"
#include "proto/types.h"

static void write_file(const char *path, struct sw_slice s)
{
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    assert_int_equal(fwrite(s.p, 1, s.n, f), s.n);
    assert_int_equal(fclose(f), 0);
}

static void export_type(const char *dir, const char *name, const struct sw_model_resources *r,
                        const char *type)
{
    SW_ARENA_AUTO a = {0};
    Sw__DiscoveryResponse *d = SW_PB_NEW(&a, Sw__DiscoveryResponse, sw__discovery_response);

    d->resources = sw_arena_array(&a, r->n + 1, sizeof(*d->resources));
    d->type_url = SW_PB_BYTES(sw_slice_str(type));
    for (size_t i = 0; i < r->n; i++) {
        Sw__Any *any;

        if (strcmp(r->p[i].type, type) != 0)
            continue;
        any = SW_PB_NEW(&a, Sw__Any, sw__any);
        any->type_url = d->type_url;
        any->value = SW_PB_BYTES(r->p[i].value);
        d->resources[d->n_resources++] = any;
    }
    write_file(sw_arena_printf(&a, "%s/%s.%s.pb", dir, name, strrchr(type, '.') + 1),
               sw_pb_pack(&a, &d->base));
}

void xds_export(const char *dir, const char *name, const struct sw_model_resources *r)
{
    static const char *const types[] = {SW_TYPE_CLUSTER, SW_TYPE_ENDPOINT, SW_TYPE_LISTENER,
                                        SW_TYPE_ROUTE, SW_TYPE_SECRET};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        export_type(dir, name, r, types[i]);
}
