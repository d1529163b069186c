"""A still picture of a chart, for readers whose browser runs no scripts."""

from typing import Any

import numpy as np
from markupsafe import Markup, escape

from decond.notebook import number

__all__ = ["still"]

SIZE = (720.0, 320.0)
EDGES = (70.0, 12.0, 12.0, 44.0)
"""Margins: left, right, top, bottom."""

LAYERS = ("band", "dots", "line", "area")
"""Kinds of series that are drawn, each upon those before."""


def still(chart: dict[str, Any]) -> Markup:
    """Return lines, bands and dots of a chart as SVG, its axes labeled at their ends, with a legend.

    >>> line = {"kind": "line", "label": "f", "color": "#000", "x": np.array([0.0, 1.0]), "y": np.array([2.0, 3.0])}
    >>> "<polyline" in still({"x": "wind", "y": "power", "series": [line]})
    True
    """
    parts = [series for series in chart["series"] if series["kind"] in LAYERS]
    x = _span([series["x"] for series in parts])
    y = _span([series[name] for series in parts for name in ("y", "low", "high") if name in series])
    order = sorted(parts, key=lambda series: LAYERS.index(series["kind"]))
    drawn = Markup("").join(_drawn(series, x, y) for series in order)
    swatch = Markup('<span style="color:{}">■</span> {}')
    legend = Markup(" ").join(swatch.format(series["color"], series["label"]) for series in parts)
    picture = Markup('<svg class="still" viewBox="0 0 {} {}" role="img" aria-label="{} against {}">{}{}</svg>')
    axes = _axes(chart, x, y)
    return picture.format(*SIZE, chart["y"], chart["x"], drawn, axes) + Markup("<p>{}</p>").format(legend)


def _span(arrays: list[np.ndarray]) -> tuple[float, float]:
    values = np.concatenate([np.ravel(array) for array in arrays])
    low, high = float(values.min()), float(values.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _points(x: np.ndarray, y: np.ndarray, x_span: tuple[float, float], y_span: tuple[float, float]) -> np.ndarray:
    """Return positions on the picture (n, 2)."""
    left, right, top, bottom = EDGES
    across = left + (x - x_span[0]) / (x_span[1] - x_span[0]) * (SIZE[0] - left - right)
    down = SIZE[1] - bottom - (y - y_span[0]) / (y_span[1] - y_span[0]) * (SIZE[1] - top - bottom)
    return np.column_stack([across, down])


def _drawn(series: dict[str, Any], x: tuple[float, float], y: tuple[float, float]) -> Markup:
    color = series["color"]
    if series["kind"] == "band":
        low, high = (_points(series["x"], series[end], x, y) for end in ("low", "high"))
        path = _path(np.concatenate([low, high[::-1]]))
        return Markup('<polygon points="{}" fill="{}" fill-opacity="0.18"/>').format(path, color)
    points = _points(series["x"], series["y"], x, y)
    if series["kind"] == "dots":
        dot = Markup('<circle cx="{:.1f}" cy="{:.1f}" r="2" fill="{}"/>')
        return Markup("").join(dot.format(*point, color) for point in points)
    dash = Markup(' stroke-dasharray="6 4"') if series.get("dash") else ""
    shape = Markup('<polyline points="{}" fill="none" stroke="{}" stroke-width="2"{}/>')
    return shape.format(_path(points), color, dash)


def _path(points: np.ndarray) -> str:
    return " ".join(f"{across:.1f},{down:.1f}" for across, down in points)


def _axes(chart: dict[str, Any], x: tuple[float, float], y: tuple[float, float]) -> Markup:
    left, right, top, bottom = EDGES
    floor = SIZE[1] - bottom
    text = Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>')
    places = [
        (left, floor + 18, "start", number(x[0], span=x[1] - x[0])),
        (SIZE[0] - right, floor + 18, "end", number(x[1], span=x[1] - x[0])),
        ((left + SIZE[0] - right) / 2, floor + 36, "middle", chart["x"]),
        (left - 8, floor, "end", number(y[0], span=y[1] - y[0])),
        (left - 8, top + 10, "end", number(y[1], span=y[1] - y[0])),
    ]
    labels = Markup("").join(text.format(*place[:3], escape(place[3])) for place in places)
    return Markup('<path d="M{} {}V{}H{}" fill="none" stroke="#555"/>{}').format(
        left, top, floor, SIZE[0] - right, labels
    )
