"""The look-up task and its networks: what is asked, what each kind of score is, and that copies don't meet."""

import math

import pytest
import torch
import torch.nn.functional as F

from course_utils import scaling
from course_utils.attention import scaled_dot_product_attention


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def batch(R=2, B=5, seed=0):
    return scaling.draw(R, B, generator(seed), scaling.rotation())


def near(a, b, tolerance=1e-5):
    torch.testing.assert_close(a, b, atol=tolerance, rtol=1e-4)


# The task


def test_a_question_turned_back_is_the_key_that_is_asked_for():
    drawn = batch()
    back = drawn.questions @ scaling.rotation().mT  # (R, B, D)
    for r in range(2):
        for i in range(5):
            near(back[r, i], drawn.keys[r, i, drawn.asked[r, i]])
            assert drawn.answers[r, i] == drawn.colors[r, i, drawn.asked[r, i]]


def test_keys_and_questions_have_mean_0_and_variance_1():
    drawn = batch(4, 500)
    for x in (drawn.keys, drawn.questions):
        assert abs(x.mean()) < 0.03 and abs(x.var() - 1) < 0.05


def test_every_entry_is_asked_for_and_every_color_occurs():
    drawn = batch(4, 500)
    assert set(drawn.asked.flatten().tolist()) == set(range(scaling.ENTRIES))
    assert set(drawn.colors.flatten().tolist()) == set(range(scaling.COLORS))


def test_a_seed_gives_the_same_task_again_and_another_seed_another():
    assert torch.equal(batch(seed=3).keys, batch(seed=3).keys) and not torch.equal(batch(seed=3).keys, batch().keys)
    assert torch.equal(scaling.rotation(1), scaling.rotation(1))
    assert not torch.allclose(scaling.rotation(1), scaling.rotation(2))
    near(scaling.rotation() @ scaling.rotation().mT, torch.eye(scaling.WIDTH))


# The network


def test_the_scaled_dot_product_is_the_attention_of_lecture_4():
    drawn, model = batch(), scaling.Lookup(12, 12**-0.5, R=2)
    q, k = drawn.questions @ model.Wq, drawn.keys @ model.Wk[:, None]
    values = model.Wv[torch.arange(2)[:, None, None], drawn.colors]  # (R, B, S, C)
    output, weights = scaled_dot_product_attention(q[:, :, None], k, values, need_weights=True)
    near(torch.softmax(model.logits(drawn.questions, drawn.keys), -1), weights[:, :, 0])
    near(model(drawn), output[:, :, 0])


def test_each_kind_of_score_one_by_one():
    drawn, scale = batch(), 3.0
    for kind in scaling.KINDS:
        model = scaling.Lookup(6, scale, R=2, kind=kind)
        scores = model.logits(drawn.questions, drawn.keys)
        for r, i, j in ((0, 0, 0), (1, 4, 15), (0, 2, 7)):
            q, k = drawn.questions[r, i] @ model.Wq[r], drawn.keys[r, i, j] @ model.Wk[r]
            if kind == "additive":
                expected = torch.tanh(q + k) @ model.v[r, :, 0]
            else:
                expected = q @ k if kind == "dot" else F.cosine_similarity(q, k, dim=0)
            near(scores[r, i, j], scale * expected)


def test_scale_and_gain_multiply_and_leave_the_rest_alone():
    drawn = batch()
    plain, scaled, small = (scaling.Lookup(9, s, R=2, gain=g) for s, g in ((1, 1), (0.25, 1), (1, 0.5)))
    logits = [model.logits(drawn.questions, drawn.keys) for model in (plain, scaled, small)]
    near(logits[1], logits[0] / 4)
    near(logits[2], logits[0] / 4)
    assert torch.equal(plain.Wv, small.Wv)


def test_logits_at_the_start_have_the_variance_of_the_derivation():
    model, drawn = scaling.Lookup(64, 1.0, R=30), batch(30, 50)
    with torch.no_grad():
        variance = model.logits(drawn.questions, drawn.keys).var(dim=2).mean()
    assert abs(variance / 64 - 1) < 0.1


def test_the_gradient_of_a_query_is_autograds():
    drawn, model = batch(), scaling.Lookup(10, 0.7, R=2)
    q = (drawn.questions @ model.Wq).detach().requires_grad_()
    scores = 0.7 * torch.einsum("rbk,rbsk->rbs", q, drawn.keys @ model.Wk[:, None])
    loss = F.cross_entropy(model.answer(drawn.colors, scores).flatten(0, 1), drawn.answers.flatten(), reduction="sum")
    loss.backward()
    near(model.query_gradients(drawn), q.grad.norm(dim=-1))
    with pytest.raises(ValueError, match="kind"):
        scaling.Lookup(10, 1.0, R=2, kind="cosine").query_gradients(drawn)


@pytest.mark.parametrize(
    ("numbers", "name"),
    [
        ({"d_k": 0}, "d_k"),
        ({"R": 0}, "R"),
        ({"scale": 0.0}, "scale"),
        ({"scale": math.nan}, "scale"),
        ({"gain": -1.0}, "gain"),
        ({"kind": "angle"}, "kind"),
        ({"seed": -1}, "seed"),
    ],
)
def test_what_does_not_fit_is_refused(numbers, name):
    with pytest.raises(ValueError, match=name):
        scaling.Lookup(**{"d_k": 4, "scale": 1.0, "R": 2, **numbers})


def test_draw_and_training_refuse_what_does_not_fit():
    for R, B in ((0, 4), (2, 0)):
        with pytest.raises(ValueError, match="expected an integer"):
            scaling.draw(R, B, generator(), scaling.rotation())
    with pytest.raises(ValueError, match="turn"):
        scaling.draw(2, 4, generator(), torch.eye(3))
    model = scaling.Lookup(4, 1.0, R=1)
    for numbers, name in (({"steps": 0}, "steps"), ({"lr": 0.0}, "lr"), ({"seed": -1}, "seed")):
        with pytest.raises(ValueError, match=name):
            scaling.train_lookup(model, **numbers)


# Training


def test_it_learns_and_the_accuracies_are_those_of_each_network():
    run = scaling.train_lookup(scaling.Lookup(32, 32**-0.5, R=3, values_given=True), steps=60)
    assert run.accuracy.shape == run.gradient.shape == (60, 3)
    assert (run.at(60) > 0.5).all() and (run.accuracy[0] < 0.5).all()
    near(run.at(60), run.accuracy[40:].mean(0))
    with pytest.raises(ValueError, match="step"):
        run.at(61)
    near(run.curve(20)[0], run.accuracy[:20].mean(0).median())


def test_networks_trained_together_do_not_notice_each_other():
    model = scaling.Lookup(4, 0.5, R=2)
    other = scaling.Lookup(4, 0.5, R=2)
    with torch.no_grad():
        other.Wv[1] += 1  # another second network
    first, second = (scaling.train_lookup(m, steps=5) for m in (model, other))
    assert torch.equal(first.accuracy[:, 0], second.accuracy[:, 0]) and torch.equal(model.Wq[0], other.Wq[0])
    assert not torch.equal(model.Wq[1], other.Wq[1])


def test_a_small_start_with_small_steps_is_the_scaled_network():
    scaled, small = scaling.Lookup(16, 0.25, R=2), scaling.Lookup(16, 1.0, R=2, gain=0.5)
    scaling.train_lookup(scaled, steps=10)
    scaling.train_lookup(small, steps=10, lr_qk=0.005)
    near(small.Wq, 0.5 * scaled.Wq, 1e-4)
    near(small.Wv, scaled.Wv, 1e-4)


def test_the_pointer_loss_teaches_where_to_look():
    run = scaling.train_lookup(scaling.Lookup(32, 32**-0.5, R=2), steps=60, pointer=True)
    assert (run.at(60) > 0.7).all()


def test_the_pointer_loss_leaves_the_values_alone_and_only_a_learned_scale_moves():
    for learned in (False, True):
        model = scaling.Lookup(4, 0.5, R=2, learned=learned)
        before = model.Wv.detach().clone()
        scaling.train_lookup(model, steps=3, pointer=True)
        assert torch.equal(model.Wv, before)
        assert bool((model.log_scale == math.log(0.5)).all()) is not learned
