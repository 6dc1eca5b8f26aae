"""``gpclass reproduce``: which experiments, which messages, which files."""

import pytest
from typer.testing import CliRunner

from gpclass.app.commands import app
from gpclass.app.reproduce import load
from gpclass.experiments import experiments, runner
from helpers import folder


def call(*args):
    return CliRunner().invoke(app, ["reproduce", *map(str, args)])


def test_the_list_has_every_experiment():
    done = call("--list")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(experiments())


def test_one_experiment(tmp_path):
    done = call("rw06-3.4", "--quick", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert "rw06-3.4       2 matched" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {
        "cache", "index.md", "rw06-3.4.md", "rw06-3.4.json", "rw06-3.4-1.png", "rw06-3.4-1.svg",
    }  # fmt: skip


def test_pages_are_written_of_what_is_on_record(tmp_path):
    call("rw06-3.4", "--quick", "--out", tmp_path)
    page = tmp_path / "rw06-3.4.md"
    page.unlink()
    done = call("--all", "--pages", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert page.is_file()
    assert f"rw06-3.5 is not on record in {tmp_path}" in done.output


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("rw06-9.9",), "there is no experiment 'rw06-9.9'; there are rw06-3.1"),
        ((), "--list shows them"),
        (("rw06-3.4", "--all"), "--list shows them"),
    ],
)
def test_names_that_cannot_be_run(args, text, tmp_path):
    done = call(*args, "--out", tmp_path / "out")
    assert isinstance(done.exception, ValueError)
    assert text in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_an_interruption_says_how_to_go_on(monkeypatch, tmp_path):
    def interrupted(*_):
        error = KeyboardInterrupt()
        error.add_note("interrupted: 3 of 9 pieces (4 s)")
        raise error

    monkeypatch.setattr(runner, "run", interrupted)
    done = call("rw06-3.4", "--out", tmp_path)
    assert done.exit_code == 130
    assert "3 of 9 pieces (4 s); the same command goes on from there" in done.stderr


def test_the_digits_say_how_to_get_them(monkeypatch, tmp_path):
    assert load("iris").X.shape == (150, 4)
    monkeypatch.setenv("GPCLASS_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"set GPCLASS_DATA to the folder that has usps"):
        load("usps")
    with pytest.raises(FileNotFoundError, match=r"has no file boston_corrected\.csv"):
        load("csv:boston_corrected")
    with pytest.raises(ValueError, match=r"boston_bay\.csv is no known file"):
        load("csv:boston_bay")


def test_a_whole_file_of_the_folder():
    folder("GPCLASS_DATA")
    assert load("csv:heart_hungarian").shape == (294, 14)
