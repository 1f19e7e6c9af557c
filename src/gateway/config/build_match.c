/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions on headers, and shares of requests. */
#include <proto/core.pb-c.h>
#include <proto/route.pb-c.h>

#include "gateway/config/build.h"
#include "proto/pb.h"

uint32_t sw_gw_build_fraction(const struct Sw__RuntimeFractionalPercent *f)
{
    static const uint32_t scale[] = {10000, 100, 1};
    uint64_t v;

    if (!f || !f->default_value || (unsigned)f->default_value->denominator > 2)
        return 1000000;
    v = (uint64_t)f->default_value->numerator * scale[f->default_value->denominator];
    return v > 1000000 ? 1000000 : (uint32_t)v;
}

int sw_gw_build_header_match(struct sw_gw_build *b, const struct Sw__HeaderMatcher *in,
                             struct sw_gw_header_match *m)
{
    const ProtobufCBinaryData *text = NULL;

    m->name = sw_gw_lower(b, SW_PB_SLICE(in->name));
    m->invert = in->invert_match;
    m->missing_empty = in->treat_missing_header_as_empty;
    if (m->name.n == 0)
        return SW_GW_BAD(b, "header matcher without a name");
    switch ((int)in->header_match_specifier_case) {
    case SW__HEADER_MATCHER__HEADER_MATCH_SPECIFIER__NOT_SET:
        m->kind = SW_GW_HEADER_PRESENT;
        m->present = true;
        return SW_OK;
    case SW__HEADER_MATCHER__HEADER_MATCH_SPECIFIER_PRESENT_MATCH:
        m->kind = SW_GW_HEADER_PRESENT;
        m->present = in->present_match;
        return SW_OK;
    case SW__HEADER_MATCHER__HEADER_MATCH_SPECIFIER_RANGE_MATCH:
        m->kind = SW_GW_HEADER_RANGE;
        m->from = in->range_match->start;
        m->to = in->range_match->end;
        return SW_OK;
    case SW__HEADER_MATCHER__HEADER_MATCH_SPECIFIER_STRING_MATCH:
        return sw_gw_build_str_match(b, in->string_match, &m->str);
    case SW__HEADER_MATCHER__HEADER_MATCH_SPECIFIER_SAFE_REGEX_MATCH:
        m->str.kind = SW_GW_STR_REGEX;
        return sw_gw_build_regex(b, SW_PB_SLICE(in->safe_regex_match->regex), true, &m->str.re);
    case SW__HEADER_MATCHER__HEADER_MATCH_SPECIFIER_EXACT_MATCH:
        m->str.kind = SW_GW_STR_EXACT;
        text = &in->exact_match;
        break;
    case SW__HEADER_MATCHER__HEADER_MATCH_SPECIFIER_PREFIX_MATCH:
        m->str.kind = SW_GW_STR_PREFIX;
        text = &in->prefix_match;
        break;
    case SW__HEADER_MATCHER__HEADER_MATCH_SPECIFIER_SUFFIX_MATCH:
        m->str.kind = SW_GW_STR_SUFFIX;
        text = &in->suffix_match;
        break;
    case SW__HEADER_MATCHER__HEADER_MATCH_SPECIFIER_CONTAINS_MATCH:
        m->str.kind = SW_GW_STR_CONTAINS;
        text = &in->contains_match;
        break;
    default:
        return SW_GW_BAD(b, "header matcher of an unknown kind");
    }
    m->str.text = sw_gw_text(b, text);
    return SW_OK;
}
