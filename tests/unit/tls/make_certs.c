/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates for interop.py: a root, two workloads, and a root nobody trusts. */
#include <stdio.h>

#include "base/file.h"
#include "base/mem.h"
#include "tls/cert/ca.h"

static int put(const char *dir, const char *name, struct sw_slice content)
{
    SW_AUTO_FREE char *path = sw_asprintf("%s/%s", dir, name);

    return sw_file_write(path, content, 0600, true, NULL);
}

static int issue(const struct sw_ca *ca, const char *dir, const char *id, const char *crt_name,
                 const char *key_name)
{
    SW_BUF_AUTO crt = {.max = SW_TLS_PEM_MAX};
    SW_BUF_AUTO key = {.max = SW_TLS_PEM_MAX};

    if (sw_ca_issue(ca, &(struct sw_ca_leaf){.id = sw_slice_str(id)}, &crt, &key, NULL) != SW_OK)
        return SW_EINVAL;
    return put(dir, crt_name, sw_buf_slice(&crt)) == SW_OK ? put(dir, key_name, sw_buf_slice(&key))
                                                           : SW_EINVAL;
}

int main(int argc, char **argv)
{
    const struct sw_slice td = SW_SLICE_LIT("cluster.local");
    struct sw_ca *ca = sw_ca_new(td, 0, NULL);
    struct sw_ca *other = sw_ca_new(td, 0, NULL);
    int rc = argc == 2 && ca && other ? SW_OK : SW_EINVAL;

    if (rc == SW_OK)
        rc = put(argv[1], "root.crt", sw_ca_root_pem(ca));
    if (rc == SW_OK) {
        SW_AUTO_FREE char *dir = sw_asprintf("%s/ca", argv[1]);

        rc = sw_ca_save(ca, dir, NULL);
    }
    if (rc == SW_OK)
        rc = put(argv[1], "other.crt", sw_ca_root_pem(other));
    if (rc == SW_OK)
        rc = issue(ca, argv[1], "spiffe://cluster.local/ns/n/sa/a", "a.crt", "a.key");
    if (rc == SW_OK)
        rc = issue(ca, argv[1], "spiffe://cluster.local/ns/n/sa/b", "b.crt", "b.key");
    sw_ca_free(ca);
    sw_ca_free(other);
    return rc == SW_OK ? 0 : 1;
}
