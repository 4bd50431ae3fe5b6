"""Statistics of corrections: a frame of items in, a frame of numbers out."""

from __future__ import annotations

from casekit.stats.agreement import agreement, item_agreement
from casekit.stats.comparison import compare
from casekit.stats.concordance import expert_agreement
from casekit.stats.experts import expert_weights
from casekit.stats.gate import gate
from casekit.stats.grading import grade_decisions
from casekit.stats.keys import rank_keys
from casekit.stats.ranking import coverage, precision_at_k
from casekit.stats.ranks import rank_rates
from casekit.stats.rates import yes_rates
from casekit.stats.segments import segments_wide

__all__ = [
    "agreement",
    "compare",
    "coverage",
    "expert_agreement",
    "expert_weights",
    "gate",
    "grade_decisions",
    "item_agreement",
    "precision_at_k",
    "rank_keys",
    "rank_rates",
    "segments_wide",
    "yes_rates",
]
