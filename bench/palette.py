# SPDX-License-Identifier: MIT
"""The colours of all pictures, on light and on dark: one for each architecture.
train/report/palette.h has the same ones; a test compares the two."""

import architectures

COLOURS = ("#2f7fd6", "#b65cc4", "#d9700f", "#1c9a70", "#8a8f98", "#c9485b", "#178fa9")
ARCHITECTURES = dict(zip(architectures.names(), COLOURS))
OTHER = "#a8893a"
INK, PAPER = "#1f2328", "#ffffff"
DARK_INK, DARK_PAPER = "#e6e8eb", "#14171c"
HEAT, DARK_HEAT = "#0a4a94", "#8fd0ff"

# As in train/report/chart.cc: the second line of an architecture is dashed, and so on.
DASHES = ("", "6 3", "2 3", "9 3 2 3")
MARKS = ("m-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0", "m-3 -3h6v6h-6z",
         "m0 -4.2l4.2 4.2l-4.2 4.2l-4.2 -4.2z", "m0 -4l4 7h-8z", "m0 4l-4 -7h8z",
         "m-4.5 -1.8h9v3.6h-9z", "m-1.8 -4.5h3.6v9h-3.6z")


def styles(names):
    """(colour, dash, mark) of each line: its name begins with that of an architecture."""
    order, before, found = list(ARCHITECTURES), {}, []
    for name in names:
        architecture = name.split(" ")[0]
        nth = before[architecture] = before.get(architecture, -1) + 1
        mark = order.index(architecture) if architecture in order else len(order)
        found.append((ARCHITECTURES.get(architecture, OTHER), DASHES[nth % len(DASHES)],
                      MARKS[mark % len(MARKS)]))
    return found
