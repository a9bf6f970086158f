/* The operator table and the attribute records, expanded from ops.def, scalars.def,
 * reductions.def and attrs.def. */
#ifndef HFTAC_IR_OP_H
#define HFTAC_IR_OP_H

#include "ir/type.h"

typedef enum OpKind {
    KIND_LEAF,
    KIND_EXPR,
    KIND_VIEW,
    KIND_INDEX,
    KIND_REDUCE,
    KIND_CONTRACT,
    KIND_SCATTER,
    KIND_LOOP,
    KIND_META
} OpKind;

typedef enum ScalarFn {
#define SCALAR(NAME, text, in, attrs, shape, grad, cost) SC_##NAME,
#include "ir/scalars.def"
    SC_COUNT
} ScalarFn;

/* What the column `data` of an operator's row holds, by its kind.  A switch over it casts it to the
 * enum, so that a new enumerator is a warning wherever it is to be dealt with. */
typedef enum LeafKind {
    LEAF_INPUT,
    LEAF_STATE,
    LEAF_HYPER,
    LEAF_SCALAR,
    LEAF_SEED,
    LEAF_CONST,
    LEAF_ARG
} LeafKind;

typedef enum ViewKind {
    VIEW_RESHAPE,
    VIEW_EXPAND,
    VIEW_PERMUTE,
    VIEW_SLICE,
    VIEW_WINDOW,
    VIEW_LAYOUT
} ViewKind;

typedef enum IndexKind {
    INDEX_IOTA,
    INDEX_RANDOM,
    INDEX_PAD,
    INDEX_UNWINDOW,
    INDEX_GATHER
} IndexKind;

enum {
    SCATTER_SUM,
    SCATTER_SCAN
};
enum {
    LOOP_REGION,
    LOOP_RESULT
};
enum {
#define REDUCTION(NAME, step, identity, order, result) RED_##NAME,
#include "ir/reductions.def"
};

typedef enum OpCode {
#define OP(NAME, text, in, attrs, shape, grad, kind, data) OP_##NAME,
#include "ir/ops.def"
    OP_COUNT_
} OpCode;

typedef struct IntList {
    int n;
    int64_t v[MAX_RANK];
} IntList;

typedef struct RealList {
    int64_t n;
    /* in the arena */
    const double *v;
} RealList;

typedef enum AttrKind {
#define FIELD(kind, name, init)
#define RECORD(name, ...) ATTR_##name,
#include "ir/attrs.def"
    ATTR_COUNT_
} AttrKind;

#define ATTR_T_ints  IntList
#define ATTR_T_reals RealList
#define ATTR_T_int   int64_t
#define ATTR_T_real  double
#define ATTR_T_bool  bool
#define ATTR_T_str   const char *
#define ATTR_T_dtype DType

/* The record that the node's row names, e.g. attrs.axes.keepdim. */
typedef struct Attrs {
    union {
#define FIELD(kind, name, init) ATTR_T_##kind name;
#define RECORD(name, ...) \
    struct {              \
        __VA_ARGS__       \
    } name;
#include "ir/attrs.def"
    };
} Attrs;

struct Node;
struct ShapeContext;

/* Sets *type from the node's operands and attributes; reports and returns false if they do not fit.
 * dtype and shape only: models is the caller's. */
typedef bool ShapeRule(const struct ShapeContext *c, const struct Node *n, Type *type);

typedef struct OpInfo {
    /* "ADD" */
    const char *name;
    /* "add" */
    const char *text;
    /* -1: variadic */
    int n_in;
    AttrKind attrs;
    OpKind kind;
    int data;
    /* the rule's name, for people: "add", "none", "missing" */
    const char *grad;
    /* the rule is not `none` */
    bool has_gradient;
    ShapeRule *shape;
} OpInfo;

const OpInfo *op_info(OpCode op);
/* OP_COUNT_ if there is none of that spelling. */
OpCode op_find(const char *text);
const char *op_kind_text(OpKind k);

int scalar_arity(ScalarFn f);
int scalar_cost(ScalarFn f);
const char *scalar_text(ScalarFn f);

void attrs_default(AttrKind kind, Attrs *a);
bool attrs_equal(AttrKind kind, const Attrs *a, const Attrs *b);
/* " name=value" for each field that is not its default. */
void attrs_print(Text *out, AttrKind kind, const Attrs *a);
/* "name=default" for each field. */
void attrs_print_fields(Text *out, AttrKind kind);
/* Reads one field's value text as attrs_print writes it; false if the record has no such field or
 * the text is no such value. */
bool attrs_read(Arena *arena, AttrKind kind, Attrs *a, const char *field, const char *value);
uint64_t attrs_hash(AttrKind kind, const Attrs *a);

IntList ints_of(int n, const int64_t *v);
/* n times v. */
IntList ints_all(int n, int64_t v);

#endif
