"""Random values of a program: elementwise operators, reductions, views, indices, contractions,
Linear."""
import random

SIZES = [1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 13, 16, 31, 33]
LARGE_SIZES = [64, 65, 100, 127, 128, 130, 257, 300]


def product(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def show(shape):
    return "[" + ", ".join(map(str, shape)) + "]"


class Value:
    """A tensor of the program: name, shape, class (f real, i integer, b bool), range of integers,
    rough bound of reals."""

    def __init__(self, name, shape, cls="f", bound=3.0, high=None):
        self.name, self.shape, self.cls, self.bound, self.high = name, tuple(
            shape), cls, bound, high

    @property
    def rank(self):
        return len(self.shape)


class Operators:
    """A program in the making; every method that makes a value adds a line to `body` and the value
    to `pool`."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.large = self.r.random() < 0.1
        self.n = self.r.choice([16, 31, 33, 40] if self.large else [1, 2, 3, 4, 5, 7, 8, 9])
        self.most, self.work = (40000, 1000000) if self.large else (6000, 120000)
        self.heads, self.inputs, self.layers, self.body = [], [], [], []
        self.pool, self.hypers, self.counter = [], [], 0
        self.precision = "fp64" if self.r.random() < 0.08 else "fp32"

    # ---- small helpers ----

    def chance(self, p):
        return self.r.random() < p

    def size(self):
        return self.r.choice(LARGE_SIZES if self.large and self.chance(0.6) else SIZES)

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
            squash = self.r.choice(["tanh({})", "{} / (1 + abs({}))",
                                    "sin({})"]).replace("{}", v.name)
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
            ('gelu({}, approximate = "tanh")', x.bound), ("exp(-abs({}))", 1), ("exp({} / 8)", 12),
            ("log(abs({}) + 0.7)", 3),
            ("sqrt(abs({}) + 0.3)", 5), ("sin({})", 1), ("cos({})", 1), ("erf({})", 1),
            ("abs({})", x.bound),
            ("-{}", x.bound), ("square({})", x.bound ** 2),
            ("clamp({}, min = -0.7, max = 1.1)", 1.1), ("clamp({}, max = 0.3)", x.bound),
            ("{} ** 2", x.bound ** 2), ("(abs({}) + 0.4) ** 1.3", x.bound ** 1.5 + 1),
            ("{} ** 3", x.bound ** 3),
            ("1 / (abs({}) + 0.6)", 2), ("rsqrt(abs({}) + 0.6)", 2), ("0.37 * {} + 0.11", x.bound),
            ("{} |> tanh", 1),
            ("{} |> clamp(min = -1.3)", x.bound), ("detach({})", x.bound),
            ("{} - floor({} * 0.37)", x.bound * 1.4 + 1),
            ("maximum({}, 0.21)", x.bound), ("min({}, 0.77)", x.bound), ("{} / 3 % 1.7", 1.7),
            ("ceil({} * 0.73) * {}", x.bound ** 2),
            ("sign({} + 0.017)", 1), ('cast(cast({}, "f64"), "f32")', x.bound),
            ("mean({}) + {}", 2 * x.bound),
        ]
        text, bound = self.r.choice(table)
        if "f64" in text and self.precision == "fp64":
            text = "tanh({})"
        self.add(text.replace("{}", x.name), x.shape, "f", bound)

    def meets(self, x):
        """A value that broadcasts with x, or one made to."""
        def fits(v):
            return all(a == b or a == 1 or b == 1 for a,
                       b in zip(reversed(v.shape), reversed(x.shape)))
        y = self.some(test=lambda v: v is not x and fits(v)
                      and product(self.joined(x.shape, v.shape)) <= self.most)
        if y is None or self.chance(0.2):
            return self.parameter([d if self.chance(0.6) else 1
                                   for d in x.shape[self.r.randint(0, x.rank):]])
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
            ("X + Y", a + b), ("X - Y", a + b), ("X * Y", a * b), ("X / (abs(Y) + 0.5)", 2 * a),
            ("maximum(X, Y)", max(a, b)),
            ("minimum(X, Y)", max(a, b)), ("max(X, Y)", max(a, b)),
            ("where(X > Y, X, Y * 0.3)", max(a, b)), ("X * Y + X", a * b + a),
            ("where(X < 0.123, X - Y, Y)", a + b), ("(abs(X) + 0.5) ** tanh(Y)", a + 2),
            ("X * sigmoid(Y)", a),
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
        text = self.r.choice([f"where({x.name}, {z}, 0.25)", f"{x.name} * {z}", f"0.5 + {x.name}",
                              f"cast({x.name}, \"real\") - 0.5"])
        self.add(text, x.shape, "f", (y.bound if y else 1.3) + 1)

    def use_int(self):
        x = self.some("i")
        if x is None:
            return
        text, cls, bound, high = self.r.choice([
            ("X / 7", "f", (x.high or 9) / 7, None), ("X * 0.13", "f", (x.high or 9) * 0.13, None),
            ("X % 3", "i", 0, 3), ("X // 2", "i", 0, (x.high or 9) // 2 + 1),
            ("X + 1", "i", 0, (x.high or 9) + 1), ("X > 1", "b", 0, None),
            ('cast(X, "i64")', "i", 0, x.high), ("max(X, 2)", "i", 0, max(3, x.high or 9)),
            ("X * X", "i", 0, (x.high or 9) ** 2), ("X - 3", "i", 0, None),
            ("X * -2", "i", 0, None), ("X // -2", "i", 0, None), ("X % -3", "i", 0, None),
            ("-X", "i", 0, None), ("abs(X - 2)", "i", 0, None), ("sign(X - 1)", "i", 0, None),
            ("minimum(X, 1)", "i", 0, None), ("where(X > 1, X, -1)", "i", 0, None),
            ("X ** 2", "i", 0, None), ('cast(X * 1.7 - 2.31, "i32")', "i", 0, None),
            ('cast(abs(X) % 100 * 0.43, "u8")', "i", 0, None), ("X // (X - 2)", "i", 0, None),
            ("X % (X - 1)", "i", 0, None), ('cast(abs(X) % 200, "u8")', "i", 0, None),
            ("X != 1 and X > 0", "b", 0, None), ("one_hot(X % 5, 5)", "h", 0, 2),
        ])
        if (high or 0) > 200:
            return
        shape, cls = (x.shape + (5,), "i") if cls == "h" else (x.shape, cls)
        if len(shape) <= 6 and product(shape) <= self.most:
            self.add(text.replace("X", x.name), shape, cls, bound, high)

    def reduce_whole(self):
        """Reductions of integers and booleans."""
        x = self.some("ib", rank=1)
        if x is None:
            return
        a, d = self.axis(x)
        text, cls, high = self.r.choice([("sum({}, dim = D)", "i", None),
                                         ("mean({}, dim = D)", "f", None),
                                         ("max({}, dim = D)", x.cls, x.high),
                                         ("min({}, dim = D)", x.cls, x.high),
                                         ("argmax({}, dim = D)", "i",
                                          x.shape[a])][:5 if x.cls == "i" else 2])
        self.add(text.replace("{}", x.name).replace("D", str(d)), x.shape[:a] + x.shape[a + 1:],
                 cls, 10, high)

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
            ("sum({})", b * n), ("mean({})", b), ("mean({})", b), ("max({})", b), ("min({})", b),
            ("amax({})", b), ("amin({})", b),
            ("norm({})", b * n ** 0.5), ("norm({}, p = 1)", b * n),
            ("var({}, unbiased = false)", b * b), ("sqrt(var({}, unbiased = false) + 0.1)", b),
        ])
        head, rest = text.split("{}")
        text = f"{head}{x.name}, dim = {where}{', keepdim = true' if keep else ''}{rest}".replace(
            "var(" + x.name + ",", "var(" + x.name + ",")
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
            if product(lead + shape) > self.most:
                return
            text = f"expand({x.name}, {show(lead + [m if self.chance(0.7) or True else -1 for m in shape])})"
            shape = lead + shape
        elif kind == 8 and x.cls == "f":
            lo, hi = self.r.randint(0, 3), self.r.randint(0, 3)
            shape = list(s)
            shape[a] += lo + hi
            text = f"pad_dim({x.name}, {d}, {lo}, {hi})"
        elif kind == 9 and x.cls == "f":
            y = self.some(test=lambda v: v.rank == x.rank
                          and all(i == a or p == q for i,
                                  (p, q) in enumerate(zip(v.shape, s)))) or x
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
        if product(shape) <= self.most:
            self.add(text, shape, x.cls, x.bound, x.high)

    def gather(self):
        x = self.some(rank=1)
        a, d = self.axis(x)
        index = self.some("i",
                          test=lambda v: v.rank == x.rank
                          and all(i == a or p <= q for i,
                                  (p, q) in enumerate(zip(v.shape, x.shape))))
        if index is None:
            source = self.some("i")
            shape = [m if i != a else self.size() for i, m in enumerate(x.shape)]
            if source is None or product(shape) > self.most:
                return
            index = self.add(f"arange({product(shape)}) * 7 // 3 + max({source.name}, dim = none)",
                             [product(shape)], "i", 0, 99999)
            index = self.add(f"reshape({index.name}, {show(shape)}) % {x.shape[a]}", shape, "i", 0,
                             x.shape[a])
        elif (index.high or 99999) > x.shape[a]:
            index = self.add(f"{index.name} % {x.shape[a]}", index.shape, "i", 0, x.shape[a])
        self.add(f"gather({x.name}, {d}, {index.name})", index.shape, "f", x.bound)

    # ---- parameters, contractions, layers ----

    def parameter(self, shape):
        name = self.fresh("p")
        init = self.r.choice(["normal(0, 0.5)", "uniform(-1, 1)", "ones", "0.3",
                              "normal(std = 0.7)", "zeros", "xavier_uniform()", "kaiming_normal()"])
        if len(shape) < 2 and "(" in init and "i" in init[:7] and init[0] in "xk":
            init = "normal()"
        self.layers.append(f"{name} = Param({show(shape)}, init = {init})")
        v = Value(name, shape, "f", 1.5)
        self.pool.append(v)
        return v

    def matmul(self):
        x = self.some(rank=1)
        k = x.shape[-1]
        y = self.some(rank=1,
                      test=lambda v: v is not x
                      and (v.shape[0] if v.rank == 1 else v.shape[-2]) == k and v.rank <= 4)
        if y is None or self.chance(0.3):
            batch = [d if self.chance(0.5) else 1
                     for d in x.shape[:-2]] if x.rank > 2 and self.chance(0.5) else []
            y = self.parameter(batch + [k, self.size()])
        lead_x, lead_y = x.shape[:-2], y.shape[:-2]
        if not all(p == q or 1 in (p, q) for p, q in zip(reversed(lead_x), reversed(lead_y))):
            return
        rows = [x.shape[-2]] if x.rank > 1 else []
        cols = [y.shape[-1]] if y.rank > 1 else []
        shape = list(self.joined(lead_x, lead_y)) + rows + cols
        if product(shape) * k > self.work or product(shape) > self.most or len(shape) > 5:
            return
        scale = self.r.choice(["", f" / {k}"])
        text = f"({x.name} @ {y.name}){scale}" if self.chance(
            0.7) else f"matmul({x.name}, {y.name}){scale}"
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
        if not out or total > self.work or product(shape) > self.most or len(shape) > 5:
            return
        shape_y = [extent[c] for c in y_letters]
        y = self.some(test=lambda v: v.shape == tuple(shape_y)) or self.parameter(shape_y)
        k = max(1, total // max(1, product(shape)))
        a, b = ((letters, x.name), ("".join(y_letters), y.name))
        if self.chance(0.5):
            a, b = b, a
        self.add(f'einsum("{a[0]},{b[0]}->{"".join(out)}", {a[1]}, {b[1]}) / {k}', shape, "f",
                 x.bound * y.bound)

    def linear(self):
        x = self.some(rank=1)
        k = self.size()
        if product(x.shape[:-1]) * k > self.most or product(x.shape) * k > self.work:
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
        self.add(self.r.choice([f"{name}({x.name})", f"{x.name} |> {name}",
                                f"relu({name}({x.name}))"]), x.shape[:-1] + (k,), "f",
                                min(x.bound * 1.5 + 1, 19))

    def layer(self):
        x = self.some(rank=1)
        kind = self.r.randrange(6)
        if kind == 0:
            n = self.r.randint(1, min(2, x.rank))
            options = self.r.choice(["", f"{show(x.shape[-n:])}", "eps = 0.01",
                                     "elementwise_affine = false",
                                     f"{show(x.shape[-n:])}, bias = false"])
            return self.add_layer(f"LayerNorm({options})", "ln", x, x.shape, 4)
        if kind == 1:
            p = self.number_or_hyper("drop", self.r.choice([0, 0.2, 0.5]), "(0 .. 1)")
            return self.add_layer(f"Dropout({p})", "do", x, x.shape, x.bound * 2)
        if kind == 2:
            k, m = self.size(), self.size()
            if product(x.shape[:-1]) * max(k, m) > self.most:
                return None
            act = self.r.choice(["ReLU()", "GELU()", "Tanh()", "Sigmoid()", 'GELU("tanh")'])
            return self.add_layer(f"Sequential(Linear({k}), {act}, Linear({m}))", "seq", x,
                                  x.shape[:-1] + (m,), 5)
        if kind == 3 and self.blocks:
            name, extra = self.r.choice(self.blocks)
            if product(x.shape) * 16 > self.work:
                return None
            return self.add_layer(f"{name}({extra()})", "blk", x, x.shape, min(x.bound * 2 + 3, 19))
        if kind == 4:
            n, w = self.r.randint(1, 3), self.size()
            if product(x.shape[:-1]) * w > self.most:
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
            self.add(f"{x.name} + 0.1 * {self.r.choice(['rand', 'randn'])}({show(x.shape)})",
                     x.shape, "f", x.bound + 1)
        elif kind == 3 and x.rank:
            self.add(f"{x.name} * arange({x.shape[-1]}) / {x.shape[-1]}", x.shape, "f", x.bound)
        elif kind == 4 and x.rank:
            k = x.shape[-1]
            if product(x.shape) * k < self.work:
                self.add(f"{x.name} @ (eye({k}) + 0.1)", x.shape, "f", x.bound * (1 + 0.1 * k))
        elif kind == 5:
            h = self.hyper("cut", 0.3, "(-1 .. 1)")
            self.add(f"where({x.name} > {h}, {x.name}, {h})", x.shape, "f", x.bound + 1)
        else:
            self.add(f"{x.name} + zeros({show(x.shape)}) + full({show(x.shape[-1:])}, 0.5)",
                     x.shape, "f", x.bound + 1)
