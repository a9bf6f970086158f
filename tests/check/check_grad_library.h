/* The cases of the standard library as templates; between check_grad_library.c, which fills them
 * in, and check_grad_layers.c, which lists them. */
#ifndef HFTAC_TESTS_CHECK_GRAD_LIBRARY_H
#define HFTAC_TESTS_CHECK_GRAD_LIBRARY_H

/* params: "x=N,C,H y=C": parameters and their shapes, where an upper-case letter is an extent
 * drawn once for the case (H, L, W
 *   5 .. 9, G, N, T 1 .. 3, others 1 .. 9), letters and digits side by side are a product ("2C"),
 *   and "x=" is a scalar.
 * text: lines of a model that bind @y, or one expression for it.  In it
 *   @        stands for the case's prefix, @@ for @
 *   {a|b|c}  one of these, drawn
 *   <N,2C>   [3, 8]; <C> 8
 *   <index:N,L:C>    random integers 0 <= i < C of that shape; <signs:N>: 1 or -1; <bits:N,L>:
 *   bool; <reals:N>: in (0, 1)
 * lo, hi: of the parameters' values. */
typedef struct LibraryCase {
    const char *name, *params;
    double lo, hi;
    const char *text;
} LibraryCase;

extern const LibraryCase grad_library[];
extern const int grad_library_length;

#endif
