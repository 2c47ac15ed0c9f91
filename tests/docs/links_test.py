# SPDX-License-Identifier: MIT
"""Links, anchors and mentions of pages lead somewhere, and the index of docs/ is complete."""

import collections
import os
import pathlib
import re
import sys
import tempfile
import unittest
import urllib.parse

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
NOT_OURS = ("build", "runs", "__pycache__")
TEXTS = (".cc", ".cu", ".h", ".md", ".proto", ".py", ".toml", ".txt", ".cmake", ".yml", ".service",
         "")


def files(root):
    """The files of the tree, without what is built or hidden."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders
                      if name not in NOT_OURS and not name.startswith(".")]
        yield from (pathlib.Path(folder, name) for name in names)


def prose(text):
    """Text without code, in which brackets are no links."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(text):
    """The names that the headings of a page have, as GitHub makes them."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    seen, names = collections.Counter(), set()
    for heading in re.findall(r"^#{1,6} +(.*?)\s*$", text, flags=re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        names.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def targets(text):
    """Where the links and pictures of a page lead."""
    text = prose(text)
    yield from re.findall(r"\]\(<?([^\s()<>]+(?:\([^\s()]*\))?)>?(?: \"[^\"]*\")?\)", text)
    yield from re.findall(r"^\[[^]]+\]: +(\S+)", text, flags=re.MULTILINE)
    yield from re.findall(r'<(?:img|source|a)\b[^>]*?\b(?:src|srcset|href)="([^"]+)"', text)


def broken_links(root):
    """(page, target) of each link within the tree that leads nowhere."""
    for page in files(root):
        if page.suffix != ".md":
            continue
        for target in targets(page.read_text(encoding="utf-8")):
            url = urllib.parse.urlsplit(target)
            if url.scheme or url.netloc:
                continue
            path = (page.parent / urllib.parse.unquote(url.path)).resolve() if url.path else page
            found = path.exists() and path.is_relative_to(root)
            if found and url.fragment:
                found = path.suffix == ".md" and url.fragment in anchors(
                    path.read_text(encoding="utf-8"))
            if not found:
                yield str(page.relative_to(root)), target


def lost_mentions(root):
    """(file, page) of each mention of a page or picture of docs/ that is not there."""
    for file in files(root):
        if file.suffix not in TEXTS:
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        for name in re.findall(r"(?<![\w/.])docs/[\w/]+\.(?:md|svg|png)\b", text):
            if not (root / name).exists():
                yield str(file.relative_to(root)), name


class Reader(unittest.TestCase):
    """The functions above, on pages with known faults."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mnemon-links.")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def test_finds_what_is_broken_and_nothing_else(self):
        self.write("a.md", "# One `two`, three\n## Same\n## Same\n"
                   "[x](docs/b.md) [x](docs/b.md#there) [x](#one-two-three) [x](#same-1)\n"
                   "[x](docs)\n"
                   "[x](https://example.org/nothing) `[x](code)`\n```\n[x](more-code)\n```\n"
                   "![x](no.png) [x](docs/b.md#not-there) [x](#same-2) [x](docs/c.md)\n"
                   "<img src=\"none.svg\"> [x](../outside)\n")
        self.write("docs/b.md", "# There\n[up](../a.md#same)\n[r]\n\n[r]: lost.md\n")
        self.assertEqual(sorted(broken_links(self.root)), [
            ("a.md", "#same-2"), ("a.md", "../outside"), ("a.md", "docs/b.md#not-there"),
            ("a.md", "docs/c.md"), ("a.md", "no.png"), ("a.md", "none.svg"),
            ("docs/b.md", "lost.md")])

    def test_finds_lost_mentions(self):
        self.write("docs/b.md", "# There\n")
        self.write("x.cc", "// See docs/b.md and docs/gone.md.\n")
        self.assertEqual(list(lost_mentions(self.root)), [("x.cc", "docs/gone.md")])


class Tree(unittest.TestCase):
    """The pages of the project."""

    def test_links_lead_somewhere(self):
        self.assertEqual(sorted(broken_links(ROOT)), [])

    def test_mentions_lead_somewhere(self):
        # These have mentions that are wrong on purpose.
        on_purpose = ("tests/docs/links_test.py", "tests/figures_test.py")
        self.assertEqual([lost for lost in lost_mentions(ROOT)
                          if lost[0] not in on_purpose], [])

    def test_each_page_stands_in_its_index_once(self):
        for folder in ("docs", "docs/decisions"):
            index = ROOT / folder / "README.md"
            listed = collections.Counter(
                target for target in targets(index.read_text(encoding="utf-8"))
                if "#" not in target and ":" not in target and not target.startswith(".."))
            pages = {page.name for page in (ROOT / folder).glob("*.md") if page != index}
            if folder == "docs":
                pages.add("decisions/README.md")
            self.assertEqual(set(listed), pages, index)
            self.assertEqual([page for page, times in listed.items() if times > 1], [], index)


if __name__ == "__main__":
    unittest.main()
