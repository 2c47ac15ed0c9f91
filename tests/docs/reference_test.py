# SPDX-License-Identifier: MIT
"""scripts/reference on a program and an API of its own: pages for readers and for man."""

import gzip
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "scripts/reference"))

# pylint: disable=wrong-import-position
import api_page  # noqa: E402
import flags_page  # noqa: E402
import help_text  # noqa: E402
import man_page  # noqa: E402

END = "\nExit codes: 0 done, 1 failed.\n\n"
HELP = """\
== tool

Does things.

Examples:
  tool run --count 3

Usage: tool [OPTIONS] SUBCOMMAND

Options:
  -h,--help                   Print this help message and exit
  --version                   Print the version and exit

Subcommands:
  run                         Runs.
  sets                        Of sets.
""" + END + """\
== tool run

Runs.

Examples:
  tool run --count 3
  tool run x 'a\\n'   # .and so on

Usage: tool run [OPTIONS] name

Positionals:
  name TEXT REQUIRED          Whose

Options:
  -h,--help                   Print this help message and exit
  --server TEXT=127.0.0.1:1 (Env:TOOL_SERVER)
                              Where
  --count,--times INT:in [0.001, 9]=3 (Env:TOOL_TIMES)
                              How often; a|b
  --mode TEXT:{fast,slow,late}=fast (Env:TOOL_MODE) Excludes: --count
                              In which way
  --ids INT ... (Env:TOOL_IDS)
                              Which; default: all of <them>
  --json (Env:TOOL_JSON)      Print JSON
""" + END + """\
== tool sets

Of sets.

Examples:
  tool sets list

Usage: tool sets [OPTIONS] SUBCOMMAND

Options:
  -h,--help                   Print this help message and exit

Subcommands:
  list                        Lists.
""" + END + """\
== tool sets list

Lists.

Examples:
  tool sets list

Usage: tool sets list [OPTIONS]

Options:
  -h,--help                   Print this help message and exit
  --server TEXT=127.0.0.1:1 (Env:TOOL_SERVER)
                              Where
""" + END

PROTO = """\
// SPDX-License-Identifier: MIT
// What it is.
syntax = "proto3";
package mnemon.v1;
import "google/protobuf/duration.proto";
service Things {
  // Does it.
  rpc Do(stream Thing) returns (Thing);
}
// A thing, 1 < 2.
message Thing {
  enum State {
    // None.
    STATE_UNSPECIFIED = 0;
  }
  // Which of `a < b`:
  // - one
  //   of it
  // - the other
  // No more.
  optional State state = 1;
  oneof target {
    string name = 2;
    // Nested.
    Thing other = 3;
  }
  repeated google.protobuf.Duration times = 4;
}
"""


class Flags(unittest.TestCase):
    """What is read from help, and the page of it."""

    def setUp(self):
        self.program = help_text.parse(HELP)

    def test_reads_every_fact(self):
        self.assertEqual([leaf.name for leaf in self.program.leaves()],
                         ["tool run", "tool sets list"])
        run = self.program.commands[0]
        self.assertEqual(run.examples, ["tool run --count 3", "tool run x 'a\\n'   # .and so on"])
        name, = run.arguments
        self.assertTrue(name.required)
        _, server, count, mode, ids, json = run.flags
        self.assertEqual((server.default, server.variable), ("127.0.0.1:1", "TOOL_SERVER"))
        self.assertEqual((count.names, count.least_most, count.default),
                         (("--count", "--times"), ("0.001", "9"), "3"))
        self.assertEqual((mode.choices, mode.excludes), (("fast", "slow", "late"), ("--count",)))
        self.assertEqual((ids.many, ids.told, ids.meaning), (True, "all of <them>", "Which"))
        self.assertEqual((json.kind, json.meaning), ("", "Print JSON"))

    def test_refuses_an_unknown_form(self):
        for wrong in ("--json [Env:X]      Print JSON", "--json JSON-TEXT        Print"):
            with self.assertRaises(help_text.Unreadable):
                help_text.parse(HELP.replace("--json (Env:TOOL_JSON)      Print JSON", wrong))
        with self.assertRaises(help_text.Unreadable):
            help_text.parse(HELP.replace("Usage: tool sets list [OPTIONS]", ""))

    def test_page(self):
        page = flags_page.page([self.program])
        for line in (
                "| `name` | text | required | | Whose |",
                "| `--count`, `--times` | an integer from 0.001 to 9 | `3` | `TOOL_TIMES` "
                "| How often; a\\|b |",
                "| `--mode` | `fast`, `slow` or `late` | `fast` | `TOOL_MODE` "
                "| In which way; not with `--count` |",
                "| `--ids` | an integer, repeated | all of &lt;them> | `TOOL_IDS` | Which |",
                "| `--json` | | | `TOOL_JSON` | Print JSON |"):
            self.assertIn(f"\n{line}\n", page)
        # What both commands have stands at the program, once.
        self.assertEqual(page.count("`--server`"), 1)
        self.assertIn("Each of its commands has:", page)
        self.assertIn("#### tool sets list\n", page)

    def test_man_page(self):
        page = man_page.page(self.program, "1.2", ("tool", "other"))
        self.assertIn("tool \\- does things", page)
        self.assertIn("tool run x 'a\\en'", page)
        self.assertIn("\\fBother\\fR(1)", page)
        self.assertNotIn("\\fBtool\\fR(1)", page)
        self.assertEqual(gzip.decompress(man_page.compressed(page)).decode(), page)
        if not shutil.which("man"):
            self.skipTest("man is missing: install the package man-db")
        with tempfile.TemporaryDirectory(prefix="mnemon-man.") as folder:
            path = pathlib.Path(folder) / "tool.1"
            path.write_text(page, encoding="utf-8")
            shown = subprocess.run(
                ["man", "--warnings", "-l", path], capture_output=True, text=True, check=True,
                timeout=600,
                env={"MANWIDTH": "100", "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"})
        self.assertEqual(shown.stderr, "")
        text = re.sub(r".\x08", "", shown.stdout)
        for words in ("--count, --times INT\n", "--mode fast|slow|late\n", "--ids INT ...\n",
                      "Default: all of <them>.", "tool sets list [OPTIONS]\n"):
            self.assertIn(words, text)


class Api(unittest.TestCase):
    """The page of an API."""

    def test_page(self):
        with tempfile.TemporaryDirectory(prefix="mnemon-api.") as folder:
            root = pathlib.Path(folder)
            (root / "proto/mnemon/v1").mkdir(parents=True)
            for name in api_page.FILES:
                (root / f"proto/mnemon/v1/{name}.proto").write_text(
                    PROTO if name == "sessions" else
                    f'// Of {name}.\nsyntax = "proto3";\npackage mnemon.v1;\n', encoding="utf-8")
            page = api_page.page(root)
        self.assertNotIn("SPDX", page)
        self.assertIn("- [Things](#service-things): [Do](#thingsdo)\n", page)
        self.assertIn(
            "#### Things.Do\n\nstream of [Thing](#thing) → [Thing](#thing)\n\nDoes it.\n", page)
        self.assertIn("### Thing\n\nA thing, 1 \\< 2.\n", page)
        self.assertIn("""
- `state` *optional* [Thing.State](#thingstate), 1\\
  Which of `a < b`:
  - one of it
  - the other

  No more.
- One of `target`
  - `name` string, 2
  - `other` [Thing](#thing), 3\\
    Nested.
- `times` repeated `google.protobuf.Duration`, 4
""", page)
        self.assertIn("### Thing.State\n\n- `STATE_UNSPECIFIED` = 0\\\n  None.\n", page)


if __name__ == "__main__":
    unittest.main()
