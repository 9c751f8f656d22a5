"""The Markdown tables of `quality.py`."""

import run

# The thresholds that the tables show, of each kind.
SHOWN = {
    "k": [3, 5, 7, 8, 10, 14],
    "similarity": [0.9, 0.8, 0.7, 0.6, 0.5, 0.4],
    "equal": [6, 5, 4, 3, 2, 1],
}
# For methods whose similarities are close to 1.
FINE = [0.999, 0.995, 0.99, 0.98, 0.971, 0.95]
NAMES = {"k": "distance", "similarity": "similarity", "equal": "equal parts"}
# A mean of recall takes only sets with so many pairs in the band.
LEAST_PAIRS = 20
# These have other uses: dense clusters of texts that differ in a few words, and sets of less than 100 documents.
NOT_IN_MEAN_OF_F = {"licenses"}
NOT_IN_MEANS = {"plagiarism-short", "petclinic-dom"}
TITLE = """# How good fingerprints are, beside other libraries

A cell is the recall of the pairs with a j4 of at least 0.9 / of 0.8 to 0.9, in %, and F, the number of false matches
in a million pairs of different groups with a j4 below 0.5. j4 is the exact Jaccard similarity of 4-token shingles.
"""


def document(results):
    """All tables. `results` has, for each set, its counts and the points of all methods."""
    parts = [TITLE, "## The sets\n", sets_table(results), "## The best F1 by the verdicts of people\n", F1]
    parts += [f1_table(results), "## Recall at no more than one false match in a million\n", LOOSEST]
    parts += [loosest_table(results), "## Pairs that an index misses\n", ESTIMATES, estimates_table(results)]
    parts += ["## Means over the sets\n", MEANS, *curve_tables(means(results))]
    for name, result in results.items():
        parts += [f"## {name}\n", *curve_tables(result["points"])]
    return "\n".join(parts)


F1 = """The cell is F1 (threshold: precision/recall in %), at the threshold with the best F1. Distances up to 24 were
tried, and similarities down to 0.3.
"""
LOOSEST = """For each method, the loosest threshold with an F of at most 1. The cell is the recall of the pairs with
a j4 of at least 0.9 / 0.8 to 0.9 / 0.7 to 0.8, and the threshold. For the column "mean", a band of a set counts if it
has at least 20 pairs, and "never" counts as a recall of 0. Where a set has less than a million unrelated pairs, an F
of at most 1 means none.
"""
MEANS = """Recall is a mean over the sets with at least 20 pairs in the band; F is a mean over all sets but `licenses`.
`plagiarism-short` and `petclinic-dom` are left out of both.
"""


ESTIMATES = """Of the pairs of documents of all sets whose own estimate is at least so high, the share that the index
finds.
"""


def estimates_table(results):
    counts = {}
    for result in results.values():
        for point in result["points"]:
            if "estimates" in point:
                counted = counts.setdefault((point["method"], point["threshold"]), [0, 0])
                counted[:] = [before + more for before, more in zip(counted, point["estimates"], strict=True)]
    rows = [
        [method, f"{threshold:g}", f"{wanted:,}", f"{met:,}", f"{100 * met / wanted:.1f} %" if wanted else "—"]
        for (method, threshold), (wanted, met) in counts.items()
    ]
    return run.table(["index", "estimate", "pairs", "found", "share"], rows) + "\n"


def methods(results):
    """The names of all methods, in order."""
    return list(dict.fromkeys(point["method"] for it in results.values() for point in it["points"]))


def curve(result, method):
    return [point for point in result["points"] if point["method"] == method]


def sets_table(results):
    columns = ["set", "documents", "pairs with j4 >= 0.9", "0.8 to 0.9", "0.7 to 0.8"]
    columns += ["unrelated pairs", "by the peers' tokens"]
    rows = []
    for name, result in results.items():
        counts = result["counts"]
        numbers = [counts["documents"], *counts["band_pairs"][:3], counts["unrelated_pairs"], result["peers_unrelated"]]
        rows.append([name, *(f"{it:,}" for it in numbers)])
    return run.table(columns, rows) + "\n"


def f1_table(results):
    judged = {name: it for name, it in results.items() if any("f1" in point for point in it["points"])}
    rows = []
    for method in methods(judged):
        row = [method]
        for result in judged.values():
            best = max(curve(result, method), key=lambda point: point["f1"] or 0, default=None)
            if best is None or not best["f1"]:
                row.append("—")
                continue
            exact = f"{percent(best['precision'])}/{percent(best['recall'])}"
            row.append(f"{best['f1']:.3f} ({threshold(best)}: {exact})")
        rows.append(row)
    return run.table(["method", *judged], rows) + "\n"


def loosest_table(results):
    counted = {name: it for name, it in results.items() if name not in NOT_IN_MEANS}
    rows = []
    for method in methods(results):
        cells, recalls = [], {}
        for name, result in counted.items():
            fit = [point for point in curve(result, method) if point["false_per_million"] <= 1.0]
            recall = fit[-1]["band_recall"] if fit else [0.0] * 4
            recalls[name] = recall
            cells.append(f"{shares(recall)} at {threshold(fit[-1])}" if fit else "never")
        mean = [mean_recall(counted, recalls, band) for band in range(3)]
        rows.append([method, f"**{shares(mean)}**", *cells])
    return run.table(["method", "mean", *counted], rows) + "\n"


def mean_recall(results, recalls, band):
    """The mean over the sets with enough pairs in a band, or None if there is none."""
    taken = [
        recalls[name][band]
        for name, it in results.items()
        if it["counts"]["band_pairs"][band] >= LEAST_PAIRS and name in recalls
    ]
    return sum(taken) / len(taken) if taken else None


def means(results):
    """The points of a set that does not exist: the means over the sets."""
    counted = {name: it for name, it in results.items() if name not in NOT_IN_MEANS}
    points = []
    for method in methods(counted):
        found = {name: {point["threshold"]: point for point in curve(it, method)} for name, it in counted.items()}
        for at, point in next(iter(found.values())).items():
            recalls = {name: it[at]["band_recall"] for name, it in found.items() if at in it}
            falsely = [it[at]["false_per_million"] for name, it in found.items() if name not in NOT_IN_MEAN_OF_F]
            points.append({
                **point,
                "bytes": sum(it[at]["bytes"] for it in found.values()) / len(found),
                "band_recall": [mean_recall(counted, recalls, band) for band in range(4)],
                "false_per_million": sum(falsely) / len(falsely) if falsely else None,
            })
    return points


def curve_tables(points):
    """A table for each kind of threshold, methods as rows."""
    curves = {}
    for point in points:
        curves.setdefault(point["method"], {})[round(point["threshold"], 4)] = point
    tables = {}
    for method, curve in curves.items():
        first = next(iter(curve.values()))
        kind = first["threshold_name"]
        shown = SHOWN[kind]
        if kind == "similarity" and min(curve) >= 0.8:
            shown = FINE
        head = ["method", "bytes", f"{NAMES[kind]} {shown[0]}", *(str(it) for it in shown[1:])]
        row = [method, f"{first['bytes']:,.0f}", *(cell(curve.get(it)) for it in shown)]
        tables.setdefault(tuple(head), []).append(row)
    return [run.table(list(head), rows) + "\n" for head, rows in tables.items()]


def cell(point):
    if point is None:
        return "—"
    return f"{shares(point['band_recall'][:2])}, {rate(point['false_per_million'])}"


def shares(recall):
    return "/".join(percent(it) for it in recall[:3])


def percent(share):
    """Without digits behind the point, but never 100 where a pair is missed."""
    if share is None:
        return "—"
    return "100" if share == 1 else f"{min(100 * share, 99.9):.1f}" if share > 0.985 else f"{100 * share:.0f}"


def rate(value):
    if value is None:
        return "—"
    return "0" if value == 0 else f"{value:.2g}" if value < 10 else f"{value:,.0f}"


def threshold(point):
    """A distance as `k3`, a similarity as a number, equal parts as `2 parts`."""
    value = f"{point['threshold']:g}"
    return {"k": f"k{value}", "equal": f"{value} parts"}.get(point["threshold_name"], value)
