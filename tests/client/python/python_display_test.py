# SPDX-License-Identifier: MIT
"""What results, streams and progress of the Python client look like.

python_display_test.py REPOSITORY PACKAGE
"""

import array
import contextlib
import inspect
import io
import sys
import threading
import types
import unittest
import unittest.mock

import package_under_test

REPOSITORY, PACKAGE = sys.argv[1:3]
package_under_test.find(REPOSITORY, PACKAGE)
import mnemon  # noqa: E402
from mnemon import messages, progress, requests  # noqa: E402
from mnemon.v1 import generation_pb2, models_pb2, sampling_pb2  # noqa: E402


def chunk(**fields):
    return messages.chunk(generation_pb2.GenerateResponse(**fields))


def progress_of(computed):
    return chunk(
        progress=generation_pb2.Progress(computed_token_count=computed, token_count=4000)
    )


class ResultsTest(unittest.TestCase):
    def test_a_chunk_says_what_it_holds(self):
        self.assertEqual(
            repr(chunk(text="ab", tokens=[1, 2], first_index=7)),
            "Chunk(text='ab', tokens=[1, 2], first_index=7)",
        )
        self.assertIn("(100 characters)", repr(chunk(text="a" * 100)))
        self.assertIn("[0, 1, 2, ... (50)]", repr(chunk(tokens=range(50))))

    def test_introspection_is_asked_for_and_comes(self):
        request = requests.generate_request(
            "a", introspection=["memory_reads", "update_norms"]
        )
        self.assertEqual(
            list(request.output.introspection.paths), ["memory_reads", "update_norms"]
        )
        request = requests.generate_request("a", introspection="hidden_state")
        self.assertEqual(list(request.output.introspection.paths), ["hidden_state"])
        self.assertFalse(requests.generate_request("a").output.HasField("introspection"))
        read = sampling_pb2.MemoryRead(layer=1, head=2, first_index=5, weights=[0.25, 0.75])
        sent = sampling_pb2.Introspection(index=9, memory_reads=[read], update_norms=[1, 2])
        (view,) = chunk(tokens=[3], introspection=[sent]).introspection
        self.assertEqual((view.index, view.update_norms), (9, array.array("f", [1, 2])))
        self.assertEqual(view.memory_reads[0].weights.tolist(), [0.25, 0.75])
        self.assertEqual((len(view.hidden_state), len(view.state_norms)), (0, 0))
        self.assertIn("update_norms=<2 numbers>", repr(view))
        self.assertEqual(memoryview(view.update_norms).format, "f")

    def test_a_result_is_text_with_a_note_in_a_notebook(self):
        result = mnemon.GenerateResult(
            text="a < b",
            tokens=[1, 2],
            logprobs=[],
            prompt=chunk(prompt={"model": "models/small", "seed": 7}).prompt,
            finish=messages.finish_facts(
                generation_pb2.FinishFacts(
                    finish_reason="STOP",
                    stop_token_id=0,
                    generated_token_count=2,
                    generation_duration={"seconds": 1},
                )
            ),
            resumes=0,
        )
        self.assertEqual(str(result), "a < b")
        self.assertEqual((result.finish.reason, result.finish.stop_token_id), ("STOP", 0))
        self.assertIsNone(result.finish.eos_token_id)
        shown = result._repr_html_()
        self.assertIn("a &lt; b", shown)
        self.assertIn("2 tokens, STOP, 2 tokens/s, seed 7, model small", shown)

    def test_models_are_described(self):
        model = messages.model(
            models_pb2.Model(
                name="models/small", architecture="causal", parameter_count=1234567
            )
        )
        self.assertIsNone(model.context_limit)
        self.assertIn("causal, 1,234,567 parameters", repr(model))
        self.assertIn("unlimited", model._repr_html_())

    def test_the_perplexity_of_nothing_is_no_number(self):
        nothing = mnemon.ScoreResult([], 0, 0.0)
        self.assertNotEqual(nothing.perplexity, nothing.perplexity)


class SurfaceTest(unittest.TestCase):
    def test_both_clients_have_the_same_calls(self):
        for name in ("Client", "Session", "Generation", "Scoring"):
            threads, loop = getattr(mnemon, name), getattr(mnemon.aio, name)
            # A property cannot be awaited: the result has the text.
            calls = {n for n in dir(threads) if n[0] != "_"} - {"text"}
            self.assertEqual(calls, {n for n in dir(loop) if n[0] != "_"})
            for call in sorted(calls):
                if callable(getattr(threads, call)):
                    with self.subTest(f"{name}.{call}"):
                        self.assertEqual(
                            inspect.signature(getattr(threads, call)).parameters,
                            inspect.signature(getattr(loop, call)).parameters,
                        )

    def test_every_public_name_is_there(self):
        for module in (mnemon, mnemon.aio):
            for name in module.__all__:
                self.assertTrue(hasattr(module, name), name)


class FakeLine:
    def __init__(self):
        self.shown = []
        self.cleared = 0

    def show(self, text, share):
        self.shown.append((text, share))

    def clear(self):
        self.cleared += 1


class ProgressTest(unittest.TestCase):
    def setUp(self):
        self.now = 100.0
        clock = unittest.mock.patch("time.monotonic", lambda: self.now)
        clock.start()
        self.addCleanup(clock.stop)
        self.line = FakeLine()
        self.display = progress.ProgressDisplay(self.line, 10, tick=600)
        self.addCleanup(self.display.end)

    def see(self, chunk, whole, seconds=1.0):
        self.now += seconds
        self.display.see(chunk, whole)

    def test_a_prompt_and_what_follows_are_counted(self):
        self.display.begin()
        self.see(progress_of(1000), True)
        self.see(chunk(tokens=[1, 2]), True)
        self.see(chunk(tokens=[3, 4, 5]), True, 1.5)
        self.see(chunk(tokens=[6]), True, 0.05)
        self.display.end()
        self.assertEqual(
            self.line.shown,
            [
                ("waiting for the first token", None),
                ("prompt: 1,000 of 4,000 tokens", 0.25),
                ("2 of at most 10 tokens", 0.2),
                ("5 of at most 10 tokens, 3 tokens/s", 0.5),
            ],
        )
        self.assertEqual(self.line.cleared, 1)
        self.see(chunk(tokens=[7]), True)
        self.assertEqual(len(self.line.shown), 4)

    def test_the_time_passes_while_nothing_comes(self):
        begin = threading.Event()
        display = progress.ProgressDisplay(self.line, 10, tick=0.001)
        self.addCleanup(display.end)
        self.line.show = lambda text, share: (self.line.shown.append(text), begin.set())
        display.begin()
        begin.clear()
        self.now += 12
        self.assertTrue(begin.wait(10))
        self.assertEqual(
            self.line.shown,
            ["waiting for the first token", "waiting for the first token: 12 s"],
        )
        display.end()
        self.now += 12
        self.assertFalse(begin.clear() or begin.wait(0.05))
        self.assertEqual(self.line.cleared, 1)

    def test_the_text_of_who_reads_chunks_is_not_disturbed(self):
        self.see(progress_of(1000), False)
        self.see(chunk(text="a", tokens=[1]), False)
        self.assertEqual(self.line.cleared, 1)
        self.see(chunk(text="a", tokens=[1]), False)
        self.assertEqual(len(self.line.shown), 1)

    def test_it_is_silent_where_nobody_looks(self):
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertIsNone(progress.line_here())
        for out, err, line in (
            (True, True, progress.TerminalLine),
            (True, False, type(None)),
            (False, True, type(None)),
        ):
            with unittest.mock.patch.object(sys, "stdout") as stdout:
                with unittest.mock.patch.object(sys, "stderr") as stderr:
                    stdout.isatty.return_value, stderr.isatty.return_value = out, err
                    self.assertIs(type(progress.line_here()), line)

    def test_a_terminal_has_one_line(self):
        with contextlib.redirect_stderr(io.StringIO()) as written:
            with unittest.mock.patch.dict("os.environ", {"COLUMNS": "30"}):
                progress.TerminalLine().show("x" * 50, 0.5)
            progress.TerminalLine().clear()
        first, second, third = written.getvalue().split("\r\x1b[K")
        self.assertEqual((first, third), ("", ""))
        self.assertEqual(second, "[##########..........] xxxxxx")

    def test_a_notebook_has_one_output(self):
        written = []
        handle = types.SimpleNamespace(update=written.append)

        def display(content, display_id):
            written.append(content)
            return handle if display_id else None

        ipython = types.ModuleType("IPython")
        ipython.get_ipython = lambda: types.SimpleNamespace(kernel=1)
        ipython.display = types.ModuleType("IPython.display")
        ipython.display.display, ipython.display.HTML = display, str
        modules = {"IPython": ipython, "IPython.display": ipython.display}
        with unittest.mock.patch.dict(sys.modules, modules):
            line = progress.line_here()
            line.show("1 < 2", 0.5)
            line.show("waiting", None)
            line.clear()
            ipython.get_ipython = lambda: None
            self.assertIsNot(type(progress.line_here()), progress.NotebookLine)
        self.assertEqual(
            written,
            [
                "<progress value='0.5000' max='1'></progress> <small>1 &lt; 2</small>",
                "<small>waiting</small>",
                "",
            ],
        )


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
