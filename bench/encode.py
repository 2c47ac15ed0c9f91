#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Megabytes of text per second of one processor that become tokens, beside PyPI's
`tokenizers`.

Usage: bench/encode.py [--bin FILE] [--bytes N] [--rounds N] TEXT TOKENIZER_JSON...

TEXT, repeated up to N bytes, becomes tokens as documents of some 4,000 characters, and
whole. `mnemon-train tokenizer encode` reads documents as JSON and prints the ids, which
counts; `mnemon-train tokenize --threads 1` reads the whole text, hashes it and writes a
file of tokens. What both take for an empty text (the start of the program, reading the
tokenizer) is subtracted. `tokenizers` encodes the same documents in one thread, and its
`encode` alone is measured, which makes offsets too. It must give the same ids. Programs
take turns; the best of the rounds is printed. Processor time, not time of the clock.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

DOCUMENT = 4000  # characters


def documents(text):
    at = 0
    while at < len(text):
        end = text.find("\n", at + DOCUMENT) + 1 or len(text)
        yield text[at:end]
        at = end


def seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True)
    if done.returncode != 0:
        sys.exit(done.stderr.decode())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime,
            done.stdout)


class Corpus:
    """The text in files, whole and as documents, and nothing in the same forms."""

    def __init__(self, text, folder):
        self.documents = list(documents(text))
        self.folder = pathlib.Path(folder)
        for name, parts in (("all", self.documents), ("none", [])):
            self.file(name, "jsonl").write_text(
                "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in parts),
                encoding="utf-8")
            self.file(name, "txt").write_text("".join(parts) or "\n", encoding="utf-8")

    def file(self, name, kind):
        return self.folder / f"{name}.{kind}"


def mnemon(binary, corpus, path):
    """Seconds of documents and of the whole, and the ids of the documents."""

    def run(name):
        encode, out = seconds([binary, "tokenizer", "encode", "--plain",
                               corpus.file(name, "jsonl"), "--tokenizer", path])
        whole, _ = seconds([binary, "tokenize", corpus.file(name, "txt"), "--threads", "1",
                            "--tokenizer", path, "--out", corpus.file(name, "tokens")])
        return encode, whole, out

    encode, whole, out = run("all")
    empty_encode, empty_whole, _ = run("none")
    ids = [json.loads(line) for line in out.splitlines()]
    return encode - empty_encode, whole - empty_whole, ids


def peer(corpus, path):
    import tokenizers
    tokenizer = tokenizers.Tokenizer.from_file(path)
    begin = time.process_time()
    encodings = [tokenizer.encode(one, add_special_tokens=False)
                 for one in corpus.documents]
    taken = time.process_time() - begin
    return taken, [encoding.ids for encoding in encodings]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\nUsage")[0])
    parser.add_argument("text")
    parser.add_argument("tokenizer", nargs="+")
    parser.add_argument("--bin", default="build/release/bin/mnemon-train")
    parser.add_argument("--bytes", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    flags = parser.parse_args()
    os.environ.update(TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1")
    text = pathlib.Path(flags.text).read_text(encoding="utf-8")
    text = (text * (flags.bytes // len(text) + 1))[:flags.bytes]
    size = len(text.encode()) / 1e6
    print("| tokenizer | documents | whole | `tokenizers`, documents |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        corpus = Corpus(text, folder)
        for path in flags.tokenizer:
            rounds = []
            for _ in range(flags.rounds):
                *ours, ids = mnemon(flags.bin, corpus, path)
                theirs, expected = peer(corpus, path)
                rounds.append([*ours, theirs])
                if ids != expected:
                    sys.exit(f"{path}: the ids differ")
            rates = " | ".join(f"{size / min(times):.1f}" for times in zip(*rounds))
            print(f"| {os.path.basename(os.path.dirname(path))} | {rates} |", flush=True)


if __name__ == "__main__":
    main()
