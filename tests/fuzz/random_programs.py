"""Writes random valid .hdl programs and checks what must hold of each.

    random_programs.py --bin BUILD/bin --count N --seed S     programs S, S + 1, ...; exit 0 if all hold
    random_programs.py --seed S --print                       one program's text

Program number S is the same for ever (random.Random(S)).  For each one:

  compiles     at -O0 and -O2, for 1, 2 and 5 models
  exactness    every slot of every array, with 1 and 3 threads, holds the same bits as its B = 1 run: fuzz_run_fused
  numbers      what is computed is what the graph says, by the reference interpreter: fuzz_against_ref
  the same     every eighth program gives the same file when it is compiled again
  round trips  --emit=ir, grad and fused read back to the same bytes; --emit=hdl means the same graph

A program that fails is kept in --keep DIR and shrunk line by line with --shrink."""
import argparse
import os
import random
import subprocess
import sys
import tempfile
import time

SIZES = [1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 13, 16, 31, 33]
MAX_ELEMENTS = 6000


def product(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def show(shape):
    return "[" + ", ".join(map(str, shape)) + "]"


class Value:
    """A tensor of the program: name, shape, class (f real, i integer, b bool), range of integers, rough bound of reals."""

    def __init__(self, name, shape, cls="f", bound=3.0, high=None):
        self.name, self.shape, self.cls, self.bound, self.high = name, tuple(shape), cls, bound, high

    @property
    def rank(self):
        return len(self.shape)


class Program:
    """One random program; every method that makes a value adds a line to `body` and the value to `pool`."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.n = self.r.choice([1, 2, 3, 4, 5, 7, 8, 9])
        self.heads, self.inputs, self.layers, self.body = [], [], [], []
        self.pool, self.hypers, self.counter = [], [], 0
        self.precision = "fp64" if self.r.random() < 0.08 else "fp32"

    # ---- small helpers ----

    def chance(self, p):
        return self.r.random() < p

    def size(self):
        return self.r.choice(SIZES)

    def fresh(self, stem="t"):
        self.counter += 1
        return f"{stem}{self.counter}"

    def hyper(self, stem, default, domain):
        name = self.fresh(stem)
        self.hypers.append(f"hyper {name} = {default} in {domain}")
        return name

    def number_or_hyper(self, stem, value, domain):
        return self.hyper(stem, value, domain) if self.chance(0.6) else str(value)

    def add(self, expr, shape, cls="f", bound=3.0, high=None):
        if self.pool and self.chance(0.05) and expr.count("(") < 4:
            expr = f"({expr})"
        v = Value(self.fresh(), shape, cls, bound, high)
        self.body.append(f"{v.name} = {expr}")
        if cls == "f" and bound > 20:
            squash = self.r.choice(["tanh({})", "{} / (1 + abs({}))", "sin({})"]).replace("{}", v.name)
            v = Value(self.fresh(), shape, cls, 1.0)
            self.body.append(f"{v.name} = {squash}")
        self.pool.append(v)
        return v

    def some(self, cls="f", rank=0, test=lambda v: True):
        found = [v for v in self.pool if v.cls in cls and v.rank >= rank and test(v)]
        return self.r.choice(found[-6:] if found and self.chance(0.6) else found) if found else None

    def axis(self, v):
        a = self.r.randrange(v.rank)
        return a, (a if self.chance(0.6) else a - v.rank)

    # ---- operators ----

    def unary(self):
        x = self.some()
        table = [
            ("tanh({})", 1), ("sigmoid({})", 1), ("relu({})", x.bound), ("gelu({})", x.bound),
            ('gelu({}, approximate = "tanh")', x.bound), ("exp(-abs({}))", 1), ("exp({} / 8)", 12), ("log(abs({}) + 0.7)", 3),
            ("sqrt(abs({}) + 0.3)", 5), ("sin({})", 1), ("cos({})", 1), ("erf({})", 1), ("abs({})", x.bound),
            ("-{}", x.bound), ("square({})", x.bound ** 2), ("clamp({}, min = -0.7, max = 1.1)", 1.1), ("clamp({}, max = 0.3)", x.bound),
            ("{} ** 2", x.bound ** 2), ("(abs({}) + 0.4) ** 1.3", x.bound ** 1.5 + 1), ("{} ** 3", x.bound ** 3),
            ("1 / (abs({}) + 0.6)", 2), ("rsqrt(abs({}) + 0.6)", 2), ("0.37 * {} + 0.11", x.bound), ("{} |> tanh", 1),
            ("{} |> clamp(min = -1.3)", x.bound), ("detach({})", x.bound), ("{} - floor({} * 0.37)", x.bound * 1.4 + 1),
            ("maximum({}, 0.21)", x.bound), ("min({}, 0.77)", x.bound), ("{} / 3 % 1.7", 1.7), ("ceil({} * 0.73) * {}", x.bound ** 2),
            ("sign({} + 0.017)", 1), ('cast(cast({}, "f64"), "f32")', x.bound), ("mean({}) + {}", 2 * x.bound),
        ]
        text, bound = self.r.choice(table)
        if "f64" in text and self.precision == "fp64":
            text = "tanh({})"
        self.add(text.replace("{}", x.name), x.shape, "f", bound)

    def meets(self, x):
        """A value that broadcasts with x, or one made to."""
        def fits(v):
            return all(a == b or a == 1 or b == 1 for a, b in zip(reversed(v.shape), reversed(x.shape)))
        y = self.some(test=lambda v: v is not x and fits(v) and product(self.joined(x.shape, v.shape)) <= MAX_ELEMENTS)
        if y is None or self.chance(0.2):
            return self.parameter([d if self.chance(0.6) else 1 for d in x.shape[self.r.randint(0, x.rank):]])
        return y

    @staticmethod
    def joined(a, b):
        out = []
        for i in range(max(len(a), len(b))):
            p = a[len(a) - 1 - i] if i < len(a) else 1
            q = b[len(b) - 1 - i] if i < len(b) else 1
            out.insert(0, q if p == 1 else p)
        return tuple(out)

    def binary(self):
        x = self.some()
        y = self.meets(x)
        if self.chance(0.5):
            x, y = y, x
        s, a, b = self.joined(x.shape, y.shape), x.bound, y.bound
        text, bound = self.r.choice([
            ("X + Y", a + b), ("X - Y", a + b), ("X * Y", a * b), ("X / (abs(Y) + 0.5)", 2 * a), ("maximum(X, Y)", max(a, b)),
            ("minimum(X, Y)", max(a, b)), ("max(X, Y)", max(a, b)), ("where(X > Y, X, Y * 0.3)", max(a, b)), ("X * Y + X", a * b + a),
            ("where(X < 0.123, X - Y, Y)", a + b), ("(abs(X) + 0.5) ** tanh(Y)", a + 2), ("X * sigmoid(Y)", a),
            ("masked_fill(X + Y, Y > 0.41, -0.5)", a + b), ("add(X, mul(Y, 0.5))", a + b),
        ])
        self.add(text.replace("X", x.name).replace("Y", y.name), s, "f", bound)

    def compare(self):
        x = self.some()
        y = self.meets(x)
        op = self.r.choice(["<", "<=", ">", ">=", "!=", "=="])
        self.add(f"{x.name} {op} {y.name} + 0.0137", self.joined(x.shape, y.shape), "b")

    def boolean(self):
        x = self.some("b")
        if x is None:
            return self.compare()
        y = self.some("b", test=lambda v: v.shape == x.shape) or x
        text = self.r.choice(["not X", "X and Y", "X or not Y", "X == Y"])
        self.add(text.replace("X", x.name).replace("Y", y.name), x.shape, "b")

    def use_bool(self):
        x = self.some("b")
        if x is None:
            return self.compare()
        y = self.some(test=lambda v: v.shape == x.shape)
        z = y.name if y else "1.3"
        text = self.r.choice([f"where({x.name}, {z}, 0.25)", f"{x.name} * {z}", f"0.5 + {x.name}", f"cast({x.name}, \"real\") - 0.5"])
        self.add(text, x.shape, "f", (y.bound if y else 1.3) + 1)

    def use_int(self):
        x = self.some("i")
        if x is None:
            return
        text, cls, bound, high = self.r.choice([
            ("X / 7", "f", (x.high or 9) / 7, None), ("X * 0.13", "f", (x.high or 9) * 0.13, None), ("X % 3", "i", 0, 3), ("X // 2", "i", 0, (x.high or 9) // 2 + 1),
            ("X + 1", "i", 0, (x.high or 9) + 1), ("X > 1", "b", 0, None), ('cast(X, "i64")', "i", 0, x.high), ("max(X, 2)", "i", 0, max(3, x.high or 9)),
            ("X * X", "i", 0, (x.high or 9) ** 2), ("X - 3", "i", 0, None), ("X * -2", "i", 0, None), ("X // -2", "i", 0, None), ("X % -3", "i", 0, None),
            ("-X", "i", 0, None), ("abs(X - 2)", "i", 0, None), ("sign(X - 1)", "i", 0, None), ("minimum(X, 1)", "i", 0, None), ("where(X > 1, X, -1)", "i", 0, None),
            ("X ** 2", "i", 0, None), ('cast(X * 1.7 - 2.31, "i32")', "i", 0, None), ('cast(X * 0.43, "u8")', "i", 0, None), ("X // (X - 2)", "i", 0, None),
            ("X % (X - 1)", "i", 0, None), ('cast(X, "u8")', "i", 0, None), ("X != 1 and X > 0", "b", 0, None), ("one_hot(X % 5, 5)", "h", 0, 2),
        ])
        if (high or 0) > 200:
            return
        shape, cls = (x.shape + (5,), "i") if cls == "h" else (x.shape, cls)
        if len(shape) <= 6 and product(shape) <= MAX_ELEMENTS:
            self.add(text.replace("X", x.name), shape, cls, bound, high)

    def reduce_whole(self):
        """Reductions of integers and booleans."""
        x = self.some("ib", rank=1)
        if x is None:
            return
        a, d = self.axis(x)
        text, cls, high = self.r.choice([("sum({}, dim = D)", "i", None), ("mean({}, dim = D)", "f", None), ("max({}, dim = D)", x.cls, x.high),
                                         ("min({}, dim = D)", x.cls, x.high), ("argmax({}, dim = D)", "i", x.shape[a])][:5 if x.cls == "i" else 2])
        self.add(text.replace("{}", x.name).replace("D", str(d)), x.shape[:a] + x.shape[a + 1:], cls, 10, high)

    def reduce(self):
        x = self.some(rank=1)
        dims = self.r.sample(range(x.rank), self.r.randint(1, x.rank))
        keep = self.chance(0.5)
        n = product(x.shape[d] for d in dims)
        given = [d if self.chance(0.5) else d - x.rank for d in dims]
        where = given[0] if len(given) == 1 and self.chance(0.7) else given
        where = "none" if len(dims) == x.rank and self.chance(0.4) else where
        b = x.bound
        text, bound = self.r.choice([
            ("sum({})", b * n), ("mean({})", b), ("mean({})", b), ("max({})", b), ("min({})", b), ("amax({})", b), ("amin({})", b),
            ("norm({})", b * n ** 0.5), ("norm({}, p = 1)", b * n), ("var({}, unbiased = false)", b * b), ("sqrt(var({}, unbiased = false) + 0.1)", b),
        ])
        head, rest = text.split("{}")
        text = f"{head}{x.name}, dim = {where}{', keepdim = true' if keep else ''}{rest}".replace("var(" + x.name + ",", "var(" + x.name + ",")
        shape = [1 if i in dims else d for i, d in enumerate(x.shape) if keep or i not in dims]
        self.add(text, shape, "f", bound)

    def argmax(self):
        x = self.some(rank=1)
        a, d = self.axis(x)
        self.add(f"argmax({x.name}, dim = {d})", x.shape[:a] + x.shape[a + 1:], "i", 0, x.shape[a])

    def softmax(self):
        x = self.some(rank=1)
        a, d = self.axis(x)
        f, bound = self.r.choice([("softmax", 1), ("log_softmax", x.bound * 2 + 4)])
        if self.chance(0.2):
            self.add(f"normalize({x.name}, dim = {d}, eps = 0.01)", x.shape, "f", 1)
        else:
            self.add(f"{f}({x.name}, dim = {d})", x.shape, "f", bound)

    def factor(self, n):
        out = []
        while n > 1 and len(out) < 3 and self.chance(0.8):
            d = self.r.choice([d for d in range(1, n + 1) if n % d == 0])
            out.append(d)
            n //= d
        return out + [n]

    def view(self):
        x = self.some("fib" if self.chance(0.2) else "f", rank=1)
        if x is None:
            return
        a, d = self.axis(x)
        n, s = x.shape[a], x.shape
        kind = self.r.randrange(11)
        if kind == 0:
            shape = list(s)
            if self.chance(0.5):
                shape[a:a + 1] = self.factor(n)
            else:
                b = self.r.randint(a, x.rank - 1)
                shape[a:b + 1] = [product(s[a:b + 1])]
            if len(shape) > 5:
                return
            given = list(shape)
            if self.chance(0.3):
                given[self.r.randrange(len(given))] = -1
            text = f"reshape({x.name}, {show(given)})"
        elif kind == 1 and x.rank > 1:
            b, e = self.axis(x)
            shape = list(s)
            shape[a], shape[b] = shape[b], shape[a]
            text = f"transpose({x.name}, {d}, {e})"
        elif kind == 2 and x.rank > 1:
            p = self.r.sample(range(x.rank), x.rank)
            shape, text = [s[i] for i in p], f"permute({x.name}, {show(p)})"
        elif kind == 3 and n > 1:
            lo = self.r.randrange(n)
            hi, step = self.r.randint(lo + 1, n), self.r.choice([1, 1, 2, 3])
            shape = list(s)
            shape[a] = len(range(lo, hi, step))
            text = f"slice({x.name}, {d}, {lo}, {hi}, {step})"
        elif kind == 4:
            subs, shape = [], []
            for m in s:
                c = self.r.randrange(4)
                if c == 0 and x.rank > 1 and len(s) - len(subs) + len(shape) > 1:
                    subs.append(str(self.r.randrange(-m, m)))
                elif c == 1 and m > 1:
                    lo = self.r.randrange(m)
                    subs.append(f"{lo}:")
                    shape.append(m - lo)
                elif c == 2 and m > 1:
                    hi = self.r.randint(1, m - 1)
                    subs.append(f":{hi}")
                    shape.append(hi)
                else:
                    subs.append(":")
                    shape.append(m)
            text = f"{x.name}[{', '.join(subs)}]"
        elif kind == 5 and x.rank < 4:
            a = self.r.randint(0, x.rank)
            shape, text = list(s[:a]) + [1] + list(s[a:]), f"unsqueeze({x.name}, {a if self.chance(0.5) else a - x.rank - 1})"
        elif kind == 6 and n == 1 and x.rank > 1:
            shape, text = list(s[:a]) + list(s[a + 1:]), f"squeeze({x.name}, {d})"
        elif kind == 7 and (1 in s or x.rank < 3):
            shape = [self.size() if m == 1 and self.chance(0.7) else m for m in s]
            lead = [self.size()] if x.rank < 3 and self.chance(0.5) else []
            if product(lead + shape) > MAX_ELEMENTS:
                return
            text = f"expand({x.name}, {show(lead + [m if self.chance(0.7) or True else -1 for m in shape])})"
            shape = lead + shape
        elif kind == 8 and x.cls == "f":
            lo, hi = self.r.randint(0, 3), self.r.randint(0, 3)
            shape = list(s)
            shape[a] += lo + hi
            text = f"pad_dim({x.name}, {d}, {lo}, {hi})"
        elif kind == 9 and x.cls == "f":
            y = self.some(test=lambda v: v.rank == x.rank and all(i == a or p == q for i, (p, q) in enumerate(zip(v.shape, s)))) or x
            shape = list(s)
            if self.chance(0.3) and y.shape == s and x.rank < 4:
                shape.insert(a, 2)
                text = f"stack([{x.name}, {y.name}], dim = {a})"
            else:
                shape[a] += y.shape[a]
                text = f"cat([{x.name}, {y.name}], dim = {d})"
        elif kind == 10 and n % 2 == 0:
            shape = list(s)
            shape[a] //= 2
            text = f"chunk({x.name}, 2, dim = {d})[{self.r.randrange(2)}]"
        else:
            return
        if product(shape) <= MAX_ELEMENTS:
            self.add(text, shape, x.cls, x.bound, x.high)

    def gather(self):
        x = self.some(rank=1)
        a, d = self.axis(x)
        index = self.some("i", test=lambda v: v.rank == x.rank and all(i == a or p <= q for i, (p, q) in enumerate(zip(v.shape, x.shape))))
        if index is None:
            source = self.some("i")
            shape = [m if i != a else self.size() for i, m in enumerate(x.shape)]
            if source is None or product(shape) > MAX_ELEMENTS:
                return
            index = self.add(f"arange({product(shape)}) * 7 // 3 + max({source.name}, dim = none)", [product(shape)], "i", 0, 99999)
            index = self.add(f"reshape({index.name}, {show(shape)}) % {x.shape[a]}", shape, "i", 0, x.shape[a])
        elif (index.high or 99999) > x.shape[a]:
            index = self.add(f"{index.name} % {x.shape[a]}", index.shape, "i", 0, x.shape[a])
        self.add(f"gather({x.name}, {d}, {index.name})", index.shape, "f", x.bound)

    # ---- parameters, contractions, layers ----

    def parameter(self, shape):
        name = self.fresh("p")
        init = self.r.choice(["normal(0, 0.5)", "uniform(-1, 1)", "ones", "0.3", "normal(std = 0.7)", "zeros", "xavier_uniform()", "kaiming_normal()"])
        if len(shape) < 2 and "(" in init and "i" in init[:7] and init[0] in "xk":
            init = "normal()"
        self.layers.append(f"{name} = Param({show(shape)}, init = {init})")
        v = Value(name, shape, "f", 1.5)
        self.pool.append(v)
        return v

    def matmul(self):
        x = self.some(rank=1)
        k = x.shape[-1]
        y = self.some(rank=1, test=lambda v: v is not x and (v.shape[0] if v.rank == 1 else v.shape[-2]) == k and v.rank <= 4)
        if y is None or self.chance(0.3):
            batch = [d if self.chance(0.5) else 1 for d in x.shape[:-2]] if x.rank > 2 and self.chance(0.5) else []
            y = self.parameter(batch + [k, self.size()])
        lead_x, lead_y = x.shape[:-2], y.shape[:-2]
        if not all(p == q or 1 in (p, q) for p, q in zip(reversed(lead_x), reversed(lead_y))):
            return
        rows = [x.shape[-2]] if x.rank > 1 else []
        cols = [y.shape[-1]] if y.rank > 1 else []
        shape = list(self.joined(lead_x, lead_y)) + rows + cols
        if product(shape) * k > 120000 or product(shape) > MAX_ELEMENTS or len(shape) > 5:
            return
        scale = self.r.choice(["", f" / {k}"])
        text = f"({x.name} @ {y.name}){scale}" if self.chance(0.7) else f"matmul({x.name}, {y.name}){scale}"
        self.add(text, shape, "f", x.bound * y.bound * (1 if scale else k ** 0.5))

    def einsum(self):
        x = self.some(rank=2, test=lambda v: v.rank <= 4)
        if x is None:
            return
        letters = "abcd"[:x.rank]
        extent = dict(zip(letters, x.shape))
        y_letters = [c for c in letters if self.chance(0.5)] or [letters[-1]]
        if self.chance(0.7):
            y_letters.append("z")
            extent["z"] = self.size()
        self.r.shuffle(y_letters)
        out = [c for c in extent if c == "z" or c not in y_letters or self.chance(0.4)]
        self.r.shuffle(out)
        shape = [extent[c] for c in out]
        total = product(extent.values())
        if not out or total > 120000 or product(shape) > MAX_ELEMENTS or len(shape) > 5:
            return
        shape_y = [extent[c] for c in y_letters]
        y = self.some(test=lambda v: v.shape == tuple(shape_y)) or self.parameter(shape_y)
        k = max(1, total // max(1, product(shape)))
        a, b = ((letters, x.name), ("".join(y_letters), y.name))
        if self.chance(0.5):
            a, b = b, a
        self.add(f'einsum("{a[0]},{b[0]}->{"".join(out)}", {a[1]}, {b[1]}) / {k}', shape, "f", x.bound * y.bound)

    def linear(self):
        x = self.some(rank=1)
        k = self.size()
        if product(x.shape[:-1]) * k > MAX_ELEMENTS or product(x.shape) * k > 120000:
            return
        same = [l for l in self.shared if l[1] == x.shape[-1]]
        if same and self.chance(0.4):
            name, _, k, bound = self.r.choice(same)
        else:
            name = self.fresh("fc")
            bias = self.r.choice(["", "", ", bias = false"])
            self.layers.append(f"{name} = Linear({k}{bias})")
            bound = 1.5
            self.shared.append((name, x.shape[-1], k, bound))
        self.add(self.r.choice([f"{name}({x.name})", f"{x.name} |> {name}", f"relu({name}({x.name}))"]), x.shape[:-1] + (k,), "f", min(x.bound * 1.5 + 1, 19))

    def layer(self):
        x = self.some(rank=1)
        kind = self.r.randrange(6)
        if kind == 0:
            n = self.r.randint(1, min(2, x.rank))
            options = self.r.choice(["", f"{show(x.shape[-n:])}", "eps = 0.01", "elementwise_affine = false", f"{show(x.shape[-n:])}, bias = false"])
            return self.add_layer(f"LayerNorm({options})", "ln", x, x.shape, 4)
        if kind == 1:
            p = self.number_or_hyper("drop", self.r.choice([0, 0.2, 0.5]), "(0 .. 1)")
            return self.add_layer(f"Dropout({p})", "do", x, x.shape, x.bound * 2)
        if kind == 2:
            k, m = self.size(), self.size()
            if product(x.shape[:-1]) * max(k, m) > MAX_ELEMENTS:
                return None
            act = self.r.choice(["ReLU()", "GELU()", "Tanh()", "Sigmoid()", 'GELU("tanh")'])
            return self.add_layer(f"Sequential(Linear({k}), {act}, Linear({m}))", "seq", x, x.shape[:-1] + (m,), 5)
        if kind == 3 and self.blocks:
            name, extra = self.r.choice(self.blocks)
            if product(x.shape) * 16 > 120000:
                return None
            return self.add_layer(f"{name}({extra()})", "blk", x, x.shape, min(x.bound * 2 + 3, 19))
        if kind == 4:
            n, w = self.r.randint(1, 3), self.size()
            if product(x.shape[:-1]) * w > MAX_ELEMENTS:
                return None
            stack, y = self.fresh("ls"), self.fresh()
            first = f"{y} = {x.name}"
            self.body.append(f"{first}; repeat i in 0 .. {n} {{ {stack}[i] = Linear({w}); {y} = tanh({stack}[i]({y})) }}")
            self.pool.append(Value(y, x.shape[:-1] + (w,), "f", 1))
            return None
        p = self.number_or_hyper("drop", self.r.choice([0, 0.3, 0.5]), "(0 .. 1)")
        return self.add(f"dropout({x.name}, {p})", x.shape, "f", x.bound * 2)

    def add_layer(self, made, stem, x, shape, bound):
        name = self.fresh(stem)
        self.layers.append(f"{name} = {made}")
        self.add(f"{name}({x.name})", shape, "f", bound)

    def scalars(self):
        """Hypers, parameters of rank 0, random values, constants in the network."""
        x = self.some()
        kind = self.r.randrange(7)
        if kind == 0:
            h = self.hyper("gain", 0.7, "(-2 .. 2)")
            self.add(f"{x.name} * {h} + {h} ** 2", x.shape, "f", x.bound * 2 + 4)
        elif kind == 1:
            p = self.parameter([])
            self.add(f"{x.name} * exp({p.name} / 4)", x.shape, "f", x.bound * 2)
        elif kind == 2:
            self.add(f"{x.name} + 0.1 * {self.r.choice(['rand', 'randn'])}({show(x.shape)})", x.shape, "f", x.bound + 1)
        elif kind == 3 and x.rank:
            self.add(f"{x.name} * arange({x.shape[-1]}) / {x.shape[-1]}", x.shape, "f", x.bound)
        elif kind == 4 and x.rank:
            k = x.shape[-1]
            if product(x.shape) * k < 120000:
                self.add(f"{x.name} @ (eye({k}) + 0.1)", x.shape, "f", x.bound * (1 + 0.1 * k))
        elif kind == 5:
            h = self.hyper("cut", 0.3, "(-1 .. 1)")
            self.add(f"where({x.name} > {h}, {x.name}, {h})", x.shape, "f", x.bound + 1)
        else:
            self.add(f"{x.name} + zeros({show(x.shape)}) + full({show(x.shape[-1:])}, 0.5)", x.shape, "f", x.bound + 1)

    # ---- what the standard library makes of them ----

    def activation(self):
        x = self.some(rank=1)
        b = x.bound
        text, bound = self.r.choice([
            ("relu6({})", 6), ("hardtanh({}, -0.9, 1.1)", 1.1), ("hardsigmoid({} * 1.7)", 1), ("hardswish({})", b), ("hardshrink({}, 0.43)", b),
            ("softshrink({}, 0.37)", b), ("leaky_relu({}, 0.2)", b), ("elu({}, 0.7)", b), ("celu({}, 1.3)", b), ("selu({})", 2 * b), ("silu({})", b),
            ("softsign({})", 1), ("tanhshrink({})", b), ("softplus({}, 1.3)", b + 1), ("mish({})", b), ("logsigmoid({})", b + 1),
            ("expm1({} / 8)", 12), ("log1p(abs({}))", 4), ("threshold({}, 0.13, -0.4)", b), ("rrelu({})", b),
        ])
        if self.chance(0.15):
            self.add_layer(self.r.choice(["PReLU()", "Hardswish()", "SiLU()", "LogSigmoid()", "LeakyReLU(0.1)"]), "act", x, x.shape, b + 1)
        else:
            self.add(text.replace("{}", x.name), x.shape, "f", bound)

    def along_axis(self):
        x = self.some(rank=1)
        a, d = self.axis(x)
        b, n, s = x.bound, x.shape[a], x.shape
        text, shape, bound = self.r.choice([
            (f"cumsum({{}}, {d}) / {n}", s, b), (f"flip({{}}, [{d}])", s, b), (f"roll({{}}, 2, {d})", s, b),
            (f"logsumexp({{}}, {d}, keepdim = true)", s[:a] + (1,) + s[a + 1:], b + 5), (f"prod(tanh({{}}), {d})", s[:a] + s[a + 1:], 1),
            (f"amax({{}}, dim = {d}, keepdim = true) - {{}}", s, 2 * b), (f"glu(cat([{{}}, {{}}], dim = {d}), {d})", s, b),
        ])
        self.add(text.replace("{}", x.name), shape, "f", bound)

    def images(self, least, most):
        """A value with a batch axis, channels, and least .. most - 2 axes of space; made if there is none."""
        x = self.some(rank=least, test=lambda v: v.rank <= most and v.shape[0] == self.n)
        if x is None or self.chance(0.2):
            flat = self.some(rank=1, test=lambda v: v.shape[0] == self.n)
            if flat is None:
                return None
            shape = [self.n, self.r.choice([1, 2, 3, 4, 6])] + [self.r.choice([3, 4, 5, 7, 8]) for _ in range(least - 2)]
            name = self.fresh("fc")
            self.layers.append(f"{name} = Linear({product(shape[1:])})")
            x = self.add(f"reshape({name}(reshape({flat.name}, [{self.n}, -1])), {show(shape)})", shape, "f", 6)
        return x

    def convolution(self):
        x = self.images(self.r.choice([3, 4]), 4)
        if x is None:
            return
        n, c = x.rank - 2, x.shape[1]
        groups = self.r.choice([g for g in (1, 1, 1, 2, 3, c) if c % g == 0])
        out = groups * self.r.choice([1, 2, 3, 5])
        stride, dilation = self.r.choice([1, 1, 2, 3]), self.r.choice([1, 1, 2])
        kernel = [self.r.choice([k for k in (1, 1, 2, 3, 4, 5) if dilation * (k - 1) < s] or [1]) for s in x.shape[2:]]
        padding = self.r.choice([0, 0, 1, 2])
        padding = min(padding, min(kernel) // 2 + 1)
        space = [(s + 2 * padding - dilation * (k - 1) - 1) // stride + 1 for s, k in zip(x.shape[2:], kernel)]
        options = [str(out), show(kernel), f"stride = {stride}", f"padding = {padding}", f"dilation = {dilation}", f"groups = {groups}"]
        if self.chance(0.3):
            options.append("bias = false")
        kind = f"Conv{n}d"
        if self.chance(0.25):
            kind = f"ConvTranspose{n}d"
            padding = 0
            options[3] = "padding = 0"
            space = [(s - 1) * stride + dilation * (k - 1) + 1 for s, k in zip(x.shape[2:], kernel)]
        elif self.chance(0.15) and padding and padding < min(x.shape[2:]):
            options.append(f'padding_mode = "{self.r.choice(["reflect", "replicate"])}"')
        shape = [self.n, out] + space
        if product(shape) <= MAX_ELEMENTS and product(shape) * product(kernel) * c // groups <= 200000:
            self.add_layer(f"{kind}({', '.join(options)})", "conv", x, shape, min(x.bound * 2 + 1, 19))

    def pooling(self):
        x = self.images(self.r.choice([3, 4]), 4)
        if x is None or min(x.shape[2:]) < 2:
            return
        n, kernel = x.rank - 2, self.r.choice([k for k in (2, 3) if k <= min(x.shape[2:])])
        stride, padding = self.r.choice([1, 2, 3]), self.r.choice([0, 0, 1])
        kind = self.r.choice(["max", "avg", "adaptive_avg", "adaptive_max"])
        if kind.startswith("adaptive"):
            shape = [self.r.randint(1, s) for s in x.shape[2:]]
            self.add(f"{kind}_pool{n}d({x.name}, {show(shape)})", list(x.shape[:2]) + shape, "f", x.bound)
            return
        shape = [(s + 2 * padding - kernel) // stride + 1 for s in x.shape[2:]]
        self.add(f"{kind}_pool{n}d({x.name}, {kernel}, stride = {stride}, padding = {padding})", list(x.shape[:2]) + shape, "f", x.bound)

    def norm_layer(self):
        x = self.images(self.r.choice([2, 3, 4]), 4) if self.chance(0.8) else None
        if x is None:
            x = self.some(rank=1)
            return self.add_layer("RMSNorm(eps = 0.001)", "rms", x, x.shape, 4)
        c, each = x.shape[1], product(x.shape) // x.shape[1]
        n = max(1, x.rank - 2)
        made = []
        if each > 1:
            options = self.r.choice(["", "momentum = 0.3", "eps = 0.01", "momentum = none", "affine = false", "track_running_stats = false"])
            made.append((f"BatchNorm{n}d({options})", "bn"))
        if x.rank > 2:
            made.append((f"GroupNorm({self.r.choice([g for g in (1, 2, 3, c) if c % g == 0])}, eps = 0.001)", "gn"))
        if x.rank > 2 and product(x.shape[2:]) > 1:
            made.append((f"InstanceNorm{n}d(eps = 0.001{self.r.choice(['', ', affine = true'])})", "in"))
        if made:
            self.add_layer(*self.r.choice(made), x, x.shape, 4)

    def embedding(self):
        x = self.some("i", test=lambda v: v.high)
        if x is None:
            return
        width, rows = self.size(), x.high + self.r.choice([0, 1, 3])
        if product(x.shape) * width > MAX_ELEMENTS or x.rank > 4 or rows > 300:
            return
        padding = f", padding_idx = {self.r.randrange(rows)}" if self.chance(0.3) else ""
        self.add_layer(f"Embedding({rows}, {width}{padding})", "em", x, x.shape + (width,), 3)

    def recurrent(self):
        x = self.some(rank=3, test=lambda v: v.rank == 3 and v.shape[1] <= 8)
        h = self.r.choice([1, 2, 3, 5, 8])
        if x is None or product(x.shape[:2]) * h * 8 > MAX_ELEMENTS:
            return
        both = self.chance(0.3)
        options = ["batch_first = true"] + (["bidirectional = true"] if both else []) + (["num_layers = 2"] if self.chance(0.2) else [])
        name, y = self.fresh("rnn"), self.fresh()
        self.layers.append(f"{name} = {self.r.choice(['LSTM', 'GRU', 'RNN'])}({h}, {', '.join(options)})")
        self.body.append(f"{y}, _ = {name}({x.name})")
        self.pool.append(Value(y, x.shape[:2] + (h * (2 if both else 1),), "f", 1))

    def attention(self):
        x = self.some(rank=3, test=lambda v: v.rank == 3 and v.shape[1] <= 16)
        if x is None:
            return
        heads = self.r.choice([h for h in (1, 2, 3) if x.shape[2] % h == 0])
        options = self.r.choice(["", ", is_causal = true"])
        drop = self.r.choice(["", ", dropout = 0.2"])
        name, y = self.fresh("mha"), self.fresh()
        self.layers.append(f"{name} = MultiheadAttention({heads}, batch_first = true{drop})")
        self.body.append(f"{y}, _ = {name}({x.name}{options})")
        self.pool.append(Value(y, x.shape, "f", 4))

    # ---- whole programs ----

    def make_blocks(self):
        self.blocks, self.shared = [], []
        if self.chance(0.6):
            act = self.r.choice(["gelu", "tanh", "relu", "sigmoid"])
            self.heads.append(
                f"block Res(width, act = {act}) on (x: [..., d]) -> [..., d] {{\n  norm = LayerNorm()\n  up = Linear(width)\n"
                "  down = Linear(d)\n  return x + down(act(up(norm(x))))\n}")
            self.blocks.append(("Res", lambda: str(self.r.choice([1, 3, 8, 13]))))
        if self.chance(0.4):
            self.heads.append(
                "block Gate on (x: [..., d]) -> [..., d] {\n  scale = Param([d], init = ones)\n  a = Linear(d);  b = Linear(d, bias = false)\n"
                "  return scale * a(x) * sigmoid(b(x))\n}")
            self.blocks.append(("Gate", lambda: ""))
        if self.chance(0.3):
            self.heads.append(
                "block Mix(heads = 1) on (x) {\n  n = shape(x)[-1]\n  q = Linear(n);  k = Linear(n)\n  y = reshape(x, [-1, n])\n"
                "  s = softmax(q(y) @ transpose(k(y), 0, 1) / sqrt(n), dim = -1)\n  return reshape(s @ y, shape(x))\n}")
            self.blocks.append(("Mix", lambda: ""))

    def make_inputs(self):
        for _ in range(self.r.randint(1, 3)):
            rank = self.r.choice([1, 2, 2, 3]) if self.inputs else self.r.choice([1, 1, 2])
            shape = [self.n] + [self.size() for _ in range(rank)]
            while product(shape) > MAX_ELEMENTS // 4:
                shape[self.r.randrange(1, len(shape))] = self.r.choice([1, 2, 3])
            each = " each" if self.chance(0.2) else ""
            dims = show(["N"] + shape[1:])
            name = self.fresh("x")
            kind = self.r.randrange(8) if self.inputs else 0
            if kind == 5:
                self.inputs.append(f"input {name}_c16 : u8{dims}{each}")
                self.pool.append(Value(name + "_c16", shape, "i", 0, 16))
            elif kind == 6:
                high = self.size() + 1
                self.inputs.append(f"input {name}_c{high} : {self.r.choice(['i64', 'i32'])}{dims}{each}")
                self.pool.append(Value(f"{name}_c{high}", shape, "i", 0, high))
            elif kind == 7:
                self.inputs.append(f"input {name}_c2 : bool{dims}{each}")
                self.pool.append(Value(name + "_c2", shape, "b"))
            else:
                self.inputs.append(f"input {name} : f32{dims}{each}")
                self.pool.append(Value(name, shape))

    def head_vector(self, width):
        """[N, width], from a late value: a Linear over what is left of one sample."""
        while True:
            x = self.some(rank=1, test=lambda v: v.shape[0] == self.n and product(v.shape) * width < 120000)
            flat = x.name if x.rank == 2 else f"reshape({x.name}, [{self.n}, -1])"
            name = self.fresh("head")
            self.layers.append(f"{name} = Linear({width})")
            return self.add(f"{name}({flat})", [self.n, width], "f", 6)

    def loss_term(self):
        kind = self.r.randrange(5)
        each = " each" if self.chance(0.2) else ""
        if kind < 2:
            classes = self.r.choice([2, 3, 7, 10, 13, 33])
            logits = self.head_vector(classes)
            options = []
            ignore = self.chance(0.3)
            if ignore:
                options.append("ignore_index = -100")
            if self.chance(0.4):
                options.append(f"label_smoothing = {self.number_or_hyper('smooth', self.r.choice([0, 0.1]), '(0 .. 0.4)')}")
            if self.chance(0.3):
                options.append(f"weight = [{', '.join(str(self.r.choice([0.5, 1, 2, 0.25])) for _ in range(classes))}]")
            if self.chance(0.2):
                options.append('reduction = "sum"')
            label = f"{self.fresh('y')}_c{classes}{'i' if ignore else ''}"
            self.inputs.append(f"target {label} : {'i64' if ignore else self.r.choice(['u8', 'i64', 'i32'])}[N]{each}")
            self.metrics.append(f"metric {self.fresh('acc')} = accuracy({logits.name}, {label}{', ignore_index = -100' if ignore else ''})")
            return f"cross_entropy({', '.join([logits.name, label] + options)})"
        if kind < 4:
            width = self.size()
            y = self.head_vector(width)
            f = self.r.choice(["mse_loss", "l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss"])
            if self.chance(0.2):
                return f"{f}({y.name}, 0.5)"
            target = self.fresh("y")
            self.inputs.append(f"target {target} : f32[N, {width}]{each}")
            reduction = self.r.choice(["", "", ', reduction = "sum"'])
            return f"{f}({y.name}, {target}{reduction}) / {width if reduction else 1}"
        x = self.some(rank=1)
        return self.r.choice([f"mean(square({x.name}))", f"0.01 * sum(abs({x.name}))", f"mean({x.name} * {x.name}) ** 0.5", f"0.1 * mean({x.name})"])

    def leftovers(self):
        """Most values that nothing reads go into the loss, so that they and their gradients are computed."""
        text = "\n".join(self.body)
        unread = [v for v in self.pool if v.name.startswith("t") and v.cls in "fb" and text.count(v.name) == 1 + text.count(v.name + "0")]
        keep = [v for v in unread if self.chance(0.7)][-6:]
        return [f"{self.r.choice(['0.3 * mean', '0.05 * sum', 'mean'])}({self.r.choice(['sin(3 * {})', 'square({} - 0.2)', '{} * 0.7'])})".replace("{}", v.name) for v in keep]

    def optimizer(self):
        r = self.r
        lr = self.hyper("lr", 0.01, "log(1e-4 .. 0.05)") if self.chance(0.8) else "0.01"
        wd = self.number_or_hyper("wd", r.choice([0, 0.01]), "{0, 0.001, 0.1}") if self.chance(0.5) else "0"
        if self.chance(0.5):
            o = [f"lr = {lr}"]
            if self.chance(0.6):
                o.append(f"momentum = {self.number_or_hyper('mom', 0.9, '(0 .. 0.95)')}")
                if self.chance(0.3):
                    o.append("nesterov = true")
                elif self.chance(0.3):
                    o.append("dampening = 0.1")
            o.append(f"weight_decay = {wd}")
            return f"SGD({', '.join(o)})"
        if self.chance(0.3):
            other = r.choice(["Adadelta", "Adagrad", "RMSprop", "Adamax", "NAdam", "RAdam", "Lion", "LAMB"])
            options = {"RMSprop": r.choice(["", ", momentum = 0.5", ", centered = true"]), "Adagrad": r.choice(["", ", lr_decay = 0.1"])}.get(other, "")
            return f"{other}(lr = {lr}, weight_decay = {wd}{options})"
        b = f"({self.number_or_hyper('beta', 0.9, '(0.5 .. 0.95)')}, 0.99)"
        o = [f"lr = {lr}", f"betas = {b}", f"weight_decay = {wd}"]
        if self.chance(0.3):
            o.append("amsgrad = true")
        if self.chance(0.3):
            o.append("eps = 1e-4")
        return f"{r.choice(['Adam', 'AdamW'])}({', '.join(o)})"

    def schedule(self):
        def one():
            return self.r.choice([
                f"StepLR(step_size = {self.r.choice([1, 2, 3])}, gamma = {self.number_or_hyper('gamma', 0.5, '(0 .. 1)')})",
                f"ExponentialLR(gamma = {self.number_or_hyper('gamma', 0.9, '(0.3 .. 1)')})",
                "CosineAnnealingLR(T_max = 5)", "CosineAnnealingLR(T_max = 3, eta_min = 0.0001)",
                "LinearLR(start_factor = 0.5, total_iters = 3)", "MultiStepLR([1, 2], 0.3)", "PolynomialLR(4, 2)", "CosineAnnealingWarmRestarts(2)", "ConstantLR(factor = 0.4, total_iters = 2)"])
        text = one()
        if self.chance(0.3):
            text = f"LinearLR(start_factor = 0.25, total_iters = 2) then {one()}"
        return text + (" per step" if self.chance(0.4) else "")

    def train(self):
        lines = [f"batch N = {self.n}"]
        if self.chance(0.5):
            lines.append(f"epochs {self.r.randint(1, 6)}")
        lines.append(f"optimizer {self.optimizer()}")
        if self.chance(0.6):
            lines.append(f"schedule {self.schedule()}")
        if self.chance(0.4):
            c = self.number_or_hyper("clip", 0.5, "(0.01 .. 3)")
            lines.append(f"clip {self.r.choice(['norm', 'value'])}({c})")
        if self.chance(0.15):
            lines.append('freeze "head*.bias"' if "head" in " ".join(self.layers) else 'freeze "none.*"')
        if self.chance(0.2):
            lines.append('no_decay "*.bias", "head*"')
        if self.chance(0.2):
            lines.append('init "*.weight" normal(std = 0.3)')
        return lines

    def outputs(self):
        out = []
        for _ in range(self.r.randint(0, 3)):
            v = self.some("fib", test=lambda v: v.name.startswith("t"))
            if v is not None:
                out.append(f"output {self.fresh('o')} = {v.name}")
        return out

    def text(self):
        self.metrics = []
        self.make_blocks()
        self.make_inputs()
        operators = [
            (self.unary, 12), (self.binary, 12), (self.compare, 3), (self.boolean, 1), (self.use_bool, 3), (self.use_int, 5), (self.reduce_whole, 2), (self.reduce, 8), (self.argmax, 2),
            (self.softmax, 4), (self.view, 14), (self.gather, 3), (self.matmul, 8), (self.einsum, 5), (self.linear, 8), (self.layer, 8), (self.scalars, 5)]
        if self.chance(0.5):
            operators += [(self.activation, 8), (self.along_axis, 5), (self.convolution, 8), (self.pooling, 5), (self.norm_layer, 6), (self.embedding, 4),
                          (self.recurrent, 2), (self.attention, 2)]
        made, weight = zip(*operators)
        for _ in range(self.r.choice([1, 3, 6, 10, 15, 22, 30])):
            self.r.choices(made, weight)[0]()
        losses = [self.loss_term() for _ in range(self.r.choice([1, 1, 1, 2, 3]))]
        if not any("head" in l for l in losses):
            losses.append(f"mean(square({self.head_vector(2).name}))")
        losses += self.leftovers()
        if self.chance(0.3):
            v = self.some(rank=1)
            self.metrics.append(f"metric {self.fresh('m')} = {self.r.choice(['mean', 'max', 'sum'])}({v.name})")
        train = self.train()
        outputs = self.outputs()
        lines = ["hdl 1", f"# precision: {self.precision}"] + self.hypers + self.heads
        model = self.inputs + self.layers + self.body + ["loss " + " + ".join(losses)] + self.metrics + outputs
        lines += ["model M {"] + ["  " + l for l in model] + ["}", "train M {"] + ["  " + l for l in train] + ["}"]
        used = "\n".join(self.body + lines)
        return "\n".join(l for l in lines if not self.unused_layer(l, used)) + "\n"

    @staticmethod
    def unused_layer(line, text):
        """Layers that nothing calls are errors: the value that would have called them was not made."""
        name = line.strip().split(" ")[0]
        return " = " in line and name.startswith(("p", "fc", "head")) and text.count(name + " = ") and not any(
            name in l and not l.strip().startswith(name + " = ") for l in text.split("\n"))


# ---- checking ----

class Failure(Exception):
    def __init__(self, kind, text):
        super().__init__(kind)
        self.kind, self.text = kind, text


class Checker:
    def __init__(self, args, work):
        self.bin, self.work, self.quick = args.bin, work, args.quick

    def path(self, name):
        return os.path.join(self.work, name)

    def run(self, kind, command, limit=120):
        try:
            p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            raise Failure(kind + ": too slow", " ".join(command)) from None
        if p.returncode != 0:
            what = "internal" if p.returncode == 70 else f"signal {-p.returncode}" if p.returncode < 0 else f"exit {p.returncode}"
            raise Failure(f"{kind}: {what}", " ".join(command) + "\n" + p.stdout.decode(errors="replace")[-4000:])
        return p.stdout

    def hftac(self, kind, *args):
        return self.run(kind, [os.path.join(self.bin, "hftac"), "-q", "-w", *args])

    def same(self, kind, a, b):
        with open(a, "rb") as f, open(b, "rb") as g:
            if f.read() != g.read():
                diff = subprocess.run(["diff", a, b], stdout=subprocess.PIPE, check=False).stdout.decode(errors="replace")
                raise Failure(kind, diff[:3000])

    def round_trips(self, source, precision):
        for stage in ("fused",) if self.quick else ("ir", "grad", "fused"):
            a, b = self.path("a.hir"), self.path("b.hir")
            self.hftac("emit " + stage, precision, "-B", "3", f"--emit={stage}", "-o", a, source)
            self.hftac("read " + stage, f"--emit={stage}", "-o", b, a)
            self.same(f"--emit={stage} read back", a, b)
        again = self.path("again.hdl")
        self.hftac("emit hdl", precision, "--emit=hdl", "-o", again, source)
        self.hftac("emit ir", precision, "--emit=ir", "-o", a, source)
        self.hftac("compile --emit=hdl", precision, "--emit=ir", "-o", b, again)
        self.same("--emit=hdl compiles to another graph", a, b)

    def reproducible(self, source, precision):
        self.hftac("compile", precision, "-B", "5", "-o", self.path("again.so"), source)
        self.same("not the same model.so again", self.path("again.so"), self.path("five.so"))

    def check(self, text, seed, kind=""):
        """kind: of a failure that is looked for again; then only what leads there is run."""
        source = self.path("case.hdl")
        with open(source, "w", encoding="ascii") as f:
            f.write(text)
        precision = "--precision=fp64" if "# precision: fp64" in text else "--precision=fp32"
        if not kind.startswith(("compile: ", "run", "numbers")):
            self.round_trips(source, precision)
        arrays = [("one.so", 1, "-O2", 1)] + [("five.so", 5, "-O2", 3), ("zero.so", 1 if self.quick else 2, "-O0", 1)]
        for name, models, level, _ in arrays:
            self.hftac("compile", precision, "-B", str(models), level, "-o", self.path(name), source)
        if seed % 8 == 0 or kind.startswith("not the same"):
            self.reproducible(source, precision)
        runs = [f"{self.path(name)}:{threads}" for name, _, _, threads in arrays]
        if not kind.startswith("numbers"):
            self.run("run", [os.path.join(self.bin, "fuzz_run_fused"), str(seed), "3", *runs, f"{self.path('five.so')}:1"])
        hir = self.path("case.hir")
        with open(hir, "wb") as f:
            f.write(self.hftac("dump", precision, "--emit=ir", "--dump-after=mask_batch", "-o", os.path.join(os.path.dirname(source) or ".", "unused.hir"), source))
        self.run("numbers", [os.path.join(self.bin, "fuzz_against_ref"), hir, self.path("five.so"), str(seed)])

    def failure(self, text, seed, kind=""):
        try:
            self.check(text, seed, kind)
        except Failure as f:
            return f
        return None


def without_terms(lines):
    """The program with one term of a sum in a line taken out, for each such term."""
    for i, line in enumerate(lines):
        head, equals, rest = line.partition("loss ") if line.startswith("  loss ") else line.partition(" = ")
        terms = rest.split(" + ")
        for k in range(len(terms) if len(terms) > 1 else 0):
            yield lines[:i] + [head + equals + " + ".join(terms[:k] + terms[k + 1:])] + lines[i + 1:]


def shrink(checker, text, seed, kind, limit):
    """Takes out lines and terms, many at once first, as long as the program fails in the same way."""
    end = time.time() + limit

    def fails(lines):
        f = checker.failure("\n".join(lines) + "\n", seed, kind)
        return f is not None and f.kind == kind

    lines = text.splitlines()
    changed = True
    while changed and time.time() < end:
        changed = False
        for shorter in list(without_terms(lines)):
            if len(shorter[-1]) and time.time() < end and fails(shorter):
                lines, changed = shorter, True
                break
        step = max(1, len(lines) // 4)
        while step:
            i = len(lines) - step
            while i > 0 and time.time() < end:
                shorter = lines[:i] + lines[i + step:]
                if fails(shorter):
                    lines, changed = shorter, True
                i -= step
            step //= 2
    return "\n".join(lines) + "\n"


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--bin", default=".")
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--count", type=int, default=1)
    a.add_argument("--keep", help="directory for programs that fail")
    a.add_argument("--shrink", type=float, default=0, metavar="SECONDS", help="time to shrink a failure")
    a.add_argument("--print", action="store_true")
    a.add_argument("--quick", action="store_true")
    a.add_argument("--verbose", action="store_true")
    a.add_argument("--file", help="check this program instead")
    args = a.parse_args()
    if args.print:
        print(Program(args.seed).text(), end="")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory(prefix="hftac-fuzz-") as work:
        checker = Checker(args, work)
        for seed in range(args.seed, args.seed + (1 if args.file else args.count)):
            if args.file:
                with open(args.file, encoding="ascii") as f:
                    text = f.read()
            else:
                text = Program(seed).text()
            failure = checker.failure(text, seed)
            if args.verbose:
                print(f"program {seed}: {failure.kind if failure else 'holds'}", flush=True)
            if failure is None:
                continue
            failed += 1
            print(f"FAILED: program {seed}: {failure.kind}\n{failure.text}", flush=True)
            if args.shrink:
                text = shrink(checker, text, seed, failure.kind, args.shrink)
                print(text, flush=True)
            if args.keep:
                os.makedirs(args.keep, exist_ok=True)
                with open(os.path.join(args.keep, f"{seed}.hdl"), "w", encoding="ascii") as f:
                    f.write(text)
                with open(os.path.join(args.keep, f"{seed}.txt"), "w", encoding="utf-8") as f:
                    f.write(failure.kind + "\n" + failure.text)
    print(f"{args.count} programs, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
