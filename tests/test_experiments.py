"""Experiments: what is shipped is what they would measure, and an interrupted run goes on where it stopped."""

import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
import torch

from course_utils import experiments, models, pronouncing
from course_utils.corpora import Vocabulary
from course_utils.experiments import EXPERIMENTS, RESULTS, Experiment, results
from course_utils.training import History

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


# The rows of lecture 8 are long to make: here with few words and few steps, or with the training left out.

COLUMNS = {
    "scaling_law": ["parameters", "loss", "best_step", "validation_loss"],
    "transfer": ["per", "loss", "best_step"],
    "extrapolation": ["1-16", "17-32", "33-64", "65-96", "97-128", "129-256", "257-512"],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_tables_have_the_columns_that_are_measured(name):
    assert list(results(name)[0]) == [*EXPERIMENTS[name].settings[0], *COLUMNS[name]]


@pytest.fixture
def few_words(monkeypatch):
    """One word in 5000 to train on, and few to look at."""
    split = pronouncing.words()
    few = pronouncing.Words(split.train[::5000], split.validation[::600], split.test[::600])
    monkeypatch.setattr(pronouncing, "words", lambda: few)
    experiments._pretrained.cache_clear()
    yield few
    experiments._pretrained.cache_clear()


@pytest.fixture
def calls(monkeypatch):
    """What would have been trained: (function, model, tokens, steps, options); nothing is."""
    made = []

    def train(model, tokens, steps, **options):
        made.append(("train", model, tokens, steps, options))
        return History()

    def train_to_best(model, tokens, steps, **options):
        made.append(("train_to_best", model, tokens, steps, options))
        return History(evaluations=[(50, 2.0), (100, 1.25)]), 100

    monkeypatch.setattr(pronouncing, "train", train)
    monkeypatch.setattr(pronouncing, "train_to_best", train_to_best)
    return made


def rows_of(tokens):
    """Rows of ids without their pads."""
    return [tuple(token for token in row if token) for row in tokens.tolist()]


@pytest.mark.parametrize("d_model", [8, 24])
def test_scaling_law_counts_and_measures_what_was_trained(few_words, monkeypatch, d_model):
    monkeypatch.setattr(experiments, "_SCALING_STEPS", 2)
    trained, plain = [], pronouncing.train_to_best

    def train_to_best(model, *arguments, **options):
        trained.append((model, *plain(model, *arguments, **options)))
        return trained[0][1:]

    monkeypatch.setattr(pronouncing, "train_to_best", train_to_best)
    row = EXPERIMENTS["scaling_law"].run(d_model=d_model, words=5)
    model, history, best = trained[0]
    assert list(row) == COLUMNS["scaling_law"]
    assert row["parameters"] == 2 * (12 * d_model**2 + 13 * d_model)  # of two blocks: matrices, biases, normalizations
    loss = pronouncing.second_half_loss(model, pronouncing.pronounced(few_words.test)).item()
    assert row["loss"] == pytest.approx(loss, abs=1e-4)
    assert (row["best_step"], row["validation_loss"]) == (best, round(history.evaluations[0][1], 6))


def test_more_words_include_the_fewer_and_wider_models_learn_more_slowly(few_words, calls):
    for d_model, words in ((8, 5), (8, 12), (32, 12)):
        row = EXPERIMENTS["scaling_law"].run(d_model=d_model, words=words)
        assert (row["best_step"], row["validation_loss"]) == (100, 1.25)
    fewer, more, same = (rows_of(call[2]) for call in calls)
    assert len(fewer) == 5 and len(more) == 12 and more[:5] == fewer and same == more
    assert set(more) <= set(rows_of(pronouncing.pronounced(few_words.train)))
    assert calls[0][4]["lr"] == pytest.approx(2 * calls[2][4]["lr"])


def test_transfer_goes_on_from_spellings_or_from_scratch(few_words, calls):
    runs = [(start, words) for start in ("scratch", "next letter", "repeat") for words in (5, 600)]
    for start, words in runs:
        row = EXPERIMENTS["transfer"].run(start=start, words=words, seed=1)
        assert list(row) == COLUMNS["transfer"] and row["best_step"] == 100
    before = [call for call in calls if call[0] == "train"]  # once for each start
    assert [call[4]["seed"] for call in before] == [1, 1]
    assert torch.equal(before[0][2], pronouncing.spelled(few_words.train))
    assert torch.equal(before[1][2], pronouncing.repeated(few_words.train))
    after = [call for call in calls if call[0] == "train_to_best"]
    assert [call[3] for call in after] == [300, 800] * 3 and {call[4]["seed"] for call in after} == {1}
    assert len({tuple(rows_of(call[2])) for call in after[::2]}) == 1  # the same words, whatever the start
    assert len({id(call[1]) for call in calls}) == len(calls)  # each a model of its own: starts are used again


def test_the_start_of_transfer_is_what_pre_training_gave(few_words, calls, monkeypatch):
    def train(model, *_, **__):
        with torch.no_grad():
            model.embed.tokens.weight.fill_(0.5)
        return History()

    monkeypatch.setattr(pronouncing, "train", train)
    for start in ("repeat", "scratch"):
        EXPERIMENTS["transfer"].run(start=start, words=5, seed=0)
    found, scratch = (call[1].embed.tokens.weight for call in calls)
    assert (found == 0.5).all() and torch.equal(scratch, pronouncing.make(64).embed.tokens.weight)


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("scaling_law", {"d_model": 8, "words": 5}),
        ("transfer", {"start": "scratch", "words": 5, "seed": 0}),
        ("pointers", {"start": "next letter", "seed": 0}),
        ("extrapolation", {"positions": "alibi", "seed": 0}),
    ],
)
def test_a_stopped_training_gives_no_row(name, setting, few_words, monkeypatch):
    stopped = History(evaluations=[(50, 2.0)], interrupted=True)
    monkeypatch.setattr(pronouncing, "train", lambda *_, **__: stopped)
    monkeypatch.setattr(pronouncing, "train_to_best", lambda *_, **__: (stopped, 50))
    with pytest.raises(KeyboardInterrupt):
        EXPERIMENTS[name].run(**setting)


def test_pointers_are_those_of_the_models_that_transfer_starts_from(few_words, monkeypatch):
    looked_at = []
    monkeypatch.setattr(pronouncing, "train", lambda *_, **__: History())
    monkeypatch.setattr(pronouncing, "pointing", lambda model, chosen: looked_at.append((model, chosen)) or 0.25)
    assert EXPERIMENTS["pointers"].run(start="repeat", seed=1) == {"pointing": 0.25}
    assert looked_at == [(experiments._pretrained("repeat", 1), few_words.test)]


def test_extrapolation_measures_places_beyond_those_of_training(few_words, calls, monkeypatch):
    streams, plain = [], pronouncing.stream

    def stream(chosen, N, T, seed=0):
        streams.append((chosen, N, T, seed))
        return plain(chosen, 2, T, seed)

    monkeypatch.setattr(pronouncing, "stream", stream)
    monkeypatch.setattr(pronouncing, "loss_by_place", lambda model, tokens: torch.arange(tokens.shape[1] - 1.0))
    row = EXPERIMENTS["extrapolation"].run(positions="alibi", seed=2)
    assert row == dict(zip(COLUMNS["extrapolation"], (7.5, 23.5, 47.5, 79.5, 111.5, 191.5, 383.5), strict=True))
    assert streams == [(few_words.train, 10_000, 64, 2), (few_words.test, 200, 512, 1)]
    ((_, model, tokens, _, options),) = calls
    assert tokens.shape[1] == 65 and options["seed"] == 2 and model.blocks[0].attention.positions == "alibi"
    # Each kind of positions reaches the last place.
    for setting in EXPERIMENTS["extrapolation"].settings:
        model = pronouncing.make(48, n_heads=4, positions=setting["positions"])
        model.embed.check(torch.zeros(1, 512, dtype=torch.int64))


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
