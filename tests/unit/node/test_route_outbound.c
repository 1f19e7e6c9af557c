/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

int main(void)
{
    return 0;
}
