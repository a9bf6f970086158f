"""Damages files and looks at how the programs end: an error is right, a crash or an internal error
is not.

    damage.py --bin BUILD/bin --samples DIR --programs DIR --count N --seed S

For each program in DIR (.hdl): N damaged copies of it and N of its graphs' text (.hir) go to hftac,
which must end with 0 or 1.  N damaged copies of a model.so and of a data file go to hftrun, which
must not crash and must not run what is damaged in its tables (exit codes 0, 1, 3, 4, 5)."""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile

LIMIT = 60


def flip_bytes(r, data):
    data = bytearray(data)
    for _ in range(r.choice([1, 1, 2, 5])):
        data[r.randrange(len(data))] = r.choice([r.randrange(256), 0, 255, ord("9"), ord("-"),
                                                 ord("("), ord("{"), ord("\n")])
    return bytes(data)


def cut(r, data):
    return data[:r.randrange(len(data))]


def drop_part(r, data):
    at = r.randrange(len(data))
    return data[:at] + data[at + r.choice([1, 2, 10, 50]):]


def double_part(r, data):
    at, n = r.randrange(len(data)), r.choice([1, 5, 30, 200])
    return data[:at] + data[at:at + n] * r.choice([2, 3, 40]) + data[at + n:]


def swap_words(r, data):
    words = data.split(b" ")
    i, j = r.randrange(len(words)), r.randrange(len(words))
    words[i], words[j] = words[j], words[i]
    return b" ".join(words)


def large_number(r, data):
    digits = [i for i, c in enumerate(data) if 48 <= c < 58]
    if not digits:
        return data
    at = r.choice(digits)
    return data[:at] + r.choice([b"0", b"-1", b"99999999999", b"9223372036854775807", b"1e308",
                                 b"2147483648", b"65536"]) + data[at + 1:]


def other_word(r, data):
    """One word where another one of the file stands: goes deeper than a syntax error."""
    words = list(re.finditer(rb"[%$\w.]+", data))
    if len(words) < 2:
        return data
    a, b = r.choice(words), r.choice(words)
    if r.random() < 0.7:
        same = [w for w in words if w.group()[:1].isdigit() == a.group()[:1].isdigit()
                and (w.group()[:1] == b"%") == (a.group()[:1] == b"%")]
        b = r.choice(same)
    return data[:a.start()] + b.group() + data[a.end():]


def other_line(r, data):
    lines = data.split(b"\n")
    i, j = r.randrange(len(lines)), r.randrange(len(lines))
    lines[i] = lines[j] if r.random() < 0.5 else lines[i] + b"\n" + lines[j]
    return b"\n".join(lines)


def small_number(r, data):
    numbers = list(re.finditer(rb"\b\d+\b", data))
    if not numbers:
        return data
    a = r.choice(numbers)
    return data[:a.start()] + str(r.choice([0, 1, 2, 3, 4, 5, 7, 8, 16,
                                            64])).encode() + data[a.end():]


def repeat_a_lot(r, data):
    """One line, word or bracket so often that depth, size or time has to end somewhere."""
    lines = data.split(b"\n")
    i = r.randrange(len(lines))
    n = r.choice([300, 2000])
    kind = r.randrange(3)
    if kind == 0:
        lines[i] = b"\n".join([lines[i]] * n)
    elif kind == 1:
        lines[i] = b"(" * n + lines[i] + b")" * n
    else:
        lines[i] = (lines[i] + b" + ") * n + lines[i]
    return b"\n".join(lines)


def control_characters(r, data):
    at = r.randrange(len(data))
    return data[:at] + r.choice([b"\x1b[2J", b"\xc2\x9b31m", b"\xe2\x80\xae", b"\0",
                                 b"\r"]) + data[at:]


TEXT = [other_word, other_word, other_word, other_line, small_number, small_number, flip_bytes, cut,
        drop_part, double_part, swap_words, large_number, large_number, repeat_a_lot,
        control_characters]
BINARY = [flip_bytes, flip_bytes, cut]


class Damage:
    def __init__(self, args, work):
        self.args, self.work, self.failed = args, work, 0

    def path(self, name):
        return os.path.join(self.work, name)

    def run(self, program, *args):
        command = [os.path.join(self.args.bin, program), *args]
        try:
            p = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            return "too slow", b""
        return p.returncode, p.stderr

    def report(self, what, code, text, damaged):
        self.failed += 1
        print(f"FAILED: {what}: {code}\n{text[-1500:].decode(errors='replace')}", flush=True)
        if self.args.keep:
            os.makedirs(self.args.keep, exist_ok=True)
            with open(os.path.join(self.args.keep, f"{self.failed}-{os.path.basename(what)}"),
                      "wb") as f:
                f.write(damaged)

    def compile_damaged(self, r, name, data, options):
        damaged = r.choice(TEXT)(r, data)
        path = self.path("damaged" + os.path.splitext(name)[1])
        with open(path, "wb") as f:
            f.write(damaged)
        code, text = self.run("hftac", "-q", "-w", *options, "-o", self.path("damaged.out"), path)
        if code not in (0,
                        1) or (code == 1
                               and not text) or re.search(rb"[\0-\x08\x0b-\x1f\x7f]", text):
            self.report(name, code, text, damaged)

    def compiler(self, path):
        name = os.path.basename(path)
        r = random.Random(f"{self.args.seed} {name}")
        with open(path, "rb") as f:
            source = f.read()
        options = ["-I", os.path.dirname(path), "--max-memory=1G"]
        for _ in range(self.args.count):
            self.compile_damaged(r, name, source,
                                 options + r.choice([["--emit=plan"], ["--emit=ir"],
                                                     ["--emit=hdl,plan"], ["--emit=obj"]]))
        for stage in ("ir", "grad", "fused"):
            hir = self.path("whole.hir")
            if self.run("hftac", "-q", "-w", "-B", "2", f"--emit={stage}", "-o", hir, path)[0] != 0:
                continue
            with open(hir, "rb") as f:
                text = f.read()
            for _ in range(self.args.count):
                self.compile_damaged(r, f"{name}.{stage}.hir", text,
                                     [r.choice(["--emit=plan", "--emit=plan", "--emit=obj"])])

    def runtime(self):
        r = random.Random(self.args.seed)
        so, data = self.path("model.so"), os.path.join(self.args.samples, "data",
                                                       "digits-test.safetensors")
        code, text = self.run("hftac", "-q", "-B", "2", "-o", so,
                              os.path.join(self.args.samples, "digits.hdl"))
        if code != 0:
            self.report("digits.hdl", code, text, b"")
            return
        with open(so, "rb") as f:
            model = f.read()
        with open(data, "rb") as f:
            content = f.read()
        for _ in range(self.args.count):
            damaged = r.choice(BINARY)(r,
                                       model[:560]) + model[560:] if r.random(
                                           ) < 0.5 else self.damage_tables(r, model)
            self.use(damaged, content, "model.so")
            head = 8 + int.from_bytes(content[:8], "little")
            self.use(model,
                     r.choice(TEXT)(r, content[:head]) + content[head:] if r.random() < 0.8
                     else cut(r, content), "data.safetensors")

    def saved_files(self):
        """Parameters to load and tables of hypers."""
        r = random.Random(self.args.seed + 1)
        so, saved, data = self.path("model.so"), self.path(
            "saved"), os.path.join(self.args.samples, "data", "digits-test.safetensors")
        train = [so, "--train", data, "--epochs", "1", "--progress=none"]
        code, text = self.run("hftrun", *train, "--save", saved)
        if code != 0:
            self.report("--save", code, text, b"")
            return
        with open(os.path.join(saved, "model-001.safetensors"), "rb") as f:
            content = f.read()
        head = 8 + int.from_bytes(content[:8], "little")
        table = b"lr,drop,decay\n0.001,0.2,0\n0.003,0.1,0.001\n"
        for _ in range(self.args.count):
            damaged = r.choice(TEXT)(r,
                                     content[:head]) + content[head:] if r.random(
                                         ) < 0.8 else cut(r, content)
            self.given(train, "--load", "load.safetensors", damaged)
            self.given(train, "--hypers", "hypers.csv", r.choice(TEXT)(r, table))

    def given(self, train, option, name, content):
        with open(self.path(name), "wb") as f:
            f.write(content)
        code, text = self.run("hftrun", *train, option, self.path(name))
        if code not in (0, 1, 2, 3, 5) or (code and not text and code != 5):
            self.report(name, code, text, content)

    @staticmethod
    def damage_tables(r, model):
        """The descriptor and what follows it: dynamic section, symbols, section headers.  Damaged
        code, and a relocation that names another place in the code, cannot be told from right
        ones."""
        lo = max(0, model.find(b"hftacso\0") - 3000)
        hi = lo + 6000 if r.random() < 0.5 else len(model)
        damaged = bytearray(model)
        for _ in range(r.choice([1, 2, 6])):
            damaged[r.randrange(lo, min(hi, len(model)))] = r.randrange(256)
        return bytes(damaged)

    def use(self, model, content, what):
        so, data = self.path("use.so"), self.path("use.safetensors")
        with open(so, "wb") as f:
            f.write(model)
        with open(data, "wb") as f:
            f.write(content)
        code, text = self.run("hftrun", so, "--train", data, "--epochs", "1", "--progress=none")
        if code not in (0, 1, 3, 4, 5) or (code and not text and code != 5):
            self.report(what, code, text, model if what == "model.so" else content)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--bin", required=True)
    a.add_argument("--samples", required=True)
    a.add_argument("--programs", required=True)
    a.add_argument("--count", type=int, default=10)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--keep")
    a.add_argument("--only", choices=["compiler", "runtime"])
    args = a.parse_args()
    for name in ("bin", "samples", "programs", "keep"):
        if getattr(args, name):
            setattr(args, name, os.path.abspath(getattr(args, name)))
    with tempfile.TemporaryDirectory(prefix="hftac-damage-") as work:
        os.chdir(work)  # with several --emit stages hftac writes into the current directory
        d = Damage(args, work)
        for name in sorted(os.listdir(args.programs)) if args.only != "runtime" else []:
            if name.endswith(".hdl"):
                d.compiler(os.path.join(args.programs, name))
        if args.only != "compiler":
            d.runtime()
            d.saved_files()
    print(f"{d.failed} failed")
    return 1 if d.failed else 0


if __name__ == "__main__":
    sys.exit(main())
