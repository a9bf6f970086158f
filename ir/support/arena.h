/* Memory of one compilation: everything the compiler makes lives until the arena goes.
 *
 * No free and no ownership questions; a pass that needs scratch takes a second arena and drops
 * it. Running out of memory ends the program with exit code 3 and one sentence: the compiler has
 * nothing to lose then. */
#ifndef HFTAC_IR_SUPPORT_ARENA_H
#define HFTAC_IR_SUPPORT_ARENA_H

#include <stdarg.h>
#include <stddef.h>

typedef struct Arena Arena;

Arena *arena_new(void);
/* Accepts NULL. */
void arena_free(Arena *a);
/* Zeroed, aligned to 16 bytes; size 0 gives a valid pointer. */
void *arena_alloc(Arena *a, size_t size);
/* arena_alloc of count * size with an overflow check. */
void *arena_array(Arena *a, size_t count, size_t size);
/* A grown copy of an array whose capacity is doubled: `*cap` is updated, the old one is left
 * behind. */
void *arena_grow(Arena *a, void *old, int *cap, size_t size);
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_strdup(Arena *a, const char *s);
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* fmt NULL: "". */
char *arena_vprintf(Arena *a, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));
/* The one copy of this text in the arena: equal texts give equal pointers. */
const char *arena_intern(Arena *a, const char *s, size_t n);
/* realloc for code that others generated, which cannot cope with NULL; free gives it back. */
void *heap_resize(void *old, size_t size);
/* "hftac: error: out of memory", exit code 3; may be called by any thread. */
_Noreturn void heap_exhausted(void);
/* Bytes handed out so far (for --time-report). */
size_t arena_used(const Arena *a);

#endif
