"""Wrong arguments for functions on NumPy arrays, and proof that they are refused before anything is computed."""

from types import ModuleType

import numpy as np
import pytest


def with_nan(array: np.ndarray) -> np.ndarray:
    wrong = array.copy()
    wrong.flat[wrong.size // 2] = np.nan
    return wrong


SPOIL = {  # an array with one thing wrong
    "another rank": lambda a: a[None],
    "too long": lambda a: np.concatenate([a, a[-1:]]),
    "too wide": lambda a: np.concatenate([a, a[..., -1:]], axis=-1),
    "empty": lambda a: a[:0],
    "integers": lambda a: a.astype(int),
    "complex": lambda a: a.astype(complex),
    "a list": lambda a: a.tolist(),
    "nothing": lambda a: None,
    "not finite": with_nan,
}


class NothingComputed:
    """Stands in for numpy: any use of it means that something was computed before the arguments were checked."""

    def __getattr__(self, name: str):
        raise AssertionError(f"np.{name} was used before the arguments were checked")


def refused(module: ModuleType, function, arguments: list, shown: str) -> str:
    """The message with which a function of the module refuses arguments; it names `shown`, a regular expression."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "np", NothingComputed())
        with pytest.raises(ValueError, match=f"^({shown}): expected") as error:
            function(*arguments)
    return str(error.value)
