/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A build with memory gives, byte for byte, what one without gives: for every golden manifest,
 * objects come and go, are replaced and get their statuses, and both are compared at each step.
 */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "control/gateway/xds/xds.h"
#include "control/runtime_int.h"
#include "gateway_rig.h"

enum { STEPS = 150, TEXT_MAX = 64 << 20 };

static uint64_t seed;

static unsigned below(unsigned n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 40) % n;
}

/* Model, resources, statuses and notes as one text. */
static void tell(const struct sw_model_result *r, struct sw_buf *out)
{
    static const struct sw_model_xds_conf conf;
    SW_ARENA_AUTO a = {0};
    struct sw_model_resources res;

    assert_int_equal(sw_model_dump(r->model, out), SW_OK);
    sw_model_xds_encode(r->model, &conf, &a, &res);
    for (size_t i = 0; i < res.n; i++) {
        assert_int_equal(sw_buf_append_str(out, res.p[i].type), SW_OK);
        assert_int_equal(sw_buf_append_slice(out, res.p[i].name), SW_OK);
        assert_int_equal(sw_buf_append_slice(out, res.p[i].value), SW_OK);
    }
    for (size_t i = 0; i < r->n_statuses; i++) {
        assert_int_equal(sw_buf_append_slice(out, r->statuses[i].of->key), SW_OK);
        assert_int_equal(sw_buf_append_slice(out, sw_json_text(&a, r->statuses[i].status, NULL)),
                         SW_OK);
    }
    for (size_t i = 0; i < r->n_wants; i++) {
        assert_int_equal(sw_buf_append_slice(out, r->wants[i].of->key), SW_OK);
        if (r->wants[i].json)
            assert_int_equal(sw_buf_append_slice(out, sw_json_text(&a, r->wants[i].json, NULL)),
                             SW_OK);
    }
    for (size_t i = 0; i < r->n_notes; i++) {
        assert_int_equal(sw_buf_append_slice(out, r->notes[i].subject), SW_OK);
        assert_int_equal(sw_buf_append_slice(out, r->notes[i].text), SW_OK);
    }
}

static void compare(struct rig *r, struct sw_gateway_cache *cache, const char *path, int step)
{
    SW_ARENA_AUTO a = {0};
    SW_ARENA_AUTO b = {0};
    SW_BUF_AUTO x = {0};
    SW_BUF_AUTO y = {0};
    struct sw_view *v = rig_view(r);
    struct sw_model_result plain = {0};
    struct sw_model_result kept = {0};

    sw_buf_init(&x, TEXT_MAX);
    sw_buf_init(&y, TEXT_MAX);
    sw_gateway_build(v, &r->conf, &a, &plain);
    sw_gateway_rebuild(cache, v, &r->conf, &b, &kept);
    tell(&plain, &x);
    tell(&kept, &y);
    if (!sw_slice_eq(sw_buf_slice(&x), sw_buf_slice(&y)))
        fail_msg("%s, step %d: %zu bytes without memory, %zu with", path, step, sw_buf_len(&x),
                 sw_buf_len(&y));
    view_unref(v);
}

/* The same object as another version of it, with what an API would have filled in. */
static struct sw_kube_obj *version_of(const struct sw_kube_obj *o, unsigned generation)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *copy = sw_json_copy(&a, o->json);
    struct sw_json *meta = sw_json_copy(&a, sw_json_find(copy, "metadata"));

    sw_json_put_str(&a, meta, "uid", o->uid.n ? o->uid : o->key);
    sw_json_put(&a, meta, "generation", sw_json_new_u64(&a, generation));
    sw_json_put(&a, copy, "metadata", meta);
    return sw_kube_obj_new(copy);
}

static void replace(struct rig *r, size_t kind, size_t i, unsigned generation)
{
    struct sw_kube_obj *fresh = version_of(r->objs[kind][i], generation);

    assert_non_null(fresh);
    sw_kube_obj_unref(r->objs[kind][i]);
    r->objs[kind][i] = fresh;
}

static void move(struct rig *from, struct rig *to, size_t kind)
{
    size_t i = below((unsigned)from->n[kind]);

    to->objs[kind][to->n[kind]++] = from->objs[kind][i];
    from->objs[kind][i] = from->objs[kind][--from->n[kind]];
}

/* Routes most of the time, anything now and then. */
static size_t any_kind(void)
{
    return below(3) ? SW_MODEL_HTTPROUTE + below(2) * below(5) : below(SW_MODEL_KINDS);
}

static void change(struct rig *in, struct rig *out, int step)
{
    size_t kind = any_kind();

    switch (below(4)) {
    case 0:
        if (in->n[kind])
            move(in, out, kind);
        break;
    case 1:
        if (out->n[kind])
            move(out, in, kind);
        break;
    case 2:
        if (in->n[kind])
            replace(in, kind, below((unsigned)in->n[kind]), (unsigned)step + 2);
        break;
    default:
        (void)rig_apply_statuses(in, (uint64_t)(1700000000 + step) * 1000000000u);
        break;
    }
}

static void run_file(const char *common, const char *path, struct rig *in, struct rig *out)
{
    struct sw_gateway_cache *cache = sw_gateway_cache_new();

    rig_clear(in);
    rig_clear(out);
    assert_true(rig_load(in, common));
    if (strcmp(common, path) != 0)
        assert_true(rig_load(in, path));
    for (size_t k = 0; k < SW_MODEL_KINDS; k++) {
        for (size_t i = 0; i < in->n[k]; i++)
            replace(in, k, i, 1);
    }
    for (int step = 0; step < STEPS; step++) {
        compare(in, cache, path, step);
        change(in, out, step);
    }
    sw_gateway_cache_free(cache);
}

static void memory_changes_nothing(void **state)
{
    struct rig *in = rig_new();
    struct rig *out = rig_new();
    char common[4096];
    char pattern[4096];
    glob_t files;

    (void)state;
    assert_non_null(getenv("SW_GOLDEN"));
    (void)snprintf(pattern, sizeof(pattern), "%s/gateway/*.yaml", getenv("SW_GOLDEN"));
    (void)snprintf(common, sizeof(common), "%s/gateway/_common.yaml", getenv("SW_GOLDEN"));
    assert_int_equal(glob(pattern, 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        seed = i + 1;
        run_file(common, files.gl_pathv[i], in, out);
    }
    assert_true(files.gl_pathc > 50);
    globfree(&files);
    rig_free(in);
    rig_free(out);
}

/* ---- how little is made anew ---- */

enum { ROUTES = 40 };

#define GW "apiVersion: gateway.networking.k8s.io/v1\n"

static void load_shop(struct rig *r)
{
    SW_BUF_AUTO text = {0};

    sw_buf_init(&text, TEXT_MAX);
    assert_int_equal(
        sw_buf_append_str(
            &text, GW "kind: GatewayClass\nmetadata: {name: sw}\n"
                      "spec: {controllerName: spanwire.dev/gateway}\n---\n" GW
                      "kind: Gateway\nmetadata: {name: gw, namespace: a, generation: 1, uid: g}\n"
                      "spec: {gatewayClassName: sw, listeners: [{name: http, port: 8080, protocol: "
                      "HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: "
                      "{in: 'yes'}}}}}, {name: https, port: 8443, protocol: HTTPS, tls: "
                      "{certificateRefs: [{name: cert}]}}]}\n---\n"),
        SW_OK);
    for (int i = 0; i < ROUTES; i++)
        assert_int_equal(
            sw_buf_printf(&text,
                          GW
                          "kind: HTTPRoute\nmetadata: {name: r%d, namespace: %s, generation: 1}\n"
                          "spec: {parentRefs: [{name: gw, namespace: a}], rules: [{backendRefs: "
                          "[{name: s%d, namespace: %s, port: 80}]}]}\n---\n"
                          "apiVersion: v1\nkind: Service\nmetadata: {name: s%d, namespace: a}\n"
                          "spec: {ports: [{port: 80}]}\n---\n",
                          i, i % 4 ? "a" : "b", i, "a", i),
            SW_OK);
    assert_int_equal(sw_buf_append_str(&text,
                                       "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, "
                                       "labels: {in: 'yes'}}\n---\napiVersion: v1\nkind: "
                                       "Namespace\nmetadata: {name: b, labels: {in: "
                                       "'yes'}}\n"),
                     SW_OK);
    assert_true(rig_load_text(r, sw_buf_slice(&text)));
}

/* Builds, compares with a build without memory, and says how many routes were compiled. */
static size_t compiled(struct rig *r, struct sw_gateway_cache *c, const char *what)
{
    size_t before = sw_gateway_cache_stats(c).compiled;

    compare(r, c, what, 0);
    return sw_gateway_cache_stats(c).compiled - before;
}

static void only_what_depends_on_a_change_is_made_anew(void **state)
{
    struct rig *r = rig_new();
    struct sw_gateway_cache *c = sw_gateway_cache_new();
    size_t service = 0;

    (void)state;
    load_shop(r);
    assert_int_equal(compiled(r, c, "first"), ROUTES);
    assert_int_equal(compiled(r, c, "nothing"), 0);
    /* A Service nobody reads otherwise: one more port. */
    while (!sw_slice_eq_str(r->objs[SW_MODEL_SERVICE][service]->name, "s5"))
        service++;
    sw_kube_obj_unref(r->objs[SW_MODEL_SERVICE][service]);
    r->objs[SW_MODEL_SERVICE][service] = r->objs[SW_MODEL_SERVICE][--r->n[SW_MODEL_SERVICE]];
    assert_int_equal(compiled(r, c, "a Service went"), 1);
    assert_true(rig_load_text(r, SW_SLICE_LIT("apiVersion: v1\nkind: Service\nmetadata: {name: s5, "
                                              "namespace: a}\nspec: {ports: [{port: 80, "
                                              "appProtocol: kubernetes.io/h2c}]}\n")));
    assert_int_equal(compiled(r, c, "a Service came"), 1);
    assert_true(rig_load_text(r, SW_SLICE_LIT("apiVersion: v1\nkind: Service\nmetadata: {name: s5, "
                                              "namespace: a, labels: {new: one}}\nspec: {ports: "
                                              "[{port: 80, appProtocol: kubernetes.io/h2c}]}\n")));
    assert_int_equal(compiled(r, c, "a label"), 0);
    assert_true(rig_load_text(
        r,
        SW_SLICE_LIT("apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {name: "
                     "cert, namespace: a}\ndata: {tls.crt: "
                     "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1BTUNBUUU9Ci0tLS0tRU5EIENFUlRJRklDQVRF"
                     "LS0tLS0K, tls.key: "
                     "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1BTUNBUUk9Ci0tLS0tRU5EIFBSSVZBVEUgS0VZ"
                     "LS0tLS0K}\n")));
    assert_int_equal(compiled(r, c, "a Secret"), 0);
    assert_true(rig_load_text(
        r, SW_SLICE_LIT(GW "kind: ReferenceGrant\nmetadata: {name: g, namespace: a}\nspec: {from: "
                           "[{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: b}], "
                           "to: [{group: '', kind: Service}]}\n")));
    assert_int_equal(compiled(r, c, "a grant"), ROUTES / 4);
    assert_true(rig_load_text(
        r, SW_SLICE_LIT("apiVersion: v1\nkind: Namespace\nmetadata: {name: b, labels: {}}\n")));
    assert_int_equal(compiled(r, c, "a namespace"), ROUTES / 4);
    assert_true(rig_load_text(
        r, SW_SLICE_LIT(GW "kind: BackendTLSPolicy\nmetadata: {name: p, namespace: a}\nspec: "
                           "{targetRefs: [{group: '', kind: Service, name: s3}], validation: "
                           "{hostname: x.example, wellKnownCACertificates: System}}\n")));
    assert_int_equal(compiled(r, c, "a policy"), ROUTES);
    sw_gateway_cache_free(c);
    rig_free(r);
}

/* Connections made under roots that are no longer trusted must not carry requests. */
static void other_roots_make_another_cluster(void **state)
{
    static const char *const roots[] = {"MAMCAQM=", "MAMCAQQ=", "MAMCAQM="};
    struct rig *r = rig_new();
    struct sw_gateway_cache *c = sw_gateway_cache_new();
    char names[3][128] = {0};

    (void)state;
    rig_clear(r); /* gives it an address */
    load_shop(r);
    assert_true(rig_load_text(
        r, SW_SLICE_LIT(GW "kind: BackendTLSPolicy\nmetadata: {name: p, namespace: a}\nspec: "
                           "{targetRefs: [{group: '', kind: Service, name: s1}], validation: "
                           "{hostname: x.example, caCertificateRefs: [{group: '', kind: ConfigMap, "
                           "name: roots}]}}\n")));
    for (size_t i = 0; i < 3; i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_model_result got = {0};
        struct sw_view *v;

        assert_true(rig_load_text(
            r, sw_slice_str(sw_arena_printf(
                   &a,
                   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: roots, namespace: a}\ndata: "
                   "{ca.crt: \"-----BEGIN CERTIFICATE-----\\n%s\\n-----END CERTIFICATE-----\"}\n",
                   roots[i]))));
        v = rig_view(r);
        sw_gateway_rebuild(c, v, &r->conf, &a, &got);
        for (size_t k = 0; k < got.model->n_clusters; k++) {
            if (got.model->clusters[k]->tls)
                (void)snprintf(names[i], sizeof(names[i]), "%.*s",
                               SW_SLICE_ARG(got.model->clusters[k]->name));
        }
        view_unref(v);
        compare(r, c, roots[i], (int)i);
    }
    assert_string_not_equal(names[0], names[1]);
    assert_string_equal(names[0], names[2]);
    sw_gateway_cache_free(c);
    rig_free(r);
}

/* Inside a YAML string. */
static const char cert_pem[] = "-----BEGIN CERTIFICATE-----\\n"
                               "MIIBcDCCARWgAwIBAgIUQ3PRYffhj4XatNSg0vwSt4oJbbAwCgYIKoZIzj0EAwIw\\n"
                               "DDEKMAgGA1UEAwwBdDAgFw0yNjExMTYwMjI0MTZaGA8yMTI2MTAyMzAyMjQxNlow\\n"
                               "DDEKMAgGA1UEAwwBdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABL7Y3UUV6d37\\n"
                               "xHA71zdN7FDpb6g21VCYDqKpExSbLT1NQmFXK+NcAGJv+bCf6itAoG/gDl24TJUP\\n"
                               "dWLcbQqhcvejUzBRMB0GA1UdDgQWBBRwYTmLKObYOSmT6p5sxwrRBjYFBzAfBgNV\\n"
                               "HSMEGDAWgBRwYTmLKObYOSmT6p5sxwrRBjYFBzAPBgNVHRMBAf8EBTADAQH/MAoG\\n"
                               "CCqGSM49BAMCA0kAMEYCIQCdLHfDnBjNi1uixIwCwqS2lFg5uZuLeRSEbEsIXb6g\\n"
                               "ogIhAN7z1e9zPuz2AOx973/aHnlLc+Z0lfr38wqzbN+p8ay/\\n"
                               "-----END CERTIFICATE-----\\n";
static const char key_pem[] = "-----BEGIN PRIVATE KEY-----\\n"
                              "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgmjk6Y9dTzlPVOiEM\\n"
                              "Nzxe31coyGOaEgC2O/8PyxmfzWyhRANCAAS+2N1FFend+8RwO9c3TexQ6W+oNtVQ\\n"
                              "mA6iqRMUmy09TUJhVyvjXABib/mwn+orQKBv4A5duEyVD3Vi3G0KoXL3\\n"
                              "-----END PRIVATE KEY-----\\n";

enum { CERT_GATEWAYS = 4, CERT_LISTENERS = 64 };

static void load_certs(struct rig *r)
{
    SW_BUF_AUTO text = {0};

    sw_buf_init(&text, TEXT_MAX);
    for (int g = 0; g < CERT_GATEWAYS; g++) {
        assert_int_equal(sw_buf_printf(&text,
                                       GW "kind: Gateway\nmetadata: {name: tls%d, namespace: a, "
                                          "generation: 1, uid: t%d}\nspec:\n  gatewayClassName: "
                                          "sw\n  listeners:\n",
                                       g, g),
                         SW_OK);
        for (int i = 0; i < CERT_LISTENERS; i++)
            assert_int_equal(sw_buf_printf(&text,
                                           "  - {name: l%d, port: 8443, hostname: h%d-%d.example, "
                                           "protocol: HTTPS, tls: {certificateRefs: [{name: "
                                           "c%d-%d}]}}\n",
                                           i, g, i, g, i),
                             SW_OK);
        for (int i = 0; i < CERT_LISTENERS; i++) /* a comment makes each another text */
            assert_int_equal(
                sw_buf_printf(&text,
                              "---\napiVersion: v1\nkind: Secret\nmetadata: {name: c%d-%d, "
                              "namespace: a}\nstringData: {tls.crt: \"%d-%d\\n%s\", tls.key: "
                              "\"%s\"}\n",
                              g, i, g, i, cert_pem, key_pem),
                SW_OK);
        assert_int_equal(sw_buf_append_str(&text, "---\n"), SW_OK);
    }
    assert_true(rig_load_text(r, sw_buf_slice(&text)));
}

static void certificates_are_looked_into_once(void **state)
{
    struct rig *r = rig_new();
    struct sw_gateway_cache *c = sw_gateway_cache_new();

    (void)state;
    rig_clear(r);
    load_shop(r);
    load_certs(r);
    for (int i = 0; i < 3; i++) {
        compare(r, c, "certificates", i);
        assert_int_equal(sw_gateway_cache_stats(c).certs, CERT_GATEWAYS * CERT_LISTENERS);
    }
    sw_gateway_cache_free(c);
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_changes_nothing),
        cmocka_unit_test(only_what_depends_on_a_change_is_made_anew),
        cmocka_unit_test(other_roots_make_another_cluster),
        cmocka_unit_test(certificates_are_looked_into_once),
    };

    return cmocka_run_group_tests_name("gateway_cache", tests, NULL, NULL);
}
