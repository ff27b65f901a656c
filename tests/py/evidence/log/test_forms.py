"""Reports that are forms: a cause, a program and a place in lines with labels, in any order."""

import pytest
from tests.py.support.incidents import incident_of

from vllm_forensics.diagnosis.incident.explain import explain_incident
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, Death

EUREKA = r"""
EurekaLog 7.1
Application:
---------------------------
 1.2 Name/Description: Poolview
 1.3 Version Number: 1.2.0.0
Exception:
---------------------------
 2.2 Address: 0040F5E2
 2.3 Module Name: poolview.exe
 2.5 Type: EAccessViolation
Call Stack Information:
---------------------------
|Address |Module      |Unit    |Class|Procedure/Method|Line |
|0040F5E2|poolview.exe|Pool.pas|TPool|TakeBlock       |42[2]|
|0040FAE2|poolview.exe|Main.pas|TMain|Click           |12[1]|
"""
JCL = r"""
 Application title: Poolview
 Application file: C:\pool\poolview.exe
Exception class: EAccessViolation
Exception message: Schutzverletzung.
Exception address: 0040F5E2
Exception stack
Stack list, generated 15.01.26 08:12:45
(0000E5E2){poolview.exe} [0040F5E2] Pool.TakeBlock (Line 42, "Pool.pas") + $4
(0000F5E2){poolview.exe} [004105E2] Main.Click (Line 12, "Main.pas") + $2
"""
WATSON = r"""
Application exception occurred:
        App: C:\pool\poolview.exe (pid=4242)
        When: 1/15/2026 @ 08:12:45.123
        Exception number: c0000005 (access violation)
"""
RETYPED = """
Executable: /usr/bin/poolview
Arguments: --all
Version: 1.2
Signal: 11
Function: take_block
"""


def death(log: str) -> Death:
    return incident_of(*log.splitlines()).first_death


def is_quiet(log: str) -> bool:
    return explain_incident(parse_incident_log([log.encode()]), "log") is None


@pytest.mark.parametrize(
    ("log", "name", "function"),
    [
        (EUREKA, "poolview.exe", "TakeBlock"),
        (JCL, "poolview.exe", "Pool.TakeBlock"),
        (WATSON, "poolview.exe", None),
        (RETYPED, "poolview", "take_block"),
    ],
)
def test_a_form_is_read_by_its_fields(log: str, name: str, function: str | None) -> None:
    first = death(log)

    assert (first.name, first.function, first.signal) == (name, function, "SIGSEGV")
    assert first.cause.kind is CauseClass.NATIVE_FAULT


def test_a_form_tells_the_processs_number_beside_its_program() -> None:
    assert death(WATSON).pid == 4242


def test_a_stop_of_windows_is_its_kernels_and_while_it_ran_for_a_process() -> None:
    first = death(
        "KERNEL_SECURITY_CHECK_FAILURE (139)\nA kernel component is damaged.\nArguments:\n"
        "Arg1: 0000000000000003, A LIST_ENTRY has been corrupted.\n"
        "Arg2: ffffd0002a78a940, Address of the trap frame\n"
        "PROCESS_NAME:  serve.exe\nSYMBOL_NAME:  pooldrv!take_block+12\nIMAGE_NAME:  pooldrv.sys\n"
    )

    assert (first.name, first.module, first.function) == ("serve.exe", "pooldrv", "take_block")
    assert first.cause.certainty is Certainty.LIKELY


def test_a_stop_without_a_process_is_the_kernels() -> None:
    first = death("*** Fatal System Error: 0x00000139\n   (0x6,0xffffeb0189f8f8b0,0x0,0x0)\n")

    assert first.name == "kernel"


@pytest.mark.parametrize(
    "line",
    [
        "Access violation at address 0040F5E2 in module 'poolview.exe'. Read of address 00000048.",
        "Zugriffsverletzung bei Adresse 0040F5E2 in Modul 'poolview.exe'. Lesen von Adresse "
        "00000048.",
        "Access violation at address 0040F5E2 in module \u201cpoolview.exe\u201d. Write of address "
        "00000000.",
    ],
)
def test_delphis_message_tells_the_module_in_any_language(line: str) -> None:
    first = death(f"It shows this:\n\n{line}\n")

    assert (first.name, first.signal) == ("poolview.exe", "SIGSEGV")
    assert first.cause.certainty is Certainty.LIKELY


def test_a_library_in_delphis_message_is_a_place_and_no_program() -> None:
    first = death(
        "Access violation at address 6B0F5E2A in module 'pool.dll'. Read of address 00000048"
    )

    assert (first.name, first.module) == (None, "pool.dll")


def test_fields_around_a_told_death_give_it_the_place() -> None:
    first = death(
        "reason:         poolview killed by SIGSEGV\ntime:           Thu 15 Jan 2026\n"
        "cmdline:        /usr/bin/poolview\ncrash_function: take_block\n"
    )

    assert (first.name, first.function) == ("poolview", "take_block")


@pytest.mark.parametrize(
    "log",
    [
        "signal: 11\n",  # alone it may be anything
        "Name: take_block\nVersion: 1.2\nType: Bug\n",
        "handler:\n  Signal: 15\n  Process: serve\n  Version: 1.2\n",
        'config = {"signal": 11, "process": "serve", "module": "pool"}\n',
        "signal = 11\nprocess = 'serve'\nmodule = 'pool'\nversion = 2\n",
        "Please fill in:\nExecutable: \nSignal: \nVersion: \n",
    ],
)
def test_what_is_no_report_of_a_death(log: str) -> None:
    assert is_quiet(log)


@pytest.mark.parametrize(
    ("text", "name", "function"),
    [
        ("A fatal error has been detected by Java Runtime Environment:", "java", "take_block"),
        ("a fatal error has beeen detected by the Java runtime:", "java", "take_block"),
    ],
)
def test_a_retyped_heading_is_javas_too(text: str, name: str, function: str) -> None:
    first = death(
        f"# {text}\n#\n# SIGSEGV (0xb)  at pc=0x00007fcbf4fc6196, pid=7, tid=28\n#\n"
        "# Problematic frame:\n# C [libpool.so+0x385196] take_block+0x16\n"
    )

    assert (first.name, first.pid, first.function) == (name, 7, function)


def test_the_core_that_a_titles_death_left_names_it() -> None:
    first = death(
        "# Electron intermittently crashes on Linux with SIGTRAP\n\nOur app:\n\n"
        "Jan 15 08:12:45 host systemd-coredump[77]: Process 4242 (poolview) of user 1000 dumped "
        "core.\n#0  0x0000557b7dd4db78 n/a (poolview)\n#1  0x0000557b7dd4e26e n/a (poolview)\n"
    )

    assert (first.name, first.pid) == ("poolview", 4242)


def test_a_program_without_a_suffix_in_breakpads_frames() -> None:
    first = death(
        "Crash reason:  SIGTRAP\nCrash address: 0x0\n\nThread 0 (crashed)\n"
        " 0  poolview!ns::Pool::Take() [pool.cc : 42 + 0x1]\n    rip = 0x0\n"
        " 1  poolview!ns::Serve() [serve.cc : 12 + 0x5]\n"
    )

    assert (first.name, first.function) == ("poolview", "ns::Pool::Take")


def test_a_core_of_solaris_shows_its_stack() -> None:
    first = death(
        "core 'core.4242' of 4242:\t/opt/bin/serve --all\n"
        " 00007fff0001234 take_block (0, 48) + 12\n"
        " 00007fff0001888 main (1) + 4c\n"
    )

    assert (first.name, first.pid, first.function) == ("serve", 4242, "take_block")


def test_erlangs_own_process_was_killed_by_no_system() -> None:
    first = death("** (EXIT from #PID<0.42.0>) shell process exited with reason: killed\n")

    assert first.cause.kind is CauseClass.UNKNOWN


def test_the_label_before_a_status_names_nobody() -> None:
    assert death("The pod keeps crashing.\nExit status code: 139\n").name is None


def test_free_pascals_frames_and_its_own_labels() -> None:
    first = death(
        "Application       : Pool Viewer\nPath              : C:\\opt\\pool\\poolview.exe\n"
        "Proccess Id       : 4242\nException Class   : EAccessViolation\n"
        "Message           : Access violation\n\nException Address : $000000010000A23A\n"
        "  $000000010000A2C2\n  $00000001003A5FCF line 337 of ../units/pools.pas\n"
    )

    assert (first.name, first.pid, first.module) == ("poolview.exe", 4242, "pools.pas")


def test_free_pascals_class_alone_and_its_stack() -> None:
    first = death(
        "Exception: class: EAccessViolation, message: Access violation\nException call stack:\n"
        "  $00000000\n  $00428F86  TPOOL__TAKE,  line 42 of src/pool.pas\n"
    )

    assert (first.function, first.line, first.signal) == ("TPOOL__TAKE", 42, "SIGSEGV")


def test_frames_below_delphis_message_say_more_than_its_module() -> None:
    first = death(
        "exception class    : EAccessViolation\nexception message  : Access violation at address "
        "00E08562 in module 'poolview.exe'. Read of address 00040010.\n\nmain thread ($98c):\n"
        "00e08562 poolview.exe Pools               263   +0 TPool.Take\n"
        "011a5d7b poolview.exe Views             30631 +584 TView.Paint\n"
    )

    assert (first.name, first.function) == ("poolview.exe", "TPool.Take")


@pytest.mark.parametrize(
    "line",
    [
        "Fixed EAccessViolation in the view",
        "EAccessViolation in PaintTree() is fixed",
        "if Exception is EAccessViolation then",
    ],
)
def test_the_classs_name_in_a_sentence_is_no_death(line: str) -> None:
    assert is_quiet(f"{line}\n")


def test_apports_report_without_its_signal_tells_that_a_program_crashed() -> None:
    first = death(
        "Our system crashed:\n\n> ProblemType: Crash\n> Architecture: amd64\n"
        "> DistroRelease: Ubuntu 14.04\n> ExecutablePath: /usr/bin/poolview\n"
    )

    assert (first.name, first.cause.kind) == ("poolview", CauseClass.UNKNOWN)


def test_the_first_frames_of_socorros_report() -> None:
    first = death(
        "# Crash in [@ ns::Pool::take]\n\nReason: ```SIGSEGV /SEGV_MAPERR```\n\n"
        "Top 10 frames of crashing thread:\n```\n"
        "0 libpool.so ns::Pool::take src/pool/Pool.cpp:3174\n"
        "1 libpool.so ns::Serve src/pool/Serve.cpp:2264\n```\n"
    )

    assert (first.function, first.module, first.line) == ("ns::Pool::take", "libpool.so", 3174)


def test_a_broken_signature_is_told_without_its_signal_too() -> None:
    first = death(
        "Process:               poolview [593]\n"
        "Exception Type:        EXC_CRASH (Code Signature Invalid)\n"
    )

    assert (first.name, first.cause.kind) == ("poolview", CauseClass.ENVIRONMENT)
