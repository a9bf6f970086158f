"""Writes random valid .hdl programs and checks what must hold of each.

    random_programs.py --bin BUILD/bin --count N --seed S     programs S, S + 1, ...; exit 0 if all
                                                              hold
    random_programs.py --seed S --print                       one program's text

Program number S is the same for ever (random.Random(S)).  For each one:

  compiles     at -O0 and -O2, for 1, 2 and 5 models
  exactness    every slot of every array, with 1 and 3 threads, holds the same bits as its B = 1
               run: fuzz_run_fused
  numbers      what is computed is what the graph says, by the reference interpreter:
               fuzz_against_ref
  the same     every eighth program gives the same file when it is compiled again
  round trips  --emit=ir, grad and fused read back to the same bytes; --emit=hdl means the same
               graph

A program that fails is kept in --keep DIR and shrunk line by line with --shrink."""
import argparse
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the sources stay as they are
from generate_program import Program  # noqa: E402


class Failure(Exception):
    def __init__(self, kind, text):
        super().__init__(kind)
        self.kind, self.text = kind, text


class Checker:
    def __init__(self, args, work):
        self.bin, self.work, self.quick = args.bin, work, args.quick

    def path(self, name):
        return os.path.join(self.work, name)

    def run(self, kind, command, limit=120):
        try:
            p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            raise Failure(kind + ": too slow", " ".join(command)) from None
        if p.returncode != 0:
            what = "internal" if p.returncode == 70 else f"signal {-p.returncode}" if p.returncode < 0 else f"exit {p.returncode}"
            raise Failure(f"{kind}: {what}",
                          " ".join(command) + "\n" + p.stdout.decode(errors="replace")[-4000:])
        return p.stdout

    def hftac(self, kind, *args):
        return self.run(kind, [os.path.join(self.bin, "hftac"), "-q", "-w", *args])

    def same(self, kind, a, b):
        with open(a, "rb") as f, open(b, "rb") as g:
            if f.read() != g.read():
                diff = subprocess.run(["diff", a, b], stdout=subprocess.PIPE,
                                      check=False).stdout.decode(errors="replace")
                raise Failure(kind, diff[:3000])

    def round_trips(self, source, precision):
        for stage in ("fused",) if self.quick else ("ir", "grad", "fused"):
            a, b = self.path("a.hir"), self.path("b.hir")
            self.hftac("emit " + stage, precision, "-B", "3", f"--emit={stage}", "-o", a, source)
            self.hftac("read " + stage, f"--emit={stage}", "-o", b, a)
            self.same(f"--emit={stage} read back", a, b)
        again = self.path("again.hdl")
        self.hftac("emit hdl", precision, "--emit=hdl", "-o", again, source)
        self.hftac("emit ir", precision, "--emit=ir", "-o", a, source)
        self.hftac("compile --emit=hdl", precision, "--emit=ir", "-o", b, again)
        self.same("--emit=hdl compiles to another graph", a, b)

    def reproducible(self, source, precision):
        self.hftac("compile", precision, "-B", "5", "-o", self.path("again.so"), source)
        self.same("not the same model.so again", self.path("again.so"), self.path("five.so"))

    def check(self, text, seed, kind=""):
        """kind: of a failure that is looked for again; then only what leads there is run."""
        source = self.path("case.hdl")
        with open(source, "w", encoding="ascii") as f:
            f.write(text)
        precision = "--precision=fp64" if "# precision: fp64" in text else "--precision=fp32"
        if not kind.startswith(("compile: ", "run", "numbers")):
            self.round_trips(source, precision)
        arrays = [("one.so", 1, "-O2", 1)] + [("five.so", 5, "-O2", 3),
                                              ("zero.so", 1 if self.quick else 2, "-O0", 1)]
        for name, models, level, _ in arrays:
            self.hftac("compile", precision, "-B", str(models), level, "-o", self.path(name),
                       source)
        if seed % 8 == 0 or kind.startswith("not the same"):
            self.reproducible(source, precision)
        runs = [f"{self.path(name)}:{threads}" for name, _, _, threads in arrays]
        if not kind.startswith("numbers"):
            self.run("run",
                     [os.path.join(self.bin, "fuzz_run_fused"), str(seed), "3", *runs,
                      f"{self.path('five.so')}:1"])
        hir = self.path("case.hir")
        with open(hir, "wb") as f:
            f.write(self.hftac("dump", precision, "--emit=ir", "--dump-after=mask_batch", "-o",
                               os.path.join(os.path.dirname(source) or ".", "unused.hir"), source))
        self.run("numbers",
                 [os.path.join(self.bin, "fuzz_against_ref"), hir, self.path("five.so"), str(seed)])

    def failure(self, text, seed, kind=""):
        try:
            self.check(text, seed, kind)
        except Failure as f:
            return f
        return None


def without_terms(lines):
    """The program with one term of a sum in a line taken out, for each such term."""
    for i, line in enumerate(lines):
        head, equals, rest = line.partition("loss ") if line.startswith(
            "  loss ") else line.partition(" = ")
        terms = rest.split(" + ")
        for k in range(len(terms) if len(terms) > 1 else 0):
            yield lines[:i] + [head + equals
                               + " + ".join(terms[:k] + terms[k + 1:])] + lines[i + 1:]


def shrink(checker, text, seed, kind, limit):
    """Takes out lines and terms, many at once first, as long as the program fails in the same
    way."""
    end = time.time() + limit

    def fails(lines):
        f = checker.failure("\n".join(lines) + "\n", seed, kind)
        return f is not None and f.kind == kind

    lines = text.splitlines()
    changed = True
    while changed and time.time() < end:
        changed = False
        for shorter in list(without_terms(lines)):
            if len(shorter[-1]) and time.time() < end and fails(shorter):
                lines, changed = shorter, True
                break
        step = max(1, len(lines) // 4)
        while step:
            i = len(lines) - step
            while i > 0 and time.time() < end:
                shorter = lines[:i] + lines[i + step:]
                if fails(shorter):
                    lines, changed = shorter, True
                i -= step
            step //= 2
    return "\n".join(lines) + "\n"


def read_text(path):
    with open(path, encoding="ascii") as f:
        return f.read()


def files_of(path):
    if not os.path.isdir(path):
        return [path]
    return [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(".hdl")]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--bin", default=".")
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--count", type=int, default=1)
    a.add_argument("--keep", help="directory for programs that fail")
    a.add_argument("--shrink", type=float, default=0, metavar="SECONDS",
                   help="time to shrink a failure")
    a.add_argument("--print", action="store_true")
    a.add_argument("--quick", action="store_true")
    a.add_argument("--verbose", action="store_true")
    a.add_argument("--file", help="check this program instead, or all in this directory")
    args = a.parse_args()
    if args.print:
        print(Program(args.seed).text(), end="")
        return 0
    failed = 0
    cases = [(seed, f"program {seed}", None) for seed in range(args.seed, args.seed + args.count)]
    if args.file:
        cases = [(args.seed, path, path) for path in files_of(args.file)]
    with tempfile.TemporaryDirectory(prefix="hftac-fuzz-") as work:
        checker = Checker(args, work)
        for seed, name, path in cases:
            text = read_text(path) if path else Program(seed).text()
            failure = checker.failure(text, seed)
            if args.verbose:
                print(f"{name}: {failure.kind if failure else 'holds'}", flush=True)
            if failure is None:
                continue
            failed += 1
            print(f"FAILED: {name}: {failure.kind}\n{failure.text}", flush=True)
            if args.shrink:
                text = shrink(checker, text, seed, failure.kind, args.shrink)
                print(text, flush=True)
            if args.keep:
                os.makedirs(args.keep, exist_ok=True)
                with open(os.path.join(args.keep, f"{seed}.hdl"), "w", encoding="ascii") as f:
                    f.write(text)
                with open(os.path.join(args.keep, f"{seed}.txt"), "w", encoding="utf-8") as f:
                    f.write(failure.kind + "\n" + failure.text)
    print(f"{len(cases)} programs, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
