/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/ticket.h"

#include <pthread.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#include "tls/crypto/gnutls.h"

static uint8_t own[SW_TLS_TICKET_KEY];
static int own_rc;
static pthread_once_t own_once = PTHREAD_ONCE_INIT;

static void make_own(void)
{
    own_rc = gnutls_rnd(GNUTLS_RND_KEY, own, sizeof(own));
}

int sw_tls_ticket_key(struct sw_slice master, struct sw_slice scope, uint8_t ret[SW_TLS_TICKET_KEY],
                      struct sw_err *err)
{
    int rc;

    if (master.n == 0) {
        (void)pthread_once(&own_once, make_own);
        if (own_rc < 0)
            return sw_gnutls_err(err, SW_EINVAL, own_rc, "session tickets");
        master = sw_slice(own, sizeof(own));
    }
    rc = gnutls_hmac_fast(GNUTLS_MAC_SHA512, master.p, master.n, scope.p, scope.n, ret);
    return rc < 0 ? sw_gnutls_err(err, SW_EINVAL, rc, "session tickets") : SW_OK;
}
