#!/usr/bin/env bash
# networks.sh BIN SOURCE-DIR: every network of samples/ has as many parameters as it should at full
# size and is compiled within limits of time and memory; at a narrow size it trains a few epochs on
# small data, with losses that fall.
set -u
bin=$1 root=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2
data=$root/tests/networks_data.py
failed=0 passed=0
result() { if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi; }

# full NAME PARAMETERS SECONDS [OPTION...]: SECONDS of processors; twice what two idle cores may
# take.
full() {
    local name=$1 parameters=$2 seconds=$3
    shift 3
    case " $* " in *" -B "*) ;; *) set -- -B 4 "$@" ;; esac
    python3 "$data" limits "$seconds" 1024 "$bin/hftac" "$root/samples/$name.hdl" -o full.so \
        "$@" >out 2>&1
    local status=$?
    echo "full $name $*"
    grep -v ': .* parameters' out
    if ! grep -q ": $parameters parameters" out; then
        echo "FAILED: $name has not $parameters parameters: $(grep parameters out)"
        status=1
    fi
    result $status
}

# narrow NAME DATA EPOCHS "LOSSES" "RUN OPTIONS" [COMPILER OPTION...]
narrow() {
    local name=$1 file=$2 epochs=$3 losses=$4 run=$5
    shift 5
    echo "narrow $name"
    # shellcheck disable=SC2086
    "$bin/hftac" -q "$root/samples/$name.hdl" -B 2 -o narrow.so "$@" &&
        "$bin/hftrun" -q narrow.so --train "$file" --epochs "$epochs" --log run.jsonl $run \
        >/dev/null &&
        python3 "$data" falls run.jsonl $losses
    result $?
}

full mlp 26122 1
full lenet 61706 2
full pointnet_cls 3465305 6
full pointnet_seg 3527629 6
full dcgan 6342272 6 # 3576704 + 2765568
full resnet18 11181642 8
full mobilenet_v3_large 4214842 10
full mobilenet_v2 2236682 10
full transformer_lm $((199168 + 257 * 33279)) 5
full transformer_lm $((199168 + 257 * 1000)) 5 -Dvocab=1000
full bert 59593727 10
full bert 59593727 10 -B 64 # neither time nor memory grows with B

"$root/tools/digits28.py" "$root/samples/data/digits-train.safetensors" digits.safetensors \
    --samples 256 >/dev/null
narrow lenet digits.safetensors 4 loss "--hyper lr=0.05" -DN=32
"$root/tools/shapes.py" cls.safetensors --samples 96 --points 24 --classes 4 >/dev/null
narrow pointnet_cls cls.safetensors 4 loss "--hyper drop=0" -DN=12 -Dwidth_divisor=16 -Dpoints=24 \
    -Dclasses=4 -Deps=1e-3
"$root/tools/shapes.py" seg.safetensors --samples 60 --points 16 --seg >/dev/null
narrow pointnet_seg seg.safetensors 4 loss "" -DN=10 -Dwidth_divisor=16 -Dpoints=16 -Deps=1e-3
"$root/tools/tokenise.py" "$root/docs/language.md" text.safetensors --vocab 50 --length 12 \
    >/dev/null
narrow transformer_lm text.safetensors 3 loss "--hyper drop=0" -DN=8 -Dvocab=50 -Dlength=12 \
    -Dd_model=16 -Dff=32

python3 "$data" make mlp.safetensors 1 x=F32:64x20:normal y=I64:64:class:6
narrow mlp mlp.safetensors 4 loss "" -DN=16 -Dfeatures=20 -Dwidth=16 -Dclasses=6
python3 "$data" make gan.safetensors 2 real=F32:12x3x64x64:normal z=F32:12x8x1x1:normal
narrow dcgan gan.safetensors 4 "loss_d loss_g" "--hyper lr_d=1e-3" -DN=4 -Dnz=8 -Dwidth=4
python3 "$data" make images.safetensors 3 x=F32:24x3x32x32:normal y=I64:24:class:10
narrow resnet18 images.safetensors 4 loss "--hyper lr=0.01" -DN=8 -Dwidth=4 -Doptim=sgd
narrow mobilenet_v3_large images.safetensors 5 loss "--hyper drop=0" -DN=8 \
    -Dwidth_multiplier=0.125 -Dhead=32 -Deps=1e-3
narrow mobilenet_v2 images.safetensors 5 loss "--hyper drop=0" -DN=8 -Dwidth_multiplier=0.25 \
    -Dlast=64
python3 "$data" make masked.safetensors 4 x=I64:24x10:int:60 seg=I64:24x10:int:3 \
    y=I64:24x10:sparse:60
narrow bert masked.safetensors 5 loss "--hyper lr=0.005" -DN=6 -Dvocab=60 -Dlength=10 \
    -Dpositions=10 -Dhidden=16 -Dheads=2 -Ddepth=2 -Deps=1e-3
python3 "$data" make words.safetensors 5 text=I64:64x12:int:50 label=I64:64:class:2
narrow lstm words.safetensors 5 loss "--hyper drop=0 --hyper lr=0.01" -DN=16 -Dvocab=50 \
    -Dlength=12 -Dwidth=16 -Dhidden=16
python3 "$data" make masks.safetensors 6 image=F32:16x3x16x16:normal mask=I64:16x16x16:sign
narrow unet masks.safetensors 4 loss "" -DN=4 -Dsize=16 -Dwidth=4 -Ddepth=2
python3 "$data" make pairs.safetensors 7 image=F32:32x3x16x16:normal text=I64:32x8:int:50
narrow two_tower pairs.safetensors 6 loss "--hyper lr=0.01" -DN=8 -Dsize=16 -Dlength=8 -Dvocab=50 \
    -Dwidth=4 -Ddim=16

echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
