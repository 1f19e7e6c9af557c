/* SPDX-License-Identifier: Apache-2.0 */
/* What other ports and controllers of the same process need of the API server. */
#include "apiserver/api/api.h"
#include "apiserver/auth/auth.h"
#include "apiserver/server.h"
#include "apiserver/verbs/verbs.h"

struct sw_tls_cred *sw_api_cred(const struct sw_api *a)
{
    return a->cred;
}

int sw_api_may(struct sw_api *a, struct sw_slice token, const struct sw_api_urls *urls,
               bool *ret_allowed, struct sw_err *err)
{
    SW_ARENA_AUTO arena = {0};
    struct api_user user = {0};
    struct api_attrs at = {.user = &user, .verb = SW_SLICE_LIT("get")};
    const char *why = "";

    if (token.n == 0)
        return sw_err_set(err, SW_EDENIED, "no bearer token");
    if (!api_token_user(a, &arena, &(struct api_bearer){.token = token}, &user, NULL, &why))
        return sw_err_set(err, SW_EDENIED, "bearer token: %s", why);
    for (size_t i = 0; i < urls->n; i++) {
        at.path = sw_slice_str(urls->p[i]);
        ret_allowed[i] = api_allowed(a, &arena, &at, NULL);
    }
    return SW_OK;
}

void sw_api_store_stats(const struct sw_api *a, struct sw_store_stats *ret)
{
    sw_store_stats(a->store, ret);
}

void sw_api_page(struct sw_api *a, const char *path, const char *content_type, sw_api_page_fn fn,
                 void *arg)
{
    if (a->page.n < SW_ARRAY_LEN(a->page.pages))
        a->page.pages[a->page.n++] = (struct api_page){path, content_type, fn, arg};
}

void sw_api_on_revoke(struct sw_api *a, void (*cb)(void *arg), void *arg)
{
    api_revoker_listen(a->revoker, cb, arg);
}
