"""Sparse rows read back: what the tests of encoding have in common."""


def decode(rows, labels):
    """Per row {label: value}, values rounded to six places."""
    return [
        {labels[rows.column[e]]: round(float(rows.value[e]), 6) for e in range(start, end)}
        for start, end in zip(rows.start, rows.start[1:])
    ]
