"""Deaths as shells in other languages tell them, and restarts.

The words are glibc's translations of `strsignal`, and bash's of "core dumped".
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import SHELL, ClueKind

WORDS: Final = (
    ("段错误", "SIGSEGV"),
    ("段錯誤", "SIGSEGV"),
    ("程序記憶體區段錯誤", "SIGSEGV"),
    ("Speicherzugriffsfehler", "SIGSEGV"),
    ("Erreur de segmentation", "SIGSEGV"),
    ("Violación de segmento", "SIGSEGV"),
    ("Ошибка сегментирования", "SIGSEGV"),
    ("Falha de segmentação", "SIGSEGV"),
    ("Errore di segmentazione", "SIGSEGV"),
    ("Segmentation fault (コアダンプ", "SIGSEGV"),
    ("已放弃 (", "SIGABRT"),
    ("已放弃\uff08", "SIGABRT"),
    ("中止 (", "SIGABRT"),
    ("Abgebrochen (", "SIGABRT"),
    ("Abandon (", "SIGABRT"),
    ("Abortado (", "SIGABRT"),
    ("非法指令", "SIGILL"),
    ("Ungültiger Maschinenbefehl", "SIGILL"),
    ("Instruction illégale", "SIGILL"),
    ("Instrucción ilegal", "SIGILL"),
    ("Недопустимая инструкция", "SIGILL"),
    ("总线错误", "SIGBUS"),
    ("浮点数例外", "SIGFPE"),
    ("已杀死", "SIGKILL"),
)
"""What a shell says of a signal in other languages than English."""
STOPPING: Final = (
    r"\b(?:docker(?:-compose| compose)? (?:stop|restart|kill|down|rm -f)|podman stop|"
    r"systemctl (?:stop|restart)|kubectl delete pod)\b"
)
"""Who does not stop in time is killed."""
_OPEN: Final = "(\uff08"
_CLOSE: Final = ")\uff09"
"""Chinese has parentheses of its own."""
ABROAD: Final = Family(
    source=SHELL,
    phrases=tuple(
        Phrase(
            ClueKind.SIGNAL,
            word,
            r"^(?:\S{1,200} ?: [^:]{1,20} ?\d{1,20} ?[:\uff1a] *)?(?:(?P<pid>\d{1,20}) )?"
            rf"{re.escape(word)}(?: *[{_OPEN}].{{0,60}}[{_CLOSE}].*| {{2,}}.*|"
            rf".{{0,30}}[{_CLOSE}].*|\s*)$",
            f"{word}x)" if any(mark in word for mark in _OPEN) else f"{word} (core dumped)",
            signal=signal,
        )
        for word, signal in WORDS
    ),
)
SENDERS: Final = Family(
    source=SHELL,
    phrases=(
        *(
            Phrase(
                ClueKind.NOT_MEMORY,
                needle,
                r"\b(?:p?kill|killall) -(?:s )?(?:9|KILL|SIGKILL)\b",
                f"I ran `{needle} 4242` on it",
                of_another=True,
                in_prose=True,
            )
            for needle in ("kill -9", "kill -KILL", "kill -SIGKILL", "killall -9")
        ),
        *(
            Phrase(
                ClueKind.NOT_MEMORY,
                needle,
                rf"(?P<detail>{STOPPING})",
                f"$ {needle} serve",
                of_another=True,
                in_prose=True,
            )
            for needle in (
                "docker stop",
                "docker restart",
                "docker kill",
                "docker rm -f",
                "docker-compose stop",
                "docker-compose down",
                "docker-compose restart",
                "docker compose stop",
                "docker compose down",
                "docker compose restart",
                "podman stop",
                "systemctl stop",
                "systemctl restart",
                "kubectl delete pod",
            )
        ),
        Phrase(  # docker compose
            ClueKind.NOT_MEMORY,
            "Gracefully stopping...",
            r"^(?P<detail>Gracefully stopping\.\.\.)",
            "Gracefully stopping... (press Ctrl+C again to force)",
            of_another=True,
        ),
        Phrase(
            ClueKind.NOT_MEMORY,
            "Stopping ",  # three points alone stand in every other line of some logs
            r"^\W{0,8}(?P<detail>Stopping [\w.-]{1,80} {1,8}\.\.\.)(?: |$)",
            "Stopping serve_1 ... done",
            of_another=True,
        ),
    ),
)
"""Who says that he sent the signal himself, or stopped what then was killed."""
RESTARTS: Final = Family(
    source="a supervisor",
    phrases=tuple(
        Phrase(ClueKind.START, needle, pattern, example, of_another=True)
        for needle, pattern, example in (
            (
                "Booting worker with pid",
                r"Booting (?P<name>worker) with pid: (?P<pid>\d{1,20})",
                "[INFO] Booting worker with pid: 4242",
            ),
            (
                "Started server process [",
                r"Started (?P<name>server) process \[(?P<pid>\d{1,20})\]",
                "INFO:     Started server process [4242]",
            ),
            (
                "pawned uWSGI ",
                r"(?:Res|s)pawned uWSGI (?P<name>worker|mule) \d{1,6} "
                r"\((?:new )?pid: (?P<pid>\d{1,20})\b",
                "Respawned uWSGI worker 1 (new pid: 4243)",
            ),
            (
                "Scheduled restart job",
                r"(?P<name>[\w@.\\-]{1,200})\.service: Scheduled restart job",
                "serve.service: Scheduled restart job, restart counter is at 2.",
            ),
            (
                "holdoff time over, scheduling restart",
                r"(?P<name>[\w@.\\-]{1,200})\.service (?P<detail>holdoff time over)",
                "serve.service holdoff time over, scheduling restart.",
            ),
            (
                "spawned: '",
                r"spawned: '(?P<name>[^']{1,80})' with pid (?P<pid>\d{1,20})",
                "2026-01-15 08:12:45,123 INFO spawned: 'serve' with pid 4242",
            ),
            (
                "vLLM API server version",
                r"(?P<detail>vLLM API server version)",
                "INFO 01-15 08:12:45 [api_server.py:1000] vLLM API server version 0.11.0",
            ),
            (
                "Initializing a",
                r"(?P<detail>Initializing an? (?:V\d )?LLM engine)",
                "INFO 01-15 08:12:45 [core.py:61] Initializing a V1 LLM engine (v0.11.0)",
            ),
        )
    ),
)
