"""Writes large-mean.safetensors for check_large_mean.c: normalisations of values whose mean is far
above their deviations.

Usage: python3 tests/sums/write_large_mean.py tests/sums/large-mean.safetensors

Tensors: NAME/x and NAME/w (the loss is sum(y w)), NAME/before:weight ... (what the layer holds) in
float32; PyTorch's results from them in float64: NAME/y, NAME/g:x, NAME/g:weight ...,
NAME/after:running_mean ....  Metadata: cases, JSON [{name, text}]; errors, JSON {tensor: ||float32
- float64|| / ||float64|| of PyTorch}; torch, its version.
"""
import copy
import json
import sys

import torch
from safetensors.torch import save_file

MEANS = (5000.0, -5000.0, 3000.0, 9000.0)  # of the channels
SPREAD = 0.26


def channels(*shape):
    x = torch.randn(*shape) * SPREAD
    return x + torch.tensor(MEANS).reshape(-1, *[1] * (len(shape) - 2))


def rows(*shape):
    return torch.randn(*shape) * SPREAD + 5000.0


def module_of(make, x):
    """The layer in float32, and all that it holds by name; a frozen one has the statistics of other
    samples."""
    layer, frozen = make()
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(torch.linspace(0.5, 1.5, p.numel()).reshape(p.shape))
        if frozen:
            layer.running_mean.copy_(x.mean((0, 2, 3)) + 0.01)
            layer.running_var.fill_(0.07)
            layer.eval()
    return layer, {k: v for k, v in layer.state_dict().items() if v.is_floating_point()}


def results(run, layer, x, w, dtype):
    """y, its gradients and the buffers, as computed in dtype on one thread."""
    x = x.to(dtype).requires_grad_()
    layer = copy.deepcopy(layer).to(dtype) if layer else None
    y = layer(x) if layer else run(x)
    (y * w.to(dtype)).sum().backward()
    out = {"y": y.detach(), "g:x": x.grad}
    if layer:
        out |= {f"g:{n}": p.grad for n, p in layer.named_parameters()}
        out |= {f"after:{n}": b for n,
                b in layer.named_buffers() if b.is_floating_point() and layer.training}
    return out


N = torch.nn
CASES = [
    ("bn1", "BatchNorm1d()", lambda: (N.BatchNorm1d(4), False), None, channels, (64, 4)),
    ("bn1l", "BatchNorm1d()", lambda: (N.BatchNorm1d(4), False), None, channels, (16, 4, 10)),
    ("bn2", "BatchNorm2d()", lambda: (N.BatchNorm2d(4), False), None, channels, (8, 4, 6, 6)),
    ("frozen", "BatchNorm2d(frozen = true)", lambda: (N.BatchNorm2d(4), True), None, channels,
     (8, 4, 3, 3)),
    ("layer", "LayerNorm()", lambda: (N.LayerNorm(32), False), None, rows, (16, 32)),
    ("group", "GroupNorm(2)", lambda: (N.GroupNorm(2, 4), False), None, rows, (4, 4, 6, 6)),
    ("inst", "InstanceNorm2d(affine = true, track_running_stats = true)",
     lambda: (N.InstanceNorm2d(4, affine=True, track_running_stats=True), False), None, channels,
     (4, 4, 6, 6)),
    ("var0", "var(@x, 0)", None, lambda x: x.var(0), channels, (64, 4)),
    ("std1", "std(@x, -1)", None, lambda x: x.std(-1), rows, (16, 32)),
    ("var", "var(@x)", None, lambda x: x.var(), rows, (1000,)),
    ("std", "std(@x)", None, lambda x: x.std(), rows, (32, 20)),
]

torch.manual_seed(1)
torch.set_num_threads(1)
tensors, errors, cases = {}, {}, []
for name, text, module, run, values, shape in CASES:
    x = values(*shape)
    layer, held = module_of(module, x) if module else (None, {})
    w = torch.randn(results(run, layer, x, torch.ones(()), torch.float64)["y"].shape)
    exact, single = (results(run, layer, x, w, t) for t in (torch.float64, torch.float32))
    tensors |= {f"{name}/x": x, f"{name}/w": w} | {f"{name}/before:{k}": v.clone() for k,
                                                   v in held.items()}
    for key, v in exact.items():
        tensors[f"{name}/{key}"] = v.clone()
        errors[f"{name}/{key}"] = float((single[key].double() - v).norm() / v.norm())
    cases.append({"name": name, "text": text})
for key, e in errors.items():
    print(f"{key:25} {e:.2e}")
save_file(tensors, sys.argv[1],
          {"cases": json.dumps(cases), "errors": json.dumps(errors), "torch": torch.__version__})
