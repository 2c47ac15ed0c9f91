#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The example of docs/memory_demo.md is the one that bench/recall.py runs, and scripts/demo
has it run; so has it the first Python of README.md.

    example_test.py REPOSITORY
"""

import pathlib
import re
import sys
import unittest

REPOSITORY = pathlib.Path(sys.argv[1])


def text_of(path):
    return (REPOSITORY / path).read_text()


class Example(unittest.TestCase):
    def setUp(self):
        script = text_of("bench/recall.py")
        self.told, self.sentence = (
            re.search(rf'^{name} = "(.+)"$', script, re.M)[1] for name in ("EXAMPLE", "SENTENCE")
        )
        self.known = {letter: digit for digit, letter in self.told.split()}
        self.page = text_of("docs/memory_demo.md")

    def test_the_page_asks_for_all_that_it_tells(self):
        self.assertIn(f"told      {self.told}\nbetween   {self.sentence}\nasked ", self.page)
        printed = re.findall(r"\?([A-Z]) -> (\d)", self.page)
        self.assertEqual(dict(printed), self.known)
        self.assertEqual(len(printed), len(self.known))

    def test_its_command_prints_what_it_says(self):
        letter = re.search(rf"--prompt '{self.told} {self.sentence} \?([A-Z])'", self.page)[1]
        self.assertIn(f"The last line prints {self.known[letter]}.", self.page)

    def test_the_demo_runs_it(self):
        demo = text_of("scripts/demo").replace("\\\n", "")
        self.assertRegex(demo, r"bench/recall\.py --example [^\n]*\|\| fail ")

    def test_the_demo_runs_the_python_of_the_readme(self):
        self.assertRegex(text_of("scripts/demo"), r"(?m)show_python$")
        first = re.search(r"```python\n(.*?)```", text_of("README.md"), re.S)[1]
        self.assertTrue(first.startswith("import mnemon\n"), first)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
