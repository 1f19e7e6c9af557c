/* SPDX-License-Identifier: Apache-2.0 */
/* The table of fields without effect: every row, by a message in which nothing else is set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <protobuf-c/protobuf-c.h>

#include <proto/cluster.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/route.pb-c.h>

#include "base/arena.h"
#include "proto/constraint.h"
#include "proto/pb.h"
#include "proto/unread.h"
#include "xds/fields.h"

static const struct sw_pb_constraint no_constraints[1];
static struct sw_pb_unread_table fields = {.constraints = no_constraints,
                                           .lock = PTHREAD_MUTEX_INITIALIZER};

/* The rows alone: a message in which one field is set breaks constraints of others. */
static int check(const ProtobufCMessage *m, struct sw_err *err)
{
    fields.rows = sw_xds_fields()->rows;
    fields.n = sw_xds_fields()->n;
    return sw_pb_check_unread(&fields, m, err);
}

/* Sets a field to a value that is not the default one. */
static void set_field(struct sw_arena *a, ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    void *p = (char *)m + f->offset;
    void *quantifier = (char *)m + f->quantifier_offset;
    ProtobufCMessage *inner = NULL;
    bool repeated = f->label == PROTOBUF_C_LABEL_REPEATED;

    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        inner = sw_pb_new(a, f->descriptor);
        if (f->descriptor == &sw__bool_value__descriptor)
            ((Sw__BoolValue *)(void *)inner)->value = 1;
        if (f->descriptor == &sw__uint32_value__descriptor)
            ((Sw__UInt32Value *)(void *)inner)->value = 1;
        if (f->descriptor == &sw__duration__descriptor)
            ((Sw__Duration *)(void *)inner)->nanos = 1;
    }
    if (repeated) {
        void *items = sw_arena_array(a, 1, sizeof(ProtobufCBinaryData));

        *(size_t *)quantifier = 1;
        *(void **)p = items;
        if (inner)
            *(ProtobufCMessage **)items = inner;
        return;
    }
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        *(uint32_t *)quantifier = f->id;
    if (inner)
        *(ProtobufCMessage **)p = inner;
    else if (f->type == PROTOBUF_C_TYPE_BYTES)
        *(ProtobufCBinaryData *)p = SW_PB_LIT("x");
    else if (f->type == PROTOBUF_C_TYPE_UINT64 || f->type == PROTOBUF_C_TYPE_INT64)
        *(uint64_t *)p = 1;
    else
        *(uint32_t *)p = 1;
}

static void every_row_does_what_it_says(void **state)
{
    struct sw_pb_unread_table *t = sw_xds_fields();

    (void)state;
    for (size_t i = 0; i < t->n; i++) {
        const struct sw_pb_unread *row = &t->rows[i];
        SW_ARENA_AUTO a = {0};
        struct sw_err err = {0};
        ProtobufCMessage *m = sw_pb_new(&a, row->type);
        int rc;

        if (!protobuf_c_message_descriptor_get_field_by_name(row->type, row->field))
            fail_msg("%s has no field %s", row->type->name, row->field);
        if (strlen(row->reason) > SW_PB_UNREAD_REASON_MAX || row->reason[0] == '\0')
            fail_msg("%s.%s: length of the reason", row->type->name, row->field);
        assert_int_equal(check(m, &err), SW_OK);
        set_field(&a, m, protobuf_c_message_descriptor_get_field_by_name(row->type, row->field));
        rc = check(m, &err);
        if (!row->refuse) {
            assert_int_equal(rc, SW_OK);
            continue;
        }
        if (rc != SW_EINVAL || strncmp(err.msg, row->field, strlen(row->field)) != 0 ||
            !strstr(err.msg, row->reason))
            fail_msg("%s.%s: %d '%s'", row->type->name, row->field, rc, err.msg);
    }
}

static void no_field_has_two_rows(void **state)
{
    struct sw_pb_unread_table *t = sw_xds_fields();

    (void)state;
    for (size_t i = 0; i < t->n; i++) {
        for (size_t k = i + 1; k < t->n; k++) {
            if (t->rows[i].type == t->rows[k].type &&
                strcmp(t->rows[i].field, t->rows[k].field) == 0)
                fail_msg("%s.%s", t->rows[i].type->name, t->rows[i].field);
        }
    }
}

static void the_path_leads_to_the_field(void **state)
{
    SW_ARENA_AUTO a = {0};
    Sw__VirtualHost *v = SW_PB_NEW(&a, Sw__VirtualHost, sw__virtual_host);
    Sw__Route *routes[2];
    Sw__HeaderMatcher *m = SW_PB_NEW(&a, Sw__HeaderMatcher, sw__header_matcher);
    struct sw_err err = {0};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        routes[i] = SW_PB_NEW(&a, Sw__Route, sw__route);
        routes[i]->action_case = SW__ROUTE__ACTION_ROUTE;
        routes[i]->route = SW_PB_NEW(&a, Sw__RouteAction, sw__route_action);
    }
    v->routes = routes;
    v->n_routes = 2;
    assert_int_equal(check(&v->base, &err), SW_OK);
    routes[1]->route->retry_policy = SW_PB_NEW(&a, Sw__RetryPolicy, sw__retry_policy);
    routes[1]->route->retry_policy->retriable_headers = &m;
    routes[1]->route->retry_policy->n_retriable_headers = 1;
    assert_int_equal(check(&v->base, &err), SW_EINVAL);
    assert_string_equal(err.msg,
                        "routes[1].route.retry_policy.retriable_headers is not supported: headers "
                        "of a response do not lead to retries");
}

static void the_end_of_a_long_path_is_shown(void **state)
{
    SW_ARENA_AUTO a = {0};
    Sw__ClusterLoadAssignment *la =
        SW_PB_NEW(&a, Sw__ClusterLoadAssignment, sw__cluster_load_assignment);
    Sw__LocalityLbEndpoints *lo = SW_PB_NEW(&a, Sw__LocalityLbEndpoints, sw__locality_lb_endpoints);
    Sw__LbEndpoint *lb = SW_PB_NEW(&a, Sw__LbEndpoint, sw__lb_endpoint);
    Sw__Cluster *c = SW_PB_NEW(&a, Sw__Cluster, sw__cluster);
    Sw__Address *at = SW_PB_NEW(&a, Sw__Address, sw__address);
    struct sw_err err = {0};

    (void)state;
    at->address_case = SW__ADDRESS__ADDRESS_SOCKET_ADDRESS;
    at->socket_address = SW_PB_NEW(&a, Sw__SocketAddress, sw__socket_address);
    at->socket_address->network_namespace_filepath = SW_PB_LIT("/run/x");
    lb->host_identifier_case = SW__LB_ENDPOINT__HOST_IDENTIFIER_ENDPOINT;
    lb->endpoint = SW_PB_NEW(&a, Sw__Endpoint, sw__endpoint);
    lb->endpoint->health_check_config =
        SW_PB_NEW(&a, Sw__Endpoint__HealthCheckConfig, sw__endpoint__health_check_config);
    lb->endpoint->health_check_config->address = at;
    lo->lb_endpoints = &lb;
    lo->n_lb_endpoints = 1;
    la->endpoints = &lo;
    la->n_endpoints = 1;
    c->load_assignment = la;
    assert_int_equal(check(&c->base, &err), SW_EINVAL);
    assert_string_equal(err.msg,
                        "health_check_config.address.socket_address.network_namespace_filepath is "
                        "not supported: sockets are made in the namespace of the process");
}

static void zero_means_unset_where_the_row_says_so(void **state)
{
    SW_ARENA_AUTO a = {0};
    Sw__RouteAction__MaxStreamDuration *m =
        SW_PB_NEW(&a, Sw__RouteAction__MaxStreamDuration, sw__route_action__max_stream_duration);
    Sw__Listener *l = SW_PB_NEW(&a, Sw__Listener, sw__listener);
    struct sw_err err = {0};

    (void)state;
    m->grpc_timeout_header_max = SW_PB_NEW(&a, Sw__Duration, sw__duration);
    assert_int_equal(check(&m->base, &err), SW_OK);
    m->grpc_timeout_header_max->seconds = 1;
    assert_int_equal(check(&m->base, &err), SW_EINVAL);
    l->enable_mptcp = 0;
    assert_int_equal(check(&l->base, &err), SW_OK);
    l->enable_mptcp = 1;
    assert_int_equal(check(&l->base, &err), SW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_does_what_it_says),
        cmocka_unit_test(no_field_has_two_rows),
        cmocka_unit_test(the_path_leads_to_the_field),
        cmocka_unit_test(the_end_of_a_long_path_is_shown),
        cmocka_unit_test(zero_means_unset_where_the_row_says_so),
    };

    return cmocka_run_group_tests_name("xds fields", tests, NULL, NULL);
}
