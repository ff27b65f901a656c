"""Who died, where other lines of its record name it: macOS's JSON, Android's, kubectl's."""

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, Death


def death(log: str) -> Death:
    return incident_of(*log.splitlines()).first_death


def is_quiet(log: str) -> bool:
    return explain_incident(parse_incident_log([log.encode()]), "log") is None


def test_a_report_in_json_names_its_process_in_other_members() -> None:
    first = death(
        '  "pid" : 4242,\n  "cpuType" : "ARM-64",\n  "procName" : "Poolview",\n'
        '  "exception" : {"codes":"0x1, 0x48","rawCodes":[1,72],"type":"EXC_BAD_ACCESS",'
        '"signal":"SIGSEGV","subtype":"KERN_INVALID_ADDRESS at 0x48"},\n'
    )

    assert (first.name, first.pid, first.signal) == ("Poolview", 4242, "SIGSEGV")


def test_a_report_that_was_cut_names_whom_the_title_is_about() -> None:
    first = death(
        "# App crashes with SEGFAULT when starting\n\nWe see this:\n\n"
        '{"app_name":"Poolview","timestamp":"2026-01-15"}\n{\n  "uptime" : 3200,\n'
    )

    assert (first.name, first.name_certainty) == ("Poolview", Certainty.LIKELY)


def test_a_broken_signature_is_an_environment() -> None:
    first = death("Exception Type:        EXC_CRASH (SIGKILL (Code Signature Invalid))\n")

    assert first.cause.kind is CauseClass.ENVIRONMENT


def test_the_apps_whole_name_stands_below_its_cut_one() -> None:
    first = death(
        "2026-01-15 10:14:17.986 4242-4300 libc        com.example.poolview       A  Fatal signal "
        "11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0 in tid 4300 (js), pid 4242 "
        "(ample.poolview)\n"
        "2026-01-15 10:14:18.590 77-77 DEBUG                   pid-77                      "
        "      A  pid: 4242, tid: 4300, name: js  >>> com.example.poolview <<<\n"
        "2026-01-15 10:14:18.590 77-77 DEBUG                   pid-77                      "
        "      A        #00 pc 000000000003b7f4  /data/app/lib/libpool.so (take_block+68)\n"
    )

    assert (first.pid, first.function) == (4242, "take_block")


def test_a_thread_stands_in_for_its_process() -> None:
    first = death(
        "A/libc: Fatal signal 11 (SIGSEGV), code 2, fault addr 0x48 in tid 4300 (PoolExe)\n"
    )

    assert (first.name, first.name_certainty) == ("PoolExe", Certainty.LIKELY)


def test_the_pod_that_was_described() -> None:
    first = death(
        "$ kubectl describe pod -n pools poolview-controller-6d57f5fd7f-gfnxw\n...\n"
        "    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n"
    )

    assert first.name == "poolview-controller"


def test_a_shell_tells_a_death_behind_a_tests_name_also_without_a_core() -> None:
    first = death(
        "test_take (tests.Pool) ... D:\\a\\_temp\\8.sh: line 4:  4242 Segmentation fault      "
        "poolview run --verbose\n"
    )

    assert (first.name, first.pid) == ("poolview", 4242)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("0xc000027b", CauseClass.ABORT_EXCEPTION),
        ("0xc06d007e", CauseClass.ENVIRONMENT),
        ("0xc0000602", CauseClass.ABORT_EXCEPTION),
    ],
)
def test_a_code_that_is_no_fault(code: str, kind: CauseClass) -> None:
    first = death(
        "Faulting application name: poolview.exe, version: 1.2\n"
        f"Faulting module name: pool.dll, version: 1.2\nException code: {code}\n"
    )

    assert first.cause.kind is kind


def test_a_program_that_windows_closed_because_it_hung() -> None:
    first = death(
        "The program poolview.exe version 1.2 stopped interacting with Windows and was closed.\n"
    )

    assert (first.name, first.cause.kind) == ("poolview.exe", CauseClass.HANG)


@pytest.mark.parametrize(
    "log",
    [
        "Copy the following text from Event Viewer (**`example`**)\n\n"
        "Faulting application name: other.exe, version: 10.0\n"
        "Faulting module name: ucrtbase.dll, version: 10.0\nException code: 0xc0000409\n",
        "# Detect OOMKilled pods\n\nbob \u00b7 description \u00b7 2026-01-15\n"
        "Alerts should trigger if `kubectl describe pod` has a `Last State` section of:\n\n```\n"
        "Last State:     Terminated\n  Reason:       OOMKilled\n  Exit Code:    137\n```\n",
    ],
)
def test_what_a_reader_is_asked_for_is_no_death(log: str) -> None:
    assert is_quiet(log)


WINE = (
    "nhandled exception: page fault on read access to 0xffffffff in 32-bit code (0x038e0040).\n"
    "Backtrace:\n=>0 0x038e0040 in pool of games (+0x34e0040) (0x0033fed8)\n"
)


def test_wines_program_lies_where_programs_do() -> None:
    first = death(
        f"{WINE}Modules:\nModule\tAddress\t\t\tDebug info\tName (3 modules)\n"
        "PE\t  400000- 3985000\tExport          pool of games\n"
        "PE\t10000000-109d1000\tDeferred        stub\n"
    )

    assert (first.name, first.module) == ("pool of games", "pool of games")


def test_wines_program_is_what_its_loader_called() -> None:
    called = "  1 0x7b463dae call_process_entry+0x1d() in kernel32 (0x0033ffec)\n"

    assert death(WINE.replace("pool of games", "poolview") + called).name == "poolview"


def test_apport_tells_the_program_in_its_next_line() -> None:
    first = death(
        "Catching SIGSEGV, please report a bug\nstack trace:\n"
        "  /lib/x86_64-linux-gnu/libc.so.6 : ()+0x364a0  [0x7fdceef724a0]\n"
        "  /lib/libpool.so.1 : take_block()+0x186  [0x7fdcf1e10746]\n"
        "ERROR: apport (pid 77) Thu Jan 15 22:37:28 2026: called for pid 4242, signal 6\n"
        "ERROR: apport (pid 77) Thu Jan 15 22:37:28 2026: executable: /usr/bin/poolview (command "
        'line "poolview")\n'
    )

    assert (first.name, first.pid, first.function) == ("poolview", 4242, "take_block")


def test_systemctl_tells_which_job_failed_of_a_signal() -> None:
    first = death(
        "Job for poold.service failed because a fatal signal was delivered causing the control "
        "process to dump core.\n"
    )

    assert (first.name, first.cause.kind) == ("poold", CauseClass.UNKNOWN)


def test_a_job_that_failed_of_no_signal_is_no_death() -> None:
    assert is_quiet(
        "Job for poold.service failed because the control process exited with error code.\n"
    )


def test_a_broken_promise_is_told_with_its_name() -> None:
    first = death('Jan 15 15:16:50 host /bsd: poold[4242]: pledge "unix", syscall 97\n')

    assert (first.name, first.pid, first.cause.kind) == (
        "poold", 4242, CauseClass.ABORT_EXCEPTION
    )  # fmt: skip
    assert 'pledge "unix"' in first.cause.detail


def test_who_traces_another_is_not_who_died() -> None:
    assert (
        death("host$ doas ktrace ./poolview --all\nAbort trap (core dumped)\n").name == "poolview"
    )


def test_a_threads_name_with_blanks_asked_for_memory() -> None:
    first = death(
        "Jan 15 08:18:28 host kernel: [580439.225918] JIT Compilation invoked oom-killer: "
        "gfp_mask=0x24000c0, order=0, oom_score_adj=952\n"
    )

    assert (first.name, first.cause.kind) == ("JIT Compilation", CauseClass.OOM_KILLED)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("go build example.org/p: /usr/local/go/tool/compile: signal: killed", "compile"),
        ("go tool link: signal: killed", "link"),
    ],
)
def test_go_tells_the_tool_that_was_killed_by_its_path(line: str, name: str) -> None:
    assert death(f"{line}\n").name == name


def test_a_package_is_no_program() -> None:
    assert death("go build example.org/somebody/pool: signal: killed\n").name is None


def test_the_panic_of_a_kernel_is_no_programs() -> None:
    first = death(
        "I ran this:\n`$ poolview --all`\nand then:\n```\npanic: Invalid instruction length\n"
        "KDB: stack backtrace:\ndb_trace_self() at db_trace_self_wrapper+0x30\n```\n"
    )

    assert first.name == "kernel"


def test_a_trap_of_the_kernel_names_no_command_above_it() -> None:
    first = death(
        "I ran this:\n`$ poolview --all`\n```\nFatal trap 12: page fault while in kernel mode\n"
        "current process\t\t= 0 (re0 taskq)\n```\n"
    )

    assert first.name != "poolview"


def test_erlangs_machine_is_beam() -> None:
    first = death('eheap_alloc: Cannot allocate 147852528 bytes of memory (of type "heap").\n')

    assert first.name == "beam"


def test_the_task_of_an_embedded_core() -> None:
    first = death(
        "Crashed task handle: 0x3fcb9ec0, name: 'poolTask', GDB name: 'process 42'\n"
        "Panic reason: assert failed: void loop_pool(void*) pool.cpp:53 (0)\n"
    )

    assert first.name == "poolTask"


def test_what_a_program_looks_for_is_no_death() -> None:
    assert is_quiet(
        "We use metrics, looking for messages from kubelet like:\n```\n"
        "Killed process 1557026 (stress) total-vm:256780kB, anon-rss:100056kB\n```\n"
    )
