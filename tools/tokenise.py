#!/usr/bin/env python3
"""tokenise.py TEXT OUT.safetensors: any text file as data for samples/transformer_lm.hdl.

Words, numbers, punctuation marks and line ends are tokens; the most frequent ones get ids from 1, all others share
id 0 (<unk>).  Writes x and y [samples, length] i64, y being x one token later, and the vocabulary, one token a line in
order of id, to OUT.vocab.  --vocab-file uses a vocabulary that was written before (for validation and test data).

    tools/tokenise.py book.txt book.safetensors --vocab 1000 --length 32
    hftac samples/transformer_lm.hdl -B 4 -Dvocab=1000 -Dlength=32 && hftrun model.so --train book.safetensors --valid 0.1
"""
import argparse
import array
import collections
import re
import sys

import st

TOKEN = re.compile(r"\w+(?:['’]\w+)*|\n|[^\w\s]")
UNKNOWN = "<unk>"


def tokens_of(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f:
            for word in TOKEN.findall(line):
                yield "<eol>" if word == "\n" else word.lower()


def choose_vocabulary(words, size):
    counts = collections.Counter(words)
    by_count = sorted(counts, key=lambda w: (-counts[w], w))
    return [UNKNOWN] + by_count[: size - 1]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("text")
    p.add_argument("out")
    p.add_argument("--length", type=int, default=32, help="tokens per sample (default 32)")
    p.add_argument("--vocab", type=int, default=33279, help="largest vocabulary (default 33279)")
    p.add_argument("--vocab-file", help="take this vocabulary")
    a = p.parse_args()
    if a.length < 1 or a.vocab < 2:
        p.error("--length must be at least 1, --vocab at least 2")
    words = list(tokens_of(a.text))
    if a.vocab_file:
        with open(a.vocab_file, encoding="utf-8") as f:
            vocabulary = f.read().splitlines()
    else:
        vocabulary = choose_vocabulary(words, a.vocab)
    number = {w: i for i, w in enumerate(vocabulary)}
    ids = array.array("q", (number.get(w, 0) for w in words))
    samples = (len(ids) - 1) // a.length
    if samples < 1:
        sys.exit(f"{a.text}: {len(ids)} tokens are too few for one sample of {a.length}")
    end = samples * a.length
    shape = [samples, a.length]
    st.write(a.out, {"x": ("I64", shape, ids[:end]), "y": ("I64", shape, ids[1 : end + 1])})
    if not a.vocab_file:
        with open(a.out.removesuffix(".safetensors") + ".vocab", "w", encoding="utf-8") as f:
            f.write("\n".join(vocabulary) + "\n")
    unknown = sum(i == 0 for i in ids)
    print(f"{samples} samples of {a.length} tokens, vocabulary {len(vocabulary)}, {100 * unknown / len(ids):.1f} % unknown")


if __name__ == "__main__":
    main()
