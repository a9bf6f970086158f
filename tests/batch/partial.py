"""A last batch of n < N samples against the same program compiled for n samples.

    partial.py --bin BUILD/bin                        the programs of programs.py, and --count
                                                      random ones from --seed on
    partial.py --bin BUILD/bin --count 1000 --seed 1  more of them
    partial.py --seed S --print                       one program's text

The program for N is fed n samples and other values in place of the padding; evaluation and
prediction must give what the program for n gives, to 1e-6 of it, or be refused with a place in the
source.  All in double precision."""
import argparse
import array
import math
import os
import random
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # the sources stay as they are
from generate import Program  # noqa: E402
from programs import REFUSED, RIGHT  # noqa: E402

PLACE = re.compile(r"^[^:]+\.hdl:[1-9][0-9]*:[1-9][0-9]*: \S")


class Failure(Exception):
    pass


def inputs_of(text):
    """[(name, is index, dims)] as the program declares them; dims are texts."""
    found = re.findall(r"^ *(?:input|target) (\w+) *: *(\w+)\[([^\]]*)\](?: *# below (\d+))?", text,
                       re.M)
    return [(name, dtype, [d.strip() for d in dims.split(",") if d.strip()], int(below or 3))
            for name, dtype, dims, below in found]


def write_data(path, text, batch, valid, total, seed):
    """Samples 0 .. batch - 1; those from `valid` on are others in each file.  The inputs in the
    module's order: theirs."""
    with open(path, "wb") as f:
        for k, (name, dtype, dims, below) in enumerate(inputs_of(text)):
            sizes = [batch if d == "N" else int(d) for d in dims]
            axis = dims.index("N") if "N" in dims else -1
            values = array.array("d" if dtype == "f32" else "q")
            strides = [math.prod(sizes[i + 1:]) for i in range(len(sizes))]
            for i in range(math.prod(sizes)):
                at = [i // strides[d] % sizes[d] for d in range(len(sizes))]
                other = axis >= 0 and at[axis] >= valid
                r = random.Random(f"{seed} {k} {at} {batch if other else total}")
                values.append(r.gauss(2 if other else 0, 3 if other else 1) if dtype == "f32"
                              else r.randrange(below))
            f.write(values.tobytes())


class Checker:
    def __init__(self, args, work):
        self.bin, self.work = args.bin, work

    def path(self, name):
        return os.path.join(self.work, name)

    def run(self, *command):
        p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                           timeout=120)
        if p.returncode < 0 or p.returncode == 70:
            raise Failure(" ".join(command) + "\n" + p.stderr.decode())
        return p.returncode, p.stdout.decode(), p.stderr.decode()

    def results(self, source, text, batch, valid, total, seed):
        """{"metric x": numbers}, with None in place of what is refused; None if it does not
        compile."""
        so, data = self.path("model.so"), self.path("data")
        code, _, said = self.run(os.path.join(self.bin, "hftac"), "-q", "-w", "-O0",
                                 "--precision=fp64", f"-DN={batch}", "-o", so, source)
        if code:
            self.said = said
            return None
        write_data(data, text, batch, valid, total, seed)
        code, out, said = self.run(os.path.join(self.bin, "batch_run"), so, data, str(valid))
        if code:
            self.said = said
            return None
        found = {}
        for line in out.splitlines():
            kind, name, rest = line.split(" ", 2)
            if name == "refused":
                if not PLACE.match(rest) or "multiple" not in rest:
                    raise Failure("refused without a place or a remedy: " + rest)
                found[kind] = rest
            else:
                found[f"{kind} {name}"] = [float(v) for v in rest.split()]
        return found

    def check(self, text, batch, valid, seed, alone=False):
        """{"evaluation": why refused or None, "prediction": ...}, or None if there is nothing to
        compare with.  alone: nothing is."""
        source = self.path("case.hdl")
        with open(source, "w", encoding="ascii") as f:
            f.write(text)
        part = self.results(source, text, batch, valid, valid, seed)
        if part is None:
            return None
        if alone:
            return {k: part.get(k) for k in ("evaluation", "prediction")}
        whole = self.results(source, text, valid, valid, valid, seed)
        if whole is None:
            return None
        for what in whole:
            refused = part.get("evaluation" if what.startswith("metric") else "prediction")
            if refused is None and not self.equal(part.get(what), whole[what]):
                raise Failure(f"N = {batch}, n = {valid}: {what} is {part.get(what)}, not "
                              f"{whole[what]}")
        return {k: part.get(k) for k in ("evaluation", "prediction")}

    @staticmethod
    def equal(a, b):
        def same(x, y):
            if math.isnan(x) or math.isnan(y) or math.isinf(x) or math.isinf(y):
                return x == y or (math.isnan(x) and math.isnan(y))
            return abs(x - y) <= 1e-6 * max(abs(x), abs(y)) + 1e-9
        return a is not None and len(a) == len(b) and all(map(same, a, b))


def fixed(checker, verbose):
    failed = 0
    for expected, programs in (("right", RIGHT), ("refused", REFUSED)):
        for name, text in programs.items():
            try:
                outcome = checker.check(text, 4, 3, 1, alone=expected == "refused")
                if outcome is None:
                    raise Failure("does not compile: " + checker.said)
                refused = [why for why in outcome.values() if why]
                if bool(refused) != (expected == "refused"):
                    raise Failure(f"must be {expected}: {refused}")
                if verbose:
                    print(f"{name}: {refused[0] if refused else 'right'}")
            except Failure as f:
                failed += 1
                print(f"FAILED: {name}: {f}\n{text}", flush=True)
    return failed


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--bin", default=".")
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--count", type=int, default=0)
    a.add_argument("--print", action="store_true")
    a.add_argument("--verbose", action="store_true")
    a.add_argument("--random-only", action="store_true")
    args = a.parse_args()
    if args.print:
        print(Program(args.seed).text(), end="")
        return 0
    failed, right, refused, nothing = 0, 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="hftac-batch-") as work:
        checker = Checker(args, work)
        if not args.random_only:
            failed += fixed(checker, args.verbose)
        for seed in range(args.seed, args.seed + args.count):
            p = Program(seed)
            try:
                outcome = checker.check(p.text(), p.batch, p.valid, seed)
            except Failure as f:
                failed += 1
                print(f"FAILED: program {seed}: {f}\n{p.text()}", flush=True)
                continue
            if outcome is None:
                nothing += 1
                if args.verbose:
                    print(f"program {seed}: does not compile: {checker.said}")
            elif any(outcome.values()):
                refused += 1
            else:
                right += 1
            if args.verbose and outcome is not None:
                print(f"program {seed}: {outcome}", flush=True)
    print(f"{args.count} random programs: {right} right, {refused} refused, {nothing} that do not "
          f"compile for n; {failed} failed")
    # A generator that makes nothing to compare would pass everything.
    return 1 if failed or (args.count >= 20 and right < args.count // 10) else 0


if __name__ == "__main__":
    sys.exit(main())
