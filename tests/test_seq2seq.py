"""The recurrent encoder–decoder: padding, packing, directions, teacher forcing and the loss."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils import seq2seq
from course_utils.corpora import BOS, EOS, PAD, pad
from course_utils.seq2seq import EncoderDecoder, State

CONFIGURATIONS = [(cell, both, back) for cell in ("lstm", "gru") for both in (False, True) for back in (False, True)]
configurations = st.sampled_from(CONFIGURATIONS)
S_VOCAB, T_VOCAB = 11, 9


def make(cell="lstm", bidirectional=False, reverse=False, seed=0) -> EncoderDecoder:
    torch.manual_seed(seed)
    model = EncoderDecoder(S_VOCAB, T_VOCAB, 3, 5, cell, bidirectional, reverse)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)  # large enough that every input makes a difference
    with torch.no_grad():  # also what is looked up for a pad: nothing may hang on its being zero
        assert model.embed.weight[PAD].abs().sum() > 0
    return model


def rows(vocab: int, min_size=1, min_rows=1):
    return st.lists(st.lists(st.integers(3, vocab - 1), min_size=min_size, max_size=6), min_size=min_rows, max_size=4)


def assert_near(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, atol=1e-6, rtol=0)


@given(configurations, rows(S_VOCAB), st.integers(1, 4), st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_pads_behind_source_and_target_change_no_output(configuration, sources, more_source, more_target):
    model = make(*configuration)
    source = pad(sources)
    target_in = torch.randint(3, T_VOCAB, (len(sources), 4), generator=torch.Generator().manual_seed(0))
    padded = model(F.pad(source, (0, more_source), value=PAD), F.pad(target_in, (0, more_target), value=PAD))
    assert_near(padded[:, :4], model(source, target_in))


@given(configurations, rows(S_VOCAB, min_rows=2))
@settings(max_examples=40, deadline=None)
def test_a_ragged_batch_equals_each_sentence_by_itself(configuration, sources):
    model = make(*configuration)
    target_in = torch.randint(3, T_VOCAB, (len(sources), 3), generator=torch.Generator().manual_seed(0))
    together = model(pad(sources), target_in)
    state = model.start(pad(sources))
    for i, source in enumerate(sources):
        assert_near(model(torch.tensor([source]), target_in[i : i + 1])[0], together[i])
        assert_near(model.start(torch.tensor([source])).h[:, 0], state.h[:, i])


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_decoder_starts_from_torchs_state_at_the_last_real_token(cell):
    model = make(cell)
    state = model.start(torch.tensor([[4, 5, 6, PAD, PAD]]))
    outputs, _ = model.encoder.rnn(model.encoder.embed(torch.tensor([[4, 5, 6]])))
    assert_near(state.h[0], outputs[:, -1])
    assert (state.c is None) == (cell == "gru")


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_two_directions_are_two_networks_whose_final_states_a_linear_layer_combines(cell):
    model = make(cell, bidirectional=True)
    encoder = model.encoder
    source = torch.tensor([[4, 5, 6, 7, PAD, PAD]])
    finals = []
    for suffix, order in (("", [4, 5, 6, 7]), ("_reverse", [7, 6, 5, 4])):
        alone = seq2seq.CELLS[cell](3, 5, batch_first=True)
        weights = encoder.rnn.state_dict()
        alone.load_state_dict({name: weights[name + suffix] for name in alone.state_dict()})
        finals.append(seq2seq.as_state(alone(encoder.embed(torch.tensor([order])))[1]))
    state = model.start(source)
    assert state.h.shape == (1, 1, 5)
    assert_near(state.h, encoder.combine_h(torch.cat([finals[0].h, finals[1].h], dim=-1)))
    if cell == "lstm":
        assert_near(state.c, encoder.combine_c(torch.cat([finals[0].c, finals[1].c], dim=-1)))


def test_a_reversing_model_reads_the_real_tokens_backwards():
    forward, backward = make(), make(reverse=True)
    target_in = torch.tensor([[BOS, 5], [BOS, 6]])
    source, reversed_by_hand = torch.tensor([[4, 5, 6], [7, 8, PAD]]), torch.tensor([[6, 5, 4], [8, 7, PAD]])
    assert_near(backward(source, target_in), forward(reversed_by_hand, target_in))
    assert not torch.allclose(backward(source, target_in), forward(source, target_in))


@given(rows(S_VOCAB))
def test_reverse_source_reverses_each_row_and_leaves_the_pads(sources):
    source = pad(sources)
    assert torch.equal(seq2seq.reverse_source(source), F.pad(pad([s[::-1] for s in sources]), (0, 0)))
    assert torch.equal(seq2seq.reverse_source(seq2seq.reverse_source(source)), source)
    assert seq2seq.source_lengths(source).tolist() == [len(s) for s in sources]


@given(configurations, rows(S_VOCAB), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_teacher_forcing_equals_decoding_step_by_step(configuration, sources, T):
    model = make(*configuration)
    source = pad(sources)
    target_in = torch.randint(1, T_VOCAB, (len(sources), T), generator=torch.Generator().manual_seed(T))
    logits, state = model(source, target_in), model.start(source)
    assert logits.shape == (len(sources), T, T_VOCAB)
    for t in range(T):
        step, state = model.step(target_in[:, t], state)
        assert_near(step, logits[:, t])


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_selected_rows_go_on_as_they_would_have(cell):
    model = make(cell)
    state = model.start(torch.tensor([[4, 5], [6, PAD], [7, 8]]))
    token, chosen = torch.tensor([4, 5, 6]), torch.tensor([2, 0, 0, 2])
    logits, after = model.step(token, state)
    picked, after_picked = model.step(token[chosen], state.select(chosen))
    assert_near(picked, logits[chosen])
    for one, other in zip(after.select(chosen), after_picked, strict=True):
        assert one is other is None or torch.allclose(one, other)


def test_the_decoder_sees_neither_later_target_tokens_nor_other_rows():
    model = make()
    source, target_in = torch.tensor([[4, 5], [6, 7]]), torch.tensor([[BOS, 4, 5, 6], [BOS, 5, 6, 7]])
    changed = target_in.clone()
    changed[0, 2] = 8
    before, after = model(source, target_in), model(source, changed)
    assert torch.equal(before[0, :2], after[0, :2]) and torch.equal(before[1], after[1])
    assert not torch.allclose(before[0, 2], after[0, 2])


def test_all_parameters_learn_from_the_teacher_forced_loss():
    for configuration in CONFIGURATIONS:
        model = make(*configuration)
        batch = torch.tensor([[4, 5, 6], [7, 8, PAD]]), torch.tensor([[4, 5, EOS], [6, EOS, PAD]])
        seq2seq.teacher_forced_loss(model, batch).backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def test_shift_right_puts_bos_in_front_and_drops_the_last_column():
    target = torch.tensor([[5, 6, EOS], [7, EOS, PAD]])
    assert seq2seq.shift_right(target).tolist() == [[BOS, 5, 6], [BOS, 7, EOS]]
    assert seq2seq.shift_right(torch.tensor([[EOS]]), bos=7).tolist() == [[7]]
    assert target.tolist() == [[5, 6, EOS], [7, EOS, PAD]]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 3), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_loss_is_the_mean_over_all_real_tokens(lengths, pad_id, seed):
    g = torch.Generator().manual_seed(seed)
    real = [i for i in range(6) if i != pad_id]
    target = pad([[real[int(torch.randint(5, (), generator=g))] for _ in range(n)] for n in lengths], pad_id)
    logits = torch.randn(*target.shape, 6, generator=g)
    nlls = []
    for row, n in enumerate(lengths):
        for t in range(n):
            p = np.exp(logits[row, t].double().numpy())
            nlls.append(-math.log(p[target[row, t]] / p.sum()))
    assert seq2seq.seq2seq_loss(logits, target, pad_id).item() == pytest.approx(np.mean(nlls), rel=1e-5)
    wider = F.pad(logits, (0, 0, 0, 2), value=9.0), F.pad(target, (0, 2), value=pad_id)
    assert_near(seq2seq.seq2seq_loss(*wider, pad_id), seq2seq.seq2seq_loss(logits, target, pad_id))
    assert_near(seq2seq.seq2seq_loss(logits, target.int(), pad_id), seq2seq.seq2seq_loss(logits, target, pad_id))


@given(st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_label_smoothing_spreads_a_share_of_the_probability_wanted_over_all_tokens(share, seed):
    g = torch.Generator().manual_seed(seed)
    target, logits = torch.tensor([[3, 4, EOS], [5, EOS, PAD]]), torch.randn(2, 3, 6, generator=g)
    losses = []
    for row, column in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1)):
        p = np.exp(logits[row, column].double().numpy())
        wanted = np.full(6, share / 6)
        wanted[target[row, column]] += 1 - share
        losses.append(-(wanted * np.log(p / p.sum())).sum())
    found = seq2seq.seq2seq_loss(logits, target, label_smoothing=share)
    assert found.item() == pytest.approx(np.mean(losses), rel=1e-5)
    wider = F.pad(logits, (0, 0, 0, 2), value=9.0), F.pad(target, (0, 2), value=PAD)
    assert_near(seq2seq.seq2seq_loss(*wider, label_smoothing=share), found)
    model, batch = make(), (torch.tensor([[4, 5], [6, PAD]]), target)
    logits = model(batch[0], seq2seq.shift_right(target))
    smoothed = seq2seq.teacher_forced_loss(model, batch, share)
    assert_near(smoothed, seq2seq.seq2seq_loss(logits, target, label_smoothing=share))


def test_teacher_forced_loss_scores_each_token_after_the_true_ones_before_it():
    model = make()
    source, targets = torch.tensor([[4, 5, 6], [7, PAD, PAD]]), [[5, 6, 7, EOS], [8, EOS]]
    nlls = []
    for i, target in enumerate(targets):
        state, last = model.start(source[i : i + 1]), BOS
        for token in target:
            logits, state = model.step(torch.tensor([last]), state)
            nlls.append(-torch.log_softmax(logits[0], dim=0)[token].item())
            last = token
    found = seq2seq.teacher_forced_loss(model, (source, pad(targets)))
    assert found.item() == pytest.approx(np.mean(nlls), rel=1e-5)


GOOD_SOURCE, GOOD_TARGET = torch.tensor([[4, 5], [6, PAD]]), torch.tensor([[BOS, 5], [BOS, EOS]])
WRONG_IDS = {  # what becomes of ids (2, 2)
    "a list": lambda ids: ids.tolist(),
    "floats": lambda ids: ids.float(),
    "one row": lambda ids: ids[0],
    "another rank": lambda ids: ids[None],
    "no columns": lambda ids: ids[:, :0],
    "negative": lambda ids: ids - 5,
    "too large": lambda ids: ids + 100,
}


class NothingComputed:
    """Stands in for a layer: any use of it means that something was computed before the arguments were checked."""

    def __call__(self, *arguments):
        raise AssertionError("a layer was used before the arguments were checked")


@given(configurations, st.sampled_from(list(WRONG_IDS)), st.sampled_from(["source", "target_in"]))
@settings(max_examples=60, deadline=None)
def test_wrong_ids_are_named_before_anything_is_computed(configuration, how, name):
    model = make(*configuration)
    for module, layer in ((model, "embed"), (model, "rnn"), (model.encoder, "embed"), (model.encoder, "rnn")):
        delattr(module, layer)
        object.__setattr__(module, layer, NothingComputed())
    arguments = {"source": GOOD_SOURCE, "target_in": GOOD_TARGET}
    arguments[name] = WRONG_IDS[how](arguments[name])
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        model(**arguments)


def test_rows_of_source_and_target_must_agree():
    with pytest.raises(ValueError, match=r"^target_in: expected shape \(B, T\) = \(2, T\), got \(1, 2\)"):
        make()(GOOD_SOURCE, GOOD_TARGET[:1])


@pytest.mark.parametrize("source", [[[4, PAD, 5]], [[PAD, 4, 5]], [[PAD, PAD, PAD]]])
@pytest.mark.parametrize("function", [seq2seq.source_lengths, seq2seq.reverse_source, make().start])
def test_pads_stand_only_behind_real_tokens(function, source):
    message = rf"^source: expected tokens, then only <pad> \(id 0\), in each row, got \[{source[0][0]}, .* in row 1"
    with pytest.raises(ValueError, match=message):
        function(torch.tensor([[4, 5, PAD], *source]))


@pytest.mark.parametrize("token", [torch.tensor([4]), torch.tensor([4, T_VOCAB]), torch.tensor([4, -1]), torch.ones(2)])
def test_step_refuses_wrong_tokens(token):
    with pytest.raises(ValueError, match="^token: expected"):
        make().step(token, make().start(GOOD_SOURCE))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"source_vocab": 2}, r"source_vocab: expected an integer in \[3, ∞\), got 2"),
        ({"target_vocab": 2.5}, "target_vocab: expected an integer"),
        ({"d_embed": 0}, "d_embed: expected an integer"),
        ({"d_h": True}, "d_h: expected an integer"),
        ({"cell": "rnn"}, "cell: expected one of lstm, gru, got 'rnn'"),
    ],
)
def test_models_refuse_wrong_sizes(wrong, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        EncoderDecoder(**({"source_vocab": 5, "target_vocab": 5, "d_embed": 2, "d_h": 2} | wrong))


@pytest.mark.parametrize(
    ("logits", "target", "message"),
    [
        (torch.zeros(2, 3), torch.ones(2, 3).long(), "logits: expected shape"),
        (torch.zeros(2, 3, 4).long(), torch.ones(2, 3).long(), "logits: expected dtype float"),
        (torch.zeros(2, 3, 4), torch.ones(2, 2).long(), "target: expected shape"),
        (torch.zeros(2, 3, 4), torch.ones(3, 2).long(), "target: expected shape"),
        (torch.zeros(2, 3, 4), torch.ones(2, 3), "target: expected dtype int"),
        (torch.zeros(2, 3, 4), torch.zeros(2, 3).long(), "target: expected at least one real token"),
        (torch.zeros(2, 3, 4), torch.full((2, 3), 4), "target: expected an integer"),
    ],
)
def test_loss_refuses(logits, target, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        seq2seq.seq2seq_loss(logits, target)


@pytest.mark.parametrize("target", [torch.ones(3).long(), torch.ones(2, 3), [[1, 2]]])
def test_shift_right_refuses(target):
    with pytest.raises(ValueError, match="^target: expected"):
        seq2seq.shift_right(target)


def test_a_state_of_a_gru_has_no_c():
    assert State(torch.zeros(1, 2, 3), None).select(torch.tensor([1])).c is None
