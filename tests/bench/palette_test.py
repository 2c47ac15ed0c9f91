# SPDX-License-Identifier: MIT
"""One palette: bench/palette.py and train/report/palette.h agree, and the pictures of the documents
have no colours beside."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import palette  # noqa: E402

COLOUR = re.compile(r"#[0-9a-fA-F]{3}(?:[0-9a-fA-F]{3})?\b")
NAMES = {"Other": "OTHER", "Ink": "INK", "Paper": "PAPER", "DarkInk": "DARK_INK",
         "DarkPaper": "DARK_PAPER", "Heat": "HEAT", "DarkHeat": "DARK_HEAT"}


class PaletteTest(unittest.TestCase):
    def test_programs_and_scripts_have_the_same_colours(self):
        header = (ROOT / "train" / "report" / "palette.h").read_text()
        colours = re.search(r"kColours\[\] = \{([^}]*)\}", header)[1]
        self.assertEqual(tuple(re.findall(r'"(#\w+)"', colours)), palette.COLOURS)
        self.assertEqual(len(palette.ARCHITECTURES), len(palette.COLOURS))
        constants = dict(re.findall(r'string_view k(\w+?)(?:Colour)? = "(#\w+)"', header))
        self.assertEqual(constants, {name: getattr(palette, python)
                                     for name, python in NAMES.items()})

    def test_lines_and_marks_are_those_of_the_programs(self):
        chart = (ROOT / "train" / "report" / "chart.cc").read_text()
        dashes = re.search(r"kDashes = \{([^}]*)\}", chart)[1]
        shapes = re.search(r"kShapes = \{([^}]*)\}", chart)[1]
        self.assertEqual(tuple(re.findall(r'"([^"]*)"', dashes)), palette.DASHES)
        self.assertEqual(tuple(re.findall(r'"([^"]*)"', shapes)), palette.MARKS)

    def test_a_line_has_the_colour_of_its_architecture(self):
        styles = palette.styles(["causal fp32", "causal int8", "feedback", "lstm"])
        self.assertEqual([style[0] for style in styles],
                         [palette.ARCHITECTURES["causal"]] * 2 +
                         [palette.ARCHITECTURES["feedback"], palette.OTHER])
        self.assertNotEqual(styles[0][1], styles[1][1])

    def test_pictures_have_no_other_colours(self):
        known = set(palette.ARCHITECTURES.values()) | {
            getattr(palette, python) for python in NAMES.values()}
        pictures = sorted((ROOT / "docs" / "images").glob("*.svg"))
        self.assertTrue(pictures)
        for picture in pictures:
            text = picture.read_text()
            with self.subTest(picture.name):
                self.assertEqual(set(COLOUR.findall(text)) - known, set())
                self.assertIn("prefers-color-scheme:dark", text)

    def test_scripts_have_no_colours_of_their_own(self):
        for script in sorted((ROOT / "bench").glob("*.py")):
            if script.name != "palette.py":
                with self.subTest(script.name):
                    self.assertEqual(COLOUR.findall(script.read_text()), [])


if __name__ == "__main__":
    unittest.main()
