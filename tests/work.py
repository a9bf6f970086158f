"""Nothing is computed again per element: the work that hftac plans grows as the shapes do.

    work.py --bin BUILD/bin --samples DIR [--count N] [--seed S] [--verbose]

Counted, not timed: `hftac --work-report` says of each entry how many rounds its loops have, how
many scalar operations it does, how many those would be if each value was computed once per element,
and how many evaluations it has code for. Programs are written for three sizes, each twice the one
before, their elements linear in it (or, where it is said, in its square).  Of each entry (train,
eval, predict, ...) rounds and work must grow as the elements do, give or take half, no reduction
may be computed twice, and work stays within FACTOR of the least.

  named    what was once quadratic or worse (GroupNorm, InstanceNorm + Linear, flatten(softmax),
           ...), and rounds of `h + roll(h)`, of doubling scans and of stencils, whose code and work
           grow with the rounds, and `cat` of many parts
  random   reductions, views between them in chains, and their uses (random.Random(seed)): reshape,
           flatten, unflatten, permute, slice, pad, expand, roll, gather
  samples  each entry's work within FACTOR of the least"""
import argparse
import os
import random
import re
import subprocess
import sys

FACTOR = 4  # as WORK_TIMES in passes/fuse/work.h
SLACK = 1.5
LINE = re.compile(r"@(\w+): (\d+) kernels, (\d+) evaluations, rounds (\d+), stored \d+ bytes, "
                  r"work (\d+), least (\d+), "
                  r"times reductions ([\d.]+)")


class Entry:
    def __init__(self, match):
        self.name, (self.kernels, self.code, self.rounds, self.work,
                    self.least) = match[1], map(int, match.groups()[1:6])
        self.reductions = float(match[7])


def report(hftac, source, *flags):
    """The entries of a program, by name; source: a text or a path."""
    is_path = source.endswith(".hdl")
    p = subprocess.run([hftac, "-q", "-w", *flags, "--emit=plan", "--work-report", "-o",
                        "/dev/null", source if is_path else "-"],
                       input=None if is_path else source, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    if p.returncode != 0:
        raise ValueError(f"hftac: exit {p.returncode}\n{p.stderr[:3000]}")
    return {m[1]: Entry(m) for m in LINE.finditer(p.stderr)}


def program(body, constants="", batch=4):
    return f"hdl 1\n{constants}\nmodel M {{\n{body}\n}}\ntrain M {{ batch N = {batch}; optimizer SGD(lr = 0.001) }}\n"


# ---- named: text of size (or number of rounds), sizes, growth of the elements from one size to the
# next, what must grow so ----

def group_norm(size):
    return program(f"""  input x : f32[N, 3, {size}, {size}]
  target y : i64[N]
  c1 = Conv2d(32, 3, padding = 1);  n1 = GroupNorm(8);  c2 = Conv2d(32, 3, padding = 1);  fc = Linear(10)
  logits = fc(mean(c2(relu(n1(c1(x)))), dim = [2, 3]))
  loss cross_entropy(logits, y)
  output probs = softmax(logits)""")


def instance_norm(size):
    return program(f"""  input x : f32[N, 8, {size}]
  norm = InstanceNorm1d(affine = true);  fc = Linear(8)
  h = fc(transpose(norm(x), 1, 2))
  loss mean(square(h))
  output o = h""")


def instance_norm_flat(size):
    return program(f"""  input x : f32[N, 8, {size}]
  norm = InstanceNorm1d();  fc = Linear(4)
  h = fc(flatten(norm(x), 1))
  loss mean(square(h))
  output o = h""")


def flat_softmax(size):
    return program(f"""  input x : f32[N, {size}]
  w = Param([{size}], init = ones)
  y = softmax(x * w, dim = 1)
  loss mean(square(y))
  output o = flatten(y, 0)""")


def log_softmax_permuted(size):
    return program(f"""  input x : f32[N, {size}]
  w = Param([{size}], init = ones)
  y = log_softmax(x * w, dim = 1)
  y = reshape(permute(unflatten(y, 1, [-1, 2]), [2, 0, 1]), [N, -1])
  loss mean(square(y))""")


def rolled(rounds):
    return program(f"""  input x : f32[N, 256]
  fc = Linear(256)
  h = fc(x)
  repeat i in 0 .. {rounds} {{ h = h + roll(h, 1, 1) * 0.5 }}
  loss mean(square(h))
  output o = h""")


def doubling(rounds):
    return program(f"""  input x : f32[N, 8, 256]
  w = Param([256], init = ones)
  h = x * w
  repeat i in 0 .. {rounds} {{ k = 2 ** (i % 8); h = h + pad(h[:, :, :-k], [k, 0]) * 0.5 }}
  loss mean(square(h))
  output o = h""")


def stencil(rounds):
    return program(f"""  input x : f32[N, 4, 256]
  w = Param([256], init = ones)
  h = x * w
  repeat i in 0 .. {rounds} {{ p = pad(h, [1, 1], mode = "reflect"); h = (p[:, :, :-2] + p[:, :, 1:-1] + p[:, :, 2:]) / 3 }}
  loss mean(square(h))
  output o = h""")


def blocks(rounds):
    return program(f"""  input x : f32[N, 64]
  w = Param([64], init = ones)
  h = x * w
  repeat i in 0 .. {rounds} {{ h = tanh(h) * roll(h, 3, 1) + flip(h, [1]) }}
  loss mean(square(h))
  output o = flatten(h, 0)""")


def parts(number):
    return program(f"""  input x : f32[N, 64]
  w = Param([64], init = ones)
  parts = []
  repeat i in 1 .. {number + 1} {{ parts = parts + [tanh(x * i) * w] }}
  h = cat(parts, 1)
  loss mean(square(h))
  output o = h""")


NAMED = [(group_norm, (8, 16, 32), 4), (instance_norm, (16, 32, 64), 2),
         (instance_norm_flat, (16, 32, 64), 2), (flat_softmax, (64, 128, 256), 2),
         (log_softmax_permuted, (64, 128, 256), 2)]
IN_ROUNDS = [(rolled, (16, 32, 64)), (doubling, (8, 16, 32)), (stencil, (8, 16, 32)),
             (blocks, (8, 16, 32))]
IN_PARTS = (parts, (32, 256), 8)


# ---- random: a value [N, ...] whose shape holds the size once ----

class Random:
    """Program number `seed` for any size: the same choices, the shapes differ.  Shapes are lists of
    (constant, power of the size)."""

    def __init__(self, seed, size):
        self.r, self.size, self.lines, self.n = random.Random(seed), size, [], 0
        shape = [2, 4, 6]
        self.r.shuffle(shape)
        self.shape = [(4, 0)] + [(d, 0)
                                 for d in shape[:self.r.randint(1,
                                                                2)]] + [(self.r.choice([1, 2, 3]), 1)]
        self.lines.append(f"  input x : f32{self.dims(['N'] + [self.number(d) for d in self.shape[1:]])}")
        self.lines.append(f"  w = Param([{self.number(self.shape[-1])}], init = ones)")
        self.name = "x"
        self.let("x * w", self.shape)
        for _ in range(self.r.randint(1, 3)):
            self.reduction()
            for _ in range(self.r.randint(1, 4)):
                self.view()
            if self.r.random() < 0.5:
                self.use()
        self.lines.append(f"  loss mean(square({self.name}))")
        self.lines.append(f"  output o = {self.name}")

    def text(self):
        return program("\n".join(self.lines))

    def number(self, d):
        return d[0] * (self.size if d[1] else 1)

    @staticmethod
    def dims(list_):
        return "[" + ", ".join(str(d) for d in list_) + "]"

    def let(self, value, shape):
        self.n += 1
        self.lines.append(f"  h{self.n} = {value}")
        self.name, self.shape = f"h{self.n}", shape

    def axis(self, test=lambda d: True):
        axes = [k for k, d in enumerate(self.shape) if test(d)]
        return self.r.choice(axes) if axes else None

    def reduction(self):
        h, k = self.name, self.axis()
        self.let(self.r.choice([f"softmax({h}, dim = {k})", f"log_softmax({h}, dim = {k})",
                                f"{h} - mean({h}, dim = {k}, keepdim = true)",
                                f"{h} * sigmoid(max({h}, dim = {k}, keepdim = true))",
                                f"normalize({h}, dim = {k})",
                                f"({h} - mean({h}, dim = {k}, keepdim = true)) / sqrt(var({h}, "
                                f"dim = {k}, keepdim = true, unbiased = false) + 0.1)"]),
                                self.shape)

    def use(self):
        h = self.name
        self.let(self.r.choice([f"tanh({h})", f"{h} * {h} + 0.5",
                                f"{h} + roll({h}, 1, {self.axis()})", f"exp(-{h} * {h})"]),
                                self.shape)

    def view(self):
        kinds = [self.permute, self.flatten, self.unflatten, self.slice, self.pad, self.roll,
                 self.gather, self.expand, self.flat]
        self.r.choice(kinds)()

    def permute(self):
        order = list(range(len(self.shape)))
        self.r.shuffle(order)
        self.let(f"permute({self.name}, {self.dims(order)})", [self.shape[k] for k in order])

    def flatten(self):
        if len(self.shape) < 3:
            return
        k = self.r.randrange(len(self.shape) - 1)
        (a, p), (b, q) = self.shape[k:k + 2]
        self.let(f"flatten({self.name}, {k}, {k + 1})",
                 self.shape[:k] + [(a * b, p + q)] + self.shape[k + 2:])

    def flat(self):
        """To two axes, through a reshape that knows nothing of the others."""
        total = 1
        for d in self.shape:
            total *= d[0]
        self.let(f"reshape({self.name}, [2, -1])",
                 [(2, 0), (total // 2, 1)] if total % 2 == 0
                 else self.shape) if total % 2 == 0 else None

    def unflatten(self):
        k = self.axis(lambda d: d[0] % 2 == 0 and d[0] > 2 or d[1])
        if k is None or len(self.shape) > 5:
            return
        c, p = self.shape[k]
        if c % 2 == 0 and c > 2:
            self.let(f"unflatten({self.name}, {k}, [-1, 2])",
                     self.shape[:k] + [(c // 2, p), (2, 0)] + self.shape[k + 1:])
        else:
            parts = [[(c, p), (1, 0)], [(1, 0), (c, p)]][self.r.randrange(2)]
            self.let(f"unflatten({self.name}, {k}, {self.dims(self.number(d) for d in parts)})",
                     self.shape[:k] + parts + self.shape[k + 1:])

    def slice(self):
        k = self.axis(lambda d: d[0] % 2 == 0 and d[0] > 2)
        if k is None:
            return
        c, p = self.shape[k]
        half = self.number((c // 2, p))
        at = ", ".join([":"] * k + [self.r.choice([f":{half}", f"{half}:"])])
        self.let(f"{self.name}[{at}]", self.shape[:k] + [(c // 2, p)] + self.shape[k + 1:])

    def pad(self):
        """By as much as there is: zeros on one side."""
        k = len(self.shape) - 1
        c, p = self.shape[k]
        if c > 8:
            return
        n = self.number((c, p))
        self.let(f"pad({self.name}, {self.r.choice([f'[{n}, 0]', f'[0, {n}]'])})",
                 self.shape[:k] + [(2 * c, p)])

    def roll(self):
        self.let(f"roll({self.name}, {self.r.choice([1, 3])}, {self.axis()})", self.shape)

    def gather(self):
        k = self.axis()
        n = self.number(self.shape[k])
        self.let(f"index_select({self.name}, {k}, {n - 1} - arange({n}))", self.shape)

    def expand(self):
        k = self.axis(lambda d: d[0] < 8)
        if k is None or len(self.shape) > 5:
            return
        shape = self.shape[:k] + [(2, 0)] + self.shape[k:]
        self.let(f"expand(unsqueeze({self.name}, {k}), {self.dims(self.number(d) for d in shape)})",
                 shape)


# ---- checks ----

class Checker:
    def __init__(self, args):
        self.hftac, self.verbose = os.path.join(args.bin, "hftac"), args.verbose
        self.checked = self.failed = 0

    def complain(self, name, what, text=""):
        self.failed += 1
        print(f"FAILED: {name}: {what}\n{text}", flush=True)

    def entry(self, name, e, text):
        if e.reductions > 1:
            self.complain(name, f"@{e.name}: a reduction is computed {e.reductions} times", text)
        if e.work > FACTOR * e.least + 1000:
            self.complain(name, f"@{e.name}: work {e.work} where {e.least} would do", text)

    def one_kernel(self, name, text, entry):
        """Where the output is the same memory in another shape, one kernel over its rows writes
        it."""
        self.checked += 1
        e = report(self.hftac, text)[entry]
        if e.kernels != 1:
            self.complain(name, f"@{entry} has {e.kernels} kernels", text)

    def grows(self, name, make, sizes, growth, measures, flags=()):
        self.checked += 1
        try:
            runs = [report(self.hftac, make(size), *flags) for size in sizes]
        except ValueError as e:
            self.complain(name, e, make(sizes[0]))
            return
        for entry, first in runs[0].items():
            for size, run, before in zip(sizes[1:], runs[1:], runs):
                self.entry(name, run[entry], make(size))
                for measure in measures:
                    was, now = getattr(before[entry], measure), getattr(run[entry], measure)
                    if now > SLACK * growth * was + 1000:
                        self.complain(name, f"@{entry}: {measure} {was} became {now} at {size}",
                                      make(size))
            if self.verbose:
                print(f"{name} @{entry}: "
                      + ", ".join(f"{m} {getattr(runs[-1][entry], m) / max(getattr(first, m), 1):.2f}" for m in measures))

    def sample(self, path):
        self.checked += 1
        for e in report(self.hftac, path).values():
            self.entry(os.path.basename(path), e, "")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--bin", required=True)
    a.add_argument("--samples")
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--count", type=int, default=50)
    a.add_argument("--print", type=int, help="size: only print the program of --seed")
    a.add_argument("--verbose", action="store_true")
    args = a.parse_args()
    if args.print:
        print(Random(args.seed, args.print).text(), end="")
        return 0
    c = Checker(args)
    for make, sizes, growth in NAMED:
        c.grows(make.__name__, make, sizes, growth, ("work", "rounds"))
    c.one_kernel("flat_softmax", flat_softmax(64), "predict")
    for make, rounds in IN_ROUNDS:
        c.grows(make.__name__, make, rounds, 2, ("work", "rounds", "code"), ("--loop-from=1000",))
    c.grows("parts", *IN_PARTS, ("work", "code"))
    for seed in range(args.seed, args.seed + args.count):
        c.grows(f"program {seed}", lambda size, seed=seed: Random(seed, size).text(), (8, 16, 32),
                2, ("work", "rounds"))
    for name in sorted(os.listdir(args.samples)) if args.samples else []:
        path = os.path.join(args.samples, name)
        if name.endswith(".hdl") and "model" in open(path, encoding="ascii").read():
            c.sample(path)
    print(f"{c.checked} programs, {c.failed} failures")
    return 1 if c.failed else 0


if __name__ == "__main__":
    sys.exit(main())
