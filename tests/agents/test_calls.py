from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import casekit as ck
from casekit.calls import made_calls
from casekit.caseset import CaseSet
from casekit.errors import LimitError, SchemaError

Frozen = Callable[..., CaseSet]


def tools(made: pd.DataFrame) -> list[tuple[str, object, object]]:
    """Return case, place and tool of each row, None for missing."""
    cells = made[["case_id", "call_no", "tool_id"]].astype(object)
    return list(cells.where(cells.notna(), None).itertuples(index=False, name=None))


def flow(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the parts of a flow's case that keep calls."""
    kept = [{"runId": "part-1"} | call for call in calls]
    return {
        "runId": "run-f",
        "subject": {"kind": "flow", "id": "acme.flow", "version": "3"},
        "context": {"flow": {"calls": kept, "steps": []} | more},
    }


def test_no_cases_make_no_calls(frozen: Frozen) -> None:
    """An empty set has a frame with all columns and no rows."""
    made = made_calls(frozen())
    assert len(made) == 0
    assert made.dtypes.astype(str).tolist() == ["str"] * 7 + ["Int64"] + ["str"] * 3 + ["bool"]


def test_a_run_known_to_have_made_no_call_has_one_row_without_a_tool(frozen: Frozen) -> None:
    """None made and not known are two things: only the first has a row."""
    made = made_calls(
        frozen(
            {"caseId": "none", "output": {"toolCalls": []}},
            {"caseId": "none-said", "output": {"appended": [{"role": "agent", "content": "hi"}]}},
            {"caseId": "none-kept", **flow()},
            {"caseId": "text", "output": "hi"},
            {"caseId": "no-list", "output": {"toolCalls": "two"}},
            {"caseId": "no-flow", "subject": {"kind": "flow", "id": "f", "version": "1"}, "context": {}},
            {"caseId": "erased", "output": None, "input": None, "erased": True},
        )
    )
    assert tools(made) == [("none", None, None), ("none-said", None, None), ("none-kept", None, None)]


def test_an_output_lists_its_calls_at_its_top_or_in_its_messages(frozen: Frozen) -> None:
    """Calls come in order, from the message or its content; a list at the top counts alone."""
    call = {"tool": "find", "arguments": {}}
    messages = [
        {"role": "user", "content": "find it"},
        {"role": "agent", "content": {"toolCalls": [call, {"name": "read"}]}},
        {"role": "tool", "content": [1, 2]},
        {"role": "agent", "toolCalls": [{"toolId": "write"}]},
        "no message",
    ]
    made = made_calls(
        frozen(
            {"caseId": "messages", "output": {"appended": messages}},
            {"caseId": "top", "output": {"toolCalls": [call], "appended": messages}},
        )
    )
    found = [("messages", 0, "find"), ("messages", 1, "read"), ("messages", 2, "write"), ("top", 0, "find")]
    assert tools(made) == found


@pytest.mark.parametrize("entry", [{}, {"tool": ""}, {"tool": 7}, {"tool": None}, "find", 7, None])
def test_a_list_with_a_nameless_entry_tells_no_calls(frozen: Frozen, entry: Any) -> None:
    """Which tools were called is not known when an entry names none, so the case has no row."""
    assert len(made_calls(frozen({"caseId": "c", "output": {"toolCalls": [{"tool": "find"}, entry]}}))) == 0


def test_arguments_and_results_stay_as_they_came(frozen: Frozen) -> None:
    """No digit of a number changes, and absent is not null."""
    output = {
        "toolCalls": [{"tool": "a", "arguments": {"id": 9007199254740993, "e": 1.10}, "result": None}, {"tool": "b"}]
    }
    made = made_calls(frozen({"caseId": "c", "output": output}))
    assert made["arguments_json"].iloc[0].replace(" ", "") == '{"id":9007199254740993,"e":1.1}'
    assert made["result_json"].iloc[0] == "null"
    assert made[["arguments_json", "result_json"]].iloc[1].isna().all()


def test_a_flow_has_the_calls_its_case_keeps(frozen: Frozen) -> None:
    """The kept calls count, not what the output lists; the run is the part that made the call."""
    case = {"caseId": "f", "output": {"toolCalls": [{"tool": "other"}]}}
    made = made_calls(
        frozen(case | flow({"toolId": "find", "arguments": {"a": 1}}, {"toolId": "find"}, truncated=True))
    )
    assert tools(made) == [("f", 0, "find"), ("f", 1, "find")]
    assert made["run_id"].tolist() == ["part-1", "part-1"]
    assert made["truncated"].tolist() == [True, True]


def test_cases_of_one_id_in_two_sets_keep_their_own_calls(frozen: Frozen) -> None:
    """Kept calls belong to a case by test set, version and id."""
    first = frozen({"caseId": "c", **flow({"toolId": "a"})})
    second = frozen({"caseId": "c", **flow({"toolId": "b"})}, version="2.0.0")
    both = CaseSet({name: pa.concat_tables([first.arrow(name), second.arrow(name)]) for name in first.tables})
    assert made_calls(both)[["version", "tool_id"]].values.tolist() == [["1.0.0", "a"], ["2.0.0", "b"]]


def test_an_output_that_is_no_json_is_an_error_that_names_its_case(frozen: Frozen) -> None:
    """A frame put together by hand may hold anything."""
    made = frozen({"caseId": "c", "output": {}})

    class Broken:
        cases = made.cases.assign(output_json="{broken")
        recorded_calls = made.recorded_calls

    with pytest.raises(SchemaError, match="case 'c', field /output"):
        made_calls(Broken())


def test_an_output_that_nests_too_deep_is_an_error_that_names_its_case(frozen: Frozen) -> None:
    """A stack that runs out is no crash."""
    made = frozen({"caseId": "c", "output": {}})

    class Deep:
        cases = made.cases.assign(output_json='{"toolCalls":' + "[" * 100_000 + "]" * 100_000 + "}")
        recorded_calls = made.recorded_calls

    with pytest.raises(LimitError, match="output of case 'c' nests too deep"):
        made_calls(Deep())


def test_a_live_case_does_not_tell_what_its_run_called(server: ck.LocalServer, client: ck.Client) -> None:
    """Its list holds no outputs, so that a right case of it cannot be graded, and says so."""
    client.add_case("acme.drafting", "run-1", decisions="right")
    live = ck.load_agent_cases("acme.drafting", client=client, progress=False)
    assert len(made_calls(live)) == 0
    made = pd.DataFrame({"case_id": live.cases["case_id"], "tool_id": "find", "arguments_json": "{}"})
    graded = ck.grade_decisions(live, made)
    assert graded["reason"].iloc[0] == "calls of the corrected run not known"


def test_the_airline_runs_made_the_calls_counted_elsewhere(airline: CaseSet, airline_expected: dict[str, Any]) -> None:
    """1,164 calls, tool by tool, and a row for each of the 200 runs."""
    made = made_calls(airline)
    assert made["tool_id"].value_counts().to_dict() == airline_expected["recorded_tool_calls_by_tool"]
    assert made["tool_id"].count() == airline_expected["recorded_tool_calls"]
    assert made["case_id"].nunique() == airline_expected["cases"]
