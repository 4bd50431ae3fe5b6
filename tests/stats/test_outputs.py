"""The items of outputs, as the server lists them."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from casekit.errors import LimitError, SchemaError
from casekit.outputs import output_items

TEXT = pd.StringDtype(na_value=np.nan)


def listed(output: Any, kind: str = "agent", *, text: str | None = None) -> pd.DataFrame:
    """List the items of one output."""
    cases = pd.DataFrame({"case_id": ["c1"], "subject_kind": [kind], "output_json": [text or json.dumps(output)]})
    cases = cases.assign(test_set_id="acme.a", version="1", subject_id="acme.x", subject_version="2", run_id="r1")
    return output_items(SimpleNamespace(cases=cases))


def test_agent_answer_then_lists() -> None:
    """An agent's items are its last message without a tool call, then each element of each list under output."""
    found = listed(
        {
            "appended": [
                {"role": "agent", "content": "first"},
                {"role": "agent", "content": "last"},
                {"role": "agent", "content": {"toolCalls": []}},
                {"role": "user", "content": "thanks"},
            ],
            "output": {"matches": [{"id": "a"}, {"key": 7}, "text"], "none": []},
            "other": [1, 2],
        }
    )
    assert found["key"].tolist() == ["answer", "a", "7", "/output/matches/2"]
    assert found["pointer"].tolist()[:2] == ["/appended/1/content", "/output/matches/0"]
    assert found["own_key"].tolist() == [False, True, True, False]
    assert found["rank"].tolist() == [pd.NA, 0, 1, 2]
    assert found["place"].tolist() == [pd.NA, 0, 1, 2]
    assert found["list_pointer"].tolist()[1] == "/output/matches"
    assert pd.isna(found["list_pointer"].tolist()[0])


def test_agent_whose_output_has_neither() -> None:
    """An agent's output without messages and without output has no items, whatever lists it has besides."""
    assert len(listed({"text": "hi", "toolCalls": [{"id": "t1"}]})) == 0
    assert len(listed([1, 2])) == 0
    assert len(listed(None)) == 0


def test_an_answer_may_be_null() -> None:
    """A message of the agent whose content is null is still its last message."""
    assert listed({"appended": [{"role": "agent", "content": None}]})["key"].tolist() == ["answer"]
    assert len(listed({"appended": [{"role": "agent"}, "odd", {"role": "tool", "content": "x"}]})) == 0
    assert len(listed({"appended": "none"})) == 0


def test_flow_whole_output_then_lists() -> None:
    """A flow's items are its whole output, then each element of each list in it, a bare list included."""
    found = listed({"matches": [{"id": "a"}]}, "flow")
    assert found["key"].tolist() == ["output", "a"]
    assert found["pointer"].tolist() == ["", "/matches/0"]
    assert listed([{"id": "a"}], "flow")["pointer"].tolist() == ["", "/0"]
    assert len(listed(None, "flow")) == 0
    assert listed(0, "flow")["key"].tolist() == ["output"]


def test_lists_nest_to_depth_three() -> None:
    """A list inside three objects counts, inside four it does not; elements are not searched again."""
    three = {"a": {"b": {"c": [1]}}}
    assert listed(three, "flow")["pointer"].tolist() == ["", "/a/b/c/0"]
    assert listed({"z": three}, "flow")["pointer"].tolist() == [""]
    assert listed({"output": three})["pointer"].tolist() == ["/output/a/b/c/0"]
    assert listed({"a": [[1], {"b": [2]}]}, "flow")["pointer"].tolist() == ["", "/a/0", "/a/1"]


def test_a_list_of_more_than_100_has_no_items() -> None:
    """A list of 100 elements has 100 items, one of 101 none."""
    assert len(listed({"a": list(range(100))}, "flow")) == 101
    assert len(listed({"a": list(range(101)), "b": [1]}, "flow")) == 2


def test_a_second_element_with_an_id_falls_back_to_its_place() -> None:
    """Within one list an id is used once; another list may use it again."""
    found = listed({"a": [{"id": "x"}, {"id": "x"}, {"id": ""}, {"id": None, "key": "k"}], "b": [{"id": "x"}]}, "flow")
    assert found["key"].tolist() == ["output", "x", "/a/1", "/a/2", "k", "x"]
    assert found["own_key"].tolist() == [False, True, False, False, True, True]


def test_booleans_are_no_keys() -> None:
    """Only text and numbers are keys."""
    assert listed({"a": [{"id": True, "key": [1]}]}, "flow")["key"].tolist() == ["output", "/a/0"]


@pytest.mark.parametrize(
    ("number", "key"),
    [
        ("7", "7"),
        ("7.0", "7"),
        ("-0.0", "0"),
        ("0.1", "0.1"),
        ("-12.50", "-12.5"),
        ("1e16", "10000000000000000"),
        ("123456789012345678", "123456789012345680"),
        ("1e20", "100000000000000000000"),
        ("1e21", "1e+21"),
        ("-1.5e300", "-1.5e+300"),
        ("1e-6", "0.000001"),
        ("1.25e-7", "1.25e-7"),
        ("1e400", "Infinity"),
        ("-1e400", "-Infinity"),
        ("0.000123", "0.000123"),
    ],
)
def test_numbers_become_keys_as_the_server_writes_them(number: str, key: str) -> None:
    """A number as a key is the text JavaScript gives the double, as node prints it."""
    assert listed(None, "flow", text=f'{{"a": [{{"id": {number}}}]}}')["key"].tolist() == ["output", key]


def test_names_are_escaped_in_pointers() -> None:
    """Slash and tilde in a name are written ~1 and ~0 (RFC 6901)."""
    assert listed({"a/b~c": [1]}, "flow")["pointer"].tolist() == ["", "/a~1b~0c/0"]


def test_members_come_in_the_servers_order() -> None:
    """Names that are whole numbers come first, in ascending order, as in a JavaScript object."""
    found = listed(None, "flow", text='{"b": [1], "10": [1], "9": [1], "01": [1], "a": [1], "4294967295": [1]}')
    assert found["list_pointer"].tolist()[1:] == ["/9", "/10", "/b", "/01", "/a", "/4294967295"]


def test_places_put_lists_side_by_side() -> None:
    """Two lists start at rank 0 together, equal ranks in the output's order."""
    found = listed({"m": [{"id": "a"}, {"id": "b"}], "r": [{"id": "x"}, {"id": "y"}]}, "flow")
    in_place = found.dropna(subset="place").sort_values("place")
    assert in_place["key"].tolist() == ["a", "x", "b", "y"]


def test_missing_outputs_have_no_rows_and_columns_stay() -> None:
    """An erased case has no items; the columns and their dtypes are the same without any row."""
    cases = pd.DataFrame({"case_id": ["c1"], "subject_kind": ["agent"], "output_json": [None]})
    cases = cases.assign(test_set_id=None, version=None, subject_id="acme.x", subject_version="2", run_id=None)
    found = output_items(SimpleNamespace(cases=cases))
    assert len(found) == 0
    assert found.dtypes.to_dict() == listed({"a": [1]}, "flow").dtypes.to_dict()
    assert found["rank"].dtype == pd.Int64Dtype()
    assert found["key"].dtype == TEXT


def test_case_columns_are_the_cases_own() -> None:
    """Each item carries the ids of its case."""
    found = listed({"a": [1]}, "flow").iloc[1]
    names = ["test_set_id", "version", "case_id", "subject_kind", "subject_id", "subject_version", "run_id", "item_no"]
    assert found[names].tolist() == ["acme.a", "1", "c1", "flow", "acme.x", "2", "r1", 1]


def test_unreadable_outputs_name_the_case() -> None:
    """Text that is no JSON, or nests without end, is refused naming the case and none of its words."""
    with pytest.raises(SchemaError, match="c1") as caught:
        listed(None, text='{"secret')
    assert "secret" not in str(caught.value)
    with pytest.raises(LimitError, match="'c1' nests too deep"):
        listed(None, text="[" * 200_000 + "]" * 200_000)
