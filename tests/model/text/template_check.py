#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares chat templates with PyPI's `jinja2` on generated conversations.

Usage: template_check.py MNEMON_TRAIN COUNT TEMPLATE...

TEMPLATE is a template, a tokenizer_config.json, or a directory with either. Each renders
COUNT conversations, drawn from a fixed seed; the texts must be equal, or both must fail,
with the template's own message where it raised one. Three quarters are as a program sends
them: roles in order, tools, calls and their answers, contents in parts. In the others
members are missing, null, of odd types or of other names. Roles, members, variables and
pieces of texts are also taken from the template itself. Python 3.11 has the version of
Unicode that printing a list of strings depends on.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata
import warnings

import jinja2
from jinja2 import meta, nodes

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                'data', 'templates'))
import render  # pylint: disable=wrong-import-position

WORDS = ['', ' ', '\n', '\n\n', ' \t ', 'Hi', 'What is 1 + 1?', "it's", '"quoted"', '<b>&amp;',
         "a'b", 'back\\slash', '{{ x }}', '{% if %}', '%s %d', 'e\u0301', '\u00e9', '\u1e9e\u00df',
         '\u0130\u0131', '\u01c5', '\u0001', '\x7f', '\x00', '\x1c', '\x85', '\xa0', '\u3000',
         '\u200b', '\u2028', '\ufeff', '\U0001f600', '\u4e2d\u6587', '\u0645\u0631\u062d\u0628\u0627',
         '\u0938\u094d\u0924\u0947', '\u1112\u1161\u11ab', '\r\n', '\x0b\x0c', '123', '-1', '1e5']
ROLES = ['system', 'user', 'assistant', 'tool', 'developer', 'ipython', 'tool_results', 'User', '']
MEMBERS = ['role', 'content', 'tool_calls', 'name', 'tool_call_id', 'reasoning_content',
           'thinking', 'type', 'text', 'function', 'arguments', 'parameters', 'items', 'keys',
           'values', 'get', 'id', 'description', 'properties', 'Key', 'x y', '', '_a', '0']
NUMBERS = [0, 1, -1, 3, 7, 255, 2**31, -2**53, 2**63 - 1, 0.0, -0.0, 1.0, 0.1, -2.5, 1e-7, 1e16,
           1e22, 1.5e30, 5e-324, 3.141592653589793, 100000.0]


class Draws:
    """The conversations of one template, whose words are `pieces` and `members`."""

    def __init__(self, seed, pieces, members, variables):
        self.rng = random.Random(seed)
        self.pieces = pieces
        self.members = members
        self.variables = variables

    def maybe(self, chance):
        return self.rng.random() < chance

    def text(self):
        parts = []
        for _ in range(self.rng.choice([0, 1, 1, 1, 2, 3, 5])):
            kind = self.rng.random()
            if kind < 0.6:
                parts.append(self.rng.choice(WORDS))
            elif kind < 0.85 and self.pieces:
                parts.append(self.rng.choice(self.pieces))
            else:
                parts.append(''.join(map(self.character, range(self.rng.randint(1, 4)))))
        if self.maybe(0.01):
            parts.append(self.rng.choice(WORDS) * self.rng.randint(100, 2000))
        return ''.join(parts)

    def character(self, _):
        while True:
            point = self.rng.randrange(self.rng.choice([0x80, 0x3000, 0x110000]))
            if not 0xD800 <= point <= 0xDFFF:
                return chr(point)

    def value(self, depth=3):
        kind = self.rng.random()
        if depth and kind < 0.15:
            return [self.value(depth - 1) for _ in range(self.rng.randint(0, 3))]
        if depth and kind < 0.35:
            return self.mapping(depth)
        if kind < 0.6:
            return self.text()
        if kind < 0.8:
            return self.rng.choice(NUMBERS)
        if kind < 0.85:
            return self.rng.uniform(-1, 1) * 10.0 ** self.rng.randint(-20, 20)
        return self.rng.choice([None, True, False])

    def mapping(self, depth=3):
        return {self.member(): self.value(depth - 1) for _ in range(self.rng.randint(0, 4))}

    def member(self):
        return self.rng.choice(self.members if self.members and self.maybe(0.4) else MEMBERS)

    def role(self):
        return self.rng.choice(self.pieces if self.pieces and self.maybe(0.2) else ROLES)

    def content(self):
        kind = self.rng.random()
        if kind < 0.8:
            return self.text()
        kinds = ['text', 'text', 'text', 'image', 'audio', 'video', 'image_url', 'document']
        parts = []
        for _ in range(self.rng.randint(0, 3)):
            part = {'type': self.rng.choice(kinds)}
            if part['type'] == 'text' or self.maybe(0.3):
                part['text'] = self.text()
            if part['type'] != 'text':
                part[part['type']] = self.rng.choice(['https://a.b/c?d=e', self.value(1)])
            parts.append(part)
        return parts

    def identity(self):
        size = self.rng.choice([9, 9, 9, 9, 0, 8])
        return ''.join(self.rng.choice('abcXYZ0189') for _ in range(size))

    def call(self):
        arguments = self.mapping() if self.maybe(0.8) else json.dumps(self.mapping())
        function = {'name': self.rng.choice(['get_weather', 'add', 'f\u00fcr']),
                    'arguments': arguments}
        if self.maybe(0.1):
            return function
        call = {'type': 'function', 'function': function}
        if self.maybe(0.8):
            call['id'] = self.identity()
        return call

    def schema(self, depth=3):
        kind = self.rng.choice(['string', 'number', 'integer', 'boolean', 'array', 'object',
                                ['string', 'null']])
        schema = {'type': kind}
        if self.maybe(0.5):
            schema['description'] = self.text()
        if kind == 'string' and self.maybe(0.3):
            schema['enum'] = [self.text() for _ in range(self.rng.randint(0, 3))]
        if kind == 'array' and depth:
            schema['items'] = self.schema(depth - 1)
        if kind == 'object' and depth:
            schema['properties'] = {self.member(): self.schema(depth - 1)
                                    for _ in range(self.rng.randint(0, 3))}
            if self.maybe(0.5):
                schema['required'] = list(schema['properties'])[:1]
        if self.maybe(0.2):
            schema['default'] = self.value(1)
        return schema

    def tool(self):
        function = {'name': self.rng.choice(['get_weather', 'add', 'f\u00fcr']),
                    'description': self.text(), 'parameters': self.schema()}
        function['parameters']['type'] = 'object'
        for name in ('strict', 'return'):
            if self.maybe(0.2):
                function[name] = self.value(2)
        return {'type': 'function', 'function': function} if self.maybe(0.9) else function

    def turn(self, role):
        message = {'role': role, 'content': self.content()}
        if role == 'assistant' and self.maybe(0.2):
            name = self.rng.choice(['reasoning_content', 'thinking', 'reasoning'])
            message[name] = self.rng.choice([None, self.text()])
        if role == 'assistant' and self.maybe(0.1):
            message['content'] = f'<think>{self.text()}</think>{self.text()}'
        if self.maybe(0.05):
            message['name'] = self.text()
        return message

    def in_order(self):
        plain = self.maybe(0.5)
        messages = [self.turn('system')] if self.maybe(0.2 if plain else 0.5) else []
        for _ in range(self.rng.choice([0, 1, 1, 1, 2, 2, 3, 5])):
            if messages and messages[-1]['role'] == 'user' and plain:
                break
            messages.append(self.turn('user'))
            while not plain and self.maybe(0.3):
                calls = [self.call() for _ in range(self.rng.choice([1, 1, 1, 2]))]
                messages.append(self.turn('assistant'))
                messages[-1]['tool_calls'] = calls
                if self.maybe(0.3):
                    messages[-1]['content'] = None
                for call in calls:
                    messages.append(self.turn('tool'))
                    if 'id' in call:
                        messages[-1]['tool_call_id'] = call['id']
                    if self.maybe(0.2):
                        messages[-1]['content'] = self.value()
            if self.maybe(0.8):
                messages.append(self.turn('assistant'))
        return messages

    def spoil(self, value, depth=0):
        """`value`, some members of which are gone, of other types or of other names."""
        if depth and self.maybe(0.05):
            return self.value()
        if isinstance(value, list):
            return [self.spoil(one, depth + 1) for one in value if not self.maybe(0.03)]
        if isinstance(value, dict):
            out = {name: self.spoil(one, depth + 1) for name, one in value.items()
                   if not self.maybe(0.03)}
            if self.maybe(0.1):
                out[self.member()] = self.value()
            if 'role' in out and self.maybe(0.2):
                out['role'] = self.role()
            return out
        return value

    def conversation(self):
        case = {'messages': self.in_order()}
        if self.maybe(0.005):
            case['messages'] += self.in_order() * self.rng.randint(10, 50)
        if self.maybe(0.3):
            case['tools'] = [self.tool() for _ in range(self.rng.randint(0, 3))]
        if self.maybe(0.1):
            case['documents'] = [{'title': self.text(), 'text': self.text()}
                                 for _ in range(self.rng.randint(0, 2))]
        if self.maybe(0.8):
            case['add_generation_prompt'] = self.maybe(0.6)
        for name in self.variables:
            if self.maybe(0.3):
                case[name] = self.rng.choice([True, False, None, self.text(), self.value()])
        if self.maybe(0.25):
            self.rng.shuffle(case['messages'])
            case = self.spoil(case)
        return case


def files_of(path):
    """The source of the template and the variables that the files beside it give."""
    config, source = {}, None
    if os.path.isdir(path):
        for name in ('tokenizer_config.json', 'chat_template.json', 'chat_template.jinja'):
            file = os.path.join(path, name)
            if not os.path.exists(file):
                continue
            with open(file, encoding='utf-8') as opened:
                if name == 'chat_template.jinja':
                    source = opened.read()
                else:
                    found = json.load(opened)
                    source = source or found.get('chat_template')
                    config = config or found
    else:
        with open(path, encoding='utf-8') as opened:
            if path.endswith('.json'):
                config = json.load(opened)
                source = config.get('chat_template')
            else:
                source = opened.read()
    if isinstance(source, list):
        source = next((one['template'] for one in source if one['name'] == 'default'), None)
    if source is None:
        raise SystemExit(f'{path} has no chat template')
    tokens = {'bos_token': '<s>', 'eos_token': '</s>'}
    for name in tokens:
        token = config.get(name)
        if token is not None:
            tokens[name] = token if isinstance(token, str) else token['content']
    return source, tokens


def words_of(environment, source):
    tree = environment.parse(source)
    members = {node.attr for node in tree.find_all(nodes.Getattr)}
    pieces = set()
    for node in tree.find_all(nodes.Const):
        if isinstance(node.value, str) and len(node.value) < 100:
            pieces.add(node.value)
    for node in tree.find_all(nodes.Getitem):
        if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            members.add(node.arg.value)
    given = {'messages', 'tools', 'documents', 'add_generation_prompt', 'bos_token',
             'eos_token'} | set(environment.globals)
    variables = (meta.find_undeclared_variables(tree) | {'enable_thinking'}) - given
    return sorted(pieces), sorted(members), sorted(variables)


def expected(template, variables):
    """The text, None; or None, what was raised."""
    given = {'messages': [], 'tools': None, 'documents': None,
             'add_generation_prompt': False}
    try:
        return template.render(**{**given, **variables}), None
    except Exception as error:  # pylint: disable=broad-except
        return None, error


def check(binary, count, path):
    source, tokens = files_of(path)
    environment = render.chat_environment()
    template = environment.from_string(source)
    name = os.path.basename(path if os.path.isdir(path) else os.path.dirname(path))
    draws = Draws(f'{name} {count}', *words_of(environment, source))
    lines = [json.dumps({**tokens, **draws.conversation()}, ensure_ascii=False)
             for _ in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, 'chat_template.jinja')
        chats = os.path.join(folder, 'chats.jsonl')
        for out, text in ((file, source), (chats, '\n'.join(lines) + '\n')):
            with open(out, 'w', encoding='utf-8', newline='') as opened:
                opened.write(text)
        done = subprocess.run([binary, 'template', 'render', '--checkpoint', file, '--now',
                               render.NOW.isoformat(), chats], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        print(f'{path}: {done.stderr.decode().strip()}')
        return 1
    found = [json.loads(line) for line in done.stdout.decode('utf-8').split('\n') if line]
    if len(found) != count:
        raise SystemExit(f'{path}: {len(found)} texts for {count} conversations')
    faults = failures = 0
    for line, got in zip(lines, found):
        text, error = expected(template, json.loads(line))
        failures += error is not None
        if error is None:
            equal = got == text
        else:
            equal = isinstance(got, dict)
            # raise_exception gives the class itself, of whose message ours is a line.
            told = type(error) is jinja2.TemplateError  # pylint: disable=unidiomatic-typecheck
            message = str(error)
            if equal and told and message.isprintable() and len(message) < 100:
                equal = message in got['error']
        if not equal:
            faults += 1
            if faults <= 5:
                print(f'{path}: {line[:2000]}\n  {text if error is None else error!r} '
                      f'expected\n  {got!r} found')
    print(f'{path}: {count} conversations, {failures} of them errors, {faults} differ')
    return faults


def main():
    if unicodedata.unidata_version != '14.0.0':
        raise SystemExit('a Python with Unicode 14 is wanted, as 3.11 is')
    warnings.simplefilter('ignore')
    binary, count, paths = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    sys.exit(1 if sum(check(binary, count, path) for path in paths) else 0)


if __name__ == '__main__':
    main()
