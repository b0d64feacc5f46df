"""One SQLite file that holds every finished cell and survives a kill at any moment."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fallline.study.errors import StudyError
from fallline.study.record import Outcome, Record
from fallline.study.spec import Cell, Part, canonical

SCHEMA = 1
APPLICATION = 0x66616C6C  # "fall": tells a store from any other SQLite file

TABLES = """
CREATE TABLE cells (
    key TEXT PRIMARY KEY, study TEXT NOT NULL, version INTEGER NOT NULL, arm TEXT NOT NULL,
    arm_version INTEGER NOT NULL, config TEXT NOT NULL, seed INTEGER NOT NULL,
    outcome TEXT NOT NULL, metrics TEXT NOT NULL, error TEXT NOT NULL, output TEXT NOT NULL,
    seconds REAL NOT NULL, peak_mib REAL NOT NULL, source TEXT NOT NULL,
    environment TEXT NOT NULL, finished_at TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE curves (key TEXT PRIMARY KEY REFERENCES cells ON DELETE CASCADE, points TEXT NOT NULL);
CREATE TABLE artifacts (
    key TEXT NOT NULL REFERENCES cells ON DELETE CASCADE, name TEXT NOT NULL,
    kind TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (key, name)
);
CREATE TABLE environments (hash TEXT PRIMARY KEY, data TEXT NOT NULL);
CREATE TABLE requests (study TEXT PRIMARY KEY, scale TEXT NOT NULL, parts TEXT NOT NULL);
"""

Curve = list[dict[str, float | None]]


class Store:
    """A study's cells on disk. Open it with `Store.write` (the driver) or `Store.read` (anyone)."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.connection = connection

    @classmethod
    def write(cls, path: str | Path) -> Store:
        """Open for writing, and create the file where there is none."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with _readable_errors(path):
            connection = sqlite3.connect(path, isolation_level=None, timeout=10.0)
            try:
                _check(path, connection, empty_is_fine=True)
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
                connection.execute("PRAGMA foreign_keys=ON")
                if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
                    connection.executescript(
                        f"BEGIN EXCLUSIVE; {TABLES} PRAGMA application_id={APPLICATION};"
                        f"PRAGMA user_version={SCHEMA}; COMMIT;"
                    )
            except BaseException:
                connection.close()
                raise
        return cls(path, connection)

    @classmethod
    def read(cls, path: str | Path) -> Store:
        """Open for reading, also while a driver writes."""
        path = Path(path)
        if not path.is_file():
            raise StudyError(f"there is no store at {path}; run the study first")
        with _readable_errors(path):
            # Not mode=ro: such a reader leaves its WAL files behind, which it may not delete.
            uri = f"{path.resolve().as_uri()}?mode=rw"
            connection = sqlite3.connect(uri, uri=True, timeout=10.0, check_same_thread=False)
            try:
                connection.execute("PRAGMA query_only=ON")
                _check(path, connection, empty_is_fine=False)
            except BaseException:
                connection.close()
                raise
        return cls(path, connection)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def put(
        self,
        cell: Cell,
        record: Record,
        curve: Curve = (),  # type: ignore[assignment]
        artifacts: Mapping[str, tuple[str, bytes]] | None = None,
    ) -> None:
        """Store one finished cell, all of it or nothing."""
        # A file name may have bytes that are no text; a message is worth more than its bytes.
        error, output = (
            text.encode("utf-8", "replace").decode() for text in (record.error, record.output)
        )
        row = (
            cell.key, cell.study, cell.version, cell.arm, cell.arm_version, canonical(cell.config),
            cell.seed, str(record.outcome), json.dumps(dict(record.metrics)), error,
            output, record.seconds, record.peak_mib, record.source, record.environment,
            record.finished_at,
        )  # fmt: skip
        with self._transaction():
            self.connection.execute("DELETE FROM cells WHERE key = ?", (cell.key,))
            self.connection.execute(f"INSERT INTO cells VALUES ({','.join('?' * 16)})", row)
            if curve:
                self.connection.execute(
                    "INSERT INTO curves VALUES (?, ?)", (cell.key, json.dumps(curve))
                )
            self.connection.executemany(
                "INSERT INTO artifacts VALUES (?, ?, ?, ?)",
                [(cell.key, name, *value) for name, value in (artifacts or {}).items()],
            )

    def put_environment(self, key: str, data: Mapping[str, Any]) -> None:
        """Store a description of the machine once."""
        with self._transaction():
            self.connection.execute(
                "INSERT OR IGNORE INTO environments VALUES (?, ?)", (key, json.dumps(data))
            )

    def put_request(self, study: str, scale: str, parts: Sequence[Part]) -> None:
        """Remember what was last asked for, so that a report shows that and not less."""
        asked = json.dumps([part.to_dict() for part in parts])
        with self._transaction():
            self.connection.execute(
                "INSERT OR REPLACE INTO requests VALUES (?, ?, ?)", (study, scale, asked)
            )

    def request(self, study: str) -> tuple[str, list[Part]] | None:
        """Return the scale and the parts that were last asked for."""
        with _readable_errors(self.path):
            row = self.connection.execute(
                "SELECT scale, parts FROM requests WHERE study = ?", (study,)
            ).fetchone()
        return None if row is None else (row[0], [Part.from_dict(p) for p in json.loads(row[1])])

    def forget(self, keys: Iterable[str]) -> int:
        """Delete cells with all that belongs to them; return how many there were."""
        with self._transaction():
            return sum(
                self.connection.execute("DELETE FROM cells WHERE key = ?", (key,)).rowcount
                for key in keys
            )

    def records(self, study: str | None = None) -> dict[str, Record]:
        """Return every stored cell's record by key."""
        with _readable_errors(self.path):
            rows = self.connection.execute(
                "SELECT key, outcome, metrics, error, output, seconds, peak_mib, source,"
                " environment, finished_at FROM cells WHERE ?1 IS NULL OR study = ?1",
                (study,),
            ).fetchall()
        return {
            key: Record(Outcome(outcome), json.loads(metrics), *rest)
            for key, outcome, metrics, *rest in rows
        }

    def cells(self) -> Iterator[Cell]:
        """Yield every stored cell."""
        with _readable_errors(self.path):
            rows = self.connection.execute(
                "SELECT study, version, arm, arm_version, config, seed FROM cells ORDER BY key"
            ).fetchall()
        for study, version, arm, arm_version, config, seed in rows:
            yield Cell(study, version, arm, arm_version, json.loads(config), seed)

    def curve(self, key: str) -> Curve:
        """Return the points that a cell reported."""
        with _readable_errors(self.path):
            row = self.connection.execute(
                "SELECT points FROM curves WHERE key = ?", (key,)
            ).fetchone()
        return json.loads(row[0]) if row else []

    def packed_artifacts(self, key: str) -> dict[str, tuple[str, bytes]]:
        """Return what a cell attached, as (kind, bytes)."""
        with _readable_errors(self.path):
            rows = self.connection.execute(
                "SELECT name, kind, data FROM artifacts WHERE key = ? ORDER BY name", (key,)
            ).fetchall()
        return {name: (kind, data) for name, kind, data in rows}

    def artifacts(self, key: str) -> dict[str, Any]:
        """Return what a cell attached, as it was."""
        return {name: unpack(*value) for name, value in self.packed_artifacts(key).items()}

    def environments(self) -> dict[str, dict[str, Any]]:
        """Return every environment by its hash."""
        with _readable_errors(self.path):
            rows = self.connection.execute("SELECT hash, data FROM environments").fetchall()
        return {key: json.loads(data) for key, data in rows}

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with _readable_errors(self.path):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise


def pack(value: Any) -> tuple[str, bytes]:
    """Turn an attachment into (kind, bytes); nothing that is kept can run when it is read."""
    if isinstance(value, bytes):
        return "bytes", value
    if hasattr(value, "__array__") and hasattr(value, "dtype"):
        import numpy as np

        buffer = io.BytesIO()
        np.save(buffer, np.asarray(value), allow_pickle=False)
        return "npy", buffer.getvalue()
    return "json", json.dumps(value, allow_nan=False).encode()


def unpack(kind: str, data: bytes) -> Any:
    """Undo `pack`."""
    if kind == "bytes":
        return data
    if kind == "npy":
        import numpy as np

        return np.load(io.BytesIO(data), allow_pickle=False)
    return json.loads(data)


def merge(target: str | Path, sources: Iterable[str | Path]) -> tuple[int, int, int]:
    """Copy what `target` lacks from other stores of the same study.

    Returns how many cells were added, how many both had, and how many of those differ; of two
    cells with one key a finished one wins, else the one that `target` holds.
    """
    sources = list(sources)
    held: dict[str, set[str]] = {}
    for source in sources:  # before the target is made
        with Store.read(source) as other:
            held[str(source)] = _studies(other)
    if len({frozenset(studies) for studies in held.values()}) > 1:
        told = "; ".join(f"{s} holds {', '.join(sorted(n)) or 'nothing'}" for s, n in held.items())
        raise StudyError(f"{told}; merge joins stores of one study")
    added = both = differ = 0
    with Store.write(target) as into:
        for source in sources:
            with Store.read(source) as other:
                ours, theirs = _studies(into), _studies(other)
                if ours and ours != theirs:
                    raise StudyError(
                        f"{source} holds {', '.join(sorted(theirs)) or 'nothing'}, {target} holds "
                        f"{', '.join(sorted(ours))}; merge joins stores of one study"
                    )
                have, records = into.records(), other.records()
                for key, data in other.environments().items():
                    into.put_environment(key, data)
                for study in theirs:
                    asked = other.request(study)
                    if asked and into.request(study) is None:
                        into.put_request(study, *asked)
                for cell in other.cells():
                    mine, record = have.get(cell.key), records[cell.key]
                    if mine is not None:
                        both += 1
                        differ += mine.finished_equal(record) is False
                        if mine.outcome.finished or not record.outcome.finished:
                            continue
                    else:
                        added += 1
                    into.put(cell, record, other.curve(cell.key), other.packed_artifacts(cell.key))
    return added, both, differ


def _studies(store: Store) -> set[str]:
    return {name for (name,) in store.connection.execute("SELECT DISTINCT study FROM cells")}


def _check(path: Path, connection: sqlite3.Connection, *, empty_is_fine: bool) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application == APPLICATION and version == SCHEMA:
        damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if damage != "ok":
            raise sqlite3.DatabaseError(damage)
    elif application == APPLICATION:
        raise StudyError(
            f"{path} has schema {version}, this fallline knows schema {SCHEMA}: "
            "use the fallline that wrote it, or another --store"
        )
    elif tables or version or application:
        raise StudyError(f"{path} is a SQLite file of another program; choose another --store")
    elif not empty_is_fine:
        raise StudyError(f"{path} is empty; run the study first")


@contextmanager
def _readable_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "disk is full" in text or "disk I/O" in text:
            raise StudyError(
                f"{path}: {text}; every cell stored so far is kept and readable. "
                "Free some space and run the same command again"
            ) from error
        if "too big" in text:
            raise StudyError(
                f"{path}: {text}; SQLite keeps at most 1 GB in one value. Attach less, or in parts"
            ) from error
        if "locked" in text:
            raise StudyError(f"{path} is locked by another program: {text}") from error
        if "readonly" in text or "unable to open" in text:
            raise StudyError(f"{path} cannot be opened for this: {text}") from error
        raise StudyError(
            f"{path} is damaged or not a fallline store ({text}); it was left as it is. "
            "Choose another --store, or move it away"
        ) from error
