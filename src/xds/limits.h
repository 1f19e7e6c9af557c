/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a gateway takes, known to both ends: the control plane leaves out what goes beyond, object
 * by object, since a resource is shared by all tenants whose routes are on a port.
 */
#pragma once

enum {
    SW_XDS_FORMAT_MAX =
        256, /* pieces of a header's value: a percent sign is one, and the text after it */
    SW_XDS_RESOURCE_MAX = 64 << 20,   /* bytes of one resource */
    SW_XDS_PATH_MAX = 8192,           /* of a match */
    SW_XDS_HEADER_MAX = 16384,        /* name, or value, of a header to be written */
    SW_XDS_REGEX_WORDS_MAX = 2000000, /* sw_regex_size of all expressions of one resource */
    SW_XDS_REGEX_WRAP_WORDS = 64,     /* what matching the whole text adds to an expression's */
    SW_XDS_CHAINS_MAX = 100000,       /* of a listener */
};

/*
 * A cluster whose backend is a host name: for all clients it is EDS with the addresses that the
 * control plane found and checked. Its metadata SW_XDS_NAME_KEY, field SW_XDS_NAME_FIELD, has
 * "host:port" for clients with the feature SW_XDS_RESOLVES, which look the name up and check the
 * addresses when they connect.
 */
#define SW_XDS_RESOLVES   "spanwire.dev/resolves-names"
#define SW_XDS_NAME_KEY   "spanwire"
#define SW_XDS_NAME_FIELD "resolve"
