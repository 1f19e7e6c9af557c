/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of links: the controller that keeps them (control/link/controller.h), and the pods that
 * clients are known by.
 */
#pragma once

#include "control/link/controller.h"

struct sw_control_link_facts;
struct sw_link_pods;

struct sw_control_link_facts_opts {
    struct sw_link_controller_opts controller;
    struct sw_link_pods *pods; /* borrowed: kept filled */
};

/* Facts come when all objects and pods were read once. NULL with err. */
SW_NODISCARD struct sw_control_link_facts *
sw_control_link_facts_new(struct sw_kube_client *client, const struct sw_control_link_facts_opts *o,
                          struct sw_err *err);
/* NULL is fine. */
void sw_control_link_facts_free(struct sw_control_link_facts *f);
/* Borrowed. */
struct sw_link_controller *sw_control_link_controller(const struct sw_control_link_facts *f);
