# SPDX-License-Identifier: MIT
"""The commands and flags of a program, read from what it prints with --help-all."""

import dataclasses
import re
import subprocess

LIMIT = 60  # seconds that a program may take to print its help
TEXT_COLUMN = 30  # where the meaning of a flag begins

_LEFT = re.compile(
    r"(?P<names>\S+)"
    r"(?: (?P<kind>[A-Z]+)(?::(?P<rule>in \[[^]]*\]|\{[^}]*\}))?(?:=(?P<default>.*?))?)?"
    r"(?P<many> \.\.\.)?(?P<required> REQUIRED)?(?: \(Env:(?P<variable>\w+)\))?"
    r"(?: Excludes: (?P<excludes>.*))?")


@dataclasses.dataclass(frozen=True)
class Flag:
    """A flag, or an argument without one, of a command."""
    names: tuple[str, ...]  # "-h", "--help"; of an argument its name alone
    kind: str  # TEXT, INT, UINT, FLOAT; empty: a switch
    choices: tuple[str, ...]
    least_most: tuple[str, str] | None
    default: str  # a value; empty: none, or a switch
    told: str  # what holds without it, where that is no fixed value
    many: bool
    required: bool
    variable: str  # of the environment; may be empty
    excludes: tuple[str, ...]
    meaning: str


@dataclasses.dataclass
class Command:
    """A program, or a command of one, with what is below it."""
    name: str  # as typed: "mnemon sessions list"
    summary: str
    examples: list[str]
    usage: str
    arguments: list[Flag]
    flags: list[Flag]
    footer: str
    commands: list["Command"]

    def leaves(self):
        """The commands that do something, this one or those below it."""
        return [leaf for command in self.commands for leaf in command.leaves()] or [self]


class Unreadable(Exception):
    """Help in a form that this reader does not know."""


def _flag(entry, meaning):
    match = _LEFT.fullmatch(entry)
    if not match or not meaning:
        raise Unreadable(f"an entry of --help in an unknown form: {entry!r} {meaning!r}")
    rule = match["rule"] or ""
    meaning, _, told = meaning.partition("; default: ")
    return Flag(
        names=tuple(match["names"].split(",")), kind=match["kind"] or "",
        choices=tuple(rule[1:-1].split(",")) if rule.startswith("{") else (),
        least_most=tuple(rule[4:-1].split(", ")) if rule.startswith("in") else None,
        default=match["default"] or "", told=told, many=bool(match["many"]),
        required=bool(match["required"]), variable=match["variable"] or "",
        # CLI11 lists them in the order of their addresses.
        excludes=tuple(sorted((match["excludes"] or "").split())), meaning=meaning)


def _entries(lines):
    """(left, meaning) of each entry: on one line, or on two where the left is long."""
    entries = []
    for line in lines:
        if not line[:TEXT_COLUMN].strip():
            entries[-1] = ("".join(entries[-1]).strip(), line.strip())
        else:
            entries.append((line[:TEXT_COLUMN], line[TEXT_COLUMN:]))
    return [(left.strip(), meaning) for left, meaning in entries]


def _command(name, text):
    sections = {"": []}
    title = ""
    for line in text.splitlines():
        if re.fullmatch(r"[A-Z][a-z]+:", line):
            title = line[:-1]
            sections[title] = []
        elif line.startswith(("Usage: ", "Exit codes: ")):
            title, _, line = line.partition(": ")
            sections[title] = [line]
        elif line:
            sections[title].append(line)
    for needed in ("Examples", "Usage", "Options", "Exit codes"):
        if needed not in sections:
            raise Unreadable(f"{name} --help has no section {needed!r}")
    return Command(
        name=name, summary=" ".join(sections[""]),
        examples=[line.strip() for line in sections["Examples"]],
        usage=" ".join(sections["Usage"]),
        arguments=[_flag(*entry) for entry in _entries(sections.get("Positionals", []))],
        flags=[_flag(*entry) for entry in _entries(sections["Options"])],
        footer=" ".join(sections["Exit codes"]), commands=[])


def parse(text):
    """The program whose --help-all is `text`."""
    stack = []
    for part in re.split(r"^== ", text, flags=re.MULTILINE)[1:]:
        name, _, body = part.partition("\n")
        command = _command(name, body)
        while stack and not name.startswith(stack[-1].name + " "):
            stack.pop()
        if stack:
            stack[-1].commands.append(command)
        else:
            program = command
        stack.append(command)
    return program


def read(binary):
    """The program in the file `binary`, whose defaults no variable changes."""
    printed = subprocess.run([binary, "--help-all"], env={"LC_ALL": "C.UTF-8"}, check=True,
                             capture_output=True, text=True, timeout=LIMIT)
    return parse(printed.stdout)
