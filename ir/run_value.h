/* The scalars of the run (run_values.def), which `scalar` leaves name. */
#ifndef HFTAC_IR_RUN_VALUE_H
#define HFTAC_IR_RUN_VALUE_H

#include <stdbool.h>

typedef enum RunValue {
#define RUN_VALUE(name, text) RUN_##name,
#include "ir/run_values.def"
    RUN_VALUE_COUNT
} RunValue;

enum {
    /* Values of the clock, which each model has its own of: those before this one. */
    RUN_CLOCK_COUNT = RUN_N_VALID,
    RUN_BATCH_COUNT = RUN_VALUE_COUNT - RUN_CLOCK_COUNT
};

const char *run_value_text(RunValue v);
/* False: there is none of that name. */
bool run_value_find(const char *text, RunValue *out);
bool run_value_per_model(RunValue v);

#endif
