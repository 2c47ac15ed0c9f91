# SPDX-License-Identifier: MIT
"""What bench/compare.py and bench/peers do with their programs, with a stand-in for each
program and package, so that none needs to be installed."""

import contextlib
import ctypes
import io
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import compare  # noqa: E402
from compare import PEERS  # noqa: E402  (tests replace that of the module)
from peers import Missing, Task, checkpoint as checkpoints  # noqa: E402
from peers import ctranslate, gguf_file, llama  # noqa: E402

CONFIG = {"architecture": "causal", "vocab": 10, "position_kind": "learned", "layers": 1,
          "tie_head": True, "embed_scale": False}
MODULES = ("torch", "torch.nn", "torch.nn.functional", "numpy", "safetensors",
           "safetensors.torch", "gguf", "llama_cpp", "ctranslate2")
STEP = {"fma_gflops": {"before": 100.0, "after": 110.0},
        "int8_gops": {"before": 300.0, "after": 310.0},
        "memory_gbytes": {"before": 20.0, "after": 30.0},
        "results": [{"decoder": "step/bf16/r1", "steady": True, "floor_us": {"floor": 20.0},
                     "step_us": {"q25": 900.0, "median": 1000.0, "q75": 1100.0}}]}
# Writes a checkpoint of CONFIG, or prints STEP, and notes how it was called.
BINARY = f"""#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
for last; do :; done
case "$1" in
  checkpoint) mkdir "$last"; echo '{json.dumps(CONFIG)}' > "$last/config.json";;
  step) echo '{json.dumps(STEP)}';;
esac
"""


class Vector(list):
    """As much of an array as a comparison needs."""

    def __sub__(self, other):
        return Vector(a - b for a, b in zip(self, other, strict=True))

    def __abs__(self):
        return Vector(map(abs, self))

    def max(self):
        return max(self, key=lambda x: (x != x, x))  # NaN first, as in an array


class Peer:
    """Has mnemon's logits [1, 2], but for `off`, and takes 8 us for a step."""

    name, threads = "peer", 1

    def __init__(self, off=0.0, batch=()):
        self.off = off
        self.batch = batch  # what each session is off in a batch

    def logits(self, tokens):
        return Vector([1.0, 2.0 + self.off])

    def batch_logits(self):
        return [Vector([1.0, 2.0 + off]) for off in self.batch]

    def round(self, seconds):
        return [8e-6]


class Llama:
    """The package llama_cpp: its logits are all that a sequence holds."""

    __version__ = "1"
    llama_token = ctypes.c_int32

    def __init__(self):
        self.now = 0.0
        self.copying = 0.0  # seconds that the next decode takes longer

    def __getattr__(self, name):
        return lambda *_: 1

    def llama_max_parallel_sequences(self):
        return 70

    def llama_context_default_params(self):
        return types.SimpleNamespace(kv_unified=True)

    def llama_init_from_model(self, model, params):
        self.params = params
        return 1

    def llama_batch_get_one(self, array, count):
        return [(0, len(self.held[0]) + i, array[i]) for i in range(count)]

    def llama_batch_init(self, tokens, embd, n_seq_max):
        return types.SimpleNamespace(
            **{key: [0] * tokens for key in ("token", "pos", "n_seq_id", "logits")},
            seq_id=[[0] for _ in range(tokens)])

    def llama_memory_clear(self, memory, data):
        self.held = [[] for _ in range(self.params.n_seq_max)]

    def llama_memory_seq_cp(self, memory, source, target, begin, end):
        self.held[target] = list(self.held[source])
        self.copying = 10.0

    def llama_memory_seq_rm(self, memory, sequence, begin, end):
        self.now += 100.0
        del self.held[sequence][begin:]

    def llama_decode(self, context, batch):
        self.now += 1.0 + self.copying
        self.copying = 0.0
        if not isinstance(batch, list):
            assert batch.n_tokens == len(batch.token) and all(batch.logits)
            batch = [(ids[0], pos, token) for ids, pos, token in
                     zip(batch.seq_id, batch.pos, batch.token)]
        rooms = len(self.held) if not self.params.kv_unified else 1
        for sequence, position, token in batch:
            assert position == len(self.held[sequence]) < self.params.n_ctx // rooms
            self.held[sequence].append(token)
        assert len(batch) <= self.params.n_batch == self.params.n_ubatch
        self.rows = [list(self.held[i]) for i in sorted({entry[0] for entry in batch})]
        return 0

    def llama_get_logits(self, context):
        return self.rows


class CompareTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mnemon-compare.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.modules = {name: mock.MagicMock() for name in MODULES}
        for name in MODULES:
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(self.modules[parent], child, self.modules[name])
        self.modules["llama_cpp"] = Llama()
        self.modules["ctranslate2"].__version__ = "1"
        self.modules["numpy"].ctypeslib.as_array = lambda rows, shape: rows[:shape[0]]
        self.modules["safetensors.torch"].load_file.return_value = {
            "logits": {(0, -1): types.SimpleNamespace(numpy=lambda: Vector([1.0, 2.0]))},
            "positions.weight": "positions"}
        self.modules["peers.fake"] = types.SimpleNamespace(make=lambda task, threads: Peer())
        for patch in (mock.patch.dict(sys.modules, self.modules),
                      mock.patch.object(compare, "PEERS", (("fake", "a peer", {}),))):
            patch.start()
            self.addCleanup(patch.stop)

    def task(self, **changes):
        (self.folder / "config.json").write_text(json.dumps(CONFIG))
        return Task(checkpoints.read(self.folder), [3, 1, 2], **changes)

    def peer(self, module, **changes):
        return __import__(f"peers.{module}", fromlist=[module]).make(self.task(**changes), 2)

    def compare(self, *flags):
        """The document, and what was printed."""
        for name in ("mnemon-bench", "mnemon-train"):
            (self.folder / name).write_text(BINARY)
            (self.folder / name).chmod(0o755)
        out = self.folder / "out.json"
        flags = ["--bin", self.folder, "--arch", "causal", "--size", "XS", "--batch", "4",
                 "--rounds", "2", "--json", out, *flags]
        with mock.patch.object(sys, "argv", ["compare.py", *map(str, flags)]), \
                contextlib.redirect_stdout(io.StringIO()) as table, \
                contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(compare.main(), 0)
        return json.loads(out.read_text()), table.getvalue()

    def test_time_of_a_step_is_divided_by_the_sessions(self):
        document, table = self.compare("--precision", "bf16")
        mnemon, peer = document["results"]
        for row in (document, mnemon, peer):
            self.assertEqual((row["batch"], row["precision"]), (4, "bf16"))
        self.assertAlmostEqual(mnemon["us_per_token"]["median"], 250.0)
        self.assertAlmostEqual(peer["us_per_token"]["median"], 2.0)
        self.assertAlmostEqual(mnemon["floor_us"], 5.0)
        self.assertAlmostEqual(mnemon["floor_share"], 0.02)
        self.assertAlmostEqual(peer["times_mnemon"], 0.008)
        self.assertIn("| bf16 | XS | 4 | causal | mnemon, decoder step | bf16 |", table)
        calls = (self.folder / "calls").read_text().splitlines()
        for command, part in (("step", "--precision bf16"), ("step", "--batch 4"),
                              ("score", "--precision bf16")):
            self.assertEqual([call for call in calls
                              if call.startswith(command) and part not in call], [])

    def test_every_format_has_a_row(self):
        made = []

        def make(task, threads):
            made.append((task.format, threads))
            if task.format == "Q3":
                raise Missing("has no such format")
            return Peer()

        self.modules["peers.fake"].make = make
        formats = {"int8": ["Q8", "Q3", "Q4"], "bf16": ["B"]}
        with mock.patch.object(compare, "PEERS", (("fake", "a peer", formats),
                                                  ("fake", "another", {}))):
            document, table = self.compare("--precision", "int8", "--threads", "2")
        self.assertEqual(made, [(stored, 2) for stored in ("Q8", "Q3", "Q4", "fp32")])
        rows = document["results"]
        self.assertEqual(
            [(row["program"], row["format"], "missing" in row) for row in rows],
            [("mnemon, decoder step", "int8", False), ("peer", "Q8", False),
             ("peer", "Q4", False), ("peer", "fp32", False), ("a peer", "Q3", True)])
        for row in rows[1:4]:
            self.assertAlmostEqual(row["times_mnemon"], 0.008)
            self.assertAlmostEqual(row["floor_share"], 2.5)
        self.assertEqual({row["precision"] for row in (document, *rows)}, {"int8"})
        self.assertEqual(document["int8_gops"], [300.0, 310.0] * 2)
        for part in ("| int8 | XS | 4 | causal | mnemon, decoder step | int8 | 2 |",
                     "| int8 | XS | 4 | causal | peer | Q4 | 1 | 2.0 | 2.0 to 2.0 | 5.0 | "
                     "2.5e+02% | 0.008 | - |",
                     "- a peer Q3, causal XS (batch 4, int8): has no such format.",
                     "300 to 310 Gop/s of int8"):
            self.assertIn(part, table)

    def test_formats_that_peers_know(self):
        formats = {module: {name for names in known.values() for name in names}
                   for module, _, known in PEERS}
        self.assertEqual(formats["llama"], set(gguf_file.FORMATS))
        self.assertEqual(formats["ctranslate"] | {"fp32"}, set(ctranslate.FORMATS))
        for module, _, known in PEERS:
            self.assertLessEqual(set(known), set(compare.tables.PRECISIONS), module)
        self.assertEqual(set(compare.TOLERANCE), set(compare.tables.PRECISIONS))

    def wrong(self, peer, **changes):
        self.modules["peers.fake"].make = lambda task, threads: peer
        peers, rows = compare.make_peers(self.task(**changes), Vector([1.0, 2.0]), [1])
        self.assertEqual(len(peers) + len(rows), 1)
        return bool(rows and rows[0]["wrong"])

    def test_logits_may_differ_more_in_fewer_bits(self):
        for off, precision, wrong in ((1e-3, "fp32", False), (4e-3, "fp32", True),
                                      (5e-2, "bf16", False), (7e-2, "bf16", True),
                                      (5e-2, "int8", False), (7e-2, "int8", True)):
            self.assertEqual(self.wrong(Peer(off), precision=precision), wrong, off)

    def test_sessions_of_a_batch_give_the_logits_of_one_alone(self):
        for batch, wrong in (((0.0, 0.0), False), ((0.0, 0.1), True), ((0.1, 0.1), True),
                             ((0.0, float("nan")), True)):
            self.assertEqual(self.wrong(Peer(batch=batch), batch=2), wrong, batch)

    def test_some_run_one_session_only(self):
        for module in ("eager", "reference"):
            with self.assertRaisesRegex(Missing, "^batch 1 only$"):
                self.peer(module, batch=2)

    def llama(self, **changes):
        (self.folder / "F32.gguf").touch()  # else it is converted
        return self.peer("llama", format="F32", **changes)

    def test_llama_steps_all_sequences_at_once(self):
        lib = self.modules["llama_cpp"]
        self.llama()
        room = lib.params.n_ctx
        peer = self.llama(batch=3)
        self.assertEqual((lib.params.n_seq_max, lib.params.kv_unified, lib.params.n_ctx),
                         (3, False, 3 * room))
        self.assertEqual(peer.batch_logits(), [[3, 1, 2, 3]] * 3)
        self.assertEqual(peer.logits([5, 6]), [5, 6])
        with mock.patch("time.perf_counter", lambda: lib.now):
            self.assertEqual(peer.round(0.5), [1.0])  # without the cut
        self.assertEqual(lib.held, [[3, 1, 2]] * 3)

    def test_llama_says_how_many_sequences_it_holds(self):
        self.assertEqual(len(self.llama(batch=70).batch_logits()), 70)
        with self.assertRaisesRegex(Missing, "70 sequences at most"):
            self.llama(batch=71)

    def with_gguf(self):
        """gguf, with values that say how they are stored."""
        gguf = self.modules["gguf"]
        gguf.GGMLQuantizationType = gguf.LlamaFileType = {
            name: name for pair in gguf_file.FORMATS.items() for name in pair}
        gguf.quants.quantize.side_effect = lambda values, kind: f"{kind} {values}"
        gguf.quants.dequantize.side_effect = lambda stored, kind: f"{stored} from {kind}"
        self.modules["torch"].cat.side_effect = lambda parts: parts[0]
        self.modules["torch"].from_numpy.side_effect = lambda values: values
        return gguf

    def converted(self, file_format, **config):
        """What the file calls itself, and the type of each tensor."""
        gguf = self.with_gguf()
        gguf.GGUFWriter.reset_mock()
        weights = mock.MagicMock()
        weights.__getitem__.return_value.contiguous.return_value.numpy.return_value = "values"
        names = ("d_model", "d_ff", "heads", "positions")
        config = {**dict.fromkeys(names, 1), **CONFIG, **config}
        gguf_file.write(checkpoints.Checkpoint(self.folder, config, weights),
                        self.folder / "x.gguf", file_format)
        kinds = {}
        for call in gguf.GGUFWriter.return_value.add_tensor.call_args_list:
            name, values = call.args
            kinds[name] = call.kwargs.get("raw_dtype", "plain")
            self.assertEqual(values, "values" if kinds[name] == "plain"
                             else f"{kinds[name]} values", name)
        return gguf.GGUFWriter.return_value.add_file_type.call_args.args[0], kinds

    def test_llama_gets_its_matrices_in_the_format(self):
        matrices = {f"blk.0.{part}.weight"
                    for part in ("attn_qkv", "attn_output", "ffn_up", "ffn_down")}
        for tied, head in ((True, "token_embd.weight"), (False, "output.weight")):
            for name, called in (("F32", "ALL_F32"), ("BF16", "MOSTLY_BF16"),
                                 ("Q8_0", "MOSTLY_Q8_0"), ("Q4_0", "MOSTLY_Q4_0")):
                file, kinds = self.converted(name, tie_head=tied)
                self.assertEqual(file, called)
                self.assertIn("position_embd.weight", kinds)
                self.assertEqual({tensor for tensor, kind in kinds.items() if kind == name},
                                 matrices | {head})
                self.assertEqual(set(kinds.values()), {name, "plain"})

    def test_llama_reads_a_file_of_its_format(self):
        loaded = []
        self.modules["llama_cpp"].llama_model_load_from_file = (
            lambda path, _: loaded.append(path) or 1)
        for name in ("Q8_0", "Q4_0"):
            with mock.patch.object(gguf_file, "write") as write:
                self.peer("llama", format=name)
            _, path, asked = write.call_args.args
            self.assertEqual((path, asked), (self.folder / f"{name}.gguf", name))
            self.assertEqual(loaded[-1], str(path).encode())

    def test_llama_is_held_against_the_weights_in_its_file(self):
        self.with_gguf()
        parts = ("attn.query", "attn.key", "attn.value", "attn.output", "ff.in", "ff.out")
        matrices = {f"layers.1.{part}.weight" for part in parts}
        others = {"positions.weight", "norm.weight", "layers.1.attn.norm.weight",
                  "layers.1.ff.norm.weight", "layers.1.ff.in.bias"}
        for head, other_head in (("embed.weight", "head.weight"),
                                 ("head.weight", "embed.weight")):
            weights = {name: mock.MagicMock() for name in (*matrices, *others, head, other_head)}
            for name, weight in weights.items():
                weight.contiguous.return_value.numpy.return_value = name
            config = {**CONFIG, "tie_head": head == "embed.weight"}
            checkpoint = checkpoints.Checkpoint(self.folder, config, weights)
            with mock.patch("peers.eager.Eager") as eager:
                llama.Llama.same_as(Task(checkpoint, [1], format="Q4_0"))
            self.assertEqual(
                eager.call_args.args[0].weights,
                {name: f"Q4_0 {name} from Q4_0" if name in matrices | {head} else weight
                 for name, weight in weights.items()})

    def test_ctranslate_runs_in_its_format(self):
        generator = self.modules["ctranslate2"].Generator
        for stored, quantization, compute in (("fp32", None, "float32"),
                                              ("int8", "int8", "int8")):
            with mock.patch("peers.ctranslate._convert") as convert, \
                    mock.patch.dict("os.environ"):
                self.peer("ctranslate", format=stored)
            self.assertEqual(convert.call_args.args[2], quantization)
            self.assertEqual(generator.call_args.kwargs["compute_type"], compute)
            self.assertEqual(generator.call_args.kwargs["intra_threads"], 2)

    def test_ctranslate_leaves_out_what_saturates(self):
        (self.folder / "ctranslate2").mkdir()
        for stored, flags, chosen in (("int8", "avx2", "1"), ("int8", "avx512_vnni", None),
                                      ("int8", "avx_vnni", None), ("fp32", "avx2", None)):
            (self.folder / "cpuinfo").write_text(f"flags : fpu {flags} avx\n")
            with mock.patch.dict("os.environ"), \
                    mock.patch.object(ctranslate, "CPU", self.folder / "cpuinfo"):
                os.environ.pop("CT2_USE_MKL", None)
                peer = self.peer("ctranslate", format=stored)
                self.assertEqual(os.environ.get("CT2_USE_MKL"), chosen, (stored, flags))
            self.assertEqual(peer.name, "CTranslate2 1" + " with MKL" * bool(chosen))

    def test_ctranslate_continues_all_prompts_at_once(self):
        (self.folder / "ctranslate2").mkdir()
        peer = self.peer("ctranslate", batch=3)
        now = [0.0]

        def generate(prompts, max_length, **_):
            self.assertEqual(prompts, [["3", "1", "2"]] * 3)
            now[0] += 50.0 + 7.0 * max_length

        peer.generator.generate_batch = generate
        with mock.patch("time.perf_counter", lambda: now[0]):
            self.assertEqual(peer.round(0.5), [7.0])


if __name__ == "__main__":
    unittest.main()
