"""Run a function that may do anything: raise, print, change its arguments, or never come back."""

import contextlib
import ctypes
import io
import linecache
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch


class TooSlow(BaseException):
    """Raised inside a running function when its time is over; a BaseException, so `except Exception` lets it pass."""


@dataclass(frozen=True)
class Outcome:
    """What one call did: its value (a copy) or its error, the arguments it changed, and what it printed."""

    value: object = None
    error: BaseException | None = None
    changed: tuple[str, ...] = ()
    recording: tuple[str, ...] = ()  # arguments whose requires_grad it switched
    on_graph: bool = False  # a returned tensor is still attached to an autograd graph
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)  # see `_gradients`
    printed: str = ""

    @property
    def side_effects(self) -> tuple:
        """What it did besides returning a value."""
        return self.changed, self.recording, self.on_graph


def run(function: Callable, arguments: dict[str, object], seconds: float | None) -> Outcome:
    """Call `function` with the values of `arguments`, in order, for at most `seconds` (None: without a limit).

    Nothing that the function raises gets out, KeyboardInterrupt (the stop button) apart.
    NumPy's and torch's warnings are silenced: the check itself tells about NaN and infinity.
    """
    before = {name: copied(value) for name, value in arguments.items()}
    recorded = {name: [(t, t.requires_grad) for t in _tensors(value)] for name, value in arguments.items()}
    printed, value, error = io.StringIO(), None, None
    try:
        with contextlib.redirect_stdout(printed), _exit_raises():
            value = _call(function, tuple(arguments.values()), seconds)
    except KeyboardInterrupt:
        raise
    except BaseException as caught:  # SystemExit and TooSlow too: a check never ends a notebook
        error = caught
    changed = tuple(name for name, value in arguments.items() if not identical(before[name], value))
    recording = tuple(name for name, tensors in recorded.items() if any(t.requires_grad != was for t, was in tensors))
    leaves = {name: value for name, value in arguments.items()
              if isinstance(value, torch.Tensor) and recorded[name][0][1]}
    on_graph = any(t.grad_fn is not None for t in _tensors(value))
    return Outcome(copied(value), error, changed, recording, on_graph, _gradients(value, leaves), printed.getvalue())


def copied(value: object) -> object:
    """A copy of arrays, tensors (detached) and numbers, nested in lists, tuples or dicts; anything else as it is."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, (list, tuple)):
        return [copied(v) for v in value] if isinstance(value, list) else tuple(copied(v) for v in value)
    if isinstance(value, dict):
        return {key: copied(v) for key, v in value.items()}
    return value


def identical(a: object, b: object) -> bool:
    """Whether two nested values have the same structure and exactly the same numbers (NaN equals NaN)."""
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(identical, a, b))
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and identical(a.detach().numpy(), b.detach().numpy())
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    return a is b or (isinstance(a, (int, float, str)) and a == b)


def error_line(error: BaseException, function: Callable) -> tuple[str, bool]:
    """The deepest line of the file or cell of `function` that `error` went through, and whether it was raised there."""
    code = getattr(function, "__code__", None)
    frames = list(traceback.walk_tb(error.__traceback__))
    own = [(i, frame, line) for i, (frame, line) in enumerate(frames)
           if code is not None and frame.f_code.co_filename == code.co_filename]
    if not own:
        return "", False
    index, frame, line = own[-1]
    return linecache.getline(frame.f_code.co_filename, line).strip(), index == len(frames) - 1


def error_tip(error: BaseException) -> str:
    """A sentence about what usually leads to such an error, "" if there is none."""
    text = f"{type(error).__name__}: {error}"
    return next((tip for part, tip in _ERROR_TIPS.items() if part in text), "")


_ERROR_TIPS = {
    "RecursionError": "The function calls itself and never stops: which case ends it?",
    "UnboundLocalError": "Give the variable a value before the loop or branch that uses it.",
    "NameError": "Is it spelled as in the signature, and given a value before it is used?",
    "inhomogeneous": "The arrays of the list have different lengths or shapes, so they don't fit into one array: go "
                     "through the list in a loop.",
    "must have the same shape": "The arrays of the list have different lengths or shapes, so they can't be stacked: go "
                                "through the list in a loop.",
    "truth value of an array": "Comparing arrays gives an array of answers, one for each entry: compare numbers "
                               "(lengths, norms) instead.",
    "matmul": "Compare the shapes on both sides of `@`: the last axis of the left one meets the first of the right.",
    "could not broadcast input array": "Something is written into a place of another size: compare the shapes of both.",
    "could not be broadcast": "Compare the shapes on both sides of the operation.",
    "mat1 and mat2": "Compare the shapes on both sides of `@`.",
    "same dtype": "The arguments are float64; a tensor made by `torch.zeros(...)` is float32 unless you pass `dtype`.",
    "'NoneType' object is not": "Something that you use is None: a function without `return`, or a gradient before "
                                "`backward`.",
    "'NoneType' object has no attribute": "Something that you use is None: a gradient before `backward`, or a function "
                                          "without `return`.",
    "Dimension out of range": "One of the tensors has too few axes: a column needs the shape (B, 1), not (B,) or (1,).",
    "same number of dimensions": "The tensors must have equally many axes: a column needs the shape (B, 1), not (B,).",
    "Sizes of tensors must match": "`cat` joins along one axis, and along the others the sizes must be equal: a column "
                                   "has as many rows as what it is joined to.",
    "Expected target size": "`cross_entropy` wants the classes in axis 1: `logits.transpose(1, 2)`.",
    "to match target batch_size": "`cross_entropy` wants both flattened or none: logits (B T, V) go with targets of "
                                  "shape (B T,).",
    "Can't call numpy()": "NumPy records no gradients: stay in torch.",
    "used in an in-place operation": "The argument requires gradients and can't be changed: build a new tensor, "
                                     "`a = a - b` and not `a -= b`.",
    "IndexError": "An index runs one past the end, or counts from 1: rows count from 0.",
    "does not require grad": "backward needs a tensor with `requires_grad=True` at the start of the computation. Is "
                             "the copy that requires gradients the one in your formula, and not the argument itself? "
                             "And there must be no `detach` and no `torch.no_grad()` on the way.",
}


@contextlib.contextmanager
def _exit_raises() -> Iterator[None]:
    """In a notebook `exit()` ends the kernel: for the time of a check it raises SystemExit, as in a script."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        yield
        return
    shell.ask_exit = sys.exit
    try:
        yield
    finally:
        del shell.ask_exit


def _tensors(value: object) -> list[torch.Tensor]:
    if isinstance(value, (list, tuple)):
        return [tensor for v in value for tensor in _tensors(v)]
    return [value] if isinstance(value, torch.Tensor) else []


def _gradients(value: object, leaves: dict[str, torch.Tensor]) -> dict[str, torch.Tensor | None]:
    """Of the sum of all numbers in `value`, with respect to each of the leaves; None where `backward` doesn't get."""
    outputs = [tensor.sum() for tensor in _tensors(value) if tensor.grad_fn is not None]
    if not (leaves and outputs):
        return dict.fromkeys(leaves)
    try:
        found = torch.autograd.grad(outputs, list(leaves.values()), allow_unused=True)
    except RuntimeError:  # the graph is used up, or a tensor was changed in place
        return dict.fromkeys(leaves)
    return dict(zip(leaves, found, strict=True))


def _call(function: Callable, arguments: tuple, seconds: float | None) -> object:
    def quiet() -> object:
        with warnings.catch_warnings(), np.errstate(all="ignore"), torch.enable_grad():
            warnings.simplefilter("ignore")
            return function(*arguments)

    if seconds is None:
        return quiet()
    alarm = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    return _call_with_alarm(quiet, seconds) if alarm else call_in_thread(quiet, seconds)


def _call_with_alarm(call: Callable, seconds: float) -> object:
    """Stop `call` by a timer signal: works for loops and sleeps, in the main thread, on Linux and macOS."""
    armed = True

    def ring(_signal: int, _frame: object) -> None:
        if armed:
            raise TooSlow

    old_handler = signal.signal(signal.SIGALRM, ring)
    # It rings again every 0.1 s, in case a bare `except:` in the function swallowed the first.
    old_left, old_interval = signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)
    start = time.monotonic()
    try:
        return call()
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old_handler)
        if old_left:  # somebody else's timer was running: give it back what it had left
            signal.setitimer(signal.ITIMER_REAL, max(0.001, old_left - time.monotonic() + start), old_interval)


def call_in_thread(call: Callable, seconds: float) -> object:
    """Run `call` in a thread of its own and wait for it: for Windows, and outside the main thread.

    A loop in Python is stopped when the time is over; a single long call ends by itself, in the background.
    """
    done: dict[str, object] = {}

    def work() -> None:
        try:
            done["value"] = call()
        except BaseException as error:  # handed on to the caller below
            done["error"] = error

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(TooSlow))
        raise TooSlow
    if "error" in done:
        raise done["error"]
    return done["value"]
