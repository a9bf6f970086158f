/* Gives a model.so that a test made or changed the hash that its contents have, so that what lies
 * behind the check of the hash is tested too.  Written against the definition in model_abi.h and
 * not with the compiler's own code. */
#ifndef HFTAC_TESTS_RESTAMP_H
#define HFTAC_TESTS_RESTAMP_H

#include <stdbool.h>
#include <stddef.h>

/* false: there is no note of hftac in these bytes. */
bool restamp(unsigned char *file, size_t bytes);

#endif
