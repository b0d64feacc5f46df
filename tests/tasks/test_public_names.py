import pytest

import fallline.tasks


def test_all_is_sorted_complete_and_loadable():
    names = fallline.tasks.__all__
    assert set(names) == set(fallline.tasks._HOME)
    assert names == sorted(names, key=lambda name: (not name.isupper(), name[0].islower(), name))
    for name in names:
        assert getattr(fallline.tasks, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fallline.tasks.nothing
