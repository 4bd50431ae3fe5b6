"""A page's bytes to Arrow tables, and back to the documents that were served.

- `text` looks at the bytes; `roads` reads a page into `structs`, fast or carefully;
- `lists` takes the columns out of the structs, `times` reads times; `items` reads the items of many pages at once;
- `arrow` makes the tables of `casekit.schema`;
- `reader` walks over the pages of a list, a `group` at a time, and counts;
- `digest` gives each case's content a hash;
- `document` turns the rows of a case back into its document.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from casekit.schema import TABLES, empty_tables
from casekit.wire.arrow import Tables
from casekit.wire.digest import case_digests, case_keys, content_hash
from casekit.wire.document import documents
from casekit.wire.reader import Reader

__all__ = ["Reader", "Tables", "case_digests", "case_keys", "content_hash", "documents", "joined"]


def joined(groups: Iterable[Tables]) -> Tables:
    """All groups as one set of tables; of no group, empty tables.

    Examples
    --------
    >>> joined([])["items"].num_rows
    0
    """
    parts = list(groups)
    if not parts:
        return empty_tables()
    return {name: pa.concat_tables([part[name] for part in parts]) for name in TABLES}
