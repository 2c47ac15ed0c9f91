# SPDX-License-Identifier: MIT
"""No class has more methods or members, and no folder more files, than a reader keeps in
mind: what grows beyond is two ideas. The exceptions of structure.py are as they say."""

import sys
import unittest

import structure

TOY = """
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
  bool (*check_)(int, const std::vector<int>&);
  struct { int p, q; } pair_;
  const std::unique_ptr<Toy> next_ = std::make_unique<Toy>(1, 2);
};"""


def folder(count, name="part"):
    return {f"{name}/file_{i}.cc": "" for i in range(count)}


def methods(count, name="Large"):
    return f"class {name} {{\n" + "".join(f"  void M{i}();\n" for i in range(count)) + "};"


class Structure(unittest.TestCase):
    def faults(self, files, exceptions=()):
        return sorted(structure.Project(files).faults(exceptions))

    def test_counts_what_a_class_declares(self):
        self.assertEqual([tuple(s) for s in structure.sizes(TOY, "toy.h")],
                         [("Toy", "toy.h", 6, 7), ("Toy::Inner", "toy.h", 1, 1),
                          ("Toy::unnamed", "toy.h", 0, 2)])

    def test_finds_the_files_that_define_the_methods_of_a_class(self):
        project = structure.Project({
            "a/a.h": "class A { struct Impl; int Get(); void Set(); };",
            "a/a.cc": '#include "a/a.h"\nstruct A::Impl { int x; };\nint A::Get() {}\n',
            "a/set.cc": '#include "a/a.h"\nstd::vector<int>\nA::Set(int b) {}\n',
            "b/a.h": "class A { void Other(); };",
            "b/a.cc": '#include "b/a.h"\nvoid Use() {\n  A::Other();\n}\nint A::x_ = B();\n',
        })
        found = {(s.name, s.path): project.implementations.get(s)
                 for s in project.classes}
        self.assertEqual(found, {("A", "a/a.h"): {"a/a.cc", "a/set.cc"},
                                 ("A::Impl", "a/a.cc"): {"a/a.cc"}, ("A", "b/a.h"): None})

    def test_counts_source_files_and_edges_of_a_folder(self):
        project = structure.Project({
            "a/x.h": '#include "b/y.h"\n#include "a/z.h"\n#include <vector>\n',
            "a/z.h": '#include "mnemon/v1/models.pb.h"\n', "a/script.py": "",
            "a/unicode_tables.cc": "", "b/y.h": ""})
        self.assertEqual({f: len(files) for f, files in project.folders.items()},
                         {"a": 3, "b": 1})
        self.assertEqual(project.edges["a"], {"b", "proto/mnemon/v1"})
        self.assertIn("    3 a: b proto/mnemon/v1", list(project.report()))

    def test_limits_are_the_last_that_pass(self):
        fields = "struct Wide {{ int {}; }};".format
        names = [f"m{i}" for i in range(26)]
        self.assertEqual(self.faults({"a/a.h": methods(40)} | folder(40)), [])
        self.assertEqual(self.faults({"a/a.h": fields(", ".join(names[:25]))}), [])
        self.assertEqual(self.faults({"a/a.h": methods(41)} | folder(41)),
                         ["Large has 41 methods: at most 40",
                          "part has 41 files: at most 40"])
        self.assertEqual(self.faults({"a/a.h": fields(", ".join(names))}),
                         ["Wide has 26 members: at most 25"])

    def test_an_exception_is_for_its_figure_alone(self):
        exceptions = [("Large", "methods", 50, "why")]
        self.assertEqual(self.faults({"a/a.h": methods(50)}, exceptions), [])
        lower = "Large no longer has 50 methods: lower or remove its exception"
        self.assertEqual(self.faults({"a/a.h": methods(51)}, exceptions),
                         ["Large has 51 methods: at most 40", lower])
        self.assertEqual(self.faults({"a/a.h": methods(49)}, exceptions),
                         ["Large has 49 methods: at most 40", lower])
        self.assertEqual(self.faults({"a/a.h": methods(40)}, exceptions), [lower])
        self.assertEqual(self.faults({}, exceptions), [lower])

    def test_the_project_is_within_its_limits(self):
        project = structure.read(REPOSITORY)
        self.assertGreater(len(project.classes), 1000)
        self.assertEqual(sorted(project.faults(structure.EXCEPTIONS)), [])

    def test_exceptions_have_reasons(self):
        for name, what, count, reason in structure.EXCEPTIONS:
            self.assertTrue(reason, name)
            self.assertGreater(count, structure.LIMITS[what], name)


if __name__ == "__main__":
    REPOSITORY = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
