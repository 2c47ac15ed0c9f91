# SPDX-License-Identifier: MIT
"""What the pages name in code spans exists: files and folders of the tree, tests, flags,
variables, metrics, and types and members of the code.

    names_test.py REPOSITORY

Commands are checked by figures_test, links by links_test, and the rows of
docs/reliability.md by catalogue_test. A span that could as well be a word, a value or
another program's is not looked at.
"""

import fnmatch
import os
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
FOLDERS = ("base", "bench", "client", "cmake", "deploy", "docs", "model", "proto", "scripts",
           "server", "tests", "train")
# Files of the tree that may define names.
TEXTS = (".h", ".cc", ".cu", ".py", ".js", ".proto", ".sh", ".cmake", ".txt", ".toml", ".yml",
         ".json", ".service", "")
NOT_OURS = ("build", "runs", "__pycache__")
# Names of other projects, and of what a reader is to write.
OTHERS = {"torch/torch.h", "glu_variants/simple.py", "convert_hf_to_gguf.py", "TextDataset",
          "WordLevel", "filter_subset", "basic_english", "--gpus all",
          "foo.cc", "foo_test.cc", "model/families/toy.cc", "hf_toy.cc", "model/blocks/toy/",
          "ToyOp", "train/configs/toy-small.toml"}
LIBRARIES = ("std", "absl", "testing", "grpc", "torch")
SPAN = re.compile(r"(?<!`)`(?!`)([^`\n]+)`(?!`)")
SCOPE = re.compile(r"\b(?:enum class|class|struct|enum|message|service)\s+"
                   r"(?:alignas\([^)]*\)\s*)?(\w+)[^;(){}]*\{|\bnamespace\s+([\w:]+)\s*\{")


class Names:
    """What can be named: `texts` by path from the root, and `paths` of other files."""

    def __init__(self, texts, paths=()):
        self.paths = {*texts, *paths}
        for path in list(self.paths):
            self.paths.update(map(str, pathlib.PurePosixPath(path).parents))
        self.code = {path: text for path, text in texts.items() if not path.endswith(".md")}
        self.words = set(re.findall(r"\w+", "\n".join(self.code.values())))
        # The page of flags has those that programs make of other names, and a test.
        self.flags = texts.get("docs/flags.md", "") + "\n".join(self.code.values())
        self.flags = set(re.findall(r"--[a-z][a-z0-9-]+|MNEMON_\w+", self.flags))
        self.tests = {pathlib.PurePosixPath(path).stem for path in self.code}
        self.scopes = {}  # type or namespace -> files that define it
        for path, text in self.code.items():
            if path.endswith("CMakeLists.txt"):
                self.tests.update(re.sub(r"\$\{\w+\}", "*", name)
                                  for name in re.findall(r"[\w${}-]+_test\b", text))
            for name, space in SCOPE.findall(text):
                for part in [name] if name else space.split("::"):
                    self.scopes.setdefault(part, set()).add(path)

    def has_path(self, name):
        pattern = re.sub(r"\{[^}]*\}", "*", name.rstrip("/"))
        return pattern in self.paths or any(
            fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, "*/" + pattern)
            for path in self.paths)

    def has_member(self, scope, name):
        return any(re.search(rf"\b{name}\b", self.code[path])
                   for path in self.scopes.get(scope, ()))

    def lacks(self, span):
        """The kind of what a span names and is not there; None where nothing is amiss."""
        def kind(what, there):
            return None if there else what

        if span in OTHERS:
            return None
        if re.fullmatch(rf"(?:{'|'.join(FOLDERS)})/[\w.*{{}},/-]+", span) or \
                re.fullmatch(r"[\w*/.-]+\.(?:h|cc|cu|proto|cmake|py|js)", span):
            return kind("file", self.has_path(span))
        if re.fullmatch(r"\w+_test", span):
            return kind("test", any(fnmatch.fnmatchcase(span, test) for test in self.tests))
        if flag := re.fullmatch(r"(--[a-z][a-z0-9-]+)(?:[ =].*)?|(MNEMON_[A-Z0-9_]+)", span):
            return kind("flag or variable", (flag[1] or flag[2]) in self.flags)
        if re.fullmatch(r"[a-z]+(?:_[a-z0-9]+)+_?", span):
            # Histograms have three series each.
            return kind("name", {span, re.sub(r"_(bucket|sum|count)$", "", span)} & self.words)
        word = re.fullmatch(r"(?:mnemon::)?((?:\w+::)*)~?(\w+)(?:\(.*\))?", span)
        if word and word[1]:
            scope = word[1].split("::")[-2]
            return kind("member", scope in LIBRARIES or self.has_member(scope, word[2]))
        if word and re.fullmatch(r"(?:[A-Z][a-z0-9]+){2,}|k[A-Z]\w+", word[2]):
            return kind("name", word[2] in self.words)
        return None

    def faults(self, page, text):
        # Lines of code stay, empty, so that the others keep their numbers.
        text = re.sub(r"^ *```.*?^ *```", lambda block: "\n" * block[0].count("\n"), text,
                      flags=re.MULTILINE | re.DOTALL)
        for number, line in enumerate(text.splitlines(), 1):
            for span in SPAN.findall(line):
                if what := self.lacks(span):
                    yield f"{page}:{number}: there is no {what} {span}"


def read(root):
    """The pages by path, and the Names of a tree."""
    texts, paths = {}, set()
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders
                      if name not in NOT_OURS and not name.startswith(".")]
        for path in (pathlib.Path(folder, name) for name in names):
            where = path.relative_to(root).as_posix()
            if path.suffix in TEXTS + (".md",) and "/data/" not in where:
                texts[where] = path.read_text(encoding="utf-8", errors="replace")
            paths.add(where)
    return {path: text for path, text in texts.items() if path.endswith(".md")}, \
        Names(texts, paths)


class Reader(unittest.TestCase):
    """Names, of a tree that is known."""

    def setUp(self):
        self.names = Names({
            "server/engine/a.h": "namespace mnemon::parts {\nclass Other;\n"
                                 "class Runner final : public Base {\n  void Start();\n"
                                 "  int end_later_;\n};\nenum class Phase { kWaiting };\n",
            "server/a.cc": 'Family("mnemon_calls_total"); getenv("MNEMON_WAYS");',
            "tests/server/CMakeLists.txt": "mnemon_test(engine_test)\n"
                                           "add_test(NAME load_${scenario}_test)\n",
            "docs/flags.md": "| `--admin` | `MNEMON_ADMIN` |",
        }, {"tests/data/model.gguf"})

    def test_finds_what_is_there(self):
        for span in ("server/engine/a.h", "engine/a.h", "a.cc", "server/*/a.h", "server/engine/",
                     "server/{a,b}.cc", "tests/data/model.gguf", "engine_test", "load_idle_test",
                     "--admin", "--admin off", "MNEMON_ADMIN", "MNEMON_WAYS", "end_later_",
                     "mnemon_calls_total", "mnemon_calls_total_sum", "Runner::Start",
                     "mnemon::parts::Runner", "Phase::kWaiting", "Runner::Start(1)",
                     "std::nothing", "kWaiting"):
            self.assertIsNone(self.names.lacks(span), span)

    def test_finds_what_is_not_there(self):
        for span, what in (
                ("server/b.cc", "file"), ("b.h", "file"), ("server/gone/", "file"),
                ("server/*/b.h", "file"), ("tests/data/none.gguf", "file"),
                ("other_test", "test"), ("--gone", "flag or variable"),
                ("--gone=1", "flag or variable"), ("MNEMON_GONE", "flag or variable"),
                ("mnemon_gone_total", "name"), ("begin_later_", "name"),
                ("Runner::Stop", "member"), ("Other::Start", "member"),
                ("Phase::kOver", "member"), ("GoneRunner", "name"), ("kOver", "name")):
            self.assertEqual(self.names.lacks(span), what, span)

    def test_leaves_words_and_values_alone(self):
        for span in ("mnemon chat", "D", "max", "Start", "x.json", "[B, H]", "1e-5", "run/best",
                     "model.safetensors", "GET /healthz", "kubectl"):
            self.assertIsNone(self.names.lacks(span), span)

    def test_names_the_line(self):
        page = "# `GoneOne`\n```\n`GoneTwo`\n```\nand ``GoneThree`` and `GoneFour`, `a.cc`\n"
        self.assertEqual(list(self.names.faults("page.md", page)),
                         ["page.md:1: there is no name GoneOne",
                          "page.md:5: there is no name GoneFour"])


class Tree(unittest.TestCase):
    def test_pages_name_what_exists(self):
        pages, names = read(ROOT)
        self.assertGreater(len(pages), 40)
        self.assertEqual([fault for page, text in sorted(pages.items())
                          for fault in names.faults(page, text)], [])

    def test_others_are_still_named(self):
        pages, _ = read(ROOT)
        spans = {span for text in pages.values() for span in SPAN.findall(text)}
        self.assertEqual(sorted(OTHERS - spans), [])


if __name__ == "__main__":
    unittest.main()
