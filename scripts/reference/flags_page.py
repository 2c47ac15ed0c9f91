# SPDX-License-Identifier: MIT
"""docs/flags.md: every program and command with its flags, from their help."""

GENERAL = ("--help", "--version", "--help-all", "--bash-completion", "--fish-completion")

_HEAD = """\
# Flags

Every program, command and flag, as `--help` prints them, and the variable of the environment that
is read where a flag is absent. Written by `scripts/docs`; do not edit.

Every command has `--help` and `--version`; every program also has `--help-all`, which prints all of
its part of this page, `--bash-completion` (also for zsh) and `--fish-completion`. A switch is
turned on by its variable with the value `true`.
{footer}
"""

_KINDS = {"TEXT": "text", "INT": "an integer", "UINT": "an integer >= 0", "FLOAT": "a number"}


def _code(words):
    return ", ".join(f"`{word}`" for word in words)


def _cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def _takes(flag):
    if not flag.kind:
        return ""
    takes = _KINDS[flag.kind]
    if flag.choices:
        takes = " or ".join(filter(None, (_code(flag.choices[:-1]), _code(flag.choices[-1:]))))
    elif flag.least_most:
        takes += f" from {flag.least_most[0]} to {flag.least_most[1]}"
    return takes + (", repeated" if flag.many else "")


def _meaning(flag):
    text = _cell(flag.meaning)
    if flag.excludes:
        text += f"; not with {_code(flag.excludes)}"
    return text


def _default(flag):
    if flag.required:
        return "required"
    return f"`{_cell(flag.default)}`" if flag.default else _cell(flag.told)


def _table(flags):
    lines = ["| flag | takes | default | variable | meaning |", "|---|---|---|---|---|"]
    for flag in flags:
        variable = f"`{flag.variable}`" if flag.variable else ""
        cells = (_code(flag.names), _takes(flag), _default(flag), variable, _meaning(flag))
        lines.append("".join(f"| {cell} " if cell else "| " for cell in cells) + "|")
    return lines


def own_flags(command):
    """Its flags without those that each command has."""
    return [flag for flag in command.flags if not set(flag.names) & set(GENERAL)]


def shared_flags(command):
    """The flags that each of several commands below it has, the same in all of them."""
    leaves = command.leaves()
    if len(leaves) < 2:
        return []
    return [flag for flag in own_flags(leaves[0])
            if all(flag in own_flags(leaf) for leaf in leaves[1:])]


def _section(command, level, above):
    lines = ["", f"{'#' * level} {command.name}", "", _cell(command.summary), "", "```",
             *command.examples, "```"]
    flags = [flag for flag in command.arguments + own_flags(command) if flag not in above]
    shared = [flag for flag in shared_flags(command) if flag not in above]
    if flags:
        lines += ["", *_table(flags)]
    elif above and not command.commands:
        lines += ["", "No flags of its own."]
    if shared:
        lines += ["", "Each of its commands has:", "", *_table(shared)]
    for below in command.commands:
        lines += _section(below, level + 1, above + shared)
    return lines


def page(programs):
    """The text of the page."""
    lines = [_HEAD.format(footer=f"Exit codes: {programs[0].footer}")]
    for program in programs:
        lines.append(f"- [`{program.name}`](#{program.name}): {program.summary}")
    for program in programs:
        lines += _section(program, 2, [])
    return "\n".join(lines) + "\n"
