#!/usr/bin/env python3
"""shapes.py OUT.safetensors: point clouds of simple bodies as data for samples/pointnet_cls.hdl and pointnet_seg.hdl.

Each sample is a body - sphere, box, cylinder, cone, torus, tetrahedron, disc, helix - of random proportions, turned about
the vertical axis, with some noise, centred and scaled into the unit ball.  For classification (the default) x is
[samples, points, 3] f32 and y [samples] the body; with --seg a sample is two bodies side by side and y [samples, points]
says which body each point is of.

    tools/shapes.py train.safetensors --samples 2000 --points 256
    hftac samples/pointnet_cls.hdl -B 4 -Dpoints=256 -Dclasses=8 && hftrun model.so --train train.safetensors --valid 0.1
"""
import argparse
import math
import random

import st


def on_sphere(r):
    z, a = r.uniform(-1, 1), r.uniform(0, 2 * math.pi)
    s = math.sqrt(1 - z * z)
    return s * math.cos(a), s * math.sin(a), z


def on_box(r):
    p = [r.uniform(-1, 1) for _ in range(3)]
    p[r.randrange(3)] = r.choice((-1.0, 1.0))
    return tuple(p)


def on_cylinder(r):
    a = r.uniform(0, 2 * math.pi)
    if r.random() < 2 / 3:
        return math.cos(a), math.sin(a), r.uniform(-1, 1)
    d = math.sqrt(r.random())
    return d * math.cos(a), d * math.sin(a), r.choice((-1.0, 1.0))


def on_cone(r):
    a, d = r.uniform(0, 2 * math.pi), math.sqrt(r.random())
    return d * math.cos(a), d * math.sin(a), 1 - 2 * d if r.random() < 0.7 else -1.0


def on_torus(r):
    a, b = r.uniform(0, 2 * math.pi), r.uniform(0, 2 * math.pi)
    d = 0.75 + 0.25 * math.cos(b)
    return d * math.cos(a), d * math.sin(a), 0.25 * math.sin(b)


CORNERS = ((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))


def on_tetrahedron(r):
    face = r.sample(CORNERS, 3)
    u, v = sorted((r.random(), r.random()))
    w = (u, v - u, 1 - v)
    return tuple(sum(w[k] * face[k][i] for k in range(3)) for i in range(3))


def on_disc(r):
    a, d = r.uniform(0, 2 * math.pi), math.sqrt(r.random())
    return d * math.cos(a), d * math.sin(a), 0.0


def on_helix(r):
    t = r.uniform(-1, 1)
    return 0.6 * math.cos(3 * math.pi * t), 0.6 * math.sin(3 * math.pi * t), t


BODIES = (on_sphere, on_box, on_cylinder, on_cone, on_torus, on_tetrahedron, on_disc, on_helix)


def cloud(r, body, points, noise):
    size = [r.uniform(0.7, 1.3) for _ in range(3)]
    turn = r.uniform(0, 2 * math.pi)
    c, s = math.cos(turn), math.sin(turn)
    out = []
    for _ in range(points):
        x, y, z = (size[i] * v + r.gauss(0, noise) for i, v in enumerate(body(r)))
        out.append((c * x - s * y, s * x + c * y, z))
    return out


def normalised(points):
    centre = [sum(p[i] for p in points) / len(points) for i in range(3)]
    moved = [[p[i] - centre[i] for i in range(3)] for p in points]
    radius = max(math.sqrt(sum(v * v for v in p)) for p in moved) or 1
    return [v / radius for p in moved for v in p]


def segmented(r, points, classes, noise):
    """Two different bodies, their points in random order."""
    first, second = r.sample(range(classes), 2)
    half = points // 2
    marked = [((x - 1.5, y, z), first) for x, y, z in cloud(r, BODIES[first], half, noise)]
    marked += [((x + 1.5, y, z), second) for x, y, z in cloud(r, BODIES[second], points - half, noise)]
    r.shuffle(marked)
    return [p for p, _ in marked], [label for _, label in marked]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--samples", type=int, default=1000)
    p.add_argument("--points", type=int, default=256)
    p.add_argument("--classes", type=int, default=None, help=f"the first of the {len(BODIES)} bodies (--seg: default 4)")
    p.add_argument("--seg", action="store_true", help="a label for each point")
    p.add_argument("--noise", type=float, default=0.02)
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()
    classes = a.classes or (4 if a.seg else len(BODIES))
    if not 2 <= classes <= len(BODIES) or a.points < 2 or a.samples < 1:
        p.error(f"--classes must be 2 .. {len(BODIES)}, --points at least 2, --samples at least 1")
    r = random.Random(a.seed)
    xs, ys = [], []
    for _ in range(a.samples):
        if a.seg:
            points, labels = segmented(r, a.points, classes, a.noise)
            ys += labels
        else:
            label = r.randrange(classes)
            points = cloud(r, BODIES[label], a.points, a.noise)
            ys.append(label)
        xs += normalised(points)
    y_shape = [a.samples, a.points] if a.seg else [a.samples]
    st.write(a.out, {"x": ("F32", [a.samples, a.points, 3], xs), "y": ("I64", y_shape, ys)})
    print(f"{a.samples} clouds of {a.points} points, {classes} classes")


if __name__ == "__main__":
    main()
