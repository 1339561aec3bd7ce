"""A horizontal bar chart as PNG bytes, with nothing but the standard library."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

Colour = tuple[int, int, int]

WIDTH = 880
MOST_BARS = 14
COLOURS: dict[str, Colour] = {
    "allowed": (46, 139, 111),
    "unknown": (224, 159, 62),
    "denied": (192, 71, 82),
    "other": (148, 156, 168),
}
_PAPER: Colour = (255, 255, 255)
_INK: Colour = (31, 41, 55)
_MUTED: Colour = (107, 114, 128)
_GRID: Colour = (229, 232, 236)

_MARGIN, _TOP, _ROW, _BAR, _BOTTOM = 28, 100, 34, 20, 40
_LABELS = 350  # width of the column of labels


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; `kind` is a key of `COLOURS`."""

    label: str
    value: int
    kind: str = "other"


def bar_chart(title: str, bars: Sequence[Bar]) -> bytes:
    """Draw bars, the longest on top.

    Beyond `MOST_BARS` the shortest are added up in one. Characters outside ASCII are shown as `?`.

    Returns:
        A PNG, `WIDTH` pixels wide and as high as the bars need.
    """
    ranked = _ranked(bars)
    canvas = Canvas(WIDTH, chart_height(len(ranked)))
    canvas.text(_MARGIN, 24, title, _INK, scale=3)
    _legend(canvas, ranked)
    left, right = _MARGIN + _LABELS, WIDTH - _MARGIN - 44
    bottom = _TOP + _ROW * len(ranked)
    most = max([bar.value for bar in ranked], default=0) or 1
    step = _tick_step(most)
    for tick in range(0, most + 1, step):
        x = left + (right - left) * tick // most
        canvas.fill(x, _TOP, 1, bottom - _TOP, _GRID)
        canvas.text(x - canvas.text_width(str(tick)) // 2, bottom + 10, str(tick), _MUTED)
    for row, bar in enumerate(ranked):
        y = _TOP + row * _ROW
        label = _fitting(bar.label, _LABELS - 14)
        canvas.text(left - 14 - canvas.text_width(label), y + 10, label, _INK)
        length = max(2, (right - left) * bar.value // most) if bar.value else 0
        canvas.fill_rounded(left, y + (_ROW - _BAR) // 2, length, _BAR, COLOURS.get(bar.kind, COLOURS["other"]))
        canvas.text(left + length + 8, y + 10, str(bar.value), _INK)
    canvas.fill(left, _TOP, 2, bottom - _TOP, _MUTED)
    return canvas.png()


def chart_height(bars: int) -> int:
    """The height in pixels of a chart of so many bars, `MOST_BARS` at most."""
    return _TOP + _ROW * bars + _BOTTOM


def _ranked(bars: Sequence[Bar]) -> list[Bar]:
    ranked = sorted(bars, key=lambda bar: (-bar.value, bar.label))
    if len(ranked) <= MOST_BARS:
        return ranked
    rest = ranked[MOST_BARS - 1 :]
    return [*ranked[: MOST_BARS - 1], Bar(f"{len(rest)} others", sum(bar.value for bar in rest))]


def _legend(canvas: Canvas, bars: Sequence[Bar]) -> None:
    x = _MARGIN
    for kind in (kind for kind in COLOURS if any(bar.kind == kind for bar in bars)):
        canvas.fill_rounded(x, 63, 12, 12, COLOURS[kind])
        canvas.text(x + 18, 62, kind, _MUTED)
        x += 18 + canvas.text_width(kind) + 22


def _tick_step(most: int) -> int:
    """The round distance between grid lines that gives at most six of them."""
    size = 1
    while True:
        for step in (size, 2 * size, 5 * size):
            if most <= 6 * step:
                return step
        size *= 10


def _fitting(label: str, width: int) -> str:
    if Canvas.text_width(label) <= width:
        return label
    while Canvas.text_width(label + "...") > width:
        label = label[:-1]
    return label.rstrip() + "..."


class Canvas:
    """An RGB picture to draw on; what lies outside is cut off."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._rows = [bytearray(bytes(_PAPER) * width) for _ in range(height)]

    def fill(self, x: int, y: int, width: int, height: int, colour: Colour) -> None:
        """Fill a rectangle."""
        left, right = max(0, x), min(self.width, x + width)
        for row in self._rows[max(0, y) : max(0, y + height)]:
            row[3 * left : 3 * right] = bytes(colour) * max(0, right - left)

    def fill_rounded(self, x: int, y: int, width: int, height: int, colour: Colour, radius: int = 4) -> None:
        """Fill a rectangle with round, smooth corners."""
        radius = min(radius, width // 2, height // 2)
        self.fill(x, y + radius, width, height - 2 * radius, colour)
        self.fill(x + radius, y, width - 2 * radius, height, colour)
        for dx in range(radius):
            for dy in range(radius):
                distance = ((radius - dx - 0.5) ** 2 + (radius - dy - 0.5) ** 2) ** 0.5
                cover = min(1.0, max(0.0, radius - distance + 0.5))
                for px in (x + dx, x + width - 1 - dx):
                    for py in (y + dy, y + height - 1 - dy):
                        self._blend(px, py, colour, cover)

    def text(self, x: int, y: int, text: str, colour: Colour, scale: int = 2) -> None:
        """Write one line with its upper left corner at (x, y)."""
        for character in text:
            glyph = _smooth_glyph(character, scale)
            for dy, line in enumerate(glyph):
                for dx, cover in enumerate(line):
                    self._blend(x + dx, y + dy, colour, cover)
            x += len(glyph[0]) + scale

    @staticmethod
    def text_width(text: str, scale: int = 2) -> int:
        """The width of a line in pixels."""
        return sum(len(_smooth_glyph(character, scale)[0]) + scale for character in text)

    def png(self) -> bytes:
        """The picture as a PNG file."""
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        pixels = zlib.compress(b"".join(b"\0" + row for row in self._rows), 9)
        chunks = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)

    def _blend(self, x: int, y: int, colour: Colour, cover: float) -> None:
        if cover and 0 <= x < self.width and 0 <= y < self.height:
            row = self._rows[y]
            for i, channel in enumerate(colour, 3 * x):
                row[i] = round(row[i] + (channel - row[i]) * cover)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


# The characters from space to tilde, five columns of eight dots each, the lowest bit on top.
_FONT = bytes.fromhex(
    "0000000000 00005f0000 0007000700 147f147f14 242a7f2a12 2313086462 3649562050 0000070000 001c224100 0041221c00"
    "2a1c7f1c2a 08083e0808 0080600000 0808080808 0000600000 2010080402 3e5149453e 00427f4000 4261514946 2141454b31"
    "1814127f10 2745454539 3c4a494930 0171090503 3649494936 064949291e 0000360000 0080560000 0814224100 1414141414"
    "0041221408 0201510906 324979413e 7e1111117e 7f49494936 3e41414122 7f4141221c 7f49494941 7f09090901 3e41494972"
    "7f0808087f 00417f4100 2040413f01 7f08142241 7f40404040 7f020c027f 7f0408107f 3e4141413e 7f09090906 3e4151215e"
    "7f09192946 4649494931 01017f0101 3f4040403f 1f2040201f 3f4038403f 6314081463 0708700807 6151494543 007f414100"
    "0204081020 0041417f00 0402010204 8080808080 0001020000 2054545478 7f48444438 3844444420 384444487f 3854545418"
    "087e090102 18a4a4a47c 7f08040478 00447d4000 0080847d00 7f10284400 00417f4000 7c04180478 7c08040478 3844444438"
    "fc24242418 18242424fc 7c08040408 4854545420 043f444020 3c4040207c 1c2040201c 3c4030403c 4428102844 1ca0a0a07c"
    "4464544c44 0008364100 00007f0000 0041360800 0804081008"
)


@lru_cache(maxsize=500)
def _smooth_glyph(character: str, scale: int) -> tuple[tuple[float, ...], ...]:
    """The part of each pixel that a character covers, line by line, without empty columns beside it."""
    code = ord(character) if " " <= character <= "~" else ord("?")
    columns = _FONT[5 * (code - 32) :][:5].strip(b"\0") or b"\0\0\0"
    dots = [[bool(column >> line & 1) for column in columns] for line in range(8)]
    fine = _doubled(_doubled(dots))
    edges = [round(i * 4 / scale) for i in range(8 * scale + 1)]
    return tuple(
        tuple(_share(fine, left, right, top, bottom) for left, right in pairwise(edges[: len(columns) * scale + 1]))
        for top, bottom in pairwise(edges)
    )


def _share(dots: list[list[bool]], left: int, right: int, top: int, bottom: int) -> float:
    return sum(sum(line[left:right]) for line in dots[top:bottom]) / ((right - left) * (bottom - top))


def _doubled(dots: list[list[bool]]) -> list[list[bool]]:
    """Twice the size with rounded diagonals: the EPX rule of old video games."""
    height, width = len(dots), len(dots[0])

    def dot(x: int, y: int) -> bool:
        return 0 <= x < width and 0 <= y < height and dots[y][x]

    result: list[list[bool]] = []
    for y in range(height):
        upper: list[bool] = []
        lower: list[bool] = []
        for x in range(width):
            own, above, below, left, right = dot(x, y), dot(x, y - 1), dot(x, y + 1), dot(x - 1, y), dot(x + 1, y)
            upper.append(above if left == above and left != below and above != right else own)
            upper.append(right if above == right and above != left and right != below else own)
            lower.append(left if below == left and below != right and left != above else own)
            lower.append(below if right == below and right != above and below != left else own)
        result += [upper, lower]
    return result
