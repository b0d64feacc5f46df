"""The `fallline` command: a thin face of the Python interface, which it imports lazily."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fallline.study import Results, Study

HOLDS, FAILS, INCOMPLETE, USAGE = 0, 1, 2, 3

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
Jobs = Annotated[int, typer.Option(min=1, help="Cells at a time.")]
StorePath = Annotated[
    Path | None, typer.Option("--store", help="SQLite file; default fallline-results/<study>.db.")
]
Retry = Annotated[bool, typer.Option("--retry", help="Run failed cells again.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Forget these cells and run them anew.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would run, and how long.")]


def main() -> None:
    """Run the command; every error is one readable line."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    sys.exit(run_command(arguments, debug=debug))


def run_command(arguments: list[str], *, debug: bool = False) -> int:
    """Run the command with these arguments and return its exit code."""
    try:
        return app(args=arguments, prog_name="fallline", standalone_mode=False) or HOLDS
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
    study: StudyName,
    scale: Scale = "laptop",
    seeds: Seeds = None,
    arms: Arms = None,
    jobs: Jobs = 1,
    store: StorePath = None,
    retry: Retry = False,
    fresh: Fresh = False,
    dry_run: DryRun = False,
) -> int:
    """Run what the store lacks of a study, then print its verdict and write its report.

    Examples: fallline run muonmax-momo --jobs 2 · fallline run my_study.py --scale smoke
    """
    from fallline.study import driver

    found = _study(study)
    names = _split(arms)
    if dry_run:
        parts = driver.select(found.parts(scale), seeds=seeds, arms=names)
        return _estimate(found, driver.place(found, parts), store, jobs)
    return _finish(
        lambda: found.execute(
            scale, store=store, jobs=jobs, seeds=seeds, arms=names, retry=retry, fresh=fresh
        ),
        store or driver.default_store(found.name),
        f"fallline run {study} --scale {scale}",
    )


@app.command()
def compare(
    task: Annotated[Path, typer.Argument(metavar="TASK.py", help="A file with `task(seed)`.")],
    arms: Annotated[str | None, typer.Option(help="Optimizers, a,b,c.")] = None,
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

    study = comparison.study_for(
        task,
        arms=_split(arms) or comparison.DEFAULT_ARMS,
        lr=comparison.parse_grid(lr),
        seeds=seeds,
    )
    path = store or driver.default_store(study.name)
    if dry_run:
        return _estimate(study, driver.place(study, study.parts("all")), store, jobs)
    again = " ".join(["fallline", *sys.argv[1:]])
    return _finish(
        lambda: study.execute(
            "all", store=store, jobs=jobs, minutes=minutes, retry=retry, fresh=fresh
        ),
        path,
        again,
    )


@app.command()
def report(
    study: Annotated[
        str | None, typer.Argument(metavar="[STUDY|FILE.py]", help="Default: the latest run.")
    ] = None,
    scale: Scale = "laptop",
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

    found, scale = _stored_study(study, scale, store)
    results = driver.load(found, scale, store)
    target = out or (store or driver.default_store(found.name)).with_suffix(".html")
    reports.write_html(results, target)
    written = [target]
    for path, write in (
        (png, reports.write_png),
        (csv, reports.write_csv),
        (json, reports.write_json),
    ):
        if path is not None:
            write(results, path)
            written.append(path)
    if publish:
        written += reports.publish(results, _checkout())
    for path in written:
        print(path)
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
    from fallline.study import driver
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
    found = _study(study)
    with Store.read(store or driver.default_store(found.name)) as opened:
        records = opened.records(found.name)
    table = []
    for scale in found.scales:
        keys = {placed.cell.key for placed in driver.place(found, found.parts(scale))}
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

    from fallline.study.provenance import environment
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
    rows += [(f"extra {extra}", state) for extra, state in _extras()]
    _table("what", "found", rows=rows)
    return HOLDS


def _extras() -> Iterator[tuple[str, str]]:
    """Yield each extra with what it lacks."""
    from importlib.metadata import PackageNotFoundError, metadata, requires, version

    from packaging.requirements import Requirement

    needs = [Requirement(line) for line in requires("fallline") or ()]
    for extra in metadata("fallline").get_all("Provides-Extra") or ():
        missing = []
        for need in needs:
            if need.name == "fallline" or need.marker is None:
                continue
            if not need.marker.evaluate({"extra": extra}):
                continue
            try:
                version(need.name)
            except PackageNotFoundError:
                missing.append(need.name)
        hint = f"missing {', '.join(missing)}: pip install 'fallline[{extra}]'"
        if extra != "all":
            yield extra, hint if missing else "installed"


def _methods() -> Iterator[tuple[str, str, str]]:
    """Yield every public name of the method folders with its first line of documentation."""
    import fallline

    root = Path(fallline.__file__).parent
    for folder in sorted(root.glob("*/__init__.py")):
        name = folder.parent.name
        if name in ("study", "tasks", "claims"):
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
    from fallline.study.origin import load_file, studies_in

    if not name.endswith(".py"):
        return claims.load(name)
    found = studies_in(load_file(name))
    if len(found) != 1:
        held = ", ".join(found) or "none"
        raise StudyError(f"{name} must define one Study at its top level; it defines {held}")
    return next(iter(found.values()))


def _stored_study(name: str | None, scale: str, store: Path | None) -> tuple[Study, str]:
    """Find the study of a report: by name, by file (a task's too), or the latest run."""
    from fallline import claims, comparison
    from fallline.study import driver
    from fallline.study.origin import load_file, studies_in

    if name is None:
        stores = sorted(driver.STORES.glob("*.db"), key=lambda path: path.stat().st_mtime)
        latest = [path.stem for path in stores if path.stem in claims.names()]
        if not latest:
            raise ValueError(f"no study of the catalog has a store in {driver.STORES}/; name one")
        name = latest[-1]
    if name.endswith(".py") and not studies_in(load_file(name)):
        return comparison.study_of_store(Path(name), store), "all"
    return _study(name), scale


def _finish(execute: Callable[[], Results], store: Path, again: str) -> int:
    """Execute, print the verdict, write the report and turn it all into an exit code."""
    from fallline.study import Verdict

    try:
        results = execute()
    except KeyboardInterrupt:
        print(f"\nstopped; every finished cell is kept. Go on with: {again}", file=sys.stderr)
        return INCOMPLETE
    print(results)
    page = store.with_suffix(".html")
    results.save(page)
    print(f"report: {page.resolve()}")
    if not results.complete:
        return INCOMPLETE
    if not results.study.bars:
        return HOLDS
    return {Verdict.HOLDS: HOLDS, Verdict.FAILS: FAILS}.get(results.verdict, INCOMPLETE)


def _estimate(study: Study, placed: Any, store: Path | None, jobs: int) -> int:
    from fallline import claims
    from fallline.study import driver
    from fallline.study.store import Store

    path = store or driver.default_store(study.name)
    records = {}
    if path.exists():
        with Store.read(path) as opened:
            records = opened.records(study.name)
    keys = {one.cell.key for one in placed}
    left = len(keys - records.keys())
    verdict = claims.published(study.name)
    seconds = [r.seconds for r in records.values()]
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
