#!/usr/bin/env bash
# format.sh SOURCE-DIR: every C file is as clang-format 14 would write it, and no line of a comment
# in C files, or of prose in README and docs, is longer than 100 columns.  Skipped (77) without
# clang-format 14.
set -u
cd "$1" || exit 2
format=$(command -v clang-format-14 || command -v clang-format) ||
    { echo "skipped: no clang-format"; exit 77; }
"$format" --version | grep -q 'version 14' ||
    { echo "skipped: $("$format" --version) is not version 14"; exit 77; }
failed=0
bad=$(git ls-files '*.c' '*.h' 2>/dev/null | xargs -r "$format" --dry-run -Werror 2>&1 |
    grep -oE '^[^:]+' | sort -u)
[ -z "$bad" ] || { echo "clang-format would change: $bad"; failed=1; }
# Comments that begin a line or go on from the one before.
bad=$(git ls-files '*.c' '*.h' '*.def' '*.y' '*.l' | LC_ALL=C.UTF-8 xargs awk \
    'length > 100 && /^ *(\/\*|\* )/ { print FILENAME ":" FNR }')
[ -z "$bad" ] || { echo "comments wrap at 100 columns: $bad"; failed=1; }
# Indented lines are text that is to be typed or looked at, lines with | tables.
bad=$(git ls-files README.md 'docs/*.md' | LC_ALL=C.UTF-8 xargs awk \
    '/^```/ { code = !code } length > 100 && !code && !/^    / && !/\|/ && !/^`/ {
        print FILENAME ":" FNR }')
[ -z "$bad" ] || { echo "prose wraps at 100 columns: $bad"; failed=1; }
[ $failed = 0 ] && echo "formatted"
exit $failed
