#!/usr/bin/env bash
# format.sh SOURCE-DIR: every C file is as clang-format 14 would write it; skipped (77) without
# clang-format 14.
set -u
cd "$1" || exit 2
format=$(command -v clang-format-14 || command -v clang-format) ||
    { echo "skipped: no clang-format"; exit 77; }
"$format" --version | grep -q 'version 14' ||
    { echo "skipped: $("$format" --version) is not version 14"; exit 77; }
bad=$(git ls-files '*.c' '*.h' 2>/dev/null | xargs -r "$format" --dry-run -Werror 2>&1 |
    grep -oE '^[^:]+' | sort -u)
[ -z "$bad" ] && echo "formatted" && exit 0
echo "clang-format would change:"
echo "$bad"
exit 1
