/* JSON for hftrun's logs and tables: trees that are whole or NULL, so that no failed allocation
 * leaves a line that merely lacks something. */
#include "tools/hftrun_json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/files/json_text.h"

void json_put(json_t **object, const char *key, json_t *value)
{
    if (json_object_set_new(*object, key, value) == 0)
        return;
    json_decref(*object);
    *object = NULL;
}

void json_append(json_t **array, json_t *value)
{
    if (json_array_append_new(*array, value) == 0)
        return;
    json_decref(*array);
    *array = NULL;
}

void json_put_number(json_t **object, const char *key, double v)
{
    json_put(object, key, isfinite(v) ? json_real(v) : json_null());
    if (isnan(v))
        json_put(object, "nan", json_true());
}

json_t *json_text(const char *text)
{
    if (!text)
        return json_null();
    json_t *json = json_string(text);
    char *plain = json ? NULL : strdup(text);
    for (char *p = plain; p && *p; p++)
        if ((unsigned char)*p > 127)
            *p = '?';
    if (plain)
        json = json_string(plain);
    free(plain);
    return json;
}

bool json_print(const json_t *json, size_t flags, FILE *f)
{
    size_t n;
    char *text = hft_json_text(json, flags, &n);
    if (!text) {
        errno = ENOMEM;
        return false;
    }
    const bool printed = fwrite(text, 1, n, f) == n && fputc('\n', f) != EOF;
    free(text);
    return printed;
}
