/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/plugin/request.h"

#include <ctype.h>
#include <string.h>

#include "base/search.h"
#include "base/time.h"

#define DEFAULT_SOCKET  "/var/run/spanwire-cni/plugin.sock"
#define DEFAULT_TIMEOUT (90 * SW_NS_PER_S)

static const char *const versions[] = {"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0", NULL};

static const struct {
    const char *name;
    enum sw_cni_command command;
} commands[] = {
    {"ADD", SW_CNI_ADD}, {"DEL", SW_CNI_DEL},       {"CHECK", SW_CNI_CHECK},
    {"GC", SW_CNI_GC},   {"STATUS", SW_CNI_STATUS}, {"VERSION", SW_CNI_VERSION},
};

bool sw_cni_version_known(struct sw_slice v)
{
    return sw_word_in(v, versions);
}

/* ---- environment ---- */

static bool id_ok(struct sw_slice s)
{
    if (s.n == 0 || s.n > 255 || !isalnum((unsigned char)s.p[0]))
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if (!isalnum((unsigned char)s.p[i]) && !strchr("_.-", s.p[i]))
            return false;
    }
    return true;
}

static bool ifname_ok(struct sw_slice s)
{
    if (s.n == 0 || s.n > 15 || sw_slice_eq_str(s, ".") || sw_slice_eq_str(s, ".."))
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '/' || s.p[i] == ':' || (unsigned char)s.p[i] <= 0x20)
            return false;
    }
    return true;
}

static int find_command(const char *name, enum sw_cni_command *ret, struct sw_err *err)
{
    for (size_t i = 0; name && i < SW_ARRAY_LEN(commands); i++) {
        if (strcmp(commands[i].name, name) == 0) {
            *ret = commands[i].command;
            return SW_OK;
        }
    }
    return sw_err_set(err, SW_EINVAL, "CNI_COMMAND is '%.40s'", name ? name : "");
}

/* "K=V;K=V": names of Kubernetes; others are for other plugins. */
static void read_args(struct sw_arena *a, const char *text, struct sw_cni_request *r)
{
    struct sw_slice rest = sw_slice_str(text);

    while (rest.p && rest.n) {
        struct sw_slice value = sw_slice_cut(&rest, ';');
        struct sw_slice key = sw_slice_cut(&value, '=');

        if (!value.p)
            continue;
        if (sw_slice_eq_str(key, "K8S_POD_NAMESPACE"))
            r->pod_ns = sw_arena_slice(a, value);
        else if (sw_slice_eq_str(key, "K8S_POD_NAME"))
            r->pod_name = sw_arena_slice(a, value);
        else if (sw_slice_eq_str(key, "K8S_POD_UID"))
            r->pod_uid = sw_arena_slice(a, value);
    }
}

static int read_env(struct sw_arena *a, const struct sw_cni_env *env, struct sw_cni_request *r,
                    struct sw_err *err)
{
    bool attachment;
    int rc = find_command(env->command, &r->command, err);

    if (rc != SW_OK)
        return rc;
    attachment = r->command == SW_CNI_ADD || r->command == SW_CNI_DEL || r->command == SW_CNI_CHECK;
    r->container_id = sw_arena_slice(a, sw_slice_str(env->container_id ? env->container_id : ""));
    r->ifname = sw_arena_slice(a, sw_slice_str(env->ifname ? env->ifname : ""));
    r->netns = sw_arena_slice(a, sw_slice_str(env->netns ? env->netns : ""));
    if (env->args)
        read_args(a, env->args, r);
    if (!attachment)
        return SW_OK;
    if (!id_ok(r->container_id))
        return sw_err_set(err, SW_EINVAL, "CNI_CONTAINERID is missing or not an identifier");
    if (!ifname_ok(r->ifname))
        return sw_err_set(err, SW_EINVAL, "CNI_IFNAME is missing or not an interface name");
    if (r->command != SW_CNI_DEL && r->netns.n == 0)
        return sw_err_set(err, SW_EINVAL, "CNI_NETNS is missing");
    return SW_OK;
}

/* ---- configuration ---- */

static int read_settings(struct sw_arena *a, struct sw_cni_request *r, struct sw_err *err)
{
    const struct sw_json *socket = sw_json_find(r->conf, "agentSocket");
    const struct sw_json *timeout = sw_json_find(r->conf, "timeout");
    const struct sw_json *excluded = sw_json_find(r->conf, "excludeNamespaces");

    r->socket = DEFAULT_SOCKET;
    r->timeout_ns = DEFAULT_TIMEOUT;
    if (socket) {
        struct sw_slice path = sw_json_str(socket);

        if (path.n == 0 || path.p[0] != '/' || memchr(path.p, '\0', path.n))
            return sw_err_set(err, SW_EINVAL, "agentSocket is not an absolute path");
        r->socket = sw_arena_dup(a, path);
    }
    if (timeout && (!sw_json_is(timeout, SW_JSON_STRING) ||
                    sw_duration_parse(sw_json_str(timeout), &r->timeout_ns, err) != SW_OK))
        return sw_err_set(err, SW_EINVAL, "timeout is not a duration such as 30s");
    if (excluded && !sw_json_is(excluded, SW_JSON_ARRAY))
        return sw_err_set(err, SW_EINVAL, "excludeNamespaces is not a list");
    return SW_OK;
}

static int read_conf(struct sw_arena *a, struct sw_cni_request *r, struct sw_err *err)
{
    r->prev = sw_json_find(r->conf, "prevResult");
    r->valid = sw_json_find(r->conf, "cni.dev/valid-attachments");
    if (sw_json_is(r->prev, SW_JSON_NULL))
        r->prev = NULL;
    /* libcni writes a list that the runtime left out so: DEL ends what has ended. */
    if (sw_json_is(r->valid, SW_JSON_NULL))
        r->valid = NULL;
    if (r->prev && !sw_json_is(r->prev, SW_JSON_OBJECT))
        return sw_err_set(err, SW_EINVAL, "prevResult is not an object");
    if (r->valid && !sw_json_is(r->valid, SW_JSON_ARRAY))
        return sw_err_set(err, SW_EINVAL, "cni.dev/valid-attachments is not a list");
    return read_settings(a, r, err);
}

int sw_cni_request_parse(struct sw_arena *a, const struct sw_cni_env *env, struct sw_slice input,
                         struct sw_cni_request *ret, enum sw_cni_code *ret_code, struct sw_err *err)
{
    static const struct sw_json_opts opts = {.max_bytes = SW_CNI_INPUT_MAX, .max_depth = 64};
    struct sw_cni_request r = {0};
    struct sw_json *conf = NULL;
    int env_rc = read_env(a, env, &r, err);
    struct sw_err json_err = {0};

    *ret = r;
    *ret_code = SW_CNI_BAD_ENV;
    if (env_rc != SW_OK)
        return env_rc;
    *ret_code = SW_CNI_DECODE;
    if (sw_json_parse(a, input, &opts, &conf, &json_err) != SW_OK) {
        /* VERSION may come without any input. */
        if (r.command == SW_CNI_VERSION && sw_slice_trim_lines(input).n == 0)
            return SW_OK;
        return sw_err_set(err, SW_EINVAL, "configuration: %s", json_err.msg);
    }
    if (!sw_json_is(conf, SW_JSON_OBJECT))
        return sw_err_set(err, SW_EINVAL, "configuration is not an object");
    r.conf = conf;
    r.version = sw_json_str(sw_json_find(conf, "cniVersion"));
    *ret = r;
    if (r.command == SW_CNI_VERSION)
        return SW_OK;
    *ret_code = SW_CNI_BAD_VERSION;
    if (!sw_cni_version_known(r.version))
        return sw_err_set(err, SW_EINVAL, "cniVersion '%.*s' is not supported (0.3.0 to 1.1.0 are)",
                          SW_SLICE_ARG_MAX(r.version, 20));
    *ret_code = SW_CNI_BAD_CONFIG;
    if (read_conf(a, &r, err) != SW_OK)
        return SW_EINVAL;
    *ret = r;
    *ret_code = SW_CNI_OK;
    return SW_OK;
}

bool sw_cni_passes(const struct sw_cni_request *r)
{
    const struct sw_json *excluded = sw_json_find(r->conf, "excludeNamespaces");

    if (r->pod_ns.n == 0 || r->pod_name.n == 0)
        return true;
    SW_JSON_ITEMS (it, excluded) {
        if (sw_slice_eq(sw_json_str(it), r->pod_ns))
            return true;
    }
    return false;
}

/* ---- answers ---- */

/* Members that versions before 1.1 do not have. */
static const char *const newer_interface[] = {"mtu", "socketPath", "pciID", NULL};
static const char *const newer_route[] = {"mtu", "advmss", "priority", "table", "scope", NULL};

static void strip(struct sw_json *list, const char *const *keys)
{
    SW_JSON_ITEMS (it, list) {
        for (size_t k = 0; keys[k] && sw_json_is(it, SW_JSON_OBJECT); k++)
            (void)sw_json_remove(it, sw_slice_str(keys[k]));
    }
}

/* Up to 0.4 every address says its family. */
static void ip_versions(struct sw_arena *a, struct sw_json *ips, bool wanted)
{
    SW_JSON_ITEMS (ip, ips) {
        struct sw_slice address = sw_json_str(sw_json_find(ip, "address"));

        if (!sw_json_is(ip, SW_JSON_OBJECT))
            continue;
        if (wanted)
            sw_json_put_str(a, ip, "version",
                            sw_slice_str(sw_slice_find(address, ':') >= 0 ? "6" : "4"));
        else
            (void)sw_json_remove(ip, SW_SLICE_LIT("version"));
    }
}

int sw_cni_result(struct sw_arena *a, const struct sw_cni_request *r, struct sw_json **ret,
                  struct sw_err *err)
{
    struct sw_json *out = r->prev ? sw_json_copy(a, r->prev) : sw_json_new_object(a);
    struct sw_slice had = sw_json_str(sw_json_find(out, "cniVersion"));
    bool old = sw_slice_has_prefix(r->version, SW_SLICE_LIT("0."));

    if (had.n && !sw_cni_version_known(had))
        return sw_err_set(err, SW_EINVAL, "prevResult of version '%.*s' cannot be converted",
                          SW_SLICE_ARG_MAX(had, 20));
    sw_json_put_str(a, out, "cniVersion", r->version);
    ip_versions(a, sw_json_find(out, "ips"), old);
    if (!sw_slice_eq_str(r->version, "1.1.0")) {
        strip(sw_json_find(out, "interfaces"), newer_interface);
        strip(sw_json_find(out, "routes"), newer_route);
    }
    *ret = out;
    return SW_OK;
}

struct sw_json *sw_cni_versions(struct sw_arena *a, struct sw_slice version)
{
    struct sw_json *out = sw_json_new_object(a);
    struct sw_json *list;

    sw_json_put_str(a, out, "cniVersion", version.n ? version : SW_SLICE_LIT("1.1.0"));
    list = sw_json_put_array(a, out, "supportedVersions");
    for (size_t i = 0; versions[i]; i++)
        sw_json_push(a, list, sw_json_new_str(a, versions[i]));
    return out;
}

struct sw_json *sw_cni_error(struct sw_arena *a, struct sw_slice version, enum sw_cni_code code,
                             const char *msg)
{
    struct sw_json *out = sw_json_new_object(a);

    sw_json_put_str(a, out, "cniVersion",
                    sw_cni_version_known(version) ? version : SW_SLICE_LIT("1.1.0"));
    sw_json_put(a, out, "code", sw_json_new_i64(a, (int64_t)code));
    sw_json_put_text(a, out, "msg", msg);
    return out;
}

static void put_ips(struct sw_arena *a, struct sw_json *out, const struct sw_json *prev)
{
    const struct sw_json *ips = sw_json_find(prev, "ips");

    for (size_t i = 0; i < sw_json_len(ips) && i < SW_CNI_IPS_MAX; i++) {
        struct sw_slice rest = sw_json_str(sw_json_find(sw_json_at(ips, i), "address"));
        struct sw_slice ip = sw_slice_cut(&rest, '/');

        if (ip.n)
            sw_json_put_str(a, sw_json_put_object(a, sw_json_push_object(a, out), "Address"), "IP",
                            ip);
    }
}

struct sw_json *sw_cni_agent_body(struct sw_arena *a, const struct sw_cni_request *r)
{
    struct sw_json *out = sw_json_new_object(a);

    sw_json_put_str(a, out, "Netns", r->netns);
    sw_json_put_str(a, out, "PodName", r->pod_name);
    sw_json_put_str(a, out, "PodNamespace", r->pod_ns);
    put_ips(a, sw_json_put_array(a, out, "IPs"), r->prev);
    sw_json_put_str(a, out, "PodUID", r->pod_uid);
    sw_json_put_str(a, out, "ContainerID", r->container_id);
    sw_json_put_str(a, out, "IfName", r->ifname);
    if (r->valid)
        sw_json_put(a, out, "ValidAttachments", sw_json_copy(a, r->valid));
    return out;
}
