"""The transformer: against torch's stacks, what depends on what, its cache at every chunking, and heads taken away."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from course_utils.attention import MultiHeadAttention
from course_utils.corpora import BOS, EOS, PAD, pad
from course_utils.decoding import beam, free_running_loss, greedy, sample
from course_utils.seq2seq import shift_right, teacher_forced_loss
from course_utils.training import language_model_loss
from course_utils.transformer import State, Transformer, TransformerLM, without_heads
from course_utils.transformer_blocks import NORMS, POSITIONS
from torch_blocks import torchs_layer

S_VOCAB, T_VOCAB, D, H, WIDE, LAYERS = 11, 9, 8, 2, 12, 2
BOTH = [kind for kind in POSITIONS if kind != "alibi"]  # what encoder–decoders and language models have
CONFIGURATIONS = list(itertools.product(BOTH, NORMS))
configurations = st.sampled_from(CONFIGURATIONS)
each_configuration = pytest.mark.parametrize(("positions", "norm"), CONFIGURATIONS)
SOURCE, TARGET = torch.tensor([[4, 5, 6], [7, 8, PAD]]), torch.tensor([[4, 5, EOS], [6, EOS, PAD]])


def randomized(model):
    """With weights so large that every input makes a difference; in eval mode, since dropout has tests of its own."""
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model.double().eval()


def make(positions="sinusoidal", norm="pre", dropout=0.3, max_len=20):
    torch.manual_seed(0)
    return randomized(Transformer(S_VOCAB, T_VOCAB, D, H, WIDE, LAYERS, LAYERS, dropout, norm, positions, max_len))


def make_lm(positions="sinusoidal", norm="pre", dropout=0.3, max_len=20):
    torch.manual_seed(0)
    return randomized(TransformerLM(T_VOCAB, D, H, WIDE, LAYERS, dropout, norm, positions, max_len))


def rows(vocab=S_VOCAB, min_rows=1):
    return st.lists(st.lists(st.integers(3, vocab - 1), min_size=1, max_size=6), min_size=min_rows, max_size=4)


def tokens(*shape, seed=0):
    return torch.randint(3, T_VOCAB, shape, generator=torch.Generator().manual_seed(seed))


def near(a, b, tolerance=1e-10):
    torch.testing.assert_close(a, b, atol=tolerance, rtol=0)


# Against torch


def torchs_stack(blocks, final, norm, layers):
    """nn.TransformerEncoder or nn.TransformerDecoder of torch's layers with our weights."""
    first, final = torchs_layer(blocks[0], norm), final if norm == "pre" else None
    if layers == "encoder":
        stack = nn.TransformerEncoder(first, len(blocks), final, enable_nested_tensor=False)
    else:
        stack = nn.TransformerDecoder(first, len(blocks), final)
    stack.layers = nn.ModuleList(torchs_layer(block, norm) for block in blocks)
    return stack.eval()


@pytest.mark.parametrize("norm", NORMS)
def test_the_whole_model_is_made_of_torchs_encoder_and_decoder(norm):
    model, source, target_in = make(norm=norm), torch.tensor([[4, 5, 6, 7], [8, 9, PAD, PAD]]), tokens(2, 5)
    encoder = torchs_stack(model.encoder, model.encoder_norm, norm, "encoder")
    decoder = torchs_stack(model.decoder, model.decoder_norm, norm, "decoder")
    with torch.enable_grad():  # so that torch takes no fast path of its own
        encoded = encoder(model.embed_source(source), src_key_padding_mask=source == PAD)
        decoded = decoder(
            model.embed_target(target_in),
            encoded,
            tgt_mask=~torch.ones(5, 5, dtype=torch.bool).tril(),
            memory_key_padding_mask=source == PAD,
        )
    near(model.encode(source)[source != PAD], encoded[source != PAD])
    near(model(source, target_in), decoded @ model.embed_target.tokens.weight.T)


@pytest.mark.parametrize("norm", NORMS)
def test_the_language_model_is_torchs_encoder_with_a_causal_mask(norm):
    model, ids = make_lm(norm=norm), tokens(2, 6)
    stack = torchs_stack(model.blocks, model.norm, norm, "encoder")
    expected = stack(model.embed(ids), mask=~torch.ones(6, 6, dtype=torch.bool).tril())
    near(model(ids)[0], expected @ model.embed.tokens.weight.T)


# What depends on what


@pytest.mark.parametrize("training", [True, False])
@each_configuration
def test_the_future_changes_nothing_before_it(positions, norm, training):
    model, lm = make(positions, norm).train(training), make_lm(positions, norm).train(training)
    ids = tokens(2, 6)

    def logits(ids):
        torch.manual_seed(3)  # the same numbers are dropped in every call
        found = model(SOURCE, ids)
        torch.manual_seed(3)
        return torch.stack([found, lm(ids)[0]])  # (2, B, T, V)

    before = logits(ids)
    assert training != torch.equal(before[0], model(SOURCE, ids))  # dropout acts in training mode, and then only
    for t in range(6):
        changed = ids.clone()
        changed[0, t:] = (ids[0, t:] - 2) % (T_VOCAB - 3) + 3
        assert (changed[0, t:] != ids[0, t:]).all()
        after = logits(changed)
        near(after[:, 0, :t], before[:, 0, :t])
        near(after[:, 1], before[:, 1])  # neither are other rows
        assert (after[:, 0, t:] - before[:, 0, t:]).abs().amax(dim=-1).min() > 1e-4  # and the present is


@each_configuration
def test_no_gradient_comes_from_the_future(positions, norm):
    model, held = make(positions, norm), []
    model.embed_target.register_forward_hook(lambda layer, _, x: (x.retain_grad(), held.append(x))[0])
    for t in range(4):
        model(SOURCE, tokens(2, 4))[:, t].pow(2).sum().backward()
        reached = held[-1].grad.abs().sum(dim=-1) > 0  # (B, T)
        assert reached.tolist() == [[i <= t for i in range(4)]] * 2


@given(configurations, rows(), st.integers(1, 4), st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_pads_behind_source_and_target_change_nothing_and_are_not_looked_at(configuration, sources, more, more_target):
    model, source, target_in = make(*configuration), pad(sources), tokens(len(sources), 4)
    logits, seen = model.attend(source, target_in)
    padded, wide = model.attend(F.pad(source, (0, more), value=PAD), F.pad(target_in, (0, more_target), value=PAD))
    near(padded[:, :4], logits)
    near(model(F.pad(source, (0, more), value=PAD), target_in), logits)
    pads = source == PAD
    for layer in range(LAYERS):
        near(wide.cross[layer][:, :, :4, : source.shape[1]], seen.cross[layer])
        for weights in (wide.cross[layer], wide.encoder[layer]):
            assert (weights[..., source.shape[1] :] == 0).all()
            assert (weights.sum(dim=2)[..., : source.shape[1]].amax(dim=1)[pads] == 0).all()


@given(configurations, rows(min_rows=2))
@settings(max_examples=30, deadline=None)
def test_a_ragged_batch_equals_each_sentence_by_itself(configuration, sources):
    model, target_in = make(*configuration), tokens(len(sources), 3)
    together, encoded = model(pad(sources), target_in), model.encode(pad(sources))
    for i, source in enumerate(sources):
        alone = torch.tensor([source])
        near(model(alone, target_in[i : i + 1])[0], together[i])
        near(model.encode(alone)[0], encoded[i, : len(source)])


@pytest.mark.parametrize("positions", BOTH)
def test_only_an_encoder_without_positions_sees_a_set(positions):
    model, source, order = make(positions), torch.tensor([[4, 5, 6, 7]]), [2, 0, 3, 1]
    same = torch.allclose(model.encode(source[:, order]), model.encode(source)[:, order], atol=1e-8)
    assert same == (positions == "none")


# Step by step


@given(configurations, rows(), st.lists(st.integers(1, 4), min_size=1, max_size=5))
@settings(max_examples=40, deadline=None)
def test_every_chunking_gives_the_logits_of_one_parallel_pass(configuration, sources, chunks):
    source, ids = pad(sources), tokens(len(sources), sum(chunks), seed=len(chunks))
    model, lm = make(*configuration), make_lm(*configuration)
    state, lm_state, found = model.start(source), None, []
    for chunk in ids.split(chunks, dim=1):
        logits, state = model.decode(chunk, state)
        lm_logits, lm_state = lm(chunk, lm_state)
        found.append(torch.stack([logits, lm_logits]))
        assert state.length == lm_state.length == sum(part.shape[2] for part in found)
    near(torch.cat(found, dim=2), torch.stack([model(source, ids), lm(ids)[0]]))


@pytest.mark.parametrize("norm", NORMS)
def test_linear_biases_in_a_language_model_at_once_and_step_by_step(norm):
    lm, ids, state = make_lm("alibi", norm), tokens(2, 9), None
    logits, _ = lm(ids)
    for t in range(9):
        step, state = lm(ids[:, t : t + 1], state)
        near(step[:, 0], logits[:, t])
    changed = ids.clone()
    changed[:, 5:] = ids[:, 5:].flip(1)
    near(lm(changed)[0][:, :5], logits[:, :5])  # the future changes nothing
    assert (make_lm("none", norm)(ids)[0] - logits).abs().amax() > 1e-2


@each_configuration
def test_steps_in_single_precision_are_within_1e_5_of_one_pass(positions, norm):
    torch.manual_seed(1)
    model = Transformer(S_VOCAB, T_VOCAB, 32, 4, 64, LAYERS, LAYERS, 0.1, norm, positions, 40).eval()
    ids = tokens(2, 40)
    logits, state = model(SOURCE, ids), model.start(SOURCE)
    assert logits.std() > 0.3
    for t in range(40):
        step, state = model.step(ids[:, t], state)
        near(step, logits[:, t], 1e-5)


@each_configuration
def test_selected_rows_go_on_as_they_would_have(positions, norm):
    model, token, chosen = make(positions, norm), torch.tensor([4, 5, 6]), torch.tensor([2, 0, 0, 2])
    state = model.start(torch.tensor([[4, 5], [6, PAD], [7, 8]]))
    _, state = model.step(token, state)
    logits, after = model.step(token, state)
    picked, after_picked = model.step(token[chosen], state.select(chosen))
    near(picked, logits[chosen])
    for one, other in zip(after.select(chosen).past, after_picked.past, strict=True):
        near(one.k, other.k)
        near(one.v, other.v)
    _, lm_state = make_lm(positions, norm)(tokens(3, 2))
    assert lm_state.select(chosen).past[0].k.shape[0] == 4 and lm_state.select(chosen).mask is None


class WithoutCache:
    """The same model, which reads everything again for each token."""

    class State:
        def __init__(self, source, written):
            self.source, self.written = source, written

        def select(self, rows):
            return WithoutCache.State(self.source[rows], self.written[rows])

    def __init__(self, model):
        self.model = model

    def start(self, source):
        return self.State(source, source[:, :0])

    def step(self, token, state):
        written = torch.cat([state.written, token[:, None]], dim=1)
        return self.model(state.source, written)[:, -1], self.State(state.source, written)


def same_hypotheses(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.tokens == other.tokens and one.finished == other.finished
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-8)


@each_configuration
def test_decoding_writes_what_it_writes_without_a_cache(positions, norm):
    model, source = make(positions, norm), pad([[4, 5, 6], [7], [8, 9, 10, 4], [5, 5]])
    slow = WithoutCache(model)
    with torch.no_grad():
        same_hypotheses(greedy(model, source, 7), greedy(slow, source, 7))
        generators = [torch.Generator().manual_seed(5) for _ in range(2)]
        same_hypotheses(*(sample(m, source, 7, generator=g) for m, g in zip((model, slow), generators, strict=True)))
        for alpha in (0.0, 1.0):
            found, expected = (beam(m, source, 4, 7, length_penalty=alpha) for m in (model, slow))
            for one, other in zip(found, expected, strict=True):
                same_hypotheses(one, other)


def test_beam_search_does_reorder_the_cache(monkeypatch):
    """The comparison above would notice: without the reordering, something else is written."""
    model, source = make(), pad([[4, 5, 6], [7], [8, 9, 10, 4], [5, 5]])
    expected = beam(model, source, 4, 7)
    select, moved = State.select, []

    def watch(state, rows):
        moved.append(bool(state.past) and rows.tolist() != list(range(len(rows))))
        return select(state, rows) if not state.past else state

    monkeypatch.setattr(State, "select", watch)
    assert beam(model, source, 4, 7) != expected and any(moved)


def test_the_source_is_read_once():
    model, calls = make(), []
    for block in model.encoder:
        block.register_forward_hook(lambda *_: calls.append("encoder"))
    for block in model.decoder:
        plain = block.cross.keys_values
        block.cross.keys_values = lambda memory, plain=plain: (calls.append("memory"), plain(memory))[1]
    greedy(model, SOURCE, 6)
    assert calls == ["encoder"] * LAYERS + ["memory"] * LAYERS


# Losses and parameters


def test_losses_of_a_batch_work_as_with_other_models():
    model = make()
    nlls = []
    for row, target in enumerate([[4, 5, EOS], [6, EOS]]):
        source = SOURCE[row : row + 1, : (3, 2)[row]]
        log_p = torch.log_softmax(model(source, shift_right(torch.tensor([target])))[0], dim=-1)
        nlls += [-log_p[t, token].item() for t, token in enumerate(target)]
    assert teacher_forced_loss(model, (SOURCE, TARGET)).item() == pytest.approx(sum(nlls) / 5)
    assert free_running_loss(model, (SOURCE, TARGET)).isfinite()


@each_configuration
def test_the_loss_of_a_language_model_is_the_mean_over_real_tokens(positions, norm):
    model, sentences = make_lm(positions, norm), [[BOS, 5, 6, 7, EOS], [BOS, 8, EOS]]
    nlls = []
    for row in sentences:
        for t in range(1, len(row)):  # each prefix alone
            nlls.append(-torch.log_softmax(model(torch.tensor([row[:t]]))[0][0, -1], dim=0)[row[t]].item())
    assert language_model_loss(model, pad(sentences)).item() == pytest.approx(sum(nlls) / len(nlls))


@each_configuration
def test_all_parameters_learn(positions, norm):
    for model, loss in (
        (make(positions, norm, max_len=3), lambda model: teacher_forced_loss(model, (SOURCE, TARGET))),
        (make_lm(positions, norm, max_len=3), lambda model: language_model_loss(model, tokens(2, 4))),
    ):
        loss(model.train()).backward()
        assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0] == []


def test_the_same_vectors_read_and_write():
    model, lm = make(), make_lm()
    per_block = 4 * (D * D + D) + 2 * D * WIDE + WIDE + D + 4 * D
    cross = 4 * (D * D + D) + 2 * D
    expected = LAYERS * (2 * per_block + cross) + 4 * D + (S_VOCAB + T_VOCAB) * D
    assert sum(p.numel() for p in model.parameters()) == expected
    assert sum(p.numel() for p in lm.parameters()) == LAYERS * per_block + 2 * D + T_VOCAB * D
    before = model(SOURCE, tokens(2, 3))
    with torch.no_grad():
        model.embed_target.tokens.weight[7] = 0  # a token that is not read, whose vector was a row of W_out
    after = model(SOURCE, torch.where(tokens(2, 3) == 7, 8, tokens(2, 3)))
    assert (after[..., 7] == 0).all() and (before[..., 7] != 0).all()


def test_the_gradient_is_that_of_a_small_change():
    model = make(positions="learned")
    parameters = list(model.parameters())
    teacher_forced_loss(model, (SOURCE, TARGET)).backward()
    generator = torch.Generator().manual_seed(1)
    way = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in parameters]
    expected = sum((p.grad * d).sum() for p, d in zip(parameters, way, strict=True))
    losses = []
    with torch.no_grad():
        for step in (1e-6, -2e-6):  # to one side, then to the other
            for p, d in zip(parameters, way, strict=True):
                p += step * d
            losses.append(teacher_forced_loss(model, (SOURCE, TARGET)))
    assert ((losses[0] - losses[1]) / 2e-6).item() == pytest.approx(expected.item(), rel=1e-5)


# Where heads look


@each_configuration
def test_weights_of_each_head_are_returned_with_the_same_logits(positions, norm):
    model, lm, target_in = make(positions, norm), make_lm(positions, norm), tokens(2, 4)
    logits, weights = model.attend(SOURCE, target_in)
    near(logits, model(SOURCE, target_in))
    lm_logits, lm_weights = lm.attend(target_in)
    near(lm_logits, lm(target_in)[0])
    for kind, queries, keys in (
        (weights.encoder, 3, 3), (weights.decoder, 4, 4), (weights.cross, 4, 3), (lm_weights, 4, 4)
    ):  # fmt: skip
        assert [tuple(w.shape) for w in kind] == [(2, H, queries, keys)] * LAYERS
        for w in kind:
            near(w.sum(dim=-1), torch.ones(2, H, queries, dtype=w.dtype))
            assert not torch.allclose(w[:, 0], w[:, 1])
    for w in (*weights.decoder, *lm_weights):
        assert (w.triu(1) == 0).all() and (w.diagonal(dim1=-2, dim2=-1) > 0).all()


# Heads taken away


def snapshot(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def unchanged(model, before):
    return all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_head_that_is_taken_away_writes_nothing():
    model, ids = make(), tokens(2, 4)
    before, whole = snapshot(model), model(SOURCE, ids)
    attention, K = model.decoder[1].cross, D // H
    with without_heads([(attention, 1)]):
        after = model.state_dict()
        changed = [name for name in before if not torch.equal(after[name], before[name])]
        assert changed == ["decoder.1.cross.out.weight"]
        assert (attention.out.weight[:, K:] == 0).all()
        assert torch.equal(attention.out.weight[:, :K], before["decoder.1.cross.out.weight"][:, :K])
        without = model(SOURCE, ids)
        written = greedy(model, SOURCE, 5)
    assert unchanged(model, before) and torch.equal(model(SOURCE, ids), whole) and not torch.allclose(without, whole)
    with torch.no_grad():
        attention.out.weight[:, K:] = 0
    assert torch.equal(model(SOURCE, ids), without) and greedy(model, SOURCE, 5) == written


def test_weights_come_back_after_an_error_and_out_of_nested_contexts():
    model = make()
    before, (first, second) = snapshot(model), (block.attention for block in model.encoder)
    with pytest.raises(ZeroDivisionError), without_heads([(first, 0), (second, 1)]):
        raise ZeroDivisionError
    assert unchanged(model, before)
    with without_heads([(first, 0)]):
        outer = snapshot(model)
        with without_heads([(first, 0), (first, 1), (second, 1)]):
            assert not first.out.weight.any()
        assert unchanged(model, outer) and not unchanged(model, before)
    assert unchanged(model, before)
    with without_heads([(first, 0), (first, 0)]):  # twice the same
        assert not first.out.weight[:, : D // H].any()
    assert unchanged(model, before)
    with without_heads(iter(())):
        assert unchanged(model, before)


@pytest.mark.parametrize("head", [H, -1, 0.5])
def test_a_head_that_does_not_exist_is_named_and_nothing_changed(head):
    model = make()
    before, attention = snapshot(model), model.encoder[0].attention
    with (
        pytest.raises(ValueError, match="^head: expected an integer"),
        without_heads([(attention, 0), (attention, head)]),
    ):
        pass
    assert unchanged(model, before)


def test_gradients_flow_while_heads_are_away():
    module = MultiHeadAttention(D, H)
    with without_heads([(module, 0)]):
        module(torch.randn(2, 3, D))[0].sum().backward()
    assert all(p.grad.isfinite().all() for p in module.parameters())


# Bad input


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"source_vocab": 2}, r"source_vocab: expected an integer in \[3, ∞\), got 2"),
        ({"target_vocab": 2.5}, "target_vocab: expected an integer"),
        ({"encoder_layers": 0}, "encoder_layers: expected an integer"),
        ({"decoder_layers": True}, "decoder_layers: expected an integer"),
        ({"d_model": 7}, "n_heads: expected a divisor of the width 7, got 2"),
        ({"n_heads": 0}, "n_heads: expected an integer"),
        ({"d_ff": -1}, "d_ff: expected an integer"),
        ({"dropout": 1}, "dropout: expected a number"),
        ({"norm": "sandwich"}, "norm: expected one of pre, post, got 'sandwich'"),
        ({"positions": "relative"}, "positions: expected one of sinusoidal, learned, rotary, .*none, got 'relative'"),
        ({"positions": "alibi", "encoder_layers": 1}, "positions: expected one of .*, rotary, none, got 'alibi'"),
        ({"positions": "rotary", "d_model": 6}, "n_heads: expected heads of an even width .*, got 3"),
        ({"max_len": 0}, "max_len: expected an integer"),
    ],
)
def test_models_refuse_wrong_sizes_and_choices(wrong, message):
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 4}
    stacks = {"source_vocab": 5, "target_vocab": 5, "encoder_layers": 1, "decoder_layers": 1}
    with pytest.raises(ValueError, match=f"^{message}"):
        Transformer(**(sizes | stacks | wrong))
    if not stacks.keys() & wrong.keys():
        with pytest.raises(ValueError, match=f"^{message}"):
            TransformerLM(**({"vocab_size": 5, "n_layers": 1} | sizes | wrong))


@pytest.mark.parametrize("name", ["vocab_size", "n_layers"])
def test_a_language_model_refuses_wrong_sizes(name):
    with pytest.raises(ValueError, match=f"^{name}: expected an integer"):
        TransformerLM(**({"vocab_size": 5, "d_model": 8, "n_heads": 2, "d_ff": 4, "n_layers": 1} | {name: 0}))


@pytest.mark.parametrize(
    ("source", "target_in", "message"),
    [
        (SOURCE.float(), TARGET, "source: expected dtype int"),
        (SOURCE[0], TARGET, "source: expected shape"),
        (SOURCE + 9, TARGET, "source: expected an integer"),
        (torch.tensor([[4, PAD, 5]] * 2), TARGET, "source: expected tokens, then only <pad>"),
        (torch.full((2, 3), PAD), TARGET, "source: expected tokens, then only <pad>"),
        (torch.full((2, 21), 4), TARGET, "source: expected at most max_len = 20 places, got 21"),
        (SOURCE, TARGET[:1], r"target_in: expected shape \(B, T\) = \(2, T\), got \(1, 3\)"),
        (SOURCE, TARGET + 9, "target_in: expected an integer"),
        (SOURCE, TARGET.tolist(), "target_in: expected an array, got list"),
        (SOURCE, tokens(2, 21), "target_in: expected at most max_len = 20 places, got 21"),
    ],
)
def test_wrong_ids_are_named_before_anything_is_computed(source, target_in, message):
    model = make()
    for layer in model.modules():
        if not list(layer.children()):  # layers that compute
            layer.register_forward_pre_hook(lambda *_: pytest.fail("computed"))
    for call in (model, model.attend):
        with pytest.raises(ValueError, match=f"^{message}"):
            call(source, target_in)


@pytest.mark.parametrize("token", [torch.tensor([4]), torch.tensor([4, T_VOCAB]), torch.tensor([4, -1]), torch.ones(2)])
def test_step_refuses_wrong_tokens(token):
    model = make()
    with pytest.raises(ValueError, match="^token: expected"):
        model.step(token, model.start(SOURCE))


@pytest.mark.parametrize("wrong", [tokens(3, 2), tokens(2, 2).float(), tokens(2, 2) + 9, tokens(2), tokens(2, 19)])
def test_more_tokens_must_fit_the_state(wrong):
    model, lm = make(), make_lm()
    state, lm_state = model.decode(tokens(2, 2), model.start(SOURCE))[1], lm(tokens(2, 2))[1]
    for call in (lambda: model.decode(wrong, state), lambda: lm(wrong, lm_state)):
        with pytest.raises(ValueError, match="^tokens: expected"):
            call()
