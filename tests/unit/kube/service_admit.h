/* SPDX-License-Identifier: Apache-2.0 */
/* Built-in kinds as the server admits them, Services with addresses and node ports. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "helper.h"
#include "kube/builtin/builtin.h"
#include "kube/builtin/service.h"

static inline const struct sw_builtin *kind(const char *group, const char *name)
{
    const struct sw_builtin *b = sw_builtin_kind(sw_slice_str(group), sw_slice_str(name));

    assert_non_null(b);
    return b;
}

/* Others have 10.96.0.99 and port 30099; the next free ones are 10.96.1.0 and 30000. */
static inline bool ip_taken(void *arg, struct sw_slice ip)
{
    (void)arg;
    return sw_slice_eq_str(ip, "10.96.0.99");
}

static inline bool port_taken(void *arg, uint16_t port)
{
    (void)arg;
    return port == 30099;
}

static inline uint64_t first(uint64_t bound)
{
    (void)bound;
    return 0;
}

static const struct sw_service_pool pool = {
    .ip_taken = ip_taken, .port_taken = port_taken, .random = first};

/* Decode, default, settle, validate; the errors, or why decoding failed. */
static inline const char *admit(struct sw_arena *a, const struct sw_builtin *b, struct sw_json *obj,
                                const struct sw_json *old)
{
    struct sw_field_errs e;
    const char *why = NULL;
    int rc;

    if (sw_builtin_decode(a, sw_builtin_schema(b->type), obj, NULL, &why) < 0)
        return why;
    sw_builtin_default(a, b, obj);
    sw_field_errs_init(&e, a);
    if (strcmp(b->type, "Service") == 0 &&
        (rc = sw_service_settle(a, obj, old, &pool, &e, &why)) != SW_OK)
        return rc == SW_ELIMIT ? why : t_errs(a, &e);
    sw_builtin_validate(b, obj, old, &e);
    return t_errs(a, &e);
}
