/* JSON as text, whole or not at all, for every file and log that holds JSON.
 *
 * jansson's own json_dumps and json_dumpf do not look whether the key of an object arrived: where
 * memory runs out at that moment they lose it and succeed.  json_dumpb writes into room that is
 * there already; it is sized first, and both passes must agree. */
#include "runtime/files/json_text.h"

#include <stdlib.h>

char *hft_json_text(const json_t *json, size_t flags, size_t *n)
{
    *n = json ? json_dumpb(json, NULL, 0, flags) : 0;
    char *text = *n ? malloc(*n) : NULL;
    if (text && json_dumpb(json, text, *n, flags) == *n)
        return text;
    free(text);
    return NULL;
}
