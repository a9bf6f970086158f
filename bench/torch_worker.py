"""torch_worker.py WORKLOAD THREADS: trains one PyTorch model of a workload; for each line "N" on standard input it does N
steps on 64 random batches in turn and prints the seconds they took."""
import itertools
import sys
import time

import torch

BATCHES = 64


def mlp():
    nn = torch.nn
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    return model, torch.randn(BATCHES, 32, 64), torch.randint(0, 10, (BATCHES, 32))


def adam(model, kind):
    # The fastest of PyTorch's implementations here: the caller tries each.
    return torch.optim.Adam(model.parameters(), lr=1e-3, **({kind: True} if kind else {}))


def make_step(kind):
    torch.manual_seed(0)
    model, x, y = {"mlp": mlp}[sys.argv[1]]()
    optimizer = adam(model, kind)
    loss_of = torch.nn.CrossEntropyLoss()

    batches = itertools.cycle(list(zip(x.unbind(), y.unbind())))

    def step():
        x, y = next(batches)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()

    for _ in range(30):
        step()
    return step


def seconds(step, n):
    start = time.perf_counter()
    for _ in range(n):
        step()
    return time.perf_counter() - start


def main():
    torch.set_num_threads(int(sys.argv[2]))
    steps = {}
    for kind in ("", "foreach", "fused"):
        try:
            steps[kind] = make_step(kind)
        except Exception:  # an older PyTorch has no such implementation on the CPU
            pass
    best = min(steps, key=lambda k: min(seconds(steps[k], 30) for _ in range(5)))
    print(torch.__version__, best or "plain", flush=True)
    for line in sys.stdin:
        print(f"{seconds(steps[best], int(line)):.9f} 1", flush=True)


main()
