/* SPDX-License-Identifier: Apache-2.0 */
/* What a server makes on its first start: keys, certificates, objects, accounts of roles. */
#pragma once

#include "apiserver/api/api.h"
#include "apiserver/api/config.h"

/* --- bootstrap.c --- */

/* Makes the objects that are missing; the server is ready once they are stored. */
void api_bootstrap(struct sw_api *api);

/* --- pki.c --- */

SW_NODISCARD int api_pki_load(struct sw_api *api, const struct sw_api_config *c,
                              struct sw_tls_cred **ret_cred, struct sw_err *err);
/* DIR/admin.kubeconfig, once the address is known. */
SW_NODISCARD int api_pki_kubeconfig(struct sw_api *api, const struct sw_api_config *c,
                                    struct sw_err *err);

/* --- account_files.c --- */

struct api_accounts *api_accounts_new(struct sw_api *api, const struct sw_api_config *c);
void api_accounts_free(struct api_accounts *n);
/* Their tokens and kubeconfigs under DIR/roles, now and again before they expire. */
void api_accounts_issue(struct sw_api *api);
/* Name of the account for a device, NULL: none. */
const char *api_accounts_device(const struct sw_api *api);
