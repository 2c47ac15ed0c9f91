# SPDX-License-Identifier: MIT
"""What pyproject.toml cannot say: the descriptors are generated before they are packed."""

import pathlib
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from generate_descriptors import generate  # noqa: E402


class BuildWithDescriptors(build_py):
    def run(self):
        generate(HERE / "mnemon")
        super().run()


setup(cmdclass={"build_py": BuildWithDescriptors})
