#!/usr/bin/env python3
"""faults.py BIN SOURCE-DIR SHIM: how runs of hftac and hftrun end.

Signals, outputs that cannot be written or are read, and, with the preloaded SHIM (shim.c), every
call into the system failing in turn and the process killed before every one of them.  What must
hold: an exit code and a sentence, the old result or the new one, nothing left over.
FAULTS_MOMENTS=N runs N kills at moments of the clock on top (0: none). """
import json, os, random, resource, signal, struct, subprocess, sys, tempfile, time

BIN, ROOT, SHIM = (os.path.abspath(p) for p in sys.argv[1:4])
HFTAC, HFTRUN = BIN + "/hftac", BIN + "/hftrun"
MOMENTS = int(os.environ.get("FAULTS_MOMENTS", "20"))
FOREVER = ["--epochs", "1000000000"]
failed = passed = 0

PROGRAM = """hdl 1
hyper lr = 0.1
model M {
  input  x : f32[N, 2]
  target t : u8[N]
  fc = Linear(3)
  y = fc(x)
  output y
  loss cross_entropy(y, t SHIFT)
}
train M { batch N = 4
  epochs 2
  optimizer SGD(lr = lr) }
"""


def holds(what, ok, *details):
    global failed, passed
    if ok:
        passed += 1
        return
    failed += 1
    print("FAILED:", what)
    for d in details:
        print("  |", str(d)[:600].replace("\n", "\n  | "))


class Ended:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return "exit %s\n%s\n%s" % (self.code, self.out[-300:], self.err[-500:])


def start(*args, fault=None, count=None, before=None, stdout=subprocess.PIPE,
          stderr=subprocess.PIPE, **env):
    environment = dict(os.environ, **env)
    if fault:
        environment.update(LD_PRELOAD=SHIM, FAULT=fault, FAULT_NO_SYNC="1")
        if count:
            environment["FAULT_COUNT"] = count
    return subprocess.Popen(args, env=environment, stdin=subprocess.DEVNULL, stdout=stdout,
                            stderr=stderr, text=True,
                            preexec_fn=before, errors="replace")


def run(*args, **how):
    p = start(*args, **how)
    try:
        out, err = p.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
        return Ended("timeout", out or "", err or "")
    return Ended(p.returncode, out or "", err or "")


def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def tensors(path, **named):
    header, body = {}, b""
    for name, (dtype, shape, raw) in named.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(header).encode()
    write(path, struct.pack("<Q", len(text)) + text + body)


def names(folder="."):
    return sorted(os.listdir(folder))


def clean(what, kept):
    """Nothing is here but what was here before."""
    now = names()
    holds(what + ": nothing is left over", now == kept, sorted(set(now) ^ set(kept)))


def prepare():
    for name, shift in (("m", ""), ("bad", "+ 3")):
        write(name + ".hdl", PROGRAM.replace("SHIFT", shift).encode())
        ended = run(HFTAC, "-q", name + ".hdl", "-B", "3", "-o", name + ".so")
        holds("the programs compile", ended.code == 0, ended)
    n = 16
    x = struct.pack("<%df" % (2 * n), *[(i * 7 % 5) / 5 for i in range(2 * n)])
    tensors("d.safetensors", x=("F32", [n, 2], x), t=("U8", [n], bytes(i % 3 for i in range(n))))


DATA = ["--train", "d.safetensors"]


# ---- Where results go is looked at first ----

def outputs():
    write("old.jsonl", b"old\n")
    kept = names()
    for output in (["--save", "no/such"], ["--log", "no/such"], ["--csv", "no/such"],
                   ["--predict", "no/such"],
                   ["--log", "/dev/full"], ["--csv", "/dev/full"], ["--predict", "/dev/full"],
                   ["--save", "old.jsonl"],
                   ["--log", "."], ["--predict", "."], ["--save", "d.safetensors/x"]):
        ended = run(HFTRUN, "-q", "m.so", *DATA, *FOREVER, *output)
        holds("%s %s is refused before training" % tuple(output),
              ended.code == 3 and "error" in ended.err, ended)
    ended = run(HFTRUN, "-q", "m.so", *DATA, *FOREVER, "--log", "old.jsonl", "--save", "no/such")
    holds("a log is not emptied by a run that never begins",
          ended.code == 3 and read("old.jsonl") == b"old\n", ended)
    ended = run(HFTRUN, "-q", "m.so", *DATA, *FOREVER, "--test", "nothing", "--log", "old.jsonl")
    holds("test data are looked at before training",
          ended.code == 3 and read("old.jsonl") == b"old\n", ended)
    clean("outputs that cannot be written", kept)

    run(HFTRUN, "-q", "m.so", "--save", "set")
    write("table.csv", b"lr\n1\n1\n1\n")
    os.link("d.safetensors", "same.safetensors")
    os.mkdir("taken")
    os.link("d.safetensors", "taken/model-000.safetensors")
    os.mkdir("folder")
    os.link("d.safetensors", "folder/x.npy")
    inputs = ["d.safetensors", "m.so", "table.csv", "set/model-001.safetensors", "set/hypers.json",
              "folder/x.npy"]
    before = [read(p) for p in inputs]
    given = ["--hypers", "table.csv", "--load", "set"]
    for option in ("--log", "--csv", "--predict"):
        for path in inputs[:-1] + ["same.safetensors"]:
            ended = run(HFTRUN, "-q", "m.so", *DATA, *given, "--epochs", "1", option, path)
            holds("%s over the input %s is refused" % (option, path),
                  ended.code == 2 and "overwrite" in ended.err, ended)
        ended = run(HFTRUN, "-q", "m.so", "--test", "folder", option, "folder/x.npy")
        holds("%s over a file of a data folder is refused" % option, ended.code == 2, ended)
    ended = run(HFTRUN, "-q", "m.so", *DATA, "--epochs", "1", "--save", "taken")
    holds("--save over the data is refused", ended.code == 2 and "overwrite" in ended.err, ended)
    ended = run(HFTRUN, "-q", "m.so", *DATA, "--epochs", "1", "--log", "new", "--csv", "./new")
    ended = run(HFTRUN, "-q", "m.so", *DATA, "--epochs", "1", "--log", "new", "--csv", "new")
    holds("two outputs in one file are refused", ended.code == 2 and "same file" in ended.err,
          ended)
    holds("the inputs are what they were", before == [read(p) for p in inputs])
    ended = run(HFTRUN, "-q", "m.so", *DATA, "--epochs", "1", "--load", "set", "--save", "set")
    holds("a set may replace the one that was loaded", ended.code == 0, ended)
    for output in (["-o", "m.hdl"], ["-o", "link.hdl"], ["--emit=ir", "-o", "m.hdl"],
                   ["-o", "part.hdl"], ["-MD", "-o", "x"],
                   ["--emit=obj", "-o", "m.hdl"], ["--emit=asm", "-o", "part.hdl"],
                   ["--emit=hdl", "-o", "part.hdl"]):
        for p in ("link.hdl", "part.hdl", "root.hdl", "x.d"):
            if os.path.exists(p):
                os.unlink(p)
        os.link("m.hdl", "link.hdl")
        write("part.hdl", b"hdl 1\n")
        write("root.hdl", read("m.hdl").replace(b"hdl 1\n", b'hdl 1\ninclude "part.hdl"\n'))
        os.symlink("m.hdl", "x.d")
        before = [read(p) for p in ("m.hdl", "part.hdl")]
        ended = run(HFTAC, "-q", "root.hdl" if "part.hdl" in output else "m.hdl", *output)
        holds("hftac %s is refused" % output, ended.code == 2 and "overwrite" in ended.err, ended)
        holds("... and leaves the input", before == [read(p) for p in ("m.hdl", "part.hdl")])


def standard_output():
    def close():
        os.close(1)

    commands = [[HFTRUN, "--help"], [HFTRUN, "--version"], [HFTRUN, "--info", "m.so"],
                [HFTRUN, "--info", "--json", "m.so"],
                [HFTRUN, "-q", "m.so", *DATA], [HFTRUN, "-q", "m.so", *DATA, "--json"],
                [HFTAC, "--help"],
                [HFTAC, "--version"], [HFTAC, "--list-ops"],
                [HFTAC, "m.hdl", "-o", "t.so", "--dump-after=simplify"],
                [HFTAC, "--emit=ir", "-o", "-", "m.hdl"], [HFTAC, "--emit=asm", "-o", "-", "m.hdl"],
                [HFTAC, "--emit=llvm", "-o", "-", "m.hdl"]]
    for c in commands:
        with open("/dev/full", "w") as full:
            ended = run(*c, stdout=full)
        holds("%s into /dev/full is exit 3" % c[:3],
              ended.code == 3 and "standard output" in ended.err, ended)
        ended = run(*c, before=close, stdout=None)
        holds("%s with stdout closed is exit 3" % c[:3], ended.code == 3, ended)
    ended = run(HFTRUN, "-q", "m.so", *DATA, "--log", "l", "--save", "closed", before=close,
                stdout=None)
    holds("what is printed goes into no file",
          b'"end"' in read("l") and b"train loss" not in read("l"), read("l"))
    holds("a closed stdout costs no models", len(names("closed")) == 4, names("closed"))


# ---- Signals ----

def started(*args, **how):
    """A run that has done some epochs."""
    if os.path.exists("wait.jsonl"):
        os.unlink("wait.jsonl")
    p = start(HFTRUN, "m.so", *args, *FOREVER, "--log", "wait.jsonl", **how)
    for _ in range(2000):
        if os.path.exists("wait.jsonl") and os.path.getsize("wait.jsonl") > 2000:
            return p
        time.sleep(0.005)
    return p


def finish(p):
    out, err = p.communicate(timeout=30)
    return Ended(p.returncode, out, err)


def loads(folder):
    return run(HFTRUN, "-q", "m.so", "--load", folder, "--test", "d.safetensors").code == 0


def signals():
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        folder = "on" + sig.name
        p = started("-q", *DATA, "--save", folder)
        p.send_signal(sig)
        ended = finish(p)
        holds("%s ends with 128 + signal and the table" % sig.name,
              ended.code == 128 + sig and "state" in ended.out, ended)
        holds("... where no model is done",
              "  interrupted\n" in ended.out and "  done\n" not in ended.out, ended)
        last = json.loads(read("wait.jsonl").split(b"\n")[-2])
        holds("... is saved and logged", loads(folder) and last["event"] == "interrupted", last)
    p = started("-q", *DATA, "--save", "hup",
                before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    p.send_signal(signal.SIGHUP)
    time.sleep(0.1)
    holds("nohup holds", p.poll() is None)
    # the data go away meanwhile
    data = read("d.safetensors")
    write("gone.safetensors", data)
    os.truncate("gone.safetensors", len(data))
    p.terminate()
    finish(p)
    p = started("-q", "--train", "gone.safetensors", "--valid", "gone.safetensors", "--test",
                "gone.safetensors", "--save", "gone")
    os.truncate("gone.safetensors", 0)
    size = os.path.getsize("wait.jsonl")
    for _ in range(1000):
        if os.path.getsize("wait.jsonl") > size + 20000:
            break
        time.sleep(0.005)
    write("gone.safetensors", b"\xff" * len(data))
    p.send_signal(signal.SIGINT)
    ended = finish(p)
    holds("data that are cut short while training do not matter",
          ended.code == 130 and loads("gone"), ended)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        ended = run(HFTRUN, "-q", "m.so", *DATA, "--save", "piped", stdout=closed)
    holds("a table that nobody reads is exit 141, after saving",
          ended.code == 141 and loads("piped"), ended)
    ended = run(HFTRUN, "-q", "bad.so", *DATA, "--save", "faulty")
    holds("every model stopped by bad data is exit 5", ended.code == 5 and "bad data" in ended.out,
          ended)
    ended = run(HFTRUN, "-q", "m.so", *DATA, "--only", "1", "--save", "SIGINT")
    run(HFTRUN, "-q", "m.so", *DATA, "--only", "1", "--save", "onSIGINT")
    holds("--only saves a set of that model",
          names("onSIGINT") == ["hypers.json", "model-001.safetensors"], names("onSIGINT"))
    ended = run(HFTRUN, "-q", "m.so", "--only", "1", "--load", "onSIGINT", "--test",
                "d.safetensors")
    holds("... which --only loads", ended.code == 0, ended)


# ---- Failing calls ----

def count_calls(kind, *args, **how):
    run(*args, fault=kind + ":1000000000:none", count="calls", **how)
    return int(read("calls")) if os.path.exists("calls") else 0


def content(folder):
    return {n: read(folder + "/" + n) for n in names(folder)}


def spread(n, most):
    """1 .. n, at most `most` of them, both ends among them."""
    return sorted({1 + round(i * (n - 1) / max(1, min(n, most) - 1))
                   for i in range(min(n, most))}) if n else []


SAVE = [HFTRUN, "-q", "m.so", "--hyper", "lr=0.3", *DATA, "--save", "s", "--predict", "s.out",
        "--log", "s.log", "--csv", "s.csv"]


def fill_set():
    return run(HFTRUN, "-q", "m.so", *DATA, "--epochs", "1", "--save", "s", "--predict", "s.out")


def failing_calls(most):
    run(*SAVE)
    new, new_out = content("s"), read("s.out")
    fill_set()
    old, old_out = content("s"), read("s.out")
    holds("the two sets differ", old != new and names("s") == sorted(new))
    kept = sorted(names() + ["calls", "s.csv", "s.log"])
    kept = sorted(set(kept))
    for kind, action in (("write", "ENOSPC"), ("write", "EDQUOT"), ("sync", "EIO"),
                         ("rename", "EIO"), ("open", "EMFILE"),
                         ("read", "EIO"), ("any", "EIO")):
        for k in spread(count_calls(kind, *SAVE), most):
            fill_set()
            write("s.log", b""), write("s.csv", b"")
            plus = "+" if action in ("ENOSPC", "EDQUOT") else ""
            ended = run(*SAVE, fault="%s:%d%s:%s" % (kind, k, plus, action))
            what = "%s %d%s: %s" % (kind, k, plus, action)
            holds(what + " is exit 0, 1 or 3 with a sentence",
                  ended.code == 0 or ended.code in (1, 3) and "error" in ended.err, ended)
            now = content("s")
            holds(what + ": the old set or the new one", now in (old, new), ended, names("s"))
            holds(what + ": exit 0 only with the new one", ended.code != 0 or now == new, ended)
            holds(what + ": the old predictions or the new ones",
                  read("s.out") in (old_out, new_out), ended)
            begun = b'"event":"train"' in read("s.log") or b",train," in read("s.csv")
            holds(what + ": the table after training",
                  not begun or "state" in ended.out or "standard output" in ended.err, ended)
            if kind not in ("rename", "any"):  # else it may be the clearing up itself that fails
                clean(what, kept)
            for n in names():
                if n.startswith(".hftac-"):
                    subprocess.run(["rm", "-rf", n])
    for kind, action in (("write", "short"), ("write", "EINTR"), ("read", "short"),
                         ("read", "EINTR"), ("sync", "EINTR")):
        for k in spread(count_calls(kind, *SAVE), most // 2 if action == "short" else most // 4):
            fill_set()
            ended = run(*SAVE, fault="%s:%d:%s" % (kind, k, action))
            # No handler of hftrun interrupts calls (SA_RESTART), so a stream that says EINTR is a
            # broken one; it is told.
            stream = action == "EINTR" and kind == "write" and ended.code == 3 and "Interrupted" in ended.err
            holds("%s %d: %s does not matter" % (kind, k, action),
                  stream or ended.code == 0 and content("s") == new, ended)


def whole_log(data):
    """What the log says, but for times; None if a line is no JSON."""
    try:
        return [dict(json.loads(line), seconds=0) for line in data.splitlines()]
    except ValueError:
        return None


def failing_allocations(most):
    """Told, or harmless: never a set, a log or a table that lacks something."""
    run(*SAVE)
    new, log, csv = content("s"), whole_log(read("s.log")), read("s.csv")
    fill_set()
    old = content("s")
    calls = count_calls("alloc", *SAVE)
    for k in spread(calls, most):
        fill_set()
        write("s.log", b""), write("s.csv", b"")
        ended = run(*SAVE, fault="alloc:%d:ENOMEM" % k)
        what = "allocation %d of %d failing" % (k, calls)
        now, said = content("s"), whole_log(read("s.log"))
        holds(what + " is told", ended.code == 0 or ended.code in (1, 3) and "error" in ended.err,
              ended)
        # where training stopped at it, what was trained until then is saved
        between = ended.code and now["hypers.json"] == new["hypers.json"] and sorted(
            now) == sorted(new) and loads("s")
        holds(what + ": the old set or the new one", between or now in (old, new), ended,
              names("s"))
        holds(what + ": exit 0 only with all of it",
              ended.code or now == new and said == log and read("s.csv") == csv, ended,
              read("s.log"))
        holds(what + ": every line of the log is whole",
              said is not None and all(l in log or ended.code for l in said), said)
    for c, at_most in (([HFTRUN, "--info", "--json", "m.so"], 1000),
                       ([HFTRUN, "-q", "m.so", *DATA, "--json"], most)):
        good = run(*c)
        calls = count_calls("alloc", *c)
        for k in spread(calls, at_most):
            ended = run(*c, fault="alloc:%d:ENOMEM" % k)
            holds("%s, allocation %d of %d failing: exit 3, or all of it" % (c[1], k, calls),
                  ended.out == good.out if ended.code == 0 else ended.code == 3
                  and "error" in ended.err, ended)
    c = [HFTRUN, "-q", "m.so", "--save", "j"]
    run(*c, "--hyper", "lr=0.7")
    other = content("j")
    run(*c)
    good = content("j")
    holds("the two sets differ", good != other)
    calls = count_calls("alloc", *c)
    for k in spread(calls, 1000):
        write("j/hypers.json", other["hypers.json"])
        old = content("j")
        ended = run(*c, fault="alloc:%d:ENOMEM" % k)
        holds("saving, allocation %d of %d failing: exit 3, or all of it" % (k, calls),
              content("j") == good if ended.code == 0 else ended.code == 3 and content("j") == old
              and "error" in ended.err,
              ended, content("j")["hypers.json"])


def signals_at_calls(most):
    """A signal before any call: a whole set, and its exit code; INT2: Ctrl-C twice, at once."""
    run(*SAVE)
    new = content("s")
    fill_set()
    old = content("s")
    calls = count_calls("any", *SAVE) - 2  # the logs are closed after the end
    for sig, code in (("INT", 130), ("INT2", 130), ("TERM", 143), ("HUP", 129), ("PIPE", 141)):
        for k in spread(calls, most):
            fill_set()
            ended = run(*SAVE, fault="any:%d:%s" % (k, sig))
            now, what = content("s"), "SIG%s at call %d of %d" % (sig, k, calls)
            holds(what + " is exit %d" % code, ended.code == code, ended)
            # stopped after some steps, it may be a set between the two
            holds(what + ": a whole set", sorted(now) == sorted(old) and loads("s"), ended,
                  names("s"))
            holds(what + ": twice is at once",
                  sig != "INT2" or (ended.out == "" and now in (old, new)), ended)
    run(*SAVE)
    left = [n for n in names() if n.startswith(".hftac-")]
    holds("signals: nothing is left over", not left, left)


# ---- Killed ----

def sees(folder, sets):
    """Which of the sets --load finds, by the predictions that it makes."""
    ended = run(HFTRUN, "-q", "m.so", "--load", folder, "--test", "d.safetensors", "--predict",
                "seen.out")
    seen = read("seen.out") if ended.code == 0 else None
    return [name for name, out in sets.items() if out == seen], ended


def predictions(folder):
    run(HFTRUN, "-q", "m.so", "--load", folder, "--test", "d.safetensors", "--predict", "seen.out")
    return read("seen.out")


def killed(way, most):
    """way: exchange, in place because of another file, in place because the file system cannot
    exchange."""
    folder = "k" + way
    command = [HFTRUN, "-q", "m.so", "--hyper", "lr=0.3", *DATA, "--save", folder]
    subprocess.run(["rm", "-rf", folder])
    sets = {}
    run(*command)
    sets["new"] = predictions(folder)

    def again():
        ended = run(HFTRUN, "-q", "m.so", *DATA, "--epochs", "1", "--save", folder)
        holds(way + ": saving goes on after a kill", ended.code == 0, ended)
        if way == "other":
            write(folder + "/notes", b"mine")

    again()
    sets["old"] = predictions(folder)
    holds(way + ": the two sets differ", sets["old"] != sets["new"])
    kept = names(folder)
    action = "no-exchange" if way == "cannot" else "none"
    env = {"FAULT_NO_EXCHANGE": "1"} if way == "cannot" else {}
    calls = count_calls("any", *command, **env)
    again()
    found = {"old": 0, "new": 0}
    for k in spread(calls, most):
        ended = run(*command, fault="any:%d:kill" % k, **env)
        seen, loaded = sees(folder, sets)
        holds("%s, killed at call %d of %d: the old set or the new one" % (way, k, calls),
              ended.code == -9 and len(seen) == 1, ended, loaded, seen, names(folder))
        for s in seen:
            found[s] += 1
        again()
        holds("%s, killed at call %d: the next save clears up" % (way, k), names(folder) == kept,
              names(folder))
    holds(way + ": both were seen", found["old"] and found["new"], found)
    left = [n for n in names() if n.startswith(".hftac-")]
    holds(way + ": nothing is left over", not left, left)
    return found


def kill_moments(n):
    """kill -9 at moments of the clock, hftrun alone, real syncs."""
    folder, rng = "moments", random.Random(1)
    commands = [[HFTRUN, "-q", "m.so", *DATA, "--epochs", str(e), "--save", folder] for e in (1, 2)]
    sets, took = {}, []
    for i, c in enumerate(commands):
        at = time.monotonic()
        run(*c)
        took.append(time.monotonic() - at)
        sets[i] = predictions(folder)
    for i in range(n):
        p = start(*commands[i % 2])
        time.sleep(rng.random() * 1.2 * max(took))
        p.kill()
        p.communicate()
        seen, loaded = sees(folder, sets)
        holds("killed at moment %d: the old set or the new one" % i, len(seen) == 1, loaded, seen)
    run(*commands[0])
    left = [x for x in names() if x.startswith(".hftac-")]
    holds("killed at %d moments: nothing is left over" % n, not left, left)


# ---- hftac ----

def killed_single():
    """Killed at every step of replacing one file, which the next run clears up."""
    run(HFTRUN, "-q", "m.so", "--save", "one")
    predict = [HFTRUN, "-q", "m.so", "--load", "one", "--test", "d.safetensors", "--predict",
               "file.out"]
    for what, faults, output, command in (("hftrun --predict", ("kill", "INT2"), "file.out",
                                           predict),
                                          ("hftac", ("kill",), "file.so",
                                           [HFTAC, "-q", "m.hdl", "-O0", "-o", "file.so"])):
        run(*command)
        new, kept, left = read(output), sorted(set(names()) | {"calls"}), 0
        calls = count_calls("rename", *command)
        for k in range(1, calls + 1):
            for fault in faults:
                write(output, b"old")
                ended = run(*command, fault="rename:%d:%s" % (k, fault))
                holds("%s, %s at step %d: the old file or the new one" % (what, fault, k),
                      ended.code != 0 and read(output) in (b"old", new), ended)
                left += names() != kept
                ended = run(*command)
                holds("%s, %s at step %d: the next run works" % (what, fault, k),
                      ended.code == 0 and read(output) == new, ended)
                clean("%s, %s at step %d" % (what, fault, k), kept)
        holds(what + ": there was something to clear up", calls >= 3 and left, calls, left)


def compiler(most):
    compile_it = [HFTAC, "-q", "m.hdl", "-B", "3", "-O0", "-o", "c.so"]
    run(HFTAC, "-q", "m.hdl", "-B", "2", "-O0", "-o", "c.so")
    old = read("c.so")
    run(*compile_it)
    new = read("c.so")
    kept = sorted(set(names() + ["calls"]))
    for kind, action in (("write", "ENOSPC"), ("write", "EDQUOT"), ("sync", "EIO"),
                         ("rename", "EIO"), ("open", "EMFILE"), ("any", "kill")):
        for k in spread(count_calls(kind, *compile_it), most):
            write("c.so", old)
            ended = run(*compile_it,
                        fault="%s:%d%s:%s"
                        % (kind, k, "+" if action in ("ENOSPC", "EDQUOT") else "", action))
            what = "hftac, %s %d: %s" % (kind, k, action)
            good = ended.code == -9 if action == "kill" else ended.code in (
                0, 3) and (ended.code == 0 or "error" in ended.err)
            holds(what + " ends well", good, ended)
            holds(what + ": the old file or the new one",
                  read("c.so") in (old, new) and (ended.code or read("c.so") == new), ended)
            if action != "kill" and kind != "rename":
                clean(what, kept)
            for n in names():
                if n.startswith(".hftac-"):
                    os.unlink(n)
    for kind, action in (("write", "short"), ("write", "EINTR"), ("read", "EINTR")):
        for k in spread(count_calls(kind, *compile_it), most):
            write("c.so", old)
            ended = run(*compile_it, fault="%s:%d:%s" % (kind, k, action))
            holds("hftac, %s %d: %s does not matter" % (kind, k, action),
                  ended.code == 0 and read("c.so") == new, ended)
    calls = count_calls("alloc", *compile_it)
    for k in spread(calls, 1000 if most > 100 else 8):
        write("c.so", old)
        ended = run(*compile_it, fault="alloc:%d:ENOMEM" % k)
        holds("hftac, allocation %d of %d failing" % (k, calls),
              ended.code == 0 or ended.code == 3 and "out of memory" in ended.err.lower(), ended)
        clean("hftac, allocation %d of %d failing" % (k, calls), kept)
    for sig in ("INT", "TERM"):
        for k in spread(count_calls("any", *compile_it), most):
            write("c.so", old)
            ended = run(*compile_it, fault="any:%d:%s" % (k, sig))
            holds("hftac, SIG%s at call %d" % (sig, k),
                  ended.code != 0 and read("c.so") in (old, new), ended)
            clean("hftac, SIG%s at call %d" % (sig, k), kept)


def size_limit():
    def limit(n):
        return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n, n))

    write("l.so", b"old")
    fill_set()
    old = content("s")
    kept = names()
    for n in (0, 64, 600, 3000):
        ended = run(HFTAC, "-q", "m.hdl", "-o", "l.so", before=limit(n))
        holds("hftac with files of at most %d bytes is exit 3" % n,
              ended.code == 3 and read("l.so") == b"old", ended)
    for n in (0, 64, 300):
        ended = run(HFTRUN, "-q", "m.so", *DATA, "--save", "s", before=limit(n))
        holds("hftrun with files of at most %d bytes is exit 3" % n,
              ended.code == 3 and content("s") == old, ended)
    clean("RLIMIT_FSIZE", kept)


def timed(what, part, *args):
    at = time.monotonic()
    before = passed
    part(*args)
    print("%-16s %5d checks %6.1f s" % (what, passed - before, time.monotonic() - at))


def main():
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=base) as folder:
        os.chdir(folder)
        prepare()
        wide = 1000 if MOMENTS >= 100 else 12
        timed("outputs", outputs)
        timed("standard output", standard_output)
        timed("signals", signals)
        timed("failing calls", failing_calls, wide)
        timed("allocations", failing_allocations, 2 * wide)
        timed("signals at calls", signals_at_calls, wide)
        for way in ("exchange", "other", "cannot"):
            timed("killed " + way, killed, way, 2 * wide)
        timed("killed single", killed_single)
        timed("moments", kill_moments, MOMENTS)
        timed("hftac", compiler, wide // 3)
        timed("size limit", size_limit)
        os.chdir("/")
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(failed != 0 or passed == 0)


main()
