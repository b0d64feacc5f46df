"""The `fallline` command: a thin face of the Python interface, which it imports lazily."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from fallline.study import Part, Results, Study

HOLDS, FAILS, INCOMPLETE, USAGE = 0, 1, 2, 3
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

app = typer.Typer(
    name="fallline",
    help="New optimization methods for machine learning, with evidence.\n\n"
    "Exit codes: 0 all bars hold (compare: complete), 1 a bar fails, "
    "2 incomplete or inconclusive, 3 usage error. `--debug` shows the traceback of an error.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
store_app = typer.Typer(help="Join stores, or look into one.", no_args_is_help=True)
app.add_typer(store_app, name="store")

StudyName = Annotated[
    str, typer.Argument(metavar="STUDY|FILE.py", help="A study of the catalog, or your own file.")
]
Scale = Annotated[str, typer.Option(help="Which parts to run: smoke, laptop, full, ...")]
Seeds = Annotated[int | None, typer.Option(min=1, help="How many seeds, instead of the study's.")]
Arms = Annotated[str | None, typer.Option(help="Run only these arms: a,b,c.")]
Engine = Annotated[Literal["local"], typer.Option(help="Where cells run.")]
Jobs = Annotated[int, typer.Option(min=1, help="Cells at a time.")]
StorePath = Annotated[
    Path | None, typer.Option("--store", help="SQLite file; default fallline-results/<study>.db.")
]
Retry = Annotated[bool, typer.Option("--retry", help="Run failed cells again.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Forget these cells and run them anew.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would run, and how long.")]


def main() -> None:
    """Run the command; every error is one readable line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a sign must not cost a run
    for number in STOPPING:  # a scheduler and a closed terminal stop a run as Ctrl-C does
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _interrupt)
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    try:
        code = run_command(arguments, debug=debug)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = HOLDS
    sys.exit(code)


def _interrupt(number: int, frame: object) -> None:
    for other in STOPPING:  # a second one must not cut the clean-up short
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt


def run_command(arguments: list[str], *, debug: bool = False) -> int:
    """Run the command with these arguments and return its exit code."""
    arguments = arguments or ["--help"]
    try:
        return (
            app(args=arguments, prog_name="fallline", standalone_mode=False, obj=arguments) or HOLDS
        )
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:  # before there was anything to keep
        print("stopped", file=sys.stderr)
        return INCOMPLETE
    except SystemExit:  # typer's own answer to a reader who has left
        return HOLDS
    except Exception as error:
        if debug:
            traceback.print_exc()
        print(f"fallline: {_one_line(error)}", file=sys.stderr)
        return USAGE


def _one_line(error: Exception) -> str:
    from fallline.study.errors import StudyError

    if hasattr(error, "format_message"):  # typer's usage errors, whichever click they come from
        return str(error.format_message())
    text = " ".join(str(error).split())
    told = isinstance(error, (StudyError, ValueError, TypeError, ImportError))
    return text if told and text else f"{type(error).__name__}: {text} (--debug shows where)"


def _version(wanted: bool) -> None:
    if wanted:
        from fallline import __version__

        print(f"fallline {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Hold what all commands share."""


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(metavar="[methods|studies]")] = "all",
) -> None:
    """Show what there is, one line each, with the published verdict.

    Example: fallline list studies
    """
    from fallline import claims

    if what not in ("all", "methods", "studies"):
        raise ValueError(f"list: {what!r} is neither 'methods' nor 'studies'")
    if what in ("all", "methods"):
        _table("folder", "name", "what it is", rows=list(_methods()))
    if what in ("all", "studies"):
        rows = [(name, claims.load(name).question, _published(name)) for name in claims.names()]
        _table("study", "question", "published verdict", rows=rows)


@app.command()
def run(
    context: typer.Context,
    study: StudyName,
    scale: Scale = "laptop",
    seeds: Seeds = None,
    arms: Arms = None,
    jobs: Jobs = 1,
    engine: Engine = "local",
    store: StorePath = None,
    retry: Retry = False,
    fresh: Fresh = False,
    dry_run: DryRun = False,
) -> int:
    """Run what the store lacks of a study, then print its verdict and write its report.

    Example: fallline run muonmax-momo --jobs 2

    Example: fallline run my_study.py --scale smoke (my_study.py:name where it holds several)
    """
    from fallline.study import driver, request

    found = _study(study)
    names = _split(arms)
    if dry_run:
        parts = request.select(found.parts(scale), seeds=seeds, arms=names)
        return _estimate(found, parts, store, jobs, retry=retry, fresh=fresh)
    return _finish(
        lambda: found.execute(
            scale, store=store, jobs=jobs, seeds=seeds, arms=names, retry=retry, fresh=fresh
        ),
        store or driver.default_store(found.name),
        context.obj,
    )


@app.command()
def compare(
    context: typer.Context,
    task: Annotated[Path, typer.Argument(metavar="TASK.py", help="A file with `task(seed)`.")],
    arms: Annotated[
        str | None, typer.Option(help="Optimizers, a,b,c; a name that is none lists them all.")
    ] = None,
    lr: Annotated[
        str, typer.Option(help="Learning rates, LOW:HIGH:COUNT or a,b,c.")
    ] = "1e-4:1e-1:7",
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 3,
    minutes: Annotated[float | None, typer.Option(help="Stop handing out cells in time.")] = None,
    jobs: Jobs = 1,
    store: StorePath = None,
    retry: Retry = False,
    fresh: Fresh = False,
    dry_run: DryRun = False,
) -> int:
    """Race optimizers on your own task, at equal effort, and say who wins and by how much.

    Example: fallline compare examples/digits_task.py --arms adamw,muonmax-momo --seeds 3
    """
    from fallline import comparison
    from fallline.study import driver

    with contextlib.chdir("."):  # a file may change the working directory
        study = comparison.study_for(
            task,
            arms=comparison.DEFAULT_ARMS if arms is None else _split(arms) or (),
            lr=comparison.parse_grid(lr),
            seeds=seeds,
        )
    path = store or driver.default_store(study.name)
    if dry_run:
        return _estimate(study, study.parts("all"), store, jobs, retry=retry, fresh=fresh)
    return _finish(
        lambda: study.execute(
            "all", store=store, jobs=jobs, minutes=minutes, retry=retry, fresh=fresh
        ),
        path,
        context.obj,
    )


@app.command()
def report(
    study: Annotated[
        str | None, typer.Argument(metavar="[STUDY|FILE.py]", help="Default: the latest run.")
    ] = None,
    scale: Annotated[str | None, typer.Option(help="Default: what was last run.")] = None,
    store: StorePath = None,
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    out: Annotated[Path | None, typer.Option(help="Where to write the HTML file.")] = None,
    png: Annotated[Path | None, typer.Option(help="Also write the pictures here.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Also write all rows here.")] = None,
    json: Annotated[Path | None, typer.Option(help="Also write the verdict here.")] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Write verdict and figures into the checkout.")
    ] = False,
) -> int:
    """Write the report of what the store holds, finished or not.

    Example: fallline report muonmax-momo --open --csv rows.csv
    """
    from fallline.study import driver
    from fallline.study import report as reports

    found = _stored_study(study, store)
    path = store or driver.default_store(found.name)
    results = driver.load(found, scale, path)
    target = out or _page(path)
    reports.write_html(results, target)
    written = [target]
    for place, write in (
        (png, reports.write_png),
        (csv, reports.write_csv),
        (json, reports.write_json),
    ):
        if place is not None:
            write(results, place)
            written.append(place)
    if publish:
        written += reports.publish(results, _checkout())
    for file in written:
        print(file)
    if show:
        typer.launch(str(target))
    return HOLDS


@app.command()
def status(
    study: Annotated[str | None, typer.Argument(metavar="[STUDY|FILE.py]")] = None,
    store: StorePath = None,
) -> int:
    """Show the cells by outcome, and the time left, also while a run goes on.

    Example: fallline status muonmax-momo
    """
    from fallline.study import driver, request
    from fallline.study.store import Store

    if study is None:
        paths = [store] if store else sorted(driver.STORES.glob("*.db"))
        if not paths:
            raise ValueError(f"there is no store in {driver.STORES}/; run a study first")
        rows = []
        for path in paths:
            with Store.read(path) as opened:
                rows.append((str(path), _outcomes(opened.records().values())))
        _table("store", "cells", rows=rows)
        return HOLDS
    found = _stored_study(study, store)
    with Store.read(store or driver.default_store(found.name)) as opened:
        records = opened.records(found.name)
        asked = opened.request(found.name)
    table = []
    for scale in found.scales:
        parts = asked[1] if asked and asked[0] == scale else found.parts(scale)
        keys = {placed.cell.key for placed in request.place(found, parts)}
        here = [records[key] for key in keys if key in records]
        left = len(keys) - len(here)
        time = driver.estimate(left, [r.seconds for r in here]) if left else "finished"
        table.append((scale, f"{len(here)} of {len(keys)}", _outcomes(here), time))
    _table("scale", "cells", "outcomes", "left, one at a time", rows=table)
    return HOLDS


@store_app.command("merge")
def merge(
    target: Annotated[Path, typer.Argument(help="The store that receives; made if missing.")],
    sources: Annotated[list[Path], typer.Argument(help="Stores of the same study.")],
) -> int:
    """Copy the cells that TARGET lacks from other stores of the same study.

    Example: fallline store merge all.db machine1.db machine2.db
    """
    from fallline.study.lock import locked
    from fallline.study.store import merge as join

    with locked(target):
        added, both, differ = join(target, sources)
    print(f"{target}: {added} cells added, {both} were there already, {differ} of those differ")
    return HOLDS


@store_app.command("info")
def info(store: Annotated[Path, typer.Argument(help="The store.")]) -> int:
    """Show what a store holds."""
    from fallline.study.store import Store

    with Store.read(store) as opened:
        records = opened.records()
        studies = sorted({(c.study, c.version) for c in opened.cells()})
    for name, version in studies:
        print(f"{name}, version {version}")
    print(f"{len(records)} cells: {_outcomes(records.values())}")
    print(f"{store.stat().st_size / 2**20:.1f} MiB, seconds in cells: "
          f"{sum(r.seconds for r in records.values()):.0f}")  # fmt: skip
    return HOLDS


@app.command()
def doctor() -> int:
    """Show versions, devices, threads and which extras are installed."""
    import torch

    from fallline.study.provenance import environment, extras
    from fallline.study.spec import Limits

    found = environment(Limits(), Path.cwd())
    rows = [(name, str(found[name])) for name in ("python", "platform", "cpu", "cores")]
    rows += list(found["packages"].items())
    rows.append(("torch threads", str(torch.get_num_threads())))
    devices = ["cpu", *(f"cuda:{i} {torch.cuda.get_device_name(i)}"
                        for i in range(torch.cuda.device_count()))]  # fmt: skip
    if torch.backends.mps.is_available():
        devices.append("mps")
    rows.append(("devices", ", ".join(devices)))
    rows += [(f"extra {extra}", state) for extra, state in extras("fallline")]
    _table("what", "found", rows=rows)
    return HOLDS


def _methods() -> Iterator[tuple[str, str, str]]:
    """Yield every public name of the method folders with its first line of documentation."""
    import fallline

    root = Path(fallline.__file__).parent
    for folder in sorted(root.glob("*/__init__.py")):
        name = folder.parent.name
        if name in ("arms", "claims", "study", "tasks"):
            continue
        module = import_module(f"fallline.{name}")
        for public in module.__all__:
            try:
                text = (getattr(module, public).__doc__ or "").strip().split("\n")[0]
            except ModuleNotFoundError as error:
                text = str(error)
            yield name, public, text


def _study(name: str) -> Study:
    """Find a study in the catalog or load a user's file."""
    from fallline import claims
    from fallline.study.errors import StudyError
    from fallline.study.origin import Origin, load_file, studies_in

    file, _, wanted = name.partition(":")
    if not file.endswith(".py"):
        return claims.load(name)
    path = str(Path(file).resolve())  # before the file may change the working directory
    with contextlib.chdir("."):
        module = load_file(path)
    found = studies_in(module)
    if not found and callable(getattr(module, "task", None)):
        raise StudyError(f"{file} is a task, not a study: fallline compare {file}")
    if wanted and wanted not in found:
        raise StudyError(f"{file} defines no study {wanted!r}; it defines {', '.join(found)}")
    if not wanted and len(found) != 1:
        held = ", ".join(found) or "none"
        hint = f"; choose one, {file}:{next(iter(found))}" if found else ""
        raise StudyError(f"{file} must define one Study at its top level; it defines {held}{hint}")
    study = found[wanted or next(iter(found))]
    # A helper elsewhere may have made it; this file is where it is found again.
    return replace(study, origin=Origin(path=path))


def _stored_study(name: str | None, store: Path | None) -> Study:
    """Find the study of a store: by name, by file (a task's too), or the latest run."""
    from fallline import claims, comparison
    from fallline.study import driver
    from fallline.study.origin import load_file, studies_in

    if name is None:
        stores = sorted(driver.STORES.glob("*.db"), key=lambda path: path.stat().st_mtime)
        if not stores:
            raise ValueError(f"there is no store in {driver.STORES}/; run a study first")
        name = stores[-1].stem
        if name not in claims.names():
            raise ValueError(
                f"the latest run is of {name}, which is no study of the catalog; name its file"
            )
    file = name.partition(":")[0]
    if file.endswith(".py") and not studies_in(load_file(file)):
        return comparison.study_of_store(Path(file), store)
    return _study(name)


def _page(store: Path) -> Path:
    """Name the report beside its store."""
    return store.with_name(store.name.removesuffix(".db") + ".html")


def _finish(execute: Callable[[], Results], store: Path, arguments: list[str]) -> int:
    """Execute, write the report, print the verdict and turn it all into an exit code."""
    from fallline.study import Verdict

    page = _page(store.resolve())
    try:
        results = execute()
    except KeyboardInterrupt:
        # Not --fresh again: that would forget what has just been kept.
        again = shlex.join(["fallline", *(a for a in arguments if a != "--fresh")])
        print(f"\nstopped; every finished cell is kept. Go on with: {again}", file=sys.stderr)
        return INCOMPLETE
    print(results)
    if not results.complete:
        again = shlex.join(["fallline", *(a for a in arguments if a not in ("--fresh", "--retry"))])
        owed = sum(not row.answered and row.record is not None for row in results.rows)
        if owed:
            print(f"{owed} cells gave no result; run them again with: {again} --retry")
        if any(row.record is None for row in results.rows):
            print(f"the others were not run; go on with: {again}")
    results.save(page)
    print(f"report: {page}")
    if results.study.bars and results.verdict is Verdict.FAILS:
        return FAILS
    if not results.complete:
        return INCOMPLETE
    return HOLDS if not results.study.bars or results.verdict is Verdict.HOLDS else INCOMPLETE


def _estimate(
    study: Study,
    parts: Sequence[Part],
    store: Path | None,
    jobs: int,
    *,
    retry: bool,
    fresh: bool,
) -> int:
    from fallline import claims
    from fallline.study import driver
    from fallline.study.request import place
    from fallline.study.store import Store

    path = store or driver.default_store(study.name)
    records = {}
    if path.exists():
        with Store.read(path) as opened:
            records = opened.records(study.name)
    keys = {one.cell.key for one in place(study, parts)}
    stored = {k for k in keys & records.keys() if not retry or records[k].outcome.finished}
    left = len(keys) - (0 if fresh else len(stored))
    verdict = claims.published(study.name)
    seconds = [record.seconds for record in records.values()]
    if not seconds and verdict:
        seconds = [verdict["seconds"]["median"]]
    print(f"{study.name}: {len(keys)} cells, {len(keys) - left} stored, {left} to run")
    print(f"time: {driver.estimate(left, seconds, jobs, study.limits.seconds)}")
    return HOLDS


def _split(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def _published(name: str) -> str:
    from fallline import claims

    verdict = claims.published(name)
    return f"{verdict['verdict']} ({verdict['scale']})" if verdict else "not published"


def _outcomes(records: Any) -> str:
    from collections import Counter

    counts = Counter(str(record.outcome) for record in records)
    return ", ".join(f"{n} {outcome}" for outcome, n in counts.most_common()) or "none"


def _table(*columns: str, rows: Sequence[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    # A pipe is no 80-column terminal: whoever reads it gets whole lines.
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _checkout() -> Path:
    """Return the root of the source checkout, where verdicts and figures are published."""
    import fallline

    root = Path(fallline.__file__).resolve().parents[2]
    if not (root / "pyproject.toml").is_file():
        raise ValueError("--publish writes into a source checkout; this fallline is installed")
    return root
