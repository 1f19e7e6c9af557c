/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/resource.h>

#include "rig.h"
#include "tunnel/dial.h"
#include "tunnel/pump.h"

struct fix {
    struct sw_loop *loop;
    struct sw_pump pump;
    int a; /* the accepted connection's far end */
    int b; /* the dialled connection's far end */
    size_t moved[2];
    int done;
    int rc;
    bool stop_when_moved;
};

static void on_moved(struct sw_pump *p, int from, size_t n)
{
    struct fix *f = SW_CONTAINER_OF(p, struct fix, pump);

    f->moved[from] += n;
    if (f->stop_when_moved)
        sw_pump_stop(p, false);
}

static void on_done(struct sw_pump *p, int rc)
{
    struct fix *f = SW_CONTAINER_OF(p, struct fix, pump);

    f->done++;
    f->rc = rc;
}

static const struct sw_pump_ops pump_ops = {.on_moved = on_moved, .on_done = on_done};

struct dialling {
    struct sw_dial dial;
    int rc;
};

static void on_dialled(struct sw_dial *d, int rc, const struct sw_err *err)
{
    (void)err;
    SW_CONTAINER_OF(d, struct dialling, dial)->rc = rc;
}

static void dial(struct dialling *d, struct sw_loop *l, const struct sw_addr *to)
{
    static const struct sw_sock_opts opts = SW_SOCK_OPTS_INIT;
    const struct sw_dial_target target = {.to = to, .opts = &opts, .timeout_ns = SW_NS_PER_S};

    sw_dial_start(&d->dial, l, &target, on_dialled);
}

/* A pump between two TCP connections whose other ends are f->a and f->b. */
static void begin(struct fix *f)
{
    struct dialling d = {.rc = SW_EAGAIN};
    struct sw_dialled dialled;
    struct sw_err err = {0};
    struct sw_addr at;
    int listener = tcp_listener(&at);
    int in[2];

    f->loop = rig_loop();
    dial(&d, f->loop, &at);
    RUN_UNTIL(f->loop, d.rc != SW_EAGAIN);
    assert_int_equal(d.rc, SW_OK);
    f->b = tcp_accept(listener);
    sw_sock_close(listener);
    tcp_pair(in);
    f->a = in[0];
    sw_dial_take(&d.dial, &dialled);
    assert_int_equal(sw_pump_start(&f->pump, f->loop, in[1], &dialled, &pump_ops, &err), SW_OK);
}

static void end(struct fix *f)
{
    sw_pump_stop(&f->pump, true);
    sw_sock_close(f->a);
    sw_sock_close(f->b);
    rig_loop_done(f->loop);
}

static void small_messages_pass_both_ways(void **state)
{
    struct fix f = {0};

    (void)state;
    begin(&f);
    put(f.a, "ping");
    expect(f.loop, f.b, "ping");
    put(f.b, "pong");
    expect(f.loop, f.a, "pong");
    assert_int_equal(f.moved[0], 4);
    assert_int_equal(f.moved[1], 4);
    assert_null(f.pump.side[0].pipe);
    assert_null(f.pump.side[0].rest);
    end(&f);
}

static void half_close_leaves_the_other_direction_open(void **state)
{
    struct fix f = {0};

    (void)state;
    for (int side = 0; side < 2; side++) {
        f = (struct fix){0};
        begin(&f);
        put(side ? f.b : f.a, "last words");
        sw_sock_shutdown_write(side ? f.b : f.a);
        expect(f.loop, side ? f.a : f.b, "last words");
        assert_int_equal(read_end(f.loop, side ? f.a : f.b), SW_EOF);
        put(side ? f.a : f.b, "still here");
        expect(f.loop, side ? f.b : f.a, "still here");
        assert_int_equal(f.done, 0);
        sw_sock_shutdown_write(side ? f.a : f.b);
        assert_int_equal(read_end(f.loop, side ? f.b : f.a), SW_EOF);
        RUN_UNTIL(f.loop, f.done);
        assert_int_equal(f.rc, SW_OK);
        end(&f);
    }
}

static void a_reset_becomes_a_reset(void **state)
{
    struct fix f;

    (void)state;
    for (int side = 0; side < 2; side++) {
        f = (struct fix){0};
        begin(&f);
        rig_settle(f.loop);
        sw_sock_set_reset(side ? f.b : f.a);
        sw_sock_close(side ? f.b : f.a);
        *(side ? &f.b : &f.a) = -1;
        assert_int_equal(read_end(f.loop, side ? f.a : f.b), SW_ECLOSED);
        assert_int_equal(f.done, 1);
        assert_int_equal(f.rc, SW_ECLOSED);
        end(&f);
    }
}

/* The reset was there before the pump: its first read eats the error. */
static void a_reset_before_the_start_is_not_a_clean_end(void **state)
{
    struct fix f = {.a = -1};
    struct dialling d = {.rc = SW_EAGAIN};
    struct sw_dialled dialled;
    struct sw_addr at;
    int listener = tcp_listener(&at);
    int in[2];

    (void)state;
    f.loop = rig_loop();
    dial(&d, f.loop, &at);
    RUN_UNTIL(f.loop, d.rc == SW_OK);
    f.b = tcp_accept(listener);
    tcp_pair(in);
    sw_sock_set_reset(in[0]);
    sw_sock_close(in[0]);
    rig_wait_in(in[1]);
    sw_dial_take(&d.dial, &dialled);
    assert_int_equal(sw_pump_start(&f.pump, f.loop, in[1], &dialled, &pump_ops, NULL), SW_OK);
    assert_int_equal(f.done, 0);
    RUN_UNTIL(f.loop, f.done);
    assert_int_equal(f.rc, SW_ECLOSED);
    assert_int_equal(read_end(f.loop, f.b), SW_ECLOSED);
    sw_sock_close(listener);
    end(&f);
}

static void bulk_arrives_whole_in_both_directions_at_once(void **state)
{
    struct fix f = {0};
    struct feed up = {.total = 64 << 20, .seed = 1};
    struct feed down = {.total = 64 << 20, .seed = 2};
    struct feed got_up = {.seed = 1};
    struct feed got_down = {.seed = 2};
    bool spliced = false;

    (void)state;
    begin(&f);
    for (int i = 0; i < 200000 && (got_up.at < up.total || got_down.at < down.total); i++) {
        feed_write(&up, f.a);
        feed_write(&down, f.b);
        sw_loop_turn(f.loop, 0);
        spliced |= f.pump.side[0].bulk || f.pump.side[1].bulk;
        (void)feed_read(&got_up, f.b, SIZE_MAX);
        (void)feed_read(&got_down, f.a, SIZE_MAX);
    }
    assert_int_equal(got_up.at, up.total);
    assert_int_equal(got_down.at, down.total);
    assert_true(spliced);
    sw_sock_shutdown_write(f.a);
    sw_sock_shutdown_write(f.b);
    RUN_UNTIL(f.loop, f.done);
    assert_int_equal(f.rc, SW_OK);
    assert_int_equal(f.moved[0], up.total);
    assert_int_equal(f.moved[1], down.total);
    end(&f);
}

/* After bulk come small messages (copied) and bulk again; no byte is lost at the switches. */
static void switching_between_copy_and_splice_keeps_the_order(void **state)
{
    struct fix f = {0};
    struct feed sent = {.seed = 9};
    struct feed got = {.seed = 9};
    int switches = 0;
    bool bulk = false;

    (void)state;
    begin(&f);
    for (int round = 0; round < 200; round++) {
        sent.total += round % 4 == 0 ? 700000 : 37;
        while (got.at < sent.total) {
            feed_write(&sent, f.a);
            sw_loop_turn(f.loop, 1);
            switches += f.pump.side[0].bulk != bulk;
            bulk = f.pump.side[0].bulk;
            (void)feed_read(&got, f.b, SIZE_MAX);
        }
    }
    assert_true(switches > 10);
    end(&f);
}

/* The urgent byte is dropped, as by every proxy that does not ask for it; what follows is not. */
static void bytes_behind_urgent_data_are_passed_on(void **state)
{
    struct fix f = {0};
    struct feed sent = {.seed = 3, .total = 3000000};
    struct feed got = {.seed = 3};

    (void)state;
    begin(&f);
    sw_loop_turn(f.loop, 0);
    for (int i = 0; i < 20; i++) {
        put(f.a, "abc");
        assert_int_equal(send(f.a, "X", 1, MSG_OOB), 1);
        put(f.a, "def");
        expect(f.loop, f.b, "abcdef");
    }
    assert_true(f.pump.side[0].urgent);
    for (int i = 0; got.at < sent.total; i++) {
        assert_true(i < 5000);
        feed_write(&sent, f.a);
        sw_loop_turn(f.loop, 1);
        (void)feed_read(&got, f.b, SIZE_MAX);
    }
    put(f.b, "pong");
    expect(f.loop, f.a, "pong");
    end(&f);
}

/* The mark is where splice stops, whatever comes behind it. */
static void urgent_data_in_bulk_does_not_stop_it(void **state)
{
    struct fix f = {0};
    struct feed sent = {.seed = 5};
    struct feed got = {.seed = 5};

    (void)state;
    begin(&f);
    for (int round = 0; round < 20; round++) {
        sent.total += 900000;
        for (int i = 0; got.at < sent.total; i++) {
            assert_true(i < 5000);
            feed_write(&sent, f.a);
            if (round == 10 && sent.at == sent.total)
                (void)!send(f.a, "X", 1, MSG_OOB);
            sw_loop_turn(f.loop, 1);
            (void)feed_read(&got, f.b, SIZE_MAX);
        }
    }
    end(&f);
}

static size_t held(const struct fix *f)
{
    const struct sw_pump_side *s = &f->pump.side[0];

    return (s->pipe ? s->pipe->n : 0) + (s->rest ? sw_buf_len(s->rest) : 0);
}

static void a_reader_that_stops_stops_the_sender(void **state)
{
    struct fix f = {0};
    struct feed sent = {.total = 64 << 20, .seed = 4};
    struct feed got = {.seed = 4};
    size_t stuck = 0;

    (void)state;
    begin(&f);
    for (int i = 0; i < 300; i++) {
        feed_write(&sent, f.a);
        sw_loop_turn(f.loop, 1);
        assert_true(held(&f) <= 2 << 20);
        if (sent.at == stuck && i > 100)
            break;
        stuck = sent.at;
    }
    assert_true(sent.at < sent.total);
    while (got.at < sent.total) {
        feed_write(&sent, f.a);
        sw_loop_turn(f.loop, 1);
        (void)feed_read(&got, f.b, SIZE_MAX);
    }
    end(&f);
}

/* A sender that pushes, then resets, while its reader is slow: bytes may be lost, not the fact. */
static void a_reset_behind_waiting_bytes_is_not_a_clean_end(void **state)
{
    struct fix f = {0};
    struct feed sent = {.total = 64 << 20, .seed = 4};
    struct feed got = {.seed = 4};
    ssize_t n = SW_EAGAIN;

    (void)state;
    begin(&f);
    for (int i = 0; i < 100; i++) {
        feed_write(&sent, f.a);
        sw_loop_turn(f.loop, 1);
    }
    sw_sock_set_reset(f.a);
    sw_sock_close(f.a);
    f.a = -1;
    rig_settle(f.loop);
    for (int i = 0; i < 5000 && (n == SW_EAGAIN || n > 0); i++) {
        n = feed_read(&got, f.b, 100000);
        sw_loop_turn(f.loop, 0);
    }
    assert_int_equal(n, SW_ECLOSED);
    assert_int_equal(f.rc, SW_ECLOSED);
    end(&f);
}

static void without_descriptors_for_pipes_it_copies(void **state)
{
    struct fix f = {0};
    struct feed sent = {.total = 8 << 20, .seed = 5};
    struct feed got = {.seed = 5};
    struct rlimit old;
    struct rlimit low;

    (void)state;
    begin(&f);
    sw_pipe_pool_done();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = (rlim_t)sw_max(f.a, f.b) + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    while (got.at < sent.total) {
        feed_write(&sent, f.a);
        sw_loop_turn(f.loop, 1);
        assert_null(f.pump.side[0].pipe);
        (void)feed_read(&got, f.b, SIZE_MAX);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    end(&f);
}

static void stopping_inside_moved_is_the_end(void **state)
{
    struct fix f = {0};

    (void)state;
    begin(&f);
    rig_settle(f.loop);
    f.stop_when_moved = true;
    put(f.a, "x");
    put(f.b, "y");
    rig_settle(f.loop);
    assert_int_equal(f.done, 0);
    assert_true(f.pump.done);
    end(&f);
}

/* Bytes and the end of them were there before the pump was made. */
static void what_came_before_the_start_is_passed_on(void **state)
{
    struct fix f = {0};
    struct dialling d = {.rc = SW_EAGAIN};
    struct sw_dialled dialled;
    struct sw_addr at;
    int listener = tcp_listener(&at);
    int in[2];

    (void)state;
    f.loop = rig_loop();
    dial(&d, f.loop, &at);
    f.b = tcp_accept(listener);
    put(f.b, "banner");
    sw_sock_shutdown_write(f.b);
    RUN_UNTIL(f.loop, d.rc == SW_OK);
    rig_settle(f.loop);
    tcp_pair(in);
    f.a = in[0];
    put(f.a, "hello");
    sw_sock_shutdown_write(f.a);
    rig_wait_in(in[1]);
    sw_dial_take(&d.dial, &dialled);
    assert_int_equal(sw_pump_start(&f.pump, f.loop, in[1], &dialled, &pump_ops, NULL), SW_OK);
    expect(f.loop, f.a, "banner");
    expect(f.loop, f.b, "hello");
    RUN_UNTIL(f.loop, f.done);
    assert_int_equal(f.rc, SW_OK);
    sw_sock_close(listener);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_messages_pass_both_ways),
        cmocka_unit_test(half_close_leaves_the_other_direction_open),
        cmocka_unit_test(a_reset_becomes_a_reset),
        cmocka_unit_test(a_reset_before_the_start_is_not_a_clean_end),
        cmocka_unit_test(bulk_arrives_whole_in_both_directions_at_once),
        cmocka_unit_test(switching_between_copy_and_splice_keeps_the_order),
        cmocka_unit_test(bytes_behind_urgent_data_are_passed_on),
        cmocka_unit_test(urgent_data_in_bulk_does_not_stop_it),
        cmocka_unit_test(a_reader_that_stops_stops_the_sender),
        cmocka_unit_test(a_reset_behind_waiting_bytes_is_not_a_clean_end),
        cmocka_unit_test(without_descriptors_for_pipes_it_copies),
        cmocka_unit_test(stopping_inside_moved_is_the_end),
        cmocka_unit_test(what_came_before_the_start_is_passed_on),
    };

    return cmocka_run_group_tests_name("pump", tests, NULL, NULL);
}
