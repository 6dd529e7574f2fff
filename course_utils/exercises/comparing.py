"""Compare an answer with what is right, and say in words how they differ.

Values are numbers, NumPy arrays or torch tensors, possibly nested in lists and tuples. `returns` names them:
"hs" is one value, ("dWx", "dWh") a tuple of two, ["grads"] a list of any length, [("loss", "dWh")] a list of pairs.
"tokens" may also be one list of whole numbers, which is then looked at, and shown, as a whole.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

Returns = str | tuple | list
_FLOAT32 = (np.float32, torch.float32)


@dataclass(frozen=True)
class Case:
    """One probe: its name, what is right, and what the answer gave."""

    name: str
    expected: object
    got: object


def agree(a: object, b: object, rtol: float, atol: float) -> bool:
    """Whether two nested values hold the same numbers.

    Tolerances are for float64. Where one side is float32 they are 1e-4 and 1e-5, so that a right computation in
    single precision is right. A list and a tuple, or a number and a 0-d array, count as the same.
    """
    if isinstance(a, (list, tuple)) or isinstance(b, (list, tuple)):
        both = isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b)
        return both and all(agree(x, y, rtol, atol) for x, y in zip(a, b, strict=True))
    if not (is_numeric(a) and is_numeric(b)):
        return a is None and b is None  # an entry that never got a value
    if getattr(a, "dtype", None) in _FLOAT32 or getattr(b, "dtype", None) in _FLOAT32:
        rtol, atol = max(rtol, 1e-4), max(atol, 1e-5)
    x, y = as_array(a), as_array(b)
    return x.shape == y.shape and np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=True)


def is_numeric(value: object) -> bool:
    """Whether `value` is a real number or an array or tensor of real numbers."""
    if isinstance(value, torch.Tensor):
        return not value.is_complex()
    return isinstance(value, (int, float, np.generic, np.ndarray)) and np.asarray(value).dtype.kind in "fiub"


def as_array(value: object) -> np.ndarray:
    """A number, array or tensor as a float64 array."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().to(torch.float64).numpy()
    return np.asarray(value, dtype=np.float64)


def kind_of(value: object) -> str:
    """What `value` is, with its shape: "an array of shape (5, 4)"."""
    if isinstance(value, torch.Tensor):
        return f"a torch tensor of shape {tuple(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"a NumPy array of shape {value.shape}"
    if isinstance(value, (list, tuple, dict)):
        return f"a {type(value).__name__} of length {len(value)}"
    if value is None or isinstance(value, (bool, str)):
        return repr(value)[:60]
    return "a number" if is_numeric(value) else f"a {type(value).__name__}"


def leaves(value: object, returns: Returns) -> list[tuple[str, str, object]]:
    """The values inside a nested value, each with its kind and its name: ("`dWh`", "`dWh` of `result[0]`", value)."""
    if isinstance(returns, str):
        return [(f"`{returns}`", f"`{returns}`", value)]
    if isinstance(returns, tuple):
        return [leaf for name, v in zip(returns, value, strict=True) for leaf in leaves(v, name)]
    simple = isinstance(returns[0], str)
    return [(kind, f"`result[{i}]`" if simple else f"{name} of `result[{i}]`", leaf)
            for i, v in enumerate(value) for kind, name, leaf in leaves(v, returns[0])]


# ---- structure: type, length, shape, dtype, NaN -------------------------------------------------------------------

def structure_problem(expected: object, got: object, returns: Returns, where: str = "") -> str | None:
    """A sentence about the first thing wrong with type, length, shape, dtype or NaN; None if all is well.

    `where` is "" for the whole result, or the name of the entry that is looked at.
    """
    if got is None and where:
        return f"{_named(returns, where)} is None: it never got a value."
    if got is None:
        return ("Your function returned None: did you forget `return`? (Printing a value isn't returning it.)"
                f" Expected: {_wanted(expected, returns)}.")
    if isinstance(expected, list) and isinstance(returns, str):
        return _tokens_problem(expected, got, _named(returns, where))
    if isinstance(expected, (list, tuple)):
        return _sequence_problem(expected, got, returns, where)
    return _leaf_problem(expected, got, _named(returns, where))


def _named(returns: Returns, where: str) -> str:
    return f"`{returns}`{where.rstrip()}" if isinstance(returns, str) else where.removeprefix(" of ")


def _wanted(expected: object, returns: Returns) -> str:
    if isinstance(returns, str):
        return f"`{returns}`, {kind_of(expected)}"
    if isinstance(returns, tuple):
        return f"{len(returns)} values ({', '.join(map(str, returns))})"
    inner = returns[0] if isinstance(returns[0], str) else f"({', '.join(returns[0])})"
    return f"a list of {len(expected)} entries, each `{inner}`"


def _sequence_problem(expected: list | tuple, got: object, returns: Returns, where: str) -> str | None:
    wanted = _wanted(expected, returns)
    start = f"Expected {wanted}{' in' + where.removeprefix(' of') if where else ''}, but your function returned "
    if not isinstance(got, (list, tuple)):
        tip = ""
        if hasattr(got, "__next__") or isinstance(got, (map, filter)):
            tip = " Collect what it yields: `list(...)`."
        elif isinstance(got, dict):
            tip = " Return the values themselves, in that order."
        elif isinstance(returns, list) and isinstance(got, type(expected[0])) and got.shape == expected[0].shape:
            tip = " That has the shape of the first entry alone: is `return` inside the loop?"
        elif isinstance(got, np.ndarray):
            tip = " Keep the arrays apart, each in its own shape."
        return f"{start}{kind_of(got)} there.{tip}" if where else f"{start}{kind_of(got)}.{tip}"
    plain_list = isinstance(returns, list) and isinstance(returns[0], str)
    if plain_list and got and isinstance(got[0], list) and len(got[0]) == len(expected):
        return f"{start}{kind_of(got)} that has such a list inside: return that list alone."
    if len(got) != len(expected):
        one = len(got) == 1 or isinstance(returns[0], tuple) and isinstance(got, tuple) and len(got) == len(returns[0])
        tip = " Is `return` inside the loop?" if isinstance(returns, list) and one else ""
        return f"{start}{len(got)}.{tip}"
    for i, (e, g) in enumerate(zip(expected, got, strict=True)):
        if isinstance(returns, tuple):
            problem = structure_problem(e, g, returns[i], where or " ")  # " ": an entry, without more to say where
        elif isinstance(returns[0], str):
            problem = structure_problem(e, g, f"result[{i}]", " ")
        else:
            problem = structure_problem(e, g, returns[0], f" of `result[{i}]`")
        if problem:
            return problem
    return None


def _tokens_problem(expected: list, got: object, name: str) -> str | None:
    start = f"{name} should be a list of whole numbers, but "
    if not isinstance(got, (list, tuple)):
        tip = " Collect what it yields: `list(...)`." if hasattr(got, "__next__") else (
            " Make a list of it: `.tolist()`." if hasattr(got, "tolist") and np.ndim(as_array(got)) == 1 else "")
        return f"{start}yours is {kind_of(got)}.{tip}"
    for i, token in enumerate(got):
        if not is_numeric(token) or as_array(token).ndim:
            inside = " Return that list alone." if isinstance(token, list) else ""
            return f"{start}{_at(name, (i,))} is {kind_of(token)}.{inside}"
    if len(got) == len(expected):
        return None
    common = min(len(got), len(expected))
    how = f"{abs(len(got) - len(expected))} too {'many' if len(got) > len(expected) else 'few'}"
    how += ", and those in front are right" if common and agree(expected[:common], list(got)[:common], 0, 0) else ""
    return f"{name} should be {_listed(expected)}, but yours is {_listed(got)}: {how}."


def _listed(tokens: list | tuple, limit: int = 12) -> str:
    shown = ", ".join(f"{float(token):g}" for token in tokens[:limit])
    return f"[{shown}{f', … {len(tokens)} in all' if len(tokens) > limit else ''}]"


def _leaf_problem(expected: object, got: object, name: str) -> str | None:
    number = isinstance(expected, (int, float, np.generic)) or (hasattr(expected, "ndim") and expected.ndim == 0)
    wanted = "a single number" if number else kind_of(expected)
    if not is_numeric(got):
        return _not_numeric(expected, got, name, wanted)
    if not number and isinstance(got, torch.Tensor) != isinstance(expected, torch.Tensor):
        tip = ("The arguments are torch tensors: stay in torch (NumPy records no gradients)."
               if isinstance(expected, torch.Tensor) else
               "The arguments are NumPy arrays: stay in NumPy, or end with `.numpy()`.")
        return f"{name} should be {wanted}, but yours is {kind_of(got)}. {tip}"
    if np.shape(as_array(got)) != np.shape(as_array(expected)):
        return f"{name} should be {wanted}, but yours is {kind_of(got)}." + _shape_tip(expected, got)
    if as_array(got).size and as_array(got).dtype.kind == "f" and str(got_dtype(got)).endswith(("float16", "bool")):
        return f"{name} has dtype {got_dtype(got)}: compute in float64, the dtype of the arguments."
    whole = isinstance(expected, int) or "int" in got_dtype(expected)
    if "int" in got_dtype(expected) and "float" in got_dtype(got) and agree(expected, got, 1e-6, 1e-8):
        return (f"{name} has the right values, but dtype {got_dtype(got)}: ids index a table, keep them whole numbers. "
                "Is something made with `zeros` or `full` of floats?")
    if "int" in got_dtype(got) and not whole and not agree(expected, got, 1e-6, 1e-8):
        return (f"{name} has dtype {got_dtype(got)}, which holds whole numbers only: what you write into it loses its "
                "fraction. Make it an array of floats (no `dtype=int`, and no whole numbers to begin with).")
    values = as_array(got)
    bad = ~np.isfinite(values) & np.isfinite(as_array(expected))
    if bad.any():
        index = tuple(map(int, np.argwhere(bad)[0]))
        return (f"{_at(name, index)} is {values[index]}: some step divides by zero, takes the log of zero, "
                "or overflows.")
    return None


def got_dtype(value: object) -> str:
    """The dtype of an array or tensor, "" for a plain number."""
    return str(getattr(value, "dtype", ""))


def _not_numeric(expected: object, got: object, name: str, wanted: str) -> str:
    start = f"{name} should be {wanted}, but yours is {kind_of(got)}."
    if isinstance(got, (list, tuple)) and not np.isscalar(expected):
        try:
            stacked = np.stack([as_array(g) for g in got])
        except (TypeError, ValueError, RuntimeError):
            return start
        join = "torch.stack" if isinstance(expected, torch.Tensor) else "np.stack"
        if agree(as_array(expected), stacked, 1e-6, 1e-8):
            return f"{start} The numbers in it are right: join its rows with `{join}(...)`."
        return f"{start} Join the rows of a list with `{join}(...)`."
    if hasattr(got, "__next__"):
        return f"{start} Collect what it yields, and join it into one array."
    if "complex" in got_dtype(got):
        return f"{name} should be {wanted}, but yours is complex: is there a root or a power of a negative number?"
    if isinstance(got, np.ndarray):
        return f"{name} should be {wanted}, but yours has dtype {got.dtype}: are its rows of different lengths?"
    return start


def _shape_tip(expected: object, got: object) -> str:
    e, g = as_array(expected), as_array(got)
    if e.ndim and g.size == e.size and g.shape != e.shape and g.squeeze().shape == e.squeeze().shape:
        return " An axis of length 1 is too many or missing: a column isn't a vector."
    if e.ndim == 2 and g.shape == e.T.shape:
        return " Rows and columns are swapped." + (" The values are right: transpose." if np.allclose(g.T, e) else "")
    if e.ndim and g.ndim == e.ndim and g.shape[1:] == e.shape[1:]:
        more = g.shape[0] - e.shape[0]
        if len(g) == 1 < len(e):
            return " That is one row only: is `return` inside the loop?"
        return f" That is {abs(more)} {'row' if abs(more) == 1 else 'rows'} too {'many' if more > 0 else 'few'}."
    if g.ndim == 0 and e.ndim == 1:
        return " Is it summed over the units too? Each unit has an entry of its own."
    if e.ndim and g.shape == e.shape[1:]:
        return " That has the shape of one row: all rows are wanted."
    if 1 <= g.ndim < e.ndim and g.size == e.size:
        return (" The rows are joined end to end: `stack` makes a matrix of them (`np.stack`, `torch.stack`), "
                "`concatenate` one long vector.")
    if e.ndim == 0 and g.size == 1:
        return (" Take the axis off: `.squeeze()` or `.mean()`." if isinstance(expected, torch.Tensor) else
                " Take the number out of it: `.item()`.")
    if e.ndim == 0:
        return " Which sum or mean over it is missing?"
    if g.ndim > e.ndim:
        return " An axis too many: a column and a row, for example, broadcast to a matrix."
    return " Sum or mean taken over an axis that should stay?" if g.ndim < e.ndim else ""


# ---- values -------------------------------------------------------------------------------------------------------

Difference = tuple[str, str, np.ndarray, np.ndarray]  # case, name, expected, got


def describe(cases: list[Case], returns: Returns, rtol: float, atol: float) -> str:
    """Sentences on how the values differ; every case has the right structure, and at least one differs."""
    wrong: dict[str, list[Difference]] = {}
    right: list[str] = []
    for case in cases:
        for (kind, name, e), (_, _, g) in zip(leaves(case.expected, returns), leaves(case.got, returns), strict=True):
            if agree(e, g, rtol, atol):
                right.append(kind)
            else:
                wrong.setdefault(kind, []).append((case.name, name, as_array(e), as_array(g)))
    sentences = []
    if fine := [kind for kind in dict.fromkeys(right) if kind not in wrong]:
        sentences.append(f"{_and(fine)} {'is' if len(fine) == 1 else 'are'} right; {_and(list(wrong))} "
                         f"{'is' if len(wrong) == 1 else 'are'} not.")
    differences = [d for found in wrong.values() for d in found]
    sentences += [_which_cases([case.name for case in cases], {d[0] for d in differences}), *_patterns(wrong)]
    case, name, e, g = differences[0]
    if isinstance(returns, list) and "result[0]" not in name:
        sentences.append(f"{name} is the first that differs.")
    index = tuple(map(int, np.argwhere(~np.isclose(g, e, rtol=rtol, atol=atol, equal_nan=True))[0]))
    sentences.append(f"{_at(name, index)} should be {e[index]:.6g}, yours is {g[index]:.6g} (case “{case}”).")
    return " ".join(filter(None, sentences))


def _which_cases(names: list[str], wrong: set[str]) -> str:
    right = [f"“{name}”" for name in names if name not in wrong]
    if not right:
        return ""
    others = [f"“{name}”" for name in names if name in wrong]
    return (f"Right in the case{'s' * (len(right) > 1)} {_and(right)}, wrong in "
            f"{_and(others) if len(others) <= 2 else 'the others'}.")


def _patterns(wrong: dict[str, list[Difference]]) -> list[str]:
    together = _pattern([d for found in wrong.values() for d in found])
    if together:
        return [_sentence(_and(list(wrong)), together)]
    return [_sentence(kind, text) for kind, found in wrong.items() if (text := _pattern(found))]


def _sentence(subject: str, text: str) -> str:
    return f"{subject}: {text}" + ("" if text.endswith("?") else ".")


def _pattern(found: list[Difference]) -> str:
    """What all these differences have in common, "" if nothing is seen."""
    def every(test: Callable[[np.ndarray, np.ndarray], bool]) -> bool:
        with np.errstate(all="ignore"):
            return all(test(e, g) for _, _, e, g in found)

    close = np.allclose
    if every(lambda e, g: not g.any()):
        return "all zero"
    if every(lambda e, g: close(g, -e)):
        return "the right values with the opposite sign"
    if text := _factor(found):
        return text
    offsets = np.concatenate([(g - e).ravel() for _, _, e, g in found])
    if offsets.size > 1 and close(offsets, offsets[0], rtol=1e-3):
        return f"every value is {abs(offsets[0]):.4g} too {'large' if offsets[0] > 0 else 'small'}"
    for text, changed in _FUNCTIONS.items():
        if every(lambda e, g, changed=changed: close(g, changed(e))):
            return text
    rows = [(e, g) for _, _, e, g in found if e.ndim == 2 and len(e) > 1]
    if rows and every(lambda e, g: e.ndim == 2) and (text := _row_pattern(rows)):
        return text
    if every(lambda e, g: not g[~np.isclose(g, e)].any()):
        return "all the wrong entries are zero: were they never written?"
    if every(lambda e, g: close(g, e, rtol=2e-3)):
        return "close to the right values, but not equal: is something added (an epsilon), rounded or cut off?"
    if every(lambda e, g: close(np.sort(g, axis=None), np.sort(e, axis=None))):
        return "the right numbers in the wrong places"
    return ""


_FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "the logarithm of the right value: an `exp` is missing": np.log,
    "the `exp` of the right value: one `exp` too many": np.exp,
    "the square of the right value: a root is missing": np.square,
    "the square root of the right value: a root too many": np.sqrt,
    "one divided by the right value: a quotient is upside down, or a sign is wrong in an exponent": np.reciprocal,
}


def _factor(found: list[Difference]) -> str:
    """"0.5 times the right values" if that is so, with one factor for each case if they differ."""
    factors: dict[str, list[float]] = {}
    for case, _, e, g in found:
        k = float((e * g).sum() / (e * e).sum()) if e.any() else np.nan
        if not np.isfinite(k) or not np.allclose(g, k * e, rtol=1e-5, atol=1e-9):
            return ""
        factors.setdefault(case, []).append(k)
    flat = [k for ks in factors.values() for k in ks]
    if len(flat) == 1 and found[0][2].size == 1:
        return ""  # one number is always a multiple of another
    if np.allclose(flat, flat[0]):
        return f"{flat[0]:.4g} times the right values, throughout: which constant is missing or too many?"
    if all(np.allclose(ks, ks[0]) for ks in factors.values()):
        if all(e.size == 1 for _, _, e, _ in found):
            return ""
        listed = ", ".join(f"{ks[0]:.4g} in “{case}”" for case, ks in list(factors.items())[:2])
        return f"the right values times one factor in each case ({listed}): the direction is right, the length isn't"
    if any(e.size == 1 for _, _, e, _ in found):
        return ""
    return "each array is the right one times a factor of its own: they must share one factor"


def _row_pattern(rows: list[tuple[np.ndarray, np.ndarray]]) -> str:
    """Patterns of matrices: transposed, shifted, reversed, right up to some row."""
    def every(test: Callable[[np.ndarray, np.ndarray], bool]) -> bool:
        return all(test(e, g) for e, g in rows)

    close = np.allclose
    if every(lambda e, g: g.T.shape == e.shape and close(g.T, e)):
        return "the transpose of the right matrix"
    if every(lambda e, g: close(g[1:], e[:-1])):
        return "shifted by one row: row t holds what belongs in row t - 1"
    if every(lambda e, g: close(g[:-1], e[1:])):
        return "shifted by one row: row t holds what belongs in row t + 1"
    if every(lambda e, g: close(g[::-1], e)):
        return "the right rows in reverse order"
    if every(lambda e, g: not g[0].any() and e[0].any()):
        return "row 0 is all zero: was it never written?"
    if every(lambda e, g: close(g, g[0])):
        return "all rows are equal"
    right = [np.isclose(g, e).all(axis=1) for e, g in rows]
    if first := min(int(np.argmin(r)) for r in right):
        before = "row 0 is" if first == 1 else f"rows 0 to {first - 1} are"
        return f"{before} right, row {first} is the first that isn't"
    if all(r[1:].all() and not r[0] for r in right):
        return "only row 0 is wrong"
    return "only the last row is right" if all(r[-1] and not r[:-1].any() for r in right) else ""


def _at(name: str, index: tuple[int, ...]) -> str:
    """`dWh` of `result[0]` and (1, 2) make `dWh[1, 2]` of `result[0]`."""
    before, inside, after = name.split("`", 2)
    return f"{before}`{inside}{list(index) if index else ''}`{after}"


def _and(items: list[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
