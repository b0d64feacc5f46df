"""Parts unfold into cells whose keys name everything that decides an outcome."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallline.study import Arm, Cell, Limits, Part, Study
from fallline.study.request import place, select
from fallline.study.spec import canonical, plain

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)


def cells(part, study="s", version=1):
    return list(part.cells(study, version))


def make(*parts, **options):
    settings = {"metrics": {"y": "min"}, "run": lambda cell: {"y": 0.0}, **options}
    return Study("s", scales={"laptop": list(parts)}, **settings)


def test_a_part_unfolds_seeds_slowest():
    part = Part("p", ["a", Arm("b", 2, {"k": 3})], seeds=2, fixed={"n": 5}, lr=[0.1, 1.0])
    got = [(c.seed, c.config["lr"], c.arm) for c in cells(part)]
    assert got == [
        (0, 0.1, "a"), (0, 0.1, "b"), (0, 1.0, "a"), (0, 1.0, "b"),
        (1, 0.1, "a"), (1, 0.1, "b"), (1, 1.0, "a"), (1, 1.0, "b"),
    ]  # fmt: skip
    assert cells(part)[1].config == {"n": 5, "k": 3, "lr": 0.1}
    assert cells(part)[1].arm_version == 2


def test_a_key_is_as_it_was_when_the_first_stores_were_written():
    cell = Cell("muonmax-momo", 1, "adamw", 1, {"lr": 0.01, "steps": 200}, 0)
    assert canonical(cell.to_dict()) == (
        '{"arm":"adamw","arm_version":1,"config":{"lr":0.01,"steps":200},"seed":0,'
        '"study":"muonmax-momo","version":1}'
    )
    assert cell.key == "2fb2a41c4e71e72d7c25c777ec967d81611051cc78b2e849be22601d356bf09a"


def test_each_part_of_the_key_matters():
    base = Cell("s", 1, "a", 1, {"lr": 0.1}, 0)
    changes = [
        {"study": "t"}, {"version": 2}, {"arm": "b"}, {"arm_version": 2}, {"config": {"lr": 0.2}},
        {"config": {"lr": 0.1, "n": 1}}, {"seed": 1},
    ]  # fmt: skip
    keys = {Cell(**{**base.to_dict(), **change}).key for change in changes}
    assert len(keys | {base.key}) == len(changes) + 1


@given(st.dictionaries(st.text(min_size=1), SCALARS | st.lists(SCALARS)), st.integers(0, 99))
def test_a_key_survives_json(config, seed):
    cell = Cell("s", 1, "a", 1, config, seed)
    back = Cell(**json.loads(json.dumps(cell.to_dict())))
    assert back.key == cell.key
    shuffled = dict(reversed(config.items()))
    assert replace(cell, config=shuffled).key == cell.key


def test_parts_that_share_cells_share_their_outcome():
    study = make(Part("one", ["a"], seeds=2, lr=[0.1]), Part("two", ["a"], seeds=3, lr=[0.1, 0.2]))
    placed = place(study, study.parts("laptop"))
    assert len(placed) == 8
    assert len({p.cell.key for p in placed}) == 6


def test_numpy_settings_are_plain_numbers():
    part = Part(
        "p", ["a"], seeds=1, fixed={"k": (np.int64(3), [np.float32(0.5)])}, lr=np.geomspace(1, 4, 3)
    )
    assert part.axes["lr"] == (1.0, 2.0, 4.0)
    assert type(part.axes["lr"][0]) is float
    assert part.fixed == {"k": [3, [0.5]]}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Part("p", [], seeds=1), "arms is empty"),
        (lambda: Part("p", ["a"], seeds=0), "seeds must be a count >= 1"),
        (lambda: Part("p", ["a"], seeds=1, lr=[]), "axis 'lr' is empty"),
        (lambda: Part("p", ["a"], seeds=1, lr=[[1]]), "must hold scalars"),
        (lambda: Part("p", ["a"], seeds=1, fixed={"lr": 1}, lr=[1]), "lr is set twice"),
        (lambda: Part("p", [Arm("a", settings={"lr": 1})], seeds=1, lr=[1]), "lr is set twice"),
        (lambda: Part("p", ["a"], seeds=1, lr=[float("nan")]), "not a finite number"),
        (lambda: Limits(seconds=0), "seconds must be > 0"),
        (lambda: Limits(gib=-1), "gib must be > 0"),
        (lambda: Limits(threads=0), "threads must be >= 1"),
        (lambda: make(metrics={}), "metrics must map each metric"),
        (lambda: make(metrics={"y": "down"}), "use 'min' or 'max'"),
        (lambda: make(diverged={"z": 1.0}), "diverged names z"),
        (lambda: make().parts("huge"), "has no scale 'huge'; it has laptop"),
        (lambda: select([Part("p", ["a"], seeds=1)], arms=["z"]), "arms: z; this study has a"),
        (lambda: select([Part("p", ["a"], seeds=1)], seeds=0), "seeds must be >= 1"),
    ],
)
def test_errors_name_what_is_wrong(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_settings_that_are_not_data_are_refused():
    with pytest.raises(TypeError, match=r"fixed setting 'f': .* of type function is not JSON data"):
        Part("p", ["a"], seeds=1, fixed={"f": lambda: 0})
    with pytest.raises(ValueError, match="names files"):
        replace(make(), name="../x")
    assert plain({"a": (1, 2)}, "x") == {"a": [1, 2]}


def test_select_takes_the_first_seeds_and_makes_more():
    part = Part("p", ["a", "b"], seeds=[3, 5], lr=[1])
    (fewer,) = select([part], seeds=1, arms=["b"])
    assert fewer.seeds == (3,)
    assert [arm.name for arm in fewer.arms] == ["b"]
    (more,) = select([part], seeds=4)
    assert more.seeds == (3, 5, 6, 7)


def test_a_cell_run_by_hand_needs_no_engine():
    cell = Cell("s", 1, "a", 1, {}, 0)
    cell.report(0, loss=1.0)
    cell.attach("x", [1])
    assert cell.artifacts == {"x": [1]}
