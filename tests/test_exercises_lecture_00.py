"""The practice exercise: right answers that look unusual pass, wrong ones get a sentence of use."""

import itertools

import numpy as np
import pytest

from course_utils.exercises.lecture_00 import pad_rows


def joined_and_padded(rows, value):
    width = max(map(len, rows))
    return np.stack([np.pad(row, (0, width - len(row)), constant_values=value) for row in rows])


def by_a_mask(rows, value):
    lengths = np.array([len(row) for row in rows])
    table = np.full((len(rows), lengths.max()), float(value))
    table[np.arange(lengths.max()) < lengths[:, None]] = np.concatenate(rows)
    return table


def columns_first(rows, value):
    return np.array(list(itertools.zip_longest(*rows, fillvalue=value))).T


def entry_by_entry(rows, value):
    width = 0
    for row in rows:
        width = len(row) if len(row) > width else width
    return np.array([[float(row[t]) if t < len(row) else value for t in range(width)] for row in rows])


RIGHT = [joined_and_padded, by_a_mask, columns_first, entry_by_entry]


def integer_table(rows, value):
    table = np.full((len(rows), max(map(len, rows))), int(value))
    for i, row in enumerate(rows):
        table[i, :len(row)] = row
    return table


def list_of_lists(rows, value):
    return [list(line) for line in by_a_mask(rows, value)]


def ragged(rows, value):
    return np.array(rows)


def stacked(rows, value):
    return np.stack(rows)


def longest_by_max(rows, value):
    return np.full((len(rows), len(max(rows))), value)


def longer_rows_into_short_lines(rows, value):
    table = np.full((len(rows), len(rows[0])), value)
    for line, row in zip(table, rows):
        line[:len(row)] = row
    return table


def never_written(rows, value):
    return np.full((len(rows), max(map(len, rows))), value)


def returned_in_the_loop(rows, value):
    table = np.full((len(rows), max(map(len, rows))), value)
    for line, row in zip(table, rows):
        line[:len(row)] = row
        return table


def cut_off(rows, value):
    return by_a_mask(rows, value)[:-1]


def rows_overwritten(rows, value):
    for i, line in enumerate(by_a_mask(rows, value)):
        rows[i] = line
    return np.stack(rows)


# (answer, what its message must contain)
WRONG = [
    (integer_table, "loses its fraction"),
    (list_of_lists, "The numbers in it are right"),
    (ragged, "different lengths or shapes"),
    (stacked, "can't be stacked"),
    (longest_by_max, "Compare the shapes on both sides of the operation"),
    (longer_rows_into_short_lines, "a place of another size: compare the shapes"),
    (never_written, "Compare the shape of your table first"),
    (returned_in_the_loop, "Right in the case “a single row”"),
    (cut_off, "1 row too few"),
    (rows_overwritten, "changes its argument `rows`"),
    # ones that pass where all rows have one length, or one value fills everywhere
    (lambda rows, value: by_a_mask(rows, -1.0), "should be"),
    (lambda rows, value: by_a_mask([np.abs(row) for row in rows], value), "should be"),
    (lambda rows, value: np.where(by_a_mask(rows, value) == 0, value, by_a_mask(rows, value)), "every 0"),
    (lambda rows, value: by_a_mask([np.sort(row) for row in rows], value), "should be"),
    (lambda rows, value: by_a_mask(rows, value)[:, :4], "should be a NumPy array of shape"),
    (lambda rows, value: np.atleast_2d(np.squeeze(by_a_mask(rows, value)).T).T, "a single row"),
]


@pytest.mark.parametrize("answer", RIGHT)
def test_right_but_unusual_answers_pass(answer):
    result = pad_rows.check(answer)
    assert result.status == "passed", result.message


@pytest.mark.parametrize("answer, says", WRONG)
def test_wrong_answers_get_a_sentence_that_helps(answer, says):
    result = pad_rows.check(answer)
    assert result.status == "failed"
    assert says in result.message
