"""Records of daemons that name themselves in a line of their own, and kernels behind syslog."""

from tests.py.support.incidents import incident_of

from vllm_forensics.model.incident import CauseClass

_CEPH = (
    "/src/kv/Pool.cc: 88: FAILED assert(pool->valid())",
    " ceph version 12.2.0 (0123abcd) luminous (rc)",
    " 1: (ceph::__ceph_assert_fail(char const*, char const*, int, char const*)+0x102) [0x5556100]",
    " 2: (Pool::take(unsigned int)+0x4da) [0x55561003257a]",
    "*** Caught signal (Aborted) **",
    " in thread 7f6da0617e00 thread_name:ceph-pool",
)
_ENVOY = "[2026-01-15 08:12:45.123][17][critical][backtrace] ./backtrace.h:90] "


def test_older_cephs_assertion_and_the_name_of_its_thread() -> None:
    death = incident_of(*_CEPH).first_death

    assert (death.name, death.function) == ("ceph-pool", "Pool::take")
    assert death.cause.kind is CauseClass.ABORT_EXCEPTION


def test_older_envoys_name_the_file_of_their_frames() -> None:
    death = incident_of(
        f"{_ENVOY}Caught Segmentation fault, suspect faulting address 0x48",
        f"{_ENVOY}Backtrace obj</usr/bin/pool> thr<17> (use tools/stack_decode.py):",
        f"{_ENVOY}thr<17> #0 0x91782b (unknown)",
        f"{_ENVOY}thr<17> #1 0xc7b2ba (unknown)",
    ).first_death

    assert (death.name, death.module) == ("pool", "pool")


def test_older_envoys_in_a_text_without_their_prefix() -> None:
    death = incident_of(
        "Caught Bus error, suspect faulting address 0x7fdbf98e2028",
        "Backtrace thr<0> obj</usr/bin/pool> (If unsymbolized, use tools/stack_decode.py):",
        "thr<0> #0 0xc739fe Pool::Set<>::take()",
        "thr<0> #1 0xc6feec Pool::run()",
    ).first_death

    assert (death.name, death.function) == ("pool", "Pool::Set<>::take")


def test_a_kernel_that_syslog_does_not_name_behind_its_host() -> None:
    death = incident_of(
        "Feb  9 12:50:38 n1 [6437762.553311] BUG: unable to handle kernel NULL pointer "
        "dereference at           (null)",
        "Feb  9 12:50:38 n1 [6437762.553582] IP: [<ffffffffa009e8fa>] pool_take+0x8aa/0x121 [pool]",
        "Feb  9 12:50:38 n1 [6437762.553972] Oops: 0000 [#1] SMP",
        "Feb  9 12:50:38 n1 [6437762.554801] CPU: 7 PID: 4242 Comm: serve Tainted: G",
    ).first_death

    assert (death.name, death.pid, death.function) == ("serve", 4242, "pool_take")


def test_a_title_that_repeats_a_kernels_own_line() -> None:
    title = "# oops: BUG: unable to handle kernel NULL pointer dereference at (null)"

    assert incident_of(title, "", "It is there since the update.").first_death.name == "kernel"


def test_zabbix_writes_its_number_before_its_lines() -> None:
    death = incident_of(
        " 18196:20260115:140934.555 Got signal [signal:11(SIGSEGV),reason:1]. Crashing ..."
    ).first_death

    assert (death.pid, death.signal) == (18196, "SIGSEGV")


def test_older_ctests_tell_of_an_aborted_child() -> None:
    death = incident_of(
        "1/5 Test #5: Pool .......................Child aborted***Exception:   0.01 sec"
    ).first_death

    assert (death.name, death.signal) == ("Pool", "SIGABRT")


def test_a_module_among_programs_names_the_program() -> None:
    death = incident_of(
        "<Fatal> BaseDaemon: (from thread 13918) Received signal Segmentation fault (11)",
        "<Fatal> BaseDaemon: 2. Pool::take(unsigned long) const @ 0x9201c25 in /usr/bin/poold",
    ).first_death

    assert (death.name, death.function) == ("poold", "Pool::take")
