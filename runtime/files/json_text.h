/* JSON as text. */
#ifndef HFTAC_RUNTIME_FILES_JSON_TEXT_H
#define HFTAC_RUNTIME_FILES_JSON_TEXT_H

#include <jansson.h>
#include <stddef.h>

/* The text of `json` (not ended by a zero), malloc'd, and its length; NULL if json is NULL or
 * memory ran out. */
char *hft_json_text(const json_t *json, size_t flags, size_t *n);

#endif
