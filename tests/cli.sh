#!/usr/bin/env bash
# cli.sh BIN SOURCE-DIR: what the programs say and return: exit codes, messages, files left behind.
set -u
bin=$1 root=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2
hftac=$bin/hftac hftrun=$bin/hftrun
train=$root/samples/data/digits-train.safetensors test=$root/samples/data/digits-test.safetensors
failed=0 passed=0

# expect CODE PATTERN COMMAND...: the exit code, and a fixed string in what it printed (both
# streams).
expect() {
    local code=$1 pattern=$2
    shift 2
    "$@" >out 2>&1 </dev/null
    local status=$?
    if [ $status = "$code" ] && { [ -z "$pattern" ] || grep -qF -- "$pattern" out; }; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $*"
        echo "  exit $status (wanted $code), wanted text: $pattern"
        head -n 5 out | sed 's/^/  | /'
    fi
}
# holds DESCRIPTION COMMAND...
holds() {
    local what=$1
    shift
    if "$@" >out 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $what"
        head -n 5 out
    fi
}
absent() { [ ! -e "$1" ]; }
tensors() { python3 - "$@"; }

# ---- hftac ----
expect 0 "Usage: hftac" "$hftac" --help
expect 0 "hftac 0." "$hftac" --version
expect 0 "einsum" "$hftac" --list-ops
expect 2 "no input file" "$hftac"
expect 2 "Try 'hftac --help'" "$hftac" --nonsense
expect 2 "-B needs a whole number" "$hftac" -B 0 x.hdl
expect 2 "--emit takes ast, hdl, ir," "$hftac" --emit=nothing x.hdl
expect 2 "--dump-after takes frontend, autodiff," "$hftac" --dump-after=nothing x.hdl
expect 2 "bogus" "$hftac" -march=bogus "$root/samples/digits.hdl"
expect 3 "nowhere.hdl" "$hftac" nowhere.hdl
expect 3 "cannot write" "$hftac" -q "$root/samples/digits.hdl" -o /nonexistent/model.so
expect 1 "--max-memory" "$hftac" -q -B 64 --max-memory=1M "$root/samples/digits.hdl" -o big.so
holds "no output is left after an error" absent big.so
mkfifo pipe
expect 3 "not a regular file" "$hftac" -q "$root/samples/digits.hdl" -o pipe
cat pipe >from_pipe &
expect 0 "" "$hftac" -q "$root/samples/digits.hdl" --emit=ir -o pipe
wait
holds "a pipe is written to, not replaced" bash -c \
    'test -p pipe && grep -q "graph @train" from_pipe'
rm -f pipe from_pipe
expect 0 "parameters, 8 models" "$hftac" "$root/samples/digits.hdl" -B 8 -o digits.so
expect 0 "" "$hftac" -q "$root/samples/digits.hdl" -B 8 -o again.so
holds "the same input gives the same bytes" cmp digits.so again.so
expect 4 "knows no CUDA device" "$hftrun" digits.so --device=cuda --epochs 1 --train \
    "$root/samples/data/digits-train.safetensors"
expect 2 "there is no device \"gpu\"" "$hftrun" digits.so --device gpu --epochs 1 --train \
    "$root/samples/data/digits-train.safetensors"
expect 0 "" "$hftrun" digits.so -q --device=cpu --epochs 1 --train \
    "$root/samples/data/digits-train.safetensors"
holds "model.so needs nothing from outside" bash -c '! nm -D --undefined-only digits.so | grep -q .'
holds "model.so exports one symbol" bash -c '[ "$(nm -D --defined-only digits.so | wc -l)" = 1 ]'
holds "only the outputs are left" bash -c '[ "$(ls)" = "$(printf "again.so\ndigits.so\nout")" ]'
expect 0 "total" "$hftac" -q --time-report "$root/samples/digits.hdl" -o t.so
expect 0 "scratch" "$hftac" -q --mem-report "$root/samples/digits.hdl" -o t.so
expect 0 "graph @train" "$hftac" -q --dump-after=simplify "$root/samples/digits.hdl" -o t.so
expect 0 "digraph" "$hftac" -q --emit=dot -o - "$root/samples/digits.hdl"
for stage in ast hdl ir grad fused lowered plan llvm asm; do
    expect 0 "fc1" "$hftac" -q --emit=$stage -B 2 -o - "$root/samples/digits.hdl"
done
holds "-MD names the files read" bash -c \
    "\"$hftac\" -q -MD \"$root/samples/digits.hdl\" -o t.so && grep -q digits.hdl t.so.d"
holds "stdin" bash -c "\"$hftac\" -q -o t.so - < \"$root/samples/digits.hdl\""
# every graph stage reads back to the same bytes, and what is read compiles
for stage in ir grad fused; do
    "$hftac" -q -B 3 --emit=$stage -o a.hir "$root/samples/digits.hdl"
    expect 0 "" "$hftac" -q -B 3 --emit=$stage -o b.hir a.hir
    holds "read(print(g)) is g at stage $stage" cmp a.hir b.hir
done
"$hftac" -q "$root/samples/digits.hdl" -B 3 --emit=obj -o direct.o
"$hftac" -q -B 3 --emit=ir -o a.hir "$root/samples/digits.hdl"
"$hftac" -q -B 3 --emit=obj -o read.o a.hir
# The descriptor differs by the source lines of kernels, which a .hir does not have.
for o in direct read; do objcopy -O binary -j .text $o.o $o.text; done
holds "the .hir compiles to the same code" cmp direct.text read.text
# --emit=hdl compiles to the same graph
"$hftac" -q --emit=hdl -o printed.hdl "$root/samples/digits.hdl"
"$hftac" -q --emit=ir -o c.hir printed.hdl
"$hftac" -q --emit=ir -o d.hir "$root/samples/digits.hdl"
holds "--emit=hdl compiles to the same graph" cmp c.hir d.hir
# damaged IR
head -c 700 a.hir >cut.hir
expect 1 "error:" "$hftac" -q -o t2.so cut.hir
holds "no output for a damaged .hir" absent t2.so

# ---- compile time ----
holds "digits compiles in well under a second, and no slower for 256 models than for 1" bash -c "
    t() { python3 - \$1 <<< 'import resource, subprocess, sys
subprocess.run([\"$hftac\", \"-q\", \"$root/samples/digits.hdl\", \"-B\", sys.argv[1], \"-o\", \"t.so\"], check=True)
r = resource.getrusage(resource.RUSAGE_CHILDREN)
print(int(1000 * (r.ru_utime + r.ru_stime)))'; }
    t 1 >/dev/null; a=9999; b=9999
    for i in 1 2 3 4 5; do x=\$(t 1); y=\$(t 256); [ \$x -lt \$a ] && a=\$x; [ \$y -lt \$b ] && b=\$y; done
    echo \"\$a ms, \$b ms\"; [ \$a -lt 900 ] && [ \$b -lt \$((a * 3 / 2 + 50)) ]"

# ---- hftrun ----
expect 0 "Usage: hftrun" "$hftrun" --help
expect 0 "hftrun 0." "$hftrun" --version
expect 2 "no model.so" "$hftrun"
expect 2 "nothing to do" "$hftrun" digits.so
expect 3 "nowhere.so" "$hftrun" nowhere.so --train "$train"
expect 1 "out" "$hftrun" out --train "$train"
head -c 3000 digits.so >cut.so
expect 1 "cut.so" "$hftrun" cut.so --info
expect 0 "fc1.weight" "$hftrun" --info digits.so
expect 0 '"parameters"' "$hftrun" --info --json digits.so
expect 3 "nowhere.safetensors" "$hftrun" digits.so --train nowhere.safetensors
expect 2 "lrr" "$hftrun" digits.so --train "$train" --hyper lrr=1
expect 2 "is not a number" "$hftrun" digits.so --train "$train" --hyper lr=abc
expect 2 "lr has 3 values for 8 models" "$hftrun" digits.so --train "$train" --models 8 --hyper \
    lr=1e-3,1e-2,1e-1
expect 2 "8 models" "$hftrun" digits.so --train "$train" --models 9
expect 2 "one model.so" "$hftrun" digits.so digits.so --train "$train"
expect 0 "outside its domain" "$hftrun" digits.so --train "$train" --epochs 1 --hyper lr=0.5 \
    --models 1
expect 0 "done" "$hftrun" digits.so --train "$train" --test "$test" --epochs 2 --hyper \
    'lr=log(1e-4..1e-2)' --save saved --log run.jsonl --csv run.csv
holds "eight models are saved" bash -c '[ "$(ls saved/*.safetensors | wc -l)" = 8 ] && [ -s saved/hypers.json ]'
holds "the log is JSON lines with a header" python3 -c \
    'import json; l=[json.loads(x) for x in open("run.jsonl")]; assert l[0]["event"]=="start" and len(l[0]["slots"])==8 and l[-1]["event"]=="end"; assert sum(e["event"]=="train" for e in l) >= 16'
holds "models run until the table, which says that they are done" python3 -c \
    'import json; l=[json.loads(x) for x in open("run.jsonl")]; assert {e["state"] for e in l if "state" in e} == {"running"}'
holds "the CSV has one row per epoch, model and metric" bash -c \
    '[ "$(grep -c ,train, run.csv)" -ge 16 ] && head -n 1 run.csv | grep -q "^epoch,model,split,metric,value,lr"'
expect 0 "test acc" "$hftrun" digits.so --test "$test" --load saved
expect 0 "neither trained nor loaded" "$hftrun" digits.so -q --test "$test"
holds "... and nothing is said of those that are" bash -c \
    "! '$hftrun' digits.so -q --test '$test' --load saved 2>&1 | grep -q neither"
grep -v epochs "$root/samples/digits.hdl" >endless.hdl
"$hftac" -q endless.hdl -o endless.so
expect 2 "how many epochs" "$hftrun" endless.so --train "$train"
expect 0 "" "$hftrun" endless.so -q --epochs 1 --train "$train"
expect 0 "done" "$hftrun" digits.so --test "$test" --load saved --only 3 --save alone
expect 3 "alone: there is no model-000.safetensors in it, for model 0" "$hftrun" digits.so --test \
    "$test" --load alone
expect 0 "test acc" "$hftrun" digits.so --test "$test" --load alone --only 3
expect 0 "" "$hftrun" digits.so --test "$test" --load saved --predict out.safetensors
holds "predictions cover every sample of every model" python3 -c '
import json,struct
d=open("out.safetensors","rb").read(); n=struct.unpack("<Q",d[:8])[0]; h=json.loads(d[8:8+n])
t=open("'"$test"'","rb").read(); m=struct.unpack("<Q",t[:8])[0]; N=json.loads(t[8:8+m])["label"]["shape"][0]
assert h["probs"]["shape"]==[8,N,10], h
a,b=h["probs"]["data_offsets"]; v=struct.unpack("<%df"%((b-a)//4), d[8+n+a:8+n+b])
assert all(abs(sum(v[i:i+10])-1)<1e-4 for i in range(0,len(v),10))'
expect 0 '"state": "done"' "$hftrun" digits.so --train "$train" --epochs 1 --json
"$hftac" -q "$root/samples/digits.hdl" -B 27 -o g.so
holds "--grid takes the product" bash -c \
    "\"$hftrun\" g.so --train \"$train\" --epochs 1 --grid --hyper lr=1e-4,1e-3,1e-2 --hyper drop=0,0.2,0.5 --hyper decay=0,1e-5,1e-3 -q | tail -n +2 | wc -l | grep -qx 27"
holds "the same seed gives the same run, another seed another" bash -c "
    r() { \"$hftrun\" digits.so --train \"$train\" --epochs 1 -q --json --seed \$1; }
    [ \"\$(r 1)\" = \"\$(r 1)\" ] && [ \"\$(r 1)\" != \"\$(r 2)\" ]"
expect 5 "diverged" "$hftrun" digits.so --train "$train" --epochs 2 --hyper lr=1e30 -q
expect 3 "cannot" "$hftrun" digits.so --train "$train" --epochs 1 --save /nonexistent/dir -q
expect 3 "cannot write" "$hftrun" digits.so --train "$train" --epochs 1 --log /nonexistent/log -q
expect 0 "epoch 1" "$hftrun" digits.so --train "$train" --epochs 1 --progress=plain

# ---- Ctrl-C: after the current step, saved ----
"$hftrun" digits.so --train "$train" --epochs 100000 --save stopped -q >out 2>&1 &
pid=$!
sleep 1
kill -INT $pid
wait $pid
holds "Ctrl-C ends with exit code 130" test $? = 130
holds "... and saves what is trained" bash -c '[ "$(ls stopped/*.safetensors | wc -l)" = 8 ]'

# ---- data ----
tensors "$train" <<'P'
import json, struct, sys
d = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", d[:8])[0]
h = json.loads(d[8:8 + n])
body = d[8 + n:]
def write(name, header, data):
    text = json.dumps(header).encode()
    open(name, "wb").write(struct.pack("<Q", len(text)) + text + data)
h.pop("__metadata__", None)
image, label = h["image"], h["label"]
def cut(t): return body[t["data_offsets"][0]:t["data_offsets"][1]]
def pack(name, **tensors):
    header, data = {}, b""
    for key, (dtype, shape, raw) in tensors.items():
        header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    write(name, header, data)
N = label["shape"][0]
x, y = ("U8", image["shape"], cut(image)), ("U8", [N], cut(label))
pack("nolabel.safetensors", image=x)
pack("wrongshape.safetensors", image=("U8", [N, 4, 16], x[2]), label=y)
pack("wrongtype.safetensors", image=("F32", [N, 8, 8], b"\0" * (4 * N * 64)), label=y)
pack("count.safetensors", image=x, label=("U8", [N - 1], y[2][:-1]))
pack("badlabel.safetensors", image=x, label=("U8", [N], y[2][:100] + b"\x0a" + y[2][101:]))
pack("wide.safetensors", image=x, label=("I64", [N], b"".join(struct.pack("<q", v) for v in y[2])))
pack("toowide.safetensors", image=("I64", [N, 8, 8], struct.pack("<q", 300) * (N * 64)), label=y)
pack("few.safetensors", image=("U8", [5, 8, 8], x[2][:320]), label=("U8", [5], y[2][:5]))
open("truncated.safetensors", "wb").write(d[:len(d) // 2])
open("empty.safetensors", "wb").write(b"")
open("hugeheader.safetensors", "wb").write(struct.pack("<Q", 1 << 60) + d[8:])
P
expect 1 "label" "$hftrun" digits.so --train nolabel.safetensors -q
expect 1 "image" "$hftrun" digits.so --train wrongshape.safetensors -q
expect 1 "image" "$hftrun" digits.so --train wrongtype.safetensors -q
expect 1 "samples" "$hftrun" digits.so --train count.safetensors -q
expect 1 "sample 100" "$hftrun" digits.so --train badlabel.safetensors -q
expect 0 "done" "$hftrun" digits.so --train wide.safetensors --epochs 1 -q
expect 1 "300" "$hftrun" digits.so --train toowide.safetensors -q
expect 1 "batch" "$hftrun" digits.so --train few.safetensors -q
expect 0 "test acc" "$hftrun" digits.so --test few.safetensors -q
expect 0 "0.0" "$hftrun" digits.so --train "$train" --valid 0.1 --epochs 1 -q
for bad in truncated empty hugeheader; do
    expect 1 "$bad.safetensors" "$hftrun" digits.so --train $bad.safetensors -q
done
mkdir wrong && cp saved/model-000.safetensors wrong/model-000.safetensors
expect 3 "model-001" "$hftrun" digits.so --test "$test" --load wrong -q
expect 1 "fc1.weight" "$hftrun" digits.so --test "$test" --load "$test" -q
# ---- a program with outputs and no loss ----
cat >ask.hdl <<'H'
hdl 1
model M {
  input x : f32[N, 2]
  output y = sum(x, 1)
}
H
tensors <<'P'
import json, struct
h = json.dumps({"x": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
open("ask.safetensors", "wb").write(struct.pack("<Q", len(h)) + h + struct.pack("<4f", 1, 2, 3, 4))
P
expect 0 "" "$hftac" -q -DN=2 ask.hdl -o ask.so
for how in --test --train "--epochs 3 --train"; do
    rm -f answer.safetensors
    # shellcheck disable=SC2086
    expect 0 "" "$hftrun" -q ask.so --predict answer.safetensors $how ask.safetensors
    holds "... answers with $how" python3 -c \
        'import struct; assert struct.unpack("<2f", open("answer.safetensors", "rb").read()[-8:]) == (3, 7)'
    # shellcheck disable=SC2086
    expect 2 "--predict FILE" "$hftrun" ask.so $how ask.safetensors
done
# What has no axis of samples: the batches must agree.
sed 's/output y/output scale = arange(3)\n  output y/' ask.hdl >once.hdl
sed 's/output y/output total = sum(x)\n  output y/' ask.hdl >total.hdl
for n in 1 2; do
    expect 0 "" "$hftac" -q -DN=$n once.hdl -o once.so
    expect 0 "" "$hftrun" -q once.so --predict once.safetensors --test ask.safetensors
    expect 0 "" "$hftac" -q -DN=$n total.hdl -o total$n.so
done
expect 1 "output total has no axis of samples, but a value for each batch" "$hftrun" -q total1.so \
    --predict total.safetensors --test ask.safetensors
holds "... and no file" absent total.safetensors
expect 0 "" "$hftrun" -q total2.so --predict total.safetensors --test ask.safetensors
# A program for whole batches is refused a partial one before training begins; a multiple works, and
# so does what is not asked.
cat >whole.hdl <<'H'
hdl 1
model M {
  input x : f32[N, 2]
  fc = Linear(2)
  output y = fc(x)
  loss mean(fc(x) * flip(x, 0))
}
train M { batch N = 2; epochs 2; optimizer SGD(lr = 0.1) }
H
tensors <<'P'
import json, struct
for n in 3, 4:
    h = json.dumps({"x": {"dtype": "F32", "shape": [n, 2], "data_offsets": [0, 8 * n]}}).encode()
    open(f"{n}.safetensors", "wb").write(struct.pack("<Q", len(h)) + h + struct.pack(f"<{2 * n}f", *range(2 * n)))
P
expect 0 "@eval takes whole batches only: whole.hdl:6:21: " "$hftac" whole.hdl -o whole.so
expect 0 "whole batches only: whole.hdl:6:21: " "$hftrun" whole.so --info
expect 0 '"predict_whole": null' "$hftrun" whole.so --info --json
expect 0 "@eval whole=" "$hftac" whole.hdl --emit=fused -o -
expect 1 "3 samples are no multiple of N = 2" "$hftrun" -q whole.so --train 4.safetensors --test \
    3.safetensors --save not.saved
holds "... before training begins" absent not.saved
expect 1 "whole.hdl:6:21: " "$hftrun" -q whole.so --train 4.safetensors --valid 3.safetensors
expect 1 "whole.hdl:6:21: " "$hftrun" -q whole.so --train 4.safetensors --valid 0.25
expect 0 "" "$hftrun" -q whole.so --train 4.safetensors --valid 4.safetensors --test 4.safetensors
expect 0 "" "$hftrun" -q whole.so --train 3.safetensors --predict answer.safetensors
# ---- what files can do to a terminal, and pipes ----
mkfifo pipe
expect 3 "not a regular file" timeout 20 "$hftrun" digits.so --train pipe
expect 3 "not a regular file" timeout 20 "$hftrun" digits.so --train "$train" --hypers pipe
expect 1 "not a file" timeout 20 "$hftrun" pipe --train "$train"
printf 'l\033[2Jr\n1\n' >name.csv
printf 'lr\n1\033]0;title\a\n' >value.csv
expect 1 'l\x1b[2Jr' "$hftrun" digits.so --train "$train" --hypers name.csv
cp out said
holds "no escape sequence of a file's name is sent" bash -c \
    '[ -s said ] && ! grep -q "$(printf "\033")" said'
expect 2 '\x1b]0;title\x07' "$hftrun" digits.so --train "$train" --hypers value.csv

# ... nor of the path of a source file, which kernels and notes carry
odd=$(printf 'e\033[31m\377vil') && mkdir "$odd" && cp whole.hdl "$odd/whole.hdl"
expect 0 'e\x1b[31m\xffvil/whole.hdl:6:21: ' "$hftac" "$odd/whole.hdl" -o odd.so
cp out said
expect 0 'e\x1b[31m\xffvil/whole.hdl:6:21: ' "$hftrun" odd.so --info
cat out >>said
expect 0 'e\x1b[31m\xffvil/whole.hdl:' "$hftrun" odd.so --train 4.safetensors --profile
cat out >>said
holds "... is sent" bash -c '! grep -aq "$(printf "\033\|\377")" said'

# ---- a table of many models is sorted, not inserted: 20,000 in a few seconds ----
cat >many.hdl <<'H'
hdl 1
hyper h = 1
model Many {
  input x : f32[N]
  w = Param([1], init = 1)
  loss mean(x * w) * h
}
train { batch N = 2; optimizer SGD(0.1) }
H
python3 - <<'P'
import json, struct
h = json.dumps({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
open("many.safetensors", "wb").write(struct.pack("<Q", len(h)) + h + struct.pack("<2f", 1, 1))
P
expect 0 "" "$hftac" -q many.hdl -B 20000 -o many.so
holds "the final table of 20,000 models" bash -c \
    "ulimit -t 2; '$hftrun' -q many.so --test many.safetensors --hyper 'h=(1..2)' >table"
holds "... is in order" python3 -c '
rows = [l.split() for l in open("table") if l.split()[-1:] == ["done"]]
loss = [float(r[2]) for r in rows]
assert len(rows) == 20000 and loss == sorted(loss) and len(set(loss)) > 10000, rows[:3]'
# ... of what training minimizes the least comes first, whatever it is called
cat >clause.hdl <<'H'
hdl 1
hyper h = 1
model Clause {
  input x : f32[N]
  fc = Linear(1, bias = false)
  far = mean((fc(reshape(x, [N, 1])) - h) ** 2)
  metric near = -far
}
train { batch N = 2; update fc minimize far with SGD(0); init "*" zeros }
H
"$hftac" -q clause.hdl -B 3 -o clause.so
for name in far near; do
    "$hftrun" -q clause.so --test many.safetensors --hyper h=2,1,3 --sort=$name >$name.txt
    holds "--sort=$name" bash -c "grep 'done$' $name.txt | awk '{ printf \"%s \", \$2 }' | grep -qx '1 2 3 '"
done
# what the kernels take: every kernel of the step, by line, the dearest first; and names for perf
"$hftac" -q "$root/samples/digits.hdl" -B 2 -o digits2.so
set_of="$root/samples/data/digits-train.safetensors"
"$hftrun" digits2.so --progress=none --train "$set_of" --epochs 1 --profile --perf-map >plain.txt \
    2>profile.txt
holds "--profile lists kernels with their lines" grep -Eq \
    "train +fc1.weight.* $root/samples/digits.hdl:[0-9]+" profile.txt
holds "... sorted by time" bash -c "awk '\$6 == \"train\" { if (seen && \$2 > last) exit 1; last = \$2; seen = 1 } END { exit !seen }' profile.txt"
"$hftrun" digits2.so --progress=none --train "$set_of" --epochs 1 >whole.txt 2>/dev/null
holds "... and the numbers are the same" cmp plain.txt whole.txt
holds "--perf-map names the functions" bash -c \
    "grep -lq ' train.models' /tmp/perf-*.map && rm -f /tmp/perf-*.map"
holds "nothing half-written is left" bash -c '! ls -A | grep -E "\.tmp|\.[0-9]+\.o$"'

echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
