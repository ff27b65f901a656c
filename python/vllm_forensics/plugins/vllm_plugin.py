"""What vLLM calls in each of its processes: the entry point `forensics` of `vllm.general_plugins`.

Every vLLM that is installed beside this package imports this module. So it imports next to nothing,
and does nothing unless the environment asks for a trace.
"""

from __future__ import annotations

import os

FOLDER_VARIABLE = "VLLM_FORENSICS_TRACE"
"""Names the folder for traces; unset or empty: no trace."""


def register() -> None:
    """Watch the scheduler of this process, if the environment names a folder for its trace."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        # Here and not above: a server without a trace must not pay for it.
        from vllm_forensics.plugins.live_trace import watch

        watch(folder)
