import pickle
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix, issparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from fallline import FalllineWarning
from fallline.parity import (
    ParityClassifier,
    ParityConvergenceWarning,
    ParityStream,
    label_noise_mean,
)
from fallline.parity.classifier import ParityClassifier as Classifier

SUPPORT = [3, 14, 15, 92, 65]


def data(n=8000, seed=0, **options):
    return ParityStream(100, support=SUPPORT, seed=seed, **options).sample(n)


class OnAnyData(Classifier):
    """The classifier behind a threshold at 0: scikit-learn's checks are about real numbers."""

    def _bits(self, X):
        X = X.copy()
        if issparse(X):
            X.data = (X.data > 0).astype(float)
        else:
            X = (X > 0).astype(float)
        return super()._bits(X)


@pytest.mark.filterwarnings("ignore")  # random labels are no parity: fits end unconverged
def test_scikit_learns_own_checks_pass_on_bits():
    for result in check_estimator(OnAnyData(), on_fail=None, on_skip=None):
        allowed = ("passed", "skipped") if result["check_name"] == "check_array_api_input" else (
            "passed",
        )  # fmt: skip
        assert result["status"] in allowed, (result["check_name"], result["exception"])


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_fail_only_where_they_feed_real_numbers():
    results = check_estimator(ParityClassifier(), on_fail=None, on_skip=None)
    passed = [result for result in results if result["status"] == "passed"]
    assert len(passed) >= 15
    for result in results:
        if result["status"] == "failed":
            told = [result["exception"]]
            while told[-1] is not None:
                told.append(told[-1].__cause__ or told[-1].__context__)
            said = " ".join(map(str, told))
            about_bits = "must hold only 0 and 1" in said
            # These swallow the refusal, or expect another one of these data.
            swallowed = result["check_name"] in {
                "check_positive_only_tag_during_fit",
                "check_estimator_sparse_tag",
                "check_estimator_sparse_array",
                "check_estimator_sparse_matrix",
                "check_classifiers_one_label",
                "check_classifier_not_supporting_multiclass",
                "check_fit2d_1sample",
                "check_fit2d_1feature",
            }
            assert about_bits or swallowed, (result["check_name"], said)


def test_it_finds_the_support():
    X, y = data(1000)
    model = ParityClassifier(random_state=0).fit(X, y)
    assert model.support_.tolist() == sorted(SUPPORT)
    assert model.converged_
    assert model.coverage_ == 1.0
    assert model.n_features_in_ == 100
    assert model.coef_.shape == (100,)
    assert model.history_["step"] == list(range(10, model.n_iter_ + 1, 10))
    assert model.history_["distance"][-1] < 0.01 <= model.history_["distance"][-2]
    Z, z = data(500, seed=1, p_e=0.5)
    np.testing.assert_array_equal(model.predict(Z), z)
    assert ((model.decision_function(Z) > 0) == z).all()


def test_decision_is_minus_the_product():
    X, y = data(300)
    model = ParityClassifier(random_state=0, max_steps=100).fit(X, y)
    expected = -np.prod(1 - 2 * model.coef_ * X.toarray(), axis=1)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-14)


@pytest.mark.parametrize(
    "form", [lambda X: X.toarray(), csr_matrix, lambda X: X.astype(np.int64).tocsc(),
             lambda X: X.toarray().astype(bool), lambda X: X.toarray().astype(np.float32)]
)  # fmt: skip
def test_every_form_of_the_data_gives_the_same_weights(form):
    X, y = data()
    model = ParityClassifier(random_state=7, batch_size=50)
    np.testing.assert_array_equal(clone(model).fit(form(X), y).coef_, clone(model).fit(X, y).coef_)


def test_stored_zeros_and_unsorted_indices_are_no_trouble():
    X, y = data()
    rows = [X.indices[X.indptr[m] : X.indptr[m + 1]][::-1] for m in range(X.shape[0])]
    values = np.concatenate([np.append(np.ones(len(row)), 0.0) for row in rows])
    lengths = [len(row) + 1 for row in rows]
    columns = np.concatenate([np.append(row, next(j for j in range(100) if j not in row))
                              for row in rows])  # fmt: skip
    messy = csr_array((values, columns, np.cumsum([0, *lengths])), X.shape)
    kept = messy.copy()
    same = ParityClassifier(random_state=0).fit(messy, y).coef_
    np.testing.assert_array_equal(same, ParityClassifier(random_state=0).fit(X, y).coef_)
    np.testing.assert_array_equal(messy.data, kept.data)  # the caller's matrix is left alone
    np.testing.assert_array_equal(messy.indices, kept.indices)


def test_clone_parameters_and_pickle():
    settings = {
        "density": 0.02, "learning_rate": 3.0, "batch_size": 40, "max_steps": 500, "tol": 0.02,
        "init_std": 0.3, "random_state": 4, "warm_start": True,
    }  # fmt: skip
    model = clone(ParityClassifier(**settings))
    assert model.get_params() == settings
    X, y = data()
    model.fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_any_two_labels():
    X, y = data()
    words = np.where(y == 1, "odd", "even")
    model = ParityClassifier(random_state=0).fit(X, words)
    assert model.classes_.tolist() == ["even", "odd"]
    assert model.score(X, words) == 1.0
    assert cross_val_score(ParityClassifier(random_state=0), X, words, cv=3).min() == 1.0


def test_noisy_labels_leave_the_support():
    X, y = data(40_000, noise=0.2)
    model = ParityClassifier(random_state=0, learning_rate=1.0, max_steps=4000, tol=0.15)
    model.fit(X, y)
    assert model.support_.tolist() == sorted(SUPPORT)
    with pytest.warns(ParityConvergenceWarning, match=r"raise tol if labels are noisy"):
        model.set_params(tol=0.01, max_steps=2000).fit(X, y)
    assert not model.converged_
    assert model.history_["distance"][-1] == pytest.approx(label_noise_mean(0.2), abs=0.03)


def test_partial_fit_learns_from_a_stream():
    stream = ParityStream(100, support=SUPPORT, seed=0)
    model = ParityClassifier(random_state=0)
    for k in range(60):
        model.partial_fit(*stream.sample(200), classes=[0, 1])
        assert model.n_iter_ == 2 * (k + 1)  # batches of N = 100
    assert model.converged_
    assert model.support_.tolist() == sorted(SUPPORT)
    with pytest.raises(ValueError, match=r"y holds the class .*2.*, not in \[0, 1\]"):
        model.partial_fit(stream.sample(3)[0], [0, 1, 2])
    with pytest.raises(ValueError, match="first call of partial_fit needs classes"):
        ParityClassifier().partial_fit(*stream.sample(3))


def test_warm_start_goes_on():
    X, y = data(500)  # passes of 5 steps
    model = ParityClassifier(random_state=0, max_steps=5, warm_start=True)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    before = model.coef_.copy()
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    assert np.abs(model.coef_ - before).max() < 0.6  # not drawn anew
    assert model.n_iter_ == 5
    model.set_params(max_steps=100).fit(X, y)
    assert model.converged_
    assert model.history_["step"][-1] == model.n_iter_
    cold = ParityClassifier(random_state=0, max_steps=100).fit(X, y)
    assert cold.n_iter_ > model.n_iter_


def test_the_automatic_settings():
    X, y = data()
    model = ParityClassifier(random_state=0)
    model.fit(X, y)
    by_hand = ParityClassifier(random_state=0, learning_rate=10.0, batch_size=100)
    np.testing.assert_array_equal(by_hand.fit(X, y).coef_, model.coef_)
    # Denser data than planned get a smaller step: at c = 4 the limit is N / 20.
    Z, z = data(6000, p_e=0.04)
    ParityClassifier(random_state=0).fit(Z, z)
    told = ParityClassifier(random_state=0, density=0.04).fit(Z, z)
    assert told.support_.tolist() == sorted(SUPPORT)


def test_a_batch_that_is_not_a_divisor_still_uses_every_sample():
    X, y = data(1000)
    model = ParityClassifier(random_state=0, batch_size=300, learning_rate=5, max_steps=400)
    assert model.fit(X, y).converged_
    assert model.history_["step"][0] == 4


def test_unseen_features_are_told_and_left_out_of_the_support():
    X, y = ParityStream(50, support=[1, 2], seed=0).sample(3000)
    wide = csr_array((X.data, X.indices, X.indptr), (3000, 80))
    model = ParityClassifier(random_state=0).fit(wide, y)
    assert model.coverage_ == pytest.approx(50 / 80)
    assert model.support_.tolist() == [1, 2]
    assert (model.coef_[50:] > 0.5).any()
    nothing = ParityClassifier(random_state=0, max_steps=3)
    nothing.fit(np.zeros((4, 5)), [0, 1, 0, 1])
    assert nothing.coverage_ == 0.0
    assert len(nothing.support_) == 0


def test_the_sign_survives_where_the_product_underflows():
    N = 20_000
    model = ParityClassifier(random_state=0)
    X, y = ParityStream(N, p_w=0.5, seed=0).sample(5 * N)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    model.coef_ = np.where(model.coef_ > 0.5, 0.7, 0.3)
    Z, _ = ParityStream(N, 0.5, support=[0], seed=1).sample(50)
    assert (model.decision_function(Z) == 0).all()
    hard = (model.coef_ > 0.5).astype(int)
    np.testing.assert_array_equal(model.predict(Z), (Z.astype(int) @ hard) % 2)


def test_an_unconverged_fit_is_told_with_the_predicted_cost():
    X, y = data()
    with pytest.warns(ParityConvergenceWarning, match=r"not converged after 3 steps") as told:
        model = ParityClassifier(random_state=0, max_steps=3).fit(X, y)
    assert not model.converged_
    message = str(told[0].message)
    assert f"{model.history_['distance'][-1]:.3g} from 0 and 1" in message
    assert "about 21 steps" in message
    assert issubclass(ParityConvergenceWarning, FalllineWarning)
    with pytest.warns(ParityConvergenceWarning, match="more than 30 steps"):
        ParityClassifier(random_state=0, learning_rate=0.01, max_steps=3).fit(X, y)


@pytest.mark.filterwarnings("ignore::fallline.parity.ParityConvergenceWarning")
def test_a_step_size_above_the_limit_is_told():
    X, y = data()
    with pytest.warns(FalllineWarning, match=r"learning_rate = 80 is above the stability limit"):
        ParityClassifier(random_state=0, learning_rate=80, max_steps=2).fit(X, y)


def test_weights_that_blow_up_stop_the_fit():
    X, y = data(2000, p_e=0.2)
    with pytest.warns(FalllineWarning) as told:
        model = ParityClassifier(random_state=0, learning_rate=900.0).fit(X, y)
    assert not model.converged_
    assert model.n_iter_ < 10_000
    message = str(told[-1].message)
    assert "no longer finite" in message
    assert "learning_rate = 900" in message
    assert "stability limit is 0.2" in message


@pytest.mark.parametrize("kind", [np.array, csr_array])
@pytest.mark.parametrize("value", [2, -1, 0.5])
def test_the_first_value_that_is_no_bit_is_named(kind, value):
    X = np.eye(6)
    X[2, 4] = X[3, 0] = value
    message = rf"only 0 and 1, got {float(value)} at row 2, column 4"
    with pytest.raises(ValueError, match=message):
        ParityClassifier().fit(kind(X), [0, 1] * 3)
    model = ParityClassifier(random_state=0).fit(*data())
    with pytest.raises(ValueError, match="expecting 100 features"):
        model.predict(X)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be > 0 and finite, got 0.0"),
        ({"learning_rate": "fast"}, "learning_rate must be > 0 and finite, got 'fast'"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1, got 0"),
        ({"max_steps": 0}, "max_steps must be an integer >= 1, got 0"),
        ({"density": 2.0}, r"density must lie in \(0, 1\], got 2.0"),
        ({"density": "dense"}, r"density must lie in \(0, 1\], got 'dense'"),
        ({"tol": 0.0}, "tol must be > 0, got 0.0"),
        ({"init_std": -1.0}, "init_std must be >= 0, got -1.0"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ParityClassifier(**settings).fit(np.eye(4), [0, 1, 0, 1])


def test_bad_labels_are_refused():
    with pytest.raises(ValueError, match="two classes, got the one class"):
        ParityClassifier().fit(np.eye(3), [1, 1, 1])
    with pytest.raises(ValueError, match="The type of the target is multiclass"):
        ParityClassifier().fit(np.eye(3), [0, 1, 2])
    with pytest.raises(NotFittedError):
        ParityClassifier().predict(np.eye(3))
