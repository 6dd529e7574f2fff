"""Benchmarks: the two sides of a case do the same work, and the report has a row for each case. No time is tested."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import benchmarks.__main__ as command
from benchmarks.__main__ import TINY, main
from benchmarks.contenders import CASES, sequences
from course_utils.corpora import EOS, PAD
from course_utils.decoding import evaluation

ROOT = Path(__file__).resolve().parents[1]
TRAINED = [case for case in CASES if case.name != "greedy"]
BY_NAME = {case.name: case for case in CASES}
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
trained_cases = pytest.mark.parametrize("case", TRAINED, ids=lambda case: case.name)
both_sides = pytest.mark.parametrize("side", ["ours", "theirs"])


@pytest.fixture(autouse=True)
def same_number_of_threads_afterwards():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def pair(case):
    """Both sides with the same weights."""
    sides = case.contender("ours", TINY), case.contender("theirs", TINY)
    case.check(*sides)
    return sides


# The two sides


@trained_cases
def test_both_sides_have_the_same_parameters_and_the_same_gradients_without_dropout(case):
    ours, theirs = pair(case)
    for side in (ours, theirs):
        side.model.eval()
        side.run()
    of_theirs = {name: p.grad for name, p in theirs.model.named_parameters()}
    of_ours = {case.their_name(name): p.grad for name, p in ours.model.named_parameters()}
    assert of_ours.keys() == of_theirs.keys()
    for name, gradient in of_ours.items():
        torch.testing.assert_close(gradient, of_theirs[name], atol=1e-5, rtol=1e-4, msg=name)


@cases
def test_other_weights_are_noticed(case):
    ours, theirs = case.contender("ours", TINY), case.contender("theirs", TINY)
    logits = theirs.logits
    with pytest.raises(ValueError, match=f"{case.name}: expected the same logits"):
        case.check(ours, theirs._replace(logits=lambda: logits() + 1e-3))
    with pytest.raises(ValueError, match="expected the same logits"):
        case.check(ours, theirs._replace(logits=lambda: logits() * torch.nan))


@both_sides
@trained_cases
def test_a_run_is_a_training_step_in_training_mode(case, side):
    contender = case.contender(side, TINY)
    before = [p.detach().clone() for p in contender.model.parameters()]
    contender.run()
    assert contender.model.training
    assert all((p != old).any() for p, old in zip(contender.model.parameters(), before, strict=True))


@both_sides
@pytest.mark.parametrize("name", ["encoder-decoder", "decoder-only"])
def test_both_transformers_drop_numbers(name, side):
    contender = BY_NAME[name].contender(side, TINY)
    assert (contender.logits() - contender.logits()).abs().max() > 1e-3
    with evaluation(contender.model):
        assert torch.equal(contender.logits(), contender.logits())


@both_sides
def test_both_write_all_tokens_without_changing_the_model(side):
    contender = BY_NAME["greedy"].contender(side, TINY)
    assert contender.run().shape == (TINY.sentences, TINY.written, TINY.vocab)
    assert contender.model.training


def test_rows_are_ragged_so_that_masks_matter():
    ids = sequences(rows=20, length=8, vocab=10, seed=0)
    lengths = (ids != PAD).sum(dim=1)
    assert set(lengths.tolist()) == {7, 8} and lengths[0] == 8
    assert ids[torch.arange(20), lengths - 1].eq(EOS).all() and ids.eq(EOS).sum() == 20


def test_without_a_mask_of_pads_the_sides_differ():
    case = BY_NAME["encoder-decoder"]
    ours, theirs = case.contender("ours", TINY), case.contender("theirs", TINY)
    layers, forward = theirs.model.transformer, theirs.model.transformer.forward
    layers.forward = lambda *x, src_key_padding_mask, memory_key_padding_mask, **masks: forward(*x, **masks)
    with pytest.raises(ValueError, match="expected the same logits"):
        case.check(ours, theirs)


# The command


def cells(text):
    """The rows of a report: {case: cells}."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("case "))
    return {line.split()[0]: re.split(r" {2,}", line.strip()) for line in lines[start + 1 :]}


def test_the_report_has_all_rows(capsys, monkeypatch):
    asked = []
    monkeypatch.setattr(command, "memory_in_a_process", lambda case, side, _: asked.append((case.name, side)) or 7)
    assert main(["--tiny", "--threads", "1", "--rounds", "2"]) == 0
    text = capsys.readouterr().out
    assert "Adam(fused=True)" in text and f"PyTorch {torch.__version__}; threads: 1, rounds: 2" in text
    rows = cells(text)
    assert list(rows) == [case.name for case in CASES]
    assert asked == [(case.name, side) for case in CASES for side in ("ours", "theirs")]
    for case in CASES:
        _, other, ours, theirs, ratio, extremes, target, met, *memory = rows[case.name]
        low, high = map(float, extremes.split("–"))
        assert (other, target, memory) == (case.other, f"≤ {case.target:.2f}", ["7", "7"])
        assert float(ours) > 0 and float(theirs) > 0 and low <= float(ratio) <= high and met in ("yes", "no")


def test_a_row_has_the_medians_and_the_ratios_of_neighbors():
    case = BY_NAME["encoder-decoder"]  # target 0.75
    row = command.row(case, [1.0, 2.0, 9.0], [2.0, 2.0, 10.0], [100.4, 20])
    assert row.split()[2:] == "2.0 2.0 0.90 0.50–1.00 ≤ 0.75 no 100 20".split()
    assert " yes " in command.row(case, [3.0], [4.0], [1, 1])


def test_sides_run_in_turns_after_warming_up(monkeypatch):
    order = []
    case = BY_NAME["lstm"]
    contender = case.contender

    def recording(self, side, sizes):
        return contender(side, sizes)._replace(run=lambda: order.append(side))

    monkeypatch.setattr(type(case), "contender", recording)
    ours, theirs = command.in_turns(case, TINY, rounds=3)
    assert len(ours) == len(theirs) == 3 and len(order) == 2 * (2 + 3)
    assert all(set(order[i : i + 2]) == {"ours", "theirs"} for i in range(0, 10, 2))
    assert order[0::2].count("ours") in (2, 3)  # neither always goes first


def test_memory_is_measured_in_a_process_of_its_own():
    arguments = ["--only", "lstm", "--memory-of", "theirs", "--tiny", "--threads", "1"]
    run = [sys.executable, "-m", "benchmarks", *arguments]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == "" and (sys.platform == "win32" or float(done.stdout) >= 0)


def test_memory_is_what_the_peak_grows_by(monkeypatch):
    peaks = iter([100.0, 350.0])
    monkeypatch.setattr(command, "peak", lambda: next(peaks))
    assert command.memory_of(BY_NAME["lstm"], "ours", TINY) == 250


@pytest.mark.parametrize("wrong", [["--only", "nothing"], ["--rounds", "0"], ["--threads", "0"]])
def test_wrong_arguments_end_with_a_message(wrong, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(wrong)
    assert "error: " in capsys.readouterr().err
