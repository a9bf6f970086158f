/* The levels of a reduction: one place that knows the rule. */
#include "ir/sum_order.h"

#include "ir/reading.h"
#include "ir/reduction.h"

static int last_long_axis(const Shape *s)
{
    int last = s->rank - 1;
    while (last >= 0 && s->dim[last] == 1)
        last--;
    return last;
}

static void split_level(SumLevel *l, int most)
{
    l->partials = l->whole >= SUM_FEW ? most : 1;
    l->rounds = l->whole / l->partials;
    l->rest = l->whole % l->partials;
    l->blocks = l->rounds > SUM_ROUNDS ? l->rounds / SUM_ROUNDS : 0;
}

/* Elements of 8 bytes fill twice the registers.  Positions along an outer axis go through
 * positions in ascending order. */
static int partials_of(const Node *reduce, bool inner)
{
    if (reduction_info(reduce)->position && !inner)
        return 1;
    return dtype_bytes(reduce->type.dtype) > 4 ? SUM_MAX_PARTIALS / 2 : SUM_MAX_PARTIALS;
}

SumOrder sum_order(const Node *reduce)
{
    const Shape *from = &reduce->in[0]->type.shape;
    const unsigned reduced = reduced_axes(reduce);
    const int last = last_long_axis(from);
    SumOrder o = {.inner = last >= 0 && reduced >> last & 1, .lane_axis = last};
    for (int k = 0; k <= last; k++) {
        const int64_t extent = from->dim[k];
        SumLevel l = {.axis = k, .lanes = o.inner && k == last, .whole = extent};
        if (!(reduced >> k & 1) || extent == 1)
            continue;
        if (l.lanes) {
            l.whole = extent / SUM_LANES;
            l.tail = (int)(extent % SUM_LANES);
            o.item_lanes = extent < SUM_LANES ? (int)extent : SUM_LANES;
            if (extent <= SUM_LANES)
                continue;
        }
        o.level[o.n++] = l;
    }
    const int most = partials_of(reduce, o.inner);
    for (int k = 0; k < o.n; k++)
        split_level(&o.level[k], k < o.n - 1 ? 1 : most);
    return o;
}
