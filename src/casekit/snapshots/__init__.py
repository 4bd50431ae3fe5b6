"""Inside of snapshots; `casekit.snapshot` has what people call.

- `manifest` is ``snapshot.json``, `parquet` the file of a table; `writer` puts a whole folder together.
- `target` is the place it is written to, `folder` one that is read: on this machine or, by `remote`, at a URL.
- `stored` reads tables when they are asked for, `verify` checks them to the last byte.
"""
