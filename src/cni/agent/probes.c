/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/agent/probes.h"

#include "cni/redirect.h"

#define TABLE  "inet spanwire-probes"
#define REMOVE "table " TABLE "\ndelete table " TABLE "\n"

struct sw_slice sw_probes_removal(void)
{
    return SW_SLICE_LIT(REMOVE);
}

static void put_set(struct sw_print *out, int family, const struct sw_probe_target *targets,
                    size_t n)
{
    bool some = false;

    sw_print_fmt(out, "\tset pods%d {\n\t\ttype ipv%d_addr . inet_service;\n", family, family);
    for (size_t i = 0; i < n; i++) {
        char ip[SW_IP_TEXT];

        if (targets[i].ip.family != family)
            continue;
        sw_print_fmt(out, "%s%s . %u", some ? ", " : "\t\telements = { ",
                     sw_ip_text(&targets[i].ip, ip), targets[i].port);
        some = true;
    }
    sw_print_str(out, some ? " }\n\t}\n" : "\t}\n");
}

static void put_rule(struct sw_print *out, const char *family, unsigned uid, const char *set,
                     const struct sw_ip *source)
{
    char ip[SW_IP_TEXT];

    sw_print_fmt(out, "\t\tmeta skuid %u %s daddr . tcp dport @%s snat %s to %s\n", uid, family,
                 set, family, sw_ip_text(source, ip));
}

int sw_probes_script(unsigned uid, const struct sw_probe_target *targets, size_t n,
                     struct sw_buf *out)
{
    struct sw_print p = {.to = out};
    struct sw_redirect defaults;

    sw_redirect_init(&defaults);
    sw_print_str(&p, REMOVE "table " TABLE " {\n");
    put_set(&p, 4, targets, n);
    put_set(&p, 6, targets, n);
    /* Before masquerading, which would take the node's address. */
    sw_print_str(&p, "\tchain postrouting {\n\t\ttype nat hook postrouting "
                     "priority 90; policy accept;\n");
    put_rule(&p, "ip", uid, "pods4", &defaults.probe4);
    put_rule(&p, "ip6", uid, "pods6", &defaults.probe6);
    sw_print_str(&p, "\t}\n}\n");
    return p.rc;
}
