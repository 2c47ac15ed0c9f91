# SPDX-License-Identifier: MIT
"""The package and a program that uses it pass `mypy --strict`, and one that uses it wrong
does not.

    python_types_test.py REPOSITORY PACKAGE CACHE

CACHE is a folder that mypy keeps what it has seen in.
"""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

import package_under_test

REPOSITORY, PACKAGE, CACHE = sys.argv[1:4]
if importlib.util.find_spec("mypy") is None:
    print("SKIPPED: this Python has no mypy; install the package mypy")
    sys.exit(package_under_test.SKIPPED)
ENVIRONMENT = package_under_test.find(REPOSITORY, PACKAGE)
PYTHON = pathlib.Path(REPOSITORY) / "client/python"
WRONG = """import mnemon
client = mnemon.Client()
client.generate("a", max_tokens="5")
client.generate("a", temprature=1.0)
client.session("anna").rewind(0.5)
client.session("anna", tll=5)
"""


def mypy(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(PYTHON / "pyproject.toml")]
        + ["--cache-dir", CACHE, "--no-error-summary", *map(str, arguments)],
        cwd=PYTHON,
        env={**ENVIRONMENT, "MYPYPATH": str(PYTHON)},
        capture_output=True,
        text=True,
        timeout=600,
    )


class TypesTest(unittest.TestCase):
    def test_the_package_and_its_users_are_strict(self):
        checked = mypy(PYTHON / "mnemon", pathlib.Path(__file__).parent / "typed_use.py")
        self.assertEqual((checked.returncode, checked.stdout), (0, ""), checked.stderr)

    def test_wrong_use_is_found(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(WRONG)
            file.flush()
            checked = mypy(file.name)
        lines = [
            line.split(":")[1] for line in checked.stdout.splitlines() if "error" in line
        ]
        self.assertEqual(lines, ["3", "4", "5", "6"], checked.stdout + checked.stderr)

    def test_it_says_that_it_is_typed(self):
        self.assertTrue((PYTHON / "mnemon/py.typed").is_file())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
