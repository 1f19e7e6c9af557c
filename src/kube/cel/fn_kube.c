/* SPDX-License-Identifier: Apache-2.0 */
/* Named formats of the Kubernetes extensions. */
#include <string.h>

#include "kube/cel/fn.h"
#include "kube/names.h"
#include "kube/schema/schema.h"

static struct sw_name_msgs date_msgs(struct sw_slice s)
{
    struct sw_name_msgs m = {0};

    if (!sw_format_ok(SW_SLICE_LIT("date"), s, NULL))
        m.p[m.n++] = "invalid date";
    return m;
}

#define FORMAT_CHECK(fn, name, text)                                                               \
    static struct sw_name_msgs fn(struct sw_slice s)                                               \
    {                                                                                              \
        struct sw_name_msgs m = {0};                                                               \
                                                                                                   \
        if (!sw_format_ok(SW_SLICE_LIT(name), s, NULL))                                            \
            m.p[m.n++] = text;                                                                     \
        return m;                                                                                  \
    }
FORMAT_CHECK(uri_msgs, "uri", "invalid URI reference")
FORMAT_CHECK(uuid_msgs, "uuid", "does not match the UUID format")
FORMAT_CHECK(byte_msgs, "byte", "invalid base64")
FORMAT_CHECK(datetime_msgs, "date-time", "invalid datetime")

/* The forms for prefixes of generated names: a trailing dash is fine. */
#define PREFIX_CHECK(fn, check)                                                                    \
    static struct sw_name_msgs fn(struct sw_slice s)                                               \
    {                                                                                              \
        SW_ARENA_AUTO tmp = {0};                                                                   \
        char *p = sw_arena_dup(&tmp, s);                                                           \
                                                                                                   \
        if (s.n > 1 && p[s.n - 1] == '-')                                                          \
            p[s.n - 1] = 'a';                                                                      \
        return check(sw_slice(p, s.n));                                                            \
    }
PREFIX_CHECK(label_prefix, sw_name_dns1123_label)
PREFIX_CHECK(subdomain_prefix, sw_name_dns1123_subdomain)
PREFIX_CHECK(dns1035_prefix, sw_name_dns1035_label)

static const struct {
    const char *name;
    sw_name_fn check;
} formats[] = {
    {"format.dns1123LabelPrefix", label_prefix},
    {"format.dns1123SubdomainPrefix", subdomain_prefix},
    {"format.dns1035LabelPrefix", dns1035_prefix},
    {"format.dns1123Label", sw_name_dns1123_label},
    {"format.dns1123Subdomain", sw_name_dns1123_subdomain},
    {"format.dns1035Label", sw_name_dns1035_label},
    {"format.qualifiedName", sw_name_label_key},
    {"format.labelValue", sw_name_label_value},
    {"format.uri", uri_msgs},
    {"format.uuid", uuid_msgs},
    {"format.byte", byte_msgs},
    {"format.date", date_msgs},
    {"format.datetime", datetime_msgs},
};

FN(format)
{
    return (struct cel_val){.k = CEL_FORMAT, .s = n->name};
}

/* format.named("uuid") */
FN(named)
{
    NEED_STRINGS(1);
    for (size_t i = 0; i < SW_ARRAY_LEN(formats); i++) {
        if (sw_slice_eq_str(a[0].s, formats[i].name + strlen("format.")))
            return cel_some(env,
                            (struct cel_val){.k = CEL_FORMAT, .s = sw_slice_str(formats[i].name)});
    }
    return (struct cel_val){.k = CEL_OPTIONAL};
}

FN(validate)
{
    struct cel_val list = cel_new_list(env);

    if (a[0].k != CEL_FORMAT || a[1].k != CEL_STRING)
        return cel_error(env, "no such overload");
    charge(env, a[1].s.n);
    for (size_t i = 0; i < SW_ARRAY_LEN(formats); i++) {
        struct sw_name_msgs m = {0};

        if (sw_slice_eq_str(a[0].s, formats[i].name))
            m = formats[i].check(a[1].s);
        for (size_t j = 0; j < m.n; j++)
            cel_push(env, &list, cel_string(sw_slice_str(m.p[j])));
    }
    if (!list.lst->n)
        return (struct cel_val){.k = CEL_OPTIONAL};
    return cel_some(env, list);
}
