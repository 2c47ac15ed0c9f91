# SPDX-License-Identifier: MIT
"""Figures of the documents, and the commands that they come from.

  python3 tests/figures_test.py --bin build/release/bin

In every document of the repository:

- A picture exists, and within the three lines below it stands
  `<!-- made by: COMMAND -->`: the command that writes it or whose figures it draws.
- Every picture in docs/images is shown somewhere.
- In bench/, a section with a table of figures, or the top of its file, names a command.
- Every command that is named, there, in a code span or in a block of code, exists: the
  program, its subcommand and its flags as --help tells them, and the script and its flags.

What does not hold is listed with file and line.
"""

import argparse
import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = ("mnemon", "mnemon-server", "mnemon-train", "mnemon-bench", "mnemon-scenarios")
# Built for a GPU alone.
SOURCES = {"gpu_probe": "bench/kernels/gpu_probe.cu"}
SCRIPT = re.compile(r"(?:scripts/[\w.-]+|(?:bench|tests|deploy)/[\w./-]+\.(?:py|sh))$")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)[^)]*\)|<img\s[^>]*src=\"([^\"]+)\"")
MADE_BY = re.compile(r"<!-- made by: (.+) -->")
SPAN = re.compile(r"(?<!`)`(?!`)((?:[^`\n]|\n(?!\s*\n))+)`(?!`)")
FLAG = re.compile(r"--[a-z][a-z0-9-]*")
OPERATORS = ("|", "||", "&", "&&", ";", ">", ">>", "<", "<<", "(", ")", "2>")
FIGURES = re.compile(r"^\|.*\|\s*\**[-+]?\d")


def documents(root):
    for path in sorted(root.rglob("*.md")):
        parts = path.relative_to(root).parts
        if not any(part.startswith((".", "build")) or part == "shared" for part in parts):
            yield path


@functools.lru_cache(maxsize=None)
def help_of(folder, *words):
    """Flags and subcommands of a command of a program."""
    ran = subprocess.run([folder / words[0], *words[1:], "--help"], capture_output=True,
                         text=True, timeout=600, check=True)
    flags, subcommands, below = set(), set(), False
    for line in ran.stdout.splitlines():
        below = below or line == "Subcommands:"
        entry = re.match(r"  (\S+)", line)
        if entry and entry[1].startswith("-"):
            flags |= set(FLAG.findall(entry[1]))
        elif entry and below:
            subcommands.add(entry[1])
    return flags, subcommands


class Commands:
    """What programs and scripts take."""

    def __init__(self, root, programs):
        self.root, self.programs = root, programs

    def program_fault(self, words):
        if words[0] in SOURCES:
            source = SOURCES[words[0]]
            return None if (self.root / source).is_file() else f"there is no {source}"
        known, chosen = set(), [words[0]]
        flags, subcommands = help_of(self.programs, *chosen)
        for word in words[1:]:
            if subcommands and re.fullmatch(r"[a-z][a-z-]*", word):
                if word not in subcommands:
                    return f"{' '.join(chosen)} has no subcommand {word}"
                chosen.append(word)
                known |= flags
                flags, subcommands = help_of(self.programs, *chosen)
            elif FLAG.match(word):
                if FLAG.match(word)[0] not in flags | known:
                    return f"{' '.join(chosen)} has no flag {FLAG.match(word)[0]}"
                if subcommands:
                    return None  # what follows may be its value
            elif subcommands:
                return None
        return None

    def script_fault(self, words):
        path = self.root / words[0]
        if not path.is_file():
            return f"there is no {words[0]}"
        text = path.read_text()
        for word in words[1:]:
            flag = FLAG.match(word)
            if flag and flag[0] != "--help" and not re.search(flag[0] + r"(?![\w-])", text):
                return f"{words[0]} has no flag {flag[0]}"
        if words[0] == "scripts/check" and len(words) > 1:
            check = words[1].strip(",.")
            if re.fullmatch(r"[a-z]+", check) and not re.search(rf"^  {check}\b", text, re.M):
                return f"scripts/check has no check {check}"
        return None

    def named(self, text):
        """The commands in a line of shell, each as its words."""
        try:
            lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;<>()")
            lexer.whitespace_split, lexer.commenters = True, "#"
            words = list(lexer)
        except ValueError:
            words = text.split()
        commands, current = [], []
        for word in [*words, ";"]:
            if word in OPERATORS or set(word) <= set("|&;<>()"):
                commands.append(current)
                current = []
            else:
                current.append(word)
        for command in commands:
            while command and re.match(r"\w+=|sudo$|exec$|python3?$", command[0]):
                command.pop(0)
            for word in command[:1]:
                name = word.rsplit("/", 1)[-1]
                if (name in PROGRAMS and word == name or
                        name in (*PROGRAMS, *SOURCES) and "bin/" in word):
                    yield [name, *command[1:]]
                script = re.sub(r"^\./", "", word)
                if SCRIPT.match(script):
                    yield [script, *command[1:]]

    def fault(self, text):
        """What does not exist of the commands in a line of shell; None where all do, or
        where there are none."""
        for words in self.named(text):
            script = "/" in words[0]
            fault = (self.script_fault if script else self.program_fault)(words)
            if fault:
                return fault
        return None


def named_in(lines):
    """(number, text) of what may be a command: lines of code blocks, with those that go on
    from them, code spans, and what makes a picture."""
    prose, fenced, held, begun = [], False, "", 0
    for number, line in enumerate(lines, 1):
        fence = line.lstrip().startswith("```")
        code = fenced or line.startswith("    ")
        if fence:
            fenced, held = not fenced, ""
        elif code:
            begun = begun if held else number
            held += line.strip().removeprefix("$ ")
            if held.endswith("\\"):
                held = held[:-1]
            else:
                yield begun, held
                held = ""
        prose.append("" if fence or code else line)
        for command in MADE_BY.findall(line):
            yield number, command
    text = "\n".join(prose)
    for span in SPAN.finditer(text):
        yield text.count("\n", 0, span.start()) + 1, " ".join(span[1].split())


class Checker:
    def __init__(self, root, commands):
        self.root, self.commands, self.faults, self.shown = root, commands, [], set()

    def note(self, path, number, text):
        self.faults.append(f"{path.relative_to(self.root)}:{number}: {text}")

    def check_command(self, path, number, text):
        fault = self.commands.fault(text)
        if fault:
            self.note(path, number, f"{fault}: {text.strip()}")

    def check_picture(self, path, number, picture, below):
        if "://" in picture:
            return
        file = (path.parent / picture).resolve()
        self.shown.add(file)
        if not file.is_file():
            self.note(path, number, f"there is no picture {picture}")
        made_by = MADE_BY.search("\n".join(below))
        if not made_by:
            self.note(path, number, f"what makes {picture}? <!-- made by: COMMAND --> is missing")
        elif not any(True for _ in self.commands.named(made_by[1])):
            self.note(path, number, f"{made_by[1]} is no command of the repository")

    def check(self, path):
        lines = path.read_text().splitlines()
        commands = set()  # the lines that name one
        for number, text in named_in(lines):
            self.check_command(path, number, text)
            if any(True for _ in self.commands.named(text)):
                commands.add(number)
        for number, line in enumerate(lines, 1):
            for picture in PICTURE.finditer(line):
                self.check_picture(path, number, picture[1] or picture[2],
                                   lines[number:number + 3])
        if "bench" in path.relative_to(self.root).parts:
            self.check_tables(path, lines, commands)

    def check_tables(self, path, lines, commands):
        heads = [i for i, line in enumerate(lines, 1) if re.match("##+ ", line)]
        heads.append(len(lines) + 1)
        if any(number < heads[0] for number in commands):
            return
        for begin, end in zip([1, *heads], heads):
            tables = [i for i in range(begin, end) if FIGURES.match(lines[i - 1])]
            if tables and not any(begin <= number < end for number in commands):
                self.note(path, tables[0], "no command is named for the figures of this table")

    def all_faults(self):
        for path in documents(self.root):
            self.check(path)
        for picture in sorted((self.root / "docs" / "images").glob("*")):
            if picture.resolve() not in self.shown:
                self.note(picture, 1, "no document shows this picture")
        return self.faults


class FiguresTest(unittest.TestCase):
    programs = pathlib.Path("build/release/bin")

    def test_every_figure_has_a_command_that_exists(self):
        faults = Checker(ROOT, Commands(ROOT, self.programs)).all_faults()
        self.assertEqual(faults, [], "\n" + "\n".join(faults))

    def faults_of(self, text, name="docs/page.md"):
        with tempfile.TemporaryDirectory(prefix="mnemon-figures.") as folder:
            root = pathlib.Path(folder)
            (root / "docs" / "images").mkdir(parents=True)
            (root / "bench").mkdir()
            (root / "docs" / "images" / "a.svg").write_text("<svg/>")
            (root / "bench" / "plot.py").write_text('"--size"')
            (root / name).write_text(text)
            return Checker(root, Commands(root, self.programs)).all_faults()

    def test_faults_are_found(self):
        made_by = "\n<!-- made by: bench/plot.py --size XS -->\n"
        picture = "![a](images/a.svg)"
        self.assertEqual(self.faults_of(picture + made_by), [])
        for text, fault in (
                (picture, "docs/page.md:1: what makes images/a.svg?"),
                (picture + "\n<!-- made by: hand -->", "hand is no command"),
                (picture + made_by.replace("--size", "--shape"), "bench/plot.py has no flag"),
                (picture + made_by.replace("plot", "gone"), "there is no bench/gone.py"),
                (picture + made_by + "\n![b](images/b.svg)" + made_by,
                 "docs/page.md:4: there is no picture images/b.svg"),
                ("nothing", "docs/images/a.svg:1: no document shows"),
                (picture + made_by + "`mnemon-train fitt --config a`",
                 "docs/page.md:3: mnemon-train has no subcommand fitt"),
                (picture + made_by + "```\nmnemon-train fit \\\n  --confg a\n```",
                 "docs/page.md:4: mnemon-train fit has no flag --confg")):
            with self.subTest(text):
                faults = self.faults_of(text)
                self.assertEqual(len(faults), 1, faults)
                self.assertIn(fault, faults[0])

    def test_tables_of_bench_name_their_command(self):
        table = "| a | b |\n|---|---|\n| x | 3.5 |\n"
        picture = "![a](../docs/images/a.svg)\n<!-- made by: bench/plot.py -->\n"
        name = "bench/page.md"
        self.assertEqual(self.faults_of(f"# T\n{picture}{table}", name), [])
        self.assertEqual(self.faults_of(f"# T\n{picture}\n## S\n{table}", name), [])
        self.assertEqual(
            self.faults_of(f"# T\n## A\n{picture}\n## B\n\n{table}\n## C\n", name),
            ["bench/page.md:10: no command is named for the figures of this table"])
        self.assertEqual(
            self.faults_of(f"# T\n## A\n{picture}\n## B\n`bench/plot.py`\n{table}\n", name), [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, default=FiguresTest.programs)
    flags, rest = parser.parse_known_args()
    FiguresTest.programs = flags.bin
    for program in PROGRAMS:
        if not os.access(flags.bin / program, os.X_OK):
            sys.exit(f"figures_test.py: no {program} in {flags.bin}: build it first")
    unittest.main(argv=[sys.argv[0], *rest])
