"""A statistic's frame as people read it.

`looks` says what each frame's columns mean, `cells` writes them, `table` shows them.
"""

from casekit.styles.table import Styled, styled

__all__ = ["Styled", "styled"]
