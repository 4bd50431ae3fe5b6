"""Overviews of a CaseSet whose counts and weights are of any size."""

from __future__ import annotations

from typing import Any

import pytest
from documents_strategy import page

from casekit.casediff import diff
from casekit.caseset import CaseSet
from casekit.report import PullReport
from casekit.wire import Reader, joined


def cases_of(*items: dict[str, Any]) -> CaseSet:
    """A CaseSet of as many cases as items."""
    subject = {"kind": "agent", "id": "acme.a", "version": "1.0.0"}
    plain = {"subject": subject, "input": None, "output": None}
    documents = [
        {"caseId": f"c{number}", **plain, "items": [{"key": "k", "reasons": [], **item}]}
        for number, item in enumerate(items)
    ]
    return CaseSet(joined(Reader.corrections("acme.a", "1.0.0", PullReport()).groups([page(documents)])))


def weighed(factor: float) -> CaseSet:
    """Three contested items whose weights add up to six times the factor."""
    return cases_of(
        *(
            {
                "yes": 1,
                "no": number,
                "yesWeight": factor,
                "totalWeight": factor * number,
                "expert": {"yesWeight": factor, "totalWeight": factor * number},
            }
            for number in (1, 2, 3)
        )
    )


@pytest.mark.parametrize("factor", [1e-300, 1e-200, 1e154, 1e307])
def test_overviews_know_no_unit(factor: float) -> None:
    """The summary's rates and the contested items are the same in any unit of the weights."""
    rates = ["yes_rate", "yes_low", "yes_high", "expert_yes_rate", "n_corrections"]
    found, expected = weighed(factor), weighed(1.0)
    assert found.summary()[rates].values.tolist()[0] == pytest.approx(expected.summary()[rates].values.tolist()[0])
    assert found.summary()["total_weight"][0] == pytest.approx(6 * factor)
    nearest, as_before = found.contested(), expected.contested()
    assert nearest["case_id"].tolist() == as_before["case_id"].tolist()
    assert nearest["yes_rate"].tolist() == pytest.approx(as_before["yes_rate"].tolist())


def test_a_sum_beyond_a_float_is_missing() -> None:
    """Where weights add up to more than a float holds, sums and rates are missing, not 0 and not infinite."""
    summary = weighed(5.9e307).summary()
    assert summary[["total_weight", "expert_total_weight", "yes_rate", "expert_yes_rate"]].isna().all(axis=None)
    assert summary["yes_weight"].tolist() == pytest.approx([1.77e308])
    half = {"yes": 1, "no": 0, "yesWeight": 1e308, "totalWeight": 1e308}
    assert cases_of(half, half).summary()["yes_weight"].isna().all()
    assert summary["n_items"].tolist() == [3]


@pytest.mark.parametrize("count", [2**53 + 1, 2**63 - 1])
def test_counts_of_any_size(count: int) -> None:
    """Counts that no float holds exactly are summed up, and the item with the most corrections comes first."""
    one = {"yesWeight": 1.0, "totalWeight": 2.0}
    cases = cases_of({"yes": 2, "no": 2, **one}, {"yes": count, "no": count, **one})
    summary = cases.summary()
    assert summary["yes_rate"].tolist() == [0.5]
    assert summary["n_items"].tolist() == [2]
    assert summary["n_corrections"].isna().tolist() == [count > 2**60]
    contested = cases.contested()
    assert contested["yes"].tolist() == [count, 2]


@pytest.mark.parametrize("factor", [1e-300, 1e154, 5.9e307])
def test_the_cards_take_any_weight(factor: float) -> None:
    """A CaseSet and a difference of two show themselves whatever their weights add up to."""
    cases = weighed(factor)
    assert "weight" in repr(cases)
    assert "weight" in cases._repr_html_()
    assert ("too large to add up" in repr(cases)) == (factor == 5.9e307)
    change = diff(cases_of(), cases)
    assert "weight" in repr(change)
    assert "weight" in change._repr_html_()


def test_the_card_counts_beyond_64_bits() -> None:
    """Counts that add up to more than 64 bits hold are shown whole."""
    one = {"yes": 2**63 - 1, "no": 0, "yesWeight": 1.0, "totalWeight": 1.0}
    assert f"{2**64 - 2:,} yes" in repr(cases_of(one, one))
