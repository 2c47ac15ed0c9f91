# SPDX-License-Identifier: MIT
"""Models of labml_nn, saved by labml, give the same logits after convert-labml and import,
and its vocabulary of characters is that of --chars.

    labml_reference_test.py REPOSITORY mnemon-train

Needs a Python with torch, labml and labml-nn, as bench/requirements.txt describes:
MNEMON_LABML_PYTHON names it, otherwise it is the Python that runs this.
"""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import types
import unittest

PYTHON = os.environ.pop("MNEMON_LABML_PYTHON", "")
if PYTHON:
    os.execv(PYTHON, [PYTHON, "-B", *sys.argv])
try:
    import torch
    from labml.internal.experiment import CheckpointSaver
    from labml.internal.experiment.pytorch import PyTorchModelSaver
    from labml_nn.experiments.nlp_autoregression import character_tokenizer
    from labml_nn.helpers.datasets import TextFileDataset
except ImportError as error:
    print(f"SKIPPED: {error}; set MNEMON_LABML_PYTHON to a Python with labml-nn, "
          "see bench/requirements.txt")
    sys.exit(77)

import torch_file

REPOSITORY, TRAIN = sys.argv[1:3]
sys.path.insert(0, f"{REPOSITORY}/bench")
from peers import reference  # noqa: E402

VOCAB, TOKENS = 13, 12
# Name -> architecture, whether keys and values are shared, and flags of the converter.
MODELS = {
    "feedback": ("feedback", False, []),
    "feedback_kv": ("feedback", True, []),
    "fast_weights": ("fast_weights", False, ["--nu", "2"]),
    "transformer_xl": ("transformer_xl", False, ["--mem-len", "32"]),
    "transformer": ("causal", False, ["--heads", "2"]),
}


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


class ReferenceTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mnemon-labml.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        torch.manual_seed(1)

    def model(self, kind, shared):
        config = {"d_model": 16, "heads": 2, "layers": 2, "vocab": VOCAB, "d_ff": 24, "nu": 2,
                  "architecture": kind, "position_kind": "sinusoidal", "embed_scale": True}
        model = reference.build(types.SimpleNamespace(config=config, shared=shared))
        with torch.no_grad():
            # All of them differ, and no table is zero.
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.2)
        return model.eval()

    def saved(self, model):
        """labml's folder of step 40000."""
        saver = CheckpointSaver(self.folder / "checkpoints")
        saver.model_savers = {"model": PyTorchModelSaver("model", model)}
        saver.save(40000)
        return self.folder / "checkpoints/40000"

    def import_(self, step, flags, *more):
        run(f"{REPOSITORY}/scripts/convert-labml", step, "--out", self.folder / "converted",
            *flags)
        run(TRAIN, "import", "--from", "labml", "--config", self.folder / "converted/config.json",
            "--weights", self.folder / "converted/weights.safetensors",
            "--out", self.folder / "imported", *more)
        return self.folder / "imported"

    def logits(self, checkpoint, ids):
        data = struct.pack(f"<{len(ids)}q", *ids)
        header = json.dumps({"tokens": {"dtype": "I64", "shape": [1, len(ids)],
                                        "data_offsets": [0, len(data)]}}).encode()
        header += b" " * (-len(header) % 8)
        tokens, out = self.folder / "tokens.safetensors", self.folder / "out.safetensors"
        tokens.write_bytes(struct.pack("<Q", len(header)) + header + data)
        run(TRAIN, "score", "--checkpoint", checkpoint, "--tokens", tokens, "--out", out,
            "--threads", "1")
        shape, data = torch_file.read_safetensors(out)["logits"]
        return torch.tensor(struct.unpack(f"<{len(data) // 4}f", data)).view(shape)[0]

    def test_logits(self):
        ids = [(i * i + 3) % VOCAB for i in range(TOKENS)]
        for name, (kind, shared, flags) in MODELS.items():
            with self.subTest(name):
                self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
                model = self.model(kind, shared)
                with torch.no_grad():
                    x = torch.tensor(ids).unsqueeze(-1)
                    if kind == "transformer_xl":
                        mask = torch.tril(torch.ones(TOKENS, TOKENS, dtype=torch.bool))
                        x, _ = model.transformer(model.src_embed(x), [], mask.unsqueeze(-1))
                        wanted = model.generator(x)
                    else:
                        wanted, *_ = model(x)
                got = self.logits(self.import_(self.saved(model), flags), ids)
                self.assertLess((got - wanted[:, 0]).abs().max().item(), 1e-4)
                self.assertGreater(wanted.std().item(), 0.1)

    def test_characters(self):
        text = self.folder / "text.txt"
        text.write_bytes("zebra\r\nÄpfel\r kbt\n".encode() * 20)
        data = TextFileDataset(text, character_tokenizer)
        self.assertEqual(data.n_tokens, VOCAB)
        model = self.model("fast_weights", False)
        checkpoint = self.import_(self.saved(model), ["--nu", "2"], "--chars", text)
        tokenizer = json.loads((checkpoint / "tokenizer.json").read_text())
        self.assertEqual(tokenizer["model"]["vocab"], data.stoi)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
