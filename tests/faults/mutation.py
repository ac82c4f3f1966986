"""Damage to files, from lost bytes to hostile values: a pure function of the seed."""

import random

TOKENS = [
    b"", b"0", b"-1", b"1e999", b"-1e999", b"nan", b"inf", b"NaN", b"null", b"true", b"007",
    b"999999999999", b"9223372036854775808", b"1" * 40, b"9" * 5000, b"1.5", b"0x1F", b"1_000",
    b"\xd9\xa1\xd9\xa2", b"2024-13-45", b"99999-01-01", b"+262143-12-31", b"\x00", b"\xff\xfe",
    b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\x1b[2J", b"\r", b"\x0b", b'"', b"'",
    b'""', b'"a\nb"', b"a b", b"[]", b"{}", b"[1, 2]", b"{a: 1}", b"[" * 200, b"{" * 200,
    b"{a: " * 100, b"- " * 100, b"&x [*x]", b"*first", b"<<: 3", b"<<: [1]", b"!!int", b"!!float x",
    b"!!binary x", b"!!timestamp x", b"!!python/name:os.system", b"? a", b"a: b: c", b"%YAML 1.1",
    b"---", b"{grid: [1, 2]}", b"{grid: []}", b"{search: [1]}", b"{search: {low: 2, high: 1}}",
    b"os:system", b"this:s", b"..", b"../../x", b"/etc/passwd", b"x" * 300, b"y" * 70000, b"{here}",
    b"{root}{root}", b"&#10;", b"&lt;", b"<a>", b"kind", b"models", b"user", b"item", b"rating",
    b"|", b"-", b":", b"::", b",", b";", b"\t", b"=", b"#", b"Q0", b"(1,2)", b"1:1", b"5:x",
]  # fmt: skip
SEPARATORS = b" ,\t:;|\n=-[]{}()<>\"'/"


def mutated(content: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """The content after one to four changes; others: what else the bytes may come from."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        content = rng.choice(CHANGES)(content, rng, others)
    return content[:200_000]


def _flipped(content, rng, others):
    if not content:
        return b"\x00"
    place = rng.randrange(len(content))
    return content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :]


def _span(content, rng):
    first = rng.randrange(len(content) + 1)
    return first, min(len(content), first + rng.choice((1, 2, 5, 20, 200)))


def _lost(content, rng, others):
    first, last = _span(content, rng)
    return content[:first] + content[last:]


def _doubled(content, rng, others):
    first, last = _span(content, rng)
    return content[:last] + content[first:last] * rng.choice((1, 1, 3, 100)) + content[last:]


def _inserted(content, rng, others):
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.randbytes(rng.choice((1, 3, 10))) + content[place:]


def _cut(content, rng, others):
    return content[: rng.randrange(len(content) + 1)]


def _tokens(content):
    """(first, last) of every run of bytes between separators."""
    found, first = [], 0
    for place in range(len(content) + 1):
        if place == len(content) or content[place] in SEPARATORS:
            if place > first:
                found.append((first, place))
            first = place + 1
    return found


def _token(content, rng, others):
    found = _tokens(content[:20_000])
    first, last = rng.choice(found) if found else (0, 0)
    return content[:first] + rng.choice(TOKENS) + content[last:]


def _swapped(content, rng, others):
    found = _tokens(content[:20_000])
    if len(found) < 2:
        return content
    (a, b), (c, d) = sorted(rng.sample(found, 2))
    return content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]


def _column(content, rng, others):
    """One place of every line holds the same wrong value."""
    token, place = rng.choice(TOKENS), rng.randrange(8)
    mark = rng.choice((b",", b"\t", b"|", b"::", b" ", b":"))
    rows = [line.split(mark) for line in content.split(b"\n")]
    for number, row in enumerate(rows):
        if place < len(row) and (number or rng.random() < 0.3):
            row[place] = token
    return b"\n".join(mark.join(row) for row in rows)


def _lines(content, rng, others):
    rows = content.split(b"\n")
    place, kind = rng.randrange(len(rows)), rng.randrange(5)
    if kind == 0:
        del rows[place]
    elif kind == 1:
        rows.insert(place, rows[rng.randrange(len(rows))])
    elif kind == 2:
        rng.shuffle(rows)
    elif kind == 3:
        rows[place] = rng.choice(TOKENS)
    else:
        rows[place:] = [rows[place]] * rng.choice((2, 50, 1000))
    return b"\n".join(rows)


def _indented(content, rng, others):
    rows = content.split(b"\n")
    place = rng.randrange(len(rows))
    rows[place] = b" " * rng.choice((1, 2, 4, 400)) + rows[place]
    return b"\n".join(rows)


def _encoded(content, rng, others):
    text = content.decode("latin-1")
    kind = rng.choice(("utf-16", "utf-16-be", "utf-32", "cr", "crlf", "bom"))
    if kind == "cr":
        return content.replace(b"\n", b"\r")
    if kind == "crlf":
        return content.replace(b"\n", b"\r\n")
    return b"\xef\xbb\xbf" + content if kind == "bom" else text.encode(kind)


def _other(content, rng, others):
    """Another format's file under this one's name, or its head on this one's body."""
    strange = rng.choice(others)
    place = rng.randrange(len(content) + 1)
    return rng.choice((strange, strange[: len(strange) // 2] + content[place:]))


CHANGES = (
    _flipped, _lost, _doubled, _inserted, _cut, _token, _token, _token, _swapped, _column, _column,
    _lines, _lines, _indented, _encoded, _other,
)  # fmt: skip
