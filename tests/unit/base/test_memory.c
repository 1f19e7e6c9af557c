/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: arenas, bounded buffers, vectors, intrusive lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/vec.h"

static void arena_memory_is_zeroed_aligned_and_apart(void **state)
{
    SW_ARENA_AUTO a = {0};
    char *last = NULL;

    for (size_t n = 1; n < 3000; n += 7) {
        char *p = sw_arena_alloc(&a, n);

        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, n);
        assert_ptr_not_equal(p, last);
        last = p;
    }
    assert_true(a.total > 600000);
    sw_arena_clear(&a);
    assert_int_equal(a.total, 0);
    assert_non_null(sw_arena_alloc(&a, 1 << 20));
}

static void arena_copies_text(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice s = sw_arena_slice(&a, sw_slice("ab\0cd", 5));

    assert_int_equal(s.n, 5);
    assert_memory_equal(s.p, "ab\0cd", 6);
    assert_string_equal(sw_arena_dup(&a, SW_SLICE_LIT("xyz")), "xyz");
    assert_string_equal(sw_arena_dup(&a, sw_slice(NULL, 0)), "");
    assert_string_equal(sw_arena_printf(&a, "%d-%s", 7, "x"), "7-x");
    assert_non_null(sw_arena_array(&a, 10, 100));
}

static void buf_appends_and_consumes(void **state)
{
    SW_BUF_AUTO b;

    sw_buf_init(&b, 100);
    assert_int_equal(sw_buf_len(&b), 0);
    assert_int_equal(sw_buf_slice(&b).n, 0);
    assert_int_equal(sw_buf_append_str(&b, "hello "), SW_OK);
    assert_int_equal(sw_buf_append_slice(&b, SW_SLICE_LIT("world")), SW_OK);
    assert_int_equal(sw_buf_putc(&b, '!'), SW_OK);
    assert_int_equal(sw_buf_printf(&b, "%03d", 7), SW_OK);
    assert_true(sw_slice_eq_str(sw_buf_slice(&b), "hello world!007"));
    sw_buf_consume(&b, 6);
    assert_true(sw_slice_eq_str(sw_buf_slice(&b), "world!007"));
    sw_buf_consume(&b, 1000);
    assert_int_equal(sw_buf_len(&b), 0);
    assert_int_equal(sw_buf_append_str(&b, "again"), SW_OK);
    char *s = sw_buf_take_str(&b);
    assert_string_equal(s, "again");
    sw_free(s);
    assert_int_equal(sw_buf_len(&b), 0);
    s = sw_buf_take_str(&b);
    assert_string_equal(s, "");
    sw_free(s);
}

static void buf_never_passes_its_maximum(void **state)
{
    SW_BUF_AUTO b;
    char big[64] = {0};

    sw_buf_init(&b, 70);
    assert_int_equal(sw_buf_append(&b, big, 64), SW_OK);
    assert_int_equal(sw_buf_append(&b, big, 7), SW_ELIMIT);
    assert_int_equal(sw_buf_len(&b), 64);
    assert_int_equal(sw_buf_printf(&b, "%s", "1234567"), SW_ELIMIT);
    assert_int_equal(sw_buf_printf(&b, "%s", "123456"), SW_OK);
    assert_int_equal(sw_buf_len(&b), 70);
    assert_int_equal(sw_buf_putc(&b, 'x'), SW_ELIMIT);
    assert_int_equal(sw_buf_append(&b, big, 0), SW_OK);
    assert_null(sw_buf_reserve(&b, SIZE_MAX));
    sw_buf_consume(&b, 10);
    assert_int_equal(sw_buf_append(&b, big, 10), SW_OK); /* consumed room is usable again */
    assert_int_equal(sw_buf_append(&b, big, 1), SW_ELIMIT);
    sw_buf_clear(&b);
    assert_int_equal(sw_buf_append(&b, big, 64), SW_OK);
}

/* Random appends and consumes against a plain array. */
static void print_keeps_its_first_failure(void **state)
{
    SW_BUF_AUTO b = {.max = 8};
    struct sw_print p = {.to = &b};

    sw_print_str(&p, "ab");
    sw_print_fmt(&p, "%d", 7);
    sw_print_char(&p, '!');
    assert_int_equal(p.rc, SW_OK);
    sw_print_slice(&p, SW_SLICE_LIT("too long"));
    assert_int_equal(p.rc, SW_ELIMIT);
    sw_print_html(&p, SW_SLICE_LIT("c"));
    assert_int_equal(p.rc, SW_ELIMIT);
    assert_true(sw_slice_eq_str(sw_buf_slice(&b), "ab7!"));
}

static void buf_behaves_like_a_queue(void **state)
{
    SW_BUF_AUTO b;
    static unsigned char model[1 << 20];
    size_t head = 0;
    size_t tail = 0;

    sw_buf_init(&b, 5000);
    while (tail < sizeof(model) - 6000) {
        unsigned char piece[700];
        size_t n = sw_rand_below(sizeof(piece));

        for (size_t i = 0; i < n; i++)
            piece[i] = (unsigned char)sw_rand_u64();
        if (sw_buf_append(&b, piece, n) == SW_OK) {
            memcpy(model + tail, piece, n);
            tail += n;
        } else {
            assert_true(tail - head + n > 5000);
        }
        n = sw_rand_below(sw_min(700, tail - head + 1));
        sw_buf_consume(&b, n);
        head += n;
        assert_int_equal(sw_buf_len(&b), tail - head);
        if (tail > head)
            assert_memory_equal(sw_buf_data(&b), model + head, tail - head);
    }
}

static void buf_reserve_and_commit(void **state)
{
    SW_BUF_AUTO b;
    char *p;

    sw_buf_init(&b, 1000);
    p = sw_buf_reserve(&b, 500);
    memset(p, 'a', 500);
    sw_buf_commit(&b, 3);
    assert_true(sw_slice_eq_str(sw_buf_slice(&b), "aaa"));
    sw_buf_done(&b);
    assert_int_equal(sw_buf_len(&b), 0);
    assert_int_equal(sw_buf_putc(&b, 'z'), SW_OK);
}

static void vec_grows_and_removes(void **state)
{
    SW_VEC(int) v = {0};
    int sum = 0;

    SW_VEC_FOREACH (int, it, &v)
        sum += *it;
    assert_int_equal(sum, 0);
    for (int i = 0; i < 1000; i++)
        sw_vec_push(&v, i);
    assert_int_equal(v.n, 1000);
    sw_vec_swap_remove(&v, 0);
    assert_int_equal(v.p[0], 999);
    SW_VEC_FOREACH (int, it, &v)
        sum += *it;
    assert_int_equal(sum, 999 * 1000 / 2);
    sw_vec_done(&v);
    assert_int_equal(v.n, 0);
    assert_null(v.p);
}

struct item {
    int n;
    struct sw_list link;
};

static void expect_list(struct sw_list *l, const char *want)
{
    char got[64] = "";
    size_t used = 0;

    SW_LIST_FOREACH (it, l) {
        used += (size_t)snprintf(got + used, sizeof(got) - used, "%d",
                                 SW_CONTAINER_OF(it, struct item, link)->n);
    }
    assert_string_equal(got, want);
}

static void list_keeps_order(void **state)
{
    struct sw_list l;
    struct sw_list other;
    struct item i[6] = {{0}};

    sw_list_init(&l);
    sw_list_init(&other);
    assert_true(sw_list_empty(&l));
    assert_null(sw_list_pop_front(&l));
    for (int k = 0; k < 6; k++) {
        i[k].n = k;
        assert_false(sw_list_linked(&i[k].link));
    }
    sw_list_push_back(&l, &i[1].link);
    sw_list_push_back(&l, &i[2].link);
    sw_list_push_front(&l, &i[0].link);
    sw_list_insert_after(&i[1].link, &i[5].link);
    expect_list(&l, "0152");
    assert_true(sw_list_linked(&i[5].link));
    sw_list_unlink(&i[5].link);
    sw_list_unlink(&i[5].link); /* harmless twice */
    assert_false(sw_list_linked(&i[5].link));
    sw_list_unlink(&i[4].link); /* and on a zeroed one */
    expect_list(&l, "012");
    sw_list_splice(&l, &other);
    sw_list_push_back(&other, &i[3].link);
    sw_list_push_back(&other, &i[4].link);
    sw_list_splice(&l, &other);
    assert_true(sw_list_empty(&other));
    expect_list(&l, "01234");
    assert_ptr_equal(sw_list_pop_front(&l), &i[0].link);
    SW_LIST_FOREACH (it, &l) {
        sw_list_unlink(it); /* the current one may go */
    }
    assert_true(sw_list_empty(&l));
}

static void mem_helpers(void **state)
{
    SW_AUTO_FREE char *a = sw_strndup("abcdef", 3);
    SW_AUTO_FREE char *b = sw_asprintf("%s-%d", a, 5);
    SW_AUTO_FREE void *c = sw_aligned_alloc(64, 100);
    char *d = sw_strdup("secret");
    char *e;

    assert_string_equal(a, "abc");
    assert_string_equal(b, "abc-5");
    assert_int_equal((uintptr_t)c % 64, 0);
    sw_free_secret(d, 6);
    sw_free_secret(NULL, 0);
    e = sw_strdup("x");
    char *f = SW_TAKE(e);
    assert_null(e);
    sw_free(f);
}

static void fill_tight(struct sw_arena *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t *number = sw_arena_alloc(a, i % 3 * 8 + 1);
        struct sw_slice text = sw_arena_slice(a, sw_slice("abcdefgh", i % 9));

        assert_int_equal((uintptr_t)number % 8, 0);
        assert_int_equal(*number, 0);
        *number = UINT64_MAX;
        assert_memory_equal(text.p, "abcdefgh", i % 9);
        assert_int_equal(text.p[i % 9], 0);
        assert_int_equal(sw_arena_printf(a, "%zu", i % 7)[0], '0' + i % 7);
    }
}

static void texts_of_a_tight_arena_have_no_gaps(void **state)
{
    struct sw_arena draft = {.tight = true};
    _Alignas(8) char block[16384];

    (void)state;
    for (size_t n = 0; n < 200; n += 7) {
        size_t used;
        struct sw_arena over;

        fill_tight(&draft, n);
        used = sw_arena_used(&draft);
        memset(block, 0, used);
        over = sw_arena_over(block, used);
        fill_tight(&over, n);
        assert_null(over.chunk);
        if (n == 14) /* in one chunk: numbers of 8, 16 and 24 bytes, texts and a NUL each */
            assert_int_equal(used, 216 + 60 + 28);
        sw_arena_reset(&draft, 4096);
        assert_true(draft.tight);
        assert_int_equal(sw_arena_used(&draft), 0);
    }
    sw_arena_clear(&draft);
    assert_true(draft.tight);
}

/* What one arena needed is enough for the same allocations over a block, wherever they end. */
static void arena_over_a_block_takes_what_a_draft_used(void **state)
{
    static const size_t sizes[] = {1, 0, 16, 17, 900, 5000, 3, 40};
    struct sw_arena draft = {0};
    struct sw_arena over;
    _Alignas(16) char block[8192] = "";

    (void)state;
    assert_int_equal(sw_arena_used(&draft), 0);
    for (size_t round = 0; round < 2; round++) {
        size_t used;

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            (void)sw_arena_alloc(&draft, sizes[i]);
        used = sw_arena_used(&draft);
        assert_in_range(used, 16 + 16 + 32 + 912 + 5008 + 16 + 48, sizeof(block));
        over = sw_arena_over(block, used);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            char *p = sw_arena_alloc(&over, sizes[i]);

            assert_true(p >= block && p + sizes[i] <= block + used);
        }
        assert_null(over.chunk);
        sw_arena_reset(&draft, 1 << 16); /* the second round has one chunk */
    }
    sw_arena_clear(&draft);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_memory_is_zeroed_aligned_and_apart),
        cmocka_unit_test(arena_copies_text),
        cmocka_unit_test(texts_of_a_tight_arena_have_no_gaps),
        cmocka_unit_test(arena_over_a_block_takes_what_a_draft_used),
        cmocka_unit_test(buf_appends_and_consumes),
        cmocka_unit_test(buf_never_passes_its_maximum),
        cmocka_unit_test(print_keeps_its_first_failure),
        cmocka_unit_test(buf_behaves_like_a_queue),
        cmocka_unit_test(buf_reserve_and_commit),
        cmocka_unit_test(vec_grows_and_removes),
        cmocka_unit_test(list_keeps_order),
        cmocka_unit_test(mem_helpers),
    };

    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
