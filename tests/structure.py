# SPDX-License-Identifier: MIT
"""Sizes of the project's classes and folders, and the limits that they keep.

Usage: structure.py REPOSITORY

Prints each C++ class with its methods, its members and the .cc and .cu files that define
its methods, then each folder with its source files and the folders that it includes. What
is above a limit, and not in EXCEPTIONS as it is, makes the exit code 1.

Overloads, constructors and operators count as methods; members of a nested class are the
nested class's. Static members and constants do not count. Source files end in one of SOURCES;
data, documents and files written by a program (GENERATED) do not count.
"""

import os
import pathlib
import re
import sys
from typing import NamedTuple

LIMITS = {"methods": 40, "members": 25, "files": 40}
CPP = (".h", ".cc", ".cu", ".cuh")
SOURCES = CPP + (".py", ".js", ".css", ".html", ".proto", ".sh")
GENERATED = re.compile(r"(^|/)(character|unicode)_tables\.(h|cc)$")  # scripts/*-tables

# What may be above a limit: class or folder, what of it, how many, why. An entry whose
# figure is not the current one fails, so that it goes down with its class.
EXCEPTIONS: list[tuple[str, str, int, str]] = []


class Size(NamedTuple):
    name: str  # Outer::Inner
    path: str
    methods: int
    members: int


class Excess(NamedTuple):
    name: str  # of a class, or a folder's path
    what: str  # a key of LIMITS
    count: int


HEAD = re.compile(r"(?:^|[;{}>\n])\s*(class|struct)\s+(?:alignas\([^)]*\)\s*)?((?:\w+::)*\w+)?"
                  r"(?:<[^;{}()]*>)?(?:\s+final)?\s*"
                  r"(?::[^;{}()]*(?:\([^()]*\))?[^;{}()]*)?$")
LONGEST_HEAD = 400
ARGUMENTS = r"<[^<>]*(?:<[^<>]*(?:<[^<>]*>[^<>]*)*>[^<>]*)*>"
DEFINITION = re.compile(r"^(?:[^\s#].*?[\s*&>])??((?:\w+(?:<[^<>]*>)?::)+)"
                        r"(?:~?\w+|operator[^\s(]+|operator\(\))\s*\(", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[>"]', re.MULTILINE)


def bare(text):
    """Without comments, literals, directives and labels of access."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r'R"\w*\(.*?\)\w*"|"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])'", "0", text,
                  flags=re.DOTALL)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)
    return re.sub(r"\b(public|private|protected)\s*:(?!:)", "", text)


def braces(text):
    """The place of each opening brace and of the one that closes it."""
    closing, open_ = {}, []
    for brace in re.finditer(r"[{}]", text):
        if brace[0] == "{":
            open_.append(brace.start())
        elif open_:
            closing[open_.pop()] = brace.start()
    closing.update((at, len(text)) for at in open_)
    return dict(sorted(closing.items()))


def statements(text, begin, end, closing):
    """Those of a class body, their inner braces left out."""
    found, start, kept = [], begin, ""
    at = begin
    while at < end:
        if text[at] == "{":
            kept += text[start:at] + "{}"
            start = at = closing[at] + 1
            # A function's body ends a statement without a semicolon.
            rest = text[at:end].lstrip()
            if "(" in kept and not rest.startswith((";", ",", "{", "=")) and \
                    not re.search(r"=\s*\{\}$", kept):
                found.append(kept)
                kept = ""
            continue
        if text[at] == ";":
            found.append(kept + text[start:at])
            kept, start = "", at + 1
        at += 1
    return [s.strip() for s in found if s.strip()]


def is_method(statement):
    if "operator" in statement.split("(")[0]:
        return True
    head = re.split(r"(?<![=!<>])=(?!=)|\{\}", statement, maxsplit=1)[0]
    # A function as a member, or a type in parentheses, has no name before its parenthesis;
    # a pointer to a function has its name in it.
    head = re.sub(ARGUMENTS, "", head)
    head = re.sub(r"\balignas\([^)]*\)", "", head)
    return bool(re.search(r"\b\w+\s*\((?!\s*(?:\w+::)*\*)", head))


def members(statement):
    """How many a statement declares."""
    if re.match(r"\s*(using|friend|typedef|static_assert|static|enum)\b", statement):
        return 0
    if re.match(r"\s*(template\s*<.*>\s*)?(class|struct|union)\b", statement, re.DOTALL):
        return 1 if re.search(r"\}\s*\w+", statement) else 0
    flat = re.sub(ARGUMENTS + r"|\{\}|\([^()]*\)|\[[^]]*\]", "", statement)
    return flat.count(",") + 1


def sizes(text, path=""):
    """The Size of each class that a C++ file defines."""
    text = bare(text)
    closing = braces(text)
    enclosing = []  # (end, name) of the classes around, outermost first
    for opening, end in closing.items():
        while enclosing and enclosing[-1][0] < opening:
            enclosing.pop()
        head = HEAD.search(text[max(0, opening - LONGEST_HEAD):opening])
        if not head:
            continue
        methods = fields = 0
        for statement in statements(text, opening + 1, end, closing):
            if re.match(r"(template\s*<[^;]*>\s*)?(class|struct|union|enum)\b", statement):
                fields += members(statement)
            elif re.match(r"(using|friend|typedef|static_assert)\b", statement):
                continue
            elif is_method(statement):
                methods += 1
            else:
                fields += members(statement)
        name = "::".join([outer for _, outer in enclosing] + [head[2] or "unnamed"])
        enclosing.append((end, head[2] or "unnamed"))
        yield Size(name, path, methods, fields)


def definitions(text):
    """The classes whose methods a file defines outside of them."""
    return {re.sub(ARGUMENTS, "", match[1]).removesuffix("::")
            for match in DEFINITION.finditer(bare(text))}


class Project:
    """`files`: text by path from the root."""

    def __init__(self, files):
        self.folders = {}  # path -> source files
        self.edges = {}  # folder -> folders that it includes
        self.classes = []
        self.implementations = {}  # class -> files that define its methods
        for path in sorted(files):
            folder = os.path.dirname(path)
            if not GENERATED.search(path):
                self.folders.setdefault(folder, []).append(path)
            if not path.endswith(CPP):
                continue
            edges = self.edges.setdefault(folder, set())
            for include in INCLUDE.findall(files[path]):
                to = os.path.dirname(include)
                if include.endswith(".pb.h"):
                    edges.add(f"proto/{to}")
                elif include in files and to != folder:
                    edges.add(to)
            self.classes += sizes(files[path], path)
        by_name = {}
        for size in self.classes:
            by_name.setdefault(size.name, []).append(size)
            if not size.path.endswith((".h", ".cuh")):
                self.implementations[size] = {size.path}
        for path in files:
            if not path.endswith((".cc", ".cu")):
                continue
            near = {path, *INCLUDE.findall(files[path])}
            for name in definitions(files[path]):
                found = by_name.get(name, [])
                for size in [s for s in found if s.path in near or len(found) == 1]:
                    self.implementations.setdefault(size, set()).add(path)

    def excesses(self):
        for size in self.classes:
            for what in ("methods", "members"):
                if getattr(size, what) > LIMITS[what]:
                    yield Excess(size.name, what, getattr(size, what))
        for folder, files in self.folders.items():
            if len(files) > LIMITS["files"]:
                yield Excess(folder, "files", len(files))

    def faults(self, exceptions):
        """One line per excess that is no exception, and per exception that is not so."""
        excesses = list(self.excesses())
        allowed = {Excess(*entry[:3]) for entry in exceptions}
        for name, what, count in excesses:
            if (name, what, count) not in allowed:
                yield f"{name} has {count} {what}: at most {LIMITS[what]}"
        for name, what, count in allowed.difference(excesses):
            yield f"{name} no longer has {count} {what}: lower or remove its exception"

    def report(self):
        yield "methods members files class"
        for size in sorted(self.classes, key=lambda s: (-s.methods - s.members, s)):
            count = len(self.implementations.get(size, ()))
            yield f"{size.methods:7} {size.members:7} {count:5} {size.name} ({size.path})"
        yield ""
        yield "files folder: what it includes"
        for folder, files in sorted(self.folders.items(), key=lambda f: (-len(f[1]), f)):
            edges = " ".join(sorted(self.edges.get(folder, ())))
            yield f"{len(files):5} {folder}{': ' if edges else ''}{edges}"


def read(repository):
    """The Project below a folder, without hidden folders and builds."""
    files = {}
    for folder, folders, names in os.walk(repository):
        folders[:] = [f for f in folders if not f.startswith((".", "__"))
                      and not (folder == repository and f.startswith("build"))
                      and not os.path.exists(os.path.join(folder, f, "CMakeCache.txt"))]
        for name in names:
            path = pathlib.Path(folder, name)
            if name.endswith(SOURCES) and path.is_file():
                files[path.relative_to(repository).as_posix()] = path.read_text()
    return Project(files)


def main(repository):
    project = read(repository)
    for line in project.report():
        print(line)
    faults = sorted(project.faults(EXCEPTIONS))
    print()
    for name, what, count, reason in EXCEPTIONS:
        print(f"exception: {name}, {count} {what}: {reason}")
    for fault in faults:
        print(f"FAULT: {fault}")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
