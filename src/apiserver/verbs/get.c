/* SPDX-License-Identifier: Apache-2.0 */
/* Reading one object; what reading has in common: revisions and selectors. */
#include "apiserver/api/api.h"
#include "apiserver/api/work.h"
#include "apiserver/verbs/verbs.h"
#include "base/time.h"
#include "kube/select/fieldsel.h"

static const uint64_t wait_ns = 3 * SW_NS_PER_S;

/* --- waiting for a revision that has not happened yet ----------------------------------- */

struct future {
    struct sw_list link; /* in api->futures */
    struct api_req *r;
    struct sw_timer timer;
    uint64_t revision;
    api_work_fn then;
    unsigned ticks;
};

void api_rv_too_large(struct api_req *r, uint64_t revision)
{
    struct sw_arena *a = r->arena;
    struct sw_json *cause = SW_JSON_OF(a, {"reason", .str = "ResourceVersionTooLarge"},
                                       {"message", .str = "Too large resource version"});

    api_fail_details(r, 504, "Timeout",
                     sw_arena_printf(a, "Timeout: Too large resource version: %llu, current: %llu",
                                     (unsigned long long)revision,
                                     (unsigned long long)sw_store_revision(r->api->store)),
                     SW_JSON_OF(a, {"causes", .json = sw_json_new_list(a, cause)},
                                {"retryAfterSeconds", .json = sw_json_new_i64(a, 1)}));
}

/* It ends with its request. */
static void end(struct future *f)
{
    sw_list_unlink(&f->link);
    if (!f->r->api->store)
        api_shutting_down(f->r);
    else if (sw_store_revision(f->r->api->store) >= f->revision)
        f->then(f->r, NULL);
    else
        api_rv_too_large(f->r, f->revision);
}

static void on_tick(struct sw_timer *t)
{
    struct future *f = SW_CONTAINER_OF(t, struct future, timer);
    struct sw_api *api = f->r->api;

    if (!api->store || sw_store_revision(api->store) >= f->revision || ++f->ticks >= 30 ||
        api->phase.stopping)
        end(f);
    else
        sw_timer_start(api->loop, t, wait_ns / 30, on_tick);
}

void api_futures_end(struct sw_api *api)
{
    while (!sw_list_empty(&api->futures)) {
        struct future *f = SW_CONTAINER_OF(api->futures.next, struct future, link);

        sw_timer_stop(api->loop, &f->timer);
        end(f);
    }
}

bool api_wait_revision(struct api_req *r, uint64_t revision, api_work_fn then)
{
    struct future *f;

    if (revision <= sw_store_revision(r->api->store))
        return true;
    f = SW_ARENA_NEW(r->arena, struct future);
    *f = (struct future){.r = r, .revision = revision, .then = then};
    sw_list_push_back(&r->api->futures, &f->link);
    sw_timer_start(r->api->loop, &f->timer, wait_ns / 30, on_tick);
    return false;
}

const char *api_bad_rv(struct sw_arena *a, struct sw_slice v)
{
    const char *quoted = sw_go_quote(a, sw_slice_head(v, 256));

    return sw_arena_printf(
        a, "resourceVersion: Invalid value: %s: strconv.ParseUint: parsing %s: invalid syntax",
        quoted, quoted);
}

bool api_read_rv(struct api_req *r, uint64_t *ret)
{
    struct sw_slice v = api_param(r, "resourceVersion");

    *ret = 0;
    if (v.n == 0 || sw_slice_to_u64(v, INT64_MAX, ret))
        return true;
    api_bad_request(r, "%s%s", r->verb == API_LIST ? "invalid resource version: " : "",
                    api_bad_rv(r->arena, v));
    return false;
}

/* --- one object ------------------------------------------------------------------------- */

static void get_now(struct api_req *r, void *arg)
{
    struct sw_slice key = api_key(r->arena, r->res, r->ns, r->name);
    struct sw_store_obj *o;
    struct sw_buf b = {.max = (size_t)64 << 20};

    r->snap = sw_store_snap_unref(r->snap);
    r->snap = sw_store_snapshot(r->api->store);
    o = sw_store_snap_get(r->snap, key);
    if (!o) {
        api_not_found(r);
        return;
    }
    if (o->value.n > API_INLINE_OBJECT && r->x && !api_work_here()) {
        api_work_run(r, get_now, NULL);
        return;
    }
    api_off_loop();
    if (r->out.as != API_AS_OBJECT || r->out.pretty || r->out.yaml || !r->x) {
        api_reply_object(r, 200, api_load(r->arena, r->res, o));
        return;
    }
    if (api_write_obj(&b, r->res, o, true) != SW_OK || sw_buf_putc(&b, '\n') != SW_OK) {
        sw_buf_done(&b);
        api_internal_error(r, "the stored object is damaged");
        return;
    }
    sw_xchg_set(r->x, "Cache-Control", SW_SLICE_LIT("no-cache, private"));
    api_reply_buf(r, 200, "application/json", &b);
}

void api_get(struct api_req *r)
{
    uint64_t rv;

    if (api_read_rv(r, &rv) && api_wait_revision(r, rv, get_now))
        get_now(r, NULL);
}

/* --- selectors -------------------------------------------------------------------------- */

/* The name in the path of a watch is its field selector; another one must say the same. */
static bool select_one(struct api_req *r, struct api_filter *f)
{
    struct sw_slice name = sw_slice("", 0);

    if (!f->has_fields) {
        f->fields.p = SW_ARENA_NEW(r->arena, struct sw_field_term);
        f->fields.p[0] =
            (struct sw_field_term){.path = SW_SLICE_LIT("metadata.name"), .value = r->selected};
        f->fields.n = 1;
        f->has_fields = true;
        return true;
    }
    if (sw_field_selector_exact(&f->fields, "metadata.name", &name) &&
        sw_slice_eq(name, r->selected))
        return true;
    api_bad_request(r, "fieldSelector metadata.name doesn't match requested name");
    return false;
}

bool api_filter_syntax(struct api_req *r, struct api_filter *f)
{
    struct sw_slice labels = api_param(r, "labelSelector");
    struct sw_slice fields = api_param(r, "fieldSelector");
    const char *why = "";

    *f = (struct api_filter){0};
    if ((labels.n && sw_label_selector_parse(r->arena, labels, &f->labels, &why) != SW_OK) ||
        (fields.n && sw_field_selector_parse(r->arena, fields, &f->fields, &why) != SW_OK)) {
        api_bad_request(r, "%s", why);
        return false;
    }
    f->has_labels = f->labels.n > 0 || f->labels.nothing;
    f->has_fields = f->fields.n > 0;
    return true;
}

bool api_filter_labels(struct api_req *r, struct api_filter *f)
{
    const char *why = "";

    if (f->has_fields &&
        sw_field_selector_check(r->arena, &f->fields, r->res->selectors,
                                r->res->flags & SW_B_STRICT_SELECTOR, &why) != SW_OK) {
        api_bad_request(r, "%s", why);
        return false;
    }
    return !r->selected.n || select_one(r, f);
}

/* Selectors on name and namespace need no look into the object. */
static bool match_key(const struct api_filter *f, const struct api_res *res, struct sw_slice key,
                      bool *ret_rest)
{
    struct sw_slice ns;
    struct sw_slice name;

    *ret_rest = false;
    api_split_key(res, key, &ns, &name);
    for (size_t i = 0; i < f->fields.n; i++) {
        const struct sw_field_term *t = &f->fields.p[i];
        struct sw_slice v;

        if (sw_slice_eq_str(t->path, "metadata.name")) {
            v = name;
        } else if (sw_slice_eq_str(t->path, "metadata.namespace")) {
            v = ns;
        } else {
            *ret_rest = true;
            continue;
        }
        if (sw_slice_eq(v, t->value) == t->negate)
            return false;
    }
    return true;
}

bool api_filter_match(const struct api_filter *f, const struct api_res *res,
                      const struct sw_store_obj *o)
{
    SW_ARENA_AUTO tmp = {0};
    bool rest = false;
    struct sw_json *obj;

    if (f->has_fields && !match_key(f, res, o->key, &rest))
        return false;
    if (!rest && !f->has_labels)
        return true;
    obj = api_load(&tmp, res, o);
    if (!obj)
        return false;
    if (f->has_labels &&
        !sw_label_selector_match(&f->labels, sw_json_walk(obj, "metadata", "labels", NULL)))
        return false;
    return !rest || sw_field_selector_match(&f->fields, obj);
}
