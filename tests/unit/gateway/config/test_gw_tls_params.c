/* SPDX-License-Identifier: Apache-2.0 */
/* TlsParameters: which algorithms the lists of ciphers and groups leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <proto/tls.pb-c.h>

#include "gateway/config/build.h"
#include "gateway/config/config.h"
#include "gateway/config/tls.h"
#include "proto/pb.h"

#define ALL "ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-RSA-AES128-GCM-SHA256"

static const struct {
    const char *suites; /* separated by spaces */
    const char *curves;
    const char *why; /* NULL: accepted */
    uint8_t without;
    bool tls13; /* nothing older */
} cases[] = {
    {"", "", NULL, 0, false},
    /* Contour's. */
    {"[ECDHE-ECDSA-AES128-GCM-SHA256|ECDHE-ECDSA-CHACHA20-POLY1305] "
     "[ECDHE-RSA-AES128-GCM-SHA256|ECDHE-RSA-CHACHA20-POLY1305] ECDHE-ECDSA-AES256-GCM-SHA384 "
     "ECDHE-RSA-AES256-GCM-SHA384",
     "", NULL, 0, false},
    /* Istio's; what this program does not have is passed over. */
    {"ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-RSA-AES256-GCM-SHA384 ECDHE-ECDSA-AES128-GCM-SHA256 "
     "ECDHE-RSA-AES128-GCM-SHA256 AES256-GCM-SHA384 AES128-GCM-SHA256",
     "", NULL, SW_TLS_NO_CHACHA, false},
    {ALL, "", NULL, SW_TLS_NO_AES_256 | SW_TLS_NO_CHACHA, false},
    {"ECDHE-ECDSA-AES256-GCM-SHA384", "", NULL,
     SW_TLS_NO_AES_128 | SW_TLS_NO_CHACHA | SW_TLS_NO_RSA, false},
    {"ECDHE-RSA-AES128-GCM-SHA256 ECDHE-ECDSA-AES256-GCM-SHA384", "",
     "cipher_suites: ECDHE-ECDSA-AES128-GCM-SHA256 is missing", 0, false},
    {"ECDHE-RSA-AES128-GCM-SHA256 ECDHE-ECDSA-AES256-GCM-SHA384", "", NULL, 0, true},
    {"ECDHE-RSA-AES128-SHA AES128-GCM-SHA256", "", "cipher_suites: none of them is supported", 0,
     false},
    {"ECDHE-RSA-", "", "none of them", 0, false},
    {"[]", "", "none of them", 0, false},
    {"", "X25519", NULL, SW_TLS_NO_P256 | SW_TLS_NO_P384, false},
    {"", "X25519MLKEM768 P-256 P-384", NULL, SW_TLS_NO_X25519, false},
    {"", "P-521", "ecdh_curves: none of them is supported", 0, false},
    {"", "P-384", NULL, SW_TLS_NO_X25519 | SW_TLS_NO_P256, true},
};

static size_t split(struct sw_arena *a, const char *text, ProtobufCBinaryData **ret)
{
    struct sw_slice rest = sw_slice_str(text);
    size_t n = 0;

    *ret = sw_arena_array(a, 16, sizeof(**ret));
    while (rest.n) {
        struct sw_slice word = sw_slice_cut(&rest, ' ');

        (*ret)[n++] = SW_PB_BYTES(word);
    }
    return n;
}

static void lists_leave_algorithms_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_err err = {0};
        struct sw_gw_build b = {.arena = &a, .tmp = &a, .err = &err};
        Sw__TlsParameters *in = SW_PB_NEW(&a, Sw__TlsParameters, sw__tls_parameters);
        struct sw_gw_tls t = {0};
        int rc;

        in->n_cipher_suites = split(&a, cases[i].suites, &in->cipher_suites);
        in->n_ecdh_curves = split(&a, cases[i].curves, &in->ecdh_curves);
        if (cases[i].tls13)
            in->tls_minimum_protocol_version = SW__TLS_PARAMETERS__TLS_PROTOCOL__TLSv1_3;
        rc = sw_gw_build_tls_params(&b, in, &t);
        if (rc != (cases[i].why ? SW_EINVAL : SW_OK) ||
            (cases[i].why && !strstr(err.msg, cases[i].why)))
            fail_msg("case %zu: %d '%s'", i, rc, err.msg);
        if (rc == SW_OK && t.without != cases[i].without)
            fail_msg("case %zu: without %x, not %x", i, t.without, cases[i].without);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lists_leave_algorithms_out)};

    return cmocka_run_group_tests_name("gateway TLS parameters", tests, NULL, NULL);
}
