"""The store refuses what it does not know, loses nothing and says what is wrong in one line."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from fallline.study import Cell, Outcome, Part, StudyError
from fallline.study.origin import load_file, studies_in
from fallline.study.record import Record
from fallline.study.store import SCHEMA, Store, merge, pack, unpack

STUDIES = Path(__file__).parent / "studies"


def cell(seed, study="s", **config):
    return Cell(study, 1, "arm", 1, config, seed)


def record(value, outcome=Outcome.DONE):
    return Record(outcome, {"y": value}, seconds=1.0, finished_at="2026-01-01T00:00:00+00:00")


def test_round_trip(tmp_path):
    one = cell(3, lr=0.1)
    kept = Record(
        Outcome.DIVERGED, {"y": None, "z": 0.1}, "e", "o", 1.5, 20.0, "src", "env", "2026-01-01"
    )
    curve = [{"step": 0, "loss": 0.1 + 0.2}, {"step": 1, "loss": None}]
    with Store.write(tmp_path / "s.db") as store:
        store.put(one, kept, curve, {"a": pack(np.arange(3.0)), "b": pack(b"\0x"), "c": pack([1])})
        store.put_environment("env", {"cpu": "x"})
    with Store.read(tmp_path / "s.db") as store:
        assert store.records() == {one.key: kept}
        assert store.records("other") == {}
        assert list(store.cells()) == [one]
        assert store.curve(one.key) == curve
        artifacts = store.artifacts(one.key)
        assert artifacts["a"].tolist() == [0.0, 1.0, 2.0]
        assert artifacts["b"] == b"\0x"
        assert artifacts["c"] == [1]
        assert store.environments() == {"env": {"cpu": "x"}}


def test_a_cell_is_stored_once(tmp_path):
    with Store.write(tmp_path / "s.db") as store:
        store.put(cell(0), record(1.0), [{"step": 0, "loss": 1.0}], {"a": pack(b"1")})
        store.put(cell(0), record(2.0))
        assert store.records()[cell(0).key].metrics == {"y": 2.0}
        assert store.curve(cell(0).key) == []
        assert store.artifacts(cell(0).key) == {}


def test_forget_takes_all_that_belongs_to_a_cell(tmp_path):
    with Store.write(tmp_path / "s.db") as store:
        store.put(cell(0), record(1.0), [{"step": 0, "loss": 1.0}], {"a": pack(b"1")})
        store.put(cell(1), record(1.0))
        assert store.forget([cell(0).key, cell(7).key]) == 1
        assert set(store.records()) == {cell(1).key}
        assert store.connection.execute("SELECT count(*) FROM curves").fetchone() == (0,)
        assert store.connection.execute("SELECT count(*) FROM artifacts").fetchone() == (0,)


def test_arrays_of_objects_are_refused():
    with pytest.raises(ValueError, match="allow_pickle"):
        pack(np.array([object()]))
    kind, data = pack(np.ones(2))
    assert unpack(kind, data).tolist() == [1.0, 1.0]


def test_a_newer_schema_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "s.db"
    Store.write(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version={SCHEMA + 1}")
    connection.close()
    before = path.read_bytes()
    for open_ in (Store.write, Store.read):
        with pytest.raises(StudyError, match=f"schema {SCHEMA + 1}, this fallline knows"):
            open_(path)
    assert path.read_bytes() == before


def test_a_foreign_file_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "theirs.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE precious (x)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    for open_ in (Store.write, Store.read):
        with pytest.raises(StudyError, match="another program"):
            open_(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["header", "pages", "text"])
def test_a_damaged_file_is_refused_and_left_alone(tmp_path, damage):
    path = tmp_path / "s.db"
    with Store.write(path) as store:
        for seed in range(200):
            store.put(cell(seed, filler="x" * 500), record(1.0))
    content = bytearray(path.read_bytes())
    if damage == "header":
        content[:16] = b"not a database!!"
    elif damage == "pages":
        content[4096 * 3 : 4096 * 9] = bytes(4096 * 6)
    else:
        content = bytearray(b"lr,loss\n0.1,2.0\n" * 500)
    path.write_bytes(content)
    for open_ in (Store.write, Store.read):
        with (
            pytest.raises(StudyError, match="damaged or not a fallline store"),
            open_(path) as store,
        ):
            store.records()
    assert path.read_bytes() == content


def test_a_missing_or_empty_file_cannot_be_read(tmp_path):
    with pytest.raises(StudyError, match="there is no store"):
        Store.read(tmp_path / "none.db")
    (tmp_path / "empty.db").touch()
    with pytest.raises(StudyError, match="is empty"):
        Store.read(tmp_path / "empty.db")
    Store.write(tmp_path / "empty.db").close()  # an empty file is as good as none
    assert Store.read(tmp_path / "empty.db").records() == {}


def test_a_full_disk_keeps_what_is_stored(tmp_path, monkeypatch):
    (study,) = studies_in(load_file(STUDIES / "quick.py")).values()
    path = tmp_path / "q.db"
    write = Store.write

    def write_on_a_small_disk(where):
        store = write(where)
        store.connection.execute("PRAGMA max_page_count=16")
        return store

    monkeypatch.setattr(Store, "write", write_on_a_small_disk)
    with pytest.raises(StudyError, match=r"full; every cell stored so far is kept") as caught:
        study.execute("laptop", store=path, jobs=2)
    assert str(path) in str(caught.value)
    with Store.read(path) as store:
        kept = store.records()
    assert 0 < len(kept) < 60
    monkeypatch.undo()
    assert study.execute("laptop", store=path, jobs=2).complete
    with Store.read(path) as store:
        assert len(store.records()) == 60
        assert {key: store.records()[key] for key in kept} == kept


def test_readers_are_never_blocked(tmp_path):
    with Store.write(tmp_path / "s.db") as store:
        store.put(cell(0), record(1.0))
        store.connection.execute("BEGIN IMMEDIATE")
        store.connection.execute("DELETE FROM cells")
        with Store.read(tmp_path / "s.db") as reader:
            assert len(reader.records()) == 1
        store.connection.execute("ROLLBACK")


def test_merge(tmp_path):
    with Store.write(tmp_path / "a.db") as store:
        store.put(cell(0), record(1.0))
        store.put(cell(1), record(1.0, Outcome.TIMEOUT))
        store.put(cell(2), record(1.0))
    with Store.write(tmp_path / "b.db") as store:
        store.put(cell(1), record(2.0))
        store.put(cell(2), record(3.0))
        store.put(cell(3), record(4.0), [{"step": 0, "loss": 1.0}], {"a": pack([1])})
        store.put_environment("e", {"cpu": "y"})
    assert merge(tmp_path / "all.db", [tmp_path / "a.db", tmp_path / "b.db"]) == (4, 2, 1)
    with Store.read(tmp_path / "all.db") as store:
        records = store.records()
        assert [records[cell(s).key].metrics["y"] for s in range(4)] == [1.0, 2.0, 1.0, 4.0]
        assert store.curve(cell(3).key) == [{"step": 0, "loss": 1.0}]
        assert store.artifacts(cell(3).key) == {"a": [1]}
        assert store.environments() == {"e": {"cpu": "y"}}
        assert store.request("s") is None
    with Store.write(tmp_path / "b.db") as store:
        store.put_request("s", "laptop", [Part("p", ["a"], seeds=4)])
    merge(tmp_path / "again.db", [tmp_path / "a.db", tmp_path / "b.db"])
    with Store.read(tmp_path / "again.db") as store:
        assert store.request("s")[0] == "laptop"
    with Store.write(tmp_path / "c.db") as store:
        store.put(cell(0, study="another"), record(1.0))
    with pytest.raises(StudyError, match="merge joins stores of one study"):
        merge(tmp_path / "new.db", [tmp_path / "a.db", tmp_path / "c.db"])
    assert not (tmp_path / "new.db").exists()
    with pytest.raises(StudyError, match="merge joins stores of one study"):
        merge(tmp_path / "all.db", [tmp_path / "c.db"])
