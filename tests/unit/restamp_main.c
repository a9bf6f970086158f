/* restamp FILE: writes the hash of a linked model.so into it. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/restamp.h"

int main(int argc, char **argv)
{
    FILE *f = argc == 2 ? fopen(argv[1], "r+b") : NULL;
    if (!f || fseek(f, 0, SEEK_END) != 0)
        return 2;
    const size_t n = (size_t)ftell(f);
    unsigned char *bytes = malloc(n ? n : 1);
    rewind(f);
    if (!bytes || fread(bytes, 1, n, f) != n || !restamp(bytes, n))
        return 1;
    rewind(f);
    const size_t written = fwrite(bytes, 1, n, f);
    free(bytes);
    return fclose(f) == 0 && written == n ? 0 : 3;
}
