"""Files as people have them: separators, encodings, decimal commas; outputs."""

import numpy as np
import pandas as pd
import pytest

from gpclass.app.tables import Reading, check_output, read_table, whole_file

TOWNS = ["Köln", "Ulm", "Żary"]


@pytest.fixture
def saved(tmp_path):
    def save(content, name="t.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(content.encode(encoding))
        return path

    return save


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_separators_are_found(saved, sep, name):
    lines = [["a", '"town, or; place"', "c"], ["1", "Ulm", "2.5"], ["3", "Hof", ""]]
    frame = read_table(saved("\n".join(sep.join(line) for line in lines), name)).frame
    assert list(frame) == ["a", "town, or; place", "c"]
    assert frame["c"].iloc[0] == 2.5
    assert np.isnan(frame["c"].iloc[1])


def test_separators_are_given(saved):
    path = saved("a b\\c\n1  2\\3\n")
    assert list(read_table(path).frame) == ["a b\\c"]
    assert read_table(path, Reading(sep=" ")).frame.iloc[0].tolist() == [1, "2\\3"]
    assert list(read_table(path, Reading(sep="\\")).frame) == ["a b", "c"]
    assert list(read_table(saved("a\tb,c\n1\t2\n"), Reading(sep="\\t")).frame) == ["a", "b,c"]
    with pytest.raises(ValueError, match=r"separator \(--sep\) must be one character, got ';;'"):
        Reading(sep=";;")


def test_separators_at_the_ends_of_rows_are_nothing(saved):
    assert read_table(saved("a,b\n1,x,\n2,y,\n")).frame["a"].tolist() == [1, 2]


def test_a_comma_may_be_the_decimal_point(saved):
    frame = read_table(saved("a;b;c\n1,5;2;x\n-3,25;;y,z\n")).frame
    assert frame["a"].tolist() == [1.5, -3.25]
    assert frame["c"].tolist() == ["x", "y,z"]
    assert read_table(saved("a;b\n1.5;2\n3.25;4\n")).frame["a"].tolist() == [1.5, 3.25]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_that_say_so_are_found(saved, encoding):
    path = saved("town,n\n" + ",1\n".join(TOWNS) + ",1\n", encoding=encoding)
    assert read_table(path).frame["town"].tolist() == TOWNS


def test_an_encoding_that_is_guessed_is_a_warning(saved):
    path = saved("town,n\nKöln,1\n", encoding="cp1252")
    with pytest.warns(UserWarning, match=r"not UTF-8 and was read as cp1252.*--encoding"):
        assert read_table(path).frame["town"].tolist() == ["Köln"]
    path = saved("town,n\nŻary,1\n", encoding="cp1250")
    assert read_table(path, Reading(encoding="cp1250")).frame["town"].tolist() == ["Żary"]


def test_messages_name_what_was_tried(saved):
    path = saved("town;n\nKöln;1\n1;2;3;4", encoding="utf-8")
    with pytest.raises(ValueError, match="read as utf-8 with the separator ';'; --encoding and"):
        read_table(path)
    with pytest.raises(ValueError, match="it is no text in ascii; name its encoding"):
        read_table(path, Reading(encoding="ascii"))
    with pytest.raises(ValueError, match=r"encoding 'utf-9' .* does not exist"):
        read_table(path, Reading(encoding="utf-9"))


def test_ids_stay_as_they_are_written(saved):
    path = saved("id,a\n007,?\n,1\n")
    frame = read_table(path, Reading(ids=("id",))).frame
    assert frame["id"].tolist()[0] == "007"
    assert frame.isna().to_numpy().tolist() == [[False, True], [True, False]]


def test_iso_dates_are_points_in_time(saved):
    path = saved(
        "day;when;wrong;other;nr;empty\n"
        "2020-02-29;2020-01-01 10:30;2020-02-30;1.2.2020;2020-01-01;\n"
        ";2020-01-01T10:30:00+02:00;2020-02-01;2.2.2020;2020-01-02;\n"
    )
    frame = read_table(path, Reading(ids=("nr",))).frame
    assert frame["day"].tolist() == [pd.Timestamp("2020-02-29", tz="UTC"), pd.NaT]
    assert (frame["when"][0] - frame["when"][1]) == pd.Timedelta("2h")
    assert frame["wrong"].tolist() == ["2020-02-30", "2020-02-01"]
    assert frame["other"].tolist() == ["1.2.2020", "2.2.2020"]
    assert frame["nr"].tolist() == ["2020-01-01", "2020-01-02"]
    assert frame["empty"].isna().all()


def test_outputs_that_cannot_be_written(tmp_path, monkeypatch):
    check_output(tmp_path / "new" / "folder" / "p.csv")
    assert not list(tmp_path.iterdir())
    file = tmp_path / "file.csv"
    file.write_text("a\n1\n")
    check_output(file)
    assert file.read_text() == "a\n1\n"
    (tmp_path / "folder.csv").mkdir()
    for path in (file / "p.csv", tmp_path / "folder.csv"):
        with pytest.raises(OSError, match=f"{path} cannot be written: "):
            check_output(path)
    with pytest.raises(ValueError, match="is read too, and would be overwritten"):
        check_output(file, tmp_path / "other.csv", file)


def test_an_output_is_there_as_a_whole_or_not(tmp_path):
    path = tmp_path / "new" / "p.csv"

    def write(fails):
        with whole_file(path) as part:
            part.write_text("half")
            if fails:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(fails=True)
    assert not list(path.parent.iterdir())
    write(fails=False)
    assert [one.name for one in path.parent.iterdir()] == ["p.csv"]


def test_parquet_keeps_its_types(tmp_path):
    frame = pd.DataFrame({"when": pd.to_datetime(["2020-01-01", None]), "town": ["Ulm", None]})
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    assert read_table(path).frame["when"].dtype.kind == "M"
