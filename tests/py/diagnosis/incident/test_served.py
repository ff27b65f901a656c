"""What people paste of servers of language models: whose name and cause are read from it."""

import pytest
from tests.py.support.incidents import incident_of, incidents_of

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, ProcessRole

_WORKER = "(VllmWorkerProcess pid=42) ERROR 09-23 10:49:22 multiproc_worker_utils.py:226] "


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("NCCL error: internal error - please report this", CauseClass.GPU_ASYNC),
        ("no blocks are left for the pool", CauseClass.PYTHON_EXCEPTION),
    ],
)
def test_a_traceback_that_is_cut_off_tells_what_its_heading_says(
    message: str, kind: CauseClass
) -> None:
    death = incident_of(
        f"{_WORKER}Exception in worker VllmWorkerProcess while processing method init_device: "
        f"{message}, Traceback (most recent call last):",
        f'{_WORKER}  File "/opt/vllm/worker/worker.py", line 176, in init_device',
        f"{_WORKER}    init_environment(self.parallel_config)",
    ).first_death

    assert (death.pid, death.role) == (42, ProcessRole.WORKER)
    assert (death.cause.kind, death.python_function) == (kind, "init_device")
    assert message in death.cause.detail


@pytest.mark.parametrize("indent", ["    ", "        ", "\t"])
def test_a_dead_actors_record_names_it(indent: str) -> None:
    death = incident_of(
        "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.",
        f"{indent}class_name: PoolWorker",
        f"{indent}actor_id: 0dab4a",
        f"{indent}pid: 4242",
    ).first_death

    assert (death.pid, death.name) == (4242, "PoolWorker")


def test_a_number_in_any_other_record_is_no_dead_actors() -> None:
    assert incidents_of("serve:", "    name: pool", "    pid: 4242") == ()


@pytest.mark.parametrize(
    ("line", "name", "exit_status"),
    [
        ("Error: llama runner process has terminated: exit status127", "llama runner", 127),
        ('level=ERROR msg="pool runner terminated" error="exit status 2"', "pool runner", 2),
        (
            "# Error: llama runner process has terminated: exit status 0xc000001d",
            "llama runner",
            None,
        ),
    ],
)
def test_a_runner_that_its_parent_names(line: str, name: str, exit_status: int | None) -> None:
    death = incident_of(line, "", "I start it with the newest version.").first_death

    assert (death.name, death.exit) == (name, exit_status)
    assert death.cause.certainty is not Certainty.PROVED


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("[Bug]: EngineDeadError with two devices", CauseClass.UNKNOWN),
        ("OOM when loading a model of 70B", CauseClass.UNKNOWN),
        ("[Bug]: an Out-Of-Memory (OOM) error occurs", CauseClass.UNKNOWN),
        ("Pods getting OOM'd with the default limit", CauseClass.OOM_KILLED),
        ("Unexpected OOM kills inside a container", CauseClass.OOM_KILLED),
        ("CUDA OOM in the pod with two devices", CauseClass.UNKNOWN),
        ("OutOfMemory error with eight devices", CauseClass.UNKNOWN),
        ("the newest driver gives a 0xc0000005 error at start", CauseClass.NATIVE_FAULT),
        ("Signal code: Address not mapped (1)", CauseClass.NATIVE_FAULT),
    ],
)
def test_a_title_alone_tells_a_servers_end(title: str, kind: CauseClass) -> None:
    death = incident_of(f"# {title}", "", "See the picture.").first_death

    assert death.cause.kind is kind
    assert death.cause.certainty is not Certainty.PROVED


@pytest.mark.parametrize(
    "title",
    [
        "Prevent OOM in the pool",
        "How to avoid OOM",
        "OOM score of the server",
        "[Feature]: OOM protection",
        "CUDA OOM errors are counted twice",
        "Detect OOM",
    ],
)
def test_a_title_about_a_lack_of_memory_tells_of_none(title: str) -> None:
    assert incidents_of(f"# {title}", "", "See the picture.") == ()


def test_blanks_behind_a_frame_are_no_part_of_it() -> None:
    death = incident_of(
        "Signal (11) received.          ",
        " 0# 0x000055F2E74E513D in serve          ",
        " 1# 0x00007F8697BA2520 in /lib/libc.so.6          ",
        " 2# 0x00007F860E87DBB0 in /opt/serve/libpool.so          ",
    ).first_death

    assert (death.name, death.module) == ("serve", "libpool.so")


def test_who_asks_for_a_change_is_no_maintainer() -> None:
    death = incident_of(
        "# ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
        "",
        "Can you put a fix in the PR?",
    ).first_death

    assert death.role is ProcessRole.RAY_ACTOR


@pytest.mark.parametrize("host", ["40a8c9673b05", "fec673e0de69", "7-node-b.example"])
def test_a_containers_name_may_begin_with_a_digit(host: str) -> None:
    prefix = f"[{host}:1447852] "
    death = incident_of(
        f"{prefix}[ 8] /lib/libmpi.so.40(ompi_request_default_wait+0x24b)[0x7fc1ff3192db]",
        f"{prefix}[ 9] /opt/serve/libpool.so(_ZN2ns4takeEv+0x133)[0x7fb0fd1c4e23]",
    ).first_death

    assert death.pid == 1447852


def test_an_exceptions_frames_of_tensorrt_are_read_without_its_words() -> None:
    death = incident_of(
        "# Crashes for long requests",
        "",
        "3       0x7f1e743b1955 void tensorrt_llm::kernels::take<__half>(int, CUstream_st*) + 117",
        "4       0x7f1e2f705ba9 /opt/tensorrt/lib/libnvinfer.so.9(+0x10cdba9) [0x7f1e2f705ba9]",
    ).first_death

    assert death.function == "tensorrt_llm::kernels::take<__half>"
    assert death.cause.certainty is Certainty.UNKNOWN


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Eval bug: llama-server with a large model eventually segfaults", "llama-server"),
        ("[Bug]: vllm on two nodes crashes", "vllm"),
        ("[Bug] llama-server binary in the image crashes", "llama-server"),
        ('llama-server in the image crashes with "Illegal instruction"', "llama-server"),
        ("run a model get ERROR: \"Stub process 'pool_0' is not healthy.\"", "Stub"),
        ("[User] Using server.exe, but the server.exe crash", "server.exe"),
    ],
)
def test_a_title_names_who_died_before_what_is_said_of_him(title: str, name: str) -> None:
    assert incident_of(f"# {title}", "", "I see no message.").first_death.name == name


def test_a_title_of_a_change_with_but_mends_still() -> None:
    assert incidents_of("# Fix the crash of the server, but keep its log", "", "See below.") == ()


@pytest.mark.parametrize("tail", ["", "        [146/1941]"])
def test_the_heading_signs_a_traceback_of_sglangs(tail: str) -> None:
    death = incident_of(
        "[2026-01-15 08:12:45 TP1] Pool hit an exception: Traceback (most recent call last):"
        f"{tail}",
        '  File "/opt/app/pool.py", line 132, in take',
        "    self.grow()",
        "ValueError: no blocks are left",
    ).first_death

    assert (death.name, death.role, death.time) == (
        "TP1",
        ProcessRole.WORKER,
        "2026-01-15 08:12:45",
    )


def test_a_traceback_without_indentation_may_be_cut_off_as_well() -> None:
    death = incident_of(
        "Traceback (most recent call last):",
        'File "/opt/sglang/srt/managers/scheduler.py", line 40, in run_scheduler_process',
        "scheduler.run()",
        'File "/opt/app/pool.py", line 132, in take',
    ).first_death

    assert (death.python_function, death.role) == ("take", ProcessRole.WORKER)


def test_a_status_in_chinese_is_one() -> None:
    death = incident_of("# \u7528\u4e24\u5f20\u5361\u8fd4\u56de\u9519\u8bef\u7801-9").first_death

    assert (death.signal, death.exit) == ("SIGKILL", -9)


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ("2026-01-15T08:12:45.1Z ERROR launcher: Shard 0 crashed", ProcessRole.WORKER),
        ("2026-01-15T08:12:45.1Z ERROR launcher: Shard 1 failed to start", ProcessRole.WORKER),
        ("2026-01-15T08:12:45.1Z ERROR launcher: Webserver Crashed", ProcessRole.API_SERVER),
    ],
)
def test_the_launcher_of_shards_says_which_one_ended(line: str, role: ProcessRole) -> None:
    death = incident_of("SystemExit: 1 rank=0", line).first_death

    assert (death.role, death.cause.kind) == (role, CauseClass.UNKNOWN)


_ENGINE = "(EngineCore pid=41) ERROR 11-30 15:37:18 [core.py:1512] "
_CLIENT = "(MainProcess pid=40) WARNING 11-30 15:37:10 [base.py:380] "
_ENGINE_DIED = (
    f"{_ENGINE}Worker proc VllmWorker-0 died unexpectedly, shutting down executor.",
    f"{_ENGINE}EngineCore encountered a fatal error.",
)
_SURVIVED = (
    f"{_CLIENT}Traceback (most recent call last):",
    f'{_CLIENT}  File "/opt/vllm/renderers/base.py", line 217, in get_tokenizer',
    f'{_CLIENT}    raise ValueError("no tokenizer")',
    f"{_CLIENT}ValueError: no tokenizer",
)
_CLIENTS_LAST = (
    "Traceback (most recent call last):",
    '  File "/opt/vllm/entrypoints/llm.py", line 473, in generate',
    "    return self._run_engine()",
    '  File "/opt/vllm/v1/engine/core_client.py", line 996, in get_output',
    "    raise self._format_exception(outputs) from None",
    "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
)
_CLIENT_LIVES = "(MainProcess pid=40) INFO 11-30 15:37:18 [utils.py:628] [shutdown] sigterm"


def test_an_exception_that_a_process_lived_on_after_is_not_its_end() -> None:
    incident = incident_of(
        *_SURVIVED,
        "(Worker pid=42) INFO 11-30 15:37:11 [worker.py:82] loaded",
        "!!!!!!! Segfault encountered !!!!!!!",
        '  File "/src/pool.hpp", line 305, in store(long)',
        *_ENGINE_DIED,
        *_CLIENTS_LAST,
        _CLIENT_LIVES,
    )

    ends = {one.pid: one.end for one in incident.processes}
    assert incident.first_death.pid == 42
    assert ends[40] == "EngineDeadError: EngineCore encountered an issue."


@pytest.mark.parametrize("between", [1, 200])
def test_a_worker_is_known_by_the_name_under_which_it_began(between: int) -> None:
    incident = incident_of(
        "(VllmWorker-0 pid=42) WARNING 11-30 15:37:05 [vllm.py:725] begins",
        *["(Worker pid=42) INFO 11-30 15:37:06 [worker.py:82] loads"] * between,
        "(EngineCore pid=41) INFO 11-30 15:37:06 [core.py:82] waits",
        *_ENGINE_DIED,
    )

    assert (incident.first_death.pid, incident.first_death.name) == (42, "VllmWorker-0")


def test_a_name_that_two_have_signed_with_is_nobodys() -> None:
    incident = incident_of(
        "(VllmWorker-0 pid=42) WARNING 11-30 15:37:05 [vllm.py:725] begins",
        "(VllmWorker-0 pid=43) WARNING 11-30 15:37:05 [vllm.py:725] begins",
        "(Worker pid=42) INFO 11-30 15:37:06 [worker.py:82] loads",
        "(Worker pid=43) INFO 11-30 15:37:06 [worker.py:82] loads",
        *_ENGINE_DIED,
    )

    assert incident.first_death.pid is None


def test_a_traceback_without_a_prefix_is_nobodys_where_two_could_have_printed_it() -> None:
    incident = incident_of(
        "(MainProcess pid=39) INFO 11-30 15:37:10 [base.py:380] begins",
        "(MainProcess pid=40) INFO 11-30 15:37:10 [base.py:380] begins",
        "(Worker pid=42) INFO 11-30 15:37:11 [worker.py:82] loaded",
        "!!!!!!! Segfault encountered !!!!!!!",
        '  File "/src/pool.hpp", line 305, in store(long)',
        *_ENGINE_DIED,
        *_CLIENTS_LAST,
    )

    ends = {one.pid: one.end for one in incident.processes}
    assert (ends[39], ends[40]) == (None, None)
