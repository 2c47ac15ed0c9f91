# SPDX-License-Identifier: MIT
"""The names of the architectures as users type them, read from model/families."""

import pathlib
import re

FAMILIES = pathlib.Path(__file__).resolve().parent.parent / "model" / "families"


def names(generating=False):
    """Those of the table in its order, each followed by its shared_name; or only those that
    generate token by token."""
    entries = {}
    for source in FAMILIES.glob("*.cc"):
        text = source.read_text()
        if generating and "whole_sequences = true" in text:
            continue
        for family, entry in re.findall(r"^Family (\w+)\(\) \{(.*?)^\}", text,
                                        re.MULTILINE | re.DOTALL):
            entries[family] = re.findall(r'\.(?:shared_)?name = "(\w+)"', entry)
    table = re.findall(r"family\((\w+)\)", (FAMILIES / "table.h").read_text())
    return [name for family in table for name in entries.get(family, [])]
