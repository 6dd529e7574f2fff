"""The exercises of lecture 8, gains and costs: what to write, cases to try it on, and hints.

Use in a notebook: `lecture_08.rotate.check(rotate)`. The wrong answers are in mistakes_08_*.py.
The references are written here, and have the names of their exercises, which then take their places:
`rotate.reference`. The package's versions in `positions` and `costs` check their arguments.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch

from course_utils.exercises import comparing, mistakes_08_costs, mistakes_08_rotary
from course_utils.exercises.engine import Exercise, Mistake, Probe
from course_utils.exercises.running import Outcome, run

# ---- 8.1 rotate -----------------------------------------------------------------------------------------------------


def rotate(x: torch.Tensor, start: int = 0) -> torch.Tensor:
    """Rotary positions: turn each pair of numbers of a query or key by an angle that grows with its token's place.

    x: (..., T, K), K even, with any number of axes in front (sentences, heads), or none.  Row t is the token at place
    start + t; start is 0 or more, as with a cache.
    Numbers 2i and 2i + 1 of a token are pair i, i = 0 … K/2 - 1: neighbors, and not the numbers i and i + K/2.  A pair
    is a point (u, v) of the plane, which is turned about (0, 0), counterclockwise, so that (1, 0) becomes
    (cos a, sin a).  The angle of pair i at place p is a = p / 10000^(2i/K), in radians.
    Returns the shape and the dtype of x, the turned pairs where they were.  x is not changed.
    Source: Su et al. (2021), RoFormer: enhanced transformer with rotary position embedding, equation 34.
    """
    T, K = x.shape[-2:]
    speed = 10_000 ** (-torch.arange(0, K, 2, dtype=torch.float64) / K)  # (K/2,)
    angle = torch.arange(start, start + T)[:, None] * speed  # (T, K/2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    u, v = x[..., 0::2], x[..., 1::2]  # (..., T, K/2)
    return torch.stack([u * cos - v * sin, u * sin + v * cos], dim=-1).flatten(-2)


class _KeepingTheDtype(Exercise):
    """Its answers have the dtype of x, float64 in the cases; one that is right in all of them is tried in float32."""

    def _structure(self, right: Outcome, outcome: Outcome) -> str | None:
        value, wanted = outcome.value, right.value
        if isinstance(value, torch.Tensor):
            if value.is_complex():
                return ("Your result is complex. Make two real numbers of each again, `torch.view_as_real(...)`, and "
                        "flatten the axis that it adds.")
            if value.shape == (*wanted.shape[:-1], wanted.shape[-1] // 2, 2):
                return (f"In your result, {comparing.kind_of(value)}, the pairs have an axis of their own. Flatten it: "
                        "`.flatten(-2)`.")
            if value.shape == wanted.shape and value.dtype != wanted.dtype:
                return (f"Your result has the dtype {value.dtype} where x has {wanted.dtype}. Keep that of x: a table "
                        "made by `torch.zeros(...)` is float32, `torch.empty_like(x)` isn't, and `.to(x.dtype)` "
                        "converts.")
        return super()._structure(right, outcome)

    def _diagnose(self, answer: Callable, seconds: float) -> tuple[str, str, str]:
        status, message, printed = super()._diagnose(answer, seconds)
        if status != "passed":
            return status, message, printed
        probe = Probe("x in float32", lambda: (_normal(2, 3, 4, seed=85).float(), 1))
        right, outcome = (run(f, self._arguments(probe), seconds) for f in (self.reference, answer))
        problem = self._structure(right, outcome) if outcome.error is None else self._error_text(
            answer, probe, outcome.error)
        return ("failed", problem, printed) if problem else (status, message, printed)


def _normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def _pointing_right(T: int, K: int) -> torch.Tensor:
    """T tokens of K / 2 pairs (1, 0)."""
    return torch.tensor([1.0, 0.0], dtype=torch.float64).repeat(T, K // 2)


rotate = _KeepingTheDtype(
    "8.1", "Rotary positions", rotate, "turned",
    probes=[
        Probe("2 sentences, 3 heads, 5 tokens, K = 8", lambda: (_normal(2, 3, 5, 8, seed=81), 0)),
        Probe("3 tokens 1 0 1 0", lambda: (_pointing_right(3, 4), 0)),
        Probe("2 sentences, 4 tokens, K = 6, start = 3", lambda: (_normal(2, 4, 6, seed=82), 3)),
        Probe("one token, start = 7", lambda: (_normal(2, 3, 1, 4, seed=83), 7)),
        Probe("3 sentences, 3 heads, 3 tokens, K = 6", lambda: (_normal(3, 3, 3, 6, seed=84), 0)),
        Probe("axes in front: 2, 1 and 3", lambda: (_normal(2, 1, 3, 2, 4, seed=86), 2)),
        Probe("one pair, start = 1", lambda: (_normal(5, 2, seed=87), 1)),
        Probe("40 tokens, K = 10, start = 20", lambda: (_normal(1, 40, 10, seed=88), 20)),
    ],
    mistakes=mistakes_08_rotary.ROTATE, combinations=mistakes_08_rotary.ROTATE_PAIRS,
    hints=(
        "How many angles does one token need, and which numbers of it share one? What happens to the point (0, 1) when "
        "it is turned by the angle a?",
        "Make the angles first: a column of places, (T, 1), times a row with the speed of each pair, (K/2,). Then take "
        "the first and the second numbers of all pairs, u and v: u cos a - v sin a and u sin a + v cos a.",
        "Slices with step 2 take u and v, `x[..., 0::2]` and `x[..., 1::2]`; the speeds are "
        "`10_000 ** (-torch.arange(0, K, 2) / K)`. A new tensor, `torch.empty_like(x)`, takes the results at the same "
        "slices.",
    ),
    minutes=12, difficulty=2, rtol=1e-4, atol=1e-5,  # angles may be float32
    advice="Take the tokens 1 0 1 0, K = 4: place 0 leaves them as they are; at place 1 pair 0 has the angle 1 and "
           "pair 1 the angle 1 / 100, so the result is 0.5403 0.8415 1.0000 0.0100.",
)


# ---- 8.2 attention_cost ---------------------------------------------------------------------------------------------


def attention_cost(B: int, T: int, S: int, D: int, H: int, bytes_per_number: int = 4) -> tuple[int, int, int]:
    """What multi-head attention costs in a forward pass: operations, bytes of its weights, bytes of a cache.

    B sequences, in each of which T tokens ask and S tokens are asked (T = S in self-attention).  D is the width of the
    model, H the number of heads, each K = D / H wide; H divides D.
    Returns (flops, weight_bytes, cache_bytes).
    flops: operations of all matrix products.  Multiplying (m, n) by (n, p) has 2 m n p of them, as an addition goes
    with every multiplication.  The products are those with W_Q, W_K, W_V and W_O, all (D, D), and in each head Q Kᵀ
    and the weights times V.  All T S pairs count, with or without a mask, and no key or value comes from a cache.
    Scaling, masks, softmax and biases don't count.
    weight_bytes: of the attention weights, which softmax makes of the scores, in all heads and sequences.
    cache_bytes: of the keys and values of the S tokens of all sequences, which a decoder keeps for later tokens.
    Every number in memory takes bytes_per_number bytes: 4 for float32, 2 for half precision.
    """
    projections = 2 * T * D * D + 2 * S * D * D  # multiplications: queries and outputs, keys and values
    looking = 2 * T * S * D  # scores and mixtures, in H heads of width D / H
    flops = 2 * B * (projections + looking)
    return flops, B * H * T * S * bytes_per_number, 2 * B * S * D * bytes_per_number


class _ValueByValue(Exercise):
    """What is wrong with each of its values is looked up by itself, if no mistake explains all of them."""

    @cached_property
    def _known(self) -> list[tuple[str, list[Outcome]]]:
        return [(m.hint, self.outcomes(m.function)) for m in self.mistakes + self.combinations]

    def _match(self, outcomes: list[Outcome], values_right: bool) -> Mistake | None:
        found = super()._match(outcomes, values_right)
        complete = all(isinstance(o.value, (tuple, list)) and len(o.value) == len(self.returns) for o in outcomes)
        if found or values_right or not complete:
            return found
        names: dict[str, list[str]] = {}  # of the values that a hint is about
        for i, name in enumerate(self.returns):
            if not self._agree(i, outcomes, self._right):
                hint = next((hint for hint, known in self._known if self._agree(i, outcomes, known)), "")
                names.setdefault(hint, []).append(f"`{name}`")
        other = names.pop("", [])
        parts = [f"{' and '.join(values)}: {hint}" for hint, values in names.items()]
        parts += [f"{' and '.join(other)}: not right, either; look there next."] if other else []
        return Mistake(self.reference, "\n\n".join(parts)) if names else None

    def _agree(self, i: int, outcomes: list[Outcome], others: list[Outcome]) -> bool:
        return all(comparing.agree(a.value[i], b.value[i], self.rtol, self.atol)
                   for a, b in zip(outcomes, others, strict=True))


attention_cost = _ValueByValue(
    "8.2", "Count what attention costs", attention_cost, ("flops", "weight_bytes", "cache_bytes"),
    probes=[
        Probe("B = 2, T = 3, S = 7, D = 30, H = 5", lambda: (2, 3, 7, 30, 5, 4)),
        Probe("all sizes 1", lambda: (1, 1, 1, 1, 1, 4)),
        Probe("self-attention: B = 3, T = S = 5, D = 8, H = 2, half precision", lambda: (3, 5, 5, 8, 2, 2)),
        Probe("one query: B = 1, T = 1, S = 11, D = 12, H = 3", lambda: (1, 1, 11, 12, 3, 4)),
        Probe("one key: B = 2, T = 5, S = 1, D = 6, H = 1, 8 bytes", lambda: (2, 5, 1, 6, 1, 8)),
        Probe("B = 5, T = 13, S = 4, D = 14, H = 7, half precision", lambda: (5, 13, 4, 14, 7, 2)),
    ],
    mistakes=mistakes_08_costs.ATTENTION_COST, combinations=mistakes_08_costs.ATTENTION_COST_PAIRS,
    hints=(
        "Write down every matrix product with the shapes of both factors, (m, n) (n, p). Which have T rows, and which "
        "S? What does splitting into heads change in the number of operations, and what in the number of weights?",
        "Four projections: T rows for W_Q and W_O, S rows for W_K and W_V, each times (D, D). For each of the H heads "
        "(T, K) (K, S) and (T, S) (S, K), where H K = D. Weights are H matrices (T, S); keys and values are (S, D) "
        "each.",
        "In one sequence the projections have 2 T D² + 2 S D² multiplications, and scores and mixtures T S D each. "
        "Double that for the additions, and take B sequences; bytes are numbers times bytes_per_number.",
    ),
    minutes=10, difficulty=2, rtol=0.0, atol=1e-9,  # counts are exact
    advice="With all sizes 1 there are six products, four projections, the score and the mixture, each with one "
           "multiplication and one addition: 12 operations. One weight takes 4 bytes, a key and a value 8. torch "
           "counts, too: run the products under `torch.utils.flop_counter.FlopCounterMode()`.",
)
