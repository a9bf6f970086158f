"""compare.py WORKLOAD HFTAC_BIN_DIR SO_DIR PYTHON: time per model and step, hftac against PyTorch, in one run.

Workers (bench_steps, torch_worker.py) take turns, each for about a quarter of a second a round; printed are medians over the
rounds of the time per model and step and of the ratios taken within a round."""
import os
import platform
import statistics
import subprocess
import sys

workload, bindir, sodir, python = sys.argv[1:5]
ROUNDS = int(os.environ.get("ROUNDS", "15"))
SLICE = 0.25
cores = len(os.sched_getaffinity(0))
here = os.path.dirname(os.path.abspath(__file__))


class Worker:
    """One or more processes that work side by side; models: how many train in all."""

    def __init__(self, commands, models, greet):
        self.models = models
        self.procs = [subprocess.Popen(c, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for c in commands]
        self.greeting = [p.stdout.readline().strip() for p in self.procs] if greet else []
        self.steps = 10
        while self.run() < 0.02:
            self.steps *= 2
        self.steps = max(1, int(self.steps * SLICE / self.run()))

    def run(self):
        for p in self.procs:
            p.stdin.write(f"{self.steps}\n")
            p.stdin.flush()
        seconds = []
        for p in self.procs:
            s, running = p.stdout.readline().split()
            assert int(running) > 0
            seconds.append(float(s))
        return max(seconds)

    def per_model_step(self):
        return self.run() / self.steps / self.models

    def close(self):
        for p in self.procs:
            p.stdin.close()
            p.wait()


def hftac(b):
    return Worker([[f"{bindir}/bench_steps", f"{sodir}/{workload}-{b}.so"]], b, False)


def torch(threads, copies):
    cmd = [python, f"{here}/torch_worker.py", workload, str(threads)]
    cmds = [["taskset", "-c", str(sorted(os.sched_getaffinity(0))[i])] + cmd for i in range(copies)] if copies > 1 else [cmd]
    return Worker(cmds, copies, True)


workers = {"torch": torch(cores, 1), "torch side by side": torch(1, cores)}
for b in (1, 8, 32):
    workers[f"hftac B={b}"] = hftac(b)
rounds = [{name: w.per_model_step() for name, w in workers.items()} for _ in range(ROUNDS)]

cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.processor())
print(f"{workload}: {cpu}, {cores} cores; PyTorch {workers['torch'].greeting[0]}; {ROUNDS} rounds")
print(f"{'':22} {'us per model and step':>22} {'times torch':>12} {'times side by side':>19}")
for name in workers:
    us = statistics.median(r[name] for r in rounds) * 1e6
    one = statistics.median(r["torch"] / r[name] for r in rounds)
    side = statistics.median(r["torch side by side"] / r[name] for r in rounds)
    print(f"{name:22} {us:22.1f} {one:12.2f} {side:19.2f}")
for w in workers.values():
    w.close()
