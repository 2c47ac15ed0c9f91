# SPDX-License-Identifier: MIT
"""Curves over a logarithmic axis, as one SVG."""

import html
import math

WIDTH, HEIGHT = 760, 400
LEFT, TOP, RIGHT, BOTTOM = 60, 20, 190, 50
COLOURS = ["#4878a8", "#c8553d", "#5a8f4e", "#8a63a6", "#b8862b", "#3f8f8f"]


def short(number):
    """1200000 -> "1.2 M"."""
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def one_two_five(low, high):
    """1, 2, 5, 10, 20 .. from low to high."""
    return [step * 10**power
            for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            for step in (1, 2, 5) if low <= step * 10**power <= high]


def fifths(low, high):
    """Multiples of 0.2 around low .. high."""
    return [tick / 5 for tick in range(math.floor(low * 5), math.ceil(high * 5) + 1)]


def draw(curves, x_text, y_text, log_y, label):
    """`curves`: (name, points (x, y)); `label`: a y as text."""
    scale = math.log10 if log_y else float
    ys = [y for _, points in curves for _, y in points]
    ticks = one_two_five(min(ys) / 2.5, max(ys) * 2.5) if log_y else fifths(min(ys), max(ys))
    low, high = scale(ticks[0]), scale(ticks[-1])
    xs = [x for _, points in curves for x, _ in points]
    first, last = math.log10(min(xs)), math.log10(max(xs))
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(x, y):
        return (LEFT + wide * (math.log10(x) - first) / max(last - first, 1e-9),
                TOP + tall * (high - scale(y)) / max(high - low, 1e-9))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           f'width="{WIDTH}" height="{HEIGHT}" font-family="Helvetica,Arial,sans-serif" '
           f'font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']
    for tick in ticks:
        _, y = place(min(xs), tick)
        out.append(f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}" '
                   f'stroke="#e2e2e2"/><text x="{LEFT - 8}" y="{y + 4:.1f}" '
                   f'text-anchor="end" fill="#555">{label(tick)}</text>')
    for tick in one_two_five(min(xs), max(xs)):
        x, _ = place(tick, ticks[0])
        out.append(f'<text x="{x:.1f}" y="{TOP + tall + 18}" text-anchor="middle" '
                   f'fill="#555">{short(tick)}</text>')
    out.append(f'<text x="{LEFT + wide / 2}" y="{HEIGHT - 10}" text-anchor="middle" '
               f'fill="#555">{html.escape(x_text)}</text>')
    out.append(f'<text transform="translate(16,{TOP + tall / 2}) rotate(-90)" '
               f'text-anchor="middle" fill="#555">{html.escape(y_text)}</text>')
    ends = sorted(((place(*points[-1]), i) for i, (_, points) in enumerate(curves)),
                  key=lambda end: end[0][1])
    below = -math.inf
    for (x, y), i in ends:
        name, points = curves[i]
        colour = COLOURS[i % len(COLOURS)]
        line = " ".join("%.1f,%.1f" % place(*point) for point in points)
        out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.6" '
                   f'points="{line}"/>')
        label_y = max(y + 4, below + 15)
        below = label_y
        out.append(f'<text x="{LEFT + wide + 10}" y="{label_y:.1f}" fill="{colour}">'
                   f'{html.escape(name)} {label(points[-1][1])}</text>')
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
    return "\n".join(out + ["</svg>"]) + "\n"
