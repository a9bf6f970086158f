/* Names of the scalars of the run: for the reader, the verifier and the planner. */
#include "ir/run_value.h"

#include <string.h>

static const char *const texts[RUN_VALUE_COUNT] = {
#define RUN_VALUE(name, text) [RUN_##name] = text,
#include "ir/run_values.def"
};

const char *run_value_text(RunValue v)
{
    return texts[v];
}

bool run_value_find(const char *text, RunValue *out)
{
    for (int v = 0; v < RUN_VALUE_COUNT; v++) {
        if (strcmp(texts[v], text) != 0)
            continue;
        *out = (RunValue)v;
        return true;
    }
    return false;
}

bool run_value_per_model(RunValue v)
{
    return (int)v < RUN_CLOCK_COUNT;
}
