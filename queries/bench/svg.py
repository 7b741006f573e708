"""Plots as SVG text: bar charts with groups, and small panels of points. Standard library only.

Each plot brings its own background and colours for light and dark, so that it can be read on any page.
"""

import math
from html import escape

STYLE = """<style>
 .back { fill: #ffffff } .text { fill: #1f2328 } .faint { fill: #59636e }
 .axis { stroke: #59636e } .grid { stroke: #d8dee4 } .mark { stroke: #cf222e }
 .c0 { fill: #0969da } .c1 { fill: #bf8700 } .c2 { fill: #1a7f37 } .c3 { fill: #8250df }
 .whisker { stroke: #1f2328 }
 text { font: 12px system-ui, 'DejaVu Sans', sans-serif }
 .title { font-size: 14px; font-weight: 600 }
 @media (prefers-color-scheme: dark) {
  .back { fill: #0d1117 } .text { fill: #e6edf3 } .faint { fill: #9198a1 }
  .axis { stroke: #9198a1 } .grid { stroke: #30363d } .mark { stroke: #ff7b72 }
  .c0 { fill: #58a6ff } .c1 { fill: #e3b341 } .c2 { fill: #56d364 } .c3 { fill: #bc8cff }
  .whisker { stroke: #e6edf3 }
 }
</style>"""


def number(value):
    """A figure with three significant digits, without an exponent or zeros at its end."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{min(digits, 3)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def ratio(value):
    """A ratio: near one, three decimals."""
    return f"{value:.3f}".rstrip("0").rstrip(".") if 0.9 <= value < 2 else number(value)


class Canvas:
    """Elements of a plot, in order."""

    def __init__(self, width, height, title):
        self.width, self.height = width, height
        self.parts = [
            '<svg xmlns="http://www.w3.org/2000/svg" role="img"',
            f' width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
            f"<title>{escape(title)}</title>",
            STYLE,
            f'<rect class="back" width="{width}" height="{height}"/>',
        ]
        self.text(16, 24, title, "text title")

    def text(self, x, y, text, kind="text", anchor="start"):
        place = f'class="{kind}" x="{x:.1f}" y="{y:.1f}"' + (f' text-anchor="{anchor}"' if anchor != "start" else "")
        self.parts.append(f"<text {place}>{escape(text)}</text>")

    def line(self, x1, y1, x2, y2, kind, dashes=""):
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.parts.append(f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{dashed}/>')

    def rect(self, x, y, width, height, kind):
        self.parts.append(f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>')

    def circle(self, x, y, radius, kind):
        self.parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>')

    def legend(self, names, y):
        x = 16.0
        for at, name in enumerate(names):
            self.rect(x, y - 10, 12, 12, f"c{at}")
            self.text(x + 18, y, name)
            x += 18 + 7.2 * len(name) + 18

    def end(self):
        return "\n".join([*self.parts, "</svg>", ""])


class Scale:
    """Maps values to pixels, linearly or by logarithm."""

    def __init__(self, low, high, start, end, is_log):
        self.low, self.high, self.start, self.end, self.is_log = low, high, start, end, is_log

    def __call__(self, value):
        if self.is_log:
            low, high, value = math.log10(self.low), math.log10(self.high), math.log10(max(value, self.low))
        else:
            low, high = self.low, self.high
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self):
        if self.is_log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            return [10.0**power for power in range(first, last + 1)]
        step = 10 ** math.floor(math.log10((self.high - self.low) / 2))
        while (self.high - self.low) / step > 6:
            step *= 2.5 if str(step).strip("0.").startswith("2") else 2
        first = math.ceil(self.low / step - 1e-9)
        return [at * step for at in range(first, math.floor(self.high / step + 1e-9) + 1)]


def bars(title, unit, series, groups, is_log=False, mark=None):
    """Horizontal bars, and a line at `mark`.

    `groups`: [(label, [value | (value, low, high) | None for each of `series`])].
    """
    left, right, top, height, gap = 190, 110, 74 if len(series) > 1 else 48, 15, 12
    shown = [value for _, values in groups for value in values if value is not None]
    flat = [part for value in shown for part in (value if isinstance(value, tuple) else (value,))]
    if not flat:
        return None
    low = 10 ** math.floor(math.log10(min(flat) * 0.999)) if is_log else 0
    high = max(flat) * (1.25 if is_log else 1.05)
    rows = sum(sum(value is not None for value in values) * height + gap for _, values in groups)
    canvas = Canvas(760, top + rows + 34, title)
    if len(series) > 1:
        canvas.legend(series, 48)
    scale = Scale(low, high, left, canvas.width - right, is_log)
    bottom = top + rows
    for tick in scale.ticks():
        canvas.line(scale(tick), top - 6, scale(tick), bottom, "grid")
        canvas.text(scale(tick), bottom + 18, f"{tick:g}", "faint", "middle")
    canvas.text(canvas.width - right + 12, bottom + 18, unit, "faint")
    y = top
    marked = scale(mark) if mark is not None and low <= mark <= high else None
    if marked is not None:
        canvas.line(marked, top - 6, marked, bottom, "mark", "5 3")
    for label, values in groups:
        shown = [(at, value) for at, value in enumerate(values) if value is not None]
        canvas.text(left - 10, y + len(shown) * height / 2 + 4, label, "text", "end")
        for at, value in shown:
            middle, least, most = value if isinstance(value, tuple) else (value, value, value)
            canvas.rect(left, y + 1, max(scale(middle) - left, 1), height - 2, f"c{at}")
            end = scale(middle)
            if most > least:
                end = max(end, scale(most))
                canvas.line(scale(least), y + height / 2, scale(most), y + height / 2, "whisker")
                for edge in (least, most):
                    canvas.line(scale(edge), y + 3, scale(edge), y + height - 3, "whisker")
            text = ratio(middle) if unit == "×" else number(middle)
            if marked is not None and end + 2 < marked < end + 10 + 8 * len(text):
                canvas.rect(end + 4, y + 1, 8 * len(text) + 2, height - 2, "back")
            canvas.text(end + 6, y + height - 3, text)
            y += height
        y += gap
    canvas.line(left, top - 6, left, bottom, "axis")
    return canvas.end()


def panels(title, series, labels, charts):
    """Panels two by two. `charts`: [(name, bound, [(label's index, [value | None for each of `series`])])]."""
    charts = [chart for chart in charts if any(value is not None for _, values in chart[2] for value in values)]
    if not charts:
        return None
    wide, tall, top = 380, 196, 62
    rows = (len(charts) + 1) // 2
    canvas = Canvas(2 * wide, top + rows * tall + 10, title)
    canvas.legend([*series], 48)
    canvas.text(2 * wide - 16, 48, "dashed: the target", "faint", "end")
    for at, (name, bound, points) in enumerate(charts):
        x0, y0 = (at % 2) * wide, top + at // 2 * tall
        values = [value for _, row in points for value in row if value is not None] + [bound]
        spread = (max(values) - min(values)) or max(values)
        scale = Scale(min(values) - 0.15 * spread, max(values) + 0.15 * spread, y0 + tall - 48, y0 + 34, False)
        place = Scale(0, max(len(labels) - 1, 1), x0 + 66, x0 + wide - 30, False)
        canvas.text(x0 + 16, y0 + 20, name)
        for tick in scale.ticks():
            canvas.line(x0 + 52, scale(tick), x0 + wide - 16, scale(tick), "grid")
            canvas.text(x0 + 46, scale(tick) + 4, f"{tick:.4g}", "faint", "end")
        canvas.line(x0 + 52, scale(bound), x0 + wide - 16, scale(bound), "mark", "5 3")
        for index, label in enumerate(labels):
            # Neighbouring labels stand on two lines.
            canvas.text(place(index), y0 + tall - 28 + 13 * (index % 2), label, "faint", "middle")
        for index, row in points:
            for kind, value in enumerate(row):
                if value is not None:
                    canvas.circle(place(index) + 4 * kind - 2, scale(value), 4, f"c{kind}")
    return canvas.end()
