"""Which words are nobody's name, and how sure a process's name is."""

import pytest

from vllm_forensics.diagnosis.incident.explain import explain_incidents
from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import Death, ProcessRole

SURE, LIKELY = Certainty.PROVED, Certainty.LIKELY


def death(log: str) -> Death:
    incident, *_ = explain_incidents(parse_incident_log([log.encode()]), "log")
    return incident.first_death


@pytest.mark.parametrize(
    ("log", "name", "certainty"),
    [
        # a record of its own, with its number or without
        ("poold[4242]: segfault at 48 ip 00007f1be0001234 sp 00007ffd3c0 error 4", "poold", SURE),
        ("*** Error in `/usr/bin/poold': free(): invalid pointer: 0x0000558 ***", "poold", SURE),
        ("*** glibc detected *** [app] poold worker 5: free(): invalid pointer: 0x01 ***",
         "poold", SURE),
        # a label, which may be any name
        ("pool-1  | free(): invalid pointer", "pool-1", LIKELY),
        ("pool-1  | thread 'main' panicked at src/pool.rs:88:12:", "pool-1", LIKELY),
        # a sentence
        ("With the new backend, Poolview crashed with signal 11. It had run for some time.",
         "Poolview", LIKELY),
        # the kernel tells of others
        ("Jan  5 02:12:02 host1 kernel: Task in /kubepods/pod1 killed as a result of limit of "
         "/kubepods/pod1", None, None),
        ("kernel: poold[4242]: segfault at 46 ip 0000000000000046 sp 00007fff19ea6640 error 14",
         "poold", SURE),
        # it knows threads; a module that is no library is the program
        ("io_worker_57[4242]: segfault at 48 ip 00007f1be0001234 sp 00007ffd3c0 error 4 in "
         "poold[55b17d903000+339000]", "poold", SURE),
        ("pool_model_serv[4242]: segfault at 48 ip 00007f1be0001234 sp 00007ffd3c0 error 4 in "
         "pool_model_server[400000+11a0c000]", "pool_model_server", SURE),
        ("take_worker[4242]: segfault at 48 ip 00007f1be0001234 sp 00007ffd3c0 error 4 in "
         "libpool.so[7f1be0000000+21000]", "take_worker", SURE),
        ("my_script[4242]: segfault at 48 ip 00007f1be0001234 sp 00007ffd3c0 error 4 in "
         "python3.12[400000+21000]", "my_script", SURE),
        # a debugger tells a thread's name
        ('Thread 1 "poold" received signal SIGSEGV, Segmentation fault.', "poold", SURE),
        ('Thread 20 "python3.12" received signal SIGSEGV, Segmentation fault.',
         "python3.12", SURE),
        ('Thread 23 "poold" received signal SIGSEGV, Segmentation fault.', "poold", LIKELY),
        ('Thread 23 "camera:src" received signal SIGSEGV, Segmentation fault.', None, None),
        # what a shell ran may only launch; what stands before it is no command
        ("[1]    4242 segmentation fault (core dumped)  valgrind --tool=memcheck", None, None),
        ('./run.sh: line 263: 4242 Aborted                 (core dumped) LD_PRELOAD="$lib" '
         '"$cmd" "$@"', None, None),
        # a dump that was opened, a file of tests, a machine, a number, a function
        ("Unhandled exception at 0x000000007057AD90 (Pool.dll) in Poolview.exe.dmp: 0xC0000005: "
         "Access violation reading location 0x0000000000000008.", "Poolview.exe", SURE),
        ("../pool/tests/test_take.py ..Fatal Python error: Segmentation fault", "python", SURE),
        ("# Exception: process 0 terminated with signal SIGABRT", "process 0", LIKELY),
        ("# PoolGroup.quantile segfaults", None, None),
        # a script that tells of its child
        ("# entrypoint.sh Illegal instruction\n\n"
         "/entrypoint.sh: line 11:     7 Illegal instruction     (core dumped) $@", None, None),
        ("/usr/bin/poold: line 3: 4242 Segmentation fault      /usr/share/pool/bin/poold $@",
         "poold", SURE),
        # a variable; who tells of another
        ("cd $POOL_DIR\n\nSegmentation fault (core dumped)", None, None),
        ("# slurmstepd: error: Detected 1 oom_kill event in StepId=42.0.", None, None),
        # a statement, an option's or a tool's word, a thread called after its process
        ("`import pool` crashes with SIGSEGV (exit code 139)", None, None),
        ("ktrace /opt/bin/poold\nAbort trap (core dumped)", None, None),
        ("$ ktrace poold\nAbort trap (core dumped)", "poold", SURE),
        ("Jun 08 14:08:55 host1 kernel: pool_worker_thr[4251]: segfault at 0 ip 0000000000000000\n"
         "Jun 08 14:09:43 host1 systemd-coredump[9559]: Process 4242 (pool) of user 2328 dumped "
         "core.", "pool", SURE),
        ("pool take invoked oom-killer: gfp_mask=0x24000c0, order=0", "pool take", LIKELY),
        # words of an address
        ("The data is here: https://pool.example.com/segfault.html\n"
         "# Crash when reading\n\nIt fails with a segmentation fault.", None, None),
    ],
)  # fmt: skip
def test_a_name_and_how_sure_it_is(log: str, name: str | None, certainty: Certainty | None) -> None:
    first = death(f"{log}\n")

    assert (first.name, first.name_certainty) == (name, certainty)


def test_a_repository_that_others_use_is_no_program() -> None:
    first = death(
        "SIGSEGV: segmentation violation\n"
        "PC=0x1 m=0 sigcode=1\n"
        "signal arrived during cgo execution\n"
        "\n"
        "goroutine 1 [syscall]:\n"
        "example.org/take/go-pool._Cfunc_take(0x75924580)\n"
        "\tgithub.com/take/go-pool/_obj/_cgo_gotypes.go:266 +0x4a\n"
        "github.com/take/go-pool.(*Driver).Open(0x75924580)\n"
        "\tgithub.com/take/go-pool/pool.go:88 +0x4a\n"
        "database/sql.(*DB).exec(0x75924580)\n"
    )

    assert first.name is None


@pytest.mark.parametrize(
    ("library", "certainty"), [("libR.so", LIKELY), ("libpython3.12.so.1.0", LIKELY),
                               ("libpool.so", SURE), ("libjulia-internal.so.1.10", SURE)],
)  # fmt: skip
def test_an_interpreter_may_be_embedded_in_another(library: str, certainty: Certainty) -> None:
    first = death(
        "[4242] signal (11.1): Segmentation fault\n"
        "in expression starting at none:0\n"
        f"take_block at /opt/lib/{library} (unknown line)\n"
        f"serve at /opt/lib/{library} (unknown line)\n"
    )

    assert (first.name, first.name_certainty) == ("julia", certainty)


def test_a_factory_is_no_actor() -> None:
    first = death(
        "Unhandled Exception: EXCEPTION_ACCESS_VIOLATION reading address 0xcb8f0003\n"
        "\n"
        "0x00007ff7c83bb99b FactoryPool-Win64.exe!FPool::Take() [d:\\src\\pool.h:88]\n"
        "0x00007ff7c83bb99c FactoryPool-Win64.exe!FPool::Serve() [d:\\src\\pool.h:99]\n"
    )

    assert (first.name, first.role) == ("FactoryPool-Win64.exe", ProcessRole.MAIN)
