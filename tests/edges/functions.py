"""Functions at their edges: scalar functions, activations, reductions, shapes."""
import torch
import torch.nn.functional as F

from table import *


# Exact but for four of the smallest numbers; also with constant operands.
EXACT = dict(absolute=6e-45, fold=True)


def one(name, run=None, text=None, x=REALS, **settings):
    case(name, text or f"{name}(@x)", run or getattr(torch, name), x=x,
         settings={**EXACT, **settings})


def two(name, run, text, x=LEFT, z=RIGHT, fixed=(), **settings):
    case(name, text, run, x=x, z=z, fixed=fixed, settings={**EXACT, **settings})


def scalars():
    for name in ("abs", "sign", "floor", "ceil", "sqrt", "exp", "log", "expm1", "log1p", "tanh",
                 "erf", "sigmoid", "relu", "square", "reciprocal", "rsqrt", "neg"):
        one(name, **(dict(absolute=6e-7) if name in ("tanh", "sigmoid", "erf", "expm1") else {}))
    near = REALS[~(REALS.isfinite() & (REALS.abs() > 2.0**44))]  # beyond, they lose their phase: docs/language.md
    one("sin", x=near, absolute=2e-7)
    one("cos", x=near, absolute=2e-7)
    for name in ("trunc", "round"):
        one(name, x=torch.cat([REALS, both(1.5, 2.5, 0.49999997, 8388607.5)]), signs=False)
    near = REALS[~(REALS.isfinite() & (REALS.abs() > 1e9))]
    one("tan", x=near, relative=2e-6, signs=False)
    for name in ("log2", "log10"):
        one(name, x=torch.cat([REALS, T(4.0, 8.0, 1024.0, 100.0, 1000.0)]), absolute=6e-7,
            relative=1e-6)
    one("isfinite", lambda x: torch.isfinite(x).float(), "where(isfinite(@x), 1.0, 0.0)")
    one("minus", lambda x: -x, "-@x")
    one("one over", lambda x: 1 / x, "1 / @x")
    for p in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.5, 2.5, -3):
        one(f"x ** {p}", lambda x, p=p: x**p, f"@x ** {p}")
    for b in (0, 1, 2, -2, 0.5):
        one(f"{b} ** x", lambda x, b=b: float(b) ** x, f"{b} ** @x" if b >= 0 else f"({b}) ** @x")
    two("pow", torch.pow, "pow(@x, @z)", relative=1e-5)
    two("x + y", torch.add, "add(@x, @z)")
    two("x - y", torch.sub, "sub(@x, @z)")
    two("x * y", torch.mul, "mul(@x, @z)")
    two("x / y", torch.div, "div(@x, @z)")
    two("x // y", torch.floor_divide, "@x // @z", fixed=("x", "z"))
    near = (LEFT / RIGHT).abs() < 2.0**53  # beyond, % is 0: docs/language.md
    two("x % y", torch.remainder, "@x % @z", x=LEFT[near | ~(LEFT / RIGHT).isfinite()],
        z=RIGHT[near | ~(LEFT / RIGHT).isfinite()])
    for d in (0.0, 2.0, -2.0, 0.3, inf):
        t = {inf: "(-log(0))"}.get(d, str(d))
        case(f"x // {d}", f"@x // {t}" if d >= 0 else f"@x // ({t})",
             lambda x, d=d: torch.floor_divide(x, d), x=REALS, fixed=("x",))
        small = REALS[~(REALS.isfinite() & ((REALS.double() / d).abs() > 2.0**53))]
        large = REALS[~((d / REALS).isfinite() & ((d / REALS).abs() > 2.0**53))]
        one(f"x % {d}", lambda x, d=d: torch.remainder(x, d),
            f"@x % {t}" if d >= 0 else f"@x % ({t})", x=small)
        one(f"{d} % x", lambda x, d=d: torch.remainder(torch.tensor(d, dtype=x.dtype), x),
            f"{t} % @x", x=large)
    two("maximum", torch.maximum, "maximum(@x, @z)")
    two("minimum", torch.minimum, "minimum(@x, @z)")
    two("max of two", torch.maximum, "max(@x, @z)")
    two("min of two", torch.minimum, "min(@x, @z)")
    for op, f in (("==", torch.eq), ("!=", torch.ne), ("<", torch.lt), ("<=", torch.le),
                  (">", torch.gt), (">=", torch.ge)):
        two(f"x {op} y", lambda x, y, f=f: f(x, y).float(), f"where(@x {op} @z, 1.0, 0.0)")
        one(f"x {op} 0", lambda x, f=f: f(x, 0).float(), f"where(@x {op} 0, 1.0, 0.0)")
    two("and", lambda x, y: torch.logical_and(x != 0, y != 0).float(),
        "where(@x != 0 and @z != 0, 1.0, 0.0)")
    two("or", lambda x, y: torch.logical_or(x != 0, y != 0).float(),
        "where(@x != 0 or not (@z == 0), 1.0, 0.0)")
    two("where", lambda x, y: torch.where(x > 1, x, y), "where(@x > 1, @x, @z)")
    two("where: a branch that overflows",
        lambda x, y: torch.where(x > 1, torch.exp(x) * y, torch.zeros(())),
        "where(@x > 1, exp(@x) * @z, 0)", absolute=1e-43)
    two("masked_fill", lambda x, y: (x * 1).masked_fill(y > 0, -float("inf")),
        "masked_fill(@x, @z > 0, log(0))", fixed=("z",))
    for lo, hi in ((-1, 2), (0, None), (None, 1), (2, -1), (0, 0)):
        if lo is not None or hi is not None:
            one(f"clamp {lo} {hi}", lambda x, lo=lo, hi=hi: torch.clamp(x, lo, hi),
                f"clamp(@x, {lo}, {hi})".replace("None", "none"))
    case("to f64", 'cast(cast(@x, "f64"), "f32")', lambda x: x.double().float(), x=REALS)
    case("to i64", 'cast(@x, "i64")', lambda x: x.long(), x=REALS[REALS.abs() < 1e18], fixed=("x",))
    case("to u8", 'cast(@x, "u8")', lambda x: x.byte(), x=T(0.0, -0.0, 0.9, 1.0, 254.9, 255.0),
         fixed=("x",))
    case("to bool", 'cast(@x, "bool")', lambda x: x.bool(), x=REALS, fixed=("x",))
    whole = I(-7, -6, -1, 0, 1, 5, 7, 2**31, -(2**31), 2**40)
    a, b = whole.repeat_interleave(len(whole)), whole.repeat(len(whole))
    nonzero = b != 0
    for op, f in (("//", torch.floor_divide), ("%", torch.remainder), ("/", torch.div)):
        case(f"integers {op}", f"@x {op} @z", f, x=a[nonzero], z=b[nonzero])
    case("integers by 0.0", "@x / 0.0", lambda x: x / 0.0, x=whole)
    case("integers **", "@x ** @z", torch.pow, x=I(0, 0, 1, -1, -1, 2, -3, 3),
         z=I(0, 3, 9, 3, 4, 10, 3, 0))
    case("abs, sign of integers", "abs(@x) * 10 + sign(@x)", lambda x: x.abs() * 10 + x.sign(),
         x=whole)
    case("relu, max, min of integers", "relu(@x) + max(@x, 3) * min(@x, 5)",
         lambda x: F.relu(x) + torch.clamp(x, min=3) * torch.clamp(x, max=5),
         x=I(-7, -1, 0, 1, 3, 5, 9))
    case("floor, ceil of integers", "floor(@x) + ceil(@x)", lambda x: x.floor() + x.ceil(),
         x=I(-7, 0, 3))
    one("xlogy of itself", lambda x: torch.xlogy(x, x), "xlogy(@x, @x)", x=REALS[REALS != 0])
    two("xlogy", torch.xlogy, "xlogy(@x, @z)", x=LEFT[LEFT != 0], z=RIGHT[LEFT != 0])


def activations():
    for name in ("relu6", "hardtanh", "hardsigmoid", "hardswish", "hardshrink", "softshrink",
                 "leaky_relu", "elu", "celu", "selu", "silu", "softsign", "tanhshrink", "softplus",
                 "mish",
                 "logsigmoid", "gelu"):
        x = REALS[REALS != -3] if name == "hardswish" else REALS  # docs/language.md
        one(name, getattr(F, name), x=x, absolute=6e-7,
            signs=not name.startswith(("hard", "relu6", "softshrink")))
    rows = [("hardtanh", (-2, 0.5)), ("hardshrink", (0,)), ("softshrink", (0,)),
            ("threshold", (0.5, -3)), ("threshold", (0, 0)), ("leaky_relu", (0,)),
            ("leaky_relu", (1.5,)),
            ("elu", (0,)), ("elu", (2.5,)), ("celu", (2.5,)), ("celu", (-0.5,)),
            ("softplus", (2, 3)), ("softplus", (0.5, 0)), ("hardshrink", (2,)),
            ("softshrink", (2,))]
    for name, args in rows:
        one(f"{name}{args}", lambda x, f=getattr(F, name), a=args: f(x, *a),
            f"{name}(@x, {', '.join(map(str, args))})", absolute=6e-7,
            signs=not name.startswith(("hard", "relu6", "softshrink")))
    one("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), 'gelu(@x, "tanh")', absolute=6e-7)
    one("at the kinks: relu6", F.relu6, "relu6(@x)", x=T(0.0, -0.0, 6.0, 5.9999995, 6.0000005),
        signs=False)
    one("at the kinks: hardtanh", F.hardtanh, "hardtanh(@x)", x=both(1.0, 0.99999994, 1.0000001),
        signs=False)
    one("at the kinks: hardsigmoid", F.hardsigmoid, "hardsigmoid(@x)",
        x=both(3.0, 2.9999998, 3.0000002), signs=False)
    one("at the kinks: hardswish", F.hardswish, "hardswish(@x)", x=both( 2.9999998, 3.0000002),
        signs=False)
    slopes = T(0.25, -0.5, 0.0)
    case("prelu", "prelu(@x, @w)", lambda x, w: F.prelu(x, w), x=REALS, w=T(0.25),
         settings=dict(relative=1e-4))
    case("prelu per channel", "prelu(@x, @w)", lambda x, w: F.prelu(x, w),
         x=both(0.0, 1.0, 2.0).reshape(2, 3), w=slopes)
    rows = torch.stack([LEFT, RIGHT], -1)
    case("glu", "glu(@x, -1)", lambda x: F.glu(x, -1), x=rows[rows[:, 0].abs() != largest])
    rows = rows[~(rows == -inf).all(1)]
    case("softmax", "softmax(@x)", lambda x: torch.softmax(x, -1), x=rows)
    case("log_softmax", "log_softmax(@x)", lambda x: torch.log_softmax(x, -1), x=rows)
    case("softmax of one", "softmax(@x)", lambda x: torch.softmax(x, -1),
         x=REALS[REALS != -inf].reshape(-1, 1))
    case("log_softmax of one", "log_softmax(@x)", lambda x: torch.log_softmax(x, -1),
         x=REALS.reshape(-1, 1))
    layers = [("ReLU()", F.relu), ("ReLU6()", F.relu6), ("Sigmoid()", torch.sigmoid),
              ("Tanh()", torch.tanh), ("ELU(2)", lambda x: F.elu(x, 2)),
              ("CELU(2)", lambda x: F.celu(x, 2)),
              ("SELU()", F.selu), ("SiLU()", F.silu), ("Mish()", F.mish), ("GELU()", F.gelu),
              ("Hardtanh()", F.hardtanh), ("Hardsigmoid()", F.hardsigmoid),
              ("Hardswish()", F.hardswish),
              ("Hardshrink()", F.hardshrink), ("Softshrink()", F.softshrink),
              ("Tanhshrink()", F.tanhshrink), ("Threshold(1, -2)", lambda x: F.threshold(x, 1, -2)),
              ("LeakyReLU(0.2)", lambda x: F.leaky_relu(x, 0.2)),
              ("Softplus(2, 3)", lambda x: F.softplus(x, 2, 3)), ("Softsign()", F.softsign),
              ("LogSigmoid()", F.logsigmoid),
              ("Softmax()", lambda x: torch.softmax(x, -1)),
              ("LogSoftmax()", lambda x: torch.log_softmax(x, -1)),
              ("GLU()", lambda x: F.glu(x, -1)), ("Identity()", lambda x: x * 1)]
    for text, run in layers:
        case(text, f"@layer = {text}\n@y = @layer(@x)", run,
             x=both(0.0, 0.5, 1.0, 2.5, 20.0).reshape(5, 2), settings=dict(signs=False))
    m = torch.nn.PReLU(2)
    case("PReLU(2)", "@layer = PReLU(2)\n@y = @layer(@x)", None, module=m,
         x=both(0.0, 1.0, 3.0).reshape(3, 2))


def reductions():
    rows = torch.stack([LEFT, RIGHT, T(1.0).expand(len(LEFT))], -1)
    for name in ("amax", "amin"):
        case(f"{name} of rows", f"{name}(@x, -1)", lambda x, f=getattr(torch, name): f(x, -1),
             x=rows, settings=dict(signs=False))
        case(f"{name} of a plane", f"{name}(@x, [0, 2], true)",
             lambda x, f=getattr(torch, name): f(x, (0, 2), True),
             x=T(1.0, 2, 2, 0, 2, 2, 1, 1, 0, 3, 3, 3).reshape(2, 2, 3))
        case(f"{name} of all", f"{name}(@x)", lambda x, f=getattr(torch, name): f(x),
             x=T(2.0, 2, 1, 1, 2).reshape(5, 1))
    for name in ("max", "min"):
        case(f"{name} of rows", f"{name}(@x, dim = -1)",
             lambda x, f=getattr(torch, name): f(x, -1).values, x=rows, settings=dict(signs=False))
        case(f"{name} of all", f"{name}(@x)", lambda x, f=getattr(torch, name): f(x),
             x=T(2.0, 2, 1, 1, 2).reshape(5, 1))
        case(f"{name} of infinities", f"{name}(@x)", lambda x, f=getattr(torch, name): f(x),
             x=T(inf, -inf, inf, -inf))
        case(f"{name} with NaN", f"{name}(@x)", lambda x, f=getattr(torch, name): f(x),
             x=T(1.0, nan, 2.0, nan))
        case(f"{name} of one", f"{name}(@x)", lambda x, f=getattr(torch, name): f(x), x=T(2.0))
    case("argmax", "argmax(@x, -1)", lambda x: torch.argmax(x, -1), x=rows, fixed=("x",))
    case("argmin", "argmin(@x, -1)", lambda x: torch.argmin(x, -1), x=rows, fixed=("x",))
    case("argmax of all", "argmax(@x)", torch.argmax, x=rows[:7], fixed=("x",))
    for name in ("sum", "mean", "logsumexp", "prod"):
        case(f"{name} of rows", f"{name}(@x, -1)", lambda x, f=getattr(torch, name): f(x, -1),
             x=rows[:, :2], settings=dict(signs=name == "prod", relative=1e-5))
    case("sum, mean of one", "sum(@x, -1) + mean(@x, -1)", lambda x: x.sum(-1) + x.mean(-1),
         x=REALS.reshape(-1, 1), settings=dict(signs=False))
    case("logsumexp of one", "logsumexp(@x, -1)", lambda x: torch.logsumexp(x, -1),
         x=REALS.reshape(-1, 1))
    case("prod of all", "prod(@x)", torch.prod, x=T(2.0, 3.0, 0.0, -1.0, 5.0))
    case("prod with two zeros", "prod(@x)", torch.prod, x=T(2.0, 0.0, 0.0, -1.0, 5.0))
    case("prod with zeros in some rows", "prod(@x, 1)", lambda x: torch.prod(x, 1),
         x=T(2.0, 3, -1, 0.5, 4, 1.5, 3, 2.0, 0, -1, 0.5, 4, 1.5, 3, 0.0, 3, -1, 0.5, 0, 1.5,
             3).reshape(3, 7), settings=dict(signs=False, relative=1e-6))
    case("prod of a column with a zero", "prod(@x, 0, true)", lambda x: torch.prod(x, 0, True),
         x=torch.cat([torch.linspace(0.7, 1.4, 20), T(0.0),
                      torch.linspace(-1.3, -0.8, 19)]).reshape(20, 2),
                      settings=dict(relative=1e-5, signs=False))
    case("prod of integers", "prod(@x, 0) + prod(@z)",
         lambda x, z: torch.prod(x, 0) + torch.prod(z), x=torch.tensor([[3, -2], [7, 0], [5, 1]]),
         z=torch.tensor([2, 3], dtype=torch.uint8))
    case("prod of one", "prod(@x, 1, true)", lambda x: torch.prod(x, 1, True),
         x=REALS.reshape(-1, 1))
    case("cumsum", "cumsum(@x, 0)", lambda x: torch.cumsum(x, 0),
         x=T(1.0, -0.0, largest, 1.0, inf, 1.0, -inf, 2.0))
    for unbiased in (True, False):
        t = str(unbiased).lower()
        for name in ("var", "std"):
            f = getattr(torch, name)
            case(f"{name} of rows, {t}", f"{name}(@x, -1, {t})",
                 lambda x, f=f, u=unbiased: f(x, -1, u),
                 x=T(2.0, 2, 2, 0, 0, 0, 1, 2, 3, 1, 1, inf, nan, 1, 2, 1e-15, 0, 0, 1e19, -1e19,
                     0).reshape(-1, 3),
                 settings=dict(relative=1e-5))
            case(f"{name} of one, {t}", f"{name}(@x, -1, {t})",
                 lambda x, f=f, u=unbiased: f(x, -1, u), x=T(2.0, 0.0, inf, nan).reshape(-1, 1))
    for p in (0, 0.5, 1, 1.5, 2, 3, -1, inf, -inf):
        t = {inf: '"inf"', -inf: '"-inf"'}.get(p, p)
        case(f"norm {p}", f"norm(@x, {t}, -1)", lambda x, p=p: torch.norm(x, p, -1), x=rows)
        case(f"norm {p} of zeros", f"norm(@x, {t})", lambda x, p=p: torch.norm(x, p),
             x=T(0.0, -0.0, 0.0))
    case("normalize", "normalize(@x, 2, 1)", lambda x: F.normalize(x, 2, 1), x=rows)
    case("normalize, eps 0", "normalize(@x, 2, 1, 0)", lambda x: F.normalize(x, 2, 1, 0),
         x=rows[:40])
    case("normalize 1", "normalize(@x, 1, 1)", lambda x: F.normalize(x, 1, 1), x=rows)


def shapes():
    x = T(1.0, -0.0, inf, nan, -inf, 2.0).reshape(2, 3)
    case("flip, roll, tile", "flip(@x, [1]) + roll(@x, -4, 1) * tile(@x, [1, 1])",
         lambda x: x.flip(1) + x.roll(-4, 1) * x.tile(1, 1), x=x)
    case("tril, triu", "tril(@x, 5) + triu(@x, -5) + tril(@x, -5) + triu(@x, 5)",
         lambda x: x.tril(5) + x.triu(-5) + x.tril(-5) + x.triu(5), x=x)
    case("tril at 0", "tril(@x) * 2 + triu(@x)", lambda x: x.tril() * 2 + x.triu(), x=x)
    case("gather", "gather(@x, 1, @i)", lambda x, i: x.gather(1, i), x=x,
         i=I(0, 0, 2, 1).reshape(2, 2))
    case("scatter_add", "scatter_add(@x, 1, @i, @s)", lambda x, i, s: x.scatter_add(1, i, s), x=x,
         i=I(0, 0, 2, 1).reshape(2, 2), s=T(inf, -inf, nan, 1.0).reshape(2, 2))
    case("index_select", "index_select(@x, 1, @i)", lambda x, i: x.index_select(1, i), x=x,
         i=I(2, 2, 0))
    case("one_hot", "one_hot(@i, 3)", lambda i: F.one_hot(i, 3), i=I(0, 2, 1))
    case("cat of one", "cat([@x], 1) + stack([@x], 0)[0]",
         lambda x: torch.cat([x], 1) + torch.stack([x], 0)[0], x=x)
    case("repeat_interleave", "repeat_interleave(@x, 2, 1)", lambda x: x.repeat_interleave(2, 1),
         x=x)
    case("matmul", "matmul(@x, @z)", lambda x, y: x @ y, x=x, z=T(0.0, 1.0, 2.0).reshape(3, 1))
    case("matmul of nothing finite", "@x @@ @z", lambda x, y: x @ y,
         x=T(inf, 0.0, 0.0, 0.0).reshape(2, 2), z=T(0.0, 1.0, inf, 1.0).reshape(2, 2))
    case("embedding", "embedding(@i, @w, 0)", lambda i, w: F.embedding(i, w, 0), i=I(0, 1, 1),
         w=T(inf, nan, 1.0, 2.0).reshape(2, 2))
