#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares tokenizers with PyPI's `tokenizers` on generated strings.

Usage: tokenizer_check.py MNEMON_TRAIN COUNT TOKENIZER_JSON...

Each tokenizer encodes COUNT strings (with special tokens) and decodes the ids, with special
tokens and without; all must be equal. The strings are drawn from a fixed seed: words,
scripts, digits, white space of all kinds, combining marks, controls, characters beside
class boundaries, and the tokenizer's own tokens, added ones above all.
"""

import json
import os
import random
import subprocess
import sys
import tempfile

import tokenizers

SCRIPTS = [(0x20, 0x7E), (0xA0, 0x17F), (0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF),
           (0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x2000, 0x206F),
           (0x2460, 0x24FF), (0x3000, 0x30FF), (0x4E00, 0x4FFF), (0xAC00, 0xAEFF),
           (0xFB00, 0xFB4F), (0x1D400, 0x1D4FF), (0x1F300, 0x1F64F), (0xE0000, 0xE007F)]
SPACES = ' \t\n\r\x0b\x0c\x85\xa0\u1680\u180e\u2003\u2028\u2029\u200b\u3000\ufeff'
WORDS = ["don't", "I'LL", "it\u2019s", "we've", "\u017ft", "K\u212a'm", '3.14159', '1234567',
         'hello', 'World', '_x_', '!!!', '...', 'a\u0301', '\u00e9', '\u1112\u1161\u11ab']


def character(rng):
    kind = rng.random()
    if kind < 0.7:
        return chr(rng.randint(*rng.choice(SCRIPTS)))
    while True:
        point = rng.randrange(0x110000) if kind < 0.9 else rng.randrange(0x3000)
        if not 0xD800 <= point <= 0xDFFF:
            return chr(point)


def text(rng, added, tokens):
    parts = []
    for _ in range(rng.randint(0, 12)):
        kind = rng.random()
        if kind < 0.25:
            parts.append(''.join(character(rng) for _ in range(rng.randint(1, 5))))
        elif kind < 0.45:
            parts.append(rng.choice(WORDS))
        elif kind < 0.65:
            parts.append(rng.choice(SPACES) * rng.randint(1, 3))
        elif kind < 0.75 and added:
            parts.append(rng.choice(added))
        elif kind < 0.85:
            parts.append(rng.choice(tokens))
        elif kind < 0.9:
            parts.append(str(rng.randrange(10 ** rng.randint(1, 9))))
        else:
            parts.append(rng.choice('abcdefg') * rng.randint(1, 40))
    return ''.join(parts)


def run(binary, action, path, lines, *flags):
    with tempfile.NamedTemporaryFile('w', suffix='.jsonl', encoding='utf-8') as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + '\n' for line in lines)
        file.flush()
        done = subprocess.run([binary, 'tokenizer', action, file.name, '--tokenizer', path,
                               *flags], check=True, stdout=subprocess.PIPE)
    return [json.loads(line) for line in done.stdout.decode('utf-8').split('\n') if line]


def check(binary, count, path):
    reference = tokenizers.Tokenizer.from_file(path)
    with open(path, encoding='utf-8') as file:
        added = [token['content'] for token in json.load(file).get('added_tokens') or []]
    tokens = list(reference.get_vocab())
    tokens.sort()
    rng = random.Random(f'{os.path.basename(os.path.dirname(path))} {count}')
    texts = [text(rng, added, tokens) for _ in range(count)]
    ids = [one.ids for one in reference.encode_batch(texts)]
    size = reference.get_vocab_size()
    stray = [[rng.randrange(size) for _ in range(rng.randint(0, 12))]
             for _ in range(count // 10)]
    faults = 0

    def compare(what, given, expected, found):
        nonlocal faults
        if len(expected) != len(found):
            raise SystemExit(f'{path}: {what}: {len(found)} lines for {len(expected)}')
        for one, want, got in zip(given, expected, found):
            if want == got:
                continue
            faults += 1
            if faults <= 5:
                print(f'{path}: {what} {one!r}: {want!r} expected, {got!r} found')

    compare('encode', texts, ids, run(binary, 'encode', path, texts))
    for keep, flags in ((True, ()), (False, ('--skip-special',))):
        both = ids + stray
        compare('decode', both,
                reference.decode_batch(both, skip_special_tokens=not keep),
                run(binary, 'decode', path, both, *flags))
    print(f'{path}: {count} strings, {len(stray)} sequences of ids, {faults} differ')
    return faults


def main():
    binary, count, paths = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    sys.exit(1 if sum(check(binary, count, path) for path in paths) else 0)


if __name__ == '__main__':
    main()
