/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/def.h"
#include "connector/inspect/tlswatch.h"

/* A script: 'c' and 's' say who sends the next record; "type/len", alerts as "21/2=level.text". */
struct step {
    char who;
    uint8_t type;
    uint16_t len;
    uint8_t alert; /* of type 21 and length 2 */
};

static void play(struct sw_tlswatch *w, const struct step *s, size_t piece)
{
    uint8_t record[5 + 4096] = {s->type, 3, 3, (uint8_t)(s->len >> 8), (uint8_t)s->len};
    size_t n = 5u + s->len;

    record[5] = 2;
    record[6] = s->alert;
    for (size_t i = 0; i < n; i += piece)
        sw_tlswatch_bytes(w, s->who == 's', record + i, sw_min(piece, n - i));
}

#define HELLO                                                                                      \
    {'c', 22, 300, 0},                                                                             \
    {                                                                                              \
        's', 22, 122, 0                                                                            \
    }

static const struct {
    const char *name;
    struct step steps[8];
    enum sw_tlswatch_state want; /* after the tunnel's end */
} cases[] = {
    {"TLS 1.3",
     {HELLO, {'s', 20, 1, 0}, {'s', 23, 900, 0}, {'c', 20, 1, 0}, {'c', 23, 53, 0}},
     SW_TLSWATCH_OK},
    {"TLS 1.3 without compatibility", {HELLO, {'s', 23, 900, 0}, {'c', 23, 69, 0}}, SW_TLSWATCH_OK},
    {"TLS 1.3, the client does not trust",
     {HELLO, {'s', 20, 1, 0}, {'s', 23, 900, 0}, {'c', 20, 1, 0}, {'c', 23, 19, 0}},
     SW_TLSWATCH_FAILED},
    {"TLS 1.2",
     {HELLO, {'s', 22, 900, 0}, {'c', 22, 70, 0}, {'c', 20, 1, 0}, {'c', 22, 40, 0}},
     SW_TLSWATCH_OK},
    {"TLS 1.2, the client does not trust",
     {HELLO, {'s', 22, 900, 0}, {'c', 21, 2, 48}},
     SW_TLSWATCH_FAILED},
    {"the origin refuses", {{'c', 22, 300, 0}, {'s', 21, 2, 40}}, SW_TLSWATCH_FAILED},
    {"the origin closes", {{'c', 22, 300, 0}}, SW_TLSWATCH_FAILED},
    {"the origin speaks something else",
     {{'c', 22, 300, 0}, {'s', 'H', 10, 0}},
     SW_TLSWATCH_NO_TLS},
    {"a record that is none", {{'c', 22, 300, 0}, {'s', 24, 10, 0}}, SW_TLSWATCH_NO_TLS},
    {"the client speaks something else", {{'c', 'G', 10, 0}, {'s', 'H', 10, 0}}, SW_TLSWATCH_OTHER},
    {"the origin speaks first", {{'s', 'S', 10, 0}, {'c', 22, 10, 0}}, SW_TLSWATCH_OTHER},
    {"nothing", {{0}}, SW_TLSWATCH_BEGIN},
};

static void test_handshakes(void **state)
{
    static const size_t pieces[] = {1, 3, 5000};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        for (size_t p = 0; p < SW_ARRAY_LEN(pieces); p++) {
            struct sw_tlswatch w = {0};

            for (size_t k = 0; k < SW_ARRAY_LEN(cases[i].steps) && cases[i].steps[k].who; k++)
                play(&w, &cases[i].steps[k], pieces[p]);
            sw_tlswatch_end(&w);
            if (w.state != cases[i].want)
                fail_msg("%s, %zu bytes at a time: %d", cases[i].name, pieces[p], (int)w.state);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_handshakes)};

    return cmocka_run_group_tests_name("connector_tlswatch", tests, NULL, NULL);
}
