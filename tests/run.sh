#!/usr/bin/env bash
# All tests: installs what is missing, builds into build/, runs CTest.  Arguments go to ctest.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/tools/setup.sh"
setup_hftac
command -v python3 >/dev/null || need_packages python3-minimal # some tests read files with it
build_hftac "$root/build" -DHFTAC_WERROR=ON
cd "$root/build"
exec ctest --output-on-failure --timeout 600 -j 2 "$@"
