/* JSON for hftrun's logs and tables.  A tree that memory did not suffice for is NULL, whatever is
 * put into it later: it is looked at once, when it is printed. */
#ifndef HFTAC_TOOLS_HFTRUN_JSON_H
#define HFTAC_TOOLS_HFTRUN_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Both take `value`. */
void json_put(json_t **object, const char *key, json_t *value);
void json_append(json_t **array, json_t *value);
/* null where it is not finite, with "nan": true beside it if it is that. */
void json_put_number(json_t **object, const char *key, double v);
/* A string, with ? for each byte above 127 if it is no UTF-8; null for NULL. */
json_t *json_text(const char *text);
/* Prints it and a newline; false with errno, having printed nothing, if memory ran out. */
bool json_print(const json_t *json, size_t flags, FILE *f);

#endif
