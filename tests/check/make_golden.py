#!/usr/bin/env python3
"""Writes further golden files, of the form of those from PyTorch 1.13, with the installed PyTorch:

    make_golden.py OPS-DIRECTORY OPTIM-DIRECTORY

Operators with other attributes, shapes and masks than there, and those that are missing there;
optimizers with other arguments.  The files in tests/golden-data/more-* were written by it and are
checked by check_ops and check_optim."""
import json
import os
import struct
import sys

import torch
import torch.nn.functional as F

R = torch.randn
count = {}


def save(directory, name, meta, tensors):
    """A safetensors file."""
    kinds = {torch.float32: "F32", torch.int64: "I64", torch.bool: "BOOL"}
    header, blob = {"__metadata__": {**meta, "torch": torch.__version__}}, b""
    for key, t in tensors.items():
        t = t.detach().contiguous()
        t = t.reshape(1) if t.dim() == 0 else t
        data = t.numpy().tobytes()
        header[key] = {"dtype": kinds[t.dtype], "shape": list(t.shape),
                       "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(directory, name + ".safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + blob)


def case(op, attrs, operands, fn, module=None, diff=None):
    """Values and gradients of fn; module: whose parameters and buffers count; diff: which operands,
    None: all reals."""
    count[op] = count.get(op, 0) + 1
    tensors = {}
    operands = [x.clone() for x in operands]
    for i, x in enumerate(operands):
        if x.dtype == torch.float32 and (diff is None or i in diff):
            x.requires_grad_(True)
        tensors[f"in.{i}"] = x
    if module is not None:
        tensors.update({"p." + k: p.clone() for k, p in module.named_parameters()})
        tensors.update({"b." + k: b.clone() for k, b in module.named_buffers()})
    out = fn(*operands)
    tensors["out"] = out
    if out.requires_grad:
        tensors["grad_out"] = g = torch.randn_like(out)
        out.backward(g)
        tensors.update({f"g.in.{i}": x.grad for i, x in enumerate(operands) if x.grad is not None})
        if module is not None:
            tensors.update({"g.p." + k: p.grad for k, p in module.named_parameters()})
    if module is not None:
        tensors.update({"b_after." + k: b.clone() for k, b in module.named_buffers()})
    save(sys.argv[1], f"{op}_x{count[op]}", {"op": op, "attrs": json.dumps(attrs)}, tensors)


def layer(op, attrs, module, operands, train=None):
    for p in module.parameters():
        p.data = R(*p.shape) * 0.5
    for k, b in module.named_buffers():
        if "var" in k:
            b.data = torch.rand_like(b) + 0.5
        else:
            b.data = R(*b.shape) if b.dtype == torch.float32 else torch.tensor(3)
    if train is not None:
        module.train(train)
    case(op, attrs, operands, module, module=module)


def activations():
    x = torch.cat([R(50) * 3,
                   torch.tensor([0.0, -0.0, 3, -3, 6, 1, -1, 0.5, -0.5, 30, -30, 90, -90])])
    for op, attrs in [("elu", {"alpha": 2.0}), ("celu", {"alpha": 0.7}),
                      ("hardshrink", {"lambd": 1.0}), ("softshrink", {"lambd": 0.3}),
                      ("hardtanh", {"min_val": -2.0, "max_val": 0.5}),
                      ("leaky_relu", {"negative_slope": 0.3}),
                      ("softplus", {"beta": 2.0, "threshold": 5.0}),
                      ("threshold", {"threshold": -0.5, "value": -7.0})]:
        case(op, attrs, [x], lambda x: getattr(F, op)(x, **attrs))
    case("glu", {"dim": 1}, [R(3, 6, 2)], lambda x: F.glu(x, 1))
    case("glu", {}, [R(3, 6)], F.glu)
    for n, shape in [(4, (3, 4)), (1, (2, 3, 4, 2)), (3, (2, 3, 4, 2))]:
        layer("prelu", {"num_parameters": n}, torch.nn.PReLU(n), [R(*shape)])


def norms():
    nn = torch.nn
    for training in (True, False):
        for a in ({"momentum": 0.3}, {"eps": 0.1, "affine": False}, {"momentum": None}):
            for op, kind, n, shape, at in [("batch_norm1d", nn.BatchNorm1d, 7, (5, 7), 2),
                                           ("batch_norm1d", nn.BatchNorm1d, 3, (2, 3, 9), 10),
                                           ("batch_norm2d", nn.BatchNorm2d, 17, (2, 17, 3, 1), 0)]:
                layer(op, dict(num_features=n, training=training, **a), kind(n, **a),
                      [R(*shape) * 3 + at], training)
    layer("batch_norm2d", dict(num_features=3, training=False, track_running_stats=False),
          nn.BatchNorm2d(3, track_running_stats=False),
          [R(2, 3, 3, 2)], False)
    layer("group_norm", dict(num_groups=1, num_channels=4), nn.GroupNorm(1, 4), [R(3, 4)])
    layer("group_norm", dict(num_groups=4, num_channels=4, eps=0.01), nn.GroupNorm(4, 4, eps=0.01),
          [R(3, 4, 5)])
    layer("group_norm", dict(num_groups=2, num_channels=8, affine=False),
          nn.GroupNorm(2, 8, affine=False), [R(1, 8, 3, 2, 2)])
    layer("instance_norm1d", dict(num_features=4, affine=True), nn.InstanceNorm1d(4, affine=True),
          [R(3, 4, 5)])
    for training in (True, False):
        a = dict(affine=True, track_running_stats=True)
        layer("instance_norm2d", dict(num_features=4, training=training, **a),
              nn.InstanceNorm2d(4, **a), [R(3, 4, 5, 2)], training)
    layer("rms_norm", dict(normalized_shape=[5]), nn.RMSNorm([5]), [R(3, 4, 5)])
    layer("rms_norm", dict(normalized_shape=[4, 5], eps=0.1, elementwise_affine=False),
          nn.RMSNorm([4, 5], eps=0.1, elementwise_affine=False),
          [R(3, 4, 5)])
    layer("layer_norm", dict(normalized_shape=[3, 4, 5]), nn.LayerNorm([3, 4, 5]), [R(3, 4, 5)])
    layer("layer_norm", dict(normalized_shape=[5], bias=False), nn.LayerNorm([5], bias=False),
          [R(2, 5)])


def indexing():
    ids = torch.randint(0, 6, (3, 5))
    for a, x in [(dict(embedding_dim=17, padding_idx=2), ids),
                 (dict(embedding_dim=1, padding_idx=-1), ids[0]),
                 (dict(embedding_dim=8), ids.reshape(3, 5, 1))]:
        layer("embedding", dict(num_embeddings=6, **a), torch.nn.Embedding(6, **a), [x])
    for mode in ("sum", "mean", "max"):
        for padding in (None, 1):
            a = dict(embedding_dim=9, mode=mode,
                     **({} if padding is None else {"padding_idx": padding}))
            layer("embedding_bag", dict(num_embeddings=6, **a), torch.nn.EmbeddingBag(6, **a),
                  [torch.tensor([[1, 1, 1], [1, 2, 3], [5, 5, 0]])])
    for dim, shape, n, index in [(0, (4, 6), 4, (7, 5)), (-1, (2, 3, 9), 9, (2, 3, 4)),
                                 (1, (2, 3, 19), 3, (2, 5, 19))]:
        case("gather", {"dim": dim}, [R(*shape), torch.randint(0, n, index)],
             lambda x, i: torch.gather(x, dim, i))
    case("index_select", {"dim": 1}, [R(4, 6, 3), torch.randint(0, 6, (9,))],
         lambda x, i: torch.index_select(x, 1, i))
    case("index_select", {"dim": -1}, [R(4, 6), torch.randint(0, 6, (3,))],
         lambda x, i: torch.index_select(x, -1, i))
    case("scatter_add", {"dim": 0}, [R(4, 6), torch.randint(0, 4, (5, 6)), R(5, 6)],
         lambda x, i, s: x.scatter_add(0, i, s))
    case("scatter_add", {"dim": 1}, [R(4, 6), torch.randint(0, 6, (3, 9)), R(4, 9)],
         lambda x, i, s: x.scatter_add(1, i, s), diff=[0])
    for dim, shape in ((0, (5, 3)), (-1, (2, 3, 20)), (1, (2, 4, 19))):
        case("cumsum", {"dim": dim}, [R(*shape)], lambda x: x.cumsum(dim))


def reductions():
    zeros = R(4, 4)
    zeros[1, 2] = zeros[2, 0] = zeros[2, 1] = 0
    case("prod", {"dim": 1, "keepdim": False}, [R(3, 5)], lambda x: x.prod(1))
    case("prod", {"dim": -1, "keepdim": True}, [zeros], lambda x: x.prod(-1, keepdim=True))
    case("prod", {}, [R(2, 3)], torch.prod)
    for dim in (0, [0, 1], None):
        case("std", {"dim": dim, "unbiased": True, "keepdim": False}, [R(4, 5)],
             lambda x: torch.std(x, dim=dim))
        case("var", {"dim": dim, "keepdim": True}, [R(4, 5)],
             lambda x: torch.var(x, dim=dim, keepdim=True))
    for p in (1, 2, 3, 0.5):
        case("norm", {"p": p, "dim": 1}, [R(4, 5)], lambda x: torch.norm(x, p=p, dim=1))
    case("norm", {}, [R(4, 5)], torch.norm)
    case("logsumexp", {"dim": 1}, [R(4, 5) * 20], lambda x: torch.logsumexp(x, 1))
    case("normalize", {"dim": -1}, [R(4, 5)], lambda x: F.normalize(x, dim=-1))


def moves():
    case("stack", {"dim": 1}, [R(2, 3), R(2, 3), R(2, 3)], lambda *x: torch.stack(x, 1))
    case("cat", {"dim": -1}, [R(2, 3), R(2, 1), R(2, 5)], lambda *x: torch.cat(x, -1))
    case("tile", {"sizes": [2, 1, 3]}, [R(2, 3)], lambda x: x.repeat(2, 1, 3))
    case("repeat", {"sizes": [3, 2]}, [R(2, 3)], lambda x: x.repeat(3, 2))
    case("repeat_interleave", {"repeats": 3, "dim": 1}, [R(2, 3)],
         lambda x: x.repeat_interleave(3, 1))
    case("roll", {"shifts": -2, "dims": 1}, [R(2, 5)], lambda x: torch.roll(x, -2, 1))
    case("tril", {"diagonal": 1}, [R(4, 5)], lambda x: torch.tril(x, 1))
    case("triu", {}, [R(2, 4, 5)], torch.triu)
    for mode in ("reflect", "replicate", "circular"):
        for pad, shape in (([2, 1], (2, 3, 5)), ([1, 2, 2, 0], (1, 2, 4, 5))):
            case("pad", {"pad": pad, "mode": mode}, [R(*shape)], lambda x: F.pad(x, pad, mode=mode))
    case("pad", {"pad": [-1, 2]}, [R(2, 5)], lambda x: F.pad(x, [-1, 2]))


def losses():
    share, target = torch.rand(5, 4) * 0.98 + 0.01, torch.rand(5, 4)
    sign, label = torch.tensor([1.0, -1, 1, -1, -1]), torch.tensor([0, 3, 2, -100, 1])
    for reduction in ("mean", "sum", "none"):
        def loss(op, operands, diff=None, tensors=(), **attrs):
            """tensors: names of the arguments that the last operands are."""
            attrs["reduction"] = reduction
            first = len(operands) - len(tensors)
            names = {name: f"in.{first + i}" for i, name in enumerate(tensors)}
            fn = getattr(F, op)
            case(op, {**attrs, **names}, operands,
                 lambda *x: fn(*x[:first], **{name: x[first + i] for i, name in enumerate(tensors)},
                               **attrs), diff=diff)

        loss("binary_cross_entropy", [share, target], [0])
        loss("binary_cross_entropy", [share, target, torch.rand(5, 1)], [0], ["weight"])
        loss("binary_cross_entropy_with_logits", [R(5, 4) * 5, target], [0])
        loss("binary_cross_entropy_with_logits", [R(5, 4), target, torch.rand(5, 4), torch.rand(4)],
             [0], ["weight", "pos_weight"])
        loss("mse_loss", [R(5, 4), target])
        loss("l1_loss", [R(5, 4), target])
        loss("smooth_l1_loss", [R(5, 4), target], beta=0.5)
        loss("huber_loss", [R(5, 4), target], delta=0.4)
        loss("kl_div", [R(5, 4), target])
        loss("kl_div", [R(5, 4), R(5, 4)], log_target=True)
        loss("cosine_embedding_loss", [R(5, 3), R(5, 3), sign], [0, 1], margin=0.2)
        loss("hinge_embedding_loss", [R(5), sign], [0], margin=0.7)
        loss("margin_ranking_loss", [R(5), R(5), sign], [0, 1], margin=0.2)
        loss("soft_margin_loss", [R(5), sign], [0])
        loss("nll_loss", [R(5, 4), label])
        loss("nll_loss", [R(5, 4), label, torch.rand(4)], [0], ["weight"])
        loss("cross_entropy", [R(5, 4), label])
        loss("cross_entropy", [R(5, 4), label, torch.rand(4)], [0], ["weight"], label_smoothing=0.1)
        loss("cross_entropy", [R(5, 4), F.softmax(R(5, 4), 1), torch.rand(4)], [0], ["weight"],
             label_smoothing=0.3)
    batch = torch.cat([torch.rand(4, 4, 2), torch.zeros(1, 4, 2)])
    case("kl_div", {"reduction": "batchmean"}, [R(5, 4, 2), batch],
         lambda x, t: F.kl_div(x, t, reduction="batchmean"), diff=[0])
    case("cross_entropy", {"ignore_index": 1}, [R(2, 3, 4, 5), torch.randint(0, 3, (2, 4, 5))],
         lambda x, t: F.cross_entropy(x, t, ignore_index=1))


def some_mask(*shape):
    """True where attention is forbidden; the first key never is."""
    mask = torch.rand(*shape) < 0.4
    mask[..., 0] = False
    return mask


def attention(e, heads, queries, keys, n, masks=(), cross=False, causal=False, **args):
    m = torch.nn.MultiheadAttention(e, heads, **args)
    for p in m.parameters():
        p.data = R(*p.shape) * 0.4
    attrs, operands = dict(embed_dim=e, num_heads=heads, layout="L,N,E", **args), [R(queries, n, e)]
    if cross:
        operands += [R(keys, n, args.get("kdim") or e), R(keys, n, args.get("vdim") or e)]
        attrs.update(key="in.1", value="in.2")
    first = len(operands)
    for name, mask in masks:
        attrs[name] = f"in.{len(operands)}"
        operands.append(mask)
    if causal:
        attrs["causal"] = True
    later = torch.triu(torch.ones(queries, keys, dtype=torch.bool), 1)

    def run(*x):
        more = {name: x[first + i] for i, (name, _) in enumerate(masks)}
        if causal:
            more["attn_mask"] = later
        return m(x[0], x[1] if cross else x[0], x[2] if cross else x[0], **more)[0]

    case("multihead_attention", attrs, operands, run, module=m, diff=range(first))


def transformers():
    attention(12, 3, 7, 7, 2, causal=True)
    attention(16, 1, 9, 9, 1)
    attention(8, 8, 3, 3, 4, causal=True, bias=False)
    attention(8, 2, 4, 4, 3, [("key_padding_mask", some_mask(3, 4))])
    attention(8, 2, 4, 4, 3, [("attn_mask", some_mask(4, 4))])
    attention(8, 4, 5, 5, 2, [("attn_mask", R(5, 5))])
    attention(8, 2, 4, 4, 2, [("attn_mask", some_mask(4, 4, 4))])
    attention(8, 2, 4, 4, 2,
              [("key_padding_mask", some_mask(2, 4)), ("attn_mask", some_mask(4, 4))])
    attention(8, 2, 4, 6, 2, [("key_padding_mask", some_mask(2, 6))], cross=True)
    attention(8, 2, 4, 6, 2, [("attn_mask", some_mask(4, 6))], cross=True, kdim=5, vdim=7)
    for args, masks in [({"activation": "gelu"}, {}),
                        ({"norm_first": True, "layer_norm_eps": 0.1}, {}),
                        ({}, {"src_mask": some_mask(6, 6),
                              "src_key_padding_mask": some_mask(2, 6)})]:
        m = torch.nn.TransformerEncoderLayer(12, 3, 20, dropout=0, **args)
        for p in m.parameters():
            p.data = R(*p.shape) * 0.4
        attrs = dict(d_model=12, nhead=3, dim_feedforward=20, layout="L,N,E", **args)
        attrs.update({name: f"in.{1 + i}" for i, name in enumerate(masks)})
        case("transformer_encoder_layer", attrs, [R(6, 2, 12), *masks.values()],
             lambda x, *more: m(x, **dict(zip(masks, more))), module=m)


def recurrent():
    for op, kind in (("lstm", torch.nn.LSTM), ("gru", torch.nn.GRU)):
        for args in ({}, {"num_layers": 2}, {"bidirectional": True, "num_layers": 3},
                     {"bias": False}, {"batch_first": True}):
            m = kind(4, 5, **args)
            case(op, dict(input_size=4, hidden_size=5, **args), [R(4, 3, 4)], lambda x: m(x)[0],
                 module=m)


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            for p in g["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                a, b = g["betas"]
                p.mul_(1 - g["lr"] * g["weight_decay"])
                p.add_((a * m + (1 - a) * p.grad).sign(), alpha=-g["lr"])
                m.mul_(b).add_(p.grad, alpha=1 - b)


class LAMB(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            for p in g["params"]:
                s = self.state[p]
                s["t"] = t = s.get("t", 0) + 1
                m, v = s.setdefault("m",
                                    torch.zeros_like(p)), s.setdefault("v", torch.zeros_like(p))
                a, b = g["betas"]
                m.mul_(a).add_(p.grad, alpha=1 - a)
                v.mul_(b).addcmul_(p.grad, p.grad, value=1 - b)
                d = (m / (1 - a**t)) / ((v / (1 - b**t)).sqrt() + g["eps"]) + g["weight_decay"] * p
                size, way = p.norm(), d.norm()
                p.add_(d, alpha=-g["lr"] * ((size / way).item() if size > 0 and way > 0 else 1.0))


def optimizers():
    o = torch.optim
    rows = [("sgd", o.SGD, dict(lr=0.1, momentum=0.8, nesterov=True)),
            ("sgd", o.SGD, dict(lr=0.1, weight_decay=0.1)),
            ("adam", o.Adam, dict(lr=0.02, betas=(0.7, 0.9), amsgrad=True, weight_decay=0.1)),
            ("adamw", o.AdamW, dict(lr=0.02, betas=(0.7, 0.9), eps=1e-3)),
            ("adadelta", o.Adadelta, dict(lr=2.0, rho=0.5)),
            ("adagrad", o.Adagrad, dict(lr=0.1)),
            ("adagrad", o.Adagrad, dict(lr=0.1, eps=1e-3, lr_decay=0.5)),
            ("rmsprop", o.RMSprop, dict(lr=0.01, momentum=0.5, weight_decay=0.1)),
            ("rmsprop", o.RMSprop, dict(lr=0.01, alpha=0.5, eps=1e-3, centered=True)),
            ("adamax", o.Adamax, dict(lr=0.02, betas=(0.5, 0.9), eps=1e-3)),
            ("radam", o.RAdam, dict(lr=0.02, betas=(0.8, 0.9), weight_decay=0.1)),
            ("radam", o.RAdam, dict(lr=0.02, betas=(0.8, 0.99), eps=1e-3)),
            ("lion", Lion, dict(lr=0.01)),
            ("lion", Lion, dict(lr=0.01, betas=(0.5, 0.8), weight_decay=0.2)),
            ("lamb", LAMB, dict(lr=0.01)),
            ("lamb", LAMB, dict(lr=0.02, betas=(0.5, 0.9), weight_decay=0.1))]
    for n, (name, kind, args) in enumerate(rows):
        p = torch.nn.Parameter(R(4, 5))
        optimizer, tensors = kind([p], **args), {"p0": p.clone()}
        for t in range(10):
            tensors[f"grad.{t}"] = p.grad = R(4, 5) * (1 + t % 3)
            optimizer.step()
            tensors[f"p.{t}"] = p.clone()
        save(sys.argv[2], f"{name}_x{n}", {"optimizer": name, "args": json.dumps(args)}, tensors)


def spaces():
    def conv(op, attrs, x):
        kinds = {"conv1d": torch.nn.Conv1d, "conv2d": torch.nn.Conv2d, "conv3d": torch.nn.Conv3d,
                 "conv_transpose1d": torch.nn.ConvTranspose1d,
                 "conv_transpose2d": torch.nn.ConvTranspose2d}
        layer(op, attrs, kinds[op](**attrs), [x])

    for mode in ("reflect", "replicate", "circular"):
        conv("conv1d",
             dict(in_channels=3, out_channels=4, kernel_size=4, padding=3, padding_mode=mode),
             R(2, 3, 8))
        conv("conv2d",
             dict(in_channels=2, out_channels=3, kernel_size=[2, 5], padding=[1, 2], stride=2,
                  padding_mode=mode), R(2, 2, 5, 7))
        conv("conv2d",
             dict(in_channels=2, out_channels=3, kernel_size=[4, 3], padding="same",
                  dilation=[1, 2], padding_mode=mode), R(1, 2, 5, 7))
    conv("conv1d", dict(in_channels=3, out_channels=2, kernel_size=3), R(3, 9))
    conv("conv2d", dict(in_channels=4, out_channels=6, kernel_size=3, padding="valid", groups=2),
         R(4, 5, 6))
    conv("conv3d",
         dict(in_channels=2, out_channels=3, kernel_size=[2, 3, 1], stride=[1, 2, 1],
              padding=[0, 1, 0]), R(2, 2, 3, 5, 4))
    conv("conv3d",
         dict(in_channels=4, out_channels=6, kernel_size=3, padding=1, groups=2,
              dilation=[1, 1, 2]), R(1, 4, 3, 4, 6))
    conv("conv3d", dict(in_channels=5, out_channels=5, kernel_size=2, groups=5, bias=False),
         R(2, 5, 3, 4, 3))
    conv("conv_transpose1d",
         dict(in_channels=3, out_channels=4, kernel_size=5, stride=3, padding=1, output_padding=2),
         R(2, 3, 6))
    conv("conv_transpose1d",
         dict(in_channels=4, out_channels=4, kernel_size=3, stride=2, dilation=3, groups=4),
         R(2, 4, 5))
    conv("conv_transpose2d", dict(in_channels=3, out_channels=2, kernel_size=3, stride=2),
         R(3, 4, 2))

    def call(name, attrs, x, **keywords):
        case(name, {**attrs, **keywords}, [x], lambda v: getattr(F, name)(v, **attrs, **keywords))

    ties = torch.randint(0, 3, (2, 3, 8, 7)).float()
    for a in (dict(kernel_size=3, stride=2, padding=1),
              dict(kernel_size=[3, 2], stride=[1, 2], padding=[1, 0], dilation=[2, 1],
                   ceil_mode=True),
              dict(kernel_size=2, stride=3, ceil_mode=True),
              dict(kernel_size=[1, 4], stride=[2, 4])):
        call("max_pool2d", a, ties)
    call("max_pool1d", dict(kernel_size=3), R(2, 3, 10))
    call("max_pool1d", dict(kernel_size=4, stride=3, padding=2, dilation=2, ceil_mode=True),
         R(3, 13))
    call("max_pool3d", dict(kernel_size=2, stride=[1, 2, 2]), R(1, 2, 3, 5, 4))
    call("avg_pool1d", dict(kernel_size=3, stride=2, padding=1, ceil_mode=True), R(2, 3, 10))
    call("avg_pool1d", dict(kernel_size=4, padding=2, count_include_pad=False), R(2, 3, 10))
    call("avg_pool2d", dict(kernel_size=[3, 2], stride=[2, 3], padding=[1, 1], ceil_mode=True),
         R(2, 3, 8, 7))
    call("avg_pool2d", dict(kernel_size=3, stride=1, ceil_mode=True, divisor_override=4),
         R(3, 8, 7))
    call("avg_pool3d", dict(kernel_size=2, padding=1), R(1, 2, 3, 5, 4))
    for size in (1, 4, 5):
        call("adaptive_avg_pool1d", dict(output_size=size), R(2, 3, 10))
        call("adaptive_max_pool1d", dict(output_size=size), torch.randint(0, 4, (2, 3, 10)).float())
    for size in ([3, 5], [7, None], [4, 2], [9, 10]):
        call("adaptive_max_pool2d", dict(output_size=size),
             torch.randint(0, 4, (2, 3, 8, 7)).float())
    call("adaptive_avg_pool2d", dict(output_size=[None, 3]), R(2, 3, 8, 7))
    call("adaptive_avg_pool3d", dict(output_size=[2, 3, 1]), R(1, 2, 5, 6, 4))
    for a in (dict(scale_factor=2), dict(size=[9, 4]), dict(scale_factor=[1.5, 0.6]),
              dict(size=[5, 6], mode="nearest-exact"), dict(size=[3, 10], mode="area"),
              dict(scale_factor=2, mode="bilinear"),
              dict(scale_factor=2, mode="bilinear", align_corners=True),
              dict(size=[3, 11], mode="bilinear", align_corners=False),
              dict(scale_factor=[0.7, 2.3], mode="bilinear", align_corners=False),
              dict(size=[1, 4], mode="bilinear", align_corners=True)):
        call("interpolate", a, R(2, 3, 5, 6))
    call("interpolate", dict(size=7, mode="linear"), R(2, 3, 4))
    call("interpolate", dict(scale_factor=3), R(2, 3, 4))
    call("interpolate", dict(scale_factor=[1, 2, 1.5], mode="trilinear"), R(1, 2, 3, 2, 4))
    for a in (dict(pad=[2, 1], mode="reflect"), dict(pad=[1, 3, 2, 0], mode="replicate"),
              dict(pad=[3, 2, 1, 4], mode="circular"), dict(pad=[-1, 2, 1, -2]),
              dict(pad=[0, 0, 0, 0, 1, 2], value=-1.5)):
        call("pad", a, R(2, 3, 5, 6) if len(a["pad"]) > 2 else R(2, 3, 5))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    torch.manual_seed(3)
    for part in (activations, norms, indexing, reductions, moves, losses, transformers, recurrent,
                 optimizers, spaces):
        part()
