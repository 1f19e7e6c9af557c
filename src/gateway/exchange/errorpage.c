/* SPDX-License-Identifier: Apache-2.0 */
/* Error pages: the choice of the form, the templates, the directory of the operator's own. */
#include "gateway/exchange/errorpage.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/vec.h"

enum { VALUE_MAX = 1024, FILES_MAX = 600, STATUS_MIN = 400, STATUS_MAX = 599 };

/* ---- Accept ---- */

static const struct {
    const char *type;
    const char *subtype;
    const char *suffix; /* of the file */
    const char *content_type;
} forms[SW_GW_PAGE_TYPES] = {
    [SW_GW_PAGE_PLAIN] = {"text", "plain", "txt", "text/plain; charset=utf-8"},
    [SW_GW_PAGE_HTML] = {"text", "html", "html", "text/html; charset=utf-8"},
    [SW_GW_PAGE_JSON] = {"application", "json", "json", "application/json"},
};

struct sw_slice sw_gw_page_content_type(enum sw_gw_page_type type)
{
    return sw_slice_str(forms[type].content_type);
}

/* Up to the next 'end' outside of quoted strings; takes it and the end off *rest. */
static struct sw_slice cut_unquoted(struct sw_slice *rest, char end)
{
    struct sw_slice in = *rest;
    bool quoted = false;

    for (size_t i = 0; i < in.n; i++) {
        if (quoted && in.p[i] == '\\')
            i++;
        else if (in.p[i] == '"')
            quoted = !quoted;
        else if (in.p[i] == end && !quoted) {
            *rest = sw_slice_from(in, i + 1);
            return sw_slice_head(in, i);
        }
    }
    *rest = sw_slice(NULL, 0);
    return in;
}

/* A weight as RFC 9110 12.4.2 has it: "0.8" is 800. */
static bool read_q(struct sw_slice s, uint16_t *ret)
{
    unsigned value;

    if (s.n == 0 || s.n > 5 || (s.p[0] != '0' && s.p[0] != '1') || (s.n > 1 && s.p[1] != '.'))
        return false;
    value = (unsigned)(s.p[0] - '0') * 1000;
    for (size_t i = 2, scale = 100; i < s.n; i++, scale /= 10) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        value += (unsigned)(s.p[i] - '0') * (unsigned)scale;
    }
    *ret = (uint16_t)value;
    return value <= 1000;
}

static bool weight_of(struct sw_slice parameters, uint16_t *ret)
{
    *ret = 1000;
    while (parameters.p) {
        struct sw_slice value = sw_slice_trim(cut_unquoted(&parameters, ';'));
        struct sw_slice name = sw_slice_cut(&value, '=');

        if (sw_slice_ieq(sw_slice_trim(name), SW_SLICE_LIT("q")) &&
            !read_q(sw_slice_trim(value), ret))
            return false;
    }
    return true;
}

static unsigned precision_of(struct sw_slice type, struct sw_slice subtype, size_t form)
{
    if (sw_slice_eq_str(type, "*"))
        return sw_slice_eq_str(subtype, "*") ? 1 : 0;
    if (!sw_slice_ieq(type, sw_slice_str(forms[form].type)))
        return 0;
    if (sw_slice_eq_str(subtype, "*"))
        return 2;
    return sw_slice_ieq(subtype, sw_slice_str(forms[form].subtype)) ? 3 : 0;
}

void sw_gw_accept_add(struct sw_gw_accept *a, struct sw_slice value)
{
    while (value.p) {
        struct sw_slice parameters = cut_unquoted(&value, ',');
        struct sw_slice subtype = sw_slice_trim(cut_unquoted(&parameters, ';'));
        struct sw_slice type = sw_slice_cut(&subtype, '/');
        uint16_t q;

        if (!subtype.p || !weight_of(parameters, &q))
            continue;
        for (size_t i = 0; i < SW_GW_PAGE_TYPES; i++) {
            unsigned precision = precision_of(type, subtype, i);

            if (precision == 0 || precision < a->of[i].precision ||
                (precision == a->of[i].precision && q <= a->of[i].q))
                continue;
            a->of[i].precision = (uint8_t)precision;
            a->of[i].q = q;
        }
    }
}

/* By weight; then those the client named; then HTML, JSON, plain. By a wildcard alone: plain. */
static unsigned rank_of(const struct sw_gw_accept *a, enum sw_gw_page_type t)
{
    static const unsigned named[SW_GW_PAGE_TYPES] = {
        [SW_GW_PAGE_PLAIN] = 2, [SW_GW_PAGE_JSON] = 3, [SW_GW_PAGE_HTML] = 4};
    unsigned among = a->of[t].precision == 3 ? named[t] : t == SW_GW_PAGE_PLAIN;

    return a->of[t].q ? a->of[t].q * 8U + among : 0;
}

enum sw_gw_page_type sw_gw_accept_choose(const struct sw_gw_accept *a)
{
    enum sw_gw_page_type best = SW_GW_PAGE_PLAIN;

    for (size_t i = 0; i < SW_GW_PAGE_TYPES; i++) {
        if (rank_of(a, (enum sw_gw_page_type)i) > rank_of(a, best))
            best = (enum sw_gw_page_type)i;
    }
    return best;
}

/* ---- templates ---- */

static const char builtin_plain[] = "{{status}} {{title}}: {{reason}}.\n"
                                    "{{visitor}}\n"
                                    "Owner: {{owner}}\n"
                                    "Request id: {{request_id}}\n";

static const char builtin_html[] =
    "<!DOCTYPE html>\n"
    "<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"robots\" content=\"noindex\">\n"
    "<title>{{status}} {{title}}</title>\n"
    "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:12vh auto;padding:0 1em;"
    "color:#222;background:#fff}h1{font-size:1.4em}code{word-break:break-all}"
    "small{color:#555}@media(prefers-color-scheme:dark){body{color:#ddd;background:#111}"
    "small{color:#aaa}}</style></head>\n"
    "<body><h1>{{status}} {{title}}</h1>\n"
    "<p>{{host}}: {{reason}}.</p>\n"
    "<p>{{visitor}}</p>\n"
    "<p><small>If this is your site: {{owner}}</small></p>\n"
    "<p><small>Request id <code>{{request_id}}</code></small></p>\n"
    "</body></html>\n";

static const char builtin_json[] =
    "{\"status\":{{status}},\"title\":\"{{title}}\",\"reason\":\"{{reason}}\","
    "\"visitor\":\"{{visitor}}\",\"owner\":\"{{owner}}\",\"host\":\"{{host}}\","
    "\"request_id\":\"{{request_id}}\"}\n";

struct file {
    int status; /* 0: default */
    enum sw_gw_page_type type;
    struct sw_slice text; /* owned */
};

struct sw_gw_pages {
    _Atomic uint32_t refs;
    SW_VEC(struct file) files;
};

static const struct {
    const char *name;
    size_t offset; /* of a slice in struct sw_gw_page; SIZE_MAX: the status */
} values[] = {
    {"status", SIZE_MAX},
    {"title", offsetof(struct sw_gw_page, title)},
    {"reason", offsetof(struct sw_gw_page, reason)},
    {"visitor", offsetof(struct sw_gw_page, visitor)},
    {"owner", offsetof(struct sw_gw_page, owner)},
    {"request_id", offsetof(struct sw_gw_page, request_id)},
    {"host", offsetof(struct sw_gw_page, host)},
};

/* Index of the value that "NAME}}" at the start of *rest means, which is taken off; -1: none. */
static int take_name(struct sw_slice *rest)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(values); i++) {
        size_t n = strlen(values[i].name);

        if (rest->n >= n + 2 && memcmp(rest->p, values[i].name, n) == 0 &&
            memcmp(rest->p + n, "}}", 2) == 0) {
            *rest = sw_slice_from(*rest, n + 2);
            return (int)i;
        }
    }
    return -1;
}

/* Up to the next "{{", which is taken off *rest too; rest->p is NULL when there is none. */
static struct sw_slice take_text(struct sw_slice *rest)
{
    struct sw_slice in = *rest;
    const char *hit = in.n ? memmem(in.p, in.n, "{{", 2) : NULL;

    *rest = hit ? sw_slice_from(in, (size_t)(hit - in.p) + 2) : sw_slice(NULL, 0);
    return hit ? sw_slice_head(in, (size_t)(hit - in.p)) : in;
}

int sw_gw_page_check(struct sw_slice template, struct sw_err *err)
{
    struct sw_slice rest = template;

    for (;;) {
        size_t offset;

        (void)take_text(&rest);
        if (!rest.p)
            return SW_OK;
        offset = (size_t)(rest.p - template.p) - 2;
        if (take_name(&rest) < 0) {
            int rc = sw_err_set(err, SW_EINVAL, "unknown placeholder at byte %zu: '{{%.*s'", offset,
                                SW_SLICE_ARG_MAX(rest, 20));

            if (err)
                err->offset = offset;
            return rc;
        }
    }
}

/* Control bytes and what is not UTF-8 would make plain text something else. */
static int put_plain(struct sw_buf *out, struct sw_slice s)
{
    int rc = SW_OK;

    for (size_t i = 0; i < s.n && rc == SW_OK; i++) {
        unsigned char c = (unsigned char)s.p[i];

        rc = sw_buf_putc(out, c < ' ' || c >= 0x7f ? '?' : (char)c);
    }
    return rc;
}

/* The inside of a JSON string. */
static int put_json(struct sw_buf *out, struct sw_slice s)
{
    SW_BUF_AUTO text = {0};
    struct sw_slice quoted;

    sw_buf_init(&text, (size_t)VALUE_MAX * 8);
    if (sw_json_write_string(&text, s, 0) != SW_OK)
        return SW_ELIMIT;
    quoted = sw_buf_slice(&text);
    return sw_buf_append(out, quoted.p + 1, quoted.n - 2);
}

static int put_value(struct sw_buf *out, enum sw_gw_page_type type, const struct sw_gw_page *p,
                     size_t which)
{
    struct sw_slice s;

    if (values[which].offset == SIZE_MAX)
        return sw_buf_printf(out, "%d", p->status);
    memcpy(&s, (const char *)p + values[which].offset, sizeof(s));
    s = sw_slice_head(s, VALUE_MAX);
    switch (type) {
    case SW_GW_PAGE_HTML:
        return sw_buf_append_html(out, s);
    case SW_GW_PAGE_JSON:
        return put_json(out, s);
    case SW_GW_PAGE_PLAIN:
    case SW_GW_PAGE_TYPES:
        break;
    }
    return put_plain(out, s);
}

static const struct file *find(const struct sw_gw_pages *pages, enum sw_gw_page_type type,
                               int status)
{
    const struct file *best = NULL;

    for (size_t i = 0; pages && i < pages->files.n; i++) {
        const struct file *f = &pages->files.p[i];

        if (f->type == type && (f->status == status || (f->status == 0 && !best)))
            best = f;
        if (best && best->status == status)
            break;
    }
    return best;
}

static struct sw_slice builtin(enum sw_gw_page_type type)
{
    return type == SW_GW_PAGE_HTML   ? SW_SLICE_LIT(builtin_html)
           : type == SW_GW_PAGE_JSON ? SW_SLICE_LIT(builtin_json)
                                     : SW_SLICE_LIT(builtin_plain);
}

int sw_gw_page_write(const struct sw_gw_pages *pages, enum sw_gw_page_type type,
                     const struct sw_gw_page *p, struct sw_buf *out)
{
    const struct file *f = find(pages, type, p->status);
    struct sw_slice rest = f ? f->text : builtin(type);
    int rc;

    do {
        struct sw_slice text = take_text(&rest);
        int which = rest.p ? take_name(&rest) : -1;

        rc = sw_buf_append_slice(out, text);
        if (rc == SW_OK && which >= 0)
            rc = put_value(out, type, p, (size_t)which);
    } while (rc == SW_OK && rest.p);
    return rc;
}

/* ---- the operator's own ---- */

/* "404.html" or "default.json"; false: not ours. */
static bool read_name(const char *name, struct file *ret)
{
    struct sw_slice suffix = sw_slice_str(name);
    struct sw_slice stem = sw_slice_cut(&suffix, '.');
    uint64_t status = 0;

    if (!sw_slice_eq_str(stem, "default") &&
        (stem.n != 3 || !sw_slice_to_u64(stem, STATUS_MAX, &status) || status < STATUS_MIN))
        return false;
    for (size_t i = 0; i < SW_GW_PAGE_TYPES; i++) {
        if (suffix.p && sw_slice_eq_str(suffix, forms[i].suffix)) {
            *ret = (struct file){.status = (int)status, .type = (enum sw_gw_page_type)i};
            return true;
        }
    }
    return false;
}

static int load_file(struct sw_gw_pages *p, const char *dir, const char *name, struct sw_err *err)
{
    SW_AUTO_FREE char *path = sw_asprintf("%s/%s", dir, name);
    struct file f;
    int rc;

    if (!read_name(name, &f))
        return SW_OK;
    if (p->files.n == FILES_MAX)
        return sw_err_set(err, SW_ELIMIT, "'%s': more than %d error pages", dir, FILES_MAX);
    rc = sw_file_read(path, SW_GW_PAGE_MAX, &f.text, err);
    if (rc != SW_OK)
        return rc;
    sw_vec_push(&p->files, f); /* the owner from here on */
    rc = sw_gw_page_check(f.text, err);
    return rc == SW_OK ? SW_OK : sw_err_prefix(err, "%s", path);
}

struct sw_gw_pages *sw_gw_pages_load(const char *dir, struct sw_err *err)
{
    struct sw_gw_pages *p;
    DIR *d = opendir(dir);
    struct dirent *e;
    int rc = SW_OK;

    if (!d) {
        (void)sw_err_sys(err, errno, "error pages: cannot read directory '%s'", dir);
        return NULL;
    }
    p = SW_NEW(struct sw_gw_pages);
    atomic_init(&p->refs, 1);
    while (rc == SW_OK && (e = readdir(d)) != NULL) /* NOLINT(concurrency-mt-unsafe) */
        rc = load_file(p, dir, e->d_name, err);
    (void)closedir(d);
    return rc == SW_OK ? p : sw_gw_pages_unref(p);
}

size_t sw_gw_pages_count(const struct sw_gw_pages *p)
{
    return p->files.n;
}

struct sw_gw_pages *sw_gw_pages_unref(struct sw_gw_pages *p)
{
    if (p && atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1) {
        for (size_t i = 0; i < p->files.n; i++)
            sw_slice_free(&p->files.p[i].text);
        sw_vec_done(&p->files);
        sw_free(p);
    }
    return NULL;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sw_gw_pages *current; /* a reference, under the lock */

void sw_gw_pages_set(struct sw_gw_pages *p)
{
    struct sw_gw_pages *old;

    (void)pthread_mutex_lock(&lock);
    old = current;
    current = p;
    (void)pthread_mutex_unlock(&lock);
    (void)sw_gw_pages_unref(old);
}

struct sw_gw_pages *sw_gw_pages_get(void)
{
    struct sw_gw_pages *p;

    (void)pthread_mutex_lock(&lock);
    p = current;
    if (p)
        atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    (void)pthread_mutex_unlock(&lock);
    return p;
}
