/* Finds the note of a model.so, sets the hash in it to zero, hashes the whole file, and writes the
 * hash into the note; see restamp.h. */
#include "tests/unit/restamp.h"

#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/model_abi.h"

bool restamp(unsigned char *file, size_t bytes)
{
    /* Head and name of the note, as every hftac of this version writes them. */
    static const unsigned char head[] = {6, 0, 0, 0,   32,  0,   0,   0,   1,
                                         0, 0, 0, 'h', 'f', 't', 'a', 'c', 0};
    unsigned char *at = memmem(file, bytes, head, sizeof head);
    if (!at || (size_t)(file + bytes - at) < 20 + sizeof(HftacNote))
        return false;
    at += 20 + offsetof(HftacNote, hash);
    memset(at, 0, HFTAC_HASH_BYTES);
    XXH128_canonical_t hash;
    XXH128_canonicalFromHash(&hash, XXH3_128bits(file, bytes));
    memcpy(at, hash.digest, HFTAC_HASH_BYTES);
    return true;
}
