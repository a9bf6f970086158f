#!/usr/bin/env python3
"""digits28.py IN.safetensors OUT.safetensors: images of digits as data for samples/lenet.hdl.

IN has image u8 [samples, H, W] and label, such as samples/data/digits-train.safetensors (8 x 8, values 0 .. 16) or MNIST
(28 x 28, values 0 .. 255).  Writes x f32 [samples, 1, 28, 28], scaled up bilinearly to at most 28 x 28 and to values
0 .. 1, and y i64.

    tools/digits28.py samples/data/digits-train.safetensors train.safetensors
    hftac samples/lenet.hdl -B 4 && hftrun model.so --train train.safetensors --valid 0.1
"""
import argparse
import array
import sys

import st

SIZE = 28


def weights(n):
    """For each of SIZE rows: the two rows of n that it lies between, and the share of the second."""
    out = []
    for i in range(SIZE):
        at = min(max((i + 0.5) * n / SIZE - 0.5, 0), n - 1)
        low = min(int(at), n - 2) if n > 1 else 0
        out.append((low, min(low + 1, n - 1), at - low))
    return out


def enlarged(image, h, w, rows, columns, scale):
    wide = []
    for i in range(h):
        row = image[i * w : (i + 1) * w]
        wide.append([scale * (row[a] * (1 - t) + row[b] * t) for a, b, t in columns])
    return [u * (1 - t) + v * t for a, b, t in rows for u, v in zip(wide[a], wide[b])]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("input")
    p.add_argument("out")
    p.add_argument("--samples", type=int, help="take only the first ones")
    a = p.parse_args()
    data = st.read(a.input)
    if "image" not in data or "label" not in data or len(data["image"][1]) != 3:
        sys.exit(f"{a.input}: it needs image [samples, H, W] and label [samples]")
    _, (n, h, w), image = data["image"]
    n = min(n, a.samples or n)
    if h > SIZE or w > SIZE:
        sys.exit(f"{a.input}: images of {h} x {w} are larger than {SIZE} x {SIZE}")
    scale = 1 / (max(image) or 1)
    rows, columns = weights(h), weights(w)
    x = array.array("f")
    for i in range(n):
        x.extend(enlarged(image[i * h * w : (i + 1) * h * w], h, w, rows, columns, scale))
    y = [int(v) for v in data["label"][2][:n]]
    st.write(a.out, {"x": ("F32", [n, 1, SIZE, SIZE], x), "y": ("I64", [n], y)})
    print(f"{n} images of {SIZE} x {SIZE}")


if __name__ == "__main__":
    main()
