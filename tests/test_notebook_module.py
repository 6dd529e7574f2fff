"""Verified statements, shown source, the environment check, and the progress bar in a real kernel."""

import copy
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch
from IPython.core.formatters import DisplayFormatter
from jupyter_client import KernelManager
from nbclient import NotebookClient

from course_utils import corpora, metrics, notebook, progress, training
from course_utils.notebook import environment_check, setup, show_source, verify
from course_utils.progress import Progress, duration

ROOT = Path(__file__).parents[1]


@pytest.fixture
def shown(monkeypatch):
    """What is displayed, each as the formats a notebook would get."""
    bundles = []
    format_ = DisplayFormatter().format
    monkeypatch.setattr(notebook, "display", lambda item: bundles.append(format_(item)[0]))
    return bundles


# setup


@pytest.fixture
def settings_restored():
    threads = torch.get_num_threads()
    with np.printoptions(), torch.random.fork_rng():
        yield
    torch.set_num_threads(threads)
    torch.set_printoptions(profile="default")


def test_setup_seeds_torch_and_says_nothing(settings_restored, capsys):
    setup(seed=3)
    drawn = torch.rand(2)
    setup(seed=3)
    assert torch.equal(drawn, torch.rand(2))
    setup(seed=4)
    assert not torch.equal(drawn, torch.rand(2))
    assert capsys.readouterr() == ("", "")


def test_setup_fixes_the_threads_and_makes_numbers_short(settings_restored):
    setup(threads=2)
    assert torch.get_num_threads() == 2
    setup()
    assert torch.get_num_threads() == 1
    assert str(np.array([1 / 3, 1e-9])) == "[0.3333 0.    ]"
    assert str(torch.tensor([1 / 3, 1e-9])) == "tensor([0.3333, 0.0000])"


# verify


@pytest.mark.parametrize("true", [True, np.True_, np.array(True), torch.tensor(True), (torch.ones(3) > 0).all()])
def test_a_true_statement_is_shown_with_a_check_mark(shown, true):
    verify("every weight ≥ 0, and a < b", true)
    assert shown[0]["text/plain"] == "✓ every weight ≥ 0, and a < b"
    assert "every weight ≥ 0, and a &lt; b" in shown[0]["text/html"]
    assert 'role="img" aria-label="verified:"' in shown[0]["text/html"]


@pytest.mark.parametrize("false", [False, np.False_, torch.tensor(False)])
def test_a_false_statement_stops_the_cell(shown, false):
    with pytest.raises(AssertionError, match="^✗ a < b$"):
        verify("a < b", false)
    assert shown == []


@pytest.mark.parametrize(
    "other", [None, 1, 0.0, "yes", [], [True], (), np.array([True]), torch.tensor([True]), np.ones(2)]
)
def test_a_condition_that_is_not_one_truth_value_is_refused(shown, other):
    with pytest.raises(TypeError, match="verify: expected one truth value for “a < b”, got "):
        verify("a < b", other)
    assert shown == []


def test_the_refusal_says_what_came():
    with pytest.raises(TypeError, match=r"got ndarray of shape \(2, 3\); did you mean \.all\(\)\?"):
        verify("a", np.ones((2, 3), dtype=bool))
    with pytest.raises(TypeError, match="verify: expected a sentence first, got bool"):
        verify(True, "a")


def test_outside_a_notebook_the_statement_is_printed(capsys):
    verify("a < b", True)
    assert capsys.readouterr().out == "✓ a < b\n"


# show_source


def test_show_source_shows_the_code_itself(shown):
    show_source(metrics.perplexity, training.History)
    for bundle, name, start in zip(shown, ("metrics", "training"), ("def perplexity(", "@dataclass"), strict=True):
        code = bundle["text/plain"]
        assert code.startswith(f"# course_utils.{name}\n{start}")
        assert bundle["text/markdown"] == f"```python\n{code}\n```"
        compile(code, name, "exec")


def test_show_source_can_leave_the_docstring_out_and_shows_a_method_at_the_margin(shown):
    show_source(Progress.finish, metrics.perplexity, docstring=False)
    method, function = (bundle["text/plain"].splitlines()[1:] for bundle in shown)
    assert method[0].startswith("def finish") and function[0].startswith("def perplexity")
    assert not any('"""' in line for line in function)
    assert function[-1] == inspect.getsource(metrics.perplexity).splitlines()[-1]


@pytest.mark.parametrize("arguments", [(), (len,), (3.5,), (np.ones(2),)])
def test_show_source_refuses_what_has_no_source(shown, arguments):
    with pytest.raises(TypeError, match="show_source: "):
        show_source(*arguments)


# environment_check


def failures(report):
    text, html_ = repr(report), report._repr_html_()
    failed = [check for check in report.checks if not check.ok]
    assert report.ok == (not failed)
    assert text.count("✗ ") == len(failed) and html_.count("✗</span>") == len(failed)
    for check in failed:
        assert check.advice and check.advice in text
    return {check.name: check for check in failed}


def test_the_environment_of_the_tests_is_fine_and_the_check_leaves_random_numbers_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    assert failures(environment_check()) == {}
    assert torch.equal(torch.rand(3), expected)


@pytest.fixture
def quick(monkeypatch):
    """Leave out what takes long, where it isn't looked at."""
    monkeypatch.setattr(notebook, "_look_at_data", lambda: [])
    monkeypatch.setattr(notebook, "_look_at_training", lambda: [])


def test_an_old_python_and_old_or_missing_packages_are_found(quick, monkeypatch, tmp_path):
    project = '[project]\nrequires-python = ">=9"\ndependencies = ["numpy>=1.0", "torch>=99", "not-a-package>=1"]\n'
    (tmp_path / "pyproject.toml").write_text(project)
    monkeypatch.setattr(notebook, "PYPROJECT", tmp_path / "pyproject.toml")
    found = failures(environment_check())
    assert found.keys() == {"Python", "torch", "not-a-package"}
    assert "needed: >=9" in found["Python"].found and "Install Python >=9" in found["Python"].advice
    assert found["torch"].found == f"{torch.__version__} (needed: >=99)" and "make setup" in found["torch"].advice
    assert found["not-a-package"].found == "not installed (needed: >=1)"


def test_a_missing_pyproject_is_found(quick, monkeypatch, tmp_path):
    monkeypatch.setattr(notebook, "PYPROJECT", tmp_path / "pyproject.toml")
    assert "FileNotFoundError" in failures(environment_check())["Python and packages"].found


def without_writing(monkeypatch, error):
    def refuse(**_):
        raise error

    monkeypatch.setattr(notebook.tempfile, "NamedTemporaryFile", refuse)
    return environment_check()


def test_a_folder_that_can_only_be_read_is_enough(quick, monkeypatch):
    report = without_writing(monkeypatch, PermissionError(13, "Permission denied"))
    assert failures(report) == {}
    assert any(c.name == "Folder" and "read-only (Permission denied)" in c.found for c in report.checks)


def test_a_full_disk_is_found(quick, monkeypatch):
    found = failures(without_writing(monkeypatch, OSError(28, "No space left on device")))
    assert found.keys() == {"Folder"} and "No space left" in found["Folder"].found


def test_missing_data_are_found(monkeypatch, tmp_path):
    monkeypatch.setattr(notebook, "_look_at_training", lambda: [])
    load = corpora.load_pronunciations
    monkeypatch.setattr(corpora, "load_pronunciations", lambda: load(tmp_path / "pronunciations.tsv.gz"))
    found = failures(environment_check())
    assert found.keys() == {"Data"}
    assert "missing" in found["Data"].found and "git checkout" in found["Data"].advice


def test_a_torch_that_cannot_be_imported_is_found(monkeypatch):
    monkeypatch.setattr(notebook, "_look_at_data", lambda: [])
    monkeypatch.setitem(sys.modules, "torch", None)
    assert failures(environment_check()).keys() == {"Threads", "Self-test"}


def test_a_wrong_gradient_is_found(monkeypatch):
    monkeypatch.setattr(notebook, "_look_at_data", lambda: [])
    right = training.language_model_loss

    def wrong(model, tokens):  # the right value, with a gradient that is 10⁻⁶ too large
        total = 1e-6 * sum(p.sum() for p in model.parameters())
        return right(model, tokens) + total - total.detach()

    monkeypatch.setattr(training, "language_model_loss", wrong)
    found = failures(environment_check())
    assert "does not agree with finite differences" in found["Self-test"].found


def test_training_that_does_not_learn_is_found(monkeypatch):
    monkeypatch.setattr(notebook, "_look_at_data", lambda: [])
    monkeypatch.setattr(training, "fit", lambda *_, **__: training.History(loss=[2.0, 2.0]))
    assert "did not lower the loss" in failures(environment_check())["Self-test"].found


# The progress bar


def test_durations_read_at_a_glance():
    assert [duration(s) for s in (0.2, 59.4, 59.6, 125, 4800)] == [
        "0 s",
        "59 s",
        "1 min 00 s",
        "2 min 05 s",
        "1 h 20 min",
    ]


def test_nothing_is_shown_where_nobody_watches(capsys):
    bar = Progress("training", 2)
    bar.update(1, 0.5, 0.1)
    bar.finish("2 of 2 steps")
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_one_line(monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    bar = Progress("training", 40)
    for step in range(1, 41):
        clock[0] += 0.01
        bar.update(step, 1.23456, 0.1)
    bar.finish("40 of 40 steps")
    err = capsys.readouterr().err
    assert err.startswith("\rtraining: 1 of 40 · loss 1.235 · gradient norm 0.1 · ")
    assert err.endswith("\rtraining: 40 of 40 steps\x1b[K\n") and err.count("\n") == 1
    assert err.count("\r") == 3  # at the start, after 0.2 s, at the end


class Handle:
    def __init__(self, bundle):
        self.bundles = [bundle]

    def update(self, bundle, raw):
        self.bundles.append(bundle)


@pytest.fixture
def bar(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress, "get_ipython", lambda: type("Shell", (), {"kernel": None})())
    monkeypatch.setattr(progress, "display", lambda bundle, raw, display_id: Handle(bundle))
    monkeypatch.setattr(progress.time, "perf_counter", lambda: clock[0])
    bar = Progress("RNN <small>", 400)
    bar.clock = clock
    return bar


def test_the_bar_tells_steps_loss_gradient_and_remaining_time_also_to_a_screen_reader(bar):
    bar.clock[0] = 2.0
    bar.update(100, 1.5, 0.25)
    bundle = bar.handle.bundles[-1]
    assert bundle["text/plain"] == "RNN <small>: 100 of 400 · loss 1.5 · gradient norm 0.25 · 6 s left"
    html_ = bundle["text/html"]
    for part in (
        'role="progressbar"',
        'aria-label="RNN &lt;small&gt;"',
        'aria-valuemin="0" aria-valuemax="400" aria-valuenow="100"',
        "width: 25.0%",
        "loss 1.5 · gradient norm 0.25 · 6 s left",
    ):
        assert part in html_
    assert "<small>" not in html_


def test_the_bar_is_drawn_at_most_five_times_a_second_and_always_at_the_end(bar):
    for step in range(1, 401):
        bar.clock[0] = step / 100
        bar.update(step, 1.0, 1.0)
    bar.finish("400 of 400 steps")
    assert 15 <= len(bar.handle.bundles) <= 23
    assert bar.handle.bundles[-1] == {
        "text/plain": "RNN <small>: 400 of 400 steps",
        "text/html": "<div>RNN &lt;small&gt;: 400 of 400 steps</div>",
    }


# In a real kernel

PREPARE = """
import time, torch
from torch import nn
from course_utils.notebook import setup, verify
from course_utils.training import TrainingDiverged, fit
setup()

def slow(model, batch):
    time.sleep(0.02)
    return (model(batch) ** 2).mean()

model, batches = nn.Linear(3, 1), [torch.ones(2, 3)]
"""
CELLS = [
    PREPARE,
    'verify("30 steps were made", len(fit(model, batches, loss=slow, steps=30)) == 30)',
    'fit(model, batches, loss=slow, steps=25, label="again", evaluate=lambda model: 1.0)',
    "try:\n    fit(model, batches, loss=lambda m, b: slow(m, b) * torch.nan, steps=5)\n"
    "except TrainingDiverged:\n    print('as expected')",
]


@pytest.fixture(scope="module")
def kernel():
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=os.environ | {"OMP_NUM_THREADS": "1"})
    yield manager
    manager.shutdown_kernel(now=True)


def executed(kernel):
    """The cells with the outputs that a saved notebook would have."""
    cells = [nbformat.v4.new_code_cell(source, id=f"cell-{i}") for i, source in enumerate(CELLS)]
    nb = nbformat.v4.new_notebook(cells=cells)
    return NotebookClient(nb, km=kernel, timeout=60, record_timing=False).execute()


def test_a_notebook_that_trains_is_saved_the_same_each_time_and_passes_nbval(kernel, tmp_path):
    nb, second = executed(kernel), executed(kernel)
    for one, other in zip(nb.cells, second.cells, strict=True):
        # Both ran in one kernel, which goes on counting.
        assert [o | {"execution_count": 0} for o in one.outputs] == [o | {"execution_count": 0} for o in other.outputs]
    outputs = [[o.get("text") or o.data["text/plain"] for o in cell.outputs] for cell in nb.cells]
    assert outputs == [
        [],
        ["training: 30 of 30 steps", "✓ 30 steps were made"],
        ["again: 25 of 25 steps", "History of 25 steps"],
        ["training: diverged", "as expected\n"],
    ]
    altered = copy.deepcopy(nb.cells[2])
    altered.outputs[0].data["text/plain"] = "again: 24 of 25 steps"
    altered.id = "altered"
    nb.cells.append(altered)
    assert nbval(nb, tmp_path / "trains.ipynb") == ["PASSED"] * 4 + ["FAILED"]


def nbval(nb, path):
    nbformat.write(nb, path)
    options = ["-c", "pyproject.toml", "-p", "conftest", "-p", "no:cacheprovider", "-n0", "-v"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment["OMP_NUM_THREADS"] = "1"
    command = [sys.executable, "-m", "pytest", *options, str(path)]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    return re.findall(r"::Cell \d+ (PASSED|FAILED)", result.stdout)


def test_the_stop_button_ends_a_training_run_and_keeps_its_history(kernel):
    client = kernel.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    texts, pressed = [], []

    def watch(message):
        assert message["msg_type"] != "error", message["content"]
        if "data" in message["content"]:
            texts.append(message["content"]["data"]["text/plain"])
        if texts and not pressed and re.search(r" [1-9]\d* of 10000 · loss", texts[-1]):
            pressed.append(kernel.interrupt_kernel())

    code = PREPARE + "history = fit(model, batches, loss=slow, steps=10_000)"
    asked = {"steps": "len(history)", "stopped": "history.interrupted", "finite": "bool(model.weight.isfinite().all())"}
    reply = client.execute_interactive(code, user_expressions=asked, output_hook=watch, timeout=60)
    client.stop_channels()
    answers = {name: value["data"]["text/plain"] for name, value in reply["content"]["user_expressions"].items()}
    steps = int(answers["steps"])
    assert pressed and 0 < steps < 10_000 and answers["stopped"] == answers["finite"] == "True"
    assert texts[-1] == f"training: interrupted after {steps} of 10000 steps"
