# SPDX-License-Identifier: MIT
"""What pyproject.toml cannot say: the descriptors are generated before they are packed, and
the licence, which old and new releases of setuptools want in different forms."""

import pathlib
import sys

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from generate_descriptors import generate  # noqa: E402

# A source distribution has the descriptors and not what they are made of, whatever lies
# around the folder in which it was unpacked.
DISTRIBUTION = (HERE / "PKG-INFO").is_file()
DESCRIPTORS = HERE / "mnemon/v1/api.binpb"


def complete():
    if not DISTRIBUTION:
        generate(HERE / "mnemon")
    elif not DESCRIPTORS.is_file():
        sys.exit(f"setup.py: this source distribution is not whole: {DESCRIPTORS} is missing")


class BuildWithDescriptors(build_py):
    def run(self):
        complete()
        super().run()


class SdistWithDescriptors(sdist):
    def run(self):
        complete()
        super().run()


setup(
    license="MIT",
    cmdclass={"build_py": BuildWithDescriptors, "sdist": SdistWithDescriptors},
)
