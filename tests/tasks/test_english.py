import hashlib
import math
import subprocess
import sys
from pydoc_data.topics import topics

import pytest
import torch

from fallline.tasks import english_bytes, english_text


def test_the_split_is_by_topic_and_loses_nothing():
    text = english_text()
    sides = [text.train.decode(), text.validation.decode()]
    for content in topics.values():
        assert sum(content in side for side in sides) == 1
    total = len("".join(topics.values()).encode())
    assert 0.05 < len(text.validation) / total < 0.25


@pytest.mark.parametrize(("topic", "kept"), [("comparisons", True), ("while", False)])
def test_a_topic_keeps_its_side(topic, kept):
    text = english_text()
    assert (topics[topic].encode() in text.validation) is kept


def test_the_hash_is_that_of_the_text():
    text = english_text()
    assert text.sha256 == hashlib.sha256(text.train + b"\0" + text.validation).hexdigest()


def test_the_hash_needs_no_torch():
    code = (
        "import sys; from fallline.tasks import english_text; english_text().sha256; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_same_seed_same_losses_and_another_order_for_another_seed():
    def losses(seed):
        task = english_bytes(seed, steps=3)
        optimizer = torch.optim.AdamW(task.model.parameters(), lr=1e-2)
        return [loss for _, loss in task.run(optimizer)], task.score()

    assert losses(0) == losses(0)
    assert losses(0) != losses(1)


def test_batches_are_windows_of_the_training_text_and_start_at_uniform():
    task = english_bytes(0, steps=1)
    first = next(iter(task.batches))
    assert first.shape == (16, 65)
    assert bytes(first[0].tolist()) in english_text().train
    assert task.score()["val_loss"] == pytest.approx(math.log(256), abs=0.05)
