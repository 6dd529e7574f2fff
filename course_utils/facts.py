"""Facts that a small transformer learns by heart, where it keeps them, and how one of them is overwritten.

A fact says what an animal of a color eats: "red fox eats figs".  The model reads three words and predicts the fourth.
Color and animal alone say nothing, all pairs being random: it has to know each fact.  N is the number of facts, F the
width of the feed-forward layers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils.shapes import expect, in_range
from course_utils.training import History, cosine_decay, fit
from course_utils.transformer import TransformerLM

COLORS = "amber azure beige black blue brown coral cream gold gray green olive pink red teal white".split()
ANIMALS = "badger bat bear deer duck eel fox goat hare lynx mole otter owl seal toad wolf".split()
FOODS = "acorns beans carrots corn figs grapes kelp lettuce moss nuts oats peas plums rice seeds worms".split()
WORDS = (*COLORS, *ANIMALS, *FOODS, "eats")
LAST = 2  # the place of "eats", where the food is predicted


class Facts(NamedTuple):
    """tokens: (N, 3), color, animal, "eats"; foods: (N,); all are numbers of WORDS."""

    tokens: Tensor
    foods: Tensor

    def __str__(self) -> str:
        rows = torch.cat([self.tokens, self.foods[:, None]], dim=1).tolist()
        return "\n".join(" ".join(WORDS[word] for word in row) for row in rows)


def draw(N: int = 128, seed: int = 0) -> Facts:
    """N facts about different animals, with a food drawn for each."""
    in_range(N, "N", low=1, high=len(COLORS) * len(ANIMALS), integer=True)
    generator = torch.Generator().manual_seed(in_range(seed, "seed", low=0, integer=True))
    chosen = torch.randperm(len(COLORS) * len(ANIMALS), generator=generator)[:N]
    color, animal = chosen // len(ANIMALS), chosen % len(ANIMALS) + len(COLORS)
    foods = torch.randint(len(FOODS), (N,), generator=generator) + len(COLORS) + len(ANIMALS)
    return Facts(torch.stack([color, animal, torch.full((N,), WORDS.index("eats"))], dim=1), foods)


def make(d_ff: int, seed: int = 0) -> TransformerLM:
    """A language model of two blocks, 32 wide, with feed-forward layers of width F = d_ff."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(in_range(seed, "seed", low=0, integer=True))
        return TransformerLM(len(WORDS), 32, 2, d_ff, 2, dropout=0.0, positions="learned", max_len=3)


def train(model: TransformerLM, facts: Facts, steps: int = 300, label: str = "learning facts") -> History:
    """Show all facts in each step; only the food counts."""

    def loss(model: nn.Module, facts: Facts) -> Tensor:
        return F.cross_entropy(model(facts.tokens)[0][:, LAST], facts.foods)

    return fit(model, [facts], loss=loss, steps=steps, lr=3e-3, schedule=cosine_decay(steps), label=label)


def ask(model: TransformerLM, tokens: Tensor) -> Tensor:
    """The word that a model expects after each row of tokens (N, 3): (N,).

    Raises ValueError for a wrong shape or dtype.
    """
    expect(tokens, "N 3", "tokens", dtype="int")
    with torch.no_grad():
        return model(tokens)[0][:, LAST].argmax(dim=-1)


def outputs(layer: nn.Module, model: TransformerLM, tokens: Tensor) -> Tensor:
    """What one layer of the model makes of each token, (N, 3, ·), while the model reads tokens.

    layer, here and below: a part of the model that gives one tensor, such as `blocks[0].feed_forward`, or
    `blocks[0].attention.out` for what attention adds.  Raises ValueError for others.
    """
    found: list[Tensor] = []
    handle = layer.register_forward_hook(lambda _layer, _given, output: found.append(_tensor(output)))
    try:
        ask(model, tokens)
    finally:
        handle.remove()
    if not found:
        raise ValueError(f"layer: expected one that the model calls, got {type(layer).__name__}")
    return found[0]


def _tensor(output: object) -> Tensor:
    if not isinstance(output, Tensor):
        raise ValueError(f"layer: expected one that gives a tensor, got one that gives a {type(output).__name__}")
    return output


@contextmanager
def patched(layer: nn.Module, place: int, values: Tensor) -> Iterator[None]:
    """A context in which a layer's output at one place is `values` (N, ·), whatever it computes.

    Raises ValueError for another place than 0, 1, 2 and, when the model reads N rows, for values of another shape.
    Source: Meng et al. (2022), Locating and editing factual associations in GPT, section 2 ("causal tracing").
    """
    in_range(place, "place", low=0, high=LAST, integer=True)

    def replace(_layer: nn.Module, _given: tuple, output: Tensor) -> Tensor:
        output = _tensor(output).clone()
        expect(values, "N D", "values", dtype="float", N=len(output), D=output.shape[-1])
        output[:, place] = values
        return output

    handle = layer.register_forward_hook(replace)
    try:
        yield
    finally:
        handle.remove()


def carried_over(model: TransformerLM, facts: Facts, layer: nn.Module, place: int = LAST) -> float:
    """How often the food goes along when a layer's output at a place is taken from the fact before, from 0 to 1.

    Only pairs of facts with different foods count; the fact before the first one is the last.
    Raises ValueError if there is no such pair.
    """
    in_range(place, "place", low=0, high=LAST, integer=True)
    other = torch.arange(len(facts.foods)).roll(1)
    differ = facts.foods != facts.foods[other]
    if not differ.any():
        raise ValueError("facts: expected some with different foods, got the same everywhere")
    values = outputs(layer, model, facts.tokens[other])[:, place]
    with patched(layer, place, values):
        answers = ask(model, facts.tokens)
    return float((answers == facts.foods[other])[differ].float().mean())


@contextmanager
def rewritten(model: TransformerLM, facts: Facts, fact: int, source: int) -> Iterator[None]:
    """A context in which the second matrix of the last feed-forward layer gives fact `fact` the value of fact `source`.

    The matrix W_2 maps keys (what the hidden layer says at "eats") to values.  The change that gives the key k* another
    value v* and moves the values of all keys as little as possible has rank one: (v* - W_2 k*) (C⁻¹ k*)ᵀ / k*ᵀ C⁻¹ k*,
    where C is the mean of k kᵀ over the facts.
    Raises ValueError for numbers that are not those of facts, or a fact whose key is 0.
    Source: Meng et al. (2022), Locating and editing factual associations in GPT, equation 2.
    """
    for name, number in (("fact", fact), ("source", source)):
        in_range(number, name, low=0, high=len(facts.foods) - 1, integer=True)
    layer = model.blocks[-1].feed_forward
    keys = outputs(layer[1], model, facts.tokens)[:, LAST]  # (N, F)
    values = outputs(layer, model, facts.tokens)[:, LAST]  # (N, D)
    if not keys[fact].any():
        raise ValueError(f"fact: expected one whose key is not 0, got {fact}")
    C = keys.T @ keys / len(keys)
    C += 1e-4 * C.diagonal().mean() * torch.eye(len(C))  # there are fewer facts than numbers in a key
    direction = torch.linalg.solve(C, keys[fact])  # (F,)
    before = layer[2].weight.data.clone()
    change = torch.outer(values[source] - values[fact], direction) / (keys[fact] @ direction)  # (D, F)
    try:
        layer[2].weight.data += change
        yield
    finally:
        layer[2].weight.data.copy_(before)
