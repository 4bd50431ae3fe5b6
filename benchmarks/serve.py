"""A loopback server for pages rendered beforehand: ``python serve.py CASES [--old] [--delay-ms 0]``.

Prints its port. Any test set id is served; the cases are rendered page by page before it listens.
"""

from __future__ import annotations

import argparse
import asyncio

import generate

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-request-id: req-0\r\ncontent-length: %d\r\n\r\n"


class Pages(asyncio.Protocol):
    """One connection: requests in, pages out, in order."""

    def __init__(self, rendered: dict[bytes, list[bytes]], delay: float) -> None:
        self.rendered, self.delay = rendered, delay

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.rest = transport, b""

    def data_received(self, data: bytes) -> None:
        """Answer every whole request."""
        *requests, self.rest = (self.rest + data).split(b"\r\n\r\n")
        for request in requests:
            target = request.split(b" ", 2)[1]
            page = int(target.partition(b"cursor=page-")[2].partition(b"&")[0] or 0)
            bodies = self.rendered[b"old" if b"/eval-suites/" in target else b"new"]
            if self.delay:
                asyncio.get_running_loop().call_later(self.delay, self.answer, bodies[page])
            else:
                self.answer(bodies[page])

    def answer(self, body: bytes) -> None:
        """Write one page."""
        if not self.transport.is_closing():
            self.transport.writelines([HEAD % len(body), body])


async def serve(cases: int, delay: float, old: bool) -> None:
    """Render, listen, and stay."""
    last = (cases + generate.PAGE_CASES - 1) // generate.PAGE_CASES - 1
    rendered: dict[bytes, list[bytes]] = {b"new": [], b"old": []}
    for number, data in enumerate(generate.pages(cases)):
        rendered[b"new"].append(generate.body(data, number, number == last))
        if old:
            rendered[b"old"].append(generate.body(generate.renamed(data), number, number == last))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Pages(rendered, delay), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=int)
    parser.add_argument("--old", action="store_true", help="serve the older names too")
    parser.add_argument("--delay-ms", type=float, default=0.0)
    chosen = parser.parse_args()
    asyncio.run(serve(chosen.cases, chosen.delay_ms / 1000, chosen.old))
