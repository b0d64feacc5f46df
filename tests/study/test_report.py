"""The report, its files for machines, and what may be published."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.study import planted

from fallline.study import plots
from fallline.study.checks import Check, at_least, at_most
from fallline.study.errors import StudyError
from fallline.study.estimates import Estimate
from fallline.study.origin import Origin
from fallline.study.record import Outcome, Record
from fallline.study.report import fragment, publish, write_html, write_json, write_png
from fallline.study.results import Results
from fallline.study.spec import Arm, Cell, Part, Study

EVIL = "<script>alert(1)</script>"
ENVIRONMENTS = {"here": {"python": "3.12", "packages": {"numpy": "2.1"}}}
CLEAN = {"commit": "0" * 40, "dirty": False}


def run(cell: Cell) -> dict[str, float]:
    print("noise")
    return {"loss": 1.0 + math.log10(cell.config["lr"]) ** 2 + (cell.arm == "b") + 0.1 * cell.seed}


def forgiving(results: Results) -> Check:
    """Arm a is at most two at its best."""
    return at_most(results.best("loss", over="lr")["a"], 2.0)


def tuned_gain(results: Results) -> Estimate:
    """Arm a is better when both are tuned."""
    return results.tuned("loss").paired("a", "b")


def never(results: Results) -> Estimate:
    """Arm b is better when both are tuned."""
    return results.tuned("loss").paired("b", "a")


def winner(results: Results) -> str:
    return "b loses at every learning rate"


def sensitivity(results: Results) -> object:
    """Loss along the learning rate: a is below b."""
    return plots.sensitivity(results, "loss", "lr")


PART = Part("lr", ["a", "b"], seeds=3, lr=[0.1, 1.0, 10.0], fixed={"steps": 5})


def study(*parts: Part, **more: object) -> Study:
    declared: dict[str, object] = {
        "bars": [forgiving],
        "open": [tuned_gain, never],
        "notes": [winner],
        "figures": [sensitivity],
        "question": "Is a better than b?",
    }
    return planted.study(run, *(parts or (PART,)), **(declared | more))


def html(results: Results) -> str:
    return write_html(results, Path("unused.html")).read_text()


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_page_answers_first_and_needs_nothing_else():
    page = html(planted.results(study(), environments=ENVIRONMENTS))
    order = [
        *("<h1>Is a better than b?", "Holds", "Arm a is at most two at its best."),
        *("Shown at this scale", "Not shown at this scale (contradicted)"),
        *("b loses at every learning rate", "<svg", "Part “lr”", "Tuned settings"),
        *("lr=1.0 ×3", "How to run it again", "--scale laptop", "packages.numpy"),
    ]
    positions = [page.index(text) for text in order]
    assert positions == sorted(positions)
    for outside in ("http://", "https://", "url(", "@import"):
        allowed = page.replace("http://www.w3.org/", "").replace("url(#", "")
        assert outside not in allowed, outside
    assert 'aria-label="Loss along the learning rate: a is below b."' in page


class Balanced(HTMLParser):
    VOID = frozenset({"meta", "link", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_balanced():
    parser = Balanced()
    parser.feed(html(planted.results(study())))
    assert parser.open == []


def test_everything_from_the_study_is_escaped():
    def evil_note(results: Results) -> str:
        return EVIL

    def evil_bar(results: Results) -> Check:
        return at_most(0.0, 1.0, text=EVIL)

    def evil_figure(results: Results) -> object:
        return plots.forest({EVIL: Estimate(1.0, 0.5, 1.5, 3)}, EVIL)

    evil_figure.__doc__ = f'"> {EVIL}'
    evil_bar.__name__ = EVIL
    part = Part(EVIL, [Arm(EVIL)], seeds=2, lr=[1.0, EVIL], fixed={EVIL: EVIL})
    declared = study(
        part,
        question=EVIL,
        paper=EVIL,
        bars=[evil_bar],
        open=[],
        notes=[evil_note],
        figures=[evil_figure],
    )
    results = planted.results(
        declared,
        environments={EVIL: {EVIL: EVIL}},
        change=lambda cell: (
            Record(Outcome.FAILED, error=EVIL, output=f"</pre>{EVIL}") if cell.seed else ""
        ),
    )
    for text in (html(results), fragment(results)):
        assert EVIL.lower() not in text.lower()
        assert "&lt;script&gt;alert(1)" in text


def test_an_unfinished_run_has_a_report():
    results = planted.results(study(), change=lambda cell: None if cell.seed else "")
    page = html(results)
    assert "Incomplete: 6 of 18 cells." in page
    assert "Inconclusive" in page
    empty = planted.results(study(), change=lambda cell: None)
    assert "Incomplete: 0 of 18 cells." in html(empty)


def test_a_figure_that_raises_is_told_and_nothing_is_drawn_twice():
    calls = []

    def broken(results: Results) -> object:
        """It would show something."""
        calls.append(1)
        raise RuntimeError("no picture today")

    def no_figure(results: Results) -> object:
        return 3

    results = planted.results(study(figures=[broken, no_figure]))
    page = html(results)
    assert "RuntimeError: no picture today" in page
    assert "returned 3" in page
    write_json(results, "a.json")
    assert write_png(results, "png") == []
    assert calls == [1]


def test_failures_are_shown_with_their_last_output_and_the_rest_counted():
    part = Part("lr", ["a"], seeds=60, lr=[1.0])
    results = planted.results(
        study(part, figures=[], open=[]),
        change=lambda cell: Record(Outcome.TIMEOUT, error="over 3 s", output=f"got to {cell.seed}"),
    )
    page = html(results)
    assert page.count("<details>") == 50
    assert "got to 49" in page
    assert "got to 50" not in page
    assert "and 10 more" in page


def test_mixed_sources_and_environments_are_told():
    environments = {"x": {"cpu": "one"}, "y": {"cpu": "two"}}
    results = planted.results(
        study(),
        environments=environments,
        change=lambda cell: Record(
            Outcome.DONE, {"loss": 1.0}, source=cell.arm, environment="xy"[cell.seed % 2]
        ),
    )
    page = html(results)
    assert "2 versions of the source" in page
    assert "cpu is one or two" in page


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (Origin(module="fallline.claims.muonmax"), "fallline run planted --scale laptop"),
        (Origin(path="/elsewhere/my study.py"), "fallline run &#39;my study.py&#39; --scale"),
        (
            Origin(path="task.py", builder="x:y"),
            "fallline compare task.py --arms a,b --lr 0.1,1.0,10.0 --seeds 3",
        ),
        (Origin(), "study.execute(&#39;laptop&#39;)"),
    ],
)
def test_the_page_says_how_to_run_it_again(origin: Origin, command: str):
    assert command in html(planted.results(study(origin=origin, figures=[])))


def test_the_command_keeps_a_choice_of_arms_and_seeds():
    results = planted.results(study(figures=[]))
    fewer = results.where(arm="a", seed=[0, 1])
    assert "--arms a --seeds 2" in html(fewer)


def test_json_holds_the_answer_and_the_table():
    results = planted.results(study(), environments=ENVIRONMENTS)
    data = json.loads(results.save("deep/answer.json").read_text())
    assert (data["study"], data["scale"], data["verdict"]) == ("planted", "laptop", "holds")
    bar, shown, not_shown = data["checks"]
    assert (bar["kind"], bar["outcome"], bar["figure"], bar["limit"]) == ("bar", "holds", 1.1, 2.0)
    assert bar["interval"] == [1.1, 1.1]
    assert shown["interval"] == pytest.approx([1.0, 1.0])
    assert shown["seeds"] == 3
    assert not_shown["answer"].startswith("not shown")
    assert data["tuned"][0]["settings"] == {"a": {"lr": 1.0}, "b": {"lr": 1.0}}
    assert len(data["table"]) == 6
    assert data["table"][0]["medians"] == {"loss": pytest.approx(2.1)}


def test_save_goes_by_the_suffix():
    results = planted.results(study(figures=[]))
    assert results.save("t.csv").read_text().startswith("part,arm,seed,lr,steps,outcome,loss")
    assert results.save("t.html").is_file()
    with pytest.raises(ValueError, match=r"must end in .html, .csv, .json"):
        results.save("t.pdf")
    with pytest.raises(StudyError, match="cannot be written"):
        results.save("t.csv/below.csv")


def test_a_path_that_cannot_be_written_is_one_line():
    Path("file").write_text("")
    with pytest.raises(StudyError, match=r"file/report.html cannot be written"):
        write_html(planted.results(study(figures=[])), "file/report.html")


def test_pngs_are_written():
    (path,) = write_png(planted.results(study()), "png")
    assert path.name == "planted-sensitivity.png"
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_the_notebook_face_is_compact():
    text = planted.results(study())._repr_html_()
    assert "<strong>Holds</strong>" in text
    assert "shown at this scale" in text
    assert "<svg" not in text


def published(**more: object) -> Results:
    declared = study(**more)
    source = declared.origin.source_hash(())
    return planted.results(declared, source=source, environments=ENVIRONMENTS)


def test_publishing_twice_gives_the_same_files():
    paths = publish(published(), "root", git=CLEAN)
    assert [str(path) for path in paths] == [
        "root/src/fallline/claims/verdicts/planted.json",
        "root/docs/figures/planted-sensitivity.svg",
    ]
    before = [path.read_bytes() for path in paths]
    publish(published(), "root", git=CLEAN)
    assert [path.read_bytes() for path in paths] == before
    data = json.loads(before[0])
    assert data["date"] == "2026-01-02T03:04:05+00:00"
    assert data["seconds"] == {"median": 1.5, "total": 27.0}
    assert (data["cells"], data["version"]) == (18, 1)
    svg = ElementTree.fromstring(before[1])
    assert svg.get("aria-label") == "Loss along the learning rate: a is below b."
    assert b"<dc:date>" not in before[1]


def test_publishing_refuses_what_could_not_be_repeated():
    whole = published()
    with pytest.raises(StudyError, match="not committed"):
        publish(whole, "root", git={"commit": "0", "dirty": True})
    with pytest.raises(StudyError, match="needs a git checkout"):
        publish(whole, "root", git={})
    with pytest.raises(StudyError, match="the source has changed"):
        publish(planted.results(study(), source="older"), "root", git=CLEAN)
    with pytest.raises(StudyError, match="0 of 18 cells"):
        publish(planted.results(study(), change=lambda cell: None), "root", git=CLEAN)
    narrowed = published()
    few = Results(
        narrowed.study,
        "laptop",
        [placed for placed in narrowed.placed if placed.cell.seed == 0],
        narrowed.records,
    )
    with pytest.raises(StudyError, match="left out arms or seeds of the scale laptop"):
        publish(few, "root", git=CLEAN)
    records = dict(whole.records)
    first = next(iter(records))
    records[first] = replace(records[first], source="other")
    mixed = Results(whole.study, "laptop", whole.placed, records)
    with pytest.raises(StudyError, match="2 versions of the source"):
        publish(mixed, "root", git=CLEAN)
    assert not Path("root").exists()


def test_publishing_refuses_a_figure_that_cannot_be_drawn():
    def broken(results: Results) -> object:
        raise RuntimeError("no")

    with pytest.raises(StudyError, match="'broken' cannot be drawn: RuntimeError: no"):
        publish(published(figures=[broken]), "root", git=CLEAN)


def test_a_long_table_is_cut_and_says_so():
    part = Part("lr", ["a"], seeds=1, lr=[1.0 + i for i in range(1200)])
    page = html(planted.results(study(part, figures=[], open=[])))
    assert "the first 1000 of 1200 lines" in page
    assert page.count('<th scope="row">') == 1000


def test_a_study_without_bars_answers_with_its_first_note():
    results = planted.results(study(bars=[], open=[lambda r: at_least(1.0, 0.0)]))
    page = html(results)
    assert page.count("b loses at every learning rate") == 1
    assert page.index("b loses at") < page.index("Open comparisons")
    assert "Inconclusive" not in page
    assert "Inconclusive" not in fragment(results)
    assert "planted (laptop): no bar is set" in repr(results)
