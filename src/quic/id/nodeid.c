/* SPDX-License-Identifier: Apache-2.0 */
#include "quic/id/nodeid.h"

#include "base/hex.h"
#include "quic/id/base32.h"

static char *hex(const uint8_t *p, size_t n, char *out)
{
    *sw_hex_write(out, p, n) = 0;
    return out;
}

char *sw_nodeid_hex(const struct sw_nodeid *id, char out[SW_NODEID_HEX])
{
    return hex(id->b, SW_NODEID_LEN, out);
}

char *sw_nodeid_short(const struct sw_nodeid *id, char out[SW_NODEID_SHORT])
{
    return hex(id->b, 5, out);
}

static char *base32(const char *alphabet, const struct sw_nodeid *id, char out[SW_NODEID_B32])
{
    sw_base32_write(alphabet, id->b, SW_NODEID_LEN, out);
    out[SW_NODEID_B32 - 1] = 0;
    return out;
}

char *sw_nodeid_z32(const struct sw_nodeid *id, char out[SW_NODEID_B32])
{
    return base32(sw_base32_z, id, out);
}

char *sw_nodeid_b32(const struct sw_nodeid *id, char out[SW_NODEID_B32])
{
    return base32(sw_base32_rfc4648, id, out);
}

static int judge(bool well_formed, const struct sw_nodeid *id, struct sw_nodeid *ret,
                 struct sw_err *err)
{
    if (!well_formed)
        return sw_err_set(err, SW_EINVAL, "not a NodeID");
    if (!sw_nodeid_valid(id))
        return sw_err_set(err, SW_EINVAL, "the NodeID is not a valid Ed25519 key");
    *ret = *id;
    return SW_OK;
}

int sw_nodeid_parse(struct sw_slice in, struct sw_nodeid *ret, struct sw_err *err)
{
    struct sw_nodeid id = {0};
    bool ok = false;

    if (in.n == SW_NODEID_HEX - 1)
        ok = sw_hex_read_lower(in, id.b, SW_NODEID_LEN);
    else if (in.n == SW_NODEID_B32 - 1)
        ok = sw_base32_read(sw_base32_rfc4648, true, in, id.b);
    return judge(ok, &id, ret, err);
}

int sw_nodeid_parse_z32(struct sw_slice in, struct sw_nodeid *ret, struct sw_err *err)
{
    struct sw_nodeid id = {0};
    bool ok = in.n == SW_NODEID_B32 - 1 && sw_base32_read(sw_base32_z, false, in, id.b);

    return judge(ok, &id, ret, err);
}
