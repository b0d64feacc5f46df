"""Recover the parity checks of an unknown code from what its encoder does to sparse messages.

    python examples/recover_checks.py

Each check bit is the XOR of some message bits. We see messages with few ones, and check bits of
which a tenth was flipped on the way, so that elimination finds no solution. Put your own arrays in
place of `observe`: X holds 0 and 1, with a row per word, and y has one check bit per row.
"""

import numpy as np

from fallline.parity import ParityClassifier, ParityStream, label_noise_mean, solve_gf2

MESSAGE_BITS, FLIPPED = 400, 0.1
CHECKS = {"c0": [5, 17, 88, 311], "c1": [0, 5, 199, 200, 201], "c2": list(range(0, 400, 2))}


def observe(check, words=60_000):
    # One active bit per word on average is where convergence is proved.
    support = CHECKS[check]
    stream = ParityStream(MESSAGE_BITS, support=support, noise=FLIPPED, seed=len(support))
    return stream.sample(words)


def main():
    for check, truth in CHECKS.items():
        X, y = observe(check)
        # Flipped labels keep the weights from reaching 0 and 1: ask for what is possible.
        model = ParityClassifier(
            learning_rate=4, tol=1.2 * label_noise_mean(FLIPPED, MESSAGE_BITS), random_state=0
        )
        model.fit(X, y)
        found = model.support_.tolist()
        shown = found if len(found) < 8 else f"{len(found)} bits"
        print(
            f"{check}: {shown}, {'right' if found == truth else 'wrong'}, "
            f"after {model.n_iter_} steps; agrees with {model.score(X, y):.1%} of the labels"
        )
    try:
        solve_gf2(X[:1000], np.asarray(y)[:1000])
    except ValueError as error:
        print(f"elimination: {error}")


if __name__ == "__main__":
    main()
