#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Loads what `mnemon-train export` writes by transformers, and compares.

Usage: export_check.py MNEMON_TRAIN MODEL...

MODEL is whatever `export` takes: a directory of Hugging Face, a GGUF file, a checkpoint of
a llama. Its export is loaded as float32. Logits must be those of `mnemon-train score` on
the model itself (of a GGUF file, whose numbers are rounded, on the export), and, where
there are io.safetensors and case.json as golden cases have them, the stored ones within
their tolerance. Where there is a tokenizer, AutoTokenizer must give the ids of
`mnemon-train tokenizer encode`, and its chat template the text of `template render`.
"""

import json
import os
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

# For logits whose deviation from float64 was not measured; those of golden cases have 20
# times theirs, 2e-5 to 8e-4.
TOLERANCE = 1e-3
TEXTS = ['Hello, world!', '', ' two  spaces\n\n\tand\r\nlines', "it's 1,234,567.89 and don't",
         'na\u00efve caf\u00e9 \u2013 \u4e2d\u6587 \U0001f680', 'e\u0301 \u00a0 \u200b x',
         'def f(n):\n    return n * 2\n', '2026-03-05', 'ROMEO:\nWhat, ho! <|im_end|>']
CHATS = [[{'role': 'user', 'content': 'Hi'}],
         [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': '1 + 1?'},
          {'role': 'assistant', 'content': '2'}, {'role': 'user', 'content': ' caf\u00e9 \n'}]]


def run(binary, *words):
    done = subprocess.run([binary, *words], check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise SystemExit(f'{" ".join(words)}: {done.stderr.decode()}')
    return done.stdout.decode('utf-8')


def through(binary, folder, lines, *words):
    path = os.path.join(folder, 'lines.jsonl')
    with open(path, 'w', encoding='utf-8') as file:
        file.writelines(json.dumps(line) + '\n' for line in lines)
    return [json.loads(line) for line in run(binary, *words, path).split('\n') if line]


def score(binary, folder, model, tokens):
    path, out = os.path.join(folder, 'in'), os.path.join(folder, 'out')
    save_file({'tokens': tokens}, path)
    run(binary, 'score', '--checkpoint', model, '--tokens', path, '--out', out, '--form',
        'step', '--precision', 'fp32')
    return load_file(out)['logits']


def far(ours, theirs):
    return (ours - theirs).abs().max().item()


def check_tokenizer(binary, folder, exported, texts):
    """What differs, as lines."""
    faults = []
    tokenizer = transformers.AutoTokenizer.from_pretrained(exported)
    ours = through(binary, folder, texts, 'tokenizer', 'encode', '--tokenizer', exported)
    for text, ids in zip(texts, ours):
        theirs = tokenizer(text)['input_ids']
        if ids != theirs:
            faults.append(f'{text!r}: {theirs} in transformers, {ids} here')
    if tokenizer.chat_template is not None:
        lines = [{'messages': chat, 'add_generation_prompt': True} for chat in CHATS]
        found = through(binary, folder, lines, 'template', 'render', '--checkpoint', exported)
        for chat, text in zip(CHATS, found):
            theirs = tokenizer.apply_chat_template(chat, tokenize=False,
                                                   add_generation_prompt=True)
            if theirs != text:
                faults.append(f'{chat}: {theirs!r} in transformers, {text!r} here')
    return faults


def texts_for(model):
    """Those that a tokenizer of characters can encode."""
    path = os.path.join(model, 'tokenizer.json')
    if not os.path.exists(path):
        return TEXTS
    with open(path, encoding='utf-8') as file:
        parts = json.load(file)['model']
    if parts['type'] != 'Char':
        return TEXTS
    known = set(parts['vocab'])
    return [''.join(one for one in text if one in known) for text in TEXTS]


def check(binary, model):
    with tempfile.TemporaryDirectory() as folder:
        exported = os.path.join(folder, 'exported')
        run(binary, 'export', '--to', 'hf', '--checkpoint', model, '--out', exported)
        reference = transformers.AutoModelForCausalLM.from_pretrained(
            exported, dtype=torch.float32, attn_implementation='eager').eval()
        stored, tolerance = None, TOLERANCE
        case = os.path.join(model, 'case.json')
        if os.path.exists(case):
            with open(case, encoding='utf-8') as file:
                tolerance = json.load(file)['tolerance']['logits']
            stored = load_file(os.path.join(model, 'io.safetensors'))
            tokens = stored['tokens']
        else:
            draw = torch.Generator().manual_seed(1)
            tokens = torch.randint(reference.config.vocab_size, (2, 48), generator=draw)
        with torch.no_grad():
            theirs = reference(tokens).logits
        scored = exported if os.path.isfile(model) else model
        ours = score(binary, folder, scored, tokens)
        distances = {'to ours': far(theirs, ours)}
        if stored is not None:
            distances['to the stored'] = far(theirs, stored['logits'])
            distances['of ours to the stored'] = far(ours, stored['logits'])
        faults = [f'logits {name}: {distance:.1e}' for name, distance in distances.items()
                  if not distance <= tolerance]
        tokenizer = os.path.exists(os.path.join(exported, 'tokenizer.json'))
        if tokenizer:
            faults += check_tokenizer(binary, folder, exported, texts_for(model))
        figures = ', '.join(f'{name} {distance:.1e}' for name, distance in distances.items())
        print(f'{model}: {reference.config.model_type}, logits {figures}, tolerance '
              f'{tolerance:.1e}{", tokenizer" if tokenizer else ""}, {len(faults)} faults')
        for fault in faults:
            print('  ' + fault)
        return len(faults)


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    binary, models = sys.argv[1], sys.argv[2:]
    sys.exit(1 if sum([check(binary, model) for model in models]) else 0)


if __name__ == '__main__':
    main()
