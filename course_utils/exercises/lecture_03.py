"""The exercises of lecture 3, sequence to sequence: what to write, cases to try it on, and hints.

Use in a notebook: `lecture_03.shift_right.check(shift_right)`. The wrong answers are in mistakes_03_*.py.
The references are written here, and have the names of their exercises, which then take their places:
`shift_right.reference`. The package has versions for whole batches and models in `seq2seq` and `decoding`.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import torch

from course_utils.exercises import mistakes_03_beam, mistakes_03_bleu, mistakes_03_greedy
from course_utils.exercises import mistakes_03_training as training
from course_utils.exercises.engine import Exercise, Probe

# ---- 3.1 shift_right ------------------------------------------------------------------------------------------------


def shift_right(targets: torch.Tensor, bos: int) -> torch.Tensor:
    """What the decoder reads in training while it learns to write `targets`.

    targets: (B, T) ids, one sequence a row: its tokens, <eos>, and <pad> (id 0) up to length T.  bos: the id of <bos>.
    At the first step the decoder reads bos, at every later one the target of the step before, whatever it is.
    Returns (B, T) ids.  targets is not changed.
    """
    return torch.cat([torch.full_like(targets[:, :1], bos), targets[:, :-1]], dim=1)


shift_right = Exercise(
    "3.1", "Shift the targets for the decoder", shift_right, "inputs",
    probes=[
        Probe("two sentences of 4 and 2 tokens", lambda: (torch.tensor([[5, 6, 7, 8, 2], [9, 4, 2, 0, 0]]), 1)),
        Probe("bos is 3", lambda: (torch.tensor([[6, 5, 2], [4, 2, 0], [7, 9, 2]]), 3)),
        Probe("as many rows as steps, bos is 7", lambda: (torch.tensor([[4, 5, 2], [8, 2, 0], [6, 9, 2]]), 7)),
        Probe("one step", lambda: (torch.tensor([[5], [8]]), 1)),
        Probe("one row", lambda: (torch.tensor([[9, 8, 4, 2]]), 1)),
    ],
    mistakes=training.SHIFT_RIGHT,
    hints=(
        "What has the decoder written before step 1? Before step 2? Which column of the targets is read by nobody?",
        "Every row starts with bos and goes on with its targets, of which the last drops out. So the result is a "
        "column of bos and all columns but the last, side by side.",
        "All columns but the last are `targets[:, :-1]`. A column of bos, with the dtype of the ids, comes from "
        "`torch.full_like` of the first column; `torch.cat` along `dim=1` joins them.",
    ),
    minutes=5, difficulty=1,
    advice="Write one row of the targets and below it the row that you return: 5 6 7 8 2 must have 1 5 6 7 8 below it, "
           "if 1 is the id of <bos>.",
)


# ---- 3.2 seq2seq_loss -----------------------------------------------------------------------------------------------


def seq2seq_loss(logits: torch.Tensor, targets: torch.Tensor, pad: int) -> torch.Tensor:
    """Mean negative log-likelihood, in nats, of the real tokens of a batch.

    logits: (B, T, V) scores before the softmax; logits[b, t] is the prediction of targets[b, t].
    targets: (B, T) ids from 0 to V - 1.  pad: the id that fills up short rows; such positions don't count, <eos> does.
    Every real token of the batch has the same weight, in a long row or in a short one.  At least one is real.
    Returns a tensor without dimensions, from which `backward` can start.
    """
    log_p = torch.log_softmax(logits, dim=-1)  # (B, T, V)
    log_likelihood = log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (B, T)
    return -log_likelihood[targets != pad].mean()


def _scores(B: int, T: int, V: int, seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(scale=2.0, size=(B, T, V))).requires_grad_()


def _far_apart() -> tuple[torch.Tensor, torch.Tensor, int]:
    """Scores around 0 and one of 800, whose e to the power is too large for a float64."""
    logits = torch.tensor([[[0.0, 1.0, 800.0], [800.0, 0.0, 2.0]]], dtype=torch.float64)
    return logits.requires_grad_(), torch.tensor([[1, 2]]), 0


def _halves_and_quarters() -> tuple[torch.Tensor, torch.Tensor, int]:
    """Probabilities 1/2 and 1/4 of the two real tokens, whose row has one pad."""
    p = torch.tensor([[[0.125, 0.125, 0.5, 0.25], [0.25, 0.25, 0.25, 0.25], [0.01, 0.01, 0.01, 0.97]]],
                     dtype=torch.float64)
    return torch.log(p).requires_grad_(), torch.tensor([[2, 3, 0]]), 0


seq2seq_loss = Exercise(
    "3.2", "The loss of a batch without its pads", seq2seq_loss, "loss",
    probes=[
        Probe("lengths 3 and 1, pad is 0", lambda: (
            _scores(2, 3, 4, seed=1), torch.tensor([[1, 2, 3], [2, 0, 0]]), 0)),
        Probe("one row, p = 1/2, 1/4 and a pad", _halves_and_quarters),
        Probe("pad is 3, and 0 is a real token", lambda: (
            _scores(2, 4, 5, seed=3), torch.tensor([[0, 2, 4, 1], [4, 0, 3, 3]]), 3)),
        Probe("as many rows as steps and tokens", lambda: (
            _scores(3, 3, 3, seed=4), torch.tensor([[1, 2, 0], [2, 1, 1], [1, 0, 0]]), 0)),
        Probe("nothing padded", lambda: (_scores(3, 2, 6, seed=5), torch.tensor([[5, 2], [1, 2], [4, 2]]), 0)),
        Probe("scores of 0 and 800", _far_apart),
    ],
    mistakes=training.SEQ2SEQ_LOSS, combinations=training.SEQ2SEQ_LOSS_PAIRS,
    hints=(
        "How surprised is the model by one real token? By how many such numbers is the sum divided, and which "
        "positions are neither in the sum nor in the count?",
        "Take the log-softmax over the vocabulary, pick the entry of the target at each position, change the sign, and "
        "average over the positions where `targets != pad`. `cross_entropy` does all that, if its options are right.",
        "`torch.log_softmax(logits, dim=-1)` gives (B, T, V); `gather` along the last axis with `targets.unsqueeze(-1)`"
        " picks one number at each position. A mask, `targets != pad`, selects what is averaged.",
    ),
    minutes=10, difficulty=2,
    advice="Take the case with one row: the two real tokens have the probabilities 1/2 and 1/4, so the loss is "
           "(0.6931 + 1.3863) / 2 = 1.0397. The third position is a pad.",
)


# ---- 3.3 greedy_decode ----------------------------------------------------------------------------------------------


def greedy_decode(step: Callable[[list[int]], np.ndarray], bos: int, eos: int, max_len: int) -> list[int]:
    """Write a sequence by taking the best next token again and again.

    step(tokens) -> (len(tokens), V): row i holds the scores of the token that follows tokens[:i + 1], so the last row
    those of the next token.  tokens is the whole sequence so far, a list of ids that starts with bos: step has no
    memory.  The highest score is the best, whatever its sign.
    Writing ends when the best token is eos, or after `max_len` new tokens (at least 1).
    Returns the new tokens as a list of ids, without bos and without eos.
    """
    tokens = [bos]
    for _ in range(max_len):
        token = int(np.argmax(step(tokens)[-1]))
        if token == eos:
            break
        tokens.append(token)
    return tokens[1:]


def _writer(V: int, seed: int, script: Sequence[int], bos: int = 1, level: float = 0.0) -> Callable:
    """A made-up decoder: after bos it prefers the tokens of `script`; everything else is random, by the whole prefix.

    level: the mean of the scores.
    """
    full = [bos, *script]

    def writer(tokens: Sequence[int]) -> np.ndarray:
        ids = _ids(tokens)
        scores = np.stack([np.random.default_rng([seed, *ids[:i + 1]]).normal(level, size=V) for i in range(len(ids))])
        for i in range(min(len(ids), len(script))):
            if ids[:i + 1] == full[:i + 1]:
                scores[i, script[i]] = scores[i].max() + 0.5
        return scores
    return writer


def _ids(tokens: Sequence[int]) -> list[int]:
    if len(tokens) == 0:
        raise ValueError("step: expected bos and the tokens so far, got no tokens")
    return [int(token) for token in tokens]


greedy_decode = Exercise(
    "3.3", "Greedy decoding", greedy_decode, "tokens",
    probes=[
        Probe("5 3 6 3, then eos", lambda: (_writer(8, 1, [5, 3, 6, 3, 2]), 1, 2, 7)),
        Probe("the limit 3 comes before eos", lambda: (_writer(8, 2, [5, 3, 6, 4, 7, 2]), 1, 2, 3)),
        Probe("eos at once", lambda: (_writer(8, 3, [2]), 1, 2, 4)),
        Probe("bos is 4, eos is 3, and 2 is a word", lambda: (_writer(6, 15, [5, 2, 2, 1, 0, 3], bos=4), 4, 3, 8)),
        Probe("all scores are negative", lambda: (_writer(7, 5, [6, 1, 5, 2], level=-8.0), 1, 2, 6)),
        Probe("a single token", lambda: (_writer(8, 6, [7, 5, 2]), 1, 2, 1)),
    ],
    mistakes=mistakes_03_greedy.GREEDY_DECODE, combinations=mistakes_03_greedy.GREEDY_DECODE_PAIRS,
    hints=(
        "What does the model have to see to choose token 3? Which row of its answer is about the next token, and what "
        "happens if the best token is eos?",
        "Start with the list [bos]. In each turn ask step for the scores of the whole list and take the argmax of the "
        "last row: if it is eos, leave the loop, else append it.",
        "The next token is `int(np.argmax(step(tokens)[-1]))`; `for _ in range(max_len)` limits their number. In the "
        "end, leave bos out of what you return.",
    ),
    minutes=8, difficulty=1,
    advice="Print what you hand to step in each turn, in the first case: [1], [1, 5], [1, 5, 3], [1, 5, 3, 6] and "
           "[1, 5, 3, 6, 3], after which eos is the best.",
)


# ---- 3.4 bleu1 ------------------------------------------------------------------------------------------------------


def bleu1(candidate: list[str], references: list[list[str]]) -> float:
    """BLEU with single words only: clipped precision times brevity penalty, from 0 to 1.

    candidate: the words of a translation, at least one.  references: one or more right translations, each a list of
    words.  Words are compared as they are.
    Precision: the share of the candidate's words that are matched.  A word counts as often as the candidate has it, but
    at most as often as it is in the one reference that has it most often.
    Brevity penalty: with c and r the lengths of the candidate and of the reference whose length is closest to c (of two
    equally close ones the shorter), exp(1 - r / c) if c < r, else 1.
    Source: Papineni et al. (2002), BLEU: a method for automatic evaluation of machine translation.
    """
    c = len(candidate)
    matched = 0
    for word in set(candidate):
        matched += min(candidate.count(word), max(reference.count(word) for reference in references))
    r = min((len(reference) for reference in references), key=lambda length: (abs(length - c), length))
    penalty = 1.0 if c >= r else math.exp(1 - r / c)
    return matched / c * penalty


def _sentences(candidate: str, *references: str) -> tuple[list[str], list[list[str]]]:
    return candidate.split(), [reference.split() for reference in references]


bleu1 = Exercise(
    "3.4", "BLEU with single words", bleu1, "score",
    probes=[
        Probe("two references that complete each other", lambda: _sentences(
            "a cat sat there now now", "the cat sat now and a cat ran off", "a dog sat there and then it ran off now")),
        Probe("the the the the", lambda: _sentences("the the the the", "the cat is on the mat", "the dog barked")),
        Probe("2 words for 4", lambda: _sentences("the cat", "the cat sat down")),
        Probe("6 words, references of 5 and 7", lambda: _sentences(
            "it it sat on my mat", "it sat on its mat it was ours", "my cat sat on it again now", "on my own mat lay")),
        Probe("longer than all references", lambda: _sentences(
            "she reads the long book again today", "She reads books again", "today we read the long book")),
        Probe("the same letters, other words", lambda: _sentences("tac eht on on", "the cat on no one", "on no")),
        Probe("one word, two references of one word", lambda: _sentences("cat", "dog", "cat")),
    ],
    mistakes=mistakes_03_bleu.BLEU1, combinations=mistakes_03_bleu.BLEU1_PAIRS,
    hints=(
        "How could a candidate get a high precision with one word alone, said once or said many times? Which part of "
        "BLEU prevents which?",
        "For each different word of the candidate, take the smaller of two counts: in the candidate, and its largest "
        "in any single reference. Add up, divide by c, and multiply by the penalty.",
        "`candidate.count(word)` counts a word, and `set(candidate)` has each word once. Find r by `min` over the "
        "lengths, with the key `(abs(length - c), length)`; the penalty is `math.exp(1 - r / c)` if c < r.",
    ),
    minutes=12, difficulty=2, rtol=1e-9,
    advice="“the cat” against “the cat sat down”: precision 2/2, penalty exp(1 - 4/2) = 0.3679. “the the the the” "
           "against “the cat is on the mat” and “the dog barked”: precision 2/4, and the closest length is 3: "
           "no penalty.",
)


# ---- 3.5 beam_search ------------------------------------------------------------------------------------------------


def beam_search(
    step: Callable[[list[int]], np.ndarray], bos: int, eos: int, max_len: int, width: int
) -> list[int]:
    """Write a sequence by keeping the `width` most probable beginnings at each step.

    step(tokens) -> (len(tokens), V) as in greedy_decode: one sequence so far, a list that starts with bos, to scores,
    of which the last row belongs to the next token.  They are logits: the softmax of a row is its probabilities.
    A hypothesis is as good as its total, the sum of the log-probabilities of its tokens, eos among them; its length
    doesn't matter.  The search starts with [bos] and total 0, and makes `max_len` steps.  In each, all V continuations
    of every unfinished hypothesis, and the finished ones (those that end in eos) as they are, compete for `width`
    places: the best totals stay, all others are dropped for good.
    In the end the best hypothesis wins, finished or cut at the limit.  No totals in the cases are equal.
    Returns its tokens as a list of ids, without bos and without eos.
    """
    beam = [([bos], 0.0)]
    for _ in range(max_len):
        candidates = []
        for tokens, total in beam:
            if tokens[-1] == eos:
                candidates.append((tokens, total))
                continue
            scores = step(tokens)[-1]  # (V,)
            log_p = scores - np.log(np.exp(scores).sum())
            candidates += [(tokens + [token], total + log_p[token]) for token in range(len(log_p))]
        beam = sorted(candidates, key=lambda candidate: candidate[1], reverse=True)[:width]
    best = beam[0][0][1:]
    return best[:-1] if best[-1] == eos else best


def _limited(decoder: Callable, V: int, max_len: int, width: int) -> Callable:
    """Stop a search that keeps all its hypotheses before it fills the memory."""
    calls, most = 0, V * width * max_len

    def step(tokens: Sequence[int]) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls > most:
            raise RuntimeError(f"step was called more than {most} times; {width} hypotheses and {max_len} steps "
                               f"need at most {width * max_len} calls")
        return decoder(_ids(tokens))
    return step


@lru_cache(maxsize=4096)
def _row(V: int, seed: int, prefix: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng([seed, *prefix])
    return rng.normal(scale=1.5) + rng.normal(scale=1.5, size=V)


def _random_decoder(V: int, seed: int, bos: int, eos: int, max_len: int, width: int, end: float = 0.0) -> tuple:
    """Arguments of beam_search: scores that are random, by the whole prefix, each row with another mean.

    end: what is added to the score of eos.
    """
    def decoder(ids: list[int]) -> np.ndarray:
        scores = np.stack([_row(V, seed, tuple(ids[:i + 1])) for i in range(len(ids))])
        scores[:, eos] += end
        return scores
    return _limited(decoder, V, max_len, width), bos, eos, max_len, width


def _trap() -> tuple:
    """The tokens 3 and 4 and eos, 2: 3 is the best start, but 4 and eos together are more probable."""
    table = {(1,): {3: 0.6, 4: 0.4}, (1, 3): {2: 0.2, 3: 0.45, 4: 0.35}, (1, 4): {2: 0.9, 3: 0.06, 4: 0.04}}

    def decoder(ids: list[int]) -> np.ndarray:
        p = [table.get(tuple(ids[:i + 1]), {2: 0.2, 3: 0.3, 4: 0.5}) for i in range(len(ids))]
        return np.log([[row.get(token, 1e-9) for token in range(5)] for row in p])
    return _limited(decoder, 5, 2, 2), 1, 2, 2, 2


def _long() -> tuple:
    """Scores that depend on the last token and its place; most probabilities are near 1/11, and eos is improbable."""
    table = np.random.default_rng(9).normal(scale=0.1, size=(12, 12))
    table[:, 2] -= 3.0
    return _limited(lambda ids: table[(np.arange(len(ids)) * 5 + ids) % 12], 12, 360, 2), 1, 2, 360, 2


beam_search = Exercise(
    "3.5", "Beam search", beam_search, "tokens",
    probes=[
        Probe("6 tokens, width 3, 6 steps", lambda: _random_decoder(6, 40, 1, 2, 6, 3, end=-0.7)),
        Probe("2 steps: greedy decoding falls into a trap", _trap),
        Probe("7 tokens, width 2, bos is 0, eos is 5", lambda: _random_decoder(7, 41, 0, 5, 5, 2, end=-0.5)),
        Probe("5 tokens, width 4, eos is likely", lambda: _random_decoder(5, 52, 1, 2, 6, 4, end=0.3)),
        Probe("8 tokens, width 3, eos is improbable", lambda: _random_decoder(8, 0, 1, 2, 4, 3, end=-1.5)),
        Probe("6 tokens, width 2, bos is 3, eos is 1", lambda: _random_decoder(6, 142, 3, 1, 5, 2)),
        Probe("width 1", lambda: _random_decoder(6, 0, 1, 2, 6, 1, end=-0.5)),
        Probe("6 tokens, width 3, other scores", lambda: _random_decoder(6, 75, 1, 2, 6, 3, end=-0.7)),
        Probe("360 steps", _long),
    ],
    mistakes=mistakes_03_beam.BEAM_SEARCH, combinations=mistakes_03_beam.BEAM_SEARCH_PAIRS,
    hints=(
        "What must be remembered of a hypothesis, so that it can be continued and compared? Which hypotheses compete "
        "in one step, and what becomes of those that have ended?",
        "Keep a list of pairs (tokens, total). In each step collect candidates: a finished pair as it is, and for an "
        "unfinished one a new pair for each token; then sort all of them by total and keep the first `width`.",
        "Log-probabilities: `scores - np.log(np.exp(scores).sum())` with the last row of `step(tokens)`. Sort with "
        "`reverse=True` and `key=lambda candidate: candidate[1]`; in the end take the first, without bos and eos.",
    ),
    minutes=20, difficulty=3,
    advice="Take the case with 2 steps: the tokens 3 and 4 have the probabilities 0.6 and 0.4 after bos. Then 3 goes "
           "on with 3 (0.45), but 4 with eos (0.9): 0.4 · 0.9 = 0.36 beats 0.6 · 0.45 = 0.27, and the result is [4].",
)
