# SPDX-License-Identifier: MIT
"""The Python of the client's README runs as it stands, block by block, against a server.

python_readme_test.py REPOSITORY mnemon-train mnemon-server PACKAGE
"""

import contextlib
import io
import os
import re
import sys
import tempfile
import unittest

import package_under_test
from served_model import ServedModel

REPOSITORY, TRAIN, SERVER, PACKAGE = sys.argv[1:5]
package_under_test.find(REPOSITORY, PACKAGE)
import mnemon  # noqa: E402

README = f"{REPOSITORY}/client/python/README.md"


def python_blocks(path):
    """Each with the number of its first line."""
    with open(path) as file:
        text = file.read()
    for match in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, match.start()) + 2, match[1]


class ReadmeTest(unittest.TestCase):
    def test_its_python_runs(self):
        served = ServedModel(REPOSITORY, TRAIN, SERVER, "--data-dir", "data")
        self.addCleanup(served.stop)
        os.environ["MNEMON_SERVER"] = served.address
        names, said = {}, io.StringIO()
        blocks = list(python_blocks(README))
        self.assertGreater(len(blocks), 10)
        for line, block in blocks:
            # So that a traceback has the line of the README.
            code = compile("\n" * (line - 1) + block, README, "exec")
            with self.subTest(line=line), contextlib.redirect_stdout(said):
                try:
                    exec(code, names)
                except mnemon.Unimplemented:
                    # Not every server and architecture has views.
                    self.assertIn("introspection=", block)
        self.assertIn("field='sampling.top_p'", said.getvalue())
        for name in ("client", "patient", "once"):
            names[name].close()
        with mnemon.Client() as client:
            ids = [session.id for session in client.list_sessions(filter="parent = ''")]
            self.assertIn("anna", ids)
            self.assertNotIn("bert", ids)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="mnemon-readme.") as folder:
        os.chdir(folder)
        program = unittest.main(argv=sys.argv[:1], exit=False)
        os.chdir("/")
    sys.exit(not program.result.wasSuccessful())
