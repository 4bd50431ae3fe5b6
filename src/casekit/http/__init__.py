"""Inside of the client; `casekit.client` has what people call.

- `connection` is the one file that knows httpx; `background` works on it in a thread.
- `session` sends, waits and repeats by `retry`; `problem` makes errors of answers, `cursor` finds the next page.
- `address` checks where requests go, `secret` keeps the token.
"""
