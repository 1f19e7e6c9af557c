/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/write.h"

#include <stdio.h>

/* False: an empty list is left out. */
static bool begin_list(struct sw_jw *j, const char *key, size_t n)
{
    if (n == 0)
        return false;
    sw_jw_put_array(j, key);
    return true;
}

static void put_strings(struct sw_jw *j, const char *key, const struct sw_strmatch_list *l)
{
    static const char *const kinds[] = {"Exact", "Prefix", "Suffix", "Presence"};

    if (!begin_list(j, key, l->n))
        return;
    for (size_t i = 0; i < l->n; i++) {
        sw_jw_object(j);
        sw_jw_name(j, kinds[l->p[i].kind]);
        if (l->p[i].kind == SW_STRMATCH_PRESENCE) {
            sw_jw_array(j);
            sw_jw_array_end(j);
        } else {
            sw_jw_string(j, l->p[i].text);
        }
        sw_jw_object_end(j);
    }
    sw_jw_array_end(j);
}

static void put_accounts(struct sw_jw *j, const char *key, const struct sw_sa_match_list *l)
{
    if (!begin_list(j, key, l->n))
        return;
    for (size_t i = 0; i < l->n; i++) {
        sw_jw_object(j);
        sw_jw_put_string(j, "namespace", l->p[i].ns);
        sw_jw_put_string(j, "serviceAccount", l->p[i].sa);
        sw_jw_object_end(j);
    }
    sw_jw_array_end(j);
}

static void put_cidrs(struct sw_jw *j, const char *key, const struct sw_cidr_list *l)
{
    if (!begin_list(j, key, l->n))
        return;
    for (size_t i = 0; i < l->n; i++) {
        char ip[SW_IP_TEXT];
        char text[SW_IP_TEXT + 8];

        (void)snprintf(text, sizeof(text), "%s/%u", sw_ip_text(&l->p[i].ip, ip), l->p[i].len);
        sw_jw_str(j, text);
    }
    sw_jw_array_end(j);
}

static void put_ports(struct sw_jw *j, const char *key, const struct sw_port_list *l)
{
    if (!begin_list(j, key, l->n))
        return;
    for (size_t i = 0; i < l->n; i++)
        sw_jw_u64(j, l->p[i]);
    sw_jw_array_end(j);
}

static void put_match(struct sw_jw *j, const struct sw_policy_match *m)
{
    sw_jw_object(j);
#define PUT(put, list, key, not_key)                                                               \
    put(j, key, &m->list);                                                                         \
    put(j, not_key, &m->not_##list);
    SW_POLICY_LISTS(PUT, put_strings, put_accounts, put_cidrs, put_ports)
#undef PUT
    sw_jw_object_end(j);
}

void sw_policy_write_rules(struct sw_jw *j, const struct sw_policy *p)
{
    sw_jw_array(j);
    for (size_t r = 0; r < p->n; r++) {
        sw_jw_array(j);
        for (size_t c = 0; c < p->rules[r].n; c++) {
            const struct sw_policy_clause *clause = &p->rules[r].clauses[c];

            sw_jw_array(j);
            for (size_t m = 0; m < clause->n; m++)
                put_match(j, &clause->matches[m]);
            sw_jw_array_end(j);
        }
        sw_jw_array_end(j);
    }
    sw_jw_array_end(j);
}
