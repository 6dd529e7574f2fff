"""The recurrent encoder–decoder with attention: padding, steps, weights, what is looked at and what learns."""

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils import gated
from course_utils.attention import additive_attention
from course_utils.attention import softmax as softmax_by_hand
from course_utils.corpora import BOS, EOS, PAD, pad
from course_utils.decoding import beam, free_running_loss, greedy
from course_utils.positions import sinusoidal_positions
from course_utils.seq2seq import shift_right, teacher_forced_loss
from course_utils.seq2seq_attention import ENCODERS, QUERIES, SCORES, AttentionEncoderDecoder

S_VOCAB, T_VOCAB, D_EMBED, D_H = 11, 9, 3, 6
CONFIGURATIONS = list(itertools.product(SCORES, QUERIES, ENCODERS, ("lstm", "gru")))
configurations = st.sampled_from(CONFIGURATIONS)
SOURCE, TARGET = torch.tensor([[4, 5, 6], [7, 8, PAD]]), torch.tensor([[4, 5, EOS], [6, EOS, PAD]])


def make(attention="additive", query="previous", encoder="bidirectional", cell="lstm", seed=0):
    torch.manual_seed(seed)
    model = AttentionEncoderDecoder(S_VOCAB, T_VOCAB, D_EMBED, D_H, attention, query, encoder, cell)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)  # large enough that every input makes a difference; pads, too
    return model


def rows(vocab: int, min_rows=1):
    return st.lists(st.lists(st.integers(3, vocab - 1), min_size=1, max_size=6), min_size=min_rows, max_size=4)


def tokens(*shape, seed=0):
    return torch.randint(3, T_VOCAB, shape, generator=torch.Generator().manual_seed(seed))


def assert_near(a, b, tolerance=1e-6):
    torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b), atol=tolerance, rtol=0, check_dtype=False)


@given(configurations, rows(S_VOCAB), st.integers(1, 4), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_pads_behind_source_and_target_change_nothing_and_are_not_looked_at(configuration, sources, more, more_target):
    model, source = make(*configuration), pad(sources)
    target_in = tokens(len(sources), 4)
    logits, weights = model.attend(source, target_in)
    padded, wide = model.attend(F.pad(source, (0, more), value=PAD), F.pad(target_in, (0, more_target), value=PAD))
    assert_near(padded[:, :4], logits)
    assert_near(wide[:, :4, : source.shape[1]], weights)
    assert (wide[..., source.shape[1] :] == 0).all()


@given(configurations, rows(S_VOCAB, min_rows=2))
@settings(max_examples=60, deadline=None)
def test_a_ragged_batch_equals_each_sentence_by_itself(configuration, sources):
    model, target_in = make(*configuration), tokens(len(sources), 3)
    logits, weights = model.attend(pad(sources), target_in)
    for i, source in enumerate(sources):
        alone, alone_weights = model.attend(torch.tensor([source]), target_in[i : i + 1])
        assert_near(alone[0], logits[i])
        assert_near(alone_weights[0], weights[i, :, : len(source)])


@given(configurations, rows(S_VOCAB))
@settings(max_examples=40, deadline=None)
def test_weights_sum_to_1_over_real_tokens_and_are_0_on_pads(configuration, sources):
    source = pad(sources)
    logits, weights = make(*configuration).attend(source, tokens(len(sources), 5))
    assert weights.shape == (len(sources), 5, source.shape[1]) and logits.shape == (len(sources), 5, T_VOCAB)
    assert_near(weights.sum(dim=-1), torch.ones(len(sources), 5))
    real = (source != PAD)[:, None].expand_as(weights)
    assert (weights[~real] == 0).all() and (weights[real] > 0).all()


@given(configurations, rows(S_VOCAB), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_teacher_forcing_equals_decoding_step_by_step(configuration, sources, T):
    model, source, target_in = make(*configuration), pad(sources), tokens(len(sources), T, seed=T)
    logits, state = model(source, target_in), model.start(source)
    for t in range(T):
        step, state = model.step(target_in[:, t], state)
        assert_near(step, logits[:, t], 1e-5)


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids="-".join)
def test_selected_rows_go_on_as_they_would_have(configuration):
    model, token, chosen = make(*configuration), torch.tensor([4, 5, 6]), torch.tensor([2, 0, 0, 2])
    state = model.start(torch.tensor([[4, 5], [6, PAD], [7, 8]]))
    logits, after = model.step(token, state)
    picked, after_picked = model.step(token[chosen], state.select(chosen))
    assert_near(picked, logits[chosen])
    for one, other in zip(after.select(chosen), after_picked, strict=True):
        assert one is other is None or torch.allclose(one.float(), other.float(), atol=1e-6)


@pytest.mark.parametrize("query", QUERIES)
def test_decoding_works_as_with_a_fixed_vector(query):
    model = make(query=query)
    written = greedy(model, SOURCE, 5)
    assert [best[0].tokens for best in beam(model, SOURCE, 1, 5)] == [h.tokens for h in written]
    for one, several in zip(written, beam(model, SOURCE, 4, 5), strict=True):
        assert several[0].log_prob >= one.log_prob - 1e-5
        assert len({tuple(h.tokens) for h in several}) == 4
    for i, best in enumerate(beam(model, SOURCE, 3, 5)):  # each log-probability is that of teacher forcing
        source = SOURCE[i : i + 1, : (3, 2)[i]]
        for h in best:
            target = torch.tensor([h.tokens + [EOS] * h.finished])
            log_p = torch.log_softmax(model(source, shift_right(target))[0], dim=-1)
            assert h.log_prob == pytest.approx(log_p.gather(1, target.mT).sum().item(), abs=1e-4)
    assert free_running_loss(model, (SOURCE, TARGET)).isfinite()


# By hand


def by_hand(module, *names):
    return [dict(module.named_parameters())[name].detach().double().numpy() for name in names]


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_steps_of_the_decoder_by_hand(cell):
    """Bahdanau: the state before the step asks, the cell reads token and context, both give the logits."""
    model, source, target_in = make(cell=cell), torch.tensor([[4, 5, 6, PAD]]), torch.tensor([[BOS, 7, 5]])
    start = model.start(source)
    s, c, h = (None if x is None else x[0].detach().double().numpy() for x in (start.h, start.c, start.values))
    score = by_hand(model.score, "W.weight", "U.weight", "v")
    W, U, b, b_h = by_hand(model.rnn, "weight_ih", "weight_hh", "bias_ih", "bias_hh")
    (W_c, b_c), (W_o, b_o) = (by_hand(layer, "weight", "bias") for layer in (model.combine, model.out))
    logits, found_weights = model.attend(source, target_in)
    for t in range(3):
        context, weights = additive_attention(s, h, *score, start.mask[0, 0].numpy())
        x = np.concatenate([by_hand(model.embed, "weight")[0][target_in[0, t]], context])
        if cell == "lstm":
            s, c = gated.lstm_step(x, s, c, W, U, b + b_h)
        else:
            s = gated.gru_step(x, s, W, U, b + np.concatenate([b_h[: 2 * D_H], np.zeros(D_H)]), b_h[2 * D_H :])
        combined = np.tanh(W_c @ np.concatenate([s, context]) + b_c)
        assert_near(found_weights[0, t].detach(), weights)
        assert_near(logits[0, t].detach(), W_o @ combined + b_o, 1e-5)


@pytest.mark.parametrize("attention", ["dot", "scaled", "general"])
def test_a_current_state_asks_after_its_step_by_hand(attention):
    """Luong: a plain LSTM writes the states; each of them then asks, and the context reaches the logits only."""
    model, target_in = make(attention, "current"), torch.tensor([[BOS, 4, 7], [BOS, 5, 8]])
    start = model.start(SOURCE)
    states, _ = model.rnn(model.embed(target_in), (start.h[None], start.c[None]))
    logits, weights = model.attend(SOURCE, target_in)
    for b, t in itertools.product(range(2), range(3)):
        s, h = states[b, t], start.values[b]
        scores = {
            "dot": lambda: h @ s,  # noqa: B023
            "scaled": lambda: h @ s / D_H**0.5,  # noqa: B023
            "general": lambda: h @ (model.score.W.weight.T @ s),  # noqa: B023
        }[attention]()
        alpha = softmax_by_hand(scores.detach().numpy(), mask=(SOURCE[b] != PAD).numpy())
        assert_near(weights[b, t].detach(), alpha)
        context = weights[b, t] @ h
        combined = torch.tanh(model.combine.weight @ torch.cat([s, context]) + model.combine.bias)
        assert_near(logits[b, t], model.out(combined))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("encoder", ["forward", "bidirectional"])
def test_values_are_torchs_states_of_the_real_tokens(encoder, cell):
    model = make(encoder=encoder, cell=cell)
    state = model.start(torch.tensor([[4, 5, 6, PAD, PAD]]))
    states, last = model.encoder.rnn(model.encoder.embed(torch.tensor([[4, 5, 6]])))
    assert_near(state.values[:, :3], states)
    assert (state.values[:, 3:] == 0).all() and state.mask.tolist() == [[[True] * 3 + [False] * 2]]
    h, c = last if cell == "lstm" else (last, None)
    assert_near(state.h[0], h[:, 0].flatten())
    assert (state.c is None) == (cell == "gru") and (c is None or torch.allclose(state.c[0], c[:, 0].flatten()))
    if encoder == "forward":
        assert_near(state.h, states[:, -1])
    else:
        assert_near(state.h, torch.cat([states[:, -1, : D_H // 2], states[:, 0, D_H // 2 :]], dim=-1))


@pytest.mark.parametrize("encoder", ["embeddings", "positions"])
def test_an_encoder_without_recurrence_knows_words_and_at_most_their_places(encoder):
    model = make(encoder=encoder)
    state = model.start(torch.tensor([[4, 5, 6, PAD]]))
    vectors = model.encoder.embed.weight[[4, 5, 6]]
    if encoder == "positions":
        vectors = vectors + sinusoidal_positions(3, D_H)
    assert_near(state.values[0, :3], vectors)
    assert_near(state.h[0], model.encoder.start_h(vectors.mean(dim=0)))
    assert_near(state.c[0], model.encoder.start_c(vectors.mean(dim=0)))


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_only_an_encoder_of_embeddings_cannot_tell_one_order_from_another(encoder, query):
    model = make(encoder=encoder, query=query)
    source, order, target_in = torch.tensor([[4, 5, 6, 7]]), [2, 0, 3, 1], tokens(1, 3)
    (logits, weights), (other, other_weights) = (model.attend(s, target_in) for s in (source, source[:, order]))
    same = torch.allclose(logits, other, atol=1e-5) and torch.allclose(weights[..., order], other_weights, atol=1e-5)
    assert same == (encoder == "embeddings")


# What depends on what


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("attention", SCORES)
def test_keys_are_projected_once_per_source(attention, query, monkeypatch):
    model, calls = make(attention, query), []
    project = model.score.project
    monkeypatch.setattr(model.score, "project", lambda keys: (calls.append(keys.shape), project(keys))[1])
    model.attend(SOURCE, tokens(2, 7))
    assert len(calls) == 1
    greedy(model, SOURCE, 6)
    beam(model, SOURCE, 3, 6)
    assert calls == [(2, 3, D_H)] * 3


@pytest.mark.parametrize("query", QUERIES)
def test_logits_are_computed_after_the_loop(query):
    model, calls = make(query=query), []
    for layer in (model.combine, model.out):
        layer.register_forward_hook(lambda layer, _, output: calls.append(tuple(output.shape)))
    model(SOURCE, tokens(2, 7))
    assert calls == [(2, 7, D_H), (2, 7, T_VOCAB)]


def test_a_current_state_never_sees_a_context_and_a_previous_one_does():
    for query in QUERIES:
        model, target_in = make(query=query), tokens(2, 4)
        state = model.start(SOURCE)
        _, after = model.step(target_in[:, 0], state)
        _, other = model.step(target_in[:, 0], state._replace(values=state.values + 1))
        assert torch.equal(after.h, other.h) == (query == "current")


@pytest.mark.parametrize("query", QUERIES)
def test_the_decoder_sees_neither_later_target_tokens_nor_other_rows(query):
    model, source = make(query=query), torch.tensor([[4, 5], [6, 7]])
    target_in = torch.tensor([[BOS, 4, 5, 6], [BOS, 5, 6, 7]])
    changed = target_in.clone()
    changed[0, 2] = 8
    before, after = model(source, target_in), model(source, changed)
    assert_near(before[0, :2], after[0, :2])
    assert_near(before[1], after[1])
    assert not torch.allclose(before[0, 2], after[0, 2])


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids="-".join)
def test_all_parameters_and_every_state_of_the_encoder_learn(configuration):
    model, held = make(*configuration), []
    start = model.start

    def watch(source):
        state = start(source)
        state.values.retain_grad()
        held.append(state.values)
        return state

    model.start = watch
    teacher_forced_loss(model, (SOURCE, TARGET)).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
    reached = held[0].grad.abs().sum(dim=-1) > 0  # (B, S)
    assert reached[SOURCE != PAD].all()


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("attention", SCORES)
def test_the_gradient_is_that_of_a_small_change(attention, query):
    """Nothing is cut off: along a random direction, the loss changes as the gradient says."""
    model = make(attention, query).double()
    parameters = list(model.parameters())
    teacher_forced_loss(model, (SOURCE, TARGET)).backward()
    generator = torch.Generator().manual_seed(1)
    way = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in parameters]
    for p, d in zip(parameters, way, strict=True):
        if p is model.embed.weight or p is model.encoder.embed.weight:
            d[PAD] = 0  # what is looked up for a pad is not learned
    expected = sum((p.grad * d).sum() for p, d in zip(parameters, way, strict=True))
    losses = []
    with torch.no_grad():
        for step in (1e-5, -2e-5):  # to one side, then to the other
            for p, d in zip(parameters, way, strict=True):
                p += step * d
            losses.append(teacher_forced_loss(model, (SOURCE, TARGET)))
    assert ((losses[0] - losses[1]) / 2e-5).item() == pytest.approx(expected.item(), rel=1e-5, abs=1e-7)


# Bad input


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"source_vocab": 2}, r"source_vocab: expected an integer in \[3, ∞\), got 2"),
        ({"target_vocab": 2.5}, "target_vocab: expected an integer"),
        ({"d_embed": 0}, "d_embed: expected an integer"),
        ({"d_h": -4}, "d_h: expected an integer"),
        ({"d_h": 5}, "d_h: expected an even number, half for each direction, got 5"),
        ({"attention": "multiplicative"}, "attention: expected one of additive, dot, general, scaled, got 'multi"),
        ({"query": "next"}, "query: expected one of previous, current, got 'next'"),
        ({"encoder": "none"}, "encoder: expected one of forward, bidirectional, embeddings, positions, got 'none'"),
        ({"cell": "rnn"}, "cell: expected one of lstm, gru, got 'rnn'"),
    ],
)
def test_models_refuse_wrong_sizes_and_choices(wrong, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        AttentionEncoderDecoder(**({"source_vocab": 5, "target_vocab": 5, "d_embed": 2, "d_h": 2} | wrong))


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(
    ("source", "target_in", "message"),
    [
        (SOURCE.float(), TARGET, "source: expected dtype int"),
        (SOURCE[0], TARGET, "source: expected shape"),
        (SOURCE + 9, TARGET, "source: expected an integer"),
        (torch.tensor([[4, PAD, 5]] * 2), TARGET, "source: expected tokens, then only <pad>"),
        (torch.full((2, 3), PAD), TARGET, "source: expected tokens, then only <pad>"),
        (SOURCE, TARGET[:1], r"target_in: expected shape \(B, T\) = \(2, T\), got \(1, 3\)"),
        (SOURCE, TARGET + 9, "target_in: expected an integer"),
        (SOURCE, TARGET.tolist(), "target_in: expected an array, got list"),
    ],
)
def test_wrong_ids_are_named_before_anything_is_computed(source, target_in, message, encoder):
    model = make(encoder=encoder)
    for layer in model.modules():
        layer.register_forward_pre_hook(lambda layer, _: pytest.fail("computed") if layer is not model else None)
    with pytest.raises(ValueError, match=f"^{message}"):
        model(source, target_in)


@pytest.mark.parametrize("token", [torch.tensor([4]), torch.tensor([4, T_VOCAB]), torch.tensor([4, -1]), torch.ones(2)])
def test_step_refuses_wrong_tokens(token):
    model = make()
    with pytest.raises(ValueError, match="^token: expected"):
        model.step(token, model.start(SOURCE))
