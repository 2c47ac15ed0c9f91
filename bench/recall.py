#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What models of the task recall still know, asked through a server: digits of letters are
told ("7A 3B"), prose follows, then the digits are asked for ("?A"), greedily.

Examples:
  bench/recall.py --server 127.0.0.1:50051 --text book.txt
  bench/recall.py --text book.txt --distance 100,300,1000,3000,10000 --svg recall.svg
  bench/recall.py --text book.txt --example

The model MEMORY is told all of it on a session, call after call. WINDOW gets as many of the
newest characters as its context holds, which is what a model without a memory can be given.
Needs the Python client (client/python). Facts, letters and places in the prose are drawn anew from --seed.

--example asks first for all that the example of docs/memory_demo.md tells: after its
sentence, without a session, and after the end of the text, on a session.

Exit code: 0 memory knows 95 of 100 or more at every distance, the window does where the
facts lie in it, and guesses, at most 25 of 100, where they do not, and the answers of the
example are right; 1 failed, or not so; 2 usage.
"""

import argparse
import concurrent.futures
import pathlib
import random
import string
import sys

import mnemon

import plot

# The example of docs/memory_demo.md.
EXAMPLE = "7A 2B 9C 4D 1E"
SENTENCE = "the river and what the old man said"
EXAMPLE_DISTANCE = 3000

FACTS = 5  # told and asked in each session
PIECE = 1000  # characters in a call
LEAST = 0.95  # of the answers
GUESSED = 0.25  # at most: 10 % by chance
THREADS = 16
# Capitals and digits are what facts are made of.
KNOWN = set(string.ascii_lowercase + " ,.")


def parse_flags():
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="127.0.0.1:50051", help="(default: 127.0.0.1:50051)")
    parser.add_argument("--memory", default="recall", help="model (default: recall)")
    parser.add_argument("--window", default="window", help="model (default: window)")
    parser.add_argument("--text", required=True, help="file of prose")
    parser.add_argument("--distance", default="100,3000",
                        help="characters of prose after the facts (default: 100,3000)")
    parser.add_argument("--sessions", type=int, default=40,
                        help=f"at each distance, {FACTS} questions each (default: 40)")
    parser.add_argument("--seed", type=int, default=1, help="(default: 1)")
    parser.add_argument("--example", action="store_true", help="ask for the example first")
    parser.add_argument("--svg", help="file of a picture of the shares")
    flags = parser.parse_args()
    try:
        flags.distance = [int(part) for part in flags.distance.split(",")]
    except ValueError:
        parser.error("argument --distance: whole numbers, with commas between them")
    if min(flags.distance) < 1 or flags.sessions < 1:
        parser.error("argument --distance, --sessions: at least 1")
    return flags


def prose_of(path):
    text = pathlib.Path(path).read_text(encoding="utf-8", errors="ignore").lower().replace("\n", " ")
    return "".join(character for character in text if character in KNOWN)


def digit_after(speaker, prompt, **where):
    """The most likely next character, of a session or a client."""
    return speaker.generate(prompt, max_tokens=1, temperature=0, **where).text


def tell(session, text):
    for begin in range(0, len(text), PIECE):
        session.generate(text[begin:begin + PIECE], max_tokens=0).result()


class Trial:
    """Facts, prose and what is asked, one session's worth."""

    def __init__(self, prose, distance, draw):
        letters = draw.sample(string.ascii_uppercase, FACTS)
        self.facts = {letter: draw.choice(string.digits) for letter in letters}
        begin = draw.randrange(len(prose) - distance)
        self.told = "".join(f"{digit}{letter} " for letter, digit in self.facts.items())
        self.told += prose[begin:begin + distance] + " "
        self.asked = draw.sample(letters, FACTS)

    def on_session(self, client, model):
        """How many of the answers are right."""
        answers = answers_on_session(client, model, self.told, self.asked)
        return sum(answer == self.facts[letter]
                   for letter, answer in zip(self.asked, answers))

    def in_window(self, client, model, window):
        told, right = self.told, 0
        for letter in self.asked:
            told += f"?{letter}"
            answer = digit_after(client, told[-window:], model=model)
            right += answer == self.facts[letter]
            told += answer + " "
        return right


def answers_without_session(client, model, told, letters):
    return [digit_after(client, f"{told}?{letter}", model=model) for letter in letters]


def answers_on_session(client, model, told, letters):
    answers = []
    with client.session(model=model, ttl=600) as session:
        tell(session, told)
        for letter in letters:
            answers.append(digit_after(session, f"?{letter}"))
            tell(session, " ")
    return answers


def run_example(client, model, prose):
    """Whether all that was told is known."""
    digits, letters = zip(*EXAMPLE.split())
    end = prose[-EXAMPLE_DISTANCE:]
    rows = [(f"told: {EXAMPLE}", digits),
            (f"after '{SENTENCE}'",
             answers_without_session(client, model, f"{EXAMPLE} {SENTENCE} ", letters)),
            (f"after {len(end):,} characters of the text",
             answers_on_session(client, model, f"{EXAMPLE} {end} ", letters))]
    print(f"{'asked':<46}" + "".join(f"  ?{letter}" for letter in letters))
    for told, answers in rows:
        print(f"{told:<46}" + "".join(f"   {answer}" for answer in answers), flush=True)
    return all(list(answers) == list(digits) for _, answers in rows)


def context_of(client, name):
    for model in client.list_models():
        if model.id == name:
            return model.context_limit
    raise RuntimeError(f"the server has no model {name}")


def share(pool, ask, trials):
    return sum(pool.map(ask, trials)) / (len(trials) * FACTS)


def main():
    flags = parse_flags()
    prose = prose_of(flags.text)
    if len(prose) <= max(flags.distance):
        raise RuntimeError(f"{flags.text} has {len(prose)} usable characters, fewer than "
                           f"a distance of {max(flags.distance)} takes")
    rows, low = [], []
    with mnemon.Client(flags.server) as client, \
            concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        window = context_of(client, flags.window)
        known = not flags.example or run_example(client, flags.memory, prose)
        print(f"{flags.sessions * FACTS} questions at each distance, chance 10 %")
        print(f"{'characters between':>20}{'memory':>10}{f'window of {window}':>18}", flush=True)
        for distance in flags.distance:
            draw = random.Random(f"{flags.seed} {distance}")
            trials = [Trial(prose, distance, draw) for _ in range(flags.sessions)]
            memory = share(pool, lambda trial: trial.on_session(client, flags.memory), trials)
            plain = share(pool, lambda trial: trial.in_window(client, flags.window, window),
                          trials)
            print(f"{distance:>20,}{memory:>10.1%}{plain:>18.1%}", flush=True)
            rows.append((distance, memory, plain))
            inside = distance + 10 * FACTS < window
            if memory < LEAST or inside and plain < LEAST:
                low.append(distance)
            if distance > window and plain > GUESSED:
                raise RuntimeError(f"the window knows {plain:.0%} at a distance of {distance}")
    if flags.svg:
        curves = [("memory", [(row[0], row[1]) for row in rows]),
                  (f"window of {window}", [(row[0], row[2]) for row in rows])]
        pathlib.Path(flags.svg).write_text(plot.draw(
            curves, "characters of prose between fact and question", "answers that are right",
            lambda share: f"{share:.0%}"))
    if not known:
        raise RuntimeError(f"the model {flags.memory} does not know all that the example tells")
    if low:
        raise RuntimeError(f"below {LEAST:.0%} at a distance of {', '.join(map(str, low))}")


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, OSError, mnemon.Error) as failure:
        print(f"bench/recall.py: {failure}", file=sys.stderr)
        sys.exit(1)
