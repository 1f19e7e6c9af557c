/* SPDX-License-Identifier: Apache-2.0 */
#include "http/bearer.h"

#include "base/file.h"
#include "base/secret.h"
#include "http/grammar.h"

int sw_bearer_read(const char *path, struct sw_slice *ret, struct sw_err *err)
{
    struct sw_slice text = {0};
    struct sw_slice token;
    int rc = sw_file_read(path, SW_BEARER_MAX, &text, err);

    if (rc != SW_OK)
        return rc;
    token = sw_slice_trim(sw_slice_trim_lines(text));
    if (token.n == 0)
        rc = sw_err_set(err, SW_EINVAL, "'%s' is empty", path);
    else if (!sw_http_value_valid(token))
        rc = sw_err_set(err, SW_EINVAL, "'%s' holds bytes that no header field can carry", path);
    else
        *ret = sw_slice_copy(token);
    sw_slice_free_secret(&text);
    return rc;
}
