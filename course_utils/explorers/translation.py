"""What a network makes of a sentence: greedy and by beam search, beside the right translation, and what it weighed."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from rapidfuzz.distance import Levenshtein
from torch import Tensor

from course_utils.corpora import BOS, EOS, PAD, Vocabulary, pad
from course_utils.decoding import Decodable, beam, evaluation, greedy

SHOWN = 5  # candidates of a step
SPARE = 15  # tokens that an output may be longer than the right translation
RIGHT, SEARCH, MODEL, CUT = "right", "search error", "model error", "no end"


class Output(NamedTuple):
    """What a search wrote.

    words: without <eos>; log_prob: of all of it with <eos>, in nats; wrong: for each word, whether it is not among
    those that remain right when it is turned into the gold translation by as few edits as possible; missing: how many
    words of the gold one have nothing in their place; verdict: RIGHT, SEARCH, MODEL or CUT.
    """

    words: list[str]
    log_prob: float
    wrong: list[bool]
    missing: int
    verdict: str


class Step(NamedTuple):
    """One step of an output: the token that it takes, and the five most probable ones there, with their probabilities.

    The token taken is a sixth candidate if it isn't one of the five.
    """

    written: str
    candidates: list[tuple[str, float]]


class Translation(NamedTuple):
    """What the network writes; gold_log_prob: what it gives to the gold translation, in nats; steps: of `beam`.

    unknown: words of the source or of the gold translation that the vocabularies lack.
    """

    greedy: Output
    beam: Output
    gold_log_prob: float
    steps: list[Step]
    unknown: list[str]


def translate(
    model: Decodable,
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    source: Sequence[str],
    gold: Sequence[str],
    width: int,
) -> Translation:
    """Translate `source` by greedy search and by beam search of a width, and compare both with `gold`.

    A wrong output is a search error if the model gives `gold` a higher probability, which the search then missed; else
    a model error, which no search mends. One without an end, cut after 15 words too many, can't be compared.
    Raises ValueError as `decoding.beam` does.
    """
    ids = torch.tensor([source_vocab.encode(source)])  # (1, S)
    wanted = target_vocab.encode(gold, eos=True)
    max_len = len(wanted) + SPARE
    found = [greedy(model, ids, max_len)[0], beam(model, ids, width, max_len)[0][0]]
    rows = [wanted, *([*h.tokens, EOS] if h.finished else h.tokens for h in found)]
    log_p = next_log_probs(model, ids, rows)  # three (T, V)
    of_rows = [float(lp[torch.arange(len(row)), row].double().sum()) for lp, row in zip(log_p, rows, strict=True)]

    def output(row: list[int], log_prob: float, finished: bool) -> Output:
        words = [target_vocab.tokens[i] for i in row if i != EOS]
        if not finished:
            verdict = CUT
        elif words == list(gold):
            verdict = RIGHT
        else:
            verdict = SEARCH if of_rows[0] > log_prob else MODEL
        return Output(words, log_prob, *differences(words, gold), verdict)

    outputs = [output(row, lp, h.finished) for row, lp, h in zip(rows[1:], of_rows[1:], found, strict=True)]
    lacking = [word for word in source if word not in source_vocab.tokens]
    lacking += [word for word in gold if word not in target_vocab.tokens]
    return Translation(*outputs, of_rows[0], _steps(log_p[2], rows[2], target_vocab), lacking)


def next_log_probs(model: Decodable, source: Tensor, rows: list[list[int]]) -> list[Tensor]:
    """The log-probabilities of each next token when the model reads the rows instead of its own output.

    source: (1, S) ids; rows: lists of T ids each.  Returns a (T, V) tensor for each row, where entry [t] is about what
    follows the first t tokens.  As in `decoding`, <pad> and <bos> are ruled out.
    """
    tokens = pad([[BOS, *row[:-1]] for row in rows])  # (B, T)
    columns = []
    with evaluation(model):
        state = model.start(source.expand(len(rows), -1))
        for token in tokens.unbind(dim=1):
            logits, state = model.step(token, state)  # (B, V)
            columns.append(torch.log_softmax(logits, dim=-1))
    log_p = torch.stack(columns, dim=1)  # (B, T, V)
    log_p[..., [PAD, BOS]] = -torch.inf
    return [log_p[i, : len(row)] for i, row in enumerate(rows)]


def differences(words: Sequence[str], gold: Sequence[str]) -> tuple[list[bool], int]:
    """Which words differ from `gold` (True), and how many words of it have nothing in their place."""
    wrong, missing = [False] * len(words), 0
    for edit in Levenshtein.editops(list(words), list(gold)):
        if edit.tag == "insert":
            missing += 1
        else:
            wrong[edit.src_pos] = True
    return wrong, missing


def _steps(log_p: Tensor, row: list[int], vocab: Vocabulary) -> list[Step]:
    p = log_p.exp()  # (T, V)
    best = p.topk(min(SHOWN, len(vocab) - 2)).indices.tolist()  # (T, SHOWN)
    ids = [[*top, *[taken] * (taken not in top)] for top, taken in zip(best, row, strict=True)]
    candidates = [[(vocab.tokens[i], float(at[i])) for i in some] for at, some in zip(p, ids, strict=True)]
    return [Step(vocab.tokens[taken], some) for taken, some in zip(row, candidates, strict=True)]
