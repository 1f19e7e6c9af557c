/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/exchange/date.h"

#include <stdio.h>
#include <time.h>

#include "base/time.h"
#include "gateway/conn/worker.h"

struct sw_slice sw_gw_worker_date(struct sw_gw_worker *w)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    uint64_t now = sw_loop_now(w->loop);
    uint64_t wall;
    time_t s;
    struct tm tm;

    if (now < w->date_until_ns)
        return sw_slice(w->date, w->date_n);
    wall = sw_wall_ns();
    s = (time_t)(wall / SW_NS_PER_S);
    w->date_until_ns = now + SW_NS_PER_S - wall % SW_NS_PER_S;
    if (!gmtime_r(&s, &tm))
        return SW_SLICE_LIT("Thu, 01 Jan 1970 00:00:00 GMT");
    w->date_n = (size_t)snprintf(
        w->date, sizeof(w->date), "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT",
        days + (size_t)tm.tm_wday * 3, (unsigned)tm.tm_mday % 100, months + (size_t)tm.tm_mon * 3,
        ((unsigned)tm.tm_year + 1900) % 10000, (unsigned)tm.tm_hour % 100,
        (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
    return sw_slice(w->date, w->date_n);
}
