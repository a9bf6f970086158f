/* What stands at the door of public calls: the caller's floating-point mode stays outside. */
#ifndef HFTAC_RUNTIME_DOOR_H
#define HFTAC_RUNTIME_DOOR_H

typedef struct FloatMode {
    unsigned sse;
    unsigned short x87;
} FloatMode;

/* Round to nearest, no traps, no flushing to zero; returns what was set before. */
FloatMode hft_float_enter(void);
/* As it was, the sticky exception flags too. */
void hft_float_leave(const FloatMode *caller);

/* From here to the end of the function, on every way out.  Functions that call back have none:
 * what they call has. */
#define HFT_STANDARD_FLOAT_MODE                                                        \
    const FloatMode mode_of_caller __attribute__((cleanup(hft_float_leave), unused)) = \
        hft_float_enter()

#endif
