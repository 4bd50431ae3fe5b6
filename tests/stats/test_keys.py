"""Keys ranked by a cautious rate."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from casekit.stats import compare, rank_keys
from casekit.stats.keys import fit_prior

Reference = dict[str, Any]
Engines = Callable[[pd.DataFrame], dict[str, Any]]


@pytest.fixture
def ten(reference: Reference) -> pd.DataFrame:
    """Ten keys, each in a case of its own."""
    given = reference["VGAM.betabinomial"]["input"]
    yes, n = np.array(given["yes"]), np.array(given["n"])
    keys = [f"k{i}" for i in range(10)]
    return pd.DataFrame({"case_id": keys, "key": keys, "yes": yes, "no": n - yes})


@pytest.fixture
def many() -> pd.DataFrame:
    """Twelve keys whose rates differ, over forty cases."""
    rng = np.random.default_rng(0)
    key = rng.integers(0, 12, 400)
    n = rng.integers(1, 5, 400)
    yes = rng.binomial(n, 0.3 + key / 24)
    cases = [f"c{i}" for i in rng.integers(0, 40, 400)]
    return pd.DataFrame({"case_id": cases, "key": [f"k{i:02}" for i in key], "yes": yes, "no": n - yes})


def test_shrinkage_is_the_beta_binomials(reference: Reference, ten: pd.DataFrame) -> None:
    """Prior, posterior means and intervals are those of VGAM and of SciPy's own likelihood."""
    entry, exact = reference["VGAM.betabinomial"], reference["scipy.betabinom.mle"]
    found = rank_keys(ten).sort_values("key")
    expected = entry["output"]
    assert found["prior_mean"].iloc[0] == pytest.approx(expected["mu"], abs=1e-4)
    assert found["shrunk_rate"].tolist() == pytest.approx(expected["posterior_mean"], abs=1e-3)
    assert found["low"].tolist() == pytest.approx(expected["cri95_lo"], abs=entry["tolerance"])
    assert found["high"].tolist() == pytest.approx(expected["cri95_hi"], abs=entry["tolerance"])
    prior = fit_prior(ten["yes"].to_numpy(float), (ten["yes"] + ten["no"]).to_numpy(float))
    assert prior.a == pytest.approx(exact["output"]["alpha"], rel=1e-4)
    assert prior.b == pytest.approx(exact["output"]["beta"], rel=1e-4)


def test_rank_is_by_the_lower_bound(ten: pd.DataFrame) -> None:
    """One yes of one does not come first; the first has the highest lower bound."""
    found = rank_keys(ten)
    assert found["rank"].tolist() == list(range(1, 11))
    assert found["low"].is_monotonic_decreasing
    assert found["key"].iloc[0] == "k4"
    assert found.set_index("key").loc["k6", "rate"] == 1
    assert found.set_index("key").loc["k6", "rank"] == 7


def test_a_key_in_one_case_is_not_tested(ten: pd.DataFrame) -> None:
    """Keys that stand in one case have no p-value, and none is counted as tested."""
    found = rank_keys(ten)
    assert found[["p_value", "q_value"]].isna().all(axis=None)
    assert (found["n_tested"] == 0).all()
    assert (found["n_keys"] == 10).all()


def test_p_value_is_compares(many: pd.DataFrame) -> None:
    """A key against the rest is a comparison of two frames over all runs."""
    found = rank_keys(many).set_index("key")
    for key, line in found.iterrows():
        pair = compare(many[many["key"] != key], many[many["key"] == key], weights="count").iloc[0]
        assert line["difference"] == pytest.approx(pair["difference"], abs=1e-12)
        assert line["p_value"] == pytest.approx(pair["p_value"], abs=1e-9)
        assert line["rest_rate"] == pytest.approx(pair["before_rate"], abs=1e-12)


def test_p_values_are_adjusted(many: pd.DataFrame) -> None:
    """The q-value is Benjamini and Hochberg's step-up; Benjamini and Yekutieli's is that times the harmonic sum."""
    found = rank_keys(many).sort_values("p_value")
    p, m = found["p_value"].to_numpy(), len(found)
    step_up = np.minimum.accumulate((p * m / np.arange(1, m + 1))[::-1])[::-1]
    assert found["q_value"].tolist() == pytest.approx(np.minimum(step_up, 1).tolist())
    harmonic = np.sum(1 / np.arange(1, m + 1))
    by = rank_keys(many, adjust="by").sort_values("p_value")
    assert by["q_value"].tolist() == pytest.approx(np.minimum(step_up * harmonic, 1).tolist())


def test_an_all_no_key_is_not_sure_by_its_lack_of_spread() -> None:
    """A key that is no in both its runs is not significant for want of variation."""
    rest = pd.DataFrame({"case_id": [f"c{i}" for i in range(40)], "key": "rest", "yes": [1, 0] * 20, "no": [0, 1] * 20})
    bad = pd.DataFrame({"case_id": ["c0", "c1"], "key": "bad", "yes": 0, "no": 1})
    found = rank_keys(pd.concat([rest, bad]))
    found = found[found["key"] == "bad"]
    assert found["difference"].tolist() == [-0.5]
    assert found["p_value"].tolist()[0] > 0.05


def test_too_few_keys_are_not_shrunk() -> None:
    """Fewer than five keys with two corrections cannot say how keys differ: no bound and no rank."""
    found = rank_keys(pd.DataFrame({"case_id": ["c1", "c2"], "key": ["a", "b"], "yes": [2, 1], "no": [0, 1]}))
    assert found[["rank", "low", "shrunk_rate"]].isna().all(axis=None)
    assert found["rate"].tolist() == [1, 0.5]
    assert set(found["reason"]) == {"fewer than 5 keys with two corrections"}


def test_keys_that_do_not_differ_share_the_pooled_rate() -> None:
    """With less spread than chance gives, every key's rate is the pooled one and none is ranked."""
    keys = [f"k{i}" for i in range(8)]
    found = rank_keys(pd.DataFrame({"case_id": keys, "key": keys, "yes": 2, "no": 2}))
    assert (found["shrunk_rate"] == 0.5).all()
    assert found["rank"].isna().all()
    assert set(found["reason"]) == {"keys do not differ beyond chance"}


def test_all_the_same_verdict() -> None:
    """All yes is no spread of rates to learn from."""
    keys = [f"k{i}" for i in range(8)]
    found = rank_keys(pd.DataFrame({"case_id": keys, "key": keys, "yes": 2, "no": 0}))
    assert set(found["reason"]) == {"all verdicts are the same"}
    assert (found["rate"] == 1).all()


def test_no_rows_and_missing_keys(ten: pd.DataFrame) -> None:
    """No items make no rows with the same columns; a missing key is a key of its own."""
    empty = rank_keys(ten.iloc[:0])
    assert len(empty) == 0
    assert empty.dtypes.to_dict() == rank_keys(ten).dtypes.to_dict()
    missing = rank_keys(ten.assign(key=ten["key"].where(ten["key"] != "k3")))
    assert len(missing) == 10
    assert missing["key"].isna().sum() == 1


def test_another_column_may_be_ranked(many: pd.DataFrame, engines: Engines) -> None:
    """Any column is ranked, under its own name, the same in every engine."""
    renamed = many.rename(columns={"key": "x"})
    expected = rank_keys(renamed, key="x")
    assert expected.columns[0] == "x"
    for native in engines(renamed).values():
        pd.testing.assert_frame_equal(rank_keys(native, key="x"), expected, rtol=1e-9)


def test_bad_arguments_are_refused(ten: pd.DataFrame) -> None:
    """An unknown column or adjustment is refused with the choices."""
    with pytest.raises(KeyError, match="no column 'keey'; did you mean 'key'"):
        rank_keys(ten, key="keey")
    with pytest.raises(ValueError, match="adjust='holm' is not known; choose one of 'bh', 'by'"):
        rank_keys(ten, adjust="holm")  # type: ignore[arg-type]
