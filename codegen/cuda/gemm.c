/* A contraction as one cuBLAS call.
 *
 * Letters of one class become one dimension wherever they nest in memory: result [batch, m, n],
 * operands [batch, m, k] and [batch, n, k].  An operand that does not lie like that, or has no
 * unit stride in a matrix (a window over an image, a stepped slice), is packed by a function
 * first; a product whose place does not, or which would be written over what the epilogue still
 * reads, goes to memory of its own.
 *
 * cuBLAS is column-major: with unit stride along n the result's transpose is what it computes,
 * and the operand with n comes first; with unit stride along m the other one does. */
#include "codegen/cuda/cuda.h"
#include "ir/reading.h"

enum {
    ROWS,
    COLUMNS,
    BATCH,
    N_DIMS
};

/* A matrix in memory: [batch][rows][columns], columns: k of an operand, n of the result. */
typedef struct Matrix {
    const Buffer *buffer;
    int64_t offset; /* elements */
    int64_t extent[N_DIMS], stride[N_DIMS];
} Matrix;

typedef struct Gemm {
    Cuda *c;
    const Kernel *k;
    Contraction x;
    const char *name;
    int64_t temporary[2]; /* bytes in use */
} Gemm;

/* Of letters of class cls: do their strides nest?  Adds their extent and stride as dimension
 * `dim`. */
static bool add_class(const Gemm *g, const int64_t *stride, LetterClass cls, int dim, Matrix *m)
{
    int64_t count = 1, step = 0;
    for (int l = g->x.n_out + g->x.n_sum; l-- > 0;) {
        if (g->x.letter[l].cls != cls || g->x.letter[l].extent == 1)
            continue;
        if (count == 1)
            step = stride[l];
        else if (stride[l] != step * count)
            return false;
        count *= g->x.letter[l].extent;
    }
    m->extent[dim] = count;
    m->stride[dim] = step;
    return true;
}

static bool fits_line(int64_t extent, int64_t stride)
{
    return extent == 1 || stride == 1;
}

static bool fits_leading(int64_t extent, int64_t stride, int64_t length)
{
    return extent == 1 || stride >= length;
}

/* Does a row (by_rows) or a column of the matrix lie without gaps, and the next one behind it? */
static bool is_matrix(const Matrix *m, bool by_rows)
{
    const int line = by_rows ? COLUMNS : ROWS, next = by_rows ? ROWS : COLUMNS;
    return fits_line(m->extent[line], m->stride[line]) &&
           fits_leading(m->extent[next], m->stride[next], m->extent[line]);
}

static int64_t leading(const Matrix *m, bool by_rows)
{
    const int line = by_rows ? COLUMNS : ROWS, next = by_rows ? ROWS : COLUMNS;
    return m->extent[next] == 1 ? m->extent[line] : m->stride[next];
}

static LetterClass row_class(const Gemm *g, int which)
{
    return which == g->x.vector_operand ? LETTER_VECTOR : LETTER_BROADCAST;
}

/* ---- operands ---- */

static bool find_operand(Gemm *g, int which, Matrix *m)
{
    int64_t axis[MAX_RANK], stride[2 * MAX_RANK] = {0};
    const Node *n = g->k->contract->in[which];
    m->buffer = kernel_operand(&g->c->space, g->c->entry, g->k, n, axis, &m->offset);
    /* A constant is packed: its values are in the text of the functions. */
    if (!m->buffer || m->buffer->dtype != n->type.dtype || base_of_views(n)->op == OP_CONST)
        return false;
    for (int l = 0; l < g->x.n_out + g->x.n_sum; l++)
        stride[l] = g->x.letter[l].in[which] < 0 ? 0 : axis[g->x.letter[l].in[which]];
    return add_class(g, stride, row_class(g, which), ROWS, m) &&
           add_class(g, stride, LETTER_SUM, COLUMNS, m) &&
           add_class(g, stride, LETTER_BATCH, BATCH, m) &&
           (is_matrix(m, true) || is_matrix(m, false));
}

/* Letters of these classes in order as axes of a shape; letter[i] is axis i's. */
static Shape dense_shape(const Gemm *g, int n_classes, const LetterClass *cls, int *letter)
{
    Shape s = {0};
    for (int i = 0; i < n_classes; i++)
        for (int l = 0; l < g->x.n_out + g->x.n_sum; l++)
            if (g->x.letter[l].cls == cls[i]) {
                letter[s.rank] = l;
                s.dim[s.rank++] = g->x.letter[l].extent;
            }
    return s;
}

/* A function that copies the operand to dense memory: [batch][rows][k]. */
static void pack_operand(Gemm *g, int which, Matrix *m)
{
    Cuda *c = g->c;
    const Node *n = g->k->contract->in[which];
    const LetterClass cls[] = {LETTER_BATCH, row_class(g, which), LETTER_SUM};
    const bool per_model = type_per_model(&n->type);
    int letter[2 * MAX_RANK], axis[MAX_RANK];
    const Shape shape = dense_shape(g, 3, cls, letter);
    const Buffer *to = cuda_temporary(c, per_model, n->type.dtype, &shape, g->temporary);
    Index at = {.rank = shape.rank}, from = {.rank = n->type.shape.rank};
    int64_t points;
    cuda_begin(c, g->k);
    for (int d = 0; d < shape.rank; d++)
        axis[d] = d;
    CudaLevel *root = cuda_begin_points(c, shape.rank, axis, &shape, &at, &points);
    for (int d = 0; d < shape.rank; d++)
        from.at[g->x.letter[letter[d]].in[which]] = at.at[d];
    cuda_store(c, to, &at, n->type.dtype, cuda_eval(c, n, &from));
    cuda_end_function(c, arena_printf(c->arena, "%s_pack%d", g->name, which), root, points,
                      per_model);
    const int64_t rows = which == g->x.vector_operand ? g->x.n : g->x.m;
    *m = (Matrix){.buffer = to,
                  .extent = {[ROWS] = rows, [COLUMNS] = g->x.k, [BATCH] = g->x.batch},
                  .stride = {[ROWS] = g->x.k, [COLUMNS] = 1, [BATCH] = g->x.k * rows}};
}

/* ---- the product ---- */

static bool find_product(const Gemm *g, const Buffer *b, Matrix *m)
{
    int64_t stride[2 * MAX_RANK] = {0};
    for (int l = 0; l < g->x.n_out; l++)
        stride[l] = b->stride[g->x.letter[l].out];
    *m = (Matrix){.buffer = b};
    return add_class(g, stride, LETTER_BROADCAST, ROWS, m) &&
           add_class(g, stride, LETTER_VECTOR, COLUMNS, m) &&
           add_class(g, stride, LETTER_BATCH, BATCH, m) &&
           (m->extent[BATCH] == 1 || m->stride[BATCH] > 0) &&
           (is_matrix(m, true) || is_matrix(m, false));
}

/* What the kernel's other values are computed from. */
static bool reads(const Gemm *g, const Node *n, const Buffer *b)
{
    if (n == g->k->contract)
        return false;
    const Buffer *from = kernel_read(g->c->entry, g->k, n);
    if (from)
        return cuda_overlap(from, b);
    for (int i = 0; i < n->n_in; i++)
        if (reads(g, n->in[i], b))
            return true;
    return false;
}

static bool is_free(const Gemm *g, const Buffer *b)
{
    for (int s = 0; s < g->k->n_stores; s++)
        if (reads(g, g->k->stores[s].value, b))
            return false;
    return true;
}

/* A place of the product's own: [batch][m][n]; its buffer has the result's axes. */
static const Buffer *new_product(Gemm *g, Matrix *m)
{
    const Node *n = g->k->contract;
    const LetterClass cls[] = {LETTER_BATCH, LETTER_BROADCAST, LETTER_VECTOR};
    int letter[2 * MAX_RANK];
    const Shape dense = dense_shape(g, 3, cls, letter);
    Buffer *b = cuda_temporary(g->c, g->k->per_model, n->type.dtype, &dense, g->temporary);
    int64_t stride[MAX_RANK];
    shape_strides(&dense, stride);
    b->shape = n->type.shape;
    for (int d = 0; d < dense.rank; d++)
        b->stride[g->x.letter[letter[d]].out] = stride[d];
    if (!find_product(g, b, m))
        diag_internal(NULL, "the product of %%%s is no matrix", n->name);
    return b;
}

static const Buffer *place_product(Gemm *g, Matrix *m)
{
    for (int s = 0; s < g->k->n_stores; s++) {
        const Store *store = &g->k->stores[s];
        if (store->value == g->k->contract && store->to->dtype == g->k->contract->type.dtype &&
            find_product(g, store->to, m) && is_free(g, store->to))
            return store->to;
    }
    return new_product(g, m);
}

/* ---- the call ---- */

/* Element 0, in elements after what `number` times the batch's stride says. */
static const char *pointer_text(Cuda *c, const Matrix *m, const char *shift)
{
    const char *base = cuda_buffer(c, m->buffer);
    if (m->offset)
        base = arena_printf(c->arena, "%s + %lld", base, (long long)m->offset);
    return shift ? arena_printf(c->arena, "%s + %s", base, shift) : base;
}

static const char *batch_stride(Cuda *c, const Matrix *m)
{
    return arena_printf(c->arena, "%lld", (long long)m->stride[BATCH]);
}

/* Both the models and the batch letters are strided: calls in a loop over the fewer of the two. */
static void print_step(Gemm *g, const Matrix *const m[3], const char *head, const int64_t ld[3])
{
    Cuda *c = g->c;
    const int64_t models = g->k->per_model ? c->plan->module->n_models : 1, batch = g->x.batch;
    const bool by_model = models >= batch; /* of one call's matrices */
    const char *inner[3], *at[3];
    const bool looped = models > 1 && batch > 1;
    for (int i = 0; i < 3; i++) {
        const char *model = cuda_model_stride(c, m[i]->buffer),
                   *element = batch_stride(c, m[i]);
        inner[i] = by_model ? model : element;
        const char *outer = by_model ? element : model;
        at[i] =
            pointer_text(c, m[i], looped ? arena_printf(c->arena, "g * (%s)", outer) : NULL);
    }
    if (looped)
        cuda_step(c, "for (i64 g = 0; g < %lld; g++)", (long long)(by_model ? batch : models));
    cuda_step(c, "%sHF_GEMM(%s, %s, %lld, %s, %s, %lld, %s, %s, %lld, %s, %lld);",
              looped ? "    " : "", head, at[0], (long long)ld[0], inner[0], at[1],
              (long long)ld[1], inner[1], at[2], (long long)ld[2], inner[2],
              (long long)(by_model ? models : batch));
}

static const char *place(Cuda *c, const Matrix *m)
{
    static const char *const names[] = {"state", "input",  "hyper",   "scalar", "seed",
                                        "const", "shared", "scratch", "result", "output"};
    return arena_printf(c->arena, "%s \"%s\"", names[m->buffer->space], m->buffer->name);
}

static void print_call(Gemm *g, const Matrix *vector, const Matrix *broadcast,
                       const Matrix *product)
{
    Cuda *c = g->c;
    const Node *e = g->k->contract;
    const bool by_rows = is_matrix(product, true);
    const Matrix *m[3] = {by_rows ? vector : broadcast, by_rows ? broadcast : vector, product};
    /* cuBLAS's m x k first operand: its columns are k, so unit stride along the rows is no
     * transposition. */
    const bool transposed[2] = {is_matrix(m[0], true), !is_matrix(m[1], true)};
    const int64_t ld[3] = {leading(m[0], transposed[0]), leading(m[1], !transposed[1]),
                           leading(product, by_rows)};
    const char *type = e->type.dtype == DT_F64 ? "D" : "S";
    const char op[2] = {transposed[0] ? 'T' : 'N', transposed[1] ? 'T' : 'N'};
    text_printf(c->out,
                "/* cublas%sgemmStridedBatched(handle, CUBLAS_OP_%c, CUBLAS_OP_%c, m = %lld, n "
                "= %lld, k = %lld, "
                "alpha = 1,\n",
                type, op[0], op[1], (long long)m[0]->extent[ROWS],
                (long long)m[1]->extent[ROWS], (long long)g->x.k);
    for (int i = 0; i < 3; i++)
        text_printf(c->out, " *     %c = %s, ld%c = %lld, stride%c = %s,%s\n", "ABC"[i],
                    place(c, m[i]), "abc"[i], (long long)ld[i], "ABC"[i],
                    cuda_model_stride(c, m[i]->buffer), i == 1 ? " beta = 0," : "");
    text_printf(c->out, " *     batchCount = %d)",
                g->k->per_model ? c->plan->module->n_models : 1);
    if (g->x.batch > 1)
        text_printf(c->out, ", and for %lld matrices of each", (long long)g->x.batch);
    text_printf(c->out, "\n *   form %s: %%%s = einsum %%%s, %%%s spec=\"%s\" */\n",
                e->form == FORM_WIDE      ? "wide"
                : e->form == FORM_BATCHED ? "batched"
                                          : "shared",
                e->name, e->in[0]->name, e->in[1]->name, e->attrs.einsum.spec);
    const char *head = arena_printf(c->arena, "%s, %c, %c, %lld, %lld, %lld", type, op[0],
                                    op[1], (long long)m[0]->extent[ROWS],
                                    (long long)m[1]->extent[ROWS], (long long)g->x.k);
    print_step(g, m, head, ld);
}

void cuda_print_contract(Cuda *c, const Kernel *k, const char *name)
{
    Gemm g = {.c = c, .k = k, .name = name};
    Matrix operand[2] = {{0}}, product;
    IntList order = {.n = k->space.rank};
    for (int i = 0; i < k->space.rank; i++)
        order.v[i] = k->order[i];
    if (!contraction_of(k->contract, &order, &g.x))
        diag_internal(NULL, "%%%s is no contraction", k->contract->name);
    for (int which = 0; which < 2; which++) {
        cuda_begin(c, k);
        cuda_push(c, false, NULL);
        if (!find_operand(&g, which, &operand[which]))
            pack_operand(&g, which, &operand[which]);
    }
    const Buffer *place = place_product(&g, &product);
    cuda_begin(c, k);
    print_call(&g, &operand[g.x.vector_operand], &operand[1 - g.x.vector_operand], &product);
    bool direct = false;
    for (int s = 0; s < k->n_stores; s++)
        direct |= k->stores[s].value == k->contract && k->stores[s].to == place;
    if (direct && k->n_stores == 1)
        text_add(c->out, "\n");
    else
        cuda_print_function(c, k, place, name);
}
