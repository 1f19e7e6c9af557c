/* SPDX-License-Identifier: Apache-2.0 */
/* The small web app that `spanwire up --demo` puts on this "device", and into its second site. */
#pragma once

#include "base/err.h"
#include "io/addr.h"
#include "io/loop.h"

struct sw_demo_app;

/* Where it says that it is. */
enum sw_demo_place { SW_DEMO_DEVICE, SW_DEMO_SITE };

/* Listens on a free loopback port. NULL with err. */
SW_NODISCARD struct sw_demo_app *sw_demo_app_new(struct sw_loop *l, enum sw_demo_place place,
                                                 struct sw_err *err);
struct sw_addr sw_demo_app_addr(const struct sw_demo_app *a);
void sw_demo_app_free(struct sw_demo_app *a);
