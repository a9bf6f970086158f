/* Running an entry's steps kernel by kernel, with a clock. */
#ifndef HFTAC_RUNTIME_PROFILE_H
#define HFTAC_RUNTIME_PROFILE_H

#include "runtime/array.h"

/* Does what the step does for the models whose flag is set, one kernel of one model after the
 * other, and adds their times to a->profile. */
void hft_profile_step(hftac_array *a, const HftacStep *s, const unsigned char *wanted);

#endif
