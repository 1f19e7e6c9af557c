/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's standard input, and network configurations: what is taken can be answered and edited.
 */
#include <assert.h>

#include "cni/install/conflist.h"
#include "cni/plugin/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_request(struct sw_slice in)
{
    static const struct sw_cni_env env = {"ADD", "id", "/n", "eth0",
                                          "K8S_POD_NAMESPACE=a;K8S_POD_NAME=b"};
    SW_ARENA_AUTO a = {0};
    struct sw_cni_request r;
    enum sw_cni_code code;
    struct sw_json *out = NULL;
    struct sw_err err = {0};

    if (sw_cni_request_parse(&a, &env, in, &r, &code, &err) != SW_OK) {
        assert(code != SW_CNI_OK && err.msg[0]);
        return;
    }
    (void)sw_cni_passes(&r);
    (void)sw_cni_agent_body(&a, &r);
    if (sw_cni_result(&a, &r, &out, &err) == SW_OK)
        assert(sw_slice_eq(sw_json_str(sw_json_find(out, "cniVersion")), r.version));
}

static void check_conflist(struct sw_slice in)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *plugin = sw_json_new_object(&a);
    struct sw_slice out;
    bool list;
    bool found;

    sw_json_put_str(&a, plugin, "type", SW_SLICE_LIT("spanwire-cni"));
    if (sw_conflist_insert(&a, in, plugin, &out, &list, NULL) != SW_OK)
        return;
    assert(sw_conflist_valid(in) && sw_conflist_has(out, plugin));
    assert(sw_conflist_remove(&a, out, "spanwire-cni", &out, &found, NULL) == SW_OK && found);
    assert(!sw_conflist_has(out, plugin));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    check_request(sw_slice(data, n));
    check_conflist(sw_slice(data, n));
    return 0;
}
