"""Random programs that put samples together, for partial.py.  Program number S is the same for
ever.

A value is a text and its sizes; a size is k * N + c with numbers k and c, so that what is written
fits for every N. N is often as large as another axis, which must not be taken for samples."""
import random


class Size:
    def __init__(self, k, c=0):
        self.k, self.c = k, c

    def __eq__(self, other):
        return (self.k, self.c) == (other.k, other.c)

    def __str__(self):
        if self.k == 0:
            return str(self.c)
        n = "N" if self.k == 1 else f"{self.k} * N"
        return n if self.c == 0 else f"{n} + {self.c}"

    def at(self, n):
        return self.k * n + self.c

    def times(self, other):
        return Size(self.k * other.c + self.c * other.k,
                    self.c * other.c) if 0 in (self.k, other.k) else None


N, FOUR = Size(1), Size(0, 4)


class Value:
    def __init__(self, text, sizes):
        self.text, self.sizes = text, sizes


class Program:
    def __init__(self, seed):
        r = self.r = random.Random(seed)
        self.batch = r.choice([2, 3, 4, 4, 4, 5, 6])
        self.valid = r.randrange(1, self.batch)
        self.lines, self.count, self.integers = [], 0, False
        self.pool = [Value("h", [N, FOUR]), Value("g", [N, FOUR]),
                     Value("s", [N, Size(0, 3), FOUR])]
        for _ in range(r.randrange(1, 7)):
            self.step()
        ends = [self.scalar() for _ in range(r.randrange(1, 3))]
        self.lines.append("loss " + ends[0])
        for i, e in enumerate(ends[1:]):
            self.lines.append(f"metric m{i} = {e}")
        if r.random() < 0.5:
            self.lines.append("output o = " + self.any().text)

    # ---- parts ----

    def name(self, text, sizes):
        self.count += 1
        v = Value(f"v{self.count}", sizes)
        self.lines.append(f"{v.text} = {text}")
        self.pool.append(v)
        return v

    def any(self, rank=None):
        fit = [v for v in self.pool if rank is None or len(v.sizes) == rank]
        # What was made last is likely, so that compositions come about.
        return fit[-1] if fit and self.r.random() < 0.5 else self.r.choice(fit or self.pool)

    def axis(self, v):
        return self.r.randrange(len(v.sizes))

    def like(self, v):
        fit = [o for o in self.pool if o.sizes == v.sizes]
        return self.r.choice(fit)

    @staticmethod
    def shape(sizes):
        return "[" + ", ".join(map(str, sizes)) + "]"

    def some_size(self):
        return self.r.choice([N, N, Size(2), Size(0, 2), Size(0, self.batch), Size(0, 3),
                              Size(1, 1)])

    # ---- steps ----

    def step(self):
        kinds = ["unary", "binary", "product", "cat", "stack", "tile", "interleave", "permute",
                 "flatten", "split", "reshape",
                 "slice", "chunk", "flip", "roll", "reduce_keep", "softmax", "cumsum", "numbers",
                 "full", "eye", "index", "gather",
                 "window", "unsqueeze", "norm", "where", "pad", "table", "size_value", "argmax",
                 "scatter", "one_hot", "einsum", "rearrange",
                 "random", "repeat", "attention", "prod", "expand", "literal"]
        while not getattr(self, self.r.choice(kinds))():
            pass

    def unary(self):
        v = self.any()
        return self.name(self.r.choice(["tanh({})", "sigmoid({})", "{} * {}", "relu({} - 0.1)",
                                        "softplus({})"]).replace("{}", v.text), v.sizes)

    def binary(self):
        v = self.any()
        return self.name(f"{v.text} {self.r.choice('+-*')} {self.like(v).text}", v.sizes)

    def product(self):
        a, b = self.any(2), self.any(2)
        if a.sizes[1:] == b.sizes[1:] and len(a.sizes) == len(b.sizes) == 2:
            return self.name(f"{a.text} @ transpose({b.text}, 0, 1)", [a.sizes[0], b.sizes[0]])
        return None

    def cat(self):
        a = self.any()
        axis = self.axis(a)
        fit = [v for v in self.pool if len(v.sizes) == len(a.sizes)
               and all(x == y for i, (x, y) in enumerate(zip(v.sizes, a.sizes)) if i != axis)]
        parts = [a] + [self.r.choice(fit) for _ in range(self.r.randrange(1, 3))]
        sizes = list(a.sizes)
        sizes[axis] = Size(sum(p.sizes[axis].k for p in parts), sum(p.sizes[axis].c for p in parts))
        return self.name(f"cat([{', '.join(p.text for p in parts)}], {axis})", sizes)

    def stack(self):
        a = self.any()
        if len(a.sizes) > 3:
            return None
        axis = self.r.randrange(len(a.sizes) + 1)
        return self.name(f"stack([{a.text}, {self.like(a).text}], {axis})",
                         a.sizes[:axis] + [Size(0, 2)] + a.sizes[axis:])

    def tile(self):
        a = self.any()
        times = [self.r.choice([1, 1, 2]) for _ in a.sizes]
        return self.name(f"tile({a.text}, {times})",
                         [Size(s.k * t, s.c * t) for s, t in zip(a.sizes, times)])

    def interleave(self):
        a = self.any()
        axis = self.axis(a)
        sizes = list(a.sizes)
        sizes[axis] = Size(sizes[axis].k * 2, sizes[axis].c * 2)
        return self.name(f"repeat_interleave({a.text}, 2, {axis})", sizes)

    def permute(self):
        a = self.any()
        order = list(range(len(a.sizes)))
        self.r.shuffle(order)
        return self.name(f"permute({a.text}, {order})", [a.sizes[i] for i in order])

    def flatten(self):
        a = self.any()
        if len(a.sizes) < 2:
            return None
        axis = self.r.randrange(len(a.sizes) - 1)
        size = a.sizes[axis].times(a.sizes[axis + 1])
        return size and self.name(f"flatten({a.text}, {axis}, {axis + 1})",
                                  a.sizes[:axis] + [size] + a.sizes[axis + 2:])

    def split(self):
        """One axis as two."""
        a = self.any()
        axis = self.axis(a)
        s = a.sizes[axis]
        ways = [(Size(0, s.k), N), (N, Size(0, s.k))] if s.k > 1 and s.c == 0 else []
        ways += [(Size(0, 2), Size(s.k // 2, s.c // 2)),
                 (Size(s.k // 2, s.c // 2), Size(0, 2))] if s.k % 2 == 0 and s.c % 2 == 0 else []
        ways += [(Size(0, s.c), N), (N, Size(0, s.c))] if s.k == 0 and False else []
        if not ways or len(a.sizes) > 3:
            return None
        x, y = self.r.choice(ways)
        texts = [str(x), str(y)]
        if self.r.random() < 0.5:
            texts[self.r.randrange(2)] = "-1"
        return self.name(f"unflatten({a.text}, {axis}, [{', '.join(texts)}])",
                         a.sizes[:axis] + [x, y] + a.sizes[axis + 1:])

    def reshape(self):
        """To any order of the same sizes: mixes samples unless it is the same order."""
        a = self.any()
        sizes = list(a.sizes)
        self.r.shuffle(sizes)
        texts = [str(s) for s in sizes]
        if self.r.random() < 0.4:
            texts[self.r.randrange(len(texts))] = "_"
        return self.name(f"reshape({a.text}, [{', '.join(texts)}])", sizes)

    def slice(self):
        a = self.any()
        axis = self.axis(a)
        s = a.sizes[axis]
        bounds = [("", ""),
                  ("1", "")] + ([("N", ""), ("", "N"), ("-N", "")] if s.k > 1
                                else []) + ([("", "-1")] if s.c != 1 else [])
        lo, hi = self.r.choice(bounds)
        first, last = {"": Size(0), "1": Size(0, 1), "N": N,
                       "-N": Size(s.k - 1, s.c)}[lo], {"": s, "N": N, "-1": Size(s.k, s.c - 1)}[hi]
        size = Size(last.k - first.k, last.c - first.c)
        if size.at(1) < 1:
            return None
        return self.name(f"{a.text}[{', '.join([':'] * axis + [f'{lo}:{hi}'])}]",
                         a.sizes[:axis] + [size] + a.sizes[axis + 1:])

    def chunk(self):
        a = self.any()
        axis = self.axis(a)
        s = a.sizes[axis]
        if s.k % 2 or s.c % 2:
            return None
        half = a.sizes[:axis] + [Size(s.k // 2, s.c // 2)] + a.sizes[axis + 1:]
        return self.name(f"chunk({a.text}, 2, {axis})[{self.r.randrange(2)}]", half)

    def flip(self):
        a = self.any()
        return self.name(f"flip({a.text}, {self.axis(a)})", a.sizes)

    def roll(self):
        a = self.any()
        return self.name(f"roll({a.text}, {self.r.choice(['1', 'N', '2'])}, {self.axis(a)})",
                         a.sizes)

    def reduce_keep(self):
        a = self.any()
        if len(a.sizes) < 2:
            return None
        axis = self.axis(a)
        f = self.r.choice(["mean", "sum", "amax", "amin", "logsumexp", "std"])
        return self.name(f"{f}({a.text}, {axis})", a.sizes[:axis] + a.sizes[axis + 1:])

    def softmax(self):
        a = self.any()
        return self.name(f"{self.r.choice(['softmax', 'log_softmax'])}({a.text}, {self.axis(a)})",
                         a.sizes)

    def cumsum(self):
        a = self.any()
        return self.name(f"cumsum({a.text}, {self.axis(a)})", a.sizes)

    def numbers(self):
        """Numbers along an axis of a value, as such or compared."""
        a = self.any()
        axis = self.axis(a)
        s = a.sizes[axis]
        n = self.r.choice([f"arange({s})", f"arange(shape({a.text})[{axis}])", f"(arange({s}) + 1)",
                           f"(arange({s}) + N)"])
        n = self.r.choice([n, n, f"({n} % N)", f"({n} // N)", f"({n} % ({s}))", f"({n} < N)"])
        for _ in range(len(a.sizes) - axis - 1):
            n = f"unsqueeze({n}, -1)"
        return self.name(f"{a.text} * {n}", a.sizes)

    def full(self):
        a = self.any()
        return self.name(self.r.choice(["zeros({})", "ones({})",
                                        "full({}, 0.5)"]).replace("{}", self.shape(a.sizes))
                                        + f" + {a.text}", a.sizes)

    def eye(self):
        fit = [v for v in self.pool if len(v.sizes) == 2 and v.sizes[0] == v.sizes[1]]
        if not fit:
            return None
        a = self.r.choice(fit)
        n = a.sizes[0]
        mask = self.r.choice([f"eye({n}) > 0", f"arange({n}) == unsqueeze(arange({n}), 1)",
                              f"arange({n}) < unsqueeze(arange({n}), 1)",
                              f"arange({n}) % N == unsqueeze(arange({n}) % N, 1)",
                              f"(arange({n}) + N) % ({n}) == unsqueeze(arange({n}), 1)",
                              f"arange({n}) == unsqueeze(arange({n}), 1) + 1"])
        return self.name(f"where({mask}, 0.25, {a.text})", a.sizes)

    def index(self):
        a = self.any()
        axis = self.axis(a)
        s = a.sizes[axis]
        if len(a.sizes) < 2:
            return None
        at = self.r.choice(["0", "-1", "1" if s.at(1) > 1 else "0"])
        return self.name(f"{a.text}[{', '.join([':'] * axis + [at])}]",
                         a.sizes[:axis] + a.sizes[axis + 1:])

    def gather(self):
        a = self.any()
        axis = self.axis(a)
        s = a.sizes[axis]
        index = self.r.choice([f"arange({s})", f"arange({s})", f"({s} - 1 - arange({s}))", "label"])
        size = N if index == "label" else s
        return self.name(f"index_select({a.text}, {axis}, {index})",
                         a.sizes[:axis] + [size] + a.sizes[axis + 1:])

    def window(self):
        a = self.any()
        axis = self.axis(a)
        s = a.sizes[axis]
        if s.at(1) < 2 or len(a.sizes) > 3:
            return None
        return self.name(f"sum(window({a.text}, {axis}, 2), 0)",
                         a.sizes[:axis] + [Size(s.k, s.c - 1)] + a.sizes[axis + 1:])

    def unsqueeze(self):
        a, b = self.any(2), self.any(2)
        if len(a.sizes) != 2 or len(b.sizes) != 2 or a.sizes[1] != b.sizes[1]:
            return None
        return self.name(f"unsqueeze({a.text}, 1) - unsqueeze({b.text}, 0)",
                         [a.sizes[0], b.sizes[0], a.sizes[1]])

    def norm(self):
        a = self.any()
        if len(a.sizes) != 2 or a.sizes[1].k:
            return None
        return self.name(f"BatchNorm1d(track_running_stats = false)({a.text})", a.sizes)

    def where(self):
        a = self.any()
        b = self.like(a)
        return self.name(f"where({a.text} > {b.text}, {a.text}, 0.5 * {b.text})", a.sizes)

    def pad(self):
        a = self.any()
        axis = self.axis(a)
        before, after = self.r.randrange(2), self.r.randrange(2)
        sizes = list(a.sizes)
        sizes[axis] = Size(sizes[axis].k, sizes[axis].c + before + after)
        return self.name(f"pad_dim({a.text}, {axis}, {before}, {after})", sizes)

    def table(self):
        """The first rows of a parameter beside the samples."""
        a = self.any()
        if len(a.sizes) != 2 or a.sizes[1] != FOUR:
            return None
        first = self.r.choice([":{}", "1:{} + 1"]).replace("{}", str(a.sizes[0]))
        return self.name(f"{a.text} + table[{first}]", a.sizes)

    def size_value(self):
        a = self.any()
        axis = self.axis(a)
        n = self.r.choice(["N", f"shape({a.text})[{axis}]", f"count({a.text}, {axis})",
                           f"(2 if shape({a.text})[{axis}] > 1 else 3)", f"len({a.text})"])
        return self.name(f"{a.text} / {n}", a.sizes)

    def argmax(self):
        a = self.any()
        if len(a.sizes) < 2:
            return None
        axis = self.axis(a)
        return self.name(f"argmax({a.text}, {axis}) * 0.5", a.sizes[:axis] + a.sizes[axis + 1:])

    def scatter(self):
        a = self.any()
        if len(a.sizes) != 2 or a.sizes[1] != FOUR or a.sizes[0] != N:
            return None
        rows, index = self.r.choice([(Size(0, 3), "label"), (N, "arange(N)"),
                                     (Size(2), "arange(N)"), (N, "label % 1")])
        index = f"expand(unsqueeze({index}, 1), [N, 4])"
        return self.name(f"scatter_add(zeros([{rows}, 4]) + 0 * mean(h), 0, {index}, {a.text})",
                         [rows, FOUR])

    def one_hot(self):
        return self.name("one_hot(label, 3) * 1.0 + 0 * mean(h)", [N, Size(0, 3)])

    def einsum(self):
        a, b = self.any(2), self.any(2)
        if len(a.sizes) != 2 or len(b.sizes) != 2 or a.sizes[0] != b.sizes[0]:
            return None
        kind = self.r.randrange(2)
        if kind == 0:
            return self.name(f"einsum(\"na,nb->ab\", {a.text}, {b.text})", [a.sizes[1], b.sizes[1]])
        return self.name(f"einsum(\"na,nb->nab\", {a.text}, {b.text})",
                         [a.sizes[0], a.sizes[1], b.sizes[1]])

    def rearrange(self):
        a = self.any(2)
        if len(a.sizes) != 2 or a.sizes[1] != FOUR:
            return None
        n = a.sizes[0]
        return self.r.choice([
            lambda: self.name(f"rearrange({a.text}, \"n (a b) -> (n a) b\", a = 2)",
                              [Size(2 * n.k, 2 * n.c), Size(0, 2)]),
            lambda: self.name(f"rearrange({a.text}, \"n (a b) -> (a n) b\", a = 2)",
                              [Size(2 * n.k, 2 * n.c), Size(0, 2)]),
            lambda: self.name(f"rearrange({a.text}, \"(a n) d -> n (a d)\", n = N)",
                              [N, Size(0, 4 * n.k)]) if n.c == 0 and n.k else None,
            lambda: self.name(f"rearrange({a.text}, \"(n a) d -> (a n) d\", a = {n.k})", a.sizes)
            if n.c == 0 and n.k else None,
        ])()

    def random(self):
        a = self.any()
        return self.name(f"{a.text} + {self.r.choice(['rand', 'randn'])}({self.shape(a.sizes)})",
                         a.sizes)

    def repeat(self):
        """A loop of 12 rounds, carried along."""
        a = self.any()
        if self.r.random() < 0.3 and a.sizes[0].k == 0:
            return None
        self.count += 1
        v = f"v{self.count}"
        self.lines.append(f"{v} = {a.text}")
        change = self.r.choice([f"tanh({v} + {a.text})", f"{v} * 0.5 + mean({v})",
                                f"{v} - amax({v}, 0, true)", f"softmax({v}, 0) * i",
                                f"{v} + N * 0.1"])
        self.lines.append(f"repeat i in 0 .. 12 {{\n    {v} = {change}\n  }}")
        self.pool.append(Value(v, a.sizes))
        return True

    def attention(self):
        a = self.any(3)
        if len(a.sizes) != 3 or a.sizes[2] != FOUR:
            return None
        return self.name(f"scaled_dot_product_attention({a.text}, {a.text}, {a.text}, is_causal = "
                         f"{self.r.choice(['true', 'false'])})", a.sizes)

    def prod(self):
        a = self.any()
        if len(a.sizes) < 2:
            return None
        axis = self.axis(a)
        return self.name(f"prod(sigmoid({a.text}), {axis})", a.sizes[:axis] + a.sizes[axis + 1:])

    def expand(self):
        a = self.any()
        if len(a.sizes) > 3:
            return None
        axis, size = self.r.randrange(len(a.sizes) + 1), self.some_size()
        sizes = a.sizes[:axis] + [size] + a.sizes[axis:]
        return self.name(f"expand(unsqueeze({a.text}, {axis}), {self.shape(sizes)})", sizes)

    def literal(self):
        """The number that N is, in its place: there is no program for another N, but one for N."""
        a = self.any()
        sizes = [Size(0, s.at(self.batch)) for s in a.sizes]
        return self.r.random() < 0.2 and self.name(f"reshape({a.text}, {self.shape(sizes)})",
                                                   a.sizes)

    # ---- ends ----

    def scalar(self):
        a = self.any()
        ways = [f"mean({a.text})", f"mean(square({a.text}))", f"sum({a.text}) / count({a.text})",
                f"var({a.text})", f"max({a.text})",
                f"mean(logsumexp({a.text}, {self.axis(a)}))", f"sum({a.text}) * 0.1",
                f"mse_loss({a.text}, {self.like(a).text})",
                f"mean(softmax({a.text}, {self.axis(a)})[{', '.join([':'] * (len(a.sizes) - 1) + ['0'])}])"]
        if len(a.sizes) == 2 and a.sizes[1].k:
            label = self.r.choice([f"arange({a.sizes[0]})",
                                   f"cat([arange(N), arange(N)])[:{a.sizes[0]}]",
                                   f"(arange({a.sizes[0]}) + N) % ({a.sizes[1]})",
                                   f"arange({a.sizes[0]}) % ({a.sizes[1]})", "label"])
            ways += 3 * [f"cross_entropy({a.text}, {label})", f"accuracy({a.text}, {label})"]
        elif len(a.sizes) == 2 and a.sizes[0] == N and a.sizes[1].c >= 3:
            ways += 2 * [f"cross_entropy({a.text}, label)",
                         f"top_k_accuracy({a.text}, label, k = 2)"]
        elif len(a.sizes) == 3 and a.sizes[0] == N and a.sizes[2] == FOUR and a.sizes[1] == Size(
            0, 3):
            ways += [f"cross_entropy({a.text}, labels, dim = 2)",
                     f"cross_entropy(flatten({a.text}, 0, 1), flatten(labels, 0), ignore_index = 1)"]
        return self.r.choice(ways)

    def text(self):
        body = "".join(f"  {line}\n" for line in self.lines)
        return f"""hdl 1
model M {{
  input x : f32[N, 4]
  input z : f32[N, 4]
  input w : f32[N, 3, 4]
  target label : i64[N]
  target labels : i64[N, 3]
  fc = Linear(4)
  table = Param([16, 4], init = normal())
  h = fc(x)
  g = fc(z)
  s = fc(w)
{body}}}
train M {{ batch N = {self.batch}; optimizer SGD(lr = 0.01) }}
"""
