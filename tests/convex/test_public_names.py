import fallline.convex


def test_all_is_sorted_and_there():
    names = fallline.convex.__all__
    assert names == sorted(names)
    for name in names:
        assert getattr(fallline.convex, name).__name__ == name
