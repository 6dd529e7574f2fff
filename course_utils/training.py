"""Training: one loop for every model of the course, its history, a loss for language models, and checkpoints."""

import hashlib
import json
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from course_utils.corpora import PAD
from course_utils.progress import Progress
from course_utils.shapes import expect, in_range

DEFAULT_LR = 1e-3


@dataclass(repr=False)
class History:
    """What happened in a training run: one entry a step, plus the evaluations.

    loss: the loss of each step's batch, before the update. grad_norm: the Euclidean norm of the gradient over all
    parameters, before clipping. lr: the learning rate used. evaluations: (number of updates made, value) pairs.
    seconds: wall time. interrupted: True if the run was stopped by hand before its end.
    """

    loss: list[float] = field(default_factory=list)
    grad_norm: list[float] = field(default_factory=list)
    lr: list[float] = field(default_factory=list)
    evaluations: list[tuple[int, float]] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False

    def __len__(self) -> int:
        return len(self.loss)

    def __repr__(self) -> str:
        # Nothing that differs between machines: a notebook may show this as the value of a cell.
        return f"History of {len(self)} steps" + (" (interrupted)" if self.interrupted else "")


class TrainingDiverged(ArithmeticError):
    """The loss or the gradient became NaN or infinite; the weights are those from before that step.

    step: the number of the step, counted from 1; history: the steps before it.
    """

    def __init__(self, message: str, step: int, history: History):
        super().__init__(message)
        self.step, self.history = step, history


class CheckpointError(OSError):
    """A saved model is missing, truncated or altered; the message says which file, and how to get it back."""

    def __init__(self, path: Path, problem: str):
        super().__init__(
            f"{path}: {problem}. If it came with the course, `git checkout -- {path.name}` in its folder gets it back; "
            "otherwise train again and save the model again."
        )
        self.path = path


def fit(
    model: nn.Module,
    batches: Iterable | Callable[[int], Iterable],
    *,
    loss: Callable[[nn.Module, Any], Tensor],
    steps: int,
    lr: float | None = None,
    optimizer: Optimizer | Callable[..., Optimizer] | None = None,
    clip: float | None = None,
    schedule: Callable[[int], float] | None = None,
    evaluate: Callable[[nn.Module], float] | None = None,
    evaluate_every: int | None = None,
    after_step: Callable[[History], None] | None = None,
    label: str = "training",
    progress: bool = True,
) -> History:
    """Train `model` for a number of steps (updates) and return what happened.

    batches: a list, which is repeated as often as needed, or a function epoch → batches (epoch 0, 1, …), which can
        shuffle them anew each time. loss(model, batch): a tensor without dimensions.
    lr: learning rate, 10⁻³ unless given. optimizer: a class such as torch.optim.SGD, called with (parameters, lr=lr),
        Adam if None; or an optimizer that is ready, which brings its own learning rate.
    clip: the largest gradient norm (over all parameters) that is applied; None applies every gradient as it is.
    schedule(step): a factor for the learning rate, step = 0 … steps − 1.
    evaluate(model): a number, measured in eval mode without gradients every `evaluate_every` steps and at the end.
    after_step(history): called after each update with the history so far, for example to save a checkpoint.

    The stop button (or Ctrl-C) ends the run between two updates; the history so far is returned.
    Nothing here draws random numbers: the same seed before the call gives the same history.

    Raises TrainingDiverged, before the update is applied, when the loss or the gradient is NaN or infinite, and
    ValueError for arguments out of range, for a loss that isn't one number, and when the batches run out.

    Source (clipping): Pascanu, Mikolov and Bengio (2013), "On the difficulty of training recurrent neural networks",
    algorithm 1.
    """
    _check_numbers(steps=steps, lr=lr, clip=clip, evaluate=evaluate, evaluate_every=evaluate_every)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = _make_optimizer(optimizer, parameters, lr)
    base_lrs = [group["lr"] for group in optimizer.param_groups]
    stream = _stream(batches)
    history = History()
    was_training = model.training
    bar = Progress(label, steps, shown=progress)
    started = time.perf_counter()
    ending = "stopped by an error"
    try:
        model.train()
        for step in range(1, steps + 1):
            _set_lr(optimizer, base_lrs, schedule, step - 1)
            value, norm = _backward(model, parameters, loss, next(stream), clip)
            if not (math.isfinite(value) and math.isfinite(norm)):
                raise TrainingDiverged(_advice(label, step, value, norm, optimizer, clip, history), step, history)
            with _finish_before_interrupt():
                optimizer.step()
                history.loss.append(value)
                history.grad_norm.append(norm)
                history.lr.append(optimizer.param_groups[0]["lr"])
            bar.update(step, value, norm)
            if after_step:
                after_step(history)
            if evaluate and (step == steps or (evaluate_every and step % evaluate_every == 0)):
                history.evaluations.append((step, _evaluate(model, evaluate)))
        ending = f"{steps} of {steps} steps"
    except KeyboardInterrupt:
        history.interrupted = True
        ending = f"interrupted after {len(history)} of {steps} steps"
        if not progress:
            print(f"{label}: {ending}", file=sys.stderr)
    except TrainingDiverged:
        ending = "diverged"
        raise
    finally:
        history.seconds = time.perf_counter() - started
        model.train(was_training)
        _set_lr(optimizer, base_lrs, None, 0)
        bar.finish(ending)
    return history


def _check_numbers(*, steps: int, lr, clip, evaluate, evaluate_every) -> None:
    in_range(steps, "steps", low=1, integer=True)
    if lr is not None:
        in_range(lr, "lr", low=0)
    if clip is not None:
        in_range(clip, "clip", low=0, low_open=True)
    if evaluate_every is not None:
        in_range(evaluate_every, "evaluate_every", low=1, integer=True)
        if evaluate is None:
            raise ValueError("evaluate: expected a function, since evaluate_every is given; got None")


def _make_optimizer(optimizer, parameters: list[Tensor], lr: float | None) -> Optimizer:
    if not parameters:
        raise ValueError("model: expected at least one parameter that requires a gradient, found none")
    if isinstance(optimizer, Optimizer):
        if lr is not None:
            raise ValueError(f"lr: expected None with an optimizer that is ready (it has its own), got {lr}")
        return optimizer
    return (optimizer or torch.optim.Adam)(parameters, lr=DEFAULT_LR if lr is None else lr)


def _stream(batches) -> Iterator:
    """Batch after batch, epoch after epoch, without end."""
    epoch = done = 0
    while True:
        before = done
        for batch in batches(epoch) if callable(batches) else batches:
            yield batch
            done += 1
        if done == before:  # nothing in it, or an iterator that can be read only once
            raise ValueError(
                f"batches: ran out after {done} steps; expected a list (it is repeated) or a function of the epoch"
            )
        epoch += 1


def _set_lr(optimizer: Optimizer, base_lrs: list[float], schedule: Callable[[int], float] | None, step: int) -> None:
    factor = 1.0 if schedule is None else in_range(float(schedule(step)), f"schedule({step})", low=0)
    for group, base in zip(optimizer.param_groups, base_lrs, strict=True):
        group["lr"] = factor * base


def _backward(model: nn.Module, parameters: list[Tensor], loss, batch, clip: float | None) -> tuple[float, float]:
    """Leave the (clipped) gradient of the batch's loss in the parameters; return the loss and the unclipped norm."""
    value = loss(model, batch)
    if not (isinstance(value, Tensor) and value.ndim == 0 and value.requires_grad):
        shape = f" of shape {tuple(value.shape)}" if isinstance(value, Tensor) else ""
        problem = " that does not depend on the parameters" if isinstance(value, Tensor) and value.ndim == 0 else ""
        raise ValueError(
            "loss(model, batch): expected a tensor without dimensions, computed from the parameters, "
            f"got {type(value).__name__}{shape}{problem}"
        )
    model.zero_grad()
    value.backward()
    norm = nn.utils.get_total_norm(p.grad for p in parameters if p.grad is not None)
    if clip is not None and torch.isfinite(norm):
        nn.utils.clip_grads_with_norm_(parameters, clip, norm)
    return value.item(), norm.item()


def _advice(label: str, step: int, value: float, norm: float, optimizer: Optimizer, clip, history: History) -> str:
    what = f"loss became {value}" if not math.isfinite(value) else f"gradient norm became {norm}"
    last = f"the last finite loss was {history.loss[-1]:.4g}" if history.loss else "it was the first step"
    other = "or clip=1.0, which bounds the gradient norm" if clip is None else f"or a smaller clip (it was {clip})"
    return (
        f"{label}: the {what} at step {step}; {last}. Try a smaller lr (it was {optimizer.param_groups[0]['lr']:.3g}) "
        f"{other}. The weights are as they were before this step."
    )


@contextmanager
def _finish_before_interrupt() -> Iterator[None]:
    """Hold back Ctrl-C and the stop button until the block is done, so that no update is applied halfway."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[tuple] = []
    signal.signal(signal.SIGINT, lambda *arguments: held.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if held:
        handler(*held[0])


def _evaluate(model: nn.Module, evaluate: Callable[[nn.Module], float]) -> float:
    model.eval()
    try:
        with torch.no_grad():
            return float(evaluate(model))
    finally:
        model.train()


def cosine_decay(steps: int, warmup: int = 0) -> Callable[[int], float]:
    """A schedule for `fit` that lowers the learning rate from its full value towards 0 along half a cosine.

    steps: the length of the run; warmup: in so many steps before, part of the run, the factor rises in a straight line.
    Returns a function step (0 … steps − 1) → factor in (0, 1].
    Source: Loshchilov and Hutter (2017), "SGDR: Stochastic gradient descent with warm restarts", equation 5; warm-up:
    Vaswani et al. (2017), section 5.3, whose decay is another one.
    """
    in_range(steps, "steps", low=1, integer=True)
    in_range(warmup, "warmup", low=0, high=steps - 1, integer=True)

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / (warmup + 1)
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))

    return factor


def language_model_loss(model: nn.Module, tokens: Tensor) -> Tensor:
    """Mean negative log-likelihood, in nats, of every next token that isn't padding.

    model: maps tokens (B, T) to (logits (B, T, V), state), like `recurrent.RecurrentLM`.
    tokens: ids (B, T), T ≥ 2, each row `<bos> … <eos>` and then padding. The model reads tokens[:, :-1] and predicts
        tokens[:, 1:]; the mean is over tokens, so that a long row counts for more than a short one.
    Returns a tensor without dimensions. Raises ValueError for a wrong shape or dtype, or with no token to predict.
    """
    expect(tokens, "B T", "tokens", dtype="int")
    inputs, targets = tokens[:, :-1], tokens[:, 1:]  # (B, T-1)
    if not (targets != PAD).any():
        raise ValueError(f"tokens: expected a token to predict after the first column, got {tuple(tokens.shape)}")
    logits, _ = model(inputs)  # (B, T-1, V)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)


def save_checkpoint(path: str | Path, model: nn.Module, card: dict, optimizer: Optimizer | None = None) -> None:
    """Write the weights to `path` (.safetensors) and, beside it, `card` as JSON with the checksum of the weights.

    card: what a reader should know of the run (data, configuration, seed, steps, metrics): anything that JSON can hold
        except NaN and infinity; "sha256" is added. optimizer: its moments are kept too, to go on training later.
    Raises ValueError for another file name or a card that JSON can't hold, before anything is written.
    """
    path = _weights_path(path)
    tensors = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in model.state_dict().items()}
    if optimizer is not None:
        for i, state in optimizer.state_dict()["state"].items():
            entries = {name: torch.as_tensor(value) for name, value in state.items() if value is not None}
            tensors |= {f"{_OPTIMIZER}{i}/{name}": tensor.cpu().clone() for name, tensor in entries.items()}
    weights = safetensors.torch.save(tensors)
    try:
        text = json.dumps(card | {"sha256": _sha256(weights)}, indent=2, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"card: expected values that JSON can hold: {problem}") from None
    # The card comes last: with a name that is new, a checkpoint is there as a whole or has no card.
    _replace(path, weights)
    _replace(path.with_suffix(".json"), f"{text}\n".encode())


def load_checkpoint(path: str | Path, model: nn.Module, optimizer: Optimizer | None = None) -> dict:
    """Read the weights at `path` into `model` (and moments into `optimizer`), and return the card.

    The optimizer keeps its own learning rate and other settings. Nothing is changed unless everything fits.
    Raises CheckpointError if a file is missing, truncated or altered, and ValueError if it doesn't fit the model.
    """
    path = _weights_path(path)
    card = read_card(path)
    weights = _read(path)
    actual = _sha256(weights)
    if actual != card["sha256"]:
        problem = f"the file was truncated or altered: expected sha256 {card['sha256']} (in its card), got {actual}"
        raise CheckpointError(path, problem)
    tensors = safetensors.torch.load(weights)
    moments = {name: tensors.pop(name) for name in list(tensors) if name.startswith(_OPTIMIZER)}
    _check_fit(path, tensors, model.state_dict())
    if optimizer is not None:
        _load_moments(path, moments, optimizer)
    model.load_state_dict(tensors)
    return card


def read_card(path: str | Path) -> dict:
    """Return the card of the checkpoint `path` (.safetensors), without a look at its weights.

    Raises CheckpointError if the card is missing or damaged.
    """
    path = _weights_path(path).with_suffix(".json")
    try:
        card = json.loads(_read(path))
    except ValueError:  # also when the bytes aren't text
        card = None
    if not isinstance(card, dict) or "sha256" not in card:
        raise CheckpointError(path, "expected a JSON object with the entry sha256")
    return card


_OPTIMIZER = "optimizer/"  # no name of a parameter contains a slash


def _weights_path(path: str | Path) -> Path:
    path = Path(path)
    if path.suffix != ".safetensors":
        raise ValueError(f"path: expected a file name ending in .safetensors, got {str(path)!r}")
    return path


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(path, "the file is missing") from None


def _replace(path: Path, data: bytes) -> None:
    """Write a file so that it holds either what it held before or all of `data`, even if the process is killed."""
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(data)
    part.replace(path)


def _check_fit(path: Path, found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    for name in sorted(found.keys() | expected.keys()):
        shapes = [tuple(t[name].shape) if name in t else "nothing" for t in (expected, found)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"{path}: expected {shapes[0]} for {name} as in the model, got {shapes[1]}")


def _load_moments(path: Path, moments: dict[str, Tensor], optimizer: Optimizer) -> None:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in moments.items():
        i, name = key.removeprefix(_OPTIMIZER).split("/")
        state.setdefault(int(i), {})[name] = tensor
    for i, entries in state.items():
        shapes = {tuple(t.shape) for t in entries.values() if t.ndim}
        if i >= len(parameters) or shapes - {tuple(parameters[i].shape)}:
            raise ValueError(f"{path}: the saved optimizer does not fit this one (parameter {i})")
    if not state:
        raise ValueError(f"{path}: expected the state of an optimizer, found none (SGD without momentum has none)")
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
