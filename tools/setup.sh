# Sourced by samples/quickstart.sh and tests/run.sh: installs what is missing (Debian, as root or with
# sudo) and defines `build_hftac DIR [cmake options]`.
need_packages() {
    missing=""
    for p in "$@"; do
        dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
    done
    [ -z "$missing" ] && return 0
    echo "installing:$missing"
    sudo=""
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || { echo "please install as root:$missing" >&2; exit 4; }
        sudo=sudo
    fi
    $sudo apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

setup_hftac() {
    need_packages llvm-19-dev flex bison cmake ninja-build gcc libc6-dev binutils libjansson-dev libxxhash-dev pkg-config
}

build_hftac() {
    dir=$1
    shift
    cmake -S "$root" -B "$dir" -G Ninja -DCMAKE_BUILD_TYPE=Release "$@" >"$dir.log" 2>&1 || { cat "$dir.log" >&2; exit 3; }
    cmake --build "$dir" >"$dir.log" 2>&1 || { tail -n 40 "$dir.log" >&2; exit 3; }
    rm -f "$dir.log"
}
