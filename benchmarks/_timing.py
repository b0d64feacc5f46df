"""Times of several functions measured in turn, so that all see the same machine."""

import json
import statistics
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results.json"


def interleaved(functions, *, windows=15, seconds_per_window=0.0):
    """Return the median seconds of a call of each function, windows taken in turn.

    Seconds are processor time of this thread: what else runs on the machine does not count.
    """
    repeats = {}
    for name, function in functions.items():
        function()  # compile and fill caches
        start = time.thread_time()
        function()
        once = time.thread_time() - start
        repeats[name] = max(1, round(seconds_per_window / max(once, 1e-6)))
    found = {name: [] for name in functions}
    for _ in range(windows):
        for name, function in functions.items():
            start = time.thread_time()
            for _ in range(repeats[name]):
                function()
            found[name].append((time.thread_time() - start) / repeats[name])
    return {name: statistics.median(times) for name, times in found.items()}


def row(name, peer, seconds, peer_seconds, bar=None):
    """One line of the table: how many times as fast as the peer, and what is asked for."""
    ratio = peer_seconds / seconds
    print(f"{name}: {seconds:.3g} s, {peer} {peer_seconds:.3g} s, {ratio:.3g} times as fast")
    return {
        "name": name,
        "peer": peer,
        "seconds": seconds,
        "peer_seconds": peer_seconds,
        "ratio": ratio,
        "bar": bar,
    }


def published():
    """Return the rows of each script."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def publish(script, rows):
    """Replace the rows of `script` in the results, and leave those of the others."""
    RESULTS.write_text(json.dumps({**published(), script: rows}, indent=2) + "\n")
