"""tools/train: resumed equals uninterrupted, two processes equal one, and no checkpoint is taken for another."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
import safetensors.torch
import torch

from course_utils import models, training
from course_utils.corpora import Vocabulary

ROOT = Path(__file__).resolve().parents[1]
TOOL = ROOT / "tools" / "train"
STEPS = 24

# The tool with a recipe so small that a step takes milliseconds, and a record of what each process has seen.
SCRIPT = f"""
import json, os, runpy, sys
sys.path.insert(0, {str(ROOT / "tests")!r})
import test_train_tool as tests
from course_utils import training

def fit(*arguments, **options):
    history = plain(*arguments, **options)
    name = f"history-{{os.environ.get('RANK', 0)}}.json"
    open(os.path.join(os.path.dirname(__file__), name), "w").write(json.dumps([history.loss, history.grad_norm]))
    return history

plain, training.fit = training.fit, fit
tests.make_tiny(setattr)
sys.argv[0] = "tools/train"
runpy.run_path({str(TOOL)!r}, run_name="__main__")
"""


def make_tiny(setattr, **changes):
    """Add the recipe "tiny", and shorten what takes long."""
    options = {"steps": STEPS, "batch_size": 7, "lr": 0.02, "warmup": 3, "label_smoothing": 0.1, "clip": 0.1}
    recipe = models.Recipe("tiny", "phrases", {"d_embed": 8, "d_h": 12}, **options | {"max_len": 6} | changes)
    setattr(models, "RECIPES", {"tiny": recipe})
    setattr(models, "_POOL", 74)  # ten batches and a rest: three epochs
    setattr(models, "evaluate", lambda trained: {"exact_match": 0.5})
    setattr(models, "vocabularies", lambda data: vocabularies)


def small_vocabularies():
    pairs = models.phrases.generate(500, seed=0)
    return tuple(Vocabulary.from_sequences(pair[side] for pair in pairs) for side in (0, 1))


vocabularies = small_vocabularies()


@pytest.fixture(autouse=True)
def same_number_of_threads_afterwards():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def tool(monkeypatch):
    make_tiny(monkeypatch.setattr)
    loader = SourceFileLoader("tools_train", str(TOOL))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tools_train", loader))
    loader.exec_module(module)
    return module


def arguments(folder, *more):
    return ["tiny", "--out", str(folder / "out"), "--checkpoints", str(folder / "checkpoints"), "--every", "5", *more]


def result(folder):
    return safetensors.torch.load_file(folder / "out" / "tiny.safetensors")


def card(folder):
    return json.loads((folder / "out" / "tiny.json").read_text("utf-8"))


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    assert [name for name in expected if not torch.equal(found[name], expected[name])] == []


def steps_saved(folder):
    return [int(path.stem.removeprefix("step-")) for path in (folder / "checkpoints" / "tiny").glob("*.json")]


@pytest.fixture
def uninterrupted(tool, tmp_path):
    folder = tmp_path / "uninterrupted"
    assert tool.main(arguments(folder)) == 0
    return result(folder)


def stop_at(monkeypatch, step, action):
    """Have the batch of a step, counted from 1, call `action` instead."""
    plain = models.batches

    def batches(recipe, source_vocab, target_vocab, first):
        for i, batch in enumerate(plain(recipe, source_vocab, target_vocab, first), first + 1):
            if i == step:
                action()
            yield batch

    monkeypatch.setattr(models, "batches", batches)


def press_ctrl_c():
    raise KeyboardInterrupt


def start(folder, *more, python=(sys.executable,)):
    folder.mkdir(exist_ok=True)
    script = folder / "tiny.py"
    script.write_text(SCRIPT, "utf-8")
    line = [*python, str(script), *arguments(folder, *more)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


# A run as a whole


def test_a_run_makes_a_model_that_can_be_loaded_and_says_what_it_does(tool, tmp_path, capsys):
    assert tool.main(arguments(tmp_path)) == 0
    trained = models.load("tiny", tmp_path / "out")
    assert_equal(trained.model.state_dict(), result(tmp_path))
    assert trained.card["recipe"] == models.asdict(models.RECIPES["tiny"])
    assert trained.card["command"] == "python tools/train tiny"
    assert trained.card["metrics"] == {"exact_match": 0.5}
    assert steps_saved(tmp_path) == [STEPS]  # older ones are removed
    out = capsys.readouterr().out
    assert f"{trained.card['parameters']:,} parameters, {STEPS} steps, from step 0" in out
    assert "step 5 of 24: loss " in out and "exact_match: 0.5" in out


def test_the_weights_are_those_of_a_loop_written_out(tool, uninterrupted):
    recipe = models.RECIPES["tiny"]
    model = models.build(recipe, *map(len, vocabularies))
    optimizer = torch.optim.Adam(model.parameters())
    for step, batch in zip(range(STEPS), models.batches(recipe, *vocabularies)):
        optimizer.param_groups[0]["lr"] = recipe.lr * training.cosine_decay(STEPS, 3)(step)
        optimizer.zero_grad()
        models.teacher_forced_loss(model, batch, 0.1).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimizer.step()
    torch.testing.assert_close(dict(model.state_dict()), uninterrupted)


def test_a_card_tells_nothing_about_the_machine(tool, tmp_path):
    tool.main(arguments(tmp_path))
    text = (tmp_path / "out" / "tiny.json").read_text("utf-8")
    for private in (str(tmp_path), str(ROOT), str(Path.home()) + os.sep, os.uname().nodename):
        assert private not in text


def test_measuring_again_needs_no_training(tool, tmp_path, monkeypatch, uninterrupted):
    tool.main(arguments(tmp_path))
    monkeypatch.setattr(models, "evaluate", lambda trained: {"exact_match": 0.75})
    monkeypatch.setattr(tool, "fit", press_ctrl_c)
    assert tool.main(arguments(tmp_path)) == 0
    assert card(tmp_path)["metrics"] == {"exact_match": 0.75}
    assert_equal(result(tmp_path), uninterrupted)


def test_list(tool, capsys):
    assert tool.main(["--list"]) == 0
    assert "tiny" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "--list names them"),
        (["huge"], "invalid choice"),
        (["tiny", "--every", "0"], "expected 1 or more"),
        (["tiny", "--steps", "0"], "expected 1 or more"),
        (["tiny", "--steps", "5"], "--out says where it goes"),
        (["tiny", "--steps", "3", "--out", "nowhere"], "--steps: expected more than the 3 of the warm-up, got 3"),
    ],
)
def test_bad_arguments(tool, more, message, capsys):
    with pytest.raises(SystemExit):
        tool.main(more)
    assert message in capsys.readouterr().err


def test_a_run_may_be_as_short_as_its_warm_up_and_a_step(tool, tmp_path):
    assert tool.main(arguments(tmp_path, "--steps", "4")) == 0
    assert steps_saved(tmp_path) == [4]


# Interruptions


@pytest.mark.parametrize("step", [1, 6, 11, STEPS])
def test_an_interrupted_run_goes_on_as_if_it_had_not_stopped(tool, tmp_path, monkeypatch, uninterrupted, step, capsys):
    with monkeypatch.context() as patch:
        stop_at(patch, step, press_ctrl_c)
        assert tool.main(arguments(tmp_path)) == 130
    assert "interrupted" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert steps_saved(tmp_path) == ([step - 1] if step > 1 else [])
    assert tool.main(arguments(tmp_path)) == 0
    assert f"from step {step - 1}\n" in capsys.readouterr().out
    assert_equal(result(tmp_path), uninterrupted)


def test_a_run_may_be_interrupted_again_and_again(tool, tmp_path, monkeypatch, uninterrupted):
    for step in (4, 5, 13, 14):
        with monkeypatch.context() as patch:
            stop_at(patch, step, press_ctrl_c)
            assert tool.main(arguments(tmp_path)) == 130
    assert tool.main(arguments(tmp_path)) == 0
    assert_equal(result(tmp_path), uninterrupted)


class Killed(BaseException):
    """What no code catches, as a process that is killed doesn't."""


@pytest.mark.parametrize("suffix", [".safetensors", ".json"])
@pytest.mark.parametrize("written", [0.0, 0.5, 1.0])
def test_a_kill_while_a_checkpoint_is_written_leaves_the_one_before(
    tool, tmp_path, monkeypatch, uninterrupted, suffix, written
):
    plain = Path.write_bytes

    def write(path, data):
        if f"step-00000010{suffix}" in path.name:
            plain(path, data[: int(len(data) * written)])
            raise Killed
        return plain(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", write)
        with pytest.raises(Killed):
            tool.main(arguments(tmp_path))
    assert steps_saved(tmp_path) == [5]
    assert tool.main(arguments(tmp_path)) == 0
    assert_equal(result(tmp_path), uninterrupted)
    assert len(list((tmp_path / "checkpoints" / "tiny").iterdir())) == 2  # no leftovers


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_killed_process_goes_on_from_its_last_checkpoint(tool, tmp_path):
    folder, steps = tmp_path / "killed", ("--steps", "400")
    process = start(folder, *steps)
    while not (folder / "checkpoints" / "tiny").is_dir() or not steps_saved(folder):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL and 0 < max(steps_saved(folder)) < 400
    for run in (folder, tmp_path / "uninterrupted"):
        assert tool.main(arguments(run, *steps)) == 0
    assert_equal(result(folder), result(tmp_path / "uninterrupted"))


def test_restart_forgets_the_run(tool, tmp_path, monkeypatch, uninterrupted, capsys):
    with monkeypatch.context() as patch:
        stop_at(patch, 8, press_ctrl_c)
        tool.main(arguments(tmp_path))
    assert tool.main(arguments(tmp_path, "--restart")) == 0
    assert "from step 0\n" in capsys.readouterr().out
    assert_equal(result(tmp_path), uninterrupted)


# Checkpoints that don't serve


@pytest.mark.parametrize(
    ("changes", "more", "message"),
    [
        ({}, ["--steps", "30"], "steps 24 instead of 30"),
        ({"lr": 0.01}, [], "lr 0.02 instead of 0.01"),
        ({"warmup": 0, "label_smoothing": 0.2}, [], "warmup 3 instead of 0, label_smoothing 0.1 instead of 0.2"),
        ({"batch_size": 8, "seed": 1}, [], "batch_size 7 instead of 8, seed 0 instead of 1"),
    ],
)
def test_a_checkpoint_of_another_recipe_is_refused(tool, tmp_path, monkeypatch, capsys, changes, more, message):
    with monkeypatch.context() as patch:
        stop_at(patch, 8, press_ctrl_c)
        tool.main(arguments(tmp_path))
    make_tiny(monkeypatch.setattr, **changes)
    assert tool.main(arguments(tmp_path, *more)) == 1
    error = capsys.readouterr().err
    assert f"belongs to another run, with {message}\n--restart begins again." in error
    assert steps_saved(tmp_path) == [7] and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("suffix", "content", "message"),
    [
        (".safetensors", b"half of a file", "truncated or altered: expected sha256"),
        (".safetensors", None, "the file is missing"),
        (".json", b"{", "expected a JSON object"),
    ],
)
def test_a_damaged_checkpoint_is_refused(tool, tmp_path, monkeypatch, capsys, suffix, content, message):
    with monkeypatch.context() as patch:
        stop_at(patch, 8, press_ctrl_c)
        tool.main(arguments(tmp_path))
    path = (tmp_path / "checkpoints" / "tiny" / "step-00000007").with_suffix(suffix)
    path.unlink() if content is None else path.write_bytes(content)
    assert tool.main(arguments(tmp_path)) == 1
    error = capsys.readouterr().err
    assert str(path) in error and message in error and error.endswith("--restart begins again.\n")


def test_a_run_that_diverges_says_so_and_writes_no_model(tool, tmp_path, monkeypatch, capsys):
    make_tiny(monkeypatch.setattr, lr=1e37)
    assert tool.main(arguments(tmp_path)) == 1
    assert "became" in capsys.readouterr().err and not (tmp_path / "out").exists()


# Several processes


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    process = start(folder, python=torchrun)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return folder, out


def test_two_processes_give_what_one_gives(two_processes, uninterrupted):
    folder, _ = two_processes
    torch.testing.assert_close(result(folder), uninterrupted, rtol=0, atol=2e-5)


def test_both_processes_see_the_loss_and_the_gradient_norm_of_one(tool, tmp_path, monkeypatch, two_processes):
    histories = []

    def fit(*arguments, **options):
        histories.append(training.fit(*arguments, **options))
        return histories[0]

    monkeypatch.setattr(tool, "fit", fit)
    tool.main(arguments(tmp_path))
    for rank in (0, 1):
        loss, norm = json.loads((two_processes[0] / f"history-{rank}.json").read_text())
        assert len(loss) == STEPS
        assert loss == pytest.approx(histories[0].loss, rel=1e-5)
        assert norm == pytest.approx(histories[0].grad_norm, rel=1e-4)
        assert min(norm) > models.RECIPES["tiny"].clip  # clipping had something to do


def test_only_the_first_process_prints_and_writes(two_processes):
    folder, out = two_processes
    assert out.count("parameters") == out.count("wrote") == 1
    assert card(folder)["command"] == "torchrun --nproc-per-node 2 tools/train tiny"
    assert steps_saved(folder) == [STEPS]


def test_more_processes_than_pairs_in_a_batch_are_refused(tool, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setattr(tool.dist, "init_process_group", lambda backend: None)
    with pytest.raises(ValueError, match="processes: expected a number in .*7.*got 8"):
        tool.main(arguments(tmp_path))


def test_dropout_goes_on_as_if_it_had_not_stopped_either(tool, tmp_path, monkeypatch):
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 12, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.3}
    recipe = models.Recipe(**models.asdict(models.RECIPES["tiny"]) | {"model": sizes})
    monkeypatch.setattr(models, "RECIPES", {"tiny": recipe})
    assert tool.main(arguments(tmp_path / "whole")) == 0
    with monkeypatch.context() as patch:
        stop_at(patch, 8, press_ctrl_c)
        assert tool.main(arguments(tmp_path / "halves")) == 130
    torch.manual_seed(7)
    assert tool.main(arguments(tmp_path / "halves")) == 0
    assert_equal(result(tmp_path / "halves"), result(tmp_path / "whole"))
