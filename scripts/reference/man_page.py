# SPDX-License-Identifier: MIT
"""A program's page for man, in troff, from its help."""

import gzip
import re

from flags_page import own_flags, shared_flags


def _roff(text):
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"))


def _bold(text):
    return f"\\fB{_roff(text)}\\fR"


def _flag(flag):
    head = ", ".join(map(_bold, flag.names))
    if flag.kind:
        value = "|".join(flag.choices) if flag.choices else flag.kind
        head += f" \\fI{_roff(value)}\\fR" + (" ..." if flag.many else "")
    facts = []
    if flag.least_most:
        facts.append(f"From {flag.least_most[0]} to {flag.least_most[1]}.")
    if flag.excludes:
        facts.append(f"Not with {', '.join(flag.excludes)}.")
    if flag.required:
        facts.append("Required.")
    elif flag.default or flag.told:
        facts.append(f"Default: {flag.default or flag.told}.")
    if flag.variable:
        facts.append(f"Variable: {flag.variable}.")
    return [".TP", head, _roff(flag.meaning.rstrip(".") + "."), *map(_roff, facts)]


def _flags(flags):
    return [line for flag in flags for line in _flag(flag)]


def _examples(examples):
    return [".PP", ".nf", ".RS", *map(_roff, examples), ".RE", ".fi"]


def _commands(command, above):
    """The sections of the commands below it."""
    lines = []
    shared = [flag for flag in shared_flags(command) if flag not in above]
    if shared:
        lines += [f'.SS "Flags of each command of {_roff(command.name)}"', *_flags(shared)]
    for below in command.commands:
        own = [flag for flag in below.arguments + own_flags(below)
               if flag not in above + shared]
        lines += [f'.SS "{_roff(below.usage)}"', _roff(below.summary), *_flags(own),
                  *_examples(below.examples), *_commands(below, above + shared)]
    return lines


def page(program, version, others):
    """The page's text; `others` are the names of programs that it refers to."""
    name, summary = program.name, program.summary.rstrip(".")
    general = [flag for flag in program.flags if flag not in own_flags(program)]
    lines = [f'.TH {_roff(name.upper())} 1 "" "mnemon {version}" "User Commands"',
             ".ad l", ".nh", ".SH NAME", _roff(f"{name} - {summary[:1].lower()}{summary[1:]}"),
             ".SH SYNOPSIS", _bold(program.usage), ".SH DESCRIPTION", _roff(program.summary),
             "A flag that is absent is read from the variable of the environment that is named",
             "with it; a switch is turned on by the value true.", ".SH EXAMPLES",
             *_examples(program.examples), ".SH OPTIONS",
             *_flags(program.arguments + own_flags(program) + general)]
    if program.commands:
        lines += [".SH COMMANDS", *_commands(program, [])]
    lines += [".SH EXIT STATUS", _roff(program.footer), ".SH SEE ALSO",
              ", ".join(f"{_bold(other)}(1)" for other in others if other != name)]
    return "\n".join(lines) + "\n"


def compressed(text):
    """As Debian wants it: the same bytes whenever and wherever it is made."""
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)
