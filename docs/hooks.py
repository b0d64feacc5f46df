"""Fill the pages with what commands have produced: verdicts, figures, speeds."""

import json
import re
from pathlib import Path

from fallline import claims

DOCS = Path(__file__).parent
BADGES = {"holds": "success", "fails": "failure", "inconclusive": "question"}


def on_page_markdown(markdown, page, **_):
    """Replace the marks of a page: a study's verdict, the list of studies, the speeds."""
    up = "../" * page.file.src_uri.count("/")
    markdown = re.sub(r"<!-- verdict: ([\w-]+) -->", lambda match: verdict(match[1], up), markdown)
    markdown = markdown.replace("<!-- studies -->", studies())
    return markdown.replace("<!-- performance -->", performance())


def verdict(name, up):
    """Show a study's published answer: the badge, every check, the notes and the pictures."""
    found = claims.published(name)
    if found is None:
        return f"The study `{name}` has no published verdict yet: `fallline run {name}`."
    machine = found["environments"][0] if found["environments"] else {}
    lines = [
        f'!!! {BADGES[found["verdict"]]} "{name}: {found["verdict"]}"',
        f"    {found['question']}",
        "",
        f"    {found['cells']} cells at {found['scale']} scale, "
        f"{found['seconds']['total'] / 60:.0f} minutes of cells on {machine.get('cpu', '?')}, "
        f"{found['date'][:10]}. Again: `fallline run {name} --scale {found['scale']}`.",
        "",
    ]
    for path in pictures(name):
        title = path.stem.removeprefix(f"{name}-").replace("-", " ")
        lines += [f"![{title}]({up}figures/{path.name})", ""]
    lines += ["| | figure | bar | answer |", "| --- | --- | --- | --- |"]
    for check in found["checks"]:
        bar = f"{check['relation']} {check['limit']:.4g}"
        lines.append(f"| {check['text']} | {figure(check)} | {bar} | {check['answer']} |")
    lines += ["", *(f"- {note}" for note in found["notes"]), ""]
    return "\n".join(lines)


def pictures(name):
    """Return a study's figures; `a-text-x.svg` is one of `a-text` and none of `a`."""
    longer = tuple(f"{other}-" for other in claims.names() if other.startswith(f"{name}-"))
    found = sorted((DOCS / "figures").glob(f"{name}-*.svg"))
    return [path for path in found if not path.stem.startswith(longer)]


def figure(check):
    """Return a check's figure with its interval."""
    if check["figure"] is None:
        return "unknown"
    text = f"{check['figure']:.4g}"
    if check["interval"] and check["interval"][0] != check["interval"][1]:
        text += f" ({check['interval'][0]:.4g} to {check['interval'][1]:.4g})"
    return text


def studies():
    """List every study with its published verdict."""
    lines = ["| study | question | published verdict |", "| --- | --- | --- |"]
    for name in claims.names():
        found = claims.published(name)
        answer = f"{found['verdict']} ({found['scale']} scale)" if found else "not published"
        lines.append(f"| `{name}` | {claims.load(name).question} | {answer} |")
    return "\n".join(lines)


def performance():
    """Show the measured rows of `benchmarks/results.json`, a table for each script."""
    path = DOCS.parent / "benchmarks" / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    lines = []
    for script, rows in sorted(results.items()):
        lines += [f"## `bench_{script}.py`", ""]
        lines += ["| what | ms | beside | ms | times as fast | asked for |"]
        lines += ["| --- | ---: | --- | ---: | ---: | ---: |"]
        for row in rows:
            bar = f"≥ {row['bar']:.3g}" if row["bar"] is not None else ""
            missed = row["bar"] is not None and row["ratio"] < row["bar"]
            ratio = f"{row['ratio']:.3g}" + (" (missed)" if missed else "")
            lines.append(
                f"| {row['name']} | {1e3 * row['seconds']:.3g} | {row['peer']} "
                f"| {1e3 * row['peer_seconds']:.3g} | {ratio} | {bar} |"
            )
        lines.append("")
    return "\n".join(lines)
