"""Losses and layers at their edges."""
import torch
import torch.nn.functional as F

from table import *

nn = torch.nn
UNITS = T(0.0, -0.0, 1.0, 0.5, least, 1e-20, 0.99999994, 1e-8)
A, B = UNITS.repeat_interleave(5), T(0.0, 1.0, 0.5, 0.25, 1e-30).repeat(8)
# Operands of losses of two tensors, with ties and kinks one apart.
P, Q = SOME.repeat_interleave(8), T(0.0, 1.0, -1.0, 2.0, inf, -inf, nan, largest).repeat(len(SOME))


def reductions(name, text, run, settings=None, **more):
    """The loss with each reduction; {r} in the text is the argument."""
    for r in ("none", "sum", "mean"):
        finite = more if r == "none" else {k: small(v) for k, v in more.items()}
        case(f"{name}, {r}", text.format(r=f'reduction = "{r}"'),
             lambda *a, r=r: run(*a, reduction=r),
             settings={"signs": False, "relative": 1e-5, **(settings or {})}, **finite)


def small(v):
    """Of the operands those that leave a sum finite."""
    return v[:4] if torch.is_tensor(v) and v.is_floating_point() and v.dim() == 1 else v


def losses():
    scores = torch.stack([LEFT, RIGHT, torch.zeros(len(LEFT))], -1)
    scores = scores[~(scores[:, :2] == largest).all(1)]
    for c in (0, 2):
        case(f"cross_entropy, none, class {c}", '@y = cross_entropy(@x, @t, reduction = "none")',
             lambda x, t: F.cross_entropy(x, t, reduction="none"), x=scores,
             t=torch.full((len(scores),), c), settings=dict(relative=1e-5, signs=False))
    few, t = T(0.0, 0, 0, 1e5, -1e5, 0, 3, 3, 1, -1e20, 1e20, 0).reshape(4, 3), I(0, 1, 2, 1)
    weights = T(0.0, 1.0, 2.5)
    for r in ("none", "sum", "mean"):
        for a, h in ((dict(), ""), (dict(ignore_index=1), ", ignore_index = 1"),
                     (dict(label_smoothing=0.2), ", label_smoothing = 0.2"),
                     (dict(label_smoothing=1.0), ", label_smoothing = 1"),
                     (dict(label_smoothing=0.0), ", label_smoothing = 0"),
                     (dict(label_smoothing=0.3, ignore_index=2),
                      ", label_smoothing = 0.3, ignore_index = 2")):
            case(f"cross_entropy {r}{h}", f'cross_entropy(@x, @t, reduction = "{r}"{h})',
                 lambda x, t, a=a, r=r: F.cross_entropy(x, t, reduction=r, **a), x=few, t=t,
                 settings=dict(relative=1e-5, signs=False))
            case(f"cross_entropy weight {r}{h}",
                 f'cross_entropy(@x, @t, [0, 1, 2.5], reduction = "{r}"{h})',
                 lambda x, t, a=a, r=r: F.cross_entropy(x, t, weights.to(x.dtype), reduction=r,
                                                        **a), x=few, t=t,
                 settings=dict(relative=1e-5, signs=False))
        case(f"nll_loss {r}", f'nll_loss(@x, @t, [0, 1, 2.5], ignore_index = 2, reduction = "{r}")',
             lambda x, t, r=r: F.nll_loss(x, t, weights.to(x.dtype), ignore_index=2, reduction=r),
             x=few, t=t,
             settings=dict(signs=False))
        soft = T(1.0, 0, 0, 0.5, 0, 0.5, 0, 0, 0, 0, 1, 0).reshape(4, 3)
        for a, h in ((dict(), ""), (dict(label_smoothing=0.2), ", label_smoothing = 0.2")):
            case(f"cross_entropy soft {r}{h}",
                 f'cross_entropy(@x, @t, [0, 1, 2.5], reduction = "{r}"{h})',
                 lambda x, t, a=a, r=r: F.cross_entropy(x, t, weights.to(x.dtype), reduction=r,
                                                        **a), x=few, t=soft,
                 settings=dict(relative=1e-5, signs=False))
    case("cross_entropy, all ignored, sum",
         'cross_entropy(@x, @t, ignore_index = 0, reduction = "sum")',
         lambda x, t: F.cross_entropy(x, t, ignore_index=0, reduction="sum"), x=few,
         t=I(0, 0, 0, 0), settings=dict(signs=False))
    case("cross_entropy of one class", 'cross_entropy(@x, @t, reduction = "none")',
         lambda x, t: F.cross_entropy(x, t, reduction="none"), x=REALS.reshape(-1, 1),
         t=torch.zeros(len(REALS), dtype=torch.int64),
         settings=dict(signs=False))
    case("cross_entropy, other dim", 'cross_entropy(@x, @t, reduction = "none", dim = -1)',
         lambda x, t: F.cross_entropy(x.T, t, reduction="none") if False
         else F.cross_entropy(x, t, reduction="none"), x=few, t=t,
         settings=dict(relative=1e-5, signs=False))
    reductions("mse_loss", "mse_loss(@x, @t, {r})", F.mse_loss, x=P, t=Q)
    reductions("l1_loss", "l1_loss(@x, @t, {r})", F.l1_loss, x=P, t=Q)
    for beta in (1, 0, 2.5):
        reductions(f"smooth_l1_loss {beta}", f"smooth_l1_loss(@x, @t, {{r}}, beta = {beta})",
                   lambda x, t, reduction, b=beta: F.smooth_l1_loss(
                       x, t, reduction=reduction, beta=b), x=P, t=Q)
    for delta in (1, 0.5, 3):
        reductions(f"huber_loss {delta}", f"huber_loss(@x, @t, {{r}}, delta = {delta})",
                   lambda x, t, reduction, d=delta: F.huber_loss(
                       x, t, reduction=reduction, delta=d), x=P, t=Q)
    reductions("binary_cross_entropy", "binary_cross_entropy(@x, @t, {r})", F.binary_cross_entropy,
               x=A, t=B, fixed=("t",))
    reductions("binary_cross_entropy weight", "binary_cross_entropy(@x, @t, @w, {r})",
               lambda x, t, w, reduction: F.binary_cross_entropy(x, t, w, reduction=reduction), x=A,
               t=B, w=torch.arange(40) % 3 * 1.0,
               fixed=("t", "w"))
    logits, targets = REALS.repeat_interleave(3), T(0.0, 1.0, 0.3).repeat(len(REALS))
    reductions("binary_cross_entropy_with_logits", "binary_cross_entropy_with_logits(@x, @t, {r})",
               F.binary_cross_entropy_with_logits, x=logits, t=targets)
    for pos in (0.0, 3.0):
        reductions(f"bce_with_logits pos_weight {pos}",
                   f"bce_with_logits(@x, @t, pos_weight = {pos}, {{r}})",
                   lambda x, t, reduction, p=pos: F.binary_cross_entropy_with_logits(
                       x, t, pos_weight=torch.tensor(p, dtype=x.dtype), reduction=reduction),
                   x=logits[logits.abs() != largest], t=targets[logits.abs() != largest],
                   settings=dict(absolute=2e-6))
    x, t = T(-1.0, -1.0, -inf, -1.0, nan, -1.0, -0.5,
             -1.0).repeat(2), T(0.5, 1.0, 0.5, -1.0, 0.5, inf, nan, least).repeat(2)
    reductions("kl_div", "kl_div(@x, @t, {r})", F.kl_div, x=x, t=t)
    reductions("kl_div of a target 0", "kl_div(@x, @t, {r})", F.kl_div, x=T(-1.0, -1.0, -2.0, -inf),
               t=T(0.0, -0.0, 1.0, 0.0), fixed=("t",))
    reductions("kl_div log_target", "kl_div(@x, @t, {r}, log_target = true)",
               lambda x, t, reduction: F.kl_div(x, t, reduction=reduction, log_target=True),
               x=T(-1.0, -1.0, -inf, -inf, -1.0, nan),
               t=T(-1.0, -2.0, -1.0, -inf, -inf, -1.0))
    case("kl_div batchmean", 'kl_div(@x, @t, "batchmean")',
         lambda x, t: F.kl_div(x, t, reduction="batchmean"), x=-both(1.0, 2.0).abs().reshape(2, 2),
         t=T(0.5, 1.0, 0.25, -1.0).abs().reshape(2, 2))
    pairs = T(1.0, 0, 0, 1, 0, 0, 1, 1, 1, 1, -1, -1, 2, 2, 1e20, 0, 1, 0, 1e-20, 0, 0, 1, inf, 0,
              1, 0).reshape(13, 2)
    others = pairs.roll(1, 0)
    for margin in (0, 0.5):
        for sign in (1.0, -1.0):
            case(f"cosine_embedding_loss {margin} {sign}",
                 f'cosine_embedding_loss(@a, @b, @t, {margin}, "none")',
                 lambda a, b, t, m=margin: F.cosine_embedding_loss(a, b, t, m, reduction="none"),
                 a=pairs, b=others,
                 t=torch.full((13,), sign), fixed=("t",), settings=dict(signs=False, relative=1e-5))
            z, zz = SOME.repeat_interleave(3), T(1.0, 0.0, 0.5).repeat(len(SOME))
            case(f"margin_ranking_loss {margin} {sign}",
                 f'margin_ranking_loss(@a, @b, @t, {margin}, "none")',
                 lambda a, b, t, m=margin: F.margin_ranking_loss(a, b, t, m, reduction="none"), a=z,
                 b=zz, t=torch.full((len(z),), sign),
                 fixed=("t",), settings=dict(signs=False))
            case(f"hinge_embedding_loss {margin} {sign}",
                 f'hinge_embedding_loss(@x, @t, {margin}, "none")',
                 lambda x, t, m=margin: F.hinge_embedding_loss(x, t, m, reduction="none"), x=REALS,
                 t=torch.full((len(REALS),), sign),
                 fixed=("t",), settings=dict(signs=False))
    case("soft_margin_loss", 'soft_margin_loss(@x, @t, "none")',
         lambda x, t: F.soft_margin_loss(x, t, reduction="none"), x=REALS.repeat(2),
         t=T(1.0, -1.0).repeat_interleave(len(REALS)), fixed=("t",), settings=dict(signs=False))
    for r in ("sum", "mean"):
        few_x, few_t = T(1.0, 0.0, 2.0, 3.0), T(1.0, -1.0, 1.0, -1.0)
        case(f"hinge_embedding_loss {r}", f'hinge_embedding_loss(@x, @t, 1, "{r}")',
             lambda x, t, r=r: F.hinge_embedding_loss(x, t, 1, reduction=r), x=few_x, t=few_t,
             fixed=("t",))
        case(f"soft_margin_loss {r}", f'soft_margin_loss(@x, @t, "{r}")',
             lambda x, t, r=r: F.soft_margin_loss(x, t, reduction=r), x=few_x, t=few_t,
             fixed=("t",))
    hits = T(0.0, 1.0, 1.0, inf, inf, 0.0, nan, 0.0, 1.0, 5.0, 5.0, 5.0).reshape(4, 3)
    case("accuracy", "accuracy(@x, @t)", lambda x, t: (x.argmax(1) == t).float().mean(), x=hits,
         t=I(1, 0, 0, 2), fixed=("x",))


def module(name, text, m, x, **settings):
    state = torch.random.get_rng_state()
    for p in m.parameters():
        p.data = torch.linspace(-1, 1, p.numel()).reshape(p.shape) + 0.125
    torch.random.set_rng_state(state)
    case(name, f"@layer = {text}\n@y = @layer(@x)", None, module=m, x=x,
         settings=dict(relative=2e-5, absolute=2e-5, signs=False, **settings))


def norms():
    constant = T(2.0, 2, 2, 2, 0, 0, 0, 0, 1, 2, 3, 4, 0.1, 0.1, 0.1, 0.1).reshape(4, 4)
    special = T(1.0, inf, 0, 0, nan, 1, 1, 1, 1e15, -1e15, 0, 0, -inf, 0, 0, 0).reshape(4, 4)
    tiny = T(1e-10, 0, 0, 1e-10, 1e-4, 0, 0, 0).reshape(2, 4)
    one = T(3.0, -2.0, 0.0).reshape(3, 1)
    for name, x in (("constant", constant), ("special", special), ("tiny", tiny)):
        for eps in (1e-5, 0.0, 0.5):
            if eps == 0 and name != "special":  # 0 / 0, and gradients that cancel
                continue
            module(f"LayerNorm {name} {eps}", f"LayerNorm(eps = {eps})", nn.LayerNorm(4, eps=eps),
                   x)
            module(f"RMSNorm {name} {eps}", f"RMSNorm(eps = {eps})", nn.RMSNorm(4, eps=eps), x)
            module(f"GroupNorm {name} {eps}", f"GroupNorm(2, eps = {eps})",
                   nn.GroupNorm(2, 4, eps=eps), x)
            module(f"InstanceNorm1d {name} {eps}", f"InstanceNorm1d(eps = {eps}, affine = true)",
                   nn.InstanceNorm1d(len(x), eps=eps, affine=True), x.reshape(1, -1, 4))
        module(f"BatchNorm1d {name}", "BatchNorm1d()", nn.BatchNorm1d(len(x)), x.T)
        module(f"BatchNorm1d momentum 1 {name}", "BatchNorm1d(momentum = 1)",
               nn.BatchNorm1d(len(x), momentum=1.0), x.T)
        module(f"BatchNorm1d momentum 0 {name}", "BatchNorm1d(momentum = 0)",
               nn.BatchNorm1d(len(x), momentum=0.0), x.T)
        module(f"BatchNorm1d momentum none {name}", "BatchNorm1d(momentum = none, affine = false)",
               nn.BatchNorm1d(len(x), momentum=None, affine=False), x.T)
        module(f"BatchNorm1d untracked {name}", "BatchNorm1d(track_running_stats = false)",
               nn.BatchNorm1d(len(x), track_running_stats=False), x.T)
        module(f"BatchNorm1d frozen {name}", "BatchNorm1d(frozen = true)",
               nn.BatchNorm1d(len(x)).eval(), x.T)
        module(f"InstanceNorm1d tracked {name}", "InstanceNorm1d(track_running_stats = true)",
               nn.InstanceNorm1d(len(x), track_running_stats=True),
               x.reshape(1, -1, 4).repeat(2, 1, 1))
        module(f"InstanceNorm1d frozen {name}",
               "InstanceNorm1d(track_running_stats = true, frozen = true)",
               nn.InstanceNorm1d(len(x), track_running_stats=True).eval(), x.reshape(1, -1, 4))
    level = T(2.0, 2, 2, 2, 0, 0, 0, 0).reshape(2, 4)
    module("LayerNorm level, eps 0", "LayerNorm(eps = 0)", nn.LayerNorm(4, eps=0), level)
    module("RMSNorm level, eps 0", "RMSNorm(eps = 0)", nn.RMSNorm(4, eps=0), level)
    module("GroupNorm level, eps 0", "GroupNorm(2, eps = 0)", nn.GroupNorm(2, 4, eps=0), level)
    module("LayerNorm of one", "LayerNorm()", nn.LayerNorm(1), one)
    module("RMSNorm of one", "RMSNorm()", nn.RMSNorm(1), one)
    module("LayerNorm of two dims", "LayerNorm([2, 4])", nn.LayerNorm((2, 4)),
           tiny.reshape(1, 2, 4))
    module("GroupNorm of one value, three samples", "GroupNorm(1)", nn.GroupNorm(1, 1), one)
    module("InstanceNorm1d frozen, one value",
           "InstanceNorm1d(track_running_stats = true, frozen = true)",
           nn.InstanceNorm1d(3, track_running_stats=True).eval(), one.reshape(1, 3, 1))
    module("BatchNorm2d", "BatchNorm2d()", nn.BatchNorm2d(2), constant.reshape(2, 2, 2, 2))
    module("BatchNorm3d", "BatchNorm3d()", nn.BatchNorm3d(2), constant.reshape(2, 2, 2, 2, 1))
    module("InstanceNorm2d", "InstanceNorm2d()", nn.InstanceNorm2d(2), constant.reshape(2, 2, 2, 2))
    v = T(1.0, -2.0)
    case("layer_norm", "layer_norm(@x, [4])", lambda x: F.layer_norm(x, [4]), x=constant,
         settings=dict(signs=False))
    case("rms_norm", "rms_norm(@x, [4])", lambda x: F.rms_norm(x, [4]), x=constant,
         settings=dict(signs=False))
    case("group_norm", "group_norm(@x, 2, @w)", lambda x, w: F.group_norm(x, 2, w), x=constant,
         w=T(1.0, 2, 3, 4), settings=dict(signs=False, absolute=2e-5))
    case("batch_norm", "batch_norm(@x, @m, @v)", lambda x, m, v: F.batch_norm(x, m, v),
         x=T(1.0, 2, inf, nan, 1, 0).reshape(3, 2), m=v, v=T(0.0, 1.0), fixed=("m", "v"),
         settings=dict(signs=False))


def pools():
    x1 = T(1.0, 1, -inf, -inf, -inf, nan, 2, 2, 0, -1, inf, inf).reshape(1, 2, 6)
    flat = T(2.0, 2, 2, 2, 1, 2, 2, 0, 0, 0, -1, -1, -2, -2, -2, -2, -3, -2).reshape(1, 2, 3, 3)
    lines = flat.reshape(1, 2, 9)

    def pool(name, args, x):
        text = ", ".join(f"{k} = {str(v).lower() if isinstance(v, bool) else list(v) if isinstance(v, tuple) else 'none' if v is None else v}" for k, v in args.items())
        case(f"{name}({text})", f"{name}(@x, {text})", lambda x: getattr(F, name)(x, **args), x=x,
             settings=dict(signs=False))

    for args in (dict(kernel_size=2), dict(kernel_size=3, stride=2, padding=1),
                 dict(kernel_size=2, stride=3, ceil_mode=True), dict(kernel_size=2, dilation=2),
                 dict(kernel_size=1, stride=2)):
        pool("max_pool1d", args, lines)
        pool("max_pool2d", args, flat)
        if args.get("dilation", 1) == 1:
            pool("avg_pool1d", args, lines)
            pool("avg_pool2d", args, flat)
    for args in (dict(kernel_size=2), dict(kernel_size=3, stride=2, padding=1)):
        pool("max_pool1d", args, x1)
        pool("avg_pool1d", args, x1)
    cube = flat.reshape(1, 1, 2, 3, 3)
    pool("max_pool3d", dict(kernel_size=2), cube)
    pool("avg_pool3d", dict(kernel_size=2, padding=1, count_include_pad=False), cube)
    pool("avg_pool2d",
         dict(kernel_size=3, padding=1, stride=2, count_include_pad=False, ceil_mode=True), flat)
    pool("avg_pool2d", dict(kernel_size=2, padding=1, stride=3, ceil_mode=True), flat)
    pool("avg_pool2d", dict(kernel_size=2, divisor_override=3), flat)
    for size in (1, 2, 3, 4):
        for n, x in ((1, lines), (2, flat), (3, cube)):
            pool(f"adaptive_max_pool{n}d", dict(output_size=size), x)
            pool(f"adaptive_avg_pool{n}d", dict(output_size=size), x)
    pool("adaptive_max_pool1d", dict(output_size=2), x1)
    pool("adaptive_avg_pool1d", dict(output_size=3), x1)
    for text, m, x in (("MaxPool1d(2)", nn.MaxPool1d(2), lines),
                       ("MaxPool2d(2, 1)", nn.MaxPool2d(2, 1), flat),
                       ("MaxPool3d(2, 1)", nn.MaxPool3d(2, 1), cube),
                       ("AvgPool1d(2)", nn.AvgPool1d(2), lines),
                       ("AvgPool2d(2, 1)", nn.AvgPool2d(2, 1), flat),
                       ("AvgPool3d(2, 1)", nn.AvgPool3d(2, 1), cube),
                       ("AdaptiveAvgPool1d(2)", nn.AdaptiveAvgPool1d(2), lines),
                       ("AdaptiveAvgPool2d(2)", nn.AdaptiveAvgPool2d(2), flat),
                       ("AdaptiveAvgPool3d(1)", nn.AdaptiveAvgPool3d(1), cube),
                       ("AdaptiveMaxPool1d(2)", nn.AdaptiveMaxPool1d(2), lines),
                       ("AdaptiveMaxPool2d(2)", nn.AdaptiveMaxPool2d(2), flat),
                       ("AdaptiveMaxPool3d(1)", nn.AdaptiveMaxPool3d(1), cube),
                       ("Upsample(scale_factor = 2)", nn.Upsample(scale_factor=2), flat),
                       ("UpsamplingNearest2d(scale_factor = 2)",
                        nn.UpsamplingNearest2d(scale_factor=2), flat),
                        ("UpsamplingBilinear2d(scale_factor = 2)",
                         nn.UpsamplingBilinear2d(scale_factor=2), flat),
                       ("ZeroPad1d(1)", nn.ZeroPad1d(1), lines),
                       ("ZeroPad2d([1, 0, 2, 0])", nn.ZeroPad2d((1, 0, 2, 0)), flat),
                       ("ConstantPad2d(1, 3)", nn.ConstantPad2d(1, 3.0), flat),
                       ("ReflectionPad1d(2)", nn.ReflectionPad1d(2), lines),
                       ("ReflectionPad2d(2)", nn.ReflectionPad2d(2), flat),
                       ("ReplicationPad1d(2)", nn.ReplicationPad1d(2), lines),
                       ("ReplicationPad2d(3)", nn.ReplicationPad2d(3), flat),
                       ("Flatten()", nn.Flatten(), flat)):
        module(text, text, m, x)
    for args, text in ((dict(size=1), "size = 1"),
                       (dict(size=[1, 5], mode="bilinear"), 'size = [1, 5], mode = "bilinear"'),
                       (dict(size=[1, 5], mode="bilinear", align_corners=True),
                        'size = [1, 5], mode = "bilinear", align_corners = true'),
                       (dict(scale_factor=0.34), "scale_factor = 0.34"),
                       (dict(size=5, mode="nearest-exact"), 'size = 5, mode = "nearest-exact"'),
                       (dict(size=2, mode="area"), 'size = 2, mode = "area"')):
        case(f"interpolate {text}", f"interpolate(@x, {text})",
             lambda x, a=args: F.interpolate(x, **a), x=flat, settings=dict(signs=False))
    case("interpolate of infinity", "interpolate(@x, scale_factor = 2)",
         lambda x: F.interpolate(x, scale_factor=2), x=x1)
    case("interpolate of one", 'interpolate(@x, size = 3, mode = "linear")',
         lambda x: F.interpolate(x, size=3, mode="linear"), x=T(2.0).reshape(1, 1, 1))
    for text in ("upsample_nearest2d(@x, scale_factor = 2)",
                 "upsample_bilinear2d(@x, scale_factor = 2, align_corners = true)"):
        case(text, text,
             lambda x, b="bilinear" in text: F.interpolate(x, scale_factor=2, mode="bilinear",
                                                           align_corners=True) if b
                                                           else F.interpolate(x, scale_factor=2),
                                                           x=flat, settings=dict(signs=False))
    case("upsample_nearest1d", "upsample_nearest1d(@x, 9)", lambda x: F.interpolate(x, 9), x=x1)
    for mode in ("reflect", "replicate", "circular", "constant"):
        case(f"pad {mode}", f'pad(@x, [2, 1], "{mode}")', lambda x, m=mode: F.pad(x, (2, 1), m),
             x=x1)
    case("pad -inf", "pad(@x, [1, -1], value = log(0))", lambda x: F.pad(x, (1, -1), value=-inf),
         x=x1)


def others():
    x = T(1.0, inf, nan, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0).reshape(1, 2, 6)
    plain = T(1.0, 2, 0, 0, -1, 3, 0, 0, 1, 0, 0, 2).reshape(1, 2, 6)
    for text, m, v in (("Conv1d(2, 3, padding = 1)", nn.Conv1d(2, 2, 3, padding=1), x),
                       ("Conv1d(2, 1, stride = 5)", nn.Conv1d(2, 2, 1, stride=5), plain),
                       ("Conv2d(2, 3, padding = 2)", nn.Conv2d(2, 2, 3, padding=2),
                        plain.reshape(1, 2, 1, 6)),
                       ("Conv2d(2, 3, padding = 1)", nn.Conv2d(2, 2, 3, padding=1),
                        T(2.0, 3.0).reshape(1, 2, 1, 1)),
                        ("Conv3d(1, 2, padding = 1)", nn.Conv3d(2, 1, 2, padding=1),
                         plain.reshape(1, 2, 1, 2, 3)),
                       ("ConvTranspose1d(2, 3, 2)", nn.ConvTranspose1d(2, 2, 3, 2), plain),
                       ("ConvTranspose2d(2, 2, 3)", nn.ConvTranspose2d(2, 2, 2, 3),
                        T(2.0, 3.0).reshape(1, 2, 1, 1)),
                       ("Linear(1)", nn.Linear(1, 1), T(inf, 0.0, -0.0, nan).reshape(4, 1)),
                       ("Linear(2)", nn.Linear(2, 2),
                        T(largest, largest, 0, inf, 1, 2).reshape(3, 2))):
        module(text, text, m, v)
    w = T(0.5, -1.0, 2.0).reshape(1, 1, 3)
    case("conv1d", "conv1d(@x, @w, padding = 2, dilation = 2)",
         lambda x, w: F.conv1d(x, w, padding=2, dilation=2),
         x=T(1.0, inf, 0, 0, 0, 0, 2).reshape(1, 1, 7), w=w)
    case("conv2d", "conv2d(@x, @w, padding = 1)", lambda x, w: F.conv2d(x, w, padding=1),
         x=plain.reshape(2, 1, 2, 3), w=T(0.0, -0.0, 1, 2).reshape(1, 1, 2, 2),
         settings=dict(signs=False))
    case("conv3d", "conv3d(@x, @w)", lambda x, w: F.conv3d(x, w), x=plain.reshape(1, 1, 2, 2, 3),
         w=torch.ones(1, 1, 2, 2, 3))
    case("conv_transpose1d", "conv_transpose1d(@x, @w, stride = 4)",
         lambda x, w: F.conv_transpose1d(x, w, stride=4), x=T(1.0, -0.0, 2).reshape(1, 1, 3), w=w,
         settings=dict(signs=False))
    case("conv_transpose2d", "conv_transpose2d(@x, @w, padding = 1)",
         lambda x, w: F.conv_transpose2d(x, w, padding=1), x=plain.reshape(2, 1, 2, 3),
         w=torch.ones(1, 1, 3, 3), settings=dict(signs=False))
    case("linear", "linear(@x, @w, @b)", F.linear, x=T(1.0, inf, 0, 0).reshape(2, 2),
         w=T(0.0, 1, 2, 3).reshape(2, 2), b=T(-inf, nan))
    d = torch.ones(2, 3, 4)
    for p in (0, 1):
        for n, v in (("", d), ("1d", d), ("2d", d), ("3d", d.reshape(1, 2, 3, 4))):
            case(f"dropout{n} {p}", f"dropout{n}(@x, {p})",
                 lambda x, f=getattr(F, f"dropout{n}"), p=p: f(x, p), x=v)
            case(f"Dropout{n} {p}", f"@layer = Dropout{n}({p})\n@y = @layer(@x)",
                 lambda x, f=getattr(F, f"dropout{n}"), p=p: f(x, p), x=v)
    case("rrelu of one slope", "rrelu(@x, 0.25, 0.25)",
         lambda x: F.rrelu(x, 0.25, 0.25, training=True), x=REALS)
    case("RReLU of one slope", "@layer = RReLU(0, 0)\n@y = @layer(@x)",
         lambda x: F.rrelu(x, 0, 0, training=True), x=REALS, settings=dict(signs=False))
    i = I(0, 1, 1, 2).reshape(2, 2)
    for args, more in (("", {}), (", padding_idx = 1", dict(padding_idx=1)),
                       (", padding_idx = -3", dict(padding_idx=-3))):
        m = nn.Embedding(3, 2, **more)
        m.weight.data = T(inf, 1, 2, nan, 0, -0.0).reshape(3, 2)
        case(f"Embedding{args}", f"@layer = Embedding(3, 2{args})\n@y = @layer(@i)", None, module=m,
             i=i)
    bags = T(1.0, 2, 3, 1, -1, -1).reshape(3, 2)
    for mode in ("sum", "mean", "max"):
        for pad in (None, 1):
            text = "none" if pad is None else pad
            case(f"embedding_bag {mode} {text}", f'embedding_bag(@i, @w, "{mode}", {text})',
                 lambda i, w, m=mode, p=pad: F.embedding_bag(i, w, mode=m, padding_idx=p),
                 i=I(0, 1, 1, 1, 0, 0).reshape(3, 2), w=bags)
            m = nn.EmbeddingBag(3, 2, mode=mode, padding_idx=pad)
            m.weight.data = bags.clone()
            case(f"EmbeddingBag {mode} {text}",
                 f'@layer = EmbeddingBag(3, 2, "{mode}", {text})\n@y = @layer(@i)', None, module=m,
                 i=I(0, 1, 1, 1, 0, 0).reshape(3, 2))
    e = T(50.0, -50, 0, 0, 100, 100, -100, 3, 0, 0, 1e4, -1e4).reshape(3, 2, 2)
    for text, m in (("LSTM(2)", nn.LSTM(2, 2)), ("GRU(2)", nn.GRU(2, 2)), ("RNN(2)", nn.RNN(2, 2)),
                    ('RNN(2, nonlinearity = "relu")', nn.RNN(2, 2, nonlinearity="relu"))):
        for p in m.parameters():
            p.data = torch.linspace(-1, 1, p.numel()).reshape(p.shape) * 2
        case(text, f"@layer = {text}\n@y = @layer(@x)[0]", None, module=First(m), x=e,
             settings=dict(signs=False, relative=1e-4))
    for text, m in (("LSTMCell(2)", nn.LSTMCell(2, 2)), ("GRUCell(2)", nn.GRUCell(2, 2)),
                    ("RNNCell(2)", nn.RNNCell(2, 2))):
        for p in m.parameters():
            p.data = torch.linspace(-1, 1, p.numel()).reshape(p.shape) * 2
        case(text, f"@layer = {text}\n@y = @layer(@x){'[0]' if text[0] == 'L' else ''}", None,
             module=First(m) if text[0] == "L" else m, x=e[0],
             settings=dict(signs=False, relative=1e-4))
    q = T(1.0, 0, 100, -100, 1e4, 1e4).reshape(1, 3, 2)
    case("scaled_dot_product_attention", "scaled_dot_product_attention(@q, @k, @v)",
         F.scaled_dot_product_attention, q=q, k=q.flip(1), v=q / 100,
         settings=dict(relative=1e-5, signs=False))
    mask = torch.tensor([[True, False, False], [True, True, False], [False, False, True]])
    case("attention, one key", "scaled_dot_product_attention(@q, @k, @v, @m)",
         F.scaled_dot_product_attention, q=q, k=q.flip(1), v=q / 100, m=mask,
         settings=dict(relative=1e-5, signs=False))
    case("attention, causal", "scaled_dot_product_attention(@q, @k, @v, is_causal = true)",
         lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), q=q, k=q.flip(1),
         v=q / 100,
         settings=dict(relative=1e-5, signs=False))
    m = nn.MultiheadAttention(2, 1)
    for p in m.parameters():
        p.data = torch.linspace(-1, 1, p.numel()).reshape(p.shape)
    case("MultiheadAttention of large numbers",
         "@layer = MultiheadAttention(1)\n@y = @layer(@x)[0]", None, module=First(m, 3),
         x=q.reshape(3, 1, 2), settings=dict(relative=1e-4, signs=False))
    m = nn.TransformerEncoderLayer(2, 1, 3, dropout=0)
    for p in m.parameters():
        p.data = torch.linspace(-1, 1, p.numel()).reshape(p.shape)
    module_text = "@layer = TransformerEncoderLayer(1, 3, dropout = 0)\n@y = @layer(@x)"
    case("TransformerEncoderLayer of large numbers", module_text, None, module=m,
         x=q.reshape(3, 1, 2), settings=dict(relative=1e-4, absolute=1e-5, signs=False))
    m = nn.TransformerDecoderLayer(2, 1, 3, dropout=0)
    for p in m.parameters():
        p.data = torch.linspace(-1, 1, p.numel()).reshape(p.shape)
    case("TransformerDecoderLayer",
         "@layer = TransformerDecoderLayer(1, 3, dropout = 0)\n@y = @layer(@x, @m)", None, module=m,
         x=q.reshape(3, 1, 2) / 100, m=q.flip(1).reshape(3, 1, 2) / 50,
         settings=dict(relative=1e-4, absolute=1e-5, signs=False))


class First(nn.Module):
    """The first result of a layer that has several; its state as that of the layer."""

    def __init__(self, layer, times=1):
        super().__init__()
        self.inner, self.times = layer, times

    def forward(self, x):
        return self.inner(*[x] * self.times)[0]

    def state_dict(self, **keywords):
        return self.inner.state_dict(**keywords)
