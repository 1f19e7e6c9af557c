/* SPDX-License-Identifier: Apache-2.0 */
/* Reading objects of the API: members with defaults, ages, metadata, conditions; making them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/slice.h"
#include "kube/client/informer.h"

/* The member's text; p == NULL when it is not there. */
struct sw_slice js(const struct sw_json *v, const char *key);
/* The member's text, or the default when it is not there. */
struct sw_slice js_or(const struct sw_json *v, const char *key, const char *other);
/* An integer in 0..max; 'other' when absent or anything else. */
int64_t js_int(const struct sw_json *v, const char *key, int64_t max, int64_t other);
struct sw_slice created_of(const struct sw_kube_obj *o);
int64_t generation_of(const struct sw_kube_obj *o);
/* Oldest first, then namespace/name. */
int by_age(const struct sw_kube_obj *x, const struct sw_kube_obj *y);
/* The same for qsort() of pointers to objects. */
int cn_oldest_first(const void *x, const void *y);
/* And of pointers to structs that begin with a pointer to their object. */
int cn_oldest_holder_first(const void *x, const void *y);

/* metadata.<what>.<key>; p == NULL when it is not there. */
struct sw_slice cn_meta_of(const struct sw_kube_obj *o, const char *what, const char *key);
bool cn_deleting(const struct sw_kube_obj *o);
bool cn_has_finalizer(const struct sw_kube_obj *o, struct sw_slice name);

/* status.conditions; NULL: there are none. o may be NULL. */
const struct sw_json *cn_conditions(const struct sw_kube_obj *o);
/* True for a condition of this type with status True. */
bool cn_is_true(const struct sw_json *conditions, const char *type);
const struct sw_json *cn_condition(const struct sw_json *conditions, const char *type);

/*
 * A port of a list ("ports" of a Service, a slice) with this protocol, by its number (0: any) and
 * its name (p == NULL: any); NULL: there is none.
 */
const struct sw_json *cn_port(const struct sw_json *ports, uint16_t number, struct sw_slice name,
                              const char *proto);

/* ---- making ---- */

/* A new object; ns may be empty. */
struct sw_json *cn_object(struct sw_arena *a, const char *api, const char *kind, struct sw_slice ns,
                          struct sw_slice name);
/* metadata.<what>.<key> = value, made where missing ("labels", "annotations"). */
void cn_meta(struct sw_arena *a, struct sw_json *obj, const char *what, const char *key,
             struct sw_slice value);
/* A new object as the only item of a list that is member 'key'. */
struct sw_json *cn_put_item(struct sw_arena *a, struct sw_json *to, const char *key);
/* printf as a slice in the arena. */
struct sw_slice cn_printf(struct sw_arena *a, const char *fmt, ...) SW_PRINTF(2, 3);
/* The same as a C string. */
#define cn_text(a, ...) (cn_printf((a), __VA_ARGS__).p)
/* A copy of n elements, with room for one more; of those of a vector. */
void *cn_copy(struct sw_arena *a, const void *p, size_t n, size_t size);
#define CN_COPY_VEC(a, v) cn_copy((a), (v)->p, (v)->n, sizeof(*(v)->p))
