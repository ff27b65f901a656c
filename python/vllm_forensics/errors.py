"""Every error that is raised on purpose; each says what to do about it."""

from __future__ import annotations


class ForensicsError(Exception):
    """Something that a person can act on: what happened, and what to type next."""

    def __init__(self, message: str, *, remedy: str) -> None:
        """Keep the message and the remedy apart, so that each renderer can show both."""
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class EvidenceError(ForensicsError):
    """An input could not be read at all."""


class ToolError(ForensicsError):
    """An external program is missing, failed, or did not answer in time."""


class UsageError(ForensicsError):
    """The command was asked for something that it cannot do."""


class StoreError(ForensicsError):
    """The store of cases cannot be opened, read or written."""
