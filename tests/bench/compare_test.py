# SPDX-License-Identifier: MIT
"""What bench/compare.py and bench/peers do with their programs, with a stand-in for each
program and package, so that none needs to be installed."""

import contextlib
import ctypes
import io
import json
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import compare  # noqa: E402
from peers import Missing, Task, checkpoint as checkpoints  # noqa: E402

CONFIG = {"architecture": "causal", "vocab": 10, "position_kind": "learned", "layers": 1,
          "tie_head": True, "embed_scale": False}
MODULES = ("torch", "torch.nn", "torch.nn.functional", "numpy", "safetensors",
           "safetensors.torch", "gguf", "llama_cpp", "ctranslate2")
STEP = {"fma_gflops": {"before": 100.0, "after": 110.0},
        "memory_gbytes": {"before": 20.0, "after": 30.0},
        "results": [{"decoder": "step/bf16/x/r1", "steady": True, "floor_us": {"floor": 20.0},
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
                      mock.patch.object(compare, "PEERS", (("fake", "a peer"),))):
            patch.start()
            self.addCleanup(patch.stop)

    def task(self, **changes):
        (self.folder / "config.json").write_text(json.dumps(CONFIG))
        return Task(checkpoints.read(self.folder), [3, 1, 2], **changes)

    def peer(self, module, **changes):
        return __import__(f"peers.{module}", fromlist=[module]).make(self.task(**changes), 2)

    def test_time_of_a_step_is_divided_by_the_sessions(self):
        for name in ("mnemon-bench", "mnemon-train"):
            (self.folder / name).write_text(BINARY)
            (self.folder / name).chmod(0o755)
        out = self.folder / "out.json"
        flags = ["--bin", self.folder, "--arch", "causal", "--size", "XS", "--batch", "4",
                 "--precision", "bf16", "--rounds", "2", "--json", out]
        with mock.patch.object(sys, "argv", ["compare.py", *map(str, flags)]), \
                contextlib.redirect_stdout(io.StringIO()) as table, \
                contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(compare.main(), 0)
        document = json.loads(out.read_text())
        mnemon, peer = document["results"]
        for row in (document, mnemon, peer):
            self.assertEqual((row["batch"], row["precision"]), (4, "bf16"))
        self.assertAlmostEqual(mnemon["us_per_token"]["median"], 250.0)
        self.assertAlmostEqual(peer["us_per_token"]["median"], 2.0)
        self.assertAlmostEqual(mnemon["floor_us"], 5.0)
        self.assertAlmostEqual(mnemon["floor_share"], 0.02)
        self.assertAlmostEqual(peer["times_mnemon"], 0.008)
        self.assertIn("| bf16 | XS | 4 | causal | mnemon, decoder step/bf16 |",
                      table.getvalue())
        calls = (self.folder / "calls").read_text().splitlines()
        for command, part in (("step", "--precision bf16"), ("step", "--batch 4"),
                              ("score", "--precision bf16")):
            self.assertEqual([call for call in calls
                              if call.startswith(command) and part not in call], [])

    def wrong(self, peer, **changes):
        self.modules["peers.fake"].make = lambda task, threads: peer
        peers, rows = compare.make_peers(self.task(**changes), Vector([1.0, 2.0]), [1])
        self.assertEqual(len(peers) + len(rows), 1)
        return bool(rows and rows[0]["wrong"])

    def test_logits_may_differ_more_in_bf16(self):
        for off, precision, wrong in ((1e-3, "fp32", False), (4e-3, "fp32", True),
                                      (5e-2, "bf16", False), (7e-2, "bf16", True)):
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
        (self.folder / "model.gguf").touch()  # else it is converted
        return self.peer("llama", **changes)

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

    def converted(self, precision, **config):
        """The type of the file and of each tensor."""
        from peers import llama

        gguf = self.modules["gguf"]
        gguf.GGUFWriter.reset_mock()
        gguf.quants.quantize.side_effect = lambda tensor, kind: f"{kind} values"
        gguf.GGMLQuantizationType.BF16 = "BF16"
        gguf.LlamaFileType.ALL_F32, gguf.LlamaFileType.MOSTLY_BF16 = "F32", "BF16"
        weights = mock.MagicMock()
        weights.__getitem__.return_value.contiguous.return_value.numpy.return_value = "F32 values"
        self.modules["torch"].cat.side_effect = lambda parts: parts[0]
        names = ("d_model", "d_ff", "heads", "positions")
        config = {**dict.fromkeys(names, 1), **CONFIG, **config}
        llama._convert(checkpoints.Checkpoint(self.folder, config, weights),
                       self.folder / "x.gguf", precision)
        kinds = {}
        for call in gguf.GGUFWriter.return_value.add_tensor.call_args_list:
            name, values = call.args
            kinds[name] = call.kwargs.get("raw_dtype", "F32")
            self.assertEqual(values, f"{kinds[name]} values", name)
        return gguf.GGUFWriter.return_value.add_file_type.call_args.args[0], kinds

    def test_llama_gets_its_matrices_in_bf16(self):
        matrices = {f"blk.0.{part}.weight"
                    for part in ("attn_qkv", "attn_output", "ffn_up", "ffn_down")}
        for tied, head in ((True, "token_embd.weight"), (False, "output.weight")):
            file, kinds = self.converted("bf16", tie_head=tied)
            self.assertEqual(file, "BF16")
            self.assertIn("position_embd.weight", kinds)
            self.assertEqual({name for name, kind in kinds.items() if kind == "BF16"},
                             matrices | {head})
        file, kinds = self.converted("fp32")
        self.assertEqual((file, set(kinds.values())), ("F32", {"F32"}))
        for precision, name in (("fp32", " F32"), ("bf16", " BF16")):
            with mock.patch("peers.llama._convert") as convert:
                self.assertTrue(self.peer("llama", precision=precision).name.endswith(name))
            self.assertEqual(convert.call_args.args[2], precision)

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
