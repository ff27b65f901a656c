"""All forms of native frames in logs, in the order in which they are tried.

A form is added to one of the tables, and nowhere else. The first that fits a line decides.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.stacks.frames_of_debuggers import DEBUGGERS
from vllm_forensics.evidence.log.stacks.frames_of_handlers import HANDLERS
from vllm_forensics.evidence.log.stacks.frames_of_languages import LANGUAGES
from vllm_forensics.evidence.log.stacks.frames_of_systems import SYSTEMS

FORMS: Final = (*HANDLERS, *SYSTEMS, *DEBUGGERS, *LANGUAGES)
