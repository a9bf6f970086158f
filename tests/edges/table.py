"""The table of write_functions.py and the values that its rows share."""
import torch

CASES = []
inf, nan = float("inf"), float("nan")
largest, smallest, least = 3.4028234663852886e38, 1.1754943508222875e-38, 1.401298464324817e-45


def T(*v):
    return torch.tensor(v)


def I(*v):
    return torch.tensor(v, dtype=torch.int64)


def both(*v):
    """Each with both signs."""
    return torch.tensor([s * x for x in v for s in (1.0, -1.0)])


# Zeros, denormals, where float32 saturates, the largest, infinite, no number.
REALS = torch.cat([both(0.0, least, smallest, 1e-20, 1e-4, 0.5, 1.0, 2.0, 3.0, 6.0, 9.5, 17.0, 20.0,
                        20.5, 50.0, 87.0, 88.8, 104.0, 1e5, 1e10, 1e20, largest, inf), T(nan)])
# Pairs of these: for functions of two operands.
SOME = torch.cat([both(0.0, least, 0.5, 1.0, 2.5, 3.0, 1e20, largest, inf), T(nan)])
LEFT, RIGHT = SOME.repeat_interleave(len(SOME)), SOME.repeat(len(SOME))


def case(name, text, run, fixed=(), module=None, settings=None, **operands):
    CASES.append(dict(name=name, text=text, run=run, operands=operands, fixed=fixed, module=module,
                      settings=settings or {}))
