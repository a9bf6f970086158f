/* The functions and layers that need a case; between check_edges.c and check_edges_names.c. */
#ifndef HFTAC_TESTS_CHECK_EDGES_H
#define HFTAC_TESTS_CHECK_EDGES_H

#include <jansson.h>

/* Prints each function and layer of the standard library (folder std) and each built-in function
 * (builtins.def) that no case calls and that is no known exception; how many there are. */
int edges_without_case(const json_t *cases, const char *std, const char *builtins);

#endif
