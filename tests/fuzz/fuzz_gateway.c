/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manifests of any shape through the gateway's build. The API validates objects against their
 * definitions, but a controller may meet an older or a looser one: nothing in them may crash the
 * build, every model keeps its promises, the order of objects is of no importance, and statuses
 * once written are not wanted again.
 */
#include <stdlib.h>
#include <string.h>

/* The rig of the unit tests, which has everything but a library to live in. */
#include "../unit/control/gateway_rig.c"

static const char base[] =
    "apiVersion: gateway.networking.k8s.io/v1\n"
    "kind: GatewayClass\n"
    "metadata: {name: sw}\n"
    "spec: {controllerName: spanwire.dev/gateway}\n"
    "---\n"
    "apiVersion: gateway.networking.k8s.io/v1\n"
    "kind: Gateway\n"
    "metadata: {name: base, namespace: app, generation: 1}\n"
    "spec: {gatewayClassName: sw, listeners: [{name: h, port: 80, protocol: HTTP}]}\n"
    "---\n"
    "apiVersion: v1\n"
    "kind: Service\n"
    "metadata: {name: web, namespace: app}\n"
    "spec: {ports: [{port: 80}, {name: dns, port: 53, protocol: UDP}]}\n"
    "---\n"
    "apiVersion: v1\n"
    "kind: Secret\n"
    "metadata: {name: cert, namespace: app}\n"
    "stringData:\n"
    "  tls.crt: \"-----BEGIN CERTIFICATE-----\\nMAMCAQE=\\n-----END CERTIFICATE-----\\n\"\n"
    "  tls.key: \"-----BEGIN PRIVATE KEY-----\\nMAMCAQI=\\n-----END PRIVATE KEY-----\\n\"\n"
    "---\n"
    "apiVersion: networking.k8s.io/v1\n"
    "kind: IngressClass\n"
    "metadata: {name: sw}\n"
    "spec: {controller: spanwire.dev/ingress}\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct rig *rig;

/* Two objects of one name cannot be in an API; which of them counts here is chance. */
static bool distinct(const struct rig *r)
{
    for (size_t k = 0; k < SW_ARRAY_LEN(r->n); k++) {
        for (size_t i = 0; i < r->n[k]; i++) {
            for (size_t j = 0; j < i; j++) {
                if (sw_slice_eq(r->objs[k][i]->key, r->objs[k][j]->key))
                    return false;
            }
        }
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *first;
    char *again;
    bool any;

    if (!rig)
        rig = rig_new();
    rig_clear(rig);
    if (n > 20000 || !rig_load_text(rig, sw_slice_str(base)) ||
        !rig_load_quiet(rig, sw_slice(data, n)) || !distinct(rig))
        return 0;
    first = rig_run(rig, NULL);
    rig_shuffle(rig, (unsigned)n);
    again = rig_run(rig, NULL);
    assert(strcmp(first, again) == 0);
    sw_free(again);
    sw_free(first);
    (void)rig_apply_statuses(rig, 1000000000);
    again = rig_run(rig, &any);
    assert(!any);
    sw_free(again);
    return 0;
}
