#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What storing weights in bf16 and int8 costs a trained model, in nats per character.

Examples:
  bench/loss.py formats book.txt runs
  bench/loss.py formats book.txt runs --arch causal,feedback --seconds 60
  bench/loss.py drift book.txt runs drift.svg

formats: of every train/configs/*-small.toml, the loss over the end of TEXT, in the step
form, in fp32, bf16 and int8. Fails where bf16 loses 0.005 nats or int8 0.01.

drift: one session that is never reset reads the end of TEXT, in fp32 and int8; draws the
loss and the difference over the tokens. Fails where the mean difference is 0.01 nats or
more, or that of the last fifth is 0.01 away from that of the first: what int8 rounds away
would gather in a state. The models have memory carried from window to window in training,
so that a long session is nothing new to them: of fast_weights that is a run of its own.

TEXT is UTF-8; its last tenth is not trained on, and nothing else is measured. RUNS/NAME is
trained for --seconds on TEXT where it is not there yet; a run or checkpoint that is there
is measured as it is. Only autoregressive models: an encoder is evaluated in its sequence
form, which has no such formats.

Exit code: 0 done, 1 failed or a bar was missed, 2 usage.
"""

import argparse
import array
import json
import math
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

BENCH = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH))

import plot  # noqa: E402

CONFIGS = {path.name.removesuffix("-small.toml"): path
           for path in sorted((BENCH.parent / "train" / "configs").glob("*-small.toml"))}
# The runs and settings of those whose sessions have no end. Fast weights: many updates, and
# streams that are longer than the session, so that an old memory is nothing new.
ENDLESS = {
    "fast_weights": ("fast_weights_carried",
                     ["data.seq_len=64", "data.batch=8", "optimiser.lr=2e-3"]),
    "transformer_xl": ("transformer_xl", []),
}
BARS = {"bf16": 0.005, "int8": 0.01}
WINDOW = 2000  # tokens of a point of the curves
PARTS = 5      # of which drift compares the first with the last


def say(text):
    print(text, file=sys.stderr, flush=True)


def fail(text):
    sys.exit(f"loss.py: {text}")


def run(flags, *arguments):
    """What mnemon-train prints."""
    command = [str((flags.bin / "mnemon-train").absolute()), *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        said = ran.stderr.strip().splitlines()
        fail(said[-1] if said else f"{' '.join(command)} ended with {ran.returncode}")
    return ran.stdout


def trained(flags, architecture, name, *settings):
    """The checkpoint, made where it is not there."""
    out = flags.runs / name
    if not out.exists():
        say(f"training {out} for {flags.seconds} s")
        # Under its name only when it is done; one that was stopped goes on.
        part = flags.runs / f"{name}.part"
        run(flags, "fit", "--config", CONFIGS[architecture], "--out", part, "--resume",
            "--set", f"data.text={flags.text}", f"train.seconds={flags.seconds}",
            *settings)
        part.rename(out)
    return out


def updates(checkpoint):
    for path in (checkpoint / "best", checkpoint / "last", checkpoint):
        state = path / "training" / "state.json"
        if state.exists():
            return f"{json.loads(state.read_text())['steps']:,}"
    return "-"


def end_of_text(flags, characters):
    """The last characters of the text, all of them in the part that is not trained on."""
    try:
        text = flags.text.read_text(encoding="utf-8")
    except OSError as error:
        fail(f"{flags.text}: {error.strerror}")
    except UnicodeDecodeError:
        fail(f"{flags.text} is not UTF-8")
    if characters > len(text) // 10:
        fail(f"the last tenth of {flags.text} has {len(text) // 10:,} characters, not "
             f"{characters:,}: take a longer text or fewer")
    return text[-characters:]


def loss(flags, checkpoint, text, precision):
    out = run(flags, "eval", "--checkpoint", checkpoint, "--text", text, "--form", "step",
              "--precision", precision)
    found = re.search(r"^([0-9.]+) nats per character", out, re.MULTILINE)
    if found is None:
        fail(f"mnemon-train eval gives no loss of {checkpoint} in {precision}: {out.strip()}")
    return float(found[1])


def formats(flags):
    text = end_of_text(flags, flags.characters)
    missed = []
    print("| model | updates | fp32 | bf16 | int8 |\n|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="mnemon-loss.") as folder:
        end = pathlib.Path(folder) / "end.txt"
        end.write_text(text, encoding="utf-8")
        for architecture in flags.arch:
            checkpoint = trained(flags, architecture, architecture)
            wide = loss(flags, checkpoint, end, "fp32")
            row = f"| `{architecture}` | {updates(checkpoint)} | {wide:.4f} |"
            for precision, bar in BARS.items():
                lost = round(loss(flags, checkpoint, end, precision) - wide, 4)
                row += f" {lost:+.4f} |"
                if lost >= bar:
                    missed.append(f"{architecture} loses {lost:.4f} nats in {precision}, "
                                  f"the bar is {bar}")
            print(row, flush=True)
    return missed


def token_ids(checkpoint, text):
    """As model/text has them: docs/checkpoint_format.md."""
    for path in (checkpoint / "best", checkpoint / "last", checkpoint):
        if (path / "tokenizer.json").exists():
            model = json.loads((path / "tokenizer.json").read_text())["model"]
            if model["type"] == "Byte":
                return list(text.encode())
            unknown = set(text) - set(model["vocab"])
            if unknown:
                fail(f"{checkpoint} knows no {sorted(unknown)}")
            return [model["vocab"][character] for character in text]
    fail(f"{checkpoint} has no tokenizer.json")


def write_tokens(path, tokens):
    data = array.array("q", tokens).tobytes()
    head = json.dumps({"tokens": {"dtype": "I64", "shape": [1, len(tokens)],
                                  "data_offsets": [0, len(data)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + data)


def read_logits(path):
    """A row of logits after the other."""
    data = path.read_bytes()
    size = struct.unpack_from("<Q", data)[0]
    info = json.loads(data[8:8 + size])["logits"]
    begin, end = (8 + size + offset for offset in info["data_offsets"])
    floats = array.array("f", data[begin:end])
    wide = info["shape"][-1]
    return (floats[i:i + wide] for i in range(0, len(floats), wide))


def window_losses(logits, targets):
    """Means over WINDOW tokens each."""
    losses, total = [], 0.0
    for i, (row, target) in enumerate(zip(logits, targets), start=1):
        most = max(row)
        total += most - row[target] + math.log(sum(math.exp(x - most) for x in row))
        if i % WINDOW == 0:
            losses.append(total / WINDOW)
            total = 0.0
    return losses


def mean(numbers):
    return sum(numbers) / len(numbers)


def measure_drift(flags, architecture, text, folder):
    """Losses in fp32, and what int8 adds, window by window."""
    name, settings = ENDLESS[architecture]
    checkpoint = trained(flags, architecture, name, "data.loader=sequential", *settings)
    tokens = token_ids(checkpoint, text)[:flags.tokens + 1]
    write_tokens(folder / "tokens", tokens[:-1])
    found = []
    for precision in ("fp32", "int8"):
        run(flags, "score", "--checkpoint", checkpoint, "--tokens", folder / "tokens", "--out",
            folder / "logits", "--form", "step", "--precision", precision)
        found.append(window_losses(read_logits(folder / "logits"), tokens[1:]))
    if not all(map(math.isfinite, found[0] + found[1])):
        fail(f"a loss of {checkpoint} is not finite")
    return checkpoint, *found, [narrow - wide for wide, narrow in zip(*found)]


def drift(flags):
    text = end_of_text(flags, flags.tokens + 1)
    missed, losses, differences = [], [], []
    print("| model | updates | fp32 | int8 | first fifth | last fifth | largest window |\n"
          "|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory(prefix="mnemon-loss.") as folder:
        for architecture in flags.arch:
            checkpoint, wide, narrow, added = measure_drift(
                flags, architecture, text, pathlib.Path(folder))
            part = len(added) // PARTS
            lost, first, last = mean(added), mean(added[:part]), mean(added[-part:])
            print(f"| `{architecture}` | {updates(checkpoint)} | {mean(wide):.4f} | "
                  f"{lost:+.5f} | {first:+.5f} | {last:+.5f} | {max(added, key=abs):+.5f} |",
                  flush=True)
            bar = BARS["int8"]
            if lost >= bar:
                missed.append(f"{architecture} loses {lost:.4f} nats in int8, the bar is {bar}")
            if abs(last - first) >= bar:
                missed.append(f"{architecture} loses {last - first:+.4f} nats from the first "
                              f"fifth to the last, the bar is {bar}")
            at = [WINDOW * (i + 1) for i in range(len(added))]
            losses += [(f"{architecture} {name}", list(zip(at, points)))
                       for name, points in (("fp32", wide), ("int8", narrow))]
            differences.append((architecture, list(zip(at, added))))
    x_text = "tokens that one session has read"
    flags.svg.write_text(plot.stack([
        plot.draw(losses, f"Nats per token, means over {WINDOW:,}", x_text,
                  lambda y: f"{y:.2f}", log_x=False),
        plot.draw(differences, "int8 - fp32, nats per token", x_text,
                  lambda y: f"{y:+.4f}", log_x=False)]))
    return missed


def architectures(known):
    def parse(text):
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"'{name}' is not one of {','.join(known)}")
        return names

    return parse


def number(least, unit=1):
    def parse(text):
        if not text.isascii() or not text.isdigit() or int(text) < least or int(text) % unit:
            raise argparse.ArgumentTypeError(
                f"'{text}' is not a number from {least:,}" + (f", a multiple of {unit:,}"
                                                               if unit > 1 else ""))
        return int(text)

    return parse


def parse_flags():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for command, known in ((formats, list(CONFIGS)), (drift, list(ENDLESS))):
        sub = commands.add_parser(command.__name__)
        sub.set_defaults(measure=command)
        sub.add_argument("text", type=pathlib.Path, help="text to train on and to predict")
        sub.add_argument("runs", type=pathlib.Path, help="directory of the runs")
        if command is drift:
            sub.add_argument("svg", type=pathlib.Path, help="file to write")
            sub.add_argument("--tokens", type=number(PARTS * WINDOW, WINDOW), default=100_000,
                             help="(default: 100000)")
        else:
            sub.add_argument("--characters", type=number(2), default=40_000,
                             help="of the end of the text (default: 40000)")
        sub.add_argument("--arch", type=architectures(known), default=known,
                         help=f"some of {','.join(known)} (default: all)")
        sub.add_argument("--seconds", type=number(1), default=180,
                         help="to train each (default: 180)")
        sub.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"),
                         help="folder of mnemon-train (default: build/release/bin)")
    flags = parser.parse_args()
    if not (flags.bin / "mnemon-train").is_file():
        parser.error(f"argument --bin: no mnemon-train in {flags.bin}: build it first")
    return flags


def main():
    flags = parse_flags()
    missed = flags.measure(flags)
    for text in missed:
        say(f"loss.py: {text}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
