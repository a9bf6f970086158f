/* What the fuzzing programs share: hypers, seeds and data that depend on a case's number, the
 * slot and the step alone, so that every array of the same program is driven in the same way. */
#ifndef HFTAC_TESTS_FUZZ_DRIVE_H
#define HFTAC_TESTS_FUZZ_DRIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/hftac.h"

/* Prints the sentence and ends the program with exit code 2. */
_Noreturn void fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* ... if a library call failed. */
void must(hftac_status status);
void *must_malloc(size_t bytes);

/* Random bits for the place that the numbers name. */
uint64_t drive_bits(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);
/* Uniform in [0, 1). */
double drive_unit(uint64_t bits);

/* Models 0 .. are what slots first, first + 1, ... of a large array would be. */
void drive_set_models(hftac_array *a, uint64_t seed, int first);
/* Feeds all inputs of a batch with `samples` samples.  An input called NAME_cK holds integers 0
 * .. K - 1, one called NAME_cKi also -100 now and then; others hold reals around 0. */
void drive_feed(hftac_array *a, uint64_t seed, int first, int64_t step, int64_t samples);
/* The values of one slot's batch of that input (malloced, `samples` of them; the rest of the
 * batch repeats the first). */
void *drive_values(const hftac_input_description *d, uint64_t seed, int input, int slot,
                   int64_t step, int64_t batch, int64_t samples);

/* Samples of a partial batch; all of them where the program takes whole ones only
 * (hftac_description's evaluate_whole or predict_whole). */
int64_t drive_part(const hftac_array *a, const char *whole);

#endif
