import hashlib
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import _openml

from gpclass.app._recipes import FOLDER_TABLES, OPENML_TABLES
from gpclass.app.datasets import DATA_VARIABLE, list_datasets, load_dataset
from gpclass.app.tables import Reading, class_labels, write_table

needs_data = pytest.mark.skipif(
    not os.environ.get(DATA_VARIABLE), reason=f"{DATA_VARIABLE} is not set"
)


@pytest.mark.parametrize(
    ("name", "shape", "n_classes"),
    [
        ("breast_cancer", (569, 30), 2),
        ("iris", (150, 4), 3),
        ("wine", (178, 13), 3),
        ("digits", (1797, 64), 10),
    ],
)
def test_tables_of_scikit_learn(name, shape, n_classes):
    dataset = load_dataset(name)
    assert dataset.X.shape == shape
    assert np.unique(dataset.y).size == n_classes
    assert dataset.feature_names == tuple(dataset.X.columns)
    assert name in list_datasets()


# Rows, columns and counts that SOURCES.md beside the data gives.
KNOWN = {
    "auto_mpg_origin": (7, {1: 245, 2: 68, 3: 79}),
    "breast_cancer_wisconsin": (9, {"benign": 444, "malignant": 239}),
    "crabs_sex": (6, {"F": 100, "M": 100}),
    "crabs_species": (6, {"B": 100, "O": 100}),
    "glass": (9, {"non-window": 51, "window": 163}),
    "glass_types": (9, {1: 70, 2: 76, 3: 17, 5: 13, 6: 9, 7: 29}),
    "heart_hungarian": (10, {0: 163, 1: 98}),
    "ionosphere": (33, {"b": 126, "g": 225}),
    "new_thyroid": (5, {1: 150, 2: 35, 3: 30}),
    "new_thyroid_binary": (5, {"normal": 150, "not normal": 65}),
    "pima": (7, {"No": 355, "Yes": 177}),
    "pima_te": (7, {"No": 223, "Yes": 109}),
    "pima_tr": (7, {"No": 132, "Yes": 68}),
    "skin_segmentation": (3, {1: 50859, 2: 194198}),
    "usps_3v5": (256, {3: 824, 5: 716}),
    "usps_3v5_test": (256, {3: 418, 5: 355}),
    "usps_3v5_train": (256, {3: 406, 5: 361}),
}


@needs_data
@pytest.mark.parametrize("name", KNOWN)
def test_tables_of_the_folder(name):
    d, counts = KNOWN[name]
    dataset = load_dataset(name)
    values, found = np.unique(dataset.y, return_counts=True)
    assert dict(zip(values.tolist(), found.tolist(), strict=True)) == counts
    assert dataset.X.shape == (sum(counts.values()), d)
    assert len(dataset.feature_names) == d
    assert np.isfinite(np.asarray(dataset.X)).all()
    assert len(dataset.sha256) >= 64


@needs_data
@pytest.mark.slow
def test_all_of_usps():
    dataset = load_dataset("usps")
    assert dataset.X.shape == (9298, 256)
    assert np.bincount(dataset.y)[:3].tolist() == [767 + 786, 622 + 647, 475 + 454]


def test_every_table_of_the_folder_is_tested():
    assert set(FOLDER_TABLES) == {*KNOWN, "usps"}


def test_folder_unset_or_without_the_file(monkeypatch, tmp_path):
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    with pytest.raises(FileNotFoundError, match=r"set the environment variable GPCLASS_DATA"):
        load_dataset("crabs_sex")
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"has no file crabs\.csv"):
        load_dataset("crabs_sex")


def test_changed_file_of_the_folder_is_refused(monkeypatch, tmp_path):
    (tmp_path / "crabs.csv").write_text("sp,sex\nB,M\n")
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    with pytest.raises(ValueError, match=r"is not the known crabs\.csv"):
        load_dataset("crabs_sex")
    (tmp_path / "crabs.csv").unlink()
    (tmp_path / "crabs.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(ValueError, match="gzip"):
        load_dataset("crabs_sex")


def test_named_tables_have_their_target():
    assert load_dataset("iris", "target").target == "target"
    with pytest.raises(ValueError, match="the target of the named data set iris"):
        load_dataset("iris", "species")


@pytest.fixture
def table():
    return pd.DataFrame(
        {
            "age": [30, 40, 50, 60],
            "smokes": [True, False, True, True],
            "dose": [0.5, 1.0, 1.5, 2.0],
            "ill": ["no", "yes", "no", "yes"],
        }
    )


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet"])
def test_files(table, tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    write_table(table, path)
    dataset = load_dataset(path, "ill")
    assert dataset.y.tolist() == ["no", "yes", "no", "yes"]
    assert dataset.feature_names == ("age", "smokes", "dose")
    assert dataset.X["smokes"].tolist() == [True, False, True, True]
    if suffix == ".csv":
        assert dataset.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def save(tmp_path, frame) -> Path:
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    return path


def test_text_and_missing_entries_stay_what_they_are(table, tmp_path):
    table["town"] = ["Bonn", None, "Jena", "Hof"]
    table.loc[[0, 2], "age"] = np.nan
    X = load_dataset(save(tmp_path, table), "ill").X
    assert X["town"].isna().tolist() == [False, True, False, False]
    assert X["age"].isna().sum() == 2


def test_rows_without_a_class_are_left_out_and_counted(table, tmp_path):
    table.loc[3, "ill"] = None
    with pytest.warns(UserWarning, match=r"1 of 4 rows have no class in 'ill' and are left out"):
        dataset = load_dataset(save(tmp_path, table), "ill")
    assert dataset.y.tolist() == ["no", "yes", "no"]
    assert dataset.X["age"].tolist() == [30, 40, 50]
    table["ill"] = None
    with pytest.raises(ValueError, match=r"'ill' of table\.csv has no value in any row"):
        load_dataset(save(tmp_path, table), "ill")


def test_nameless_names_of_rows_are_left_out(table, tmp_path):
    path = tmp_path / "table.csv"
    table.to_csv(path)
    with pytest.warns(UserWarning, match="taken for the names of the rows and left out"):
        assert load_dataset(path, "ill").feature_names == ("age", "smokes", "dose")


def test_ids_are_no_features(table, tmp_path):
    path = save(tmp_path, table.assign(number=["01", "02", "03", "04"]))
    dataset = load_dataset(path, "ill", Reading(ids=("number", "age")))
    assert dataset.feature_names == ("smokes", "dose")
    with pytest.raises(ValueError, match="no column 'nr'; its columns are age"):
        load_dataset(path, "ill", Reading(ids=("nr",)))
    with pytest.raises(ValueError, match="'ill' is given both as the target and as an id"):
        load_dataset(path, "ill", Reading(ids=("ill",)))
    with pytest.raises(ValueError, match="iris is a named data set; --sep"):
        load_dataset("iris", reading=Reading(sep=";"))


def test_file_mistakes(table, tmp_path):
    path = save(tmp_path, table)
    with pytest.raises(ValueError, match=r"no column 'sick'; its columns are age, smokes, dose"):
        load_dataset(path, "sick")
    with pytest.raises(ValueError, match="needs a target; its columns are"):
        load_dataset(path)
    with pytest.raises(FileNotFoundError, match="no file"):
        load_dataset(tmp_path / "other.csv", "ill")
    with pytest.raises(ValueError, match=r"nor a known data set; the names are .*iris"):
        load_dataset("irsi")
    text = tmp_path / "table.txt"
    text.write_text("a")
    with pytest.raises(ValueError, match="not a file that ends in"):
        load_dataset(text, "ill")
    with pytest.raises(ValueError, match="not a file that ends in"):
        write_table(table, text)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "cannot be read as CSV"),
        ("ragged.csv", b"a,b\n1,2\n1,2,3,4\n", "cannot be read as CSV"),
        ("binary.csv", b"PK\x03\x00\x01", "it is no text in utf-8 or cp1252"),
        ("header.csv", b"a,b\n", "has no rows"),
        ("bad.parquet", b"PAR1 not really", "cannot be read as Parquet"),
        ("bad.csv.gz", b"\x1f\x8b\x08", "not a whole gzip file"),
        ("infinite.csv", b"a,ill\ninf,yes\n1,no\n", "infinite values in the columns a"),
        ("one.csv", b"ill\nyes\nno\n", "has no feature column"),
        ("trailing.csv", b"a,ill\n1,yes,9\n2,no,8\n", "Length of header or names does not match"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_dataset(path, "ill")


def test_kinds_of_classes():
    assert class_labels(pd.Series([1.0, 0.0])).dtype == np.int64
    assert class_labels(pd.Series([True, False])).dtype == bool
    assert class_labels(pd.Series(["a", "bc"])).dtype == np.dtype("<U2")
    assert class_labels(pd.Series(pd.Categorical(["a", "b"]))).tolist() == ["a", "b"]
    assert class_labels(pd.Series([0.5, 1.0])).tolist() == [0.5, 1.0]


ARFF = """@RELATION sonar
@ATTRIBUTE depth NUMERIC
@ATTRIBUTE echo NUMERIC
@ATTRIBUTE Class {Rock,Mine}
@DATA
1.5,2,Rock
2.5,3,Mine
0.5,1,Rock
"""


class OpenML(BaseHTTPRequestHandler):
    """The four answers of OpenML's interface that fetch_openml asks for."""

    def do_GET(self):
        base = f"http://127.0.0.1:{self.server.server_address[1]}"
        data_id = self.path.rsplit("/", 1)[-1]
        if data_id == "999":
            self.send_error(412)
            return
        content = {
            "info": {
                "data_set_description": {
                    "id": data_id,
                    "name": "sonar",
                    "version": "1",
                    "description": "sonar returns",
                    "format": "ARFF",
                    "status": "active",
                    "file_id": "40",
                    "url": f"{base}/download/sonar.arff",
                    "default_target_attribute": "Class",
                    "md5_checksum": hashlib.md5(ARFF.encode()).hexdigest(),
                }
            },
            "features": {
                "data_features": {
                    "feature": [
                        {
                            "index": str(i),
                            "name": name,
                            "data_type": kind,
                            "is_target": str(name == "Class").lower(),
                            "is_ignore": "false",
                            "is_row_identifier": "false",
                            "number_of_missing_values": "0",
                        }
                        for i, (name, kind) in enumerate(
                            [("depth", "numeric"), ("echo", "numeric"), ("Class", "nominal")]
                        )
                    ]
                }
            },
            "qualities": {
                "data_qualities": {"quality": [{"name": "NumberOfInstances", "value": "3"}]}
            },
        }
        part = self.path.split("/")[1]
        body = ARFF if part in ("download", "data") else json.dumps(content[part])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args):
        pass


@pytest.fixture
def openml(monkeypatch, tmp_path):
    server = HTTPServer(("127.0.0.1", 0), OpenML)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    base = f"http://127.0.0.1:{server.server_address[1]}"
    # fetch_openml has no public option for the address of the service.
    monkeypatch.setattr(_openml, "_DATA_INFO", f"{base}/info/{{}}")
    monkeypatch.setattr(_openml, "_DATA_FEATURES", f"{base}/features/{{}}")
    monkeypatch.setattr(_openml, "_DATA_QUALITIES", f"{base}/qualities/{{}}")
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    yield
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("name", ["sonar", "openml:40"])
def test_openml(openml, name):
    dataset = load_dataset(name)
    assert dataset.name == "sonar"
    assert dataset.y.tolist() == ["Rock", "Mine", "Rock"]
    assert dataset.X["depth"].tolist() == [1.5, 2.5, 0.5]
    assert dataset.source == "https://www.openml.org/d/40"
    assert dataset.target == "Class"


def test_openml_with_another_target(openml):
    dataset = load_dataset("openml:40", "echo")
    assert dataset.X["Class"].tolist() == ["Rock", "Mine", "Rock"]
    assert dataset.y.tolist() == [2, 3, 1]


def test_openml_mistakes(openml):
    with pytest.raises(ValueError, match="OpenML 37 is 'sonar' and not 'diabetes'"):
        load_dataset("diabetes")
    with pytest.raises(ValueError, match="no column 'depht'"):
        load_dataset("openml:40", "depht")
    with pytest.raises((ValueError, ConnectionError), match="not found"):
        load_dataset("openml:999")
    with pytest.raises(ValueError, match="openml: and a number"):
        load_dataset("openml:sonar")


@pytest.mark.slow
def test_openml_out_of_reach(monkeypatch, tmp_path):
    monkeypatch.setattr(_openml, "_DATA_INFO", "http://127.0.0.1:9/{}")
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    with pytest.raises(ConnectionError, match="OpenML gave no table 40"):
        load_dataset("sonar")


def test_pinned_tables_are_listed():
    listed = list_datasets()
    assert all(listed[name] == f"OpenML {data_id}" for name, (data_id, _) in OPENML_TABLES.items())
