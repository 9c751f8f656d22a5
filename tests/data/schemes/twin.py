"""A twin of the schemes, written after docs/schemes.md. It makes all of vectors.jsonl, but for the texts of pages.

    python tests/data/schemes/twin.py

It needs Python 3.11 or later and xxhash, and takes the properties of characters from the table of the schemes. A text
may have characters that the Unicode of Python does not know only if nothing of them decomposes or composes.
"""

import bisect
import collections
import itertools
import json
import pathlib
import re
import sys
import unicodedata

from xxhash import xxh3_64_intdigest as xxh3

HERE = pathlib.Path(__file__).resolve().parent
TABLES = (HERE.parents[2] / "src/text/unicode/ranges.rs").read_text("utf-8")
RUNS = TABLES.partition("RUNS")[2].partition("];")[0]
RUNS = [int(number, 16) for number in re.findall("0x([0-9A-F]+)", RUNS)]
RADICALS = re.findall(r"\(0x(2E[0-9A-F]{2}), 0x(2E[0-9A-F]{2}), 1, (-?\d+)\)", TABLES)
VOWEL_LETTERS = re.findall(r"\('\\u{(9\w+|[a-d]\w\w)}', '\\u{(\w+)}', '\\u{(\w+)}'\)", TABLES)
PARTING, MARK, WORD, KATAKANA, SINGLE = range(5)
DROPPED, ASSIGNED = 0x08, 0x40

SHINGLE_SEED = 0x73696D6462007301
SEEDS = {"simhash-1": 0x73696D6462000001, "simhash-2": 0x73696D6462000005, "content-1": 0x73696D6462000003}
SEEDS |= dict.fromkeys(("minwise-1", "minwise-short-1"), 0x73696D6462000002)

VIRAMA = "\u0d4d"
FOLDS = {"ı": "i", "\u0326": "\u0327", "ى": "ي", "ی": "ي", "ک": "ك", "ھ": "ه", "ہ": "ه", "ە": "ه", "ۃ": "ه", "ة": "ه"}
FOLDS |= {chr(code): chr(code + int(more)) for a, b, more in RADICALS for code in range(int(a, 16), int(b, 16) + 1)}
FOLDS |= {"ஶ": "ஸ"}
FOLDS |= {chr(int(a, 16)): chr(int(b, 16)) + chr(int(c, 16)) for a, b, c in VOWEL_LETTERS}
READ_AS = dict.fromkeys(map(ord, "℠™ℹㆍ"), " ") | {0x309B: "\u3099", 0x309C: "\u309a"}
FOLDS |= dict.fromkeys("ÐðƉɖ", "đ") | {"ٱ": "ا", "ګ": "گ", "Ǝ": "ə", "ǝ": "ə", "\u0329": "\u0323", "\u0901": "\u0902"}
FOLDS |= {"װ": "וו", "ױ": "וי", "ײ": "יי", "ৎ": "\u09a4\u09cd"}
CHILLUS = dict(zip("ൔൕൖൺൻർൽൾൿ", "മയഴണനരലളക"))
FOLDS |= {old: new + VIRAMA for old, new in CHILLUS.items()}
LOST_ON_GREEK = "\u0300\u0301\u0302\u0303\u0304\u0306\u0308\u0311\u0313\u0314\u0342"


def properties(character):
    """What the table says of a character."""
    return RUNS[bisect.bisect(RUNS, ord(character) << 8 | 0xFF) - 1] & 0xFF


PLACES = ("\u0ebc\u103b-\u103e\u17c9\u17ca\u17cc",)
PLACES += ("\u0e31\u0e34-\u0e3a\u0e47\u0eb1\u0eb4-\u0ebb\u102d-\u1030\u1032\u17b6-\u17c5",)
PLACES += ("\u0e48-\u0e4c\u0e4e\u0ec8-\u0ecc\u0ece\u1036\u17c6-\u17c8\u17cb\u17cd-\u17d1", "\u0e4d\u0ecd")
AS_ONE = {"\u0e40\u0e40": "\u0e41", "\u0ec0\u0ec0": "\u0ec1", "\u17b6\u17c1": "\u17c4", "\u17b8\u17c1": "\u17be"}
AS_ONE |= {"\u093e" + sign: one for sign, one in zip("\u0945\u0946\u0947\u0948", "\u0949\u094a\u094b\u094c")}
AS_ONE |= {"\u0abe" + sign: one for sign, one in zip("\u0ac5\u0ac7\u0ac8", "\u0ac9\u0acb\u0acc")}
INDIA = {0x3C: 0} | dict.fromkeys((0x3A, 0x3B, *range(0x3E, 0x4D), 0x4E, 0x4F, *range(0x55, 0x58), 0x62, 0x63), 1)
INDIA |= dict.fromkeys(range(4), 2)
SPACE, LINE_END, SMALL = " \t\v\f\u00a0", "\n\r\x85\u2028\u2029", "a-z\u00df-\u00f6\u00f8-\u017f\u03ac-\u03ce\u0430-\u045f"
BREAK = f"[{SPACE}]*[{LINE_END}][{SPACE}{LINE_END}]*"
ONE_BREAK = f"[{SPACE}]*(?:\r\n|[{LINE_END}])[{SPACE}]*"
GOES = (r"\x1b\[[ -?]*[mKhl]", r"\x1b[(-/][!-~]", r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
GOES += (f"[{LINE_END}]*[\u00ad\x02\ufffe]{BREAK}",)
GOES += (f"([{SMALL}][\u0300-\u036f]*)(?:[\\-\u2010\u00ac\u2e17]{ONE_BREAK}|[\x02\ufffe])(?=[{SMALL}])",)
IN_CIRCLE = {chr(code + at): str(number + at) for code, number, last in (
    (0x24EB, 11, 10), (0x24F5, 1, 10), (0x24FF, 0, 1), (0x2776, 1, 10), (0x2780, 1, 10), (0x278A, 1, 10)) for at in range(last)}
ROWS = ("\u0919\u094d(?=[\u0915-\u0918])", "\u091e\u094d(?=[\u091a-\u091d])", "\u0923\u094d(?=[\u091f-\u0922])")
ROWS += ("\u0928\u094d(?=[\u0924-\u0927])", "\u092e\u094d(?=[\u092a-\u092d])")


def arranged(run):
    """The marks of a letter of Thai, Lao, Khmer or Myanmar in order, each once. Those of two scripts stay apart."""
    scripts = ["".join(marks) for _, marks in itertools.groupby(run, lambda mark: ord(mark) >> 7)]
    if len(scripts) > 1:
        return "".join(map(arranged, scripts))
    place = {mark: next(place for place, marks in enumerate(PLACES) if re.match(f"[{marks}]", mark)) for mark in run}
    return "".join(sorted(place, key=lambda mark: (place[mark], unicodedata.combining(mark), mark)))


def arranged_in_india(run):
    """The same of India, where marks of one place stay as they are."""
    blocks = itertools.groupby(run, lambda mark: ord(mark) >> 7)
    marks = "".join("".join(sorted(marks, key=lambda mark: INDIA[ord(mark) & 0x7F])) for _, marks in blocks)
    return "".join(mark for mark, _ in itertools.groupby(marks))


def kind(character):
    return properties(character) & 0x07


def is_letter(character):
    is_of_syllable = "\u1160" <= character <= "\u11ff"
    return kind(character) == WORD and unicodedata.category(character)[0] != "N" and not is_of_syllable


OF_INDIA = "".join(chr(code) for code in range(0x900, 0xD80) if code & 0x7F in INDIA and kind(chr(code)) == MARK)


def with_notes_apart(piece):
    """A space before each superscript and each fraction behind a word of three letters."""
    letters, apart = 0, ""
    for character in piece:
        if properties(character) & DROPPED:
            apart += character
            continue
        if letters >= 3 and re.match("[²³¹⁰⁴-⁹¼-¾⅐-⅟↉]", character):
            apart += " "
        letters = letters if kind(character) == MARK else letters + 1 if is_letter(character) else 0
        apart += character
    return apart


def is_lost(mark, letter):
    of_i, of_ra = letter in ("i", "j") and mark == "\u0307", letter == "\u0930" and mark == "\u093c"
    of_ie, of_alef = letter == "\u0435" and mark == "\u0308", letter in set("اهويے") and mark in "\u0653\u0654\u0655"
    of_stress = letter in set("аеиоуыэюяєі") and mark in "\u0300\u0301"
    return of_i or of_ra or of_ie or of_alef or of_stress or "\u0370" <= letter <= "\u03ff" and mark in LOST_ON_GREEK


def folded(piece):
    """A piece of a text without characters that the version of Unicode does not have."""
    letter, result, before = "", "", ""
    piece = with_notes_apart(piece)
    seen = "".join(c for c in piece if not properties(c) & DROPPED).translate(READ_AS)
    seen = re.sub("(?<=[0-9])([¼-¾⅐-⅟↉²³¹⁰⁴-⁹])", r" \1", seen)
    seen = re.sub("([①-⑳⓪-⓿❶-➓㉑-㉟㊱-㊿])", lambda one: f" {IN_CIRCLE.get(one.group(), one.group())} ", seen)
    for character in unicodedata.normalize("NFKD", seen):
        if properties(character) & DROPPED:
            continue
        before, behind = character, before
        is_doubled = character == VIRAMA and behind in CHILLUS
        if is_doubled or letter and kind(character) == MARK and is_lost(character, letter):
            continue
        digit = unicodedata.decimal(character, None)
        fold = FOLDS.get(character) or (character.casefold() if digit is None else str(digit))
        if letter == "ե" and fold == "վ":
            fold = "ւ"
        letter = fold[0] if kind(fold[0]) != MARK else letter
        result += fold
    result = re.sub(f"[{''.join(PLACES)}]+", lambda run: arranged(run.group()), result)
    result = re.sub(f"[{OF_INDIA}]+", lambda run: arranged_in_india(run.group()), result)
    result = re.sub("|".join(AS_ONE), lambda two: AS_ONE[two.group()], result)
    result = re.sub("\u0bbe(?=[\u0bbf\u0bc0\u0bcd])", "\u0bb0", result.replace("\u0930\u094d\u0907", "\u0908"))
    result = re.sub("|".join(ROWS), "\u0902", result)
    return unicodedata.normalize("NFC", re.sub(f"([{''.join(PLACES)}{OF_INDIA}])\\1+", r"\1", result))


def normalised(text):
    text = re.sub("|".join(GOES), lambda part: part.group(1) or "", text)
    pieces = itertools.groupby(text, key=lambda character: bool(properties(character) & (ASSIGNED | DROPPED)))
    return "".join(folded("".join(piece)) if is_known else "".join(piece) for is_known, piece in pieces)


def tokens(text):
    """The tokens of a normalised text."""
    found, before = [], PARTING
    for character in text:
        now = kind(character)
        if now == MARK and before == PARTING:
            continue
        if now == MARK or now == before != SINGLE and now != PARTING:
            found[-1] += character
            continue
        if now != PARTING:
            found.append(character)
        before = now
    return found


def is_too_short(words, least):
    orders, runs = len(set(words)) ** 4, set(zip(words, words[1:], words[2:], words[3:]))
    return len(words) < least or orders < 2 * len(words) and 4 * len(runs) >= orders


def number_bytes(*numbers):
    return b"".join(number.to_bytes(8, "little") for number in numbers)


def features(words, scheme):
    """The hash of each feature, as often as it occurs."""
    seed = SEEDS[scheme]
    for place, word in enumerate(words):
        length = (3 if kind(word[0]) == SINGLE else 2) - (scheme == "simhash-1")
        if len(some := words[place : place + length]) == length:
            hashes = (xxh3(token.encode(), seed) for token in some)
            yield xxh3(" ".join(some).encode() if scheme == "simhash-1" else number_bytes(*hashes), seed)


def first_thrown(hashes, bins, seed):
    """For each bin, the features of the first round that throws any there: the hash of the round, and the feature."""
    found = [[] for _ in range(bins)]
    for number in range(2 * bins):
        if [] not in found:
            break
        thrown = [[] for _ in range(bins)]
        for feature in hashes:
            value = xxh3(number_bytes(feature), (seed + number) % 2**64) if number else feature
            thrown[value * bins >> 64 if number < bins else number - bins].append((value, feature))
        found = [before or now for before, now in zip(found, thrown)]
    return found


def bits(values):
    return sum(value << place for place, value in enumerate(values))


def minwise(hashes, bins, seed):
    """Bit i is the sample of bin i."""
    turned = [[value * bins % 2**64 | value * bins >> 64 for value, _ in bin] for bin in first_thrown(hashes, bins, seed)]
    return bits(min(values) // bins % 2 for values in turned)


def fingerprint(weights, units, scheme):
    """Of features by their hashes, each with its weight; minwise samples are of the units."""
    if scheme == "simhash-1":
        votes = [[weight * (hash >> bit & 1 or -1) for hash, weight in weights.items()] for bit in range(64)]
    elif scheme == "simhash-2":
        bins = first_thrown(weights, 64, SEEDS[scheme])
        votes = [[weights[feature] * (value & 1 or -1) for value, feature in bin] for bin in bins]
    else:
        return f"{minwise(units, 64, SEEDS[scheme]):016x}"
    return f"{bits(sum(bit) > 0 for bit in votes):016x}"


def sketches(hashes):
    made = {f"sketch{size}": minwise(hashes, 8 * size, SHINGLE_SEED).to_bytes(size, "little").hex() for size in (16, 32)}
    return made | {"shingles": len(hashes)}


def of_text(text, schemes):
    plain = normalised(text)
    words, prints, shingles = tokens(plain), {}, set()
    for scheme in schemes:
        prints[scheme] = None
        if not is_too_short(words, 4 if scheme == "minwise-short-1" else 8):
            counts = collections.Counter(features(words, scheme))
            weights = {hash: count.bit_length() if scheme == "simhash-1" else 1 for hash, count in counts.items()}
            prints[scheme] = fingerprint(weights, weights, scheme)
            hashes = [xxh3(word.encode(), SHINGLE_SEED) for word in words]
            shingles = {xxh3(number_bytes(*hashes[i : i + 4]), SHINGLE_SEED) for i in range(len(words) - 3)}
    return {"normalised": plain, "tokens": words, "fingerprints": prints} | (sketches(shingles) if shingles else {})


def of_features(features, scheme):
    weights = collections.Counter()
    for feature, weight in features:
        weights[xxh3(feature.encode(), SEEDS[scheme])] += max(1, int(weight * 16 + 0.5))
    if len(weights) < (4 if scheme == "minwise-short-1" else 8):
        return {"fingerprints": {scheme: None}}
    units = [number_bytes(hash) + unit.to_bytes(4, "little") for hash in weights for unit in range(weights[hash])]
    own = [xxh3(unit, SEEDS[scheme]) for unit in units]
    shingles = {xxh3(unit, SHINGLE_SEED) for unit in units}
    return {"fingerprints": {scheme: fingerprint(weights, own, scheme)}} | sketches(shingles)


def main():
    lines = (HERE / "vectors.jsonl").read_text("utf-8").splitlines()
    differing = 0
    for number, vector in enumerate(map(json.loads, lines), 1):
        schemes = list(vector["fingerprints"])
        made = of_text(vector["text"], schemes) if "text" in vector else of_features(vector["features"], *schemes)
        for name in made | {name: vector.get(name) for name in ("sketch16", "sketch32", "shingles")}:
            if made.get(name) != vector.get(name):
                print(f"vector {number}, {vector['about']}: {name} is {made.get(name)}, not {vector.get(name)}")
                differing += 1
    print(f"{len(lines)} vectors, {differing} values differ")
    return min(differing, 1) if lines else 2


if __name__ == "__main__":
    sys.exit(main())
