"""Order along an axis, and what is true of all or any elements."""
import torch

from table import *


def sorting():
    rows = torch.stack([LEFT, RIGHT, T(1.0).expand(len(LEFT)), RIGHT], -1)
    for largest in (True, False):
        t = str(largest).lower()
        # torch.topk leaves the order of equal elements open; a stable sort does not.
        first = lambda x, i, largest=largest: torch.sort(x, dim=-1, descending=largest,
                                                         stable=True)[i][:, :2]
        case(f"topk, {t}", f"topk(@x, 2, largest = {t})[0]", lambda x, f=first: f(x, 0), x=rows,
             settings=dict(signs=False))
        case(f"topk's indices, {t}", f"topk(@x, 2, -1, {t})[1]", lambda x, f=first: f(x, 1), x=rows,
             fixed=("x",))
        case(f"sort, {t}", f"sort(@x, 1, {t})[0]",
             lambda x, d=largest: torch.sort(x, dim=1, descending=d, stable=True)[0], x=rows,
             settings=dict(signs=False))
        case(f"argsort, {t}", f"argsort(@x, -1, {t})",
             lambda x, d=largest: torch.argsort(x, dim=-1, descending=d, stable=True), x=rows,
             fixed=("x",))
    plane = torch.arange(24.0).remainder(7).reshape(2, 3, 4)
    case("sort along a middle axis", "sort(@x, 1)[0]",
         lambda x: torch.sort(x, dim=1, stable=True)[0], x=plane)
    case("topk along the first axis", "topk(@x, 1, 0)[0]", lambda x: torch.topk(x, 1, 0)[0],
         x=plane)
    case("sort of integers", "sort(@i)[0]", lambda i: torch.sort(i, stable=True)[0],
         i=I(3, -1, 2**40, 3, 0))
    case("sort of one", "sort(@x)[0]", lambda x: torch.sort(x)[0], x=T(nan))
    case("all, any", "where(all(@x, -1), 1.0, 0.0) + where(any(@x, -1), 2.0, 0.0)",
         lambda x: x.bool().all(-1).to(x.dtype) + 2 * x.bool().any(-1).to(x.dtype),
         x=T(0.0, 0.0, 1.0, 0.0, -0.0, nan, 2.0, -1.0).reshape(4, 2), fixed=("x",))
    case("all of comparisons",
         "where(all(@x > 0), 1.0, 0.0) + where(any(@x > 0, 0, true), 1.0, 0.0)",
         lambda x: (x > 0).all().to(x.dtype) + (x > 0).any(0, keepdim=True).to(x.dtype),
         x=T(1.0, 2.0, 0.0), fixed=("x",))
