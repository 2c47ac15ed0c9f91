# SPDX-License-Identifier: MIT
"""Curves as one SVG."""

import html
import math

WIDTH, HEIGHT = 760, 400
LEFT, TOP, RIGHT, BOTTOM = 80, 20, 190, 50
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


def round_steps(low, high):
    """About five to ten multiples of 1, 2 or 5 times a power of ten, around low .. high."""
    least = max(high - low, 1e-9) / 10
    power = math.floor(math.log10(least))
    step = next((times * 10.0**power for times in (1, 2, 5) if times * 10.0**power >= least),
                10.0 ** (power + 1))
    return [round(step * tick, max(0, -power))
            for tick in range(math.floor(low / step), math.ceil(high / step) + 1)]


def draw(curves, x_text, y_text, label, log_x=True, log_y=False):
    """`curves`: (name, points (x, y)); `label`: a y as text."""
    scale_x, scale = (math.log10 if log else float for log in (log_x, log_y))
    ys = [y for _, points in curves for _, y in points]
    ticks = one_two_five(min(ys) / 2.5, max(ys) * 2.5) if log_y else round_steps(
        min(ys), max(ys))
    low, high = scale(ticks[0]), scale(ticks[-1])
    xs = [x for _, points in curves for x, _ in points]
    first, last = scale_x(min(xs)), scale_x(max(xs))
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def place(x, y):
        return (LEFT + wide * (scale_x(x) - first) / max(last - first, 1e-9),
                TOP + tall * (high - scale(y)) / max(high - low, 1e-9))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           f'width="{WIDTH}" height="{HEIGHT}" font-family="Helvetica,Arial,sans-serif" '
           f'font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']
    for tick in ticks:
        _, y = place(min(xs), tick)
        out.append(f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}" '
                   f'stroke="#e2e2e2"/><text x="{LEFT - 8}" y="{y + 4:.1f}" '
                   f'text-anchor="end" fill="#555">{label(tick)}</text>')
    below_axis = one_two_five if log_x else round_steps
    for tick in below_axis(min(xs), max(xs)):
        if not min(xs) <= tick <= max(xs):
            continue
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


def stack(pictures):
    """Drawn pictures, one below the other."""
    inner = [picture.replace("<svg ", f'<svg y="{i * HEIGHT}" ', 1)
             for i, picture in enumerate(pictures)]
    tall = HEIGHT * len(pictures)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {tall}" '
            f'width="{WIDTH}" height="{tall}">\n{"".join(inner)}</svg>\n')
