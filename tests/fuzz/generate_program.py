"""Whole random programs: Program(seed).text()."""
from generate_layers import Layers
from generate_operators import Value, product, show


class Program(Layers):
    """Program number `seed`, the same for ever."""

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
                "block Gate on (x: [..., d]) -> [..., d] {\n  scale = Param([d], init = ones)\n  "
                "a = Linear(d);  b = Linear(d, bias = false)\n"
                "  return scale * a(x) * sigmoid(b(x))\n}")
            self.blocks.append(("Gate", lambda: ""))
        if self.chance(0.3):
            self.heads.append(
                "block Mix(heads = 1) on (x) {\n  n = shape(x)[-1]\n  q = Linear(n);  k = "
                "Linear(n)\n  y = reshape(x, [-1, n])\n"
                "  s = softmax(q(y) @ transpose(k(y), 0, 1) / sqrt(n), dim = -1)\n  return "
                "reshape(s @ y, shape(x))\n}")
            self.blocks.append(("Mix", lambda: ""))

    def make_inputs(self):
        for _ in range(self.r.randint(1, 3)):
            rank = self.r.choice([1, 2, 2, 3]) if self.inputs else self.r.choice([1, 1, 2])
            shape = [self.n] + [self.size() for _ in range(rank)]
            while product(shape) > self.most // 4:
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
        x = self.some(rank=1,
                      test=lambda v: v.shape[0] == self.n and product(v.shape) * width < self.work)
        if x is None:
            x = self.some(rank=2, test=lambda v: v.shape[0] == self.n)
            x = self.add(f"mean({x.name}, dim = {show(range(1, x.rank))})", [self.n], "f", x.bound)
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
            f = self.r.choice(["mse_loss", "l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss",
                               "soft_margin_loss"])
            if self.chance(0.2):
                return f"{f}({y.name}, 0.5)"
            target = self.fresh("y")
            self.inputs.append(f"target {target} : f32[N, {width}]{each}")
            reduction = self.r.choice(["", "", ', reduction = "sum"'])
            return f"{f}({y.name}, {target}{reduction}) / {width if reduction else 1}"
        x = self.some(rank=1)
        return self.r.choice([f"mean(square({x.name}))", f"0.01 * sum(abs({x.name}))",
                              f"mean({x.name} * {x.name}) ** 0.5", f"0.1 * mean({x.name})"])

    def leftovers(self):
        """Most values that nothing reads go into the loss, so that they and their gradients are
        computed."""
        text = "\n".join(self.body)
        unread = [v for v in self.pool if v.name.startswith("t") and v.cls in "fb"
                  and text.count(v.name) == 1 + text.count(v.name + "0")]
        keep = [v for v in unread if self.chance(0.7)][-6:]
        return [f"{self.r.choice(['0.3 * mean', '0.05 * sum', 'mean'])}({self.r.choice(['sin(3 * {})', 'square({} - 0.2)', '{} * 0.7'])})".replace("{}", v.name) for v in keep]

    def optimizer(self):
        r = self.r
        lr = self.hyper("lr", 0.01, "log(1e-4 .. 0.05)") if self.chance(0.8) else "0.01"
        wd = self.number_or_hyper("wd", r.choice([0, 0.01]),
                                  "{0, 0.001, 0.1}") if self.chance(0.5) else "0"
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
            other = r.choice(["Adadelta", "Adagrad", "RMSprop", "Adamax", "NAdam", "RAdam", "Lion",
                              "LAMB"])
            options = {"RMSprop": r.choice(["", ", momentum = 0.5", ", centered = true"]),
                       "Adagrad": r.choice(["", ", lr_decay = 0.1"])}.get(other, "")
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
                f"StepLR(step_size = {self.r.choice([1, 2, 3])}, gamma = "
                f"{self.number_or_hyper('gamma', 0.5, '(0 .. 1)')})",
                f"ExponentialLR(gamma = {self.number_or_hyper('gamma', 0.9, '(0.3 .. 1)')})",
                "CosineAnnealingLR(T_max = 5)", "CosineAnnealingLR(T_max = 3, eta_min = 0.0001)",
                "LinearLR(start_factor = 0.5, total_iters = 3)", "MultiStepLR([1, 2], 0.3)",
                "PolynomialLR(4, 2)", "CosineAnnealingWarmRestarts(2)",
                "ConstantLR(factor = 0.4, total_iters = 2)"])
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
            lines.append('freeze "head*.bias"' if "head" in " ".join(self.layers)
                         else 'freeze "none.*"')
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
            (self.unary, 12), (self.binary, 12), (self.compare, 3), (self.boolean, 1),
            (self.use_bool, 3), (self.use_int, 5), (self.reduce_whole, 2), (self.reduce, 8),
            (self.argmax, 2),
            (self.softmax, 4), (self.view, 14), (self.gather, 3), (self.matmul, 8),
            (self.einsum, 5), (self.linear, 8), (self.layer, 8), (self.scalars, 5)]
        if self.chance(0.5):
            operators += [(self.activation, 8), (self.along_axis, 5), (self.convolution, 8),
                          (self.pooling, 5), (self.norm_layer, 6), (self.embedding, 4),
                          (self.recurrent, 2), (self.attention, 2)]
        made, weight = zip(*operators)
        for _ in range(self.r.choice([1, 3, 6] if self.large else [1, 3, 6, 10, 15, 22, 30])):
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
        model = self.inputs + self.layers + self.body + ["loss "
                                                         + " + ".join(losses)] + self.metrics + outputs
        lines += ["model M {"] + ["  " + l for l in model] + ["}",
                                                              "train M {"] + ["  " + l for l in train] + ["}"]
        used = "\n".join(self.body + lines)
        return "\n".join(l for l in lines if not self.unused_layer(l, used)) + "\n"

    @staticmethod
    def unused_layer(line, text):
        """Layers that nothing calls are errors: the value that would have called them was not
        made."""
        name = line.strip().split(" ")[0]
        return " = " in line and name.startswith(("p", "fc",
                                                  "head")) and text.count(name + " = ") and not any(
            name in l and not l.strip().startswith(name + " = ") for l in text.split("\n"))
