#!/usr/bin/env bash
# options.sh BIN PAGES: what is made from the tables of options: every option that a man page names
# is one of --help's and the other way round, man has nothing to complain of, and completion offers
# what fits.
set -u
bin=$1 pages=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2
failed=0 passed=0
PATH=$bin:$PATH

same() { # WHAT WANTED GOT
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED: %s\n  wanted: %s\n  got:    %s\n' "$1" "$2" "$3"
    fi
}

for program in hftac hftrun; do
    # Option names at the beginning of a row, in either text.
    "$program" --help | grep -oE '^  (-[a-zA-Z], )?--?[a-zA-Z-]+' | sed 's/.*[ ]//' >helped
    sed -n '/^\.TP$/{n;s/\\f[BRI]//g;s/\\//g;s/^-[a-zA-Z], //;s/[= ].*//;/^-/p}' \
        "$pages/$program.1" >paged
    same "$program: --help and man page have the same options" "$(cat helped)" "$(cat paged)"
    same "$program: ... and there are some" yes "$([ "$(wc -l <helped)" -gt 20 ] && echo yes)"
    "$program" --help >help
    same "$program: exit codes in the man page" "$(sed -n '/^Exit codes/,$p' help | tr -d ',.' |
        tr -s ' \n' ' ')" \
        "Exit codes: $(sed -n '/^\.SH EXIT/,/^\.SH FILES/{/^\./d;s/\\f[BR]//g;s/\.$//;p}' \
        "$pages/$program.1" | tr -d ',' | tr '\n' ' ')"
    if command -v groff >/dev/null; then
        same "$program: groff's warnings" "" \
            "$(groff -man -ww -Tutf8 "$pages/$program.1" 2>&1 >/dev/null)"
    fi
done

# ---- completion ----

# complete WORD...: what is offered for the last word; words as bash splits them, at blanks and at
# `=`.
compopt() { :; } # only known while a user completes
# shellcheck disable=SC1090
. "$pages/hftac" && . "$pages/hftrun"
complete_words() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    "_$1"
    echo "${COMPREPLY[*]}"
}
mkdir models data
touch model.hdl a.hir model.so "two words.so" x.safetensors
same "names" "--emit=" "$(complete_words hftac --em)"
same "all of a beginning" "--profile --progress=" "$(complete_words hftrun model.so --pro)"
same "hidden options" "" "$(complete_words hftrun --checkp)$(complete_words hftac --print)"
same "every option of --help" "$("$bin/hftrun" --help | grep -cE '^  (-q, )?--')" \
    "$(complete_words hftrun -- | tr ' ' '\n' | grep -c '^--')"
same "words behind =" "plain" "$(complete_words hftrun --progress = pl)"
same "words behind a blank" "plain" "$(complete_words hftrun --progress pl)"
same "all words" "auto bar plain none" "$(complete_words hftrun --progress =)"
same "a list's next word" "ir,grad" "$(complete_words hftac --emit = ir,gr)"
same "passes" "mask_batch" "$(complete_words hftac --dump-after = m)"
same "one dash" "native" "$(complete_words hftac -march = n)"
same "files" "x.safetensors" "$(complete_words hftrun --train x)"
same "folders" "data models" "$(complete_words hftac -I "" | tr ' ' '\n' | sort | tr '\n' ' ' |
    sed 's/ $//')"
same "nothing for a number" "" "$(complete_words hftrun --epochs "")"
same "operands" "a.hir data model.hdl models" "$(complete_words hftac "" | tr ' ' '\n' | sort |
    tr '\n' ' ' | sed 's/ $//')"
same "a name with a blank" "two words.so" "$(complete_words hftrun tw)"
if command -v zsh >/dev/null; then
    for program in hftac hftrun; do
        same "$program: zsh reads its completion" "" "$(zsh -n "$pages/_$program" 2>&1)"
        # _arguments gets one text per spelling of an option, and the operand.
        same "$program: zsh's options" "$(sed -n '/^complete/,$!p' "$pages/$program" |
            grep -oE "compgen -W '-[^']*'" | sed "s/compgen -W '//;s/'//" | wc -w)" \
            "$(zsh -fc "_arguments() { shift; print -l -- \"\$@\"; }; . $pages/_$program" |
            grep -cE '^\*?-')"
        same "$program: zsh's operands" "$([ $program = hftac ] && echo a.hir model.hdl ||
            echo model.so two words.so)" \
            "$(zsh -fc "_arguments() { local g=\${\${@[-1]}#*-g }; eval print -- \${g//\\\"/}; }; . $pages/_$program" | tr ' ' '\n' | sort | tr '\n' ' ' | sed 's/ $//')"
    done
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
