"""networks_data.py: what networks.sh needs besides the programs.

make OUT SEED NAME=DTYPE:SHAPE:RULE ...   random data; shapes are 12x3x8.  Rules: normal; int:K, 0
.. K-1; sparse:K, mostly -100;
                                          class:K, a class 0 .. K-1 that the first tensor shows;
                                          sign, which elements of channel 0 of the first tensor are
                                          positive
falls LOG LOSS ...                        every loss of every model is finite in every epoch, and
the first one named falls limits SECONDS MIB COMMAND ...            runs it; prints its time and
memory; fails if it fails or takes more: processor seconds of
                                          all its threads, and its largest size"""
import array
import json
import math
import os
import random
import resource
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import st  # noqa: E402


def tensor(r, dtype, shape, rule, first):
    n = st.count(shape)
    kind, _, arg = rule.partition(":")
    if kind == "normal":
        return [r.gauss(0, 1) for _ in range(n)]
    if kind == "int":
        return [r.randrange(int(arg)) for _ in range(n)]
    if kind == "sparse":
        return [r.randrange(int(arg)) if r.random() < 0.3 else -100 for _ in range(n)]
    x_shape, x = first
    per_sample = st.count(x_shape[1:])
    if kind == "class":
        labels = [r.randrange(int(arg)) for _ in range(n)]
        for i, label in enumerate(labels):
            if isinstance(x[0], float):
                for k in range(i * per_sample, (i + 1) * per_sample):
                    x[k] += math.sin((k % per_sample) * (label + 1))
            else:
                x[i * per_sample] = label + 1
        return labels
    if kind == "sign":
        plane = per_sample // x_shape[1]
        return [int(x[i * per_sample + k] > 0) for i in range(x_shape[0]) for k in range(plane)]
    raise SystemExit(f"no rule {rule}")


def make(out, seed, *specs):
    r, tensors, first = random.Random(int(seed)), {}, None
    for spec in specs:
        name, _, rest = spec.partition("=")
        dtype, size, rule = rest.split(":", 2)
        shape = [int(d) for d in size.split("x")]
        values = tensor(r, dtype, shape, rule, first)
        first = first or (shape, values)
        tensors[name] = (dtype, shape, values)
    st.write(out, {k: (d, s, array.array(st.CODES[d], v)) for k, (d, s, v) in tensors.items()})


def falls(log, *losses):
    with open(log) as f:
        events = [json.loads(line) for line in f]
    for at, name in enumerate(losses):
        curves = {}
        for e in events:
            if e["event"] == "train" and name in e:
                curves.setdefault(e["model"], []).append(e[name])
        if not curves:
            raise SystemExit(f"FAILED: {name} is not in {log}")
        for model, curve in curves.items():
            if any(v is None or not math.isfinite(v) for v in curve):
                raise SystemExit(f"FAILED: {name} of model {model} is not finite: {curve}")
            if at == 0 and not (len(curve) > 1 and curve[-1] < curve[0]):
                raise SystemExit(f"FAILED: {name} of model {model} does not fall: {curve}")
        print(f"  {name}: " + ", ".join(f"{c[0]:.4g} -> {c[-1]:.4g}" for c in curves.values()))


def limits(seconds, mib, *command):
    before = time.time()
    status = subprocess.run(command).returncode
    wall, use = time.time() - before, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu, size = use.ru_utime + use.ru_stime, use.ru_maxrss / 1024
    print(f"  {wall:.2f} s, {cpu:.2f} s of processors, {size:.0f} MiB")
    if status:
        raise SystemExit(f"FAILED: {' '.join(command)} returned {status}")
    if cpu > float(seconds) or size > float(mib):
        raise SystemExit(f"FAILED: more than {seconds} s of processors or {mib} MiB")


if __name__ == "__main__":
    {"make": make, "falls": falls, "limits": limits}[sys.argv[1]](*sys.argv[2:])
