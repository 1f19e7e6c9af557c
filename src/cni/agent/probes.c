/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/agent/probes.h"

#include "cni/redirect.h"

#define TABLE  "inet spanwire-probes"
#define REMOVE "table " TABLE "\ndelete table " TABLE "\n"

struct sw_slice sw_probes_removal(void)
{
    return SW_SLICE_LIT(REMOVE);
}

static int put_set(struct sw_buf *out, int family, const struct sw_probe_target *targets, size_t n)
{
    bool some = false;
    int rc =
        sw_buf_printf(out, "\tset pods%d {\n\t\ttype ipv%d_addr . inet_service;\n", family, family);

    for (size_t i = 0; i < n && rc == SW_OK; i++) {
        char ip[SW_IP_TEXT];

        if (targets[i].ip.family != family)
            continue;
        rc = sw_buf_printf(out, "%s%s . %u", some ? ", " : "\t\telements = { ",
                           sw_ip_text(&targets[i].ip, ip), targets[i].port);
        some = true;
    }
    if (rc == SW_OK)
        rc = sw_buf_append_str(out, some ? " }\n\t}\n" : "\t}\n");
    return rc;
}

static int put_rule(struct sw_buf *out, const char *family, unsigned uid, const char *set,
                    const struct sw_ip *source)
{
    char ip[SW_IP_TEXT];

    return sw_buf_printf(out, "\t\tmeta skuid %u %s daddr . tcp dport @%s snat %s to %s\n", uid,
                         family, set, family, sw_ip_text(source, ip));
}

int sw_probes_script(unsigned uid, const struct sw_probe_target *targets, size_t n,
                     struct sw_buf *out)
{
    struct sw_redirect defaults;
    int rc = sw_buf_append_str(out, REMOVE "table " TABLE " {\n");

    sw_redirect_init(&defaults);
    rc = rc == SW_OK ? put_set(out, 4, targets, n) : rc;
    rc = rc == SW_OK ? put_set(out, 6, targets, n) : rc;
    /* Before masquerading, which would take the node's address. */
    if (rc == SW_OK)
        rc = sw_buf_append_str(out, "\tchain postrouting {\n\t\ttype nat hook postrouting "
                                    "priority 90; policy accept;\n");
    rc = rc == SW_OK ? put_rule(out, "ip", uid, "pods4", &defaults.probe4) : rc;
    rc = rc == SW_OK ? put_rule(out, "ip6", uid, "pods6", &defaults.probe6) : rc;
    return rc == SW_OK ? sw_buf_append_str(out, "\t}\n}\n") : rc;
}
