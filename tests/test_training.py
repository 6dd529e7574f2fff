"""The training loop, its history, interruptions and divergence, the language model's loss, and checkpoints."""

import json
import math
import random
import signal
from contextlib import suppress

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_utils.corpora import BOS, EOS, PAD
from course_utils.recurrent import RecurrentLM
from course_utils.training import (
    CheckpointError,
    History,
    TrainingDiverged,
    cosine_decay,
    fit,
    language_model_loss,
    load_checkpoint,
    read_card,
    save_checkpoint,
)

SGD = torch.optim.SGD


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def data(n=5):
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(6, 3, generator=generator), torch.randn(6, 2, generator=generator)) for _ in range(n)]


def squared(model, batch):
    return F.mse_loss(model(batch[0]), batch[1])


def run(model, batches=None, **options):
    options = {"loss": squared, "steps": 7, "progress": False} | options
    return fit(model, data() if batches is None else batches, **options)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def planted(at, action):
    """A loss that calls `action` in its call number `at` (counted from 1)."""
    calls = []

    def loss(model, batch):
        calls.append(None)
        return action(model, batch) if len(calls) == at else squared(model, batch)

    return loss


def stop(*_):
    raise KeyboardInterrupt


# What a run does and reports


def test_fit_equals_a_loop_written_out():
    model, other = make(), make()
    history = run(model, lr=0.1, optimizer=SGD)
    optimizer, losses, norms = SGD(other.parameters(), lr=0.1), [], []
    for step in range(7):
        value = squared(other, data()[step % 5])
        optimizer.zero_grad()
        value.backward()
        losses.append(value.item())
        norms.append(math.sqrt(sum(float((p.grad.double() ** 2).sum()) for p in other.parameters())))
        optimizer.step()
    torch.testing.assert_close(weights(model), weights(other))
    assert history.loss == pytest.approx(losses)
    assert history.grad_norm == pytest.approx(norms)
    assert history.lr == [0.1] * 7
    assert len(history) == 7 and not history.interrupted and history.seconds > 0 and history.evaluations == []


def test_the_optimizer_is_adam_with_1e_3_unless_another_is_given():
    model, other = make(), make()
    assert run(model).lr == [1e-3] * 7
    run(other, optimizer=torch.optim.Adam(other.parameters(), lr=1e-3))
    torch.testing.assert_close(weights(model), weights(other))
    assert run(make(), optimizer=SGD(make().parameters(), lr=0.25)).lr == [0.25] * 7


def test_the_same_seed_gives_the_same_history():
    def once():
        history = run(make(3), lambda epoch: random.Random(epoch).sample(data(), 5), steps=23, clip=1.0)
        return history.loss, history.grad_norm

    assert once() == once()


def test_batches_can_be_a_function_of_the_epoch():
    seen = []
    batches = data(4)
    run(make(), lambda epoch: [seen.append(epoch) or batch for batch in batches], steps=9)
    assert seen == [0] * 4 + [1] * 4 + [2] * 4


def test_clipping_bounds_what_is_applied_and_keeps_the_direction_but_not_what_is_reported():
    free, clipped = make(), make()
    start = weights(free)
    norm = run(free, steps=1, lr=1.0, optimizer=SGD).grad_norm[0]
    assert run(clipped, steps=1, lr=1.0, optimizer=SGD, clip=norm / 10).grad_norm == [norm]
    torch.testing.assert_close(weights(clipped) - start, (weights(free) - start) / 10, rtol=1e-3, atol=1e-6)
    assert float((weights(free) - start).norm()) == pytest.approx(norm, rel=1e-5)


def test_a_large_clip_changes_nothing():
    free, clipped = make(), make()
    assert run(free).loss == run(clipped, clip=1e6).loss


def test_a_schedule_multiplies_the_learning_rate_which_is_restored_at_the_end():
    model = make()
    optimizer = SGD(model.parameters(), lr=0.4)
    assert run(model, optimizer=optimizer, schedule=cosine_decay(7)).lr == pytest.approx(
        [0.2 * (1 + math.cos(math.pi * step / 7)) for step in range(7)]
    )
    assert optimizer.param_groups[0]["lr"] == 0.4


def test_a_learning_rate_of_zero_moves_nothing():
    model = make()
    start = weights(model)
    run(model, optimizer=SGD, schedule=lambda step: 0.0)
    assert torch.equal(weights(model), start)


def test_cosine_decay_falls_from_one_to_almost_zero():
    factors = [cosine_decay(100)(step) for step in range(100)]
    assert factors[0] == 1 and factors[50] == pytest.approx(0.5) and 0 < factors[-1] < 1e-3
    assert factors == sorted(factors, reverse=True)


def test_warm_up_rises_in_a_straight_line_to_the_full_rate_and_then_it_falls_as_ever():
    factors = [cosine_decay(10, warmup=4)(step) for step in range(10)]
    assert factors[:4] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert factors[4:] == [cosine_decay(6)(step) for step in range(6)] and factors[4] == 1
    assert [cosine_decay(7, 0)(step) for step in range(7)] == [cosine_decay(7)(step) for step in range(7)]
    assert [cosine_decay(3, 2)(step) for step in range(3)] == pytest.approx([1 / 3, 2 / 3, 1])
    model = make()
    assert run(model, lr=0.5, schedule=cosine_decay(7, 1)).lr[:2] == [0.25, 0.5]


@pytest.mark.parametrize(
    ("steps", "warmup", "message"),
    [
        (0, 0, "steps: expected an integer"),
        (5, -1, r"warmup: expected an integer in \[0, 4\], got -1"),
        (5, 5, "warmup: expected an integer"),
        (5, 0.5, "warmup: expected an integer"),
    ],
)
def test_a_schedule_needs_a_step_after_its_warm_up(steps, warmup, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        cosine_decay(steps, warmup)


def test_evaluate_is_called_every_so_many_steps_and_at_the_end_in_eval_mode_without_gradients():
    model, modes = make(), []

    def evaluate(model):
        modes.append((model.training, torch.is_grad_enabled()))
        return weights(model).sum()

    history = run(model, evaluate=evaluate, evaluate_every=3)
    assert [step for step, _ in history.evaluations] == [3, 6, 7]
    assert history.evaluations[-1][1] == pytest.approx(float(weights(model).sum()))
    assert modes == [(False, False)] * 3
    assert [step for step, _ in run(model, evaluate=evaluate).evaluations] == [7]
    assert [step for step, _ in run(model, evaluate=evaluate, evaluate_every=7).evaluations] == [7]


def test_after_each_step_the_history_so_far_is_handed_over():
    seen = []
    history = run(make(), after_step=lambda so_far: seen.append((len(so_far), so_far.loss[-1])))
    assert seen == list(enumerate(history.loss, 1))


@pytest.mark.parametrize("mode", [True, False])
def test_training_happens_in_train_mode_and_the_mode_is_restored(mode):
    model, modes = make().train(mode), []
    model.register_forward_hook(lambda *_: modes.append(model.training))
    run(model, steps=4, evaluate=lambda model: model(data()[0][0]).sum(), evaluate_every=2)
    assert modes == [True, True, False, True, True, False]
    assert model.training == mode


def test_a_parameter_that_the_loss_does_not_use_is_left_alone():
    model = make()
    model.unused = nn.Parameter(torch.ones(2))
    run(model, loss=lambda model, batch: F.mse_loss(model[2](model[1](model[0](batch[0]))), batch[1]), clip=0.1)
    assert model.unused.tolist() == [1, 1]


def test_a_history_is_shown_without_numbers_that_differ_between_machines():
    assert repr(run(make())) == "History of 7 steps"
    assert repr(History(loss=[1.0], interrupted=True)) == "History of 1 steps (interrupted)"


# Interruptions


def expect_interrupted(history, steps, model):
    assert history.interrupted and len(history) == len(history.grad_norm) == len(history.lr) == steps
    other = make()
    if steps:
        run(other, steps=steps)
    assert torch.equal(weights(model), weights(other))  # whole updates only
    assert model.training


@pytest.mark.parametrize("at", [1, 4, 7])
def test_an_interrupt_while_the_loss_is_computed_ends_the_run_with_the_history_so_far(at, capsys):
    model = make()
    expect_interrupted(run(model, loss=planted(at, stop)), at - 1, model)
    assert capsys.readouterr().err == f"training: interrupted after {at - 1} of 7 steps\n"


def test_an_interrupt_during_an_evaluation_ends_the_run():
    model = make()
    history = run(model, evaluate=stop, evaluate_every=3)
    expect_interrupted(history, 3, model)
    assert history.evaluations == []


def test_an_interrupt_after_a_step_ends_the_run_with_that_step():
    model = make()
    expect_interrupted(run(model, after_step=lambda history: len(history) == 3 and stop()), 3, model)


class PressesStop(torch.optim.Adam):
    """Ctrl-C arrives when some parameters of the third update are written and others aren't."""

    updates = 0

    def step(self):
        self.updates += 1
        if self.updates != 3:
            return super().step()
        group = self.param_groups[0]
        every = group["params"]
        for params in (every[:1], every[1:]):
            group["params"] = params
            super().step()
            signal.raise_signal(signal.SIGINT)  # in this thread: it must not arrive after the last step
        group["params"] = every


def test_an_interrupt_in_the_middle_of_an_update_waits_for_its_end():
    model, handler = make(), signal.getsignal(signal.SIGINT)
    expect_interrupted(run(model, optimizer=PressesStop), 3, model)
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_run_can_go_on_after_an_interrupt():
    model = make()
    run(model, loss=planted(3, stop))
    assert len(run(model)) == 7


def test_an_error_in_the_loss_is_not_taken_for_an_interrupt():
    def broken(*_):
        raise ZeroDivisionError

    model = make().eval()
    with pytest.raises(ZeroDivisionError):
        run(model, loss=planted(3, broken))
    assert not model.training


# Divergence


def infinite_gradient(model, batch):
    return squared(model, batch) + 0 * torch.sqrt(sum((p - p.detach()).sum() for p in model.parameters()))


@pytest.mark.parametrize(
    ("action", "what"),
    [
        (lambda model, batch: squared(model, batch) * math.nan, "loss became nan"),
        (lambda model, batch: squared(model, batch) * math.inf, "loss became inf"),
        (infinite_gradient, "gradient norm became nan"),
    ],
)
@pytest.mark.parametrize("clip", [None, 1.0])
def test_nan_or_infinity_ends_the_run_before_it_reaches_the_weights(action, what, clip):
    model, other = make(), make()
    with pytest.raises(TrainingDiverged, match=f"training: the {what} at step 4; the last finite loss was ") as caught:
        run(model, loss=planted(4, action), clip=clip, lr=0.02)
    history = run(other, steps=3, clip=clip, lr=0.02)
    assert torch.equal(weights(model), weights(other))
    assert caught.value.step == 4
    assert caught.value.history.loss == history.loss and caught.value.history.seconds > 0
    message = str(caught.value)
    assert f"{history.loss[-1]:.4g}" in message and "smaller lr (it was 0.02)" in message
    assert ("clip=1.0" in message) if clip is None else ("smaller clip (it was 1.0)" in message)


def test_divergence_at_the_first_step_has_no_last_loss():
    with pytest.raises(TrainingDiverged, match="at step 1; it was the first step"):
        run(make(), loss=planted(1, lambda model, batch: squared(model, batch) * math.nan))


def test_a_learning_rate_far_too_high_diverges_by_itself():
    model = nn.Linear(3, 2)
    with pytest.raises(TrainingDiverged):
        run(model, lr=50.0, optimizer=SGD, steps=200)
    assert weights(model).isfinite().all()


# Bad arguments


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": 2.5}, "steps"),
        ({"lr": -0.1}, "lr"),
        ({"lr": math.nan}, "lr"),
        ({"clip": 0}, "clip"),
        ({"evaluate": weights, "evaluate_every": 0}, "evaluate_every"),
        ({"evaluate_every": 3}, "evaluate: expected a function"),
        ({"schedule": lambda step: math.nan}, r"schedule\(0\)"),
        ({"schedule": lambda step: 1.0 - step}, r"schedule\(2\)"),
        ({"batches": []}, "batches: ran out after 0 steps"),
        ({"batches": lambda epoch: []}, "batches: ran out after 0 steps"),
        ({"batches": iter(data(4))}, "batches: ran out after 4 steps"),
        ({"loss": lambda model, batch: model(batch[0])}, r"without dimensions.*got Tensor of shape \(6, 2\)"),
        ({"loss": lambda model, batch: 1.5}, "got float"),
        ({"loss": lambda model, batch: torch.tensor(1.5)}, "does not depend on the parameters"),
        ({"optimizer": SGD(make().parameters(), lr=0.1), "lr": 0.2}, "lr: expected None"),
    ],
)
def test_fit_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        run(make(), **options)


def test_fit_refuses_a_model_without_parameters():
    with pytest.raises(ValueError, match="model: expected at least one parameter"):
        run(nn.Tanh())


# The language model's loss


ROWS = [[BOS, 5, 6, 7, EOS], [BOS, 8, EOS], [BOS, 4, 4, EOS]]


def padded(width):
    return torch.tensor([row + [PAD] * (width - len(row)) for row in ROWS])


@pytest.fixture
def lm():
    torch.manual_seed(0)
    return RecurrentLM(9, 3, 4)


def test_language_model_loss_is_the_mean_over_real_tokens_row_by_row(lm):
    total = count = 0.0
    for row in ROWS:
        for t in range(1, len(row)):  # each prefix alone: neither padding nor the future can matter
            logits, _ = lm(torch.tensor([row[:t]]))
            total -= F.log_softmax(logits[0, -1], dim=0)[row[t]].item()
            count += 1
    assert language_model_loss(lm, padded(5)).item() == pytest.approx(total / count, rel=1e-5)


def test_padding_changes_neither_the_loss_nor_its_gradient(lm):
    gradients = []
    for width in (5, 9):
        loss = language_model_loss(lm, padded(width))
        gradients.append([loss, *torch.autograd.grad(loss, list(lm.parameters()))])
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    "tokens",
    [
        torch.full((2, 1), BOS),
        torch.tensor([[BOS, PAD, PAD]]),
        torch.ones(2, 3),
        torch.ones(3, dtype=torch.long),
        ROWS[:1],
    ],
)
def test_language_model_loss_refuses(lm, tokens):
    with pytest.raises(ValueError, match="tokens: expected"):
        language_model_loss(lm, tokens)


# Checkpoints


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def test_a_checkpoint_gives_back_weights_and_card(path):
    model, other = make(0), make(1)
    card = {"data": "phrases", "seed": 0, "metrics": {"perplexity": 9.5}, "note": "größer ≥ 1"}
    save_checkpoint(path, model, card)
    loaded = load_checkpoint(path, other)
    assert torch.equal(weights(model), weights(other))
    assert {**card, "sha256": loaded["sha256"]} == loaded == json.loads(path.with_suffix(".json").read_text("utf-8"))


def test_a_card_can_be_read_alone(path):
    save_checkpoint(path, make(), {"seed": 3})
    path.unlink()
    assert read_card(path)["seed"] == 3
    with pytest.raises(ValueError, match=r"ending in \.safetensors"):
        read_card(path.with_suffix(".json"))


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_files_are_replaced_as_a_whole_or_not_at_all(path, tmp_path, monkeypatch, at):
    other = tmp_path / "other" / path.name
    other.parent.mkdir()
    for file, seed in ((path, 0), (other, 1)):
        save_checkpoint(file, make(seed), {"seed": seed})
    before, plain, calls = {p: p.read_bytes() for p in (path, path.with_suffix(".json"))}, type(path).write_bytes, []

    def killed(self, data):
        calls.append(self)
        plain(self, data[: len(data) // 2] if len(calls) == at else data)
        if len(calls) == at:
            raise KeyboardInterrupt

    monkeypatch.setattr(type(path), "write_bytes", killed)
    with suppress(KeyboardInterrupt):
        save_checkpoint(path, make(1), {"seed": 1})
    for file, content in before.items():
        assert file.read_bytes() in (content, (other.parent / file.name).read_bytes())


def test_shared_weights_stay_shared(path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.out = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
            self.out.weight = self.embed.weight

    model, other = Tied(), Tied()
    save_checkpoint(path, model, {})
    load_checkpoint(path, other)
    assert torch.equal(model.embed.weight, other.embed.weight) and other.out.weight is other.embed.weight


def test_training_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(path):
    through, stopped, resumed = make(), make(), make(1)
    run(through, steps=10)
    optimizer = torch.optim.Adam(stopped.parameters(), lr=1e-3)
    run(stopped, steps=5, optimizer=optimizer)
    save_checkpoint(path, stopped, {}, optimizer)
    optimizer = torch.optim.Adam(resumed.parameters(), lr=1e-3)
    load_checkpoint(path, resumed, optimizer)
    run(resumed, steps=5, optimizer=optimizer)
    assert torch.equal(weights(through), weights(resumed))
    load_checkpoint(path, make(2))  # the weights alone can be read from it too


@pytest.mark.parametrize("suffix", [".safetensors", ".json"])
def test_a_missing_file_is_named(path, suffix):
    save_checkpoint(path, make(), {})
    path.with_suffix(suffix).unlink()
    with pytest.raises(CheckpointError, match=rf"model\{suffix}: the file is missing.*git checkout -- model\{suffix}"):
        load_checkpoint(path, make())


@pytest.mark.parametrize("damage", [lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b[: len(b) // 2], lambda b: b""])
def test_an_altered_or_truncated_file_is_refused_with_both_checksums(path, damage):
    save_checkpoint(path, make(0), {})
    path.write_bytes(damage(path.read_bytes()))
    other = make(1)
    before = weights(other)
    with pytest.raises(CheckpointError, match="truncated or altered: expected sha256 [0-9a-f]{64} .* got [0-9a-f]{64}"):
        load_checkpoint(path, other)
    assert torch.equal(weights(other), before)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "\0"])
def test_a_damaged_card_is_refused(path, text):
    save_checkpoint(path, make(), {})
    path.with_suffix(".json").write_text(text)
    with pytest.raises(CheckpointError, match="model.json: expected a JSON object"):
        load_checkpoint(path, make())


def test_a_checkpoint_of_another_model_changes_nothing(path):
    save_checkpoint(path, make(), {})
    for other, message in (
        (nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 5)), r"expected \(5,\) for 2.bias .* got \(2,\)"),
        (nn.Sequential(nn.Linear(3, 4)), r"expected nothing for 2.bias .* got \(2,\)"),
        (nn.Sequential(*make(), nn.Linear(2, 2)), r"expected \(2,\) for 3.bias .* got nothing"),
    ):
        before = weights(other)
        with pytest.raises(ValueError, match=message):
            load_checkpoint(path, other)
        assert torch.equal(weights(other), before)


def test_an_optimizer_that_does_not_fit_is_refused(path):
    model = make()
    save_checkpoint(path, model, {})
    with pytest.raises(ValueError, match="expected the state of an optimizer"):
        load_checkpoint(path, model, torch.optim.Adam(model.parameters()))
    optimizer = torch.optim.Adam(model.parameters())
    run(model, optimizer=optimizer)
    save_checkpoint(path, model, {}, optimizer)
    with pytest.raises(ValueError, match="saved optimizer does not fit"):
        load_checkpoint(path, model, torch.optim.Adam(reversed(list(model.parameters()))))


@pytest.mark.parametrize("card", [{"loss": math.nan}, {"model": make()}])
def test_a_card_that_json_cannot_hold_is_refused_and_nothing_is_written(path, card):
    with pytest.raises(ValueError, match="card: expected values that JSON can hold"):
        save_checkpoint(path, make(), card)
    assert not list(path.parent.iterdir())


def test_other_file_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"ending in \.safetensors"):
        save_checkpoint(tmp_path / "model.pt", make(), {})
    with pytest.raises(ValueError, match=r"ending in \.safetensors"):
        load_checkpoint(tmp_path / "model.pt", make())
