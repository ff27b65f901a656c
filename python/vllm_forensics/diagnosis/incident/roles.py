"""What a process does, by the name that a log gives it or by its Python frames."""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.model.incident import Clue, ClueKind, ProcessRole, PythonCall

_BY_NAME: Final = (
    (r"(?i)^(?:raylet|gcs_server)$", ProcessRole.UNKNOWN),  # they start actors, and are none
    (r"(?i)engine[_ ]?cor|engine ?proc|MQLLMEngine", ProcessRole.ENGINE_CORE),
    (r"(?i)api_?server|uvicorn|frontend|^webserver", ProcessRole.API_SERVER),
    (
        r"(?i:ray(?:worker|actor)|WorkerDict|(?<![a-z])actor)|RayTrainWorker|[a-z\d]Actor",
        ProcessRole.RAY_ACTOR,
    ),
    (
        r"(?i)worker|^work-horse|\brank|DataLoader|(?<![a-z]-)scheduler|TP\d|^gw\d|shard|^child|^stub|"
        r"^task|^executor",
        ProcessRole.WORKER,
    ),
    (r"^(?:Spawn|Fork|ForkServer|Loky)?Process-\d|PoolWorker", ProcessRole.WORKER),
    (r"(?i)^(?:client|LLM|MainProcess)$", ProcessRole.CLIENT),
)
"""The first that fits decides: `RayWorkerWrapper` is Ray's, `VllmWorker rank=0` a worker."""
_BY_FRAME: Final = (
    # (file, function) of any frame; the innermost kind of process first, with the name it has
    (r"/ray/_private/workers/default_worker\.py$", r".*", ProcessRole.RAY_ACTOR, None),
    (
        r"multiproc_executor\.py$",
        r"(?:worker_main|worker_busy_loop)",
        ProcessRole.WORKER,
        "VllmWorker",
    ),
    (
        r"multiproc_worker_utils\.py$",
        r"_run_worker_process",
        ProcessRole.WORKER,
        "VllmWorkerProcess",
    ),
    (r"/sglang/.*managers/scheduler\.py$", r".*", ProcessRole.WORKER, "sglang::scheduler"),
    (r"/torch/multiprocessing/spawn\.py$", r"_wrap", ProcessRole.WORKER, None),
    (
        r"/torch/utils/data/_utils/worker\.py$",
        r"_worker_loop",
        ProcessRole.WORKER,
        "DataLoader worker",
    ),
    (r"/concurrent/futures/process\.py$", r"_process_worker", ProcessRole.WORKER, None),
    (r"/multiprocessing/pool\.py$", r"worker", ProcessRole.WORKER, None),
    (
        r"/multiprocessing/spawn\.py$",
        r"spawn_main|_main|_check_not_importing_main",
        ProcessRole.WORKER,
        None,
    ),
    (
        r"/vllm/v1/engine/core\.py$",
        r"run_engine_core|run_busy_loop",
        ProcessRole.ENGINE_CORE,
        "EngineCore",
    ),
    (
        r"/multiprocessing/engine\.py$",
        r"run_mp_engine|run_engine_loop",
        ProcessRole.ENGINE_CORE,
        "MQLLMEngine",
    ),
    (r"/entrypoints/(?:openai/)?api_server\.py$", r".*", ProcessRole.API_SERVER, None),
    (r"/entrypoints/cli/serve\.py$", r".*", ProcessRole.API_SERVER, None),
    (r"/vllm/entrypoints/llm\.py$|/core_client\.py$", r".*", ProcessRole.CLIENT, None),
)
_NAMES: Final = tuple((re.compile(pattern), role) for pattern, role in _BY_NAME)
_FRAMES: Final = tuple(
    (re.compile(file), re.compile(function), role, name) for file, function, role, name in _BY_FRAME
)
_ENGINE: Final = re.compile(r"[Ee]ngine")
_RANK: Final = re.compile(r"\bRank \d{1,5}\]|[Cc]ollective operation|ProcessGroup(?:NCCL|Gloo)")
"""Of what only the processes of a group do."""
_CLASS: Final = re.compile(r"\b[A-Z]\w{0,40}?[a-z]\w{0,20}?[A-Z]\w{0,40}")
_WORKER: Final = re.compile(
    r"WorkerProc|Error executing metho|Worker failed|Scheduler hit|KilledWorker"
)
_TELLERS: Final = {
    "ray": ProcessRole.RAY_ACTOR,
    "the Python parent": ProcessRole.WORKER,
    "the postmaster": ProcessRole.WORKER,
}
"""Whose children they are that a parent speaks of without a name."""


def role_of_name(name: str | None) -> ProcessRole | None:
    """What a process of this name does; None where the name does not say."""
    if not name:
        return None
    return next((role for pattern, role in _NAMES if pattern.search(name)), None)


def role_in_title(title: str) -> ProcessRole | None:
    """The role of the first class, or process, that a title names."""
    if "EngineDeadError" in title:  # who raises it tells of another
        return ProcessRole.ENGINE_CORE
    names = (
        name
        for name in _CLASS.findall(title)
        if not name.endswith(("Error", "Exception", "Loader"))
    )
    return next(filter(None, map(role_of_name, names)), None)


def role_of_frames(frames: tuple[PythonCall, ...]) -> ProcessRole | None:
    """What a process with these Python frames does."""
    return _by_frames(frames)[0]


def name_of_frames(frames: tuple[PythonCall, ...]) -> str | None:
    """What a process with these frames calls itself, where all of its kind have one name."""
    return _by_frames(frames)[1]


def _by_frames(frames: tuple[PythonCall, ...]) -> tuple[ProcessRole | None, str | None]:
    calls = [(call.file.replace("\\", "/"), call.function) for call in frames]
    for file, function, role, name in _FRAMES:
        if any(file.search(path) and function.fullmatch(called) for path, called in calls):
            return role, name
    return None, None


def role_of_clue(clue: Clue) -> ProcessRole | None:
    """The role of the process that a clue speaks of."""
    if clue.kind is ClueKind.ECHO:  # it speaks of a process further in
        if _WORKER.search(clue.text):
            return ProcessRole.WORKER
        return ProcessRole.ENGINE_CORE if _ENGINE.search(clue.text) else None
    if clue.of_another:
        told, tellers = role_of_name(clue.name), _TELLERS.get(clue.source)
        is_vague = tellers is ProcessRole.RAY_ACTOR and told is ProcessRole.WORKER
        return tellers if told is None or is_vague else told
    role = role_of_name(clue.writer) or role_of_frames(clue.python) or role_of_name(clue.name)
    if role is None and _RANK.search(clue.detail or "") is not None:
        return ProcessRole.WORKER
    if role is None and any(_is_childs(call) for call in clue.python):
        return ProcessRole.WORKER
    # vLLM's names are known; any other class in front of a pid is an actor's.
    return role or (ProcessRole.RAY_ACTOR if clue.is_tagged else None)


def _is_childs(call: PythonCall) -> bool:
    """Is it multiprocessing's first call in a process that it started?"""
    return call.function == "_bootstrap" and call.file.endswith("/multiprocessing/process.py")
