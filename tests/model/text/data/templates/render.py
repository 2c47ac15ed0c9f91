#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes what jinja2 3.1.6 makes of each template of language.jsonl.

Example:
  tests/model/text/data/templates/render.py language.jsonl > new.jsonl

A line {"variables": ..} is for the lines after it, each [template, text], where the text
is null when jinja2 fails. The environment is that of transformers 5.24.0.
"""
import datetime
import json
import sys
import warnings

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 3, 5, 14, 7, 9)


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


class PlainNamespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, *rest = args
        attributes = dict(*rest, **kwargs)
        for name in attributes:
            PlainNamespace.check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        PlainNamespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def strftime_now(format):
    return NOW.strftime(format)


def chat_environment():
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    environment.filters["tojson"] = to_json
    environment.globals.update(raise_exception=raise_exception, strftime_now=strftime_now,
                               dict=lambda *args, **kwargs: dict(*args, **kwargs),
                               namespace=PlainNamespace)
    return environment


def main():
    warnings.simplefilter("ignore")
    environment = chat_environment()
    variables = {}
    for line in open(sys.argv[1], encoding="utf-8"):
        case = json.loads(line)
        if isinstance(case, dict):
            variables = case["variables"]
        else:
            try:
                case[1] = environment.from_string(case[0]).render(**variables)
            except Exception:  # pylint: disable=broad-except
                case[1] = None
        print(json.dumps(case, ensure_ascii=False))


if __name__ == "__main__":
    main()
