# SPDX-License-Identifier: MIT
"""Takes the pictures of docs/playground.md from a running server.

    screenshots.py URL FOLDER

The server's models should have learnt something. The pictures show the first two of them,
and a chat with the last one where that has a chat template. They take sessions of their own,
which are deleted at the end.
"""

import argparse
import pathlib
import shutil
import subprocess

import browser
from browser import CONTROL, Browser

WIDEST = """
(() => {
  const entropy = ({weights}) => weights.reduce((sum, w) => sum - (w > 0 ? w * Math.log(w) : 0), 0);
  const spread = memory.shown().reads.map(entropy);
  $('memory-head').value = String(spread.indexOf(Math.max(...spread)));
  $('memory-head').onchange();
})()
"""
WIDE = (1440, 860)
PROMPT = "ROMEO:\nWhat light is this, that "


def turn(page, prompt, count, seed, temperature=0.6):
    fields = {"stopping.max_tokens": count, "sampling.seed": seed}
    fields["sampling.temperature"] = temperature
    for name, value in fields.items():
        page.evaluate(f"document.getElementsByName('{name}')[0].value = '{value}'")
    page.evaluate("$('prompt').focus()")
    page.type(prompt)
    page.press("Enter", CONTROL)
    page.wait("state.turn === null", timeout=120)
    if not page.evaluate("$('error').hidden"):
        raise RuntimeError(page.evaluate("$('error').textContent"))


def fork(page, end):
    """A fork that holds the text up to `end`, a piece of it."""
    session = page.evaluate("state.session")
    page.evaluate(f"action(() => fork(passage.first + lastAtMost(passage.starts, {end})))()")
    page.wait(f"state.session != '{session}' && !$('fork').disabled")


def line_end(page, lines):
    """After that many lines of the text."""
    return page.evaluate(
        f"passage.text.split('\\n').slice(0, {lines}).join('\\n').length + 1"
    )


def story(page, seed):
    """A session with forks, of which the last one is shown."""
    turn(page, PROMPT, 420, seed)
    fork(page, line_end(page, 6))
    turn(page, "JULIET:\n", 260, seed + 1)
    page.evaluate("action(() => showSession(state.sessions[0].name.split('/')[1]))()")
    page.wait("passage.total > 420")
    fork(page, line_end(page, 9))
    turn(page, "\nNurse:\n", 330, seed + 2)


def conversation(page):
    page.evaluate("useView('chat')")
    famous = "What is it famous for? Answer in one sentence."
    for question in ("What is the capital of France?", famous):
        turn(page, question, 120, 1, temperature=0)


def shoot(page, path, width, height):
    page.evaluate("document.activeElement.blur()")
    page.wait("!memory.due")
    page.evaluate("new Promise((done) => setTimeout(done, 300))")
    page.screenshot(path, width, height)
    if shutil.which("pngquant"):
        subprocess.run(["pngquant", "--force", "--ext", ".png", "--skip-if-larger", str(path)])
    print(f"{path}: {path.stat().st_size} bytes")


def use(page, index):
    page.evaluate(f"$('model').selectedIndex = {index}; $('model').onchange()")
    page.wait(f"state.model === state.models[{index}] && !state.session")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("url", metavar="URL", help="for example http://127.0.0.1:8000")
    parser.add_argument("folder", metavar="FOLDER", type=pathlib.Path)
    arguments = parser.parse_args()
    with Browser(browser.find_chromium()) as page:
        page.prefer(prefers_color_scheme="light")
        page.resize(*WIDE)
        page.open(arguments.url.rstrip("/") + "/")
        page.wait("state.models.length > 0")
        page.evaluate("useView('text')")
        story(page, 3)
        # The head that looks at most of the text.
        page.evaluate("passage.choose(passage.total - 3)")
        page.evaluate(WIDEST)
        shoot(page, arguments.folder / "playground.png", *WIDE)
        page.resize(390, 780)
        page.evaluate("scrollTo(0, 0)")
        shoot(page, arguments.folder / "playground_narrow.png", 390, 1330)
        made = page.evaluate("state.sessions.map((s) => s.name)")
        page.resize(*WIDE)
        page.prefer(prefers_color_scheme="dark")
        if page.evaluate("state.models.length") > 1:
            use(page, 1)
            story(page, 5)
        shoot(page, arguments.folder / "playground_dark.png", *WIDE)
        made += page.evaluate("state.sessions.map((s) => s.name)")
        if page.evaluate("state.models.at(-1).chats"):
            page.prefer(prefers_color_scheme="light")
            use(page, page.evaluate("state.models.length - 1"))
            conversation(page)
            shoot(page, arguments.folder / "playground_chat.png", *WIDE)
            made += page.evaluate("state.sessions.map((s) => s.name)")
        for name in set(made):
            page.evaluate(f"call('DELETE', '/v1/{name}').then(() => true)")


if __name__ == "__main__":
    main()
