"""Writes functions.safetensors: functions, layers and losses at their edges, as PyTorch computes
them.

    python3 tests/edges/write_functions.py tests/edges/functions.safetensors

The table is in functions.py and layers.py; a row has the case's name, the .hdl text, the same in
PyTorch, and the operands.  In the text @ stands for the case's prefix; it is one expression, or
lines that bind @y.  An operand of reals is differentiated unless it is `fixed`; a layer's
parameters and buffers are operands whose name has a dot.  The file holds the operands, the result
y, the gradients g:NAME of sum(w y) for w = 1, 1.25, ... 2.5, 1, ..., and buffers afterwards,
after:NAME.  tests/check/check_edges.c reads it and needs no PyTorch."""
import copy
import json
import struct
import sys

import torch

import distances
import functions
import layers
import sorting

from table import CASES


def operands_of(c, dtype, module):
    operands = {k: v.to(dtype) if v.is_floating_point() else v.clone() for k,
                v in c["operands"].items()}
    operands = {k: v.clone() for k, v in operands.items()}
    if module is not None:
        for k, v in module.state_dict(keep_vars=True).items():
            operands[f"layer.{k}"] = v
    for k, v in operands.items():
        if v.is_floating_point() and k not in c["fixed"] and not is_buffer(module, k):
            v.requires_grad_()
    return operands


def is_buffer(module, name):
    return module is not None and name[6:] in dict(module.named_buffers())


def results(c, dtype):
    """The operands, and y, g:NAME, after:NAME."""
    module = copy.deepcopy(c["module"])
    if module is not None:
        module.to(dtype)
    operands = operands_of(c, dtype, module)
    before = {k: v.detach().clone() for k,
              v in operands.items() if not is_buffer(module, k) or v.is_floating_point()}
    y = (c["run"] or module)(*[v for k, v in operands.items() if "." not in k])
    out = {"y": y.detach().to(dtype)}
    reals = {k: v for k, v in operands.items() if v.requires_grad}
    grads = [None] * len(reals)
    if reals and y.requires_grad:
        w = 1 + 0.25 * (torch.arange(y.numel()) % 7).reshape(y.shape)
        grads = torch.autograd.grad(y, list(reals.values()), w.to(dtype), allow_unused=True)
    for k, g in zip(reals, grads):
        out[f"g:{k}"] = torch.zeros_like(reals[k]) if g is None else g
    for k, v in operands.items():
        if is_buffer(module, k) and v.is_floating_point():
            out[f"after:{k}"] = v
    return before, out


def differs(v, w):
    same = (v == w) | (v.isnan() & w.isnan())
    return ~same & ~((v - w).abs() <= 1e-6 * w.abs())


def references(c):
    """What float32 gives.  alt:NAME is what float64 gives if that differs (less rounding, or no
    overflow on the way): either is right."""
    before, y = results(c, torch.float32)
    _, wide = results(c, torch.float64)
    alternatives = {f"alt:{k}": wide[k].float() for k,
                    v in y.items() if v.is_floating_point() and differs(v, wide[k].float()).any()}
    return {**before, **y, **alternatives}


TYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.int32: "I32",
         torch.uint8: "U8", torch.bool: "BOOL"}


def save(path, tensors, meta):
    head, blob = {"__metadata__": meta}, b""
    for k, v in tensors.items():
        data = v.detach().contiguous().numpy().tobytes()
        head[k] = {"dtype": TYPES[v.dtype], "shape": list(v.shape),
                   "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    text = json.dumps(head, separators=(",", ":")).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + blob)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.manual_seed(5)
    for part in (functions.scalars, functions.activations, functions.reductions, functions.shapes,
                 layers.losses, layers.norms, layers.pools, layers.others,
                 sorting.sorting, distances.distances, distances.likes):
        part()
    tensors = {f"{i}/{k}": v for i, c in enumerate(CASES) for k, v in references(c).items()}
    rows = [dict(name=c["name"], text=c["text"], **c["settings"]) for c in CASES]
    save(sys.argv[1], tensors, {"torch": torch.__version__, "cases": json.dumps(rows)})
    print(len(CASES), "cases")
