# SPDX-License-Identifier: MIT
"""bench/compare.py, gpu_compare.py, tables.py, step_table.sh and versions.py as users call
them; without the packages of bench/requirements.txt, and with a stand-in for mnemon-bench."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
PROBES = {"fma_gflops": {"before": 100.0, "after": 110.0},
          "memory_gbytes": {"before": 20.0, "after": 30.0}}


def step_result(size, batch, steady=True):
    return {"architecture": "causal", "size": size, "batch": int(batch), "context": 128,
            "precision": "PRECISION", "decoder": "step/PRECISION/x", "steady": steady, "tokens_per_second": 1000.0,
            "steps": 10, "step_us": {"median": 1000.0, "q25": 900.0, "q75": 1100.0,
                                     "p99": 2000.0, "mean": 1200.0},
            "read_gbytes": {"before": 40.0, "after": 50.0}, "floor_us": {"floor": 20.0},
            "floor_share": 0.02, "allocations_per_step": 875.0}


def comparison(size, **changes):
    row = {"architecture": "causal", "size": size, "program": "mnemon", "threads": 2,
           "us_per_token": {"median": 123.0, "q25": 99.0, "q75": 150.0}, "floor_us": 12.3,
           "floor_share": 0.1, "times_mnemon": 1.0, "logits_difference": 0.0,
           "steady": True}
    return {"command": f"python compare.py --size {size}", "machine": "a machine",
            "mnemon": "mnemon-bench 0.1.0", "python": "Python 3", "threads": [1, 2],
            "context": 128, "rounds": 5, "seconds": 1.0, "load_average": [0.2],
            "fma_gflops": [100.0, 120.0], "memory_gbytes": [20.0, 30.0],
            "results": [row, {"architecture": "causal", "size": size,
                              "program": "llama.cpp", "missing": "not there",
                              "wrong": False}], **changes}


class ScriptsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mnemon-bench.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_script(self, script, *arguments, **environment):
        command = [str(BENCH / script), *map(str, arguments)]
        if script.endswith(".py"):
            command.insert(0, sys.executable)
        return subprocess.run(command, capture_output=True, text=True, timeout=600,
                              env={**os.environ, **environment}, cwd=self.folder)

    def write(self, name, document):
        path = self.folder / name
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return path

    def programs(self, bench="#!/bin/sh\n"):
        for name in ("mnemon-bench", "mnemon-train"):
            self.write(name, bench).chmod(0o755)
        return self.folder

    def expect_one_line(self, ran, code, *parts):
        self.assertEqual(ran.returncode, code, ran.stderr)
        self.assertEqual(ran.stdout, "")
        self.assertEqual(len(ran.stderr.splitlines()), 1, ran.stderr)
        for part in parts:
            self.assertIn(part, ran.stderr)

    def test_help_has_examples_first(self):
        for script, option in (("compare.py", "  --arch"), ("tables.py", "positional"),
                               ("gpu_compare.py", "  --arch"),
                               ("step_table.sh", "  --bin"),
                               ("versions.py", "positional")):
            ran = self.run_script(script, "--help")
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertLess(ran.stdout.index("Examples:"), ran.stdout.index(option))

    def bench_of(self, name, microseconds):
        result = json.dumps({"results": [{"step_us": {"median": microseconds}}]})
        program = self.write(name, f"#!/bin/sh\nsleep 0.1\necho '{result}'\n")
        program.chmod(0o755)
        return program

    def test_versions_gives_the_ratio(self):
        old, new = self.bench_of("old", 30), self.bench_of("new", 40)
        flags = ("--arch", "causal", "--launches", 2, "--seconds", 0.1)
        ran = self.run_script("versions.py", old, new, *flags)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stdout.splitlines()[-1],
                         "| XS | 1 | causal | 30.00 | 40.00 | 0.750 | 0.750 to 0.750 |")
        for least, code in ((0.75, 0), (0.76, 1)):
            ran = self.run_script("versions.py", old, new, *flags, "--least", least)
            self.assertEqual(ran.returncode, code, ran.stderr)

    def test_versions_fails_with_its_programs(self):
        old, new = self.bench_of("old", 30), self.write("new", "#!/bin/sh\nexit 1\n")
        new.chmod(0o755)
        ran = self.run_script("versions.py", old, new)
        self.assertEqual(ran.returncode, 1, ran.stderr)
        ran = self.run_script("versions.py", old, self.folder / "none")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("no program", ran.stderr)

    def test_compare_names_the_wrong_flag(self):
        programs = ("--bin", self.programs())
        for flag, value in (("--arch", "lstm"), ("--size", "XXL"), ("--threads", "2,0"),
                            ("--seconds", "nan"), ("--rounds", "1.5"), ("--context", "-1"),
                            ("--batch", "0"), ("--batch", "4097"), ("--precision", "fp16"),
                            ("--json", self.folder / "absent" / "out.json")):
            ran = self.run_script("compare.py", *programs, flag, value)
            self.expect_one_line(ran, 2, flag)
        ran = self.run_script("compare.py", *programs, "--precision", "int4")
        self.expect_one_line(ran, 2, "--precision", "'int4'", "fp32", "bf16", "int8")
        ran = self.run_script("compare.py", "--bin", self.folder / "absent")
        self.expect_one_line(ran, 2, "--bin", "mnemon-bench", "build it first")

    def test_gpu_compare_names_the_wrong_flag(self):
        for flag, value in (("--arch", "lstm"), ("--size", "XXL"), ("--seconds", "nan"),
                            ("--rounds", "0"), ("--context", "-1"), ("--precision", "fp16")):
            ran = self.run_script("gpu_compare.py", "--bin", self.programs(), flag, value)
            self.expect_one_line(ran, 2, flag)
        ran = self.run_script("gpu_compare.py", "--bin", self.folder / "absent")
        self.expect_one_line(ran, 2, "--bin", "mnemon-bench", "build it first")

    def test_compare_names_the_missing_package(self):
        self.write("numpy.py", "raise ImportError('not on this machine')")
        for script in ("compare.py", "gpu_compare.py"):
            ran = self.run_script(script, "--bin", self.programs(),
                                  PYTHONPATH=str(self.folder))
            self.expect_one_line(ran, 1, "numpy", "not on this machine",
                                 "requirements.txt")

    def test_comparisons_make_one_table(self):
        ran = self.run_script("tables.py", "compare",
                              self.write("1.json", comparison("SEED")),
                              self.write("2.json", comparison("XS")))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        rows = [line for line in ran.stdout.splitlines() if line.startswith("| ")]
        self.assertEqual(rows[1:], [
            f"| fp32 | {size} | 1 | causal | mnemon |  | 2 | 123 | 99.0 to 150 | 12.3 | 10% | 1 | - |"
            for size in ("XS", "SEED")])
        self.assertIn("python compare.py --size SEED\npython compare.py --size XS", ran.stdout)
        self.assertIn("100 to 120 GFLOP/s, 20 to 30 GB/s", ran.stdout)
        self.assertIn("- llama.cpp, causal XS, SEED: not there.", ran.stdout)

    def test_comparisons_of_batches_and_precisions(self):
        documents = [comparison("XS")]  # as written before there were others
        for precision, batch in (("int8", 1), ("bf16", 1), ("fp32", 16), ("fp32", 2),
                                 ("bf16", 4)):
            document = comparison("XS", batch=batch, precision=precision)
            for row in document["results"]:
                row |= {"batch": batch, "precision": precision, "format": "F"}
            documents.append(document)
        ran = self.run_script("tables.py", "compare",
                              *(self.write(f"{i}.json", d) for i, d in enumerate(documents)))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        rows = [line for line in ran.stdout.splitlines() if line.startswith("| ")]
        cells = [row.split(" | ") for row in rows]
        self.assertEqual([(*row[:3], row[5]) for row in cells],
                         [("| weights", "size", "batch", "format")] + [
                             (f"| {precision}", "XS", batch, named)
                             for precision, batch, named in (
                                 ("fp32", "1", ""), ("fp32", "2", "F"), ("fp32", "16", "F"),
                                 ("bf16", "1", "F"), ("bf16", "4", "F"), ("int8", "1", "F"))])
        self.assertEqual({len(row) for row in cells}, {13})
        self.assertIn("- llama.cpp, causal XS: not there.\n- llama.cpp F, causal XS (batch 2), "
                      "XS (batch 16), XS (bf16), XS (batch 4, bf16), XS (int8): not there.",
                      ran.stdout)

    def test_what_makes_no_table(self):
        good = self.write("good.json", comparison("XS"))
        for name, document, part in (
                ("other.json", comparison("S", machine="another"), "machine"),
                ("text.json", "no JSON", "text.json"),
                ("step.json", {"results": []}, "not a measurement")):
            ran = self.run_script("tables.py", "compare", good, self.write(name, document))
            self.expect_one_line(ran, 1, part)
        ran = self.run_script("tables.py", "compare", self.folder / "absent.json")
        self.expect_one_line(ran, 1, "absent.json")
        self.expect_one_line(self.run_script("tables.py", "lstm", good), 2, "lstm")

    def test_serving_table(self):
        def run(scenario, **changes):
            row = {"what": "p99", "value": 12.3456, "unit": "ms", "bar": "<= 20",
                   "result": "pass"}
            return {"scenario": scenario, "server": "mnemon-server 1", "slack": 1.0,
                    "load_average": 0.5, "passed": True, "results": [row], **changes}
        ran = self.run_script("tables.py", "serving", self.write("a.json", run("idle")),
                              self.write("b.json", run("cpu")))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        rows = [line for line in ran.stdout.splitlines() if line.startswith("| ")]
        self.assertEqual(rows[1:], [f"| {name} | p99 | 12.35 | ms | <= 20 | pass |"
                                    for name in ("idle", "cpu")])
        ran = self.run_script("tables.py", "sessions", self.folder / "a.json")
        self.assertIn("`scripts/check sessions`", ran.stdout)
        self.assertIn("| idle | p99 | 12.35 | ms | <= 20 | pass |", ran.stdout)
        ran = self.run_script("tables.py", "serving", self.folder / "a.json",
                              self.write("c.json", run("cpu", server="mnemon-server 2")))
        self.expect_one_line(ran, 1, "server")

    def test_step_table(self):
        run = {**PROBES, "threads": 2, "load_average": 0.1,
               "results": [step_result("SIZE", 7, steady=False)]}
        document = json.dumps(run).replace('"batch": 7', '"batch": \'"$7"\'')
        bench = (f"#!/bin/sh\necho '{document}' | "
                 "sed \"s/SIZE/$5/; s/PRECISION/${11}/g\"\n")
        ran = self.run_script("step_table.sh", "--bin", self.programs(bench))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        rows = [line for line in ran.stdout.splitlines() if line.startswith("| ")][1:]
        expected = [(precision, size, "1") for precision in ("fp32", "bf16")
                    for size in ("XS", "S", "M", "G", "SEED")]
        expected += [("fp32", size, batch) for batch in ("16", "64")
                     for size in ("XS", "S", "M")]
        self.assertEqual([tuple(row[2:].split(" | ")[:3]) for row in rows], expected)
        self.assertIn("Decoders: `step/fp32/x`, `step/bf16/x`.", ran.stdout)
        self.assertEqual(rows[0], "| fp32 | XS | 1 | causal \\* | 1,000 | 900 to 1,100 | 2,000 | "
                         "1,000 | 50 | 20.0 | 2.0% | 875 |")
        self.assertIn("100 to 110 GFLOP/s,\n  20 to 30 GB/s from memory", ran.stdout)

    def test_context_draws_every_architecture(self):
        document = json.dumps({"results": [step_result("XS", 1)]})
        self.programs(f"""#!/bin/sh
case "$*" in
  *--help) echo "  Architectures: fast_weights, transformer_xl, causal" ;;
  *"causal --size XS --context 20000 "*) echo "takes at most 4096 tokens" >&2; exit 1 ;;
  *) echo '{document}' ;;
esac
""")
        svg = self.folder / "context.svg"
        flags = ("--bench", self.folder / "mnemon-bench", "--longest", "20000")
        ran = self.run_script("context.py", *flags, svg)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        rows = [line.split(" | ")[:2] for line in ran.stdout.splitlines()[2:]]
        self.assertIn(["| fast_weights", "20,000"], rows)
        self.assertEqual([row for row in rows if row[0] == "| causal"][-1],
                         ["| causal", "4,095"])
        self.assertIn("transformer_xl 1000", svg.read_text())
        self.programs("#!/bin/sh\necho broken >&2; exit 1\n")
        svg.unlink()
        ran = self.run_script("context.py", *flags, svg)
        self.expect_one_line(ran, 1, "broken")
        self.assertEqual(svg.exists(), False)

    def test_beside_counts_what_is_busy(self):
        # Takes 1000 us for every process of the script, this one with them, and 10 more
        # for each in the script's session.
        document = json.dumps({"results": [step_result("XS", 1)]})
        document = document.replace("1000.0", "'$us'").replace("1200.0", "'$us'")
        self.programs(
            "#!/bin/sh\nours=$(cut -d' ' -f6 /proc/$PPID/stat)\nus=0\n"
            "for file in $(grep -ls \"^PPid:[[:space:]]*$PPID\\$\" /proc/[0-9]*/status); do\n"
            "  us=$((us + 1000))\n"
            "  [ \"$(cut -d' ' -f6 ${file%us})\" != $ours ] || us=$((us + 10))\n"
            f"done\necho '{document}'\n")
        for session, beside in ([], "4,010"), (["--session", "ours"], "4,040"):
            ran = self.run_script("beside.py", "--bench", self.folder / "mnemon-bench", "--busy",
                                  "3", "--rounds", "2", "--size", "XS", "--arch", "causal",
                                  *session)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertEqual(
                ran.stdout.splitlines()[2:],
                [f"| XS | causal | 1,010 | 1,010 | {beside} | {beside} | 4.0 | 4.0 |"])
        self.programs("#!/bin/sh\necho broken >&2; exit 1\n")
        ran = self.run_script("beside.py", "--bench", self.folder / "mnemon-bench")
        self.assertEqual((ran.returncode, ran.stderr), (1, "broken\n"))
        self.assertEqual(self.run_script("beside.py", "--busy", "0").returncode, 2)

    def test_step_table_refuses(self):
        ran = self.run_script("step_table.sh", "--bin", self.folder / "absent")
        self.expect_one_line(ran, 1, "build it first")
        ran = self.run_script("step_table.sh", "--batch", "2")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("'--batch'", ran.stderr)
        ran = self.run_script("step_table.sh", "--bin", self.programs("#!/bin/sh\nexit 1\n"))
        self.assertEqual((ran.returncode, ran.stdout), (1, ""))


if __name__ == "__main__":
    unittest.main()
