"""Charts as SVG, without scripts, readable on light and dark pages."""

from html import escape
from math import log10

import workloads

# Told apart without red and green alone, also in grey: each has a shape of its own.
COLOURS = ("#0072b2", "#56b4e9", "#009e73", "#e69f00", "#d55e00", "#cc79a7", "#9c6ade", "#8a8a8a", "#b15928")
STYLE = """<style>
.page { fill: #fff }
text { font: 13px system-ui, sans-serif; fill: #24292f }
.small { font-size: 11px; fill: #57606a }
.title { font-weight: 600; font-size: 15px }
.grid { stroke: #8886; stroke-width: 1 }
.one { stroke: #57606a; stroke-width: 1.5 }
.target { stroke: #24292f; stroke-width: 2 }
.row { stroke: #8883; stroke-width: 1 }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117 }
  text { fill: #e6edf3 } .small { fill: #9aa4af } .one { stroke: #9aa4af } .target { stroke: #e6edf3 }
}
</style>"""


def number(value):
    return f"{value:.1f}".rstrip("0").rstrip(".")


def text(x, y, words, anchor="start", kind=""):
    attributes = f' class="{kind}"' if kind else ""
    return f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}"{attributes}>{escape(words)}</text>'


def line(x1, y1, x2, y2, kind):
    return f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" class="{kind}"/>'


def mark(index, x, y, tip, size=5):
    """A point of the series of this number, with a text for the pointer."""
    colour = COLOURS[index % len(COLOURS)]
    shapes = (
        f'<circle cx="{number(x)}" cy="{number(y)}" r="{size}"',
        f'<rect x="{number(x - size + 0.5)}" y="{number(y - size + 0.5)}" width="{2 * size - 1}" height="{2 * size - 1}"',
        f'<path d="M{number(x)} {number(y - size - 1)}L{number(x + size)} {number(y + size - 1)}H{number(x - size)}Z"',
        f'<path d="M{number(x)} {number(y - size - 1)}l{size + 1} {size + 1}l{-size - 1} {size + 1}l{-size - 1} {-size - 1}Z"',
    )
    shape = shapes[index % len(shapes)]
    name = shape[1:shape.index(" ")]
    # The first two are ours: filled. The others are outlines.
    paint = f'fill="{colour}"' if index < 2 else f'fill="none" stroke="{colour}" stroke-width="2"'
    return f"{shape} {paint}><title>{escape(tip)}</title></{name}>"


def legend(names, x, y, per_row, step):
    parts = []
    for index, name in enumerate(names):
        at = x + (index % per_row) * step, y + (index // per_row) * 20
        parts += [mark(index, at[0], at[1] - 4, name), text(at[0] + 12, at[1], name)]
    return parts


def page(width, height, label, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" '
            f'aria-label="{escape(label)}">\n'
            + STYLE + f'\n<rect class="page" width="{width}" height="{height}"/>\n' + "\n".join(parts) + "\n</svg>\n")


def comparison(by_row, modes):
    """A line for each row, a mark for each mode where its ratio to bare is, on a logarithmic scale."""
    rows = [row for row in workloads.ALL if row.key in by_row and not row.in_milliseconds and "bare" in by_row[row.key]]
    left, right, top, step, width = 330, 30, 130, 26, 980
    height = top + step * len(rows) + 40
    least, most = 0.8, 20.0

    def across(ratio):
        share = (log10(min(max(ratio, least), most)) - log10(least)) / (log10(most) - log10(least))
        return left + share * (width - left - right)

    parts = [text(16, 26, "Time of each workload, as a multiple of the bare run", kind="title")]
    parts += legend([mode.title for mode in modes] , 24, 52, 4, 235)
    for tick in (0.8, 1, 1.2, 1.5, 2, 3, 5, 10, 20):
        parts += [line(across(tick), top - 12, across(tick), height - 34, "one" if tick == 1 else "grid"),
                  text(across(tick), height - 18, f"{tick:g}" + ("+" if tick == most else ""), "middle", "small")]
    for index, row in enumerate(rows):
        y = top + index * step + 6
        parts += [line(left, y, width - right, y, "row"), text(left - 12, y + 4, row.title.replace("`", ""), "end")]
        if row.target:
            parts.append(line(across(row.target), y - 9, across(row.target), y + 9, "target"))
        # Ours last, so that they lie on top.
        for number_of, mode in reversed(list(enumerate(modes))):
            figure = by_row[row.key].get(mode.key)
            if figure and not figure.reason:
                ratio = figure.ratio()
                parts.append(mark(number_of, across(ratio), y, f"{mode.title}: {ratio:.2f}"))
    parts.append(text(16, height - 4, "An upright bar is gated's target. What lies beyond 20 is drawn at 20.", kind="small"))
    return page(width, height, "Time of each workload as a multiple of the bare run", parts)


def growth(kept, titles):
    """A panel for each kind of growth: microseconds of an operation, bare and gated, by size; both scales logarithmic."""
    width, height = 980, 330
    gap = (width - 40) / len(titles)
    values = [value for points in kept.values() for point in points for value in (point["bare"], point["gated"])]
    least, most = 0.3, max([100.0, *values]) * 1.3
    top, bottom = 84, height - 60

    def up(value):
        return bottom - (log10(max(value, least)) - log10(least)) / (log10(most) - log10(least)) * (bottom - top)

    parts = [text(16, 26, "Microseconds of an operation, while something grows", kind="title")]
    parts += legend(("gated", "bare"), 24, 52, 2, 100)
    for panel, (kind, title) in enumerate(titles.items()):
        left = 50 + panel * gap
        right = left + gap - 38
        points = kept.get(kind, [])
        parts.append(text((left + right) / 2, height - 16, title, "middle", "small"))
        for tick in (0.3, 1, 3, 10, 30, 100, 300, 1000):
            if least <= tick <= most:
                parts += [line(left, up(tick), right, up(tick), "grid"), text(left - 6, up(tick) + 4, f"{tick:g}", "end", "small")]
        if not points:
            continue
        first, last = log10(points[0]["size"]), log10(points[-1]["size"])

        def across(size):
            return left + 14 + (log10(size) - first) / ((last - first) or 1) * (right - left - 28)

        for point in points:
            size = f"{point['size']:,}".replace(",000,000", "M").replace(",000", "k")
            parts.append(text(across(point["size"]), bottom + 18, size, "middle", "small"))
        for index, side in enumerate(("gated", "bare")):
            way = " ".join(f"{number(across(point['size']))},{number(up(point[side]))}" for point in points)
            parts.append(f'<polyline points="{way}" fill="none" stroke="{COLOURS[index]}" stroke-width="2"/>')
            parts += [mark(index, across(point["size"]), up(point[side]), f"{side}: {point[side]:.1f} µs", 4) for point in points]
    return page(width, height, "Microseconds of an operation while sessions, processes, files or rules grow", parts)
