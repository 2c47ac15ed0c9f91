# SPDX-License-Identifier: MIT
"""No class of model/ has more methods or members than a reader keeps in mind: what grows
beyond is two ideas. Overloads count each; members of an inner struct are the struct's."""

import pathlib
import re
import sys
import unittest

METHODS, MEMBERS = 40, 25

HEAD = re.compile(r"(?:^|[;{}>\n])\s*(class|struct)\s+(?:alignas\([^)]*\)\s*)?(\w+)?"
                  r"(?:<[^;{}()]*>)?(?:\s+final)?\s*(?::[^;{}()]*(?:\([^()]*\))?[^;{}()]*)?$")
NO_MEMBER = re.compile(r"\s*(using|friend|typedef|static_assert|enum|class|struct|template"
                       r"\s*<[^;]*>\s*(?:class|struct))\b(?!.*\b\w+_?\s*(=.*)?$)", re.DOTALL)


def bare(text):
    """Without comments, literals, directives and labels of access."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r'R"\w*\(.*?\)\w*"|"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])'", "0", text,
                  flags=re.DOTALL)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)
    return re.sub(r"\b(public|private|protected)\s*:(?!:)", "", text)


def closing(text, opening):
    depth = 0
    for i in range(opening, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i
    return len(text)


def statements(body):
    """Those of a class body, their inner braces left out."""
    found, start, i = [], 0, 0
    kept = ""
    while i < len(body):
        if body[i] == "{":
            end = closing(body, i)
            kept += body[start:i] + "{}"
            start = i = end + 1
            # A function's body ends a statement without a semicolon.
            rest = body[i:].lstrip()
            if "(" in kept and not rest.startswith((";", ",", "{", "=")) and \
                    not re.search(r"=\s*\{\}$", kept):
                found.append(kept)
                kept = ""
            continue
        if body[i] == ";":
            found.append(kept + body[start:i])
            kept, start = "", i + 1
        i += 1
    return [s.strip() for s in found if s.strip()]


def is_method(statement):
    head = re.split(r"(?<![=!<>])=(?!=)|\{\}", statement, maxsplit=1)[0]
    if "operator" in statement.split("(")[0]:
        return True
    # A function as a member, or a type in parentheses, has no name before its parenthesis.
    head = re.sub(r"<[^<>]*(?:<[^<>]*(?:<[^<>]*>[^<>]*)*>[^<>]*)*>", "", head)
    return bool(re.search(r"\b\w+\s*\(", re.sub(r"\balignas\([^)]*\)", "", head)))


def members(statement):
    """How many a statement declares."""
    if re.match(r"\s*(using|friend|typedef|static_assert|static|enum)\b", statement):
        return 0
    if re.match(r"\s*(template\s*<.*>\s*)?(class|struct|union)\b", statement, re.DOTALL):
        return 1 if re.search(r"\}\s*\w+", statement) else 0
    flat = re.sub(r"<[^<>]*(?:<[^<>]*(?:<[^<>]*>[^<>]*)*>[^<>]*)*>|\{\}|\([^()]*\)|\[[^]]*\]", "",
                  statement)
    return flat.count(",") + 1


def sizes(text):
    """(name, methods, members) of each class."""
    text = bare(text)
    for opening in (m.start() for m in re.finditer(r"\{", text)):
        before = text[max(0, opening - 400):opening]
        head = HEAD.search(before)
        if not head:
            continue
        methods = fields = 0
        for statement in statements(text[opening + 1:closing(text, opening)]):
            if re.match(r"(template\s*<[^;]*>\s*)?(class|struct|union|enum)\b", statement):
                fields += members(statement)
            elif re.match(r"(using|friend|typedef|static_assert)\b", statement):
                continue
            elif is_method(statement):
                methods += 1
            else:
                fields += members(statement)
        yield head[2] or "unnamed", methods, fields


class ClassSizes(unittest.TestCase):
    def test_counts(self):
        text = """
        template <class T>
        class Toy final : public Base<T, int> {
         public:
          Toy(int a, int b) : a_(a), b_{b} {}
          explicit Toy(std::string s);
          virtual ~Toy() = default;
          Toy& operator=(const Toy&) = delete;
          std::vector<std::pair<int, int>> Pairs(int n) const override;
          bool empty() const { return a_ == 0; }
         private:
          struct Inner { int x = 0; int Twice() const { return 2 * x; } };
          enum Kind { kOne, kTwo };
          static constexpr int kMost = 4;
          int a_ = 0, b_ = 1;  // int c_;
          std::map<int, std::string> names_;
          std::function<void(int, int)> done_;
          struct { int p, q; } pair_;
          const std::unique_ptr<Toy> next_ = std::make_unique<Toy>(1, 2);
        };"""
        self.assertEqual(list(sizes(text)),
                         [("Toy", 6, 6), ("Inner", 1, 1), ("unnamed", 0, 2)])

    def test_are_within_bounds(self):
        large = []
        for path in sorted(pathlib.Path(REPOSITORY, "model").rglob("*")):
            if path.suffix not in (".h", ".cc", ".cu"):
                continue
            for name, methods, fields in sizes(path.read_text()):
                if methods > METHODS or fields > MEMBERS:
                    large.append(f"{path.relative_to(REPOSITORY)}: {name} has {methods} "
                                 f"methods and {fields} members")
        self.assertEqual(large, [])


if __name__ == "__main__":
    REPOSITORY = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
