#!/usr/bin/env python3
"""Writes optimizers.safetensors: PyTorch's optimizers and schedules at their edges, for
check_optimizers.c.

Each program is one optimizer (or schedule) whose numbers are hypers, so that one array of models
tries all settings.  Every element of p is a case of its own: gradients that are 0, tiny, huge, that
change sign or come once.  The loss is sum(p * g), so the gradient is g exactly.  stop[slot] is the
first step that makes a value that is not finite, of p or of PyTorch's states."""
import json
import struct
import sys
import warnings

import torch
from torch.optim import lr_scheduler as S

warnings.filterwarnings("ignore")
STEPS, EPOCHS = 4, 24
P0 = [1.0, -2.0, 0.0, 0.5, 3.0, -1.5, 1e-3, 100.0, 1.0]
# by step; the columns are elements
G = [
    [0.0, 0.0, 0.0, 1.0, -1.0, 1e-20, 1e15, 2.0, 1e-42],
    [0.0, 1.0, 0.0, -1.0, -1.0, 1e-20, 1e15, 0.0, 0.0],
    [0.0, 0.0, 1e-6, 1.0, -1.0, -1e-20, -1e15, 0.0, 1.0],
    [0.0, -3.0, 0.0, -1.0, -1.0, 0.0, 0.0, 0.0, 1e-42],
]


def case(name, call, hypers, slots, make):
    return {"name": name, "call": call, "hypers": hypers, "slots": slots, "make": make}


O = torch.optim
OPTIMIZERS = [
    case("SGD", "SGD(lr, momentum = m, dampening = d, weight_decay = w)", "lr m d w",
         [[0.1, 0, 0, 0], [0.1, 1, 0, 0], [0.1, 0.9, 1, 0.5], [0, 0.9, 0, 1], [0.5, 0, 0.7, 2],
          [1, 2, 0.5, 0]],
         lambda p, lr, m, d, w: O.SGD(p, lr, m, d, w)),
    case("SGD nesterov", "SGD(lr, momentum = m, weight_decay = w, nesterov = true)", "lr m w",
         [[0.1, 0.9, 0], [0.1, 1, 0.5], [1, 1e-3, 2]],
         lambda p, lr, m, w: O.SGD(p, lr, m, 0, w, True)),
    case("Adam", "Adam(lr, betas = (b, c), eps = eps, weight_decay = w)", "lr b c eps w",
         [[0.1, 0.9, 0.999, 1e-8, 0], [0.1, 0, 0, 1e-8, 0], [0.1, 0.9, 0, 1e-3, 1],
          [0.1, 0, 0.99, 10, 0], [0, 0.9, 0.999, 1e-8, 1],
          [0.1, 0.999999, 0.999999, 1e-8, 0], [0.1, 0.9, 0.999, 0, 0]],
         lambda p, lr, b, c, eps, w: O.Adam(p, lr, (b, c), eps, w)),
    case("Adam amsgrad", "Adam(lr, betas = (b, c), eps = eps, weight_decay = w, amsgrad = true)",
         "lr b c eps w",
         [[0.1, 0.9, 0.999, 1e-8, 0], [0.1, 0, 0, 1e-8, 0], [0.1, 0.9, 0.5, 1, 1]],
         lambda p, lr, b, c, eps, w: O.Adam(p, lr, (b, c), eps, w, True)),
    case("AdamW", "AdamW(lr, betas = (b, c), eps = eps, weight_decay = w)", "lr b c eps w",
         [[0.1, 0.9, 0.999, 1e-8, 0.01], [0.1, 0, 0, 1e-8, 10], [0.5, 0.9, 0, 1, 3],
          [0.1, 0.9, 0.999, 0, 0]],
         lambda p, lr, b, c, eps, w: O.AdamW(p, lr, (b, c), eps, w)),
    case("Adadelta", "Adadelta(lr, rho = r, eps = eps, weight_decay = w)", "lr r eps w",
         [[1, 0.9, 1e-6, 0], [1, 0, 1e-6, 0], [1, 1, 1e-6, 1], [0, 0.5, 1, 0], [1, 0.9, 0, 0]],
         lambda p, lr, r, eps, w: O.Adadelta(p, lr, r, eps, w)),
    case("Adagrad",
         "Adagrad(lr, lr_decay = d, weight_decay = w, initial_accumulator_value = i, eps = eps)",
         "lr d w i eps",
         [[0.1, 0, 0, 0, 1e-10], [0.1, 1, 0, 1, 1e-10], [0.1, 100, 1, 0, 1], [0.1, 0, 0, 1e10, 0],
          [0.1, 0, 0, 0, 0]],
         lambda p, lr, d, w, i, eps: O.Adagrad(p, lr, d, w, i, eps)),
    case("RMSprop", "RMSprop(lr, alpha = a, eps = eps, weight_decay = w, momentum = m)",
         "lr a eps w m",
         [[0.1, 0.99, 1e-8, 0, 0], [0.1, 0, 1e-8, 0, 1], [0.1, 1, 1, 1, 0.9], [0.1, 0.5, 1, 0, 2],
          [0.1, 0.9, 0, 0, 0]],
         lambda p, lr, a, eps, w, m: O.RMSprop(p, lr, a, eps, w, m)),
    case("RMSprop centered",
         "RMSprop(lr, alpha = a, eps = eps, weight_decay = w, momentum = m, centered = true)",
         "lr a eps w m",
         [[0.1, 0.5, 1e-3, 0, 0], [0.1, 0.75, 1, 1, 0.9]],
         lambda p, lr, a, eps, w, m: O.RMSprop(p, lr, a, eps, w, m, True)),
    case("Adamax", "Adamax(lr, betas = (b, c), eps = eps, weight_decay = w)", "lr b c eps w",
         [[0.1, 0.9, 0.999, 1e-8, 0], [0.1, 0, 0, 1e-8, 1], [0.1, 0.5, 0.5, 1, 0],
          [0.1, 0.9, 0.999, 0, 0]],
         lambda p, lr, b, c, eps, w: O.Adamax(p, lr, (b, c), eps, w)),
    case("RAdam", "RAdam(lr, betas = (b, c), eps = eps, weight_decay = w)", "lr b c eps w",
         [[0.1, 0.9, 0.999, 1e-8, 0], [0.1, 0, 0, 1e-8, 0], [0.1, 0.9, 0.6, 1e-8, 0],
          [0.1, 0.9, 0.5, 1e-8, 1],
          [0.1, 0.9, 1 / 3, 1, 0], [0.1, 0.5, 0.72, 1, 0]],
         lambda p, lr, b, c, eps, w: O.RAdam(p, lr, (b, c), eps, w)),
]

# The base rate is 0.5.
SCHEDULES = [
    case("StepLR", "StepLR(s, gamma = g)", "s g",
         [[1, 0.5], [3, 0.1], [3, 0], [100, 0.5], [2, 1], [2, -0.5]],
         lambda o, s, g: S.StepLR(o, int(s), g)),
    case("ExponentialLR", "ExponentialLR(g)", "g", [[0.9], [0], [1], [-0.5], [1.5]],
         lambda o, g: S.ExponentialLR(o, g)),
    case("ConstantLR", "ConstantLR(f, n)", "f n", [[0.25, 5], [1, 3], [0.5, 100]],
         lambda o, f, n: S.ConstantLR(o, f, int(n))),
    case("LinearLR", "LinearLR(s, e, n)", "s e n",
         [[0.25, 1, 5], [1, 0, 1], [0.5, 0.5, 3], [1e-6, 1, 100], [1, 0, 23]],
         lambda o, s, e, n: S.LinearLR(o, s, e, int(n))),
    case("MultiStepLR", "MultiStepLR([a, b, c], gamma = g)", "a b c g",
         [[2, 5, 9, 0.1], [9, 2, 5, 0.1], [3, 3, 3, 0.5], [0, 0, 4, 0.5], [-1, 4, 100, 0.5],
          [1, 2, 3, 0], [4, 5, 6, -2]],
         lambda o, a, b, c, g: S.MultiStepLR(o, [int(a), int(b), int(c)], g)),
    case("PolynomialLR", "PolynomialLR(n, power = q)", "n q",
         [[5, 1], [1, 1], [5, 2], [5, 0.5], [0, 1], [5, 0], [100, 3]],
         lambda o, n, q: S.PolynomialLR(o, int(n), q)),
    case("CosineAnnealingLR", "CosineAnnealingLR(n, eta_min = m)", "n m",
         [[5, 0], [1, 0], [23, 0.1], [100, 0], [2, 0.5], [4, 1]],
         lambda o, n, m: S.CosineAnnealingLR(o, int(n), m)),
    case("CosineAnnealingWarmRestarts", "CosineAnnealingWarmRestarts(n, T_mult = k, eta_min = m)",
         "n k m",
         [[5, 1, 0], [1, 1, 0], [1, 2, 0], [3, 2, 0.1], [2, 3, 0], [100, 1, 0]],
         lambda o, n, k, m: S.CosineAnnealingWarmRestarts(o, int(n), int(k), m)),
    case("OneCycleLR",
         "OneCycleLR(m, total_steps = n, pct_start = q, div_factor = d, final_div_factor = f)",
         "m n q d f",
         [[1, 24, 0.3, 25, 1e4], [1, 24, 0.0, 25, 1e4], [1, 24, 1.0, 25, 1e4], [1, 25, 0.5, 1, 1],
          [2, 100, 0.3, 10, 0.5]],
         lambda o, m, n, q, d, f: S.OneCycleLR(o, m, int(n), pct_start=q, div_factor=d,
                                               final_div_factor=f, cycle_momentum=False)),
    case("OneCycleLR linear",
         "OneCycleLR(m, epochs = e, steps_per_epoch = s, pct_start = q, anneal_strategy = \"linear\", three_phase = true)",
         "m e s q", [[1, 4, 6, 0.3], [1, 24, 1, 0.0], [1, 1, 24, 0.5], [3, 5, 5, 0.25]],
         lambda o, m, e, s, q: S.OneCycleLR(o, m, epochs=int(e), steps_per_epoch=int(s),
                                            pct_start=q, anneal_strategy="linear",
                                            three_phase=True, cycle_momentum=False)),
    case("CyclicLR", "CyclicLR(a, b, step_size_up = u, step_size_down = d)", "a b u d",
         [[0.1, 1, 3, 3], [0.1, 1, 1, 1], [0, 1, 4, 0], [1, 0.1, 2, 5], [0.5, 0.5, 100, 1]],
         lambda o, a, b, u, d: S.CyclicLR(o, a, b, u, d, cycle_momentum=False)),
    case("CyclicLR exp_range", "CyclicLR(a, b, step_size_up = u, mode = \"exp_range\", gamma = g)",
         "a b u g",
         [[0.1, 1, 3, 0.9], [0.1, 1, 2, 0], [0.1, 1, 2, 1]],
         lambda o, a, b, u, g: S.CyclicLR(o, a, b, u, None, "exp_range", g, cycle_momentum=False)),
]


def trace(make, values):
    """p after each step, and the first step that makes something not finite (STEPS: none)."""
    p = torch.nn.Parameter(torch.tensor(P0))
    opt = make([p], *values)
    rows, stop = [], STEPS
    for t in range(STEPS):
        p.grad = torch.tensor(G[t])
        opt.step()
        rows.append(p.detach().clone())
        tensors = [p.detach()] + [v for v in opt.state[p].values() if torch.is_tensor(v)]
        if stop == STEPS and not all(torch.isfinite(v).all() for v in tensors):
            stop = t
    return torch.stack(rows), stop


def factors(make, values):
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.5)
    sched, rows = make(opt, *values), []
    for epoch in range(EPOCHS):
        if epoch:
            opt.step()
            sched.step()
        rows.append(opt.param_groups[0]["lr"] / 0.5)
    return torch.tensor(rows, dtype=torch.float64)


def save(path, tensors, metadata):
    head, data = {"__metadata__": metadata}, b""
    for name, t in tensors.items():
        raw = t.contiguous().numpy().tobytes()
        kind = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}[t.dtype]
        head[name] = {"dtype": kind, "shape": list(t.shape),
                      "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def main():
    tensors = {"p0": torch.tensor(P0), "g": torch.tensor(G)}
    metadata = {"torch": torch.__version__}
    for group, cases, run in (("optimizer", OPTIMIZERS, trace), ("schedule", SCHEDULES, factors)):
        for i, c in enumerate(cases):
            results = [run(c["make"], [float(x) for x in v]) for v in c["slots"]]
            key = f"{group}.{i}"
            metadata[key] = json.dumps({k: c[k] for k in ("name", "call", "hypers")})
            tensors[key + ".values"] = torch.tensor(c["slots"], dtype=torch.float64)
            if run is trace:
                tensors[key + ".p"] = torch.stack([p for p, _ in results])
                tensors[key + ".stop"] = torch.tensor([s for _, s in results])
            else:
                tensors[key + ".factor"] = torch.stack(results)
    save(sys.argv[1], tensors, metadata)


main()
