"""Distances, losses of them, and likelihoods."""
import torch
import torch.nn.functional as F

from layers import reductions
from table import *


def distances():
    a = T(1.0, 0, 0, 0, 1e-9, 0, 1, 1, -2, 3, 1e15, 1, inf, 1, nan, 0).reshape(8, 2)
    b = a.roll(1, 0)
    flat = dict(signs=False, relative=1e-5, absolute=1e-6)
    case("cosine_similarity", "cosine_similarity(@x, @z)", lambda x, z: F.cosine_similarity(x, z),
         x=a[2:5], z=b[2:5], settings=flat)
    case("cosine_similarity along 0, eps", "cosine_similarity(@x, @z, 0, 0.5)",
         lambda x, z: F.cosine_similarity(x, z, 0, 0.5), x=a[:6], z=b[:6], settings=flat)
    for p in (1, 2, 3):
        case(f"pairwise_distance {p}", f"pairwise_distance(@x, @z, {p})",
             lambda x, z, p=p: F.pairwise_distance(x, z, p), x=a, z=b, settings=flat)
        case(f"cdist {p}", f"cdist(@x, @z, {p})", lambda x, z, p=p: torch.cdist(x, z, p), x=a[3:5],
             z=T(0.0, 1.0, 1.0, 2.0, 5.0, 4.0).reshape(3, 2), settings=flat)
    case("cdist of batches", "cdist(@x, @z)", torch.cdist, x=torch.arange(12.0).reshape(2, 3, 2),
         z=-torch.arange(8.0).reshape(2, 2, 2), settings=flat)
    for margin, p, swap in ((1, 2, False), (0.5, 1, True), (0.125, 2, True)):
        reductions(f"triplet_margin_loss {margin} {p} {swap}",
                   f"triplet_margin_loss(@a, @b, @c, {margin}, {p}, swap = {str(swap).lower()}, "
                   f"{{r}})",
                   lambda a, b, c, reduction, m=margin, p=p, s=swap: F.triplet_margin_loss(
                       a, b, c, m, p, swap=s, reduction=reduction), a=a[:6], b=b[:6],
                       c=a[:6].flip(0), settings=flat)
    x, t = T(0.0, 1.0, -1.0, 3.0, 1e10, inf, nan, 0.0), T(0.0, 0.0, 2.0, 3.0, 0.0, 1.0, 1.0, -0.0)
    for full in (False, True):
        h = f"full = {str(full).lower()}"
        reductions(f"gaussian_nll_loss {full}", f"gaussian_nll_loss(@x, @t, @v, {h}, {{r}})",
                   lambda x, t, v, reduction, f=full: F.gaussian_nll_loss(
                       x, t, v, full=f, reduction=reduction),
                   x=x, t=t, v=T(1.0, 0.0, 1e-9, 2.0, 1e20, 1.0, 1.0, inf), settings=flat)
        for log in (False, True):
            reductions(f"poisson_nll_loss {log} {full}",
                       f"poisson_nll_loss(@x, @t, {str(log).lower()}, {h}, {{r}})",
                       lambda x, t, reduction, f=full, g=log: F.poisson_nll_loss(
                           x, t, log_input=g, full=f, reduction=reduction),
                           x=T(0.0, 1.0, 2.0, 3.0, 88.0, inf, nan, 0.5),
                       t=T(0.0, 1.0, 1.5, 2.0, 3.0, 1.0, 1.0, 100.0), fixed=("t",), settings=flat)
    case("gaussian_nll_loss, one variance a row", "gaussian_nll_loss(@x, @t, @v)",
         F.gaussian_nll_loss, x=a[:3], t=b[:3], v=T(1.0, 2.0, 0.5).reshape(3, 1), settings=flat)


def likes():
    x = T(1.0, -0.0, inf, nan, -inf, 2.0).reshape(2, 3)
    case("tensors like another", "zeros_like(@x) + 2 * ones_like(@x) + full_like(@x, 3)",
         lambda x: torch.zeros_like(x) + 2 * torch.ones_like(x) + torch.full_like(x, 3), x=x)
    for way in ("ij", "xy"):
        case(f"meshgrid {way}",
             f'meshgrid([@x, @z], "{way}")[0] * 10 + meshgrid([@x, @z], "{way}")[1]',
             lambda x, z, w=way: torch.meshgrid(x, z, indexing=w)[0] * 10
             + torch.meshgrid(x, z, indexing=w)[1],
             x=T(1.0, 2.0, 3.0), z=T(5.0, 7.0))
    case("bmm, mm", "bmm(@x, @z) + mm(@x[0], @z[1])",
         lambda x, z: torch.bmm(x, z) + torch.mm(x[0], z[1]), x=torch.arange(12.0).reshape(2, 2, 3),
         z=-torch.arange(12.0).reshape(2, 3, 2))
