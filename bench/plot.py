# SPDX-License-Identifier: MIT
"""Curves as one SVG, in the style of `mnemon-train plot`."""

import html
import math

import palette

WIDTH, PLOT_HEIGHT = 720, 340
LEFT, TOP, RIGHT = 64, 34, 14
LEGEND_ROW, SWATCH, GLYPH = 20, 26, 0.58 * 12
MOST_MARKS = 24

STYLE = (f"<style>svg{{color:{palette.INK};background:{palette.PAPER}}}"
         f"@media (prefers-color-scheme:dark){{svg{{color:{palette.DARK_INK};"
         f"background:{palette.DARK_PAPER}}}}}</style>")


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


def text(x, y, content, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{html.escape(content)}</text>'


def mark(x, y, style):
    return f'<path fill="{style[0]}" d="M{x:.1f} {y:.1f}{style[2]}"/>'


def stroke(style):
    dash = f' stroke-dasharray="{style[1]}"' if style[1] else ""
    return f'fill="none" stroke-width="2.2" stroke="{style[0]}"{dash}'


def legend(names, styles, top):
    """The rows below a picture, and where they end."""
    out, x, y = [], 10, top
    for name, style in zip(names, styles):
        width = SWATCH + GLYPH * len(name) + 14
        if x > 10 and x + width > WIDTH:
            x, y = 10, y + LEGEND_ROW
        out += [f'<path {stroke(style)} d="M{x:.1f} {y - 4:.1f}h20"/>', mark(x + 10, y - 4, style),
                text(x + SWATCH, y, name)]
        x += width
    return out, y


def begin(height, name):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
            f'width="{WIDTH}" height="{height:.0f}" role="img" aria-label="{html.escape(name)}" '
            f'font-family="system-ui,Helvetica,Arial,sans-serif" font-size="12" '
            f'fill="currentColor">{STYLE}')


def draw(curves, title, x_text, label, log_x=True, log_y=False):
    """`curves`: (name, points (x, y)), the name beginning with that of the architecture;
    `title`: what y is, with its unit; `label`: a y as text."""
    scale_x, scale = (math.log10 if log else float for log in (log_x, log_y))
    ys = [y for _, points in curves for _, y in points]
    ticks = one_two_five(min(ys) / 1.5, max(ys) * 1.5) if log_y else round_steps(
        min(ys), max(ys))
    low, high = scale(min([*ticks, *ys])), scale(max([*ticks, *ys]))
    xs = [x for _, points in curves for x, _ in points]
    first, last = scale_x(min(xs)), scale_x(max(xs))
    bottom, right = TOP + PLOT_HEIGHT, WIDTH - RIGHT

    def place(x, y):
        return (LEFT + 4 + (right - LEFT - 8) * (scale_x(x) - first) / max(last - first, 1e-9),
                TOP + PLOT_HEIGHT * (high - scale(y)) / max(high - low, 1e-9))

    names = [f"{name} {label(points[-1][1])}" for name, points in curves]
    styles = palette.styles([name for name, _ in curves])
    rows, end = legend(names, styles, bottom + 56)
    out = [begin(end + 12, title), text(10, 19, title, ' font-size="14" font-weight="600"')]
    grid, labels = "", []
    for tick in ticks:
        _, y = place(min(xs), tick)
        grid += f"M{LEFT} {y:.1f}H{right}"
        labels.append(text(LEFT - 6, y + 4, label(tick), ' text-anchor="end"'))
    for tick in (one_two_five if log_x else round_steps)(min(xs), max(xs)):
        if min(xs) <= tick <= max(xs):
            x, _ = place(tick, ticks[0])
            grid += f"M{x:.1f} {TOP}V{bottom}"
            labels.append(text(x, bottom + 17, short(tick), ' text-anchor="middle"'))
    out += [f'<path fill="none" stroke="currentColor" stroke-opacity="0.16" d="{grid}"/>',
            '<g fill-opacity="0.75">', *labels,
            text((LEFT + right) / 2, bottom + 35, x_text, ' text-anchor="middle"'), "</g>"]
    for (_, points), style in zip(curves, styles):
        line = "L".join("%.1f %.1f" % place(*point) for point in points)
        out.append(f'<path stroke-linejoin="round" {stroke(style)} d="M{line}"/>')
        every = -(-len(points) // MOST_MARKS)
        out += [mark(*place(*point), style) for i, point in enumerate(points)
                if (len(points) - 1 - i) % every == 0]
    return "\n".join(out + rows + ["</svg>"]) + "\n"


def height_of(picture):
    return int(picture.split('height="', 1)[1].split('"', 1)[0])


def stack(pictures):
    """Drawn pictures, one below the other."""
    inner, tall = [], 0
    for picture in pictures:
        inner.append(picture.replace("<svg ", f'<svg y="{tall}" ', 1).replace(STYLE, "", 1))
        tall += height_of(picture)
    return begin(tall, "Several charts") + "\n" + "".join(inner) + "</svg>\n"
