"""Experiments: what is shipped is what they would measure, and an interrupted run goes on where it stopped."""

import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
import torch

from course_utils import experiments, models
from course_utils.corpora import Vocabulary
from course_utils.experiments import EXPERIMENTS, RESULTS, Experiment, results

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = ({"word": "small", "size": 1}, {"word": "small", "size": 2}, {"word": "big", "size": 2})


@pytest.fixture(autouse=True)
def same_number_of_threads_afterwards():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def tool(monkeypatch):
    """The program with one experiment, "toy"; `tool.ran` lists what was run, `tool.stop` is where Ctrl-C comes."""
    loader = SourceFileLoader("tools_experiment", str(ROOT / "tools" / "experiment"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tools_experiment", loader))
    loader.exec_module(module)
    module.ran, module.stop = [], None

    def run(word, size):
        module.ran.append((word, size))
        if module.stop == (word, size):
            raise KeyboardInterrupt
        return {"square": size**2, "half": size / 2, "letters": float(len(word))}

    monkeypatch.setattr(experiments, "EXPERIMENTS", {"toy": Experiment("toy", SETTINGS, run, "Squares and halves.")})
    return module


# What is shipped


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_shipped_results_are_those_of_all_settings_in_order(name):
    keys = EXPERIMENTS[name].settings[0]
    assert tuple({key: row[key] for key in keys} for row in results(name)) == EXPERIMENTS[name].settings


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_shipped_results_say_how_they_are_made_and_are_complete(name):
    assert (RESULTS / f"{name}.csv").read_text("utf-8").splitlines()[0] == f"# python tools/experiment {name}"
    for row in results(name):
        measured = [value for key, value in row.items() if key not in EXPERIMENTS[name].settings[0]]
        assert measured and all(isinstance(value, int | float) for value in measured)


def test_every_shipped_file_belongs_to_an_experiment_and_is_described():
    readme = (RESULTS / "README.md").read_text("utf-8")
    assert sorted(path.stem for path in RESULTS.glob("*.csv")) == sorted(EXPERIMENTS)
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name and f"`{name}`" in readme


def test_equal_time_measures_what_is_shipped(monkeypatch):
    trained = []

    def evaluate(found):
        trained.append(found)
        return plain(found, n=2)

    plain = models.evaluate
    monkeypatch.setattr(models, "evaluate", evaluate)
    first = results("equal_time")[0]
    row = EXPERIMENTS["equal_time"].run(model=first["model"], steps=2)
    assert {"model", "steps", *row} == set(first)
    assert [row[f"{low}-{high}"] for low, high in models.BUCKETS] == [0] * len(models.BUCKETS)  # after two steps
    assert trained[0].card["recipe"] == models.load("phrases-dot").card["recipe"] | {"steps": 2}


def test_training_follows_the_recipe_to_its_end_and_stops_with_ctrl_c(monkeypatch):
    recipe = models.Recipe("tiny", "phrases", {"d_embed": 4, "d_h": 6}, steps=3, batch_size=5, clip=0.1, max_len=6)
    pairs = models.phrases.generate(500, seed=0)
    vocabularies = tuple(Vocabulary.from_sequences(pair[side] for pair in pairs) for side in (0, 1))
    monkeypatch.setattr(models, "vocabularies", lambda data: vocabularies)
    monkeypatch.setattr(models, "_POOL", 20)
    found = experiments._train(recipe).model
    model = models.build(recipe, *map(len, vocabularies))
    optimizer = torch.optim.Adam(model.parameters())
    for step, batch in zip(range(3), models.batches(recipe, *vocabularies)):
        optimizer.param_groups[0]["lr"] = recipe.lr * (1, 0.75, 0.25)[step]  # half a cosine
        optimizer.zero_grad()
        models.teacher_forced_loss(model, batch).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimizer.step()
    assert not found.training
    torch.testing.assert_close(dict(found.state_dict()), dict(model.state_dict()))

    def press_ctrl_c(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments, "teacher_forced_loss", press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        experiments._train(recipe)


# Reading


def test_numbers_are_numbers_and_words_are_words(tool, tmp_path):
    assert tool.main(["toy", "--out", str(tmp_path)]) == 0
    rows = results("toy", tmp_path)
    assert rows[1] == {"word": "small", "size": 2, "square": 4, "half": 1.0, "letters": 5.0}
    assert [type(value) for value in rows[1].values()] == [str, int, int, float, float]


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="name: expected one of .*equal_time.*, got 'equal_tim'"):
        results("equal_tim")


def test_a_missing_file_is_named_with_the_command_that_makes_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"equal_time\.csv is missing; `python tools/experiment equal_time`"):
        results("equal_time", tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((), "expected one or more"),
        (({"a": 1}, {"b": 1}), "expected the keys a, got b"),
        (({"a": 1}, {"a": 2}, {"a": 1}), "got {'a': 1} twice"),
        (({"a": None},), "for a, got None"),
        (({"a": True},), "for a, got True"),
        (({"a": "1e3"},), "for a, got '1e3'"),
    ],
)
def test_settings_that_a_table_would_not_give_back_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Experiment("toy", settings, dict, "")


# The program


def test_the_file_says_how_it_is_made_and_has_a_row_for_each_setting(tool, tmp_path, capsys):
    assert tool.main(["toy", "--out", str(tmp_path / "new")]) == 0
    text = (tmp_path / "new" / "toy.csv").read_bytes().decode()
    assert text == (
        "# python tools/experiment toy\nword,size,square,half,letters\n"
        "small,1,1,0.5,5.0\nsmall,2,4,1.0,5.0\nbig,2,4,1.0,3.0\n"
    )
    assert "3 of 3: word big, size 2\n  square 4, half 1.0, letters 3.0\n" in capsys.readouterr().out
    assert list((tmp_path / "new").iterdir()) == [tmp_path / "new" / "toy.csv"]


def test_one_thread_is_used(tool, tmp_path):
    torch.set_num_threads(2)
    tool.main(["toy", "--out", str(tmp_path)])
    assert torch.get_num_threads() == 1


def test_an_interrupted_run_goes_on(tool, tmp_path, capsys):
    tool.stop = ("big", 2)
    assert tool.main(["toy", "--out", str(tmp_path)]) == 130
    assert "interrupted; the same command goes on" in capsys.readouterr().err
    assert [row["size"] for row in results("toy", tmp_path)] == [1, 2]  # what was done is there
    tool.ran.clear()
    tool.stop = None
    assert tool.main(["toy", "--out", str(tmp_path)]) == 0
    assert tool.ran == [("big", 2)]
    assert "1 of 3: word small, size 1: there already" in capsys.readouterr().out
    assert tool.main(["toy", "--out", str(tmp_path / "uninterrupted")]) == 0
    assert (tmp_path / "toy.csv").read_bytes() == (tmp_path / "uninterrupted" / "toy.csv").read_bytes()


def test_a_row_that_is_missing_in_the_middle_comes_back_to_its_place(tool, tmp_path):
    tool.main(["toy", "--out", str(tmp_path)])
    whole = (tmp_path / "toy.csv").read_text("utf-8")
    (tmp_path / "toy.csv").write_text(whole.replace("small,2,4,1.0,5.0\n", ""), "utf-8")
    tool.main(["toy", "--out", str(tmp_path)])
    assert (tmp_path / "toy.csv").read_text("utf-8") == whole


class Killed(BaseException):
    """What no code catches, as a process that is killed doesn't."""


def test_a_kill_while_a_row_is_written_leaves_the_rows_before(tool, tmp_path, monkeypatch):
    plain = Path.write_text

    def write(path, text, *arguments, **options):
        if "big" in text:
            plain(path, text[: text.index("big") + 2], *arguments, **options)
            raise Killed
        return plain(path, text, *arguments, **options)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Path, "write_text", write)
        tool.main(["toy", "--out", str(tmp_path)])
    assert [row["size"] for row in results("toy", tmp_path)] == [1, 2]


@pytest.mark.parametrize(
    ("old", "new"), [("small,2,", "small,7,"), ("word,", "ward,")], ids=["another value", "another column"]
)
def test_rows_of_other_settings_are_neither_mixed_nor_lost(tool, tmp_path, old, new, capsys):
    tool.main(["toy", "--out", str(tmp_path)])
    text = (tmp_path / "toy.csv").read_text("utf-8").replace(old, new)
    (tmp_path / "toy.csv").write_text(text, "utf-8")
    tool.ran.clear()
    assert tool.main(["toy", "--out", str(tmp_path)]) == 1
    assert "has a row of another setting" in capsys.readouterr().err
    assert (tmp_path / "toy.csv").read_text("utf-8") == text and tool.ran == []


def test_list(tool, capsys):
    assert tool.main(["--list"]) == 0
    assert "3 settings. Squares and halves." in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "message"), [([], "--list names them"), (["huge"], "invalid choice")])
def test_bad_arguments(tool, arguments, message, capsys):
    with pytest.raises(SystemExit):
        tool.main(arguments)
    assert message in capsys.readouterr().err
