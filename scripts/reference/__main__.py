# SPDX-License-Identifier: MIT
"""References that are made from the sources.

    python3 scripts/reference pages --bin DIR [--check]   docs/flags.md and docs/api_reference.md
    python3 scripts/reference manual PROGRAM --version VERSION --out FILE
                                                          a page for man, compressed
"""

import argparse
import difflib
import pathlib
import subprocess
import sys

import flags_page
import help_text
import man_page

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("mnemon-server", "mnemon", "mnemon-train", "mnemon-bench", "mnemon-scenarios")
INSTALLED = ("mnemon", "mnemon-server", "mnemon-train")  # those that pages of man refer to
SHOWN = 100  # lines of a difference, at most


def pages(options):
    """Writes both pages, or says in what they differ from the sources."""
    # Here, since a page for man needs no protobuf.
    import api_page  # pylint: disable=import-outside-toplevel

    programs = [help_text.read(options.bin / name) for name in PROGRAMS]
    stale = 0
    for path, text in ((ROOT / "docs/flags.md", flags_page.page(programs)),
                       (ROOT / "docs/api_reference.md", api_page.page(ROOT))):
        name = path.relative_to(ROOT)
        committed = path.read_text(encoding="utf-8") if path.exists() else ""
        if committed == text:
            print(f"docs: {name} is that of the sources")
        elif not options.check:
            path.write_text(text, encoding="utf-8")
            print(f"docs: {name} is written")
        else:
            stale += 1
            difference = list(difflib.unified_diff(
                committed.splitlines(), text.splitlines(), str(name), "of the sources",
                lineterm="", n=1))
            print("\n".join(difference[:SHOWN]))
            if len(difference) > SHOWN:
                print(f"... and {len(difference) - SHOWN} lines more")
    if stale:
        sys.exit("docs: the pages are not those of the sources: run scripts/docs")


def manual(options):
    """Writes the page of one program."""
    program = help_text.read(options.program)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(
        man_page.compressed(man_page.page(program, options.version, INSTALLED)))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("pages")
    command.add_argument("--bin", type=pathlib.Path, required=True, help="where the programs are")
    command.add_argument("--check", action="store_true", help="write nothing, compare")
    command.set_defaults(run=pages)
    command = commands.add_parser("manual")
    command.add_argument("program", type=pathlib.Path)
    command.add_argument("--version", required=True, help="of the project")
    command.add_argument("--out", type=pathlib.Path, required=True)
    command.set_defaults(run=manual)
    options = parser.parse_args()
    try:
        options.run(options)
    except (help_text.Unreadable, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"docs: {error}")


main()
