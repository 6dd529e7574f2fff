"""The practice exercise of the start page: it needs no mathematics and shows how every exercise works."""

import numpy as np

from course_utils.exercises.engine import Exercise, Mistake, Probe


def pad_rows(rows: list[np.ndarray], value: float) -> np.ndarray:
    """Make one table of rows of different lengths: the short ones are filled up at their end.

    rows: a list of 1-D arrays of numbers, each with at least one entry.  value: what to fill with.
    Returns a 2-D array with one line for each row, as wide as the longest row.  No argument is changed.
    """
    table = np.full((len(rows), max(len(row) for row in rows)), value, dtype=float)
    for line, row in zip(table, rows):
        line[: len(row)] = row
    return table


def _pad_at_the_start(rows: list[np.ndarray], value: float) -> np.ndarray:
    width = max(len(row) for row in rows)
    return np.stack([np.concatenate([np.full(width - len(row), value), row]) for row in rows])


def _fill_with_zero(rows: list[np.ndarray], value: float) -> np.ndarray:
    return pad_rows.reference(rows, 0.0)


def _cut_to_the_shortest(rows: list[np.ndarray], value: float) -> np.ndarray:
    width = min(len(row) for row in rows)
    return np.stack([row[:width] for row in rows])


def _as_wide_as_the_first(rows: list[np.ndarray], value: float) -> np.ndarray:
    width = len(rows[0])
    return np.stack([np.concatenate([row, np.full(width, value)])[:width] for row in rows])


def _repeat_the_last_number(rows: list[np.ndarray], value: float) -> np.ndarray:
    width = max(len(row) for row in rows)
    return np.stack([np.pad(row, (0, width - len(row)), mode="edge") for row in rows])


def _reversed(rows: list[np.ndarray], value: float) -> np.ndarray:
    return pad_rows.reference([row[::-1] for row in rows], value)


def _transposed(rows: list[np.ndarray], value: float) -> np.ndarray:
    return pad_rows.reference(rows, value).T


def _sorted_by_length(rows: list[np.ndarray], value: float) -> np.ndarray:
    return pad_rows.reference(sorted(rows, key=len, reverse=True), value)


def _sorted_from_the_shortest(rows: list[np.ndarray], value: float) -> np.ndarray:
    return pad_rows.reference(sorted(rows, key=len), value)


def _end_to_end(rows: list[np.ndarray], value: float) -> np.ndarray:
    return np.concatenate(rows)


def _table_end_to_end(rows: list[np.ndarray], value: float) -> np.ndarray:
    return pad_rows.reference(rows, value).ravel()


def _added(rows: list[np.ndarray], value: float) -> np.ndarray:
    table = np.full((len(rows), max(len(row) for row in rows)), value, dtype=float)
    for line, row in zip(table, rows):
        line[: len(row)] += row
    return table


def _whole_numbers(rows: list[np.ndarray], value: float) -> np.ndarray:
    return np.trunc(pad_rows.reference(rows, value)).astype(int)


def _zeros_replaced(rows: list[np.ndarray], value: float) -> np.ndarray:
    table = pad_rows.reference(rows, 0.0)
    table[table == 0] = value
    return table


def _one_column_too_many(rows: list[np.ndarray], value: float) -> np.ndarray:
    return np.stack([np.concatenate([line, [value]]) for line in pad_rows.reference(rows, value)])


def _as_wide_as_all_rows_together(rows: list[np.ndarray], value: float) -> np.ndarray:
    width = sum(len(row) for row in rows)
    return np.stack([np.concatenate([row, np.full(width - len(row), value)]) for row in rows])


def _numbers(*lengths: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(1, 2, size=length).round(2) for length in lengths]


_SORTED = ("Your lines are in the order of the rows' lengths. Line i must hold row i: whoever uses the table knows the "
           "rows by their places.")

pad_rows = Exercise(
    "0.1", "Make one table of rows of different lengths", pad_rows, "table",
    probes=[
        Probe("three rows, the second is the longest", lambda: (_numbers(2, 4, 3, seed=1), -1.0)),
        Probe("the first row is the longest", lambda: (_numbers(5, 1, seed=2), 9.5)),
        Probe("equal lengths: nothing to fill", lambda: (_numbers(3, 3, seed=3), 0.5)),
        Probe("zeros among the numbers", lambda: ([np.array([0.0, 1.5]), np.array([-2.0, 0.0, 3.0])], 4.0)),
        Probe("a single row", lambda: (_numbers(4, seed=4), 7.0)),
    ],
    mistakes=[
        Mistake(_pad_at_the_start, "Your numbers are at the end of each line and the filling before them. Fill up at "
                "the end: a row starts in column 0, so that column t holds number t of every row."),
        Mistake(_fill_with_zero, "Your table is filled with 0, whatever `value` is. Use the argument: with numbers as "
                "data, a 0 could not be told from a real one."),
        Mistake(_cut_to_the_shortest, "You cut every row to the length of the shortest, and numbers are lost. The "
                "table is as wide as the longest row; the short ones are filled up."),
        Mistake(_as_wide_as_the_first, "Your table is as wide as the first row. Its width is the largest of all "
                "lengths, wherever that row stands."),
        Mistake(_repeat_the_last_number, "You repeat the last number of a row instead of filling with `value`: made-up "
                "data look like real ones."),
        Mistake(_reversed, "Your rows run from their last number to their first. Number t of a row belongs in "
                "column t."),
        Mistake(_transposed, "Rows and columns are swapped: one line for each row, so the table has `len(rows)` lines. "
                "Its transpose is right."),
        Mistake(_sorted_by_length, _SORTED),
        Mistake(_sorted_from_the_shortest, _SORTED),
        Mistake(_end_to_end, "You join all rows end to end into one long array, and nobody can tell where a row ends. "
                "A table has two axes: one line for each row."),
        Mistake(_table_end_to_end, "You return the right numbers in one long array. A table has two axes, "
                "(number of rows, width): leave out `ravel` or `flatten`, or stack the lines instead of joining them."),
        Mistake(_added, "You add the row to a line that is full of `value` already, so that every number is too large "
                "by `value`. Assign instead: `=`, not `+=`."),
        Mistake(_whole_numbers, "Your table holds whole numbers, so that every number loses its fraction: numbers that "
                "are written into an array take its dtype. Make a table of floats, `dtype=float`."),
        Mistake(_zeros_replaced, "You replace every 0 by `value`, zeros of the data included. Fill only what lies "
                "behind the end of a row: start with a table full of `value`."),
        Mistake(_one_column_too_many, "Your table is one column too wide. It is as wide as the longest row, which gets "
                "no filling."),
        Mistake(_as_wide_as_all_rows_together, "Your table is as wide as all rows together. Its width is the largest "
                "of the lengths, not their sum."),
    ],
    hints=(
        "How many lines and columns has the table, and what is in it before any row is written?",
        "Make a table full of `value` with `np.full`, then write each row over the start of its line.",
        "The table has `len(rows)` lines and `max(len(row) for row in rows)` columns; `dtype=float` keeps it from "
        "taking over the type of `value`. In a loop over i, write `rows[i]` into `table[i, :len(rows[i])]`.",
    ),
    minutes=5, difficulty=1,
    advice="Compare the shape of your table first, then one line at a time.",
)
