"""Fetches one file over HTTP, as a program of its own: whoever started it ends it at a deadline.

Within a process nothing bounds a server that sends one byte of its header every nine seconds.

usage: python debuginfod_fetch.py URL FILE LARGEST_BYTES IDLE_SECONDS

Prints one JSON object: `{"status": 200, "size": 123, "url": "…"}` or `{"error": "…"}`.
"""

from __future__ import annotations

import http.client
import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

_PIECE: Final = 1 << 16


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a few, and never from an encrypted place to an open one."""

    max_redirections = 3
    max_repeats = 1

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
        """See the base class, whose signature this is."""
        is_worse = req.full_url.startswith("https:") and not newurl.startswith("https:")
        if is_worse or not newurl.startswith(("http:", "https:")):
            raise urllib.error.URLError(f"it redirects to {newurl.partition(':')[0]}: refused")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch(url: str, file: Path, largest: int, idle_s: float) -> dict[str, object]:
    """Write what `url` answers into `file`, up to `largest` bytes; what became of it."""
    opener = urllib.request.build_opener(_Redirects)
    request = urllib.request.Request(url, headers={"User-Agent": "vllm-forensics"})  # noqa: S310
    try:
        with opener.open(request, timeout=idle_s) as answer:
            size = _write(answer, file, largest)
            return {"status": answer.status, "size": size, "url": answer.url}
    except urllib.error.HTTPError as error:
        return {"status": error.code, "size": 0, "url": url}
    except urllib.error.URLError as error:
        return {"error": str(error.reason)}
    except (OSError, ValueError, http.client.HTTPException) as error:
        return {"error": str(error) or type(error).__name__}


def _write(answer: http.client.HTTPResponse, file: Path, largest: int) -> int:
    said = answer.headers.get("Content-Length") or "0"
    whole = int(said) if said.isdecimal() else 0
    if whole > largest:
        raise ValueError(f"it offers {whole:,} bytes, more than {largest:,}")
    size = 0
    with file.open("wb") as target:
        while piece := answer.read1(_PIECE):
            size += len(piece)
            if size > largest:
                raise ValueError(f"it sends more than {largest:,} bytes")
            target.write(piece)
    if size < whole:
        raise ValueError(f"it stopped after {size:,} of {whole:,} bytes")
    return size


def main(arguments: list[str]) -> None:
    """See the module's docstring."""
    url, file, largest, idle_s = arguments
    json.dump(fetch(url, Path(file), int(largest), float(idle_s)), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
