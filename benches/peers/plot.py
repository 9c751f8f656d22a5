"""Draws docs/plots/beside.svg, the picture of the README, from the tables of docs/benchmarks.md.

    python benches/peers/plot.py           writes the picture
    python benches/peers/plot.py --check   exit code 1 if the picture is not that of the tables
"""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLES = ROOT / "docs" / "benchmarks.md"
PICTURE = ROOT / "docs" / "plots" / "beside.svg"

# The rows of the table of 10 million, and how a reader knows them.
INDEXES = {
    "simdb, compacted": "simdb",
    "simdb": "simdb",
    "mih-2": "mih-rs, 2 blocks",
    "mih-default": "mih-rs, its own choice",
    "faiss-multihash-2x32": "FAISS, 2 words of 32 bits",
    "faiss-multihash-4x16": "FAISS, 4 words of 16 bits",
    "gaoya-6": "gaoya, 6 blocks",
    "faiss-flat": "FAISS, compares with all",
}
PANELS = [
    ("query k = 3, us", "a query at distance 3"),
    ("query k = 7, us", "a query at distance 7"),
    ("inserts/s", "a fingerprint added"),
]
WIDTH = 880
NAMES = 190
BAR = 13
ROW = 22
HEAD = 46
NOTES = [
    "Ten million fingerprints, one thread, medians, a logarithmic scale. simdb has them in a file: compacted for queries, and with a",
    "durable commit after each 10,000 for insertions. The others are in memory. mih-rs is built as a whole and takes no insertions.",
]
GAP = 12 + 15 * len(NOTES)


def table(heading: str) -> list[dict[str, str]]:
    """The rows of the table below a heading in bold, by the names of their columns."""
    text = TABLES.read_text()
    below = text[text.index(f"\n**{heading}**") :]
    lines = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    assert lines, heading
    cells = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in lines.group().splitlines(keepends=True)]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def microseconds(cell: str, column: str) -> float | None:
    """The median of a cell. None if nothing was measured."""
    number = re.match(r"[\d,]+(?:\.\d+)?", cell)
    if not number:
        return None
    value = float(number.group().replace(",", ""))
    return 1e6 / value if column == "inserts/s" else value


def times(rows: list[dict[str, str]], column: str) -> list[tuple[str, float]]:
    """The times of all indexes, the shortest first. Queries of simdb are those of the compacted file."""
    found: dict[str, float] = {}
    for row in rows:
        name = re.sub(r" [\d.]+$", "", row["peer"])
        value = microseconds(row[column], column)
        if name in INDEXES and value is not None:
            found.setdefault(INDEXES[name], value)
            if name == "simdb, compacted":
                found["simdb"] = value
    return sorted(found.items(), key=lambda entry: entry[1])


def readable(value: float) -> str:
    if value >= 1_000:
        return f"{value / 1_000:.2g} ms" if value < 10_000 else f"{value / 1_000:.0f} ms"
    if value < 0.1:
        return f"{value * 1_000:.0f} ns"
    return f"{value:.2g} µs" if value < 10 else f"{value:.0f} µs"


def picture() -> str:
    rows = table("10 million")
    panels = [(title, times(rows, column)) for column, title in PANELS]
    height = sum(HEAD + ROW * len(bars) for _, bars in panels) + GAP
    least = min(value for _, bars in panels for _, value in bars)
    most = max(value for _, bars in panels for _, value in bars)
    low, high = math.floor(math.log10(least)), math.log10(most)
    per_decade = (WIDTH - NAMES - 90) / (high - low)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" font-size="13"'
        ' font-family="system-ui, sans-serif">',
        "<title>Ten million fingerprints: the median time of a query and of an insertion, on one thread</title>",
        "<style>text{fill:#1f2328}.bar{fill:#8c959f}.simdb{fill:#0969da}.simdb-name{font-weight:600}.line{stroke:#d0d7de}"
        ".small{font-size:11px;fill:#59636e}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.bar{fill:#6e7681}"
        ".simdb{fill:#4493f8}.line{stroke:#3d444d}.small{fill:#9198a1}}</style>",
    ]
    top = 0
    for title, bars in panels:
        parts.append(f'<text x="0" y="{top + 20}" font-weight="600">{title}</text>')
        bottom = top + HEAD - 12 + ROW * len(bars)
        for decade in range(low, math.floor(high) + 1):
            x = NAMES + (decade - low) * per_decade
            parts.append(f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="{top + 30}" y2="{bottom}"/>')
            parts.append(f'<text class="small" x="{x + 3:.1f}" y="{top + 20}">{readable(10.0**decade)}</text>')
        for place, (name, value) in enumerate(bars):
            y = top + HEAD - 10 + ROW * place
            length = (math.log10(value) - low) * per_decade
            kind = "simdb" if name == "simdb" else "bar"
            bold = ' class="simdb-name"' if name == "simdb" else ""
            parts.append(f'<text{bold} x="{NAMES - 8}" y="{y + 11}" text-anchor="end">{name}</text>')
            parts.append(f'<rect class="{kind}" x="{NAMES}" y="{y}" width="{max(length, 1):.1f}" height="{BAR}" rx="2"/>')
            parts.append(f'<text{bold} x="{NAMES + length + 6:.1f}" y="{y + 11}">{readable(value)}</text>')
        top += HEAD + ROW * len(bars)
    for line, note in enumerate(NOTES):
        parts.append(f'<text class="small" x="0" y="{top + 14 + 15 * line}">{note}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> int:
    drawn = picture()
    if sys.argv[1:] == ["--check"]:
        if PICTURE.read_text() == drawn:
            return 0
        print(f"{PICTURE} is not that of {TABLES}: python benches/peers/plot.py", file=sys.stderr)
        return 1
    PICTURE.write_text(drawn)
    return 0


if __name__ == "__main__":
    sys.exit(main())
