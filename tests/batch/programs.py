"""Programs whose evaluation and prediction of a last, partial batch must be right, and such as must
be refused."""


def model(body, inputs="  input x : f32[N, 4]\n  input z : f32[N, 4]\n"):
    return ("hdl 1\nmodel M {\n" + inputs + "  fc = Linear(4)\n  h = fc(x)\n"
            + "".join(f"  {line.strip()}\n" for line in body.strip().split("\n")) + "}\n"
            "train M { batch N = 4; optimizer SGD(lr = 0.01) }\n")


SEQUENCE = "  input x : f32[N, 5, 4]\n  target t : i64[N, 5]\n"
IMAGE = "  input x : f32[N, 3, 8, 8]\n  target t : i64[N]\n"

SIMCLR = """
a = normalize(h, dim = 1)
b = normalize(fc(z), dim = 1)
all = cat([a, b], dim = 0)
score = all @ transpose(all, 0, 1) / 0.5
score = masked_fill(score, eye(2 * N) > 0, -1e9)
"""

RIGHT = {
    "two_tower": model("""
        score = h @ transpose(fc(z), 0, 1)
        loss (cross_entropy(score, arange(N)) + cross_entropy(transpose(score, 0, 1), arange(N))) / 2
        metric top1 = accuracy(score, arange(N))
        output code = h"""),
    "arange of a shape": model("""
        score = h @ transpose(fc(z), 0, 1)
        own = arange(shape(score)[0])
        loss cross_entropy(score, own)
        metric middle = mean(own)
        metric top = top_k_accuracy(score, own, k = 2)"""),
    "cat of samples": model("""
        all = cat([h, fc(z)], dim = 0)
        loss mean(square(all - mean(all, dim = 0)))"""),
    "SimCLR, labels by cat": model(SIMCLR
                                   + "loss cross_entropy(score, cat([arange(N) + N, arange(N)]))"),
    "SimCLR, labels by arange from N": model(SIMCLR
                                             + "loss cross_entropy(score, cat([arange(N, 2 * N), "
                                             "arange(0, N)], 0))"),
    "SimCLR, labels by remainder": model(SIMCLR
                                         + "loss cross_entropy(score, (arange(2 * N) + N) % (2 * "
                                         "N))"),
    "SimCLR, pairs by comparison": model(SIMCLR + """
        own = arange(2 * N) % N
        same = unsqueeze(own, 0) == unsqueeze(own, 1)
        apart = unsqueeze(arange(2 * N), 0) != unsqueeze(arange(2 * N), 1)
        loss -sum(where(same and apart, log_softmax(score, 1), 0)) / count(score, 0)"""),
    "SimCLR, halves again": model("""
        a, b = chunk(cat([h, fc(z)], 0), 2, 0)
        loss mean(square(a - b))
        output first = a"""),
    "slices of all samples": model("""
        all = cat([h, fc(z)], 0)
        loss mean(all[:N] * all[N:]) + mean(all[-N:] * h)"""),
    "off the diagonal": model("""
        g = transpose(h, 0, 1) @ h
        s = h @ transpose(h, 0, 1)
        loss sum(square(g - eye(4))) + sum(where(eye(N) > 0, 0, s)) / sum(1 - eye(N))"""),
    "triplets": model("""
        d = sum(square(unsqueeze(h, 1) - unsqueeze(fc(z), 0)), -1)
        own = sum(d * eye(N), 1)
        loss mean(clamp(unsqueeze(own, 1) - d + 1, min = 0))"""),
    "moments over the batch": model("""
        loss var(h, 0)[1] + std(h) + mean(softmax(h, 0)[:, 2]) + sum(logsumexp(h, 0)) + sum(norm(h, 2, 0))
        metric most = max(h) - min(h) + sum(amax(h, 0))
        metric first = mean(argmax(h, 0)) + sum(argmin(h[:, 0], 0))"""),
    "running sums over the batch": model("loss mean(cumsum(h, 0))"),
    "causal among samples": model("loss mean(tril(h @ transpose(h, 0, 1)))"),
    "a table's first rows": model("""
        p = Param([9, 4], init = normal())
        loss mean(square(h + p[:N]))
        output o = h * p[2:N + 2]"""),
    "gathered by numbers of samples": model("loss mean(index_select(h, 0, arange(N))[:, :2] * "
                                            "gather(h, 0, expand(unsqueeze(arange(N), 1), [N, 2])))"),
    "zeros and ones": model("loss mean(cat([h, zeros([N, 2]), ones([N, 1])], 1)) + sum(ones([N])) "
                            "/ 10 + sum(full([N, 2], 0.5))"),
    "sizes of N": model("loss mean(reshape(expand(unsqueeze(h, 1), [N, 3, 4]), [3 * N, 4])) + "
                        "mean(tile(h, [2, 1])) + mean(repeat_interleave(h, 2, 0))"),
    "stack": model("loss mean(max(stack([h, fc(z)], 0), 0)) + mean(flatten(stack([h, fc(z)], 0), "
                   "0, 1) * flatten(stack([h, fc(z)], 1), 0, 1)[:, :1] if false else stack([h, "
                   "fc(z)], 1))"),
    "samples moved and flattened": model("loss mean(flatten(permute(h, [1, 0]), 0)) + "
                                         "max(reshape(transpose(h, 0, 1), [4 * N]))"),
    "a block with N of its own": model("loss mean(pairs(h, fc(z)))").replace(
        "model M", "fn pairs(a : [B, D], b : [B, D]) {\n  s = a @ transpose(b, 0, 1)\n  return "
        "where(eye(B) > 0, s, 0 * s + 1)\n}\nmodel M"),
    "rand in evaluation": model("loss mean(h * rand([N, 4])) + mean(randn(shape(h)))"),
    "drawn input": model("input e : f32[N, 4] = normal()\nloss mean(h)"),
    "unneeded": model("unused = flip(h, 0) / N\nloss mean(h)\noutput o = h"),
    "0 / 0 in the padding": model("""
        d = where(eye(N) > 0, 1.0, 0.0)
        own = sum(d * exp(z @ transpose(z, 0, 1) * 0), 1)
        y = h / unsqueeze(own, 1)
        loss sum(einsum("na,nb->ab", h, y)) + sum(transpose(y, 0, 1) @ h) + mean(y)"""),
    "batch statistics": model("bn = BatchNorm1d(track_running_stats = false)\nloss "
                              "mean(square(bn(h) - x)) + 1"),
    "sequences": model("""
        loss cross_entropy(h, t, dim = 2)
        metric acc = accuracy(flatten(h, 0, 1), flatten(t, 0))""", SEQUENCE),
    "rows of points": model("""
        bn = BatchNorm1d(track_running_stats = false)
        running = BatchNorm1d()
        rows = running(bn(reshape(h, [N * 5, 4])))
        y = amax(reshape(rows, [N, 5, 4]), 1)
        loss cross_entropy(y, t[:, 0])
        output o = y""", SEQUENCE),
    "attention": model("""
        attend = MultiheadAttention(2, batch_first = true)
        pos = Param([5, 4], init = normal())
        y, _ = attend(h + pos, h, h)
        loss cross_entropy(y, t, dim = 2)
        output o = mean(y, 1)""", SEQUENCE),
    "transformer": model("""
        layer = TransformerEncoderLayer(2, 8, batch_first = true)
        loss cross_entropy(flatten(layer(h), 0, 1), flatten(t, 0))
        output o = mean(h, 1)""", SEQUENCE),
    "recurrent": model("""
        rnn = LSTM(6, batch_first = true)
        y, _ = rnn(h)
        fc2 = Linear(3)
        loss cross_entropy(fc2(y), t, dim = 2)
        output o = y[:, -1]""", SEQUENCE.replace("5", "12")),
    "convolutions": """hdl 1
model M {
  input x : f32[N, 3, 8, 8]
  target t : i64[N]
  conv = Conv2d(4, 3, padding = 1); bn = BatchNorm2d(); gn = GroupNorm(2); fc = Linear(3)
  y = x |> conv |> bn |> relu |> max_pool2d(2) |> gn |> flatten |> fc
  loss cross_entropy(y, t)
  metric acc = accuracy(y, t)
  output o = softmax(y, 1)
}
train M { batch N = 4; optimizer SGD(lr = 0.01) }
""",
    "rearranged": model("loss mean(max(rearrange(h, \"n (a b) -> (n a) b\", a = 2), 0)) + "
                        "mean(amax(rearrange(h, \"n d -> d n\"), 1))"),
    "prod over samples": model("loss sum(prod(h, 0)) + sum(prod(reshape(h, [N, 2, 2]), [0, 2]))"),
    "prod of all": model("loss prod(sigmoid(h)) * count(h)"),
    "einsum over samples": model("loss sum(einsum(\"nd,ne->de\", h, z)) + "
                                 "mean(einsum(\"nd,md->nm\", h, z))"),
}

REFUSED = {
    "flip": model("loss mean(h * flip(h, 0))"),
    "roll": model("loss mean(h * roll(h, 1, 0))"),
    "slice": model("loss mean(h[1:]) + mean(h[:-1])"),
    "one sample": model("loss mean(h[1])"),
    "some of the last": model("loss mean(h[N - 1:])"),
    "literal for N": model("loss mean(h * unsqueeze(arange(4), 1))"),
    "/ N": model("loss sum(h) / N"),
    "shape as a value": model("loss sum(h) / shape(x)[0]"),
    "len as a value": model("loss sum(h) * 0.5 / len(h)"),
    "1 / N": model("loss mean(h) + 1 / N"),
    "N / 2 as a size": model("loss mean(h) + sum(ones([N // 2]))"),
    "N + 1 as a size": model("loss mean(h) + sum(ones([N + 1]))"),
    "if N": model("s = h\nif N > 3 {\n s = h * 2\n}\nloss mean(s)"),
    "choice by N": model("loss mean(h * (2 if shape(x)[0] == 4 else 1))"),
    "repeat to N": model("s = 0\nrepeat i in 0 .. N {\n s = s + mean(h) * i\n}\nloss s"),
    "a loop over samples": model("s = zeros([4])\nrepeat i in 0 .. 16 {\n s = tanh(s + "
                                 "w[i])\n}\nloss mean(s)".replace("w[i]", "h[i % 4]")),
    "window": model("loss mean(max(window(h, 0, 2), 0))"),
    "samples moved inward": model("loss mean(max(reshape(h, [2, N * 2]), 1))"),
    "samples mixed": model("loss mean(max(reshape(transpose(h, 0, 1), [N, 4]), 0))"),
    "all pairs in one axis": model("loss max(flatten(h @ transpose(h, 0, 1), 0))"),
    "cat with other rows": model("p = Param([1, 4], init = normal())\nloss mean(cat([h, p], 0))"),
    "pad": model("loss mean(pad_dim(h, 0, 1, 1))"),
    "a parameter for each sample": model("p = Param([N, 4], init = normal())\nloss mean(h * p)"),
    "N as width": model("wide = Linear(N)\nloss mean(wide(h))"),
    "less than N": model("loss mean(h * (t < N))",
                         "  input x : f32[N, 4]\n  target t : i64[N]\n").replace(
                             "(t <", "unsqueeze(t <").replace("< N)", "< N, 1)"),
    "more than N": model("loss mean(where(h * 10 > N, h, 0))"),
    "N as a real": model("loss sum(h) / cast(N, \"f32\")"),
    "N as a condition": model("loss mean(where(h > 0 and N > 3, h, 0))"),
    "N in a list": model("loss mean(h * [1, 2, 3, N])"),
    "fill of N": model("loss mean(h * full([4], N))"),
    "N to a power": model("loss mean(abs(h) ** (N / 4))"),
    "a shape compared": model("loss mean(h * (2 if shape(x) == [4, 4] else 1))"),
    "N in a string of choices": model("loss mean(h * ([1, 2, 3, 4, 5])[N])"),
    "a counter and N": model("s = h\nrepeat i in 0 .. 10 {\n s = s * 0.5 + (i + N)\n}\nloss mean(s)"),
    "number of the largest of all": model("loss mean(h)\nmetric m = argmax(transpose(h, 0, 1))"),
    "number of the largest, twice": model("loss mean(h)\nmetric m = mean(argmax(cat([h, fc(z)], "
                                          "0), 0))"),
    "shifted labels": model("loss cross_entropy(h @ transpose(h, 0, 1), (arange(N) + 1) % N)"),
    "reversed labels": model("loss cross_entropy(h @ transpose(h, 0, 1), N - 1 - arange(N))"),
    "positions as numbers": model("loss mean(cat([h, fc(z)], 0) * unsqueeze(arange(2 * N), 1))"),
    "labels from data": model("loss cross_entropy(h @ transpose(h, 0, 1), t)",
                              "  input x : f32[N, 4]\n  target t : i64[N]\n"),
    "indices from data": model("loss mean(index_select(h, 0, t))",
                               "  input x : f32[N, 4]\n  target t : i64[N]\n"),
    "label smoothing over samples": model("loss cross_entropy(h @ transpose(h, 0, 1), arange(N), "
                                          "label_smoothing = 0.1)"),
    "random across samples": model("loss mean(transpose(h, 0, 1) * rand([4, N]))"),
    "output with samples twice": model("loss mean(h)\noutput o = h @ transpose(h, 0, 1)"),
    "output of both halves": model("loss mean(h)\noutput o = cat([h, h], 0)"),
    "output of positions": model("loss mean(h)\noutput o = h * 0 + N"),
    "three chunks": model("a = chunk(h, 2, 0)\nloss mean(a[0])"),
    "interleaved with halves": model("loss mean(cat([h, fc(z)], 0) * repeat_interleave(h, 2, 0))"),
}
