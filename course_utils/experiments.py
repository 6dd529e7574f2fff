"""Experiments that take too long for a notebook: what each of them runs, and how its shipped results are read.

`tools/experiment` runs an experiment, one setting after the other, and writes a row for each to data/results/NAME.csv:
the setting first, then what was measured.  `results` reads the rows.
"""

import copy
import csv
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise, product
from pathlib import Path

import torch

from course_utils import corpora, models, pronouncing
from course_utils.seq2seq import teacher_forced_loss
from course_utils.training import History, cosine_decay, fit
from course_utils.transformer import TransformerLM

RESULTS = corpora.DATA / "results"

Value = str | int | float


@dataclass(frozen=True)
class Experiment:
    """One experiment: `run(**setting)` for each of its settings gives the numbers of a row.

    settings: dictionaries with the same keys, no two alike, of strings, ints and floats; about: one sentence.
    Raises ValueError for settings that don't keep to this, or that a table would not give back as they are ("1", None).
    """

    name: str
    settings: tuple[dict[str, Value], ...]
    run: Callable[..., dict[str, float]]
    about: str

    def __post_init__(self):
        if not self.settings:
            raise ValueError("settings: expected one or more, got none")
        for i, setting in enumerate(self.settings):
            if setting.keys() != self.settings[0].keys():
                raise ValueError(f"settings: expected the keys {', '.join(self.settings[0])}, got {', '.join(setting)}")
            if setting in self.settings[:i]:
                raise ValueError(f"settings: expected different ones, got {setting} twice")
            for key, value in setting.items():
                if type(_value(str(value))) is not type(value):
                    raise ValueError(f"settings: expected a number or a text that is none for {key}, got {value!r}")


def results(name: str, folder: Path = RESULTS) -> list[dict[str, Value]]:
    """Return the rows of data/results/NAME.csv: the settings of the experiment `name` with what each of them gave.

    What looks like a number is an int or a float.  Raises ValueError for a name that is not one of EXPERIMENTS, and
    FileNotFoundError, with the command that makes the file, if it is missing.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"name: expected one of {', '.join(EXPERIMENTS)}, got {name!r}")
    path = Path(folder) / f"{name}.csv"
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        problem = f"{path} is missing; `python tools/experiment {name}` makes it again"
        raise FileNotFoundError(problem) from None
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return [{key: _value(text) for key, text in row.items()} for row in rows]


def _value(text: str) -> Value:
    """The number that a text stands for, or the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _train(recipe: models.Recipe) -> models.Trained:
    """Train the model of a recipe as `tools/train` does, without checkpoints; Ctrl-C raises KeyboardInterrupt."""
    vocabularies = models.vocabularies(recipe.data)
    model = models.build(recipe, *map(len, vocabularies))
    stream = models.batches(recipe, *vocabularies)
    history = fit(
        model,
        lambda _: stream,
        loss=partial(teacher_forced_loss, label_smoothing=recipe.label_smoothing),
        steps=recipe.steps,
        lr=recipe.lr,
        clip=recipe.clip,
        schedule=cosine_decay(recipe.steps, recipe.warmup),
        label=recipe.name,
    )
    _finished(history)
    return models.Trained(model.eval(), *vocabularies, models.make_card(recipe, model, *vocabularies))


def _finished(history: History) -> None:
    """Raise KeyboardInterrupt if a training was stopped: a half-trained model gives no row."""
    if history.interrupted:
        raise KeyboardInterrupt


def _equal_time(model: str, steps: int) -> dict[str, float]:
    """Train a shipped model of phrases with another number of steps; the exact match of each bucket of lengths."""
    measured = models.evaluate(_train(replace(models.RECIPES[model], steps=steps)))
    return {"loss": measured["loss"]} | measured["exact_match_by_length"]


# Small transformers for sentences of up to 10 words: half a minute each.
_SMALL = {"d_model": 64, "n_heads": 4, "d_ff": 128, "encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
_SCALING_STEPS = 1500
_RECIPE = models.Recipe("small", "phrases", _SMALL, steps=600, lr=3e-3, warmup=50, max_len=10)


def _small(steps: int = 600, lr: float = 3e-3, warmup: int = 50, seed: int = 0, **model: Value) -> dict[str, float]:
    """Train a small transformer of phrases; its loss on held-out sentences, and the exact match by length."""
    recipe = replace(_RECIPE, steps=steps, lr=lr, warmup=warmup, seed=seed, model=_SMALL | model)
    measured = models.evaluate(_train(recipe), n=100)
    return {"loss": measured["loss"]} | measured["exact_match_by_length"]


def _norm_and_warmup(norm: str, warmup: int, lr: float, seed: int) -> dict[str, float]:
    """Train a transformer of 2 × 6 narrow blocks; its loss, and the exact match by length."""
    return _small(400, lr, warmup, seed, norm=norm, encoder_layers=6, decoder_layers=6)


def _scaling_law(d_model: int, words: int) -> dict[str, float]:
    """Train a language model of words on some of them, and measure it where it was best on others.

    parameters: those of the blocks, without the embedding; loss: on test words, in nats per phoneme; best_step: the
    number of steps after which it was best on validation words; validation_loss: there.
    """
    model, split = pronouncing.make(d_model), pronouncing.words()
    order = torch.randperm(len(split.train), generator=torch.Generator().manual_seed(0)).tolist()
    tokens = pronouncing.pronounced([split.train[i] for i in order[:words]])
    history, best = pronouncing.train_to_best(
        model, tokens, _SCALING_STEPS, lr=0.024 / d_model**0.5, label=f"{d_model} wide, {words} words"
    )
    _finished(history)
    return {
        "parameters": sum(p.numel() for p in model.blocks.parameters()),
        "loss": round(pronouncing.mean_loss(model, pronouncing.pronounced(split.test[:3000])), 6),
        "best_step": best,
        "validation_loss": round(dict(history.evaluations)[best], 6),
    }


_STARTS = ("scratch", "next letter", "repeat", "repeat random letters")


@cache
def _pretrained(start: str, seed: int) -> TransformerLM:
    """A language model of words before it has seen a pronunciation."""
    model, words = pronouncing.make(64, seed=seed), pronouncing.words().train
    if start == "scratch":
        return model
    if start == "next letter":
        tokens = pronouncing.spelled(words)
    else:
        tokens = pronouncing.repeated(words if start == "repeat" else pronouncing.scrambled(words, seed))
    _finished(pronouncing.train(model, tokens, 1500, seed=seed, label=f"pre-training: {start}"))
    return model


def _transfer(start: str, words: int, seed: int) -> dict[str, float]:
    """Learn to pronounce from a number of words, after seeing spellings or not; errors on 2000 test words.

    per: phoneme error rate; loss: nats per phoneme.
    """
    model, split = copy.deepcopy(_pretrained(start, seed)), pronouncing.words()
    order = torch.randperm(len(split.train), generator=torch.Generator().manual_seed(seed)).tolist()
    tokens = pronouncing.pronounced([split.train[i] for i in order[:words]])
    label = f"{start}, {words} words"
    history, best = pronouncing.train_to_best(model, tokens, 300 if words <= 500 else 800, seed=seed, label=label)
    _finished(history)
    return {
        "per": round(pronouncing.phoneme_error_rate(model, split.test[:2000]), 6),
        "loss": round(pronouncing.mean_loss(model, pronouncing.pronounced(split.test[:2000])), 6),
        "best_step": best,
    }


def _pointers(start: str, seed: int) -> dict[str, float]:
    """How well the models that `_transfer` starts from look at the letter that comes next (`pronouncing.pointing`)."""
    return {"pointing": round(pronouncing.pointing(_pretrained(start, seed), pronouncing.words().test), 6)}


def _extrapolation(positions: str, seed: int) -> dict[str, float]:
    """Train on streams of words of 64 tokens; the loss at places up to 512, in nats per token."""
    split, model = pronouncing.words(), pronouncing.make(48, n_heads=4, positions=positions, seed=seed)
    pieces = pronouncing.stream(split.train, 10_000, 64, seed=seed)
    _finished(pronouncing.train(model, pieces, 1500, batch_size=16, seed=seed, label=positions))
    loss = pronouncing.loss_by_place(model, pronouncing.stream(split.test, 200, 512, seed=1))
    edges = (0, 16, 32, 64, 96, 128, 256, 512)
    return {f"{low + 1}-{high}": round(float(loss[low:high].mean()), 6) for low, high in pairwise(edges)}


def _grid(**values: tuple[Value, ...]) -> tuple[dict[str, Value], ...]:
    """All combinations of values, the last one changing fastest."""
    return tuple(dict(zip(values, chosen, strict=True)) for chosen in product(*values.values()))


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        # A step costs about 1.15 (dot), 2.2 (additive) and up to 2.2 times (transformer) that of the fixed vector:
        # these are 8000 steps divided by a little more.
        Experiment(
            "equal_time",
            (
                {"model": "phrases-dot", "steps": 6400},
                {"model": "phrases-additive", "steps": 3200},
                {"model": "phrases-transformer", "steps": 3500},
            ),
            _equal_time,
            "Exact match by length with attention, trained for less time than phrases-fixed-256 with its 8000 steps.",
        ),
        Experiment(
            "heads",
            _grid(n_heads=(1, 2, 4, 8, 16), seed=(0, 1, 2)),
            _small,
            "Exact match by length with 1 to 16 heads and equally many parameters: small transformers of phrases.",
        ),
        Experiment(
            "positions",
            _grid(positions=("none", "sinusoidal", "learned", "rotary"), seed=(0, 1)),
            _small,
            "Exact match by length with each way to tell positions, and without one.",
        ),
        Experiment(
            "norm_and_warmup",
            _grid(norm=("pre", "post"), warmup=(0, 100), lr=(1e-3, 4e-3), seed=(0, 1)),
            _norm_and_warmup,
            "Layer normalization before or after each sublayer, with and without warm-up, at two learning rates.",
        ),
        Experiment(
            "scaling_law",
            _grid(d_model=(8, 16, 24, 32, 48, 64, 96), words=(1_000, 4_000, 16_000, 64_000)),
            _scaling_law,
            "The loss of language models of pronunciations against their parameters and the words they learn from.",
        ),
        Experiment(
            "transfer",
            _grid(start=_STARTS, words=(500, 4_000), seed=(0, 1, 2)),
            _transfer,
            "Learning to pronounce from few words, after pre-training on spellings alone or without it.",
        ),
        Experiment(
            "pointers",
            _grid(start=_STARTS, seed=(0, 1, 2)),
            _pointers,
            "Whether the models that transfer starts from have a head that looks at the letter that comes next.",
        ),
        Experiment(
            "extrapolation",
            _grid(positions=("sinusoidal", "learned", "rotary", "alibi"), seed=(0, 1, 2)),
            _extrapolation,
            "The loss of language models of words at places beyond those they were trained on.",
        ),
    )
}
