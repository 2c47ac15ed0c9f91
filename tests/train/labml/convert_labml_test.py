# SPDX-License-Identifier: MIT
"""scripts/convert-labml, and the way from a .pt file to a served model.

    convert_labml_test.py REPOSITORY mnemon-train [mnemon-server mnemon]

Without the last two nothing is served.
"""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import pickle
import random
import re
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

import torch_file as tf

REPOSITORY = pathlib.Path(sys.argv[1])
TRAIN, SERVER, CLIENT = (sys.argv[2:5] + [None, None])[:3]
GOLDEN = REPOSITORY / "tests/golden/data"
# Written by torch 2.11.0 from a model of labml-nn 0.5.1.
OF_TORCH = REPOSITORY / "tests/train/labml/fast_weights.pt"

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader(
    "convert_labml", str(REPOSITORY / "scripts/convert-labml"))
converter = importlib.util.module_from_spec(
    importlib.util.spec_from_loader("convert_labml", loader))
loader.exec_module(converter)

# Golden model -> flags for what its weights do not tell.
MODELS = {
    "feedback_000": [],
    "feedback_002": [],
    "feedback_kv": [],
    "fast_weights_nu3": ["--nu", "3"],
    "xl_truncated": ["--mem-len", "6"],
    "transformer": ["--heads", "2"],
    "encoder": ["--heads", "2"],
}


def golden_state(name):
    return tf.read_safetensors(GOLDEN / name / "weights.safetensors")


class Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mnemon-labml.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.pt = self.folder / "model.pt"
        self.out = self.folder / "out"

    def convert(self, *flags, checkpoint=None):
        """Exit code and what is said."""
        arguments = [str(checkpoint or self.pt), "--out", str(self.out), *flags]
        said = io.StringIO()
        before, sys.argv = sys.argv, ["convert-labml", *arguments]
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                converter.main()
            return 0, said.getvalue()
        except SystemExit as end:
            if isinstance(end.code, str):
                return 1, said.getvalue() + end.code
            return end.code, said.getvalue()
        finally:
            sys.argv = before

    def converted(self, *flags, checkpoint=None):
        code, said = self.convert(*flags, checkpoint=checkpoint)
        self.assertEqual(code, 0, said)
        return (json.loads((self.out / "config.json").read_text()),
                tf.read_safetensors(self.out / "weights.safetensors"))

    def refused(self, *parts, flags=(), code=1, checkpoint=None):
        got, said = self.convert(*flags, checkpoint=checkpoint)
        self.assertEqual(got, code, said)
        for part in parts:
            self.assertIn(part, said)
        self.assertFalse((self.out / "weights.safetensors").exists())
        self.assertFalse((self.out / "config.json").exists())

    def imported(self, *flags):
        done = subprocess.run(
            [TRAIN, "import", "--from", "labml", "--config", self.out / "config.json",
             "--weights", self.out / "weights.safetensors",
             "--out", self.out / "checkpoint", *flags],
            capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)


class Models(Test):
    def test_every_architecture(self):
        for name, flags in MODELS.items():
            with self.subTest(name):
                self.out = self.folder / name
                tf.write_state(self.pt, golden_state(name))
                config, weights = self.converted(*flags)
                self.assertEqual(weights, golden_state(name))
                wanted = json.loads((GOLDEN / name / "config.json").read_text())
                for key in ("architecture", "d_model", "heads", "layers", "ff", "vocab",
                            "nu", "mem_len"):
                    self.assertEqual(config.get(key), wanted.get(key), key)
                self.imported()

    def test_a_file_of_torch(self):
        config, weights = self.converted("--nu", "1", checkpoint=OF_TORCH)
        self.assertEqual(
            config, {"format": "labml", "architecture": "fast_weights", "d_model": 4,
                     "heads": 2, "layers": 1, "ff": 6, "vocab": 5, "nu": 1, "dropout": 0})
        self.assertEqual(weights["generator.weight"][0], [5, 4])
        for k, (shape, data) in enumerate(weights.values()):
            count = len(data) // 4
            self.assertEqual(struct.unpack(f"<{count}f", data), tuple(
                ((j * 7 + k * 31) % 64 - 32) / 64 for j in range(count)))
        self.imported()

    def test_the_command_itself(self):
        done = subprocess.run(
            [REPOSITORY / "scripts/convert-labml", OF_TORCH, "--nu", "1", "--out", self.out],
            capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"next: mnemon-train import --from labml --config {self.out}", done.stdout)
        done = subprocess.run(
            [REPOSITORY / "scripts/convert-labml", OF_TORCH, "--nu", "1", "--out", self.out],
            capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 1)
        self.assertIn("config.json exists", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_a_folder_of_labml(self):
        step = self.folder / "checkpoints" / "40000"
        step.mkdir(parents=True)
        tf.write_state(step / "model.pth", golden_state("feedback_002"))
        (step / "info.json").write_text('{"model": "model.pth", "other": "other.pth"}')
        _, weights = self.converted(checkpoint=step)
        self.assertEqual(weights, golden_state("feedback_002"))
        self.out = self.folder / "again"
        self.refused("other.pth is no file", flags=["--model", "other"], checkpoint=step)
        self.refused("'x'", "'model', 'other'", flags=["--model", "x"], checkpoint=step)
        self.refused("without info.json", checkpoint=step.parent)
        for info, part in (('{"model": "../model.pth"}', "not in its folder"),
                           ('{"model": ".."}', "not in its folder"),
                           ('{"model": {"a": "model_a.npy"}}', ".npy"),
                           ("[]", "names no models"), ("{", "damaged"),
                           ("[" * 100000, "nested")):
            (step / "info.json").write_text(info)
            self.refused(part, checkpoint=step)

    def test_a_state_dict_among_others(self):
        state = golden_state("feedback_kv")
        items = [(key, tf.tensor(tf.storage(key, len(data) // 4), shape))
                 for key, (shape, data) in state.items()]
        tf.write(self.pt, tf.dictionary([("epoch", tf.whole(3)),
                                         ("best", tf.dictionary(items)),
                                         ("last", tf.dictionary(items))]),
                 {key: data for key, (_, data) in state.items()})
        self.refused("'model'", "--model: 'best', 'last'")
        self.assertEqual(self.converted("--model", "best")[1], state)

    def test_wrappers_are_taken_away(self):
        state = golden_state("feedback_kv")
        tf.write_state(self.pt, {f"module._orig_mod.{key}": value
                                 for key, value in state.items()})
        self.assertEqual(self.converted()[1], state)

    def test_numbers_become_float32(self):
        state = golden_state("feedback_kv")
        for kind, code, item in (("torch DoubleStorage", "d", 8), ("torch HalfStorage", "e", 2),
                                 ("torch BFloat16Storage", None, 2)):
            with self.subTest(kind):
                self.out = self.folder / kind
                narrow, wanted = {}, {}
                for key, (shape, data) in state.items():
                    values = struct.unpack(f"<{len(data) // 4}f", data)
                    if code is None:
                        raw = b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))
                        wide = b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2))
                    else:
                        raw = struct.pack(f"<{len(values)}{code}", *values)
                        wide = struct.pack(f"<{len(values)}f",
                                           *struct.unpack(f"<{len(values)}{code}", raw))
                    narrow[key], wanted[key] = (shape, raw), (shape, wide)
                tf.write_state(self.pt, narrow, kind, item)
                self.assertEqual(self.converted()[1], wanted)
        self.out = self.folder / "too large"
        state["generator.bias"] = ([17], struct.pack("<17d", *[1e300] * 17))
        items = [(key, tf.tensor(tf.storage(
            key, 17, "torch DoubleStorage") if key == "generator.bias" else
            tf.storage(key, len(data) // 4), shape)) for key, (shape, data) in state.items()]
        tf.write(self.pt, tf.dictionary(items), {k: data for k, (_, data) in state.items()})
        self.refused("generator.bias")

    def test_views_are_laid_out(self):
        state = golden_state("feedback_kv")
        wanted = dict(state)
        shape, data = state["src_embed.weight"]
        rows, columns = shape
        numbers = [data[i:i + 4] for i in range(0, len(data), 4)]
        transposed = b"".join(numbers[r * columns + c]
                              for c in range(columns) for r in range(rows))
        items = [("src_embed.weight", tf.tensor(tf.storage("t", rows * columns + 3), shape,
                                                [1, rows], offset=3))]
        storages = {"t": b"\xff" * 12 + transposed}
        for key, (shape, data) in state.items():
            if key != "src_embed.weight":
                items.append((key, tf.tensor(tf.storage(key, len(data) // 4), shape)))
                storages[key] = data
        tf.write(self.pt, tf.dictionary(items), storages)
        self.assertEqual(self.converted()[1], wanted)


class Faults(Test):
    def test_flags_for_what_weights_do_not_tell(self):
        for name, flag in (("transformer", "--heads"), ("encoder", "--heads"),
                           ("xl_carry", "--mem-len"), ("fast_weights_nu1", "--nu")):
            tf.write_state(self.pt, golden_state(name))
            self.refused("give " + flag, code=2)
        self.refused("'0' is no whole number", flags=["--nu", "0"], code=2)
        tf.write_state(self.pt, golden_state("feedback_002"))
        self.refused("no use for --mem-len, --nu", flags=["--mem-len", "3", "--nu", "1"], code=2)
        self.refused("no use for --mask", flags=["--mask", "causal"], code=2)
        self.refused("--heads 4: the weights have 2", flags=["--heads", "4"])
        self.refused("--dropout", flags=["--dropout", "1"], code=2)
        tf.write_state(self.pt, golden_state("encoder"))
        config, _ = self.converted("--heads", "2", "--mask", "causal", "--dropout", "0.1")
        self.assertEqual((config["mask"], config["dropout"]), ("causal", 0.1))

    def test_keys_that_are_missing_are_named_together(self):
        state = golden_state("feedback_002")
        del state["src_embed.weight"], state["transformer.layers.0.feed_forward.layer1.weight"]
        tf.write_state(self.pt, state)
        self.refused("as feedback", "'src_embed.weight'", "'transformer.layers.0.feed_forward")
        tf.write_state(self.pt, {"a.weight": ([1], b"1234")})
        self.refused("no architecture", "'a.weight'", "docs/labml.md")

    def test_import_names_all_others(self):
        state = golden_state("feedback_002")
        state["extra.weight"] = state.pop("generator.bias")
        tf.write_state(self.pt, state)
        self.converted()
        with self.assertRaises(AssertionError) as caught:
            self.imported()
        for part in ("'generator.bias' is missing", "'extra.weight' is not expected"):
            self.assertIn(part, str(caught.exception))

    def test_files_that_are_none(self):
        self.refused("model.pt is no file")
        os.mkfifo(self.pt)
        self.refused("is no file")
        self.pt.unlink()
        self.pt.write_bytes(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.")
        self.refused("since version 1.6")
        with zipfile.ZipFile(self.pt, "w") as archive:
            archive.writestr("x", "")
        self.refused("no data.pkl")
        tf.write(self.pt, tf.whole(3), {})
        self.refused("no state_dict")
        state = golden_state("feedback_kv")
        tf.write(self.pt, tf.NONE, {}, byteorder=b"big")
        self.refused("little-endian")
        tf.write(self.pt, tf.dictionary([("a", tf.tensor(tf.storage("a", 1 << 20), [1 << 20]))]),
                 {"a": bytes(4 << 20)}, compression=zipfile.ZIP_DEFLATED)
        self.refused("compressed")
        items = [(key, tf.tensor(tf.storage(key, len(data) // 4), shape))
                 for key, (shape, data) in state.items()]
        storages = {key: data for key, (_, data) in state.items()}
        tf.write(self.pt, tf.dictionary(items), {**storages, "generator.bias": b"1234"})
        self.refused("'generator.bias'", "has 4 bytes, expected 68")
        del storages["generator.bias"]
        tf.write(self.pt, tf.dictionary(items), storages)
        self.refused("part 'data/generator.bias' is missing")


class Hostile(Test):
    """Nothing is run, and nothing is larger than the file."""

    def test_no_pickle_is_run(self):
        marker = self.folder / "marker"
        command = f"touch {marker}"

        class Evil:
            def __reduce__(self):
                return os.system, (command,)

        pickles = [pickle.dumps({"a": Evil()}, protocol) for protocol in range(6)]
        line = command.encode()
        pickles += [
            b"\x80\x02cos\nsystem\n(U" + bytes([len(line)]) + line + b"tR.",
            b"(S'" + line + b"'\nios\nsystem\n.",
            b"(cos\nsystem\nS'" + line + b"'\no.",
            b"\x80\x02ccollections\nOrderedDict\n(cos\nsystem\ntR.",
            b"\x80\x02ctorch._utils\n_rebuild_parameter\n(cos\nsystem\n\x89}tR.",
            b"\x80\x02cos\nsystem\n}X\x01\x00\x00\x00aX\x01\x00\x00\x00bsb.",
            b"\x80\x02\x82\x01.",
            b"\x80\x02cbuiltins\neval\n" + tf.text("1") + b"\x85R.",
        ]
        for data in pickles:
            with zipfile.ZipFile(self.pt, "w") as archive:
                archive.writestr("model/data.pkl", data)
            self.refused()
            self.assertFalse(marker.exists(), data)
        self.refused("'builtins.eval'", "not run")
        # What would run it, to show that the marker tells.
        pickle.loads(pickles[0])
        self.assertTrue(marker.exists())

    def test_pickles_are_bounded(self):
        def refused(data, part=""):
            with zipfile.ZipFile(self.pt, "w") as archive:
                archive.writestr("model/data.pkl", data)
            self.refused(part)

        begin = time.process_time()
        refused(b"\x80\x02}r\xff\xff\xff\x7f.", "no state_dict")  # slot 2^31 - 1 of the memo
        refused(b"\x80\x02" + b"N" * 1_000_001, "operations")
        refused(b"\x80\x02X\xff\xff\xff\x7fabc.", "damaged")
        refused(b"\x80\x04\x8d" + b"\xff" * 7 + b"\x7fabc.", "damaged")
        refused(b"\x80\x02\x8b\xff\xff\xff\x7f.", "damaged")
        refused(b"\x80\x02.", "damaged")
        refused(b"\x80\x02t.", "damaged")
        refused(b"\x80\x02h\x05.", "damaged")
        refused(b"\x80\x02}" + b"(" * 10 + b"u.", "")
        refused(b"\x80\x02" + b"(" * 100000 + b"t" * 100000 + b".", "no state_dict")
        refused(b"\x80\x02}(" + b"(t" + b"Nu.", "no texts")
        # A list of itself, doubled 60 times.
        refused(b"\x80\x02]q\x00" + b"(h\x00h\x00e" * 60 + b".", "no state_dict")
        self.assertLess(time.process_time() - begin, 300)

    def test_tensors_are_inside_their_storage(self):
        def refused(value, part, storages=None):
            tf.write(self.pt, tf.dictionary([("transformer.weights", value)]),
                     storages or {"a": bytes(16)})
            self.refused(part)

        four = tf.storage("a", 4)
        refused(tf.tensor(four, [5]), "does not fit")
        refused(tf.tensor(four, [4], offset=1), "does not fit")
        refused(tf.tensor(four, [2, 2], [3, 1]), "does not fit")
        refused(tf.tensor(four, [1 << 30, 1 << 30], [0, 0]), "does not fit")
        refused(tf.tensor(four, [4], offset=-1), "wrongly")
        refused(tf.tensor(four, [-1]), "wrongly")
        refused(tf.tensor(four, [2, 2], [1]), "wrongly")
        refused(tf.tensor(four, [1] * 65), "wrongly")
        refused(tf.tensor(tf.NONE, [1]), "wrongly")
        refused(tf.tensor(tf.storage("a", -1), [1]), "wrongly")
        refused(tf.tensor(tf.storage("a", 4, "torch QInt8Storage"), [1]), "QInt8Storage")
        refused(tf.tensor(tf.storage("a", 4, "os FloatStorage"), [1]), "os.FloatStorage")
        refused(tf.tensor(tf.text("a") + b"Q", [1]), "no storage")

    def test_views_read_no_more_than_the_file_twice(self):
        state = {f"x{i}": tf.tensor(tf.storage("a", 1 << 16), [1]) for i in range(50)}
        tf.write(self.pt, tf.dictionary(list(state.items())), {"a": bytes(4 << 16)})
        self.refused("views of the same numbers")

    def test_damaged_files(self):
        whole = OF_TORCH.read_bytes()
        draw = random.Random(1)
        outcomes = set()
        for i in range(400):
            data = bytearray(whole)
            if i % 4 == 0:
                del data[draw.randrange(len(data)):]
            else:
                # The pickle's bytes are most of the first half.
                for _ in range(draw.randrange(1, 4)):
                    data[draw.randrange(len(data) if i % 2 else 3400)] = draw.randrange(256)
            self.pt.write_bytes(data)
            code, said = self.convert("--nu", "1")
            self.assertIn(code, (0, 1), said)
            outcomes.add(code)
            for file in self.out.glob("*"):
                file.unlink()
        self.assertEqual(outcomes, {0, 1})


class ServedModel(Test):
    """The commands of docs/labml.md, word by word."""

    def test_the_page(self):
        if SERVER is None:
            self.skipTest("built without the server")
        page = (REPOSITORY / "docs/labml.md").read_text()
        block = re.search(r"```\n(scripts/convert-labml .*?)```", page, re.DOTALL)[1]
        commands = block.replace("\\\n", " ").splitlines()
        self.assertEqual(len(commands), 5)

        step = self.folder / "logs/feedback_transformer/RUN/checkpoints/40000"
        step.mkdir(parents=True)
        tf.write_state(step / "model.pth", golden_state("feedback_002"))
        (step / "info.json").write_text('{"model": "model.pth"}')
        (self.folder / "tiny_shakespeare.txt").write_text("It is\nabcdefghklm\n")
        (self.folder / "scripts").symlink_to(REPOSITORY / "scripts")
        port = self.folder / "port"
        environment = {
            **os.environ,
            "PATH": f"{pathlib.Path(TRAIN).parent}:{os.environ['PATH']}",
            "MNEMON_SERVER_LISTEN": "127.0.0.1:0",
            "MNEMON_SERVER_PORT_FILE": str(port),
            "MNEMON_SERVER_HTTP": "off",
            "MNEMON_SERVER_SESSIONS": "2",
            "MNEMON_SERVER_RUNNING": "2",
        }
        outputs = []
        for command in commands:
            if command.endswith(" &"):
                server = subprocess.Popen(command[:-2].split(), cwd=self.folder,
                                          env=environment, stderr=subprocess.DEVNULL)
                self.addCleanup(server.wait, timeout=600)
                self.addCleanup(server.terminate)
                for _ in range(12000):
                    if port.exists() and port.read_text().strip():
                        break
                    time.sleep(0.05)
                environment["MNEMON_SERVER"] = f"127.0.0.1:{port.read_text().strip()}"
                continue
            done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=environment,
                                  capture_output=True, text=True, timeout=600)
            self.assertEqual(done.returncode, 0, command + "\n" + done.stderr)
            outputs.append(done.stdout)
        self.assertIn("17 characters", outputs[1])
        sampled, served = outputs[2].rstrip("\n"), outputs[3].rstrip("\n")
        self.assertGreater(len(sampled), 20)
        self.assertLessEqual(set(sampled), set("It is\nabcdefghklm"))
        self.assertIn(sampled, served)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
