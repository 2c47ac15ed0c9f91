# SPDX-License-Identifier: MIT
"""bench/loss.py as users call it, with a stand-in for mnemon-train."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

LOSS = pathlib.Path(__file__).resolve().parents[2] / "bench" / "loss.py"

# Trains by writing a checkpoint. The losses of the formats are in the file `losses`; the
# logits of score give that of fp32, in int8 by `drift` more with every token.
STAND_IN = r'''#!/usr/bin/env python3
import array, json, math, pathlib, struct, sys
here = pathlib.Path(sys.argv[0]).parent
losses = json.loads((here / "losses").read_text())
command, flags = sys.argv[1], sys.argv[2:]
value = lambda flag: flags[flags.index(flag) + 1]
with open(here / "calls", "a") as calls:
    print(*sys.argv[1:], file=calls)
if command == "fit":
    if losses.get("fit") == "fails":
        sys.exit("mnemon-train: no\nmnemon-train: it diverged")
    training = pathlib.Path(value("--out")) / "best" / "training"
    training.mkdir(parents=True)
    (training / "state.json").write_text('{"steps": 1234}')
    (training.parent / "tokenizer.json").write_text(
        '{"model": {"type": "Char", "vocab": {"a": 1, "b": 0}}}')
elif command == "eval":
    print(f"{losses[value('--precision')]} nats per character (1 bits), accuracy 1")
    print(len(pathlib.Path(value("--text")).read_text()))
else:
    data = pathlib.Path(value("--tokens")).read_bytes()
    tokens = array.array("q", data[8 + struct.unpack_from("<Q", data)[0]:])
    drift = losses["drift"] if value("--precision") == "int8" else 0.0
    logits = array.array("f")
    for i, token in enumerate(tokens):
        nats = losses["fp32"] + drift * i
        pair = [-nats, math.log(1 - math.exp(-nats))]
        # The text is abab.., so the other token comes next.
        logits.extend(pair if token == 1 else reversed(pair))
    head = json.dumps({"logits": {"dtype": "F32", "shape": [1, len(tokens), 2],
                                  "data_offsets": [0, 4 * len(logits)]}}).encode()
    pathlib.Path(value("--out")).write_bytes(
        struct.pack("<Q", len(head)) + head + logits.tobytes())
'''


class LossTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mnemon-bench.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "text").write_text("ab" * 200_010)
        (self.folder / "mnemon-train").write_text(STAND_IN)
        (self.folder / "mnemon-train").chmod(0o755)

    def run_loss(self, *arguments, **losses):
        (self.folder / "losses").write_text(
            json.dumps({"fp32": "2.1", "bf16": "2.1049", "int8": "2.1099", **losses}))
        (self.folder / "calls").write_text("")
        return subprocess.run(
            [sys.executable, "-B", str(LOSS), *map(str, arguments), "--bin", "."],
            capture_output=True, text=True, timeout=600, cwd=self.folder, check=False)

    def formats(self, *arguments, **losses):
        return self.run_loss("formats", "text", "runs", *arguments, **losses)

    def drift(self, *arguments, **losses):
        return self.run_loss("drift", "text", "runs", "drift.svg", "--tokens", "20000",
                             *arguments, **{"fp32": 0.5, "drift": 0, **losses})

    def calls(self, command):
        lines = (self.folder / "calls").read_text().splitlines()
        return [line for line in lines if line.startswith(command)]

    def test_every_small_configuration(self):
        ran = self.formats("--characters", "12345", "--seconds", "7")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        names = ["causal", "fast_weights", "feedback", "feedback_shared", "llama",
                 "transformer_xl"]
        self.assertEqual(ran.stdout.splitlines()[2:], [
            f"| `{name}` | 1,234 | 2.1000 | +0.0049 | +0.0099 |" for name in names])
        self.assertEqual(len(self.calls("eval")), 18)
        for name, call in zip(names, self.calls("fit")):
            for part in (f"/{name}-small.toml", "data.text=text", "train.seconds=7"):
                self.assertIn(part, call)

    def test_missed_bars_are_named(self):
        ran = self.formats("--arch", "causal,feedback", bf16="2.105", int8="2.11")
        self.assertEqual(ran.returncode, 1)
        self.assertEqual(ran.stdout.splitlines()[2:], [
            f"| `{name}` | 1,234 | 2.1000 | +0.0050 | +0.0100 |"
            for name in ("causal", "feedback")])
        self.assertEqual(
            [line for line in ran.stderr.splitlines() if not line.startswith("training")],
            [f"loss.py: {name} loses {lost} nats in {precision}, the bar is {bar}"
             for name in ("causal", "feedback")
             for precision, lost, bar in (("bf16", "0.0050", "0.005"),
                                          ("int8", "0.0100", "0.01"))])

    def test_a_run_is_trained_once(self):
        for fits in (1, 0):
            self.assertEqual(self.formats("--arch", "causal").returncode, 0)
            self.assertEqual(len(self.calls("fit")), fits)

    def test_what_fails_is_named(self):
        ran = self.formats("--arch", "causal", fit="fails")
        self.assertEqual(ran.returncode, 1)
        self.assertEqual(ran.stderr.splitlines()[1:], ["loss.py: mnemon-train: it diverged"])
        self.assertFalse((self.folder / "runs" / "causal").exists())
        ran = self.formats("--arch", "causal", int8="nan")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("gives no loss of runs/causal in int8: nan nats", ran.stderr)
        ran = self.formats("--characters", "40003")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("the last tenth of text has 40,002 characters, not 40,003", ran.stderr)
        ran = self.run_loss("formats", "absent", "runs")
        self.assertEqual((ran.returncode, ran.stderr),
                         (1, "loss.py: absent: No such file or directory\n"))

    def test_usage(self):
        for arguments, part in ((("--arch", "lstm"), "'lstm' is not one of causal,"),
                                (("--seconds", "0"), "--seconds"),
                                (("--characters", "1"), "--characters")):
            ran = self.formats(*arguments)
            self.assertEqual(ran.returncode, 2)
            self.assertIn(part, ran.stderr)
        self.assertEqual(self.drift("--tokens", "21000").returncode, 2)
        self.assertEqual(self.drift("--arch", "causal").returncode, 2)
        (self.folder / "mnemon-train").unlink()
        ran = self.formats()
        self.assertEqual(ran.returncode, 2)
        self.assertIn("build it first", ran.stderr)

    def test_drift_is_the_loss_over_one_session(self):
        ran = self.drift("--arch", "fast_weights", drift=4e-7)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        # 4e-7 times the mean position of all, of the first fifth and of the last.
        self.assertEqual(ran.stdout.splitlines()[2:], [
            "| `fast_weights` | 1,234 | 0.5000 | +0.00400 | +0.00080 | +0.00720 | +0.00760 |"])
        picture = (self.folder / "drift.svg").read_text()
        for label in ("fast_weights fp32 0.50", "fast_weights int8 0.51",
                      "fast_weights +0.0076"):
            self.assertIn(label, picture)
        self.assertEqual(len(self.calls("score")), 2)
        self.assertIn("--form step --precision fp32", self.calls("score")[0])

    def test_a_loss_that_drifts(self):
        ran = self.drift(drift=8e-7)
        self.assertEqual(ran.returncode, 1)
        said = [line for line in ran.stderr.splitlines() if not line.startswith("training")]
        self.assertEqual(said, [
            f"loss.py: {name} loses +0.0128 nats from the first fifth to the last, the bar is "
            "0.01" for name in ("fast_weights", "transformer_xl")])
        for call in self.calls("fit"):
            self.assertIn("data.loader=sequential", call)
        ran = self.drift("--arch", "fast_weights", drift=-8e-7)
        self.assertEqual((ran.returncode, ran.stderr),
                         (1, "loss.py: fast_weights loses -0.0128 nats from the first fifth "
                             "to the last, the bar is 0.01\n"))
        ran = self.drift("--arch", "fast_weights", drift=1.1e-6)
        self.assertIn("fast_weights loses 0.0110 nats in int8", ran.stderr)

    def test_a_loss_that_is_no_number(self):
        ran = self.drift("--arch", "fast_weights", drift=float("nan"))
        self.assertEqual(ran.returncode, 1)
        self.assertIn("a loss of runs/fast_weights_carried is not finite", ran.stderr)
        self.assertFalse((self.folder / "drift.svg").exists())


if __name__ == "__main__":
    unittest.main()
