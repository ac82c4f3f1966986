"""Style of all figures: palette, sizes, reproducible SVG and PNG."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from fmpair.errors import OptionError
from fmpair.report.table import Figure

# The palette of Okabe and Ito for colour-blind readers, without yellow, which is invisible on
# white, and black, which is invisible on dark pages.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#7F7F7F", "#8C6D31")
INK, LINE = "#3b4252", "#9aa3b2"
INSTALL = "pip install 'fmpair[report]'"
WIDTH = 4.2  # inches: fits side by side, and on a phone

RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # part of matplotlib: the same everywhere
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.axisbelow": True,
    "axes.linewidth": 0.8,
    "grid.alpha": 0.35,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
    "text.parse_math": False,  # a name may contain dollars
    "figure.dpi": 200,
    "figure.facecolor": "white",
    **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), LINE),
    **dict.fromkeys(("axes.labelcolor", "axes.titlecolor", "text.color"), INK),
    **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), INK),
    **dict.fromkeys(("xtick.major.width", "ytick.major.width"), 0.8),
}


def available() -> bool:
    """Whether matplotlib is installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return False
    return True


def require() -> None:
    """Raise OptionError if matplotlib is missing."""
    if not available():
        raise OptionError(f"figures need matplotlib: {INSTALL}")


def colours(models: Iterable[str]) -> dict[str, str]:
    """Return the colour of each model, the same in every figure."""
    shades = [*PALETTE, *map(_paler, PALETTE)]
    return {model: shades[n % len(shades)] for n, model in enumerate(models)}


def _paler(colour: str) -> str:
    """Return the colour half way to white, for more models than the palette has colours."""
    parts = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{(part + 255) // 2:02X}" for part in parts)


def drawn(
    name: str, title: str, caption: str, draw: Callable[[Any], None], height: float
) -> Figure:
    """Draw a figure as SVG and PNG; draw: adds the axes to an empty matplotlib figure."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    # Ids inside an SVG are random unless salted; with the name they also differ between figures.
    with matplotlib.rc_context({**RC, "svg.hashsalt": name}), warnings.catch_warnings():
        # Only the PNG shows a box for a glyph that the font lacks; the SVG has the text.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        canvas = Canvas(figsize=(WIDTH, height), layout="constrained")
        draw(canvas)
        canvas.draw_without_rendering()
        canvas.set_layout_engine("none")  # keep this layout for both formats
        svg, png = io.StringIO(), io.BytesIO()
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        # `savefig` would compute the layout again for each format.
        FigureCanvasAgg(canvas).print_png(png, metadata={"Software": None})
        canvas.patch.set_visible(False)
        for axes in canvas.axes:
            axes.patch.set_visible(False)
        FigureCanvasSVG(canvas).print_svg(svg, metadata=nothing)
    return Figure(name, title, caption, svg.getvalue(), png.getvalue())


def inlined(figure: Figure) -> str:
    """Return the SVG for an HTML page: no prologue, no namespaces, unique ids."""
    svg = figure.svg[figure.svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{figure.name}-\1"', svg)
    svg = re.sub(r'(url\(|href=")#', rf"\1#{figure.name}-", svg)
    head = re.match(r"<svg[^>]*>", svg)
    size = re.search(r'viewBox="[^"]*"', head[0]) if head else None
    opening = f'<svg {size[0] if size else ""} role="img" aria-label="{_quoted(figure.title)}">'
    return opening + svg[head.end() if head else 0 :]


def _quoted(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
