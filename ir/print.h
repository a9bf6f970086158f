/* The text of a module, the language .hir: one node a line.
 *
 *   hir 1
 *   module "Digits" stage=fused models=8 batch=32 epochs=20
 *   input "image" : u8[32*1, 8, 8]            an axis n*k comes from the batch: k elements a sample
 *   target "label" : u8[32*1]
 *   hyper "lr" = 0.001 in log(0.0001 .. 0.1)
 *   param "fc1.weight" : f32[8 | 128, 64]     role: those of StateRole; layout=[1, 0] if stored so
 *   optim "optimizer.exp_avg.fc1.weight" of "fc1.weight" : f32[8 | 128, 64]
 *   graph @train {                            one of the entry points (EntryKind)
 *     %image = input name="image" : u8[32, 8, 8]
 *     %fc1.out = einsum %x, %fc1.weight spec="mk,nk->mn" form=wide : f32[8 | 32, 128]
 *     result "loss" %loss
 *     ok "ok" %ok.1                           and factor, cause, next, stack
 *     state "fc1.weight" %fc1.weight.next
 *     output "probs" %probs                  `as f32[8 | 32, 10]` if the host sees another shape
 *     fault "label" %label.at, %label.bad input="label" lo=0 hi=10 ignore=-100
 *   }
 *
 * A loop's line ends in `{`; the lines of its body follow and a `}` (ir/loop.h). An input may be
 * followed by `each`, `drawn`, a hyper by `integer`; domains are as in the language: (lo .. hi),
 * log(lo .. hi), int(lo .. hi, step = s), {a, b, c}.  Batch marks of nodes are printed only where
 * they are not what the shape rule infers from the operands (n*0: none).  A node's form is
 * printed if it is not what its type says (shared or batched). read(print(m)) prints the same
 * bytes. */
#ifndef HFTAC_IR_PRINT_H
#define HFTAC_IR_PRINT_H

#include "ir/graph.h"

void module_print(Text *out, const Module *m);
void graph_print(Text *out, const Graph *g);
void node_print(Text *out, const Node *n); /* one line without indentation or newline */
/* Graphviz. */
void module_print_dot(Text *out, const Module *m);
/* One row per operator: text, operands, attributes with defaults, kind. */
void op_list_print(Text *out);

#endif
