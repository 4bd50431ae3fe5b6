"""The public names: pinned, documented, and free until they are used."""

from __future__ import annotations

import inspect
import pkgutil
import subprocess
import sys

import pytest

import casekit as ck

NAMES = {
    "CaseDiff",
    "CaseSet",
    "CasekitError",
    "Client",
    "ExportReport",
    "Finding",
    "LeftOut",
    "LocalServer",
    "PullReport",
    "Retry",
    "SnapshotChange",
    "SnapshotInfo",
    "Source",
    "Styled",
    "SweepReport",
    "add_cases",
    "agreement",
    "compare",
    "coverage",
    "data_dictionary",
    "diff",
    "expert_agreement",
    "expert_weights",
    "gate",
    "grade_decisions",
    "item_agreement",
    "load_agent_cases",
    "load_test_set",
    "load_test_sets",
    "made_calls",
    "output_items",
    "plot_agreement",
    "plot_coefficients",
    "plot_comparison",
    "plot_coverage",
    "plot_keys",
    "plot_precision",
    "plot_ranks",
    "plot_weights",
    "plot_yes_rates",
    "precision_at_k",
    "pull",
    "rank_keys",
    "rank_rates",
    "read_snapshot",
    "refresh_snapshot",
    "retire_cases",
    "segments_wide",
    "snapshot_info",
    "styled",
    "sweep_snapshot",
    "verify_snapshot",
    "write_snapshot",
    "yes_rates",
}


def test_the_public_names_are_these() -> None:
    """A name is added or taken away on purpose only."""
    assert set(ck.__all__) == NAMES
    assert list(ck.__all__) == sorted(ck.__all__)
    assert set(dir(ck)) >= NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_each_name_has_a_docstring(name: str) -> None:
    """Help on a public name says something."""
    assert len(inspect.getdoc(getattr(ck, name)) or "") > 30


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt name does not pass for a lazy one, and is answered with the nearest right one."""
    with pytest.raises(AttributeError, match="'lod_test_set'; did you mean 'load_test_set'"):
        _ = ck.lod_test_set  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"no attribute 'zzz'$"):
        _ = ck.zzz  # type: ignore[attr-defined]


def test_no_public_name_is_a_module_too() -> None:
    """Importing a module sets its name in the package, where it would hide a function of that name."""
    assert not NAMES & {module.name for module in pkgutil.iter_modules(ck.__path__)}


def test_importing_casekit_imports_nothing_heavy() -> None:
    """The import brings in no pandas, pyarrow, httpx or matplotlib."""
    heavy = "('pandas', 'pyarrow', 'httpx', 'matplotlib', 'pydantic')"
    code = f"import casekit, sys; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_opening_a_snapshot_needs_no_http() -> None:
    """Reading a snapshot and the statistics import neither httpx nor matplotlib."""
    code = (
        "import casekit as ck, sys; ck.read_snapshot, ck.yes_rates, ck.CaseSet; "
        "print([n for n in ('httpx', 'matplotlib', 'starlette') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
