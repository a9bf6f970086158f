"""Random values by what the standard library makes: activations, convolutions, pooling, norms,
embeddings, recurrences, attention."""
from generate_operators import Operators, Value, product, show


class Layers(Operators):
    """A program in the making, with layers."""

    def activation(self):
        x = self.some(rank=1)
        b = x.bound
        text, bound = self.r.choice([
            ("relu6({})", 6), ("hardtanh({}, -0.9, 1.1)", 1.1), ("hardsigmoid({} * 1.7)", 1),
            ("hardswish({})", b), ("hardshrink({}, 0.43)", b),
            ("softshrink({}, 0.37)", b), ("leaky_relu({}, 0.2)", b), ("elu({}, 0.7)", b),
            ("celu({}, 1.3)", b), ("selu({})", 2 * b), ("silu({})", b),
            ("softsign({})", 1), ("tanhshrink({})", b), ("softplus({}, 1.3)", b + 1),
            ("mish({})", b), ("logsigmoid({})", b + 1),
            ("expm1({} / 8)", 12), ("log1p(abs({}))", 4), ("threshold({}, 0.13, -0.4)", b),
            ("rrelu({})", b),
        ])
        if self.chance(0.15):
            self.add_layer(self.r.choice(["PReLU()", "Hardswish()", "SiLU()", "LogSigmoid()",
                                          "LeakyReLU(0.1)"]), "act", x, x.shape, b + 1)
        else:
            self.add(text.replace("{}", x.name), x.shape, "f", bound)

    def along_axis(self):
        x = self.some(rank=1)
        a, d = self.axis(x)
        b, n, s = x.bound, x.shape[a], x.shape
        text, shape, bound = self.r.choice([
            (f"cumsum({{}}, {d}) / {n}", s, b), (f"flip({{}}, [{d}])", s, b),
            (f"roll({{}}, 2, {d})", s, b),
            (f"logsumexp({{}}, {d}, keepdim = true)", s[:a] + (1,) + s[a + 1:], b + 5),
            (f"prod(tanh({{}}), {d})", s[:a] + s[a + 1:], 1),
            (f"amax({{}}, dim = {d}, keepdim = true) - {{}}", s, 2 * b),
            (f"glu(cat([{{}}, {{}}], dim = {d}), {d})", s, b),
        ])
        self.add(text.replace("{}", x.name), shape, "f", bound)

    def images(self, least, most):
        """A value with a batch axis, channels, and least .. most - 2 axes of space; made if there
        is none."""
        x = self.some(rank=least, test=lambda v: v.rank <= most and v.shape[0] == self.n)
        if x is None or self.chance(0.2):
            flat = self.some(rank=1, test=lambda v: v.shape[0] == self.n)
            if flat is None:
                return None
            shape = [self.n,
                     self.r.choice([1, 2, 3, 4, 6])] + [self.r.choice([3, 4, 5, 7, 8])
                                                        for _ in range(least - 2)]
            name = self.fresh("fc")
            self.layers.append(f"{name} = Linear({product(shape[1:])})")
            x = self.add(f"reshape({name}(reshape({flat.name}, [{self.n}, -1])), {show(shape)})",
                         shape, "f", 6)
        return x

    def convolution(self):
        x = self.images(self.r.choice([3, 4]), 4)
        if x is None:
            return
        n, c = x.rank - 2, x.shape[1]
        groups = self.r.choice([g for g in (1, 1, 1, 2, 3, c) if c % g == 0])
        out = groups * self.r.choice([1, 2, 3, 5])
        stride, dilation = self.r.choice([1, 1, 2, 3]), self.r.choice([1, 1, 2])
        kernel = [self.r.choice([k for k in (1, 1, 2, 3, 4, 5) if dilation * (k - 1) < s] or [1])
                  for s in x.shape[2:]]
        padding = self.r.choice([0, 0, 1, 2])
        padding = min(padding, min(kernel) // 2 + 1)
        space = [(s + 2 * padding - dilation * (k - 1) - 1) // stride + 1 for s,
                 k in zip(x.shape[2:], kernel)]
        options = [str(out), show(kernel), f"stride = {stride}", f"padding = {padding}",
                   f"dilation = {dilation}", f"groups = {groups}"]
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
        if product(shape) <= self.most and product(shape) * product(
            kernel) * c // groups <= self.work:
            self.add_layer(f"{kind}({', '.join(options)})", "conv", x, shape,
                           min(x.bound * 2 + 1, 19))

    def pooling(self):
        x = self.images(self.r.choice([3, 4]), 4)
        if x is None or min(x.shape[2:]) < 2:
            return
        n, kernel = x.rank - 2, self.r.choice([k for k in (2, 3) if k <= min(x.shape[2:])])
        stride, padding = self.r.choice([1, 2, 3]), self.r.choice([0, 0, 1])
        kind = self.r.choice(["max", "avg", "adaptive_avg", "adaptive_max"])
        if kind.startswith("adaptive"):
            shape = [self.r.randint(1, s) for s in x.shape[2:]]
            self.add(f"{kind}_pool{n}d({x.name}, {show(shape)})", list(x.shape[:2]) + shape, "f",
                     x.bound)
            return
        shape = [(s + 2 * padding - kernel) // stride + 1 for s in x.shape[2:]]
        self.add(f"{kind}_pool{n}d({x.name}, {kernel}, stride = {stride}, padding = {padding})",
                 list(x.shape[:2]) + shape, "f", x.bound)

    def norm_layer(self):
        x = self.images(self.r.choice([2, 3, 4]), 4) if self.chance(0.8) else None
        if x is None:
            x = self.some(rank=1)
            return self.add_layer("RMSNorm(eps = 0.001)", "rms", x, x.shape, 4)
        c, each = x.shape[1], product(x.shape) // x.shape[1]
        n = max(1, x.rank - 2)
        made = []
        if each > 1:
            options = self.r.choice(["", "momentum = 0.3", "eps = 0.01", "momentum = none",
                                     "affine = false", "track_running_stats = false"])
            made.append((f"BatchNorm{n}d({options})", "bn"))
        groups = [g for g in (1, 2, 3, c) if c % g == 0 and each * c // g > 1]
        if x.rank > 2 and groups:
            made.append((f"GroupNorm({self.r.choice(groups)}, eps = 0.001)", "gn"))
        if x.rank > 2 and product(x.shape[2:]) > 1:
            made.append((f"InstanceNorm{n}d(eps = 0.001{self.r.choice(['', ', affine = true'])})",
                         "in"))
        if made:
            self.add_layer(*self.r.choice(made), x, x.shape, 4)

    def embedding(self):
        x = self.some("i", test=lambda v: v.high)
        if x is None:
            return
        width, rows = self.size(), x.high + self.r.choice([0, 1, 3])
        if product(x.shape) * width > self.most or x.rank > 4 or rows > 300:
            return
        padding = f", padding_idx = {self.r.randrange(rows)}" if self.chance(0.3) else ""
        self.add_layer(f"Embedding({rows}, {width}{padding})", "em", x, x.shape + (width,), 3)

    def recurrent(self):
        x = self.some(rank=3, test=lambda v: v.rank == 3 and v.shape[1] <= 8)
        h = self.r.choice([1, 2, 3, 5, 8])
        if x is None or product(x.shape[:2]) * h * 8 > self.most:
            return
        both = self.chance(0.3)
        options = ["batch_first = true"] + (["bidirectional = true"] if both
                                            else []) + (["num_layers = 2"] if self.chance(0.2)
                                                        else [])
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
