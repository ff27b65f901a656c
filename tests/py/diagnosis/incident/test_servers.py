"""Deaths of inference servers and of what they are built upon, as people paste them."""

import pytest
from tests.py.support.incidents import incident_of, incidents_of

from vllm_forensics.model.finding import Certainty
from vllm_forensics.model.incident import CauseClass, ProcessRole
from vllm_forensics.render.incident import headline

RUNNER = "Error: llama runner process has terminated: "


@pytest.mark.parametrize(
    ("line", "place", "function"),
    [
        ("/src/ggml.c:12: GGML_ASSERT(n < size) failed", "/src/ggml.c:12", None),
        ("GGML_ASSERT: src/ggml-cuda.cu:88: n < size", "src/ggml-cuda.cu:88", None),
        ("D:\\a\\src\\ggml.c:12: GGML_ASSERT(n > 0) failed", "D:\\a\\src\\ggml.c:12", None),
        ("serve: p.cpp:8: int Pool::get(int): Assertion `n < 9' failed.", "p.cpp:8", "Pool::get"),
        ("thread 'main' panicked at src/router.rs:42:9:", "src/router.rs:42", None),
    ],
)
def test_an_assertion_is_the_place_where_no_stack_is(
    line: str, place: str, function: str | None
) -> None:
    death = incident_of(line).first_death

    assert death.cause.kind is CauseClass.ABORT_EXCEPTION
    assert (f"{death.file}:{death.line}", death.function) == (place, function)
    assert (function or place[-8:]) in headline(death)


def test_a_stack_counts_for_more_than_the_assertion_above_it() -> None:
    death = incident_of(
        "/src/ggml.c:12: GGML_ASSERT(n < size) failed",
        "/usr/lib/libllama.so(llama_decode+0x12) [0x7f1be0001234]",
    ).first_death

    assert (death.module, death.function, death.file) == ("libllama.so", "llama_decode", None)


def test_a_handler_of_a_librarys_own_names_the_signal() -> None:
    death = incident_of(
        "Fatal Python error: pool_parachute: (pool parachute) Segmentation Fault",
        "Python runtime state: initialized",
        "",
        "Current thread 0x00007f1be0000740 (most recent call first):",
        '  File "serve.py", line 2 in take',
    ).first_death

    assert (death.signal, death.cause.kind) == ("SIGSEGV", CauseClass.NATIVE_FAULT)
    assert death.python_function == "take"


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("CUDA error", CauseClass.GPU_ASYNC),
        ("CUDA error: out of memory", CauseClass.ABORT_EXCEPTION),
        ("cudaMalloc failed: out of memory", CauseClass.ABORT_EXCEPTION),
        ("error loading model", CauseClass.ABORT_EXCEPTION),
        ("signal: killed", CauseClass.OOM_KILLED),
    ],
)
def test_a_runners_last_line_is_why_it_ended(words: str, kind: CauseClass) -> None:
    death = incident_of(f"{RUNNER}{words}").first_death

    assert death.cause.kind is kind
    assert "runner" in (death.name or "")


@pytest.mark.parametrize("indent", ["        ", "\t"])
def test_a_dead_actor_is_called_by_its_class(indent: str) -> None:
    death = incident_of(
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
        f"{indent}class_name: make_pool.<locals>.PoolDict",
        f"{indent}actor_id: 50660c01",
        f"{indent}pid: 4242",
        f"{indent}name: 07GxPoolDict_0:3",
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR "
        "Worker exit detail: Worker unexpectedly exits with a connection error code 2.",
    ).first_death

    assert (death.name, death.pid) == ("PoolDict", 4242)
    assert death.cause.certainty is Certainty.UNKNOWN


def test_a_class_named_in_a_settings_file_is_no_death() -> None:
    assert not incidents_of(
        "pools:", "  - pool:", "        class_name: pool.Pool", "        size: 4"
    )


@pytest.mark.parametrize("fence", ["```diff", "> ```diff", "~~~ patch"])
def test_a_change_of_a_handler_is_no_death(fence: str) -> None:
    mark = "> " if fence.startswith(">") else ""

    assert not incidents_of(
        "I would raise it here:",
        fence,
        f"{mark}+    @app.exception_handler(EngineDeadError)",
        f"{mark}+    async def gone(request):",
        f"{mark}{fence.strip('> ')[:3]}",
        "What do you think?",
    )


def test_a_program_is_called_by_the_module_that_is_no_library() -> None:
    death = incident_of(
        "Signal (11) received.",
        " 0# 0x000060322740904D in /opt/serve/bin/blockserver",
        " 1# 0x000071FB7C344520 in /usr/lib/x86_64-linux-gnu/libc.so.6",
        " 2# 0x000060322747043B in /opt/serve/bin/blockserver",
    ).first_death

    assert (death.name, death.module) == ("blockserver", "blockserver")


def test_a_drivers_handler_names_program_number_and_place() -> None:
    death = incident_of(
        "serve:4242 terminated with signal 11 at PC=4dcf30 SP=7fff0840ecf8.  Backtrace:",
        "serve(_ZN4Pool4takeEv+0x0)[0x4dcf30]",
        "serve(main+0x3c)[0x446e3c]",
        "/lib64/libc.so.6(__libc_start_main+0xf4)[0x3e9521d994]",
    ).first_death

    assert (death.name, death.pid, death.function) == ("serve", 4242, "Pool::take")
    assert (death.signal, death.cause.certainty) == ("SIGSEGV", Certainty.PROVED)


def test_a_watchdogs_stack_alone_tells_of_a_wait() -> None:
    death = incident_of(
        "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 "
        "(0x7f1be0001234 in /opt/torch/lib/libc10.so)",
        "frame #1: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout(std::optional<long>) + 0x1d2 "
        "(0x7f1be0002234 in /opt/torch/lib/libtorch_cuda.so)",
    ).first_death

    assert (death.cause.kind, death.cause.certainty) == (CauseClass.HANG, Certainty.LIKELY)


def test_a_launcher_tells_of_an_end_that_no_signal_made() -> None:
    death = incident_of(
        "[launch.py:315:sigkill_handler] Killing subprocess 4242",
        "[launch.py:321:sigkill_handler] ['/usr/bin/python', 'a.py', '--fp16'] exits with return "
        "code = 1",
    ).first_death

    assert (death.exit, death.cause.kind) == (1, CauseClass.UNKNOWN)


@pytest.mark.parametrize(
    "line", ["When it ends it prints `exits with return code = -11` and no more", "# exit code -11"]
)
def test_a_status_in_somebodys_sentence_is_likely_at_most(line: str) -> None:
    death = incident_of(line, "", "I use two GPUs.").first_death

    assert (death.signal, death.cause.kind) == ("SIGSEGV", CauseClass.NATIVE_FAULT)
    assert death.cause.certainty is Certainty.LIKELY


def test_a_signal_within_c_called_by_go_may_lack_its_name() -> None:
    death = incident_of(
        "signal arrived during cgo execution", "", "goroutine 1 [syscall]:"
    ).first_death

    assert (death.cause.kind, death.cause.certainty) == (CauseClass.NATIVE_FAULT, Certainty.LIKELY)


@pytest.mark.parametrize(
    ("words", "signal"),
    [
        ("illegal instruction", "SIGILL"),
        ("division by zero", "SIGFPE"),
        ("stack overflow", "SIGSEGV"),
    ],
)
def test_wine_names_more_than_page_faults(words: str, signal: str) -> None:
    line = (
        f"wine: Unhandled {words} at address 0000000140001234 (thread 0024), starting debugger..."
    )

    assert incident_of(line).first_death.signal == signal


def test_a_title_says_why_a_traceback_was_printed_whose_end_is_cut_off() -> None:
    death = incident_of(
        "# [pool][Seg fault] Pool segfaulting with few blocks",
        "",
        "The following segfaults.",
        "Traceback (most recent call last):",
        '  File "/opt/pool/serve.py", line 17, in <module>',
        "    take()",
        '  File "/opt/pool/pool.py", line 3, in take',
        "    return _take(",
    ).first_death

    assert (death.cause.kind, death.cause.certainty) == (CauseClass.NATIVE_FAULT, Certainty.LIKELY)


def test_the_gpus_runtime_called_abort_where_the_parent_saw_only_that() -> None:
    death = incident_of(
        "It gives this error:",
        "`llama runner process has terminated: signal: aborted (core dumped)`",
        "```",
        "serve  | Memory access fault by GPU node-1 (Agent handle: 0x5581) on address 0x7f1be000."
        " Reason: Unknown.",
        "```",
    ).first_death

    assert (death.signal, death.cause.kind) == ("SIGABRT", CauseClass.GPU_ASYNC)


def test_what_reports_the_gpus_error_is_no_place() -> None:
    death = incident_of(
        "#0  0x00007748fc0ea42f in __GI___wait4 (pid=24455, options=0) at ../sysdeps/wait4.c:30",
        "#1  0x00007748fcb70b5b in ggml_print_backtrace () from /opt/libggml-base.so.0",
        "#2  0x00007748fcb70cf2 in ggml_abort () from /opt/libggml-base.so.0",
        "#3  0x00007748e07794b6 in ggml_cuda_error(char const*, int) () from /opt/libggml-cuda.so",
        "#4  0x00007748e0780391 in ggml_cuda_mul_mat(ggml_tensor const*, char const*, flo",
    ).first_death

    assert death.function == "ggml_cuda_mul_mat"


def test_intels_driver_aborts_at_a_fault_of_the_gpu() -> None:
    death = incident_of(
        "Segmentation fault from GPU at 0xff00ffffffe00000, ctx_id: 1 (CCS) type: 0 (NotPresent), "
        "level: 1 (PDE), access: 0 (Read), banned: 1, aborting.",
        "Abort was called at 288 line in file:",
        "Aborted (core dumped)",
    ).first_death

    assert (death.signal, death.cause.kind) == ("SIGABRT", CauseClass.GPU_ASYNC)


@pytest.mark.parametrize("device", ["CUDA", "HIP", "XPU", "MPS backend"])
def test_a_lack_of_the_gpus_memory_is_an_exception_without_its_traceback(device: str) -> None:
    death = incident_of(
        f"RuntimeError: {device} out of memory. Tried to allocate 1.00 GiB"
    ).first_death

    assert death.cause.kind is CauseClass.PYTHON_EXCEPTION


@pytest.mark.parametrize(
    "title", ["# Bug: ggml-cuda.cu:116: CUDA error", "# Crash with GGML CUDA error on llama-server"]
)
def test_a_title_that_names_the_gpus_error_is_likely(title: str) -> None:
    death = incident_of(title, "", "I start it with two cards.").first_death

    assert (death.cause.kind, death.cause.certainty) == (CauseClass.GPU_ASYNC, Certainty.LIKELY)


def test_a_raylet_signs_its_own_lines() -> None:
    head = "(raylet) [2026-04-02 18:58:16,482 E 4242 4242] logging.cc:441: "
    death = incident_of(
        f"{head}*** SIGSEGV (@0x8) received by PID 4242 (TID 0x7fdc) from PID 8; stack trace: ***",
        f"{head}    @     0x7fdc098843c0 (unknown)",
        f"{head}    @     0x56164b20b29e ray::raylet::Pool::Take()",
    ).first_death

    assert (death.name, death.pid, death.function) == ("raylet", 4242, "ray::raylet::Pool::Take")


def test_a_title_borrows_the_role_of_the_traceback_below_it() -> None:
    death = incident_of(
        "# [Bug]: RuntimeError: CUDA error: an illegal memory access was encountered",
        "",
        "```",
        'ERROR 01-20 18:39:37 engine.py:135]   File "/opt/vllm/engine/multiprocessing/engine.py", '
        "line 133, in start",
        "ERROR 01-20 18:39:37 engine.py:135]     self.run_engine_loop()",
        'ERROR 01-20 18:39:37 engine.py:135]   File "/opt/vllm/engine/multiprocessing/engine.py", '
        "line 196, in run_engine_loop",
        "ERROR 01-20 18:39:37 engine.py:135]     request_outputs = self.engine_step()",
    ).first_death

    assert (death.role.value, death.cause.kind) == ("engine-core", CauseClass.GPU_ASYNC)


def test_a_sentence_names_a_function_in_camel_case() -> None:
    death = incident_of("I get a segfault inside poolTakeBlock on each start.").first_death

    assert death.function == "poolTakeBlock"


DUMP = (
    "Process 42: VLLM::EngineCore",
    "Python v3.12.3 (/usr/bin/python3.12)",
    'Thread 42 (active): "MainThread"',
    "    take (pool.py:12)",
)


def test_a_hung_server_is_the_one_that_was_looked_into() -> None:
    death = incident_of("# [Bug]: the server hangs under load", "", *DUMP).first_death

    assert (death.cause.kind, death.cause.certainty) == (CauseClass.HANG, Certainty.LIKELY)
    assert (death.pid, death.name, death.python_function) == (42, "VLLM::EngineCore", "take")
    assert death.role is ProcessRole.ENGINE_CORE


def test_a_watchdog_of_another_rank_does_not_speak_of_the_process_that_was_looked_into() -> None:
    death = incident_of(
        "[2026-01-15 08:12:45 PP1 TP1] Watchdog timeout (self.watchdog_timeout=300)",
        "[2026-01-15 08:12:45 PP0 TP0] Pyspy dump for PID 42:",
        "Process 42: sglang::scheduler_PP0_TP0",
        *DUMP[1:],
    ).first_death

    assert (death.name, death.pid, death.role) == ("PP1 TP1", None, ProcessRole.WORKER)


@pytest.mark.parametrize(
    "lines",
    [
        DUMP,
        ("# Question about profiling", "", *DUMP),
        ("# The server crashes now and then", "", *DUMP),
    ],
)
def test_a_living_processs_stack_is_no_death(lines: tuple[str, ...]) -> None:
    assert all(one.first_death.pid is None for one in incidents_of(*lines))


def test_a_container_that_the_kubelet_ended_did_not_run_out_of_memory() -> None:
    probe = "Normal  Killing  5m  kubelet  Container serve failed liveness probe, will be restarted"
    alone = incident_of(probe).first_death
    described = incident_of(
        "    Reason:  Completed", "    Exit Code:    137", "", probe
    ).first_death

    assert (alone.name, alone.cause.kind) == ("serve", CauseClass.UNKNOWN)
    assert alone.cause.detail == "the kubelet ended it: failed liveness probe"
    assert (described.signal, described.cause) == ("SIGKILL", alone.cause)


def test_a_failed_probe_explains_no_fault() -> None:
    death = incident_of(
        "Segmentation fault (core dumped)",
        "Container serve failed liveness probe, will be restarted",
    ).first_death

    assert death.cause.kind is CauseClass.NATIVE_FAULT


def test_a_status_in_yaml_that_is_no_lack_of_memory_leaves_the_cause_open() -> None:
    death = incident_of("terminated:", "  exitCode: 137", "  reason: Error").first_death

    assert (death.signal, death.cause.kind) == ("SIGKILL", CauseClass.UNKNOWN)


def test_the_title_that_an_interpreter_gave_itself_is_its_name_and_no_place() -> None:
    death = incident_of(
        "terminate called after throwing an instance of 'c10::Error'",
        "frame #0: ns::take(int) + 0x64 (0x7fe0430fc6e4 in /opt/lib/libpool.so)",
        "frame #1: _PyEval_EvalFrameDefault + 0x5102 (0x54ece2 in sglang::scheduler_TP0)",
        "frame #2: <unknown function> + 0x29d90 (0x717e1f7cad90 in /usr/lib/libc.so.6)",
        "frame #3: _start + 0x25 (0x6094a5 in sglang::scheduler_TP0)",
    ).first_death

    assert (death.name, death.role) == ("sglang::scheduler_TP0", ProcessRole.WORKER)
    assert (death.function, death.module) == ("ns::take", "libpool.so")


def test_a_title_may_name_another_signal_than_glibcs_words_imply() -> None:
    death = incident_of(
        "# EngineCore crashes with SIGSEGV (`realloc(): invalid pointer`)",
        "",
        "Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.",
    ).first_death

    assert (death.signal, death.cause.kind) == ("SIGSEGV", CauseClass.HEAP_CORRUPTION)


def test_a_frame_of_which_nothing_is_known_has_no_function() -> None:
    death = incident_of(
        "Segmentation fault (core dumped)", "#0  0x00007f1be0001234 n/a (n/a)"
    ).first_death

    assert (death.function, death.module) == (None, None)


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: f:build/a.ts:47 NPU function error: aclrtSync(stream), error code is 507048",
        "RuntimeError: ACL stream synchronize failed, error code:507035",
        "(Worker_TP1 pid=42) ERROR 01-15 08:12:45 [multiproc_executor.py:9] EH9999: Inner Error!",
        "The error from device(chipId:4, dieId:0), there is an exception of fftsplus aicore error",
        "RuntimeError: Native API failed. Native API returns: 20 (UR_RESULT_ERROR_DEVICE_LOST)",
        "RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)",
        "libc++abi: terminating due to uncaught exception of type vk::DeviceLostError: lost",
        "RuntimeError: synStatus=26 [Generic failure] Device acquire failed.",
        "[  +0.000002] amdgpu 0000:03:00.0: amdgpu: GCVM_L2_PROTECTION_FAULT_STATUS:0x00841051",
        "# Memory access fault - page not present or supervisor privilege, gfx1031",
        "RuntimeError: MUSA error: an illegal memory access was encountered",
        "RuntimeError: [TM][ERROR] CUDA runtime error: misaligned address /src/f.cc:12",
        "# [Bug]: \u62a5\u9519NPU function error: aclrtSync(event_), error code is 107020",
    ],
)
def test_every_accelerator_reports_its_errors_late(line: str) -> None:
    assert incident_of(line).first_death.cause.kind is CauseClass.GPU_ASYNC


def test_an_accelerator_without_memory_is_no_broken_one() -> None:
    assert not incidents_of("Native API returns: -5 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)")


@pytest.mark.parametrize(
    ("title", "detail"),
    [
        ("# [Bug]: RuntimeError: [TM] no such pool", "RuntimeError: [TM] no such pool"),
        ("# vllm serve crashes with KeyError: 'pool.0'", "KeyError: 'pool.0'"),
        ("# \u62a5\u9519pool.PoolError: it is empty", "pool.PoolError: it is empty"),
    ],
)
def test_an_exception_that_only_a_title_tells_is_likely(title: str, detail: str) -> None:
    cause = incident_of(title, "", "It worked before.").first_death.cause

    assert (cause.kind, cause.certainty) == (CauseClass.PYTHON_EXCEPTION, Certainty.LIKELY)
    assert cause.detail == detail


@pytest.mark.parametrize(
    "title",
    [
        "# fix: KeyError: 'pool' on start",
        "# How to handle ValueError: no pool",
        "# [Feature]: a better message for ValueError: no pool",
    ],
)
def test_a_title_of_a_change_or_a_question_tells_of_no_exception(title: str) -> None:
    assert not incidents_of(title, "", "This patch mends it.")


def test_what_a_log_prints_counts_for_more_than_the_exception_in_its_title() -> None:
    death = incident_of(
        "# [Bug]: RuntimeError: the engine is gone", "", "Worker died (-11)", "Segmentation fault"
    ).first_death

    assert death.signal == "SIGSEGV"


def test_a_crash_in_a_title_is_not_the_exception_that_followed_it() -> None:
    death = incident_of("# worker 'gw1' crashed - internal error KeyError: <W gw1>", "", "so it is")

    assert death.first_death.cause.kind is CauseClass.UNKNOWN


def test_a_titles_fault_is_that_of_the_only_process_whose_lines_stand_below() -> None:
    lines = [f"(RayWorkerWrapper pid=42) {at} 0x0000000000004493 ???()" for at in range(12, 24)]
    death = incident_of("# [Bug]: Segmentation fault when running", "", *lines).first_death

    assert (death.signal, death.pid, death.role) == ("SIGSEGV", 42, ProcessRole.RAY_ACTOR)


@pytest.mark.parametrize(
    "name", ["CUDA_ERROR_ILLEGAL_ADDRESS", "cudaErrorLaunchFailure", "hipErrorIllegalAddress"]
)
def test_a_kernels_error_is_known_by_its_name(name: str) -> None:
    death = incident_of(
        f"# [Bug] {name} in the fused path", "", "It is so since today."
    ).first_death

    assert death.cause.kind is CauseClass.GPU_ASYNC


def test_who_waited_for_a_collective_operation_is_one_of_a_group() -> None:
    death = incident_of("# Watchdog caught collective operation timeout: after a while").first_death

    assert (death.cause.kind, death.role) == (CauseClass.HANG, ProcessRole.WORKER)


@pytest.mark.parametrize(
    ("title", "sentence"),
    [
        ("# [Bug]: vLLM hang", "See above."),
        ("# VLLM seems be hang", "See above."),
        ("# It ignores my requests", "I send nine requests but it starts to hang with ten."),
    ],
)
def test_who_says_that_a_server_hangs_is_believed(title: str, sentence: str) -> None:
    cause = incident_of(title, "", sentence).first_death.cause

    assert (cause.kind, cause.certainty) == (CauseClass.HANG, Certainty.LIKELY)


def test_a_gpu_without_a_fault_in_its_status_and_a_controllers_fault_are_none_of_a_gpus() -> None:
    assert not incidents_of("amdgpu: VM_L2_PROTECTION_FAULT_STATUS:0x00000000")
    assert not incidents_of("# Memory access fault register of the controller", "", "Its bits.")


@pytest.mark.parametrize(
    "line",
    [
        "WARNING worker.py:2037 -- The node with node id: 4c44 and address: 10.0.3.192 has been "
        "marked dead because the detector has missed too many heartbeats from it. This can happen",
        "(raylet) [Timeout] Exiting because this node manager has mistakenly been marked as dead",
        "[2026-01-15 08:12:45,789 C 149 149] node.cc:1: This node has been marked as dead.",
    ],
)
def test_a_node_that_is_no_longer_heard_of_is_dead_for_a_reason_that_nobody_tells(
    line: str,
) -> None:
    assert incident_of(line).first_death.cause.kind is CauseClass.UNKNOWN


def test_a_late_heartbeat_and_the_code_that_speaks_of_dead_nodes_are_no_death() -> None:
    assert not incidents_of("node_manager.cc:157: Last heartbeat was sent 6901 ms ago.")
    assert not incidents_of(
        '   << "Exiting because this node manager has mistakenly been marked dead by the "'
    )


def test_a_signal_that_somebody_names_counts_for_more_than_a_wait_that_he_mentions() -> None:
    death = incident_of(
        "# The engine segfaults on start", "", "I saw that with the other one it hangs for a while."
    ).first_death

    assert death.signal == "SIGSEGV"


def test_a_terminals_copy_that_joined_its_lines_is_read_line_by_line() -> None:
    death = incident_of(
        'Thread 1 "main" received signal SIGSEGV, Segmentation fault.',
        f"(gdb) bt{' ' * 40}#0  0x00005555555c49cf in pool_init ()",
        f"#1  0x000055555559dcfa in pool_take (int) (){' ' * 20}#2  0x000055555556dc8a in main ()",
    ).first_death

    assert (death.signal, death.function) == ("SIGSEGV", "pool_init")


def test_what_a_handlers_library_does_besides_is_a_place() -> None:
    death = incident_of(
        "!!!!!!! Segfault encountered !!!!!!!",
        '  File "<unknown>", line 0, in TVMFFISegFaultHandler',
        '  File "<unknown>", line 0, in TVMFFIEnvRegisterCAPI',
    ).first_death

    assert death.function == "TVMFFIEnvRegisterCAPI"


def test_an_example_of_a_message_is_no_death() -> None:
    assert not incidents_of(
        'Example error text: "child process for step <step> exited with code -9"'
    )


@pytest.mark.parametrize("words", ["unhandled cuda error", "unhandled system error, NCCL 2.21.5"])
def test_what_nccl_leaves_unhandled_is_an_error_of_the_gpu(words: str) -> None:
    death = incident_of(f"# NCCL {words} in the second step", "", "I get this since today.")

    assert death.first_death.cause.kind is CauseClass.GPU_ASYNC


@pytest.mark.parametrize(
    "line",
    [
        "# [Bug]: No available block found in 60 second.",
        "(EngineCore_DP0 pid=42) INFO 01-15 08:12:45 [shm_broadcast.py:466] No available shared "
        "memory broadcast block found in 60 seconds. This typically happens when some processes "
        "are hanging or doing some time-consuming work (e.g. compilation).",
    ],
)
def test_a_wait_for_a_block_is_a_hang_where_nothing_else_is_told(line: str) -> None:
    death = incident_of(line).first_death
    other = incident_of(line, "Worker proc VllmWorker-1 died unexpectedly, shutting down executor.")

    assert (death.cause.kind, death.cause.certainty) == (CauseClass.HANG, Certainty.LIKELY)
    assert other.first_death.name == "VllmWorker-1"


def test_the_driver_names_the_process_that_used_the_gpu() -> None:
    death = incident_of(
        "[Fri Jun  5 01:02:42 2026] NVRM: Xid (PCI:0000:10:00): 31, pid=42, name=python3, Ch 9, MMU"
    ).first_death

    assert (death.pid, death.name, death.cause.kind) == (42, "python3", CauseClass.GPU_ASYNC)


def test_threads_that_write_into_each_others_headings_died_of_the_same() -> None:
    death = incident_of(
        "Fatal Python error: Fatal Python error: Segmentation faultSegmentation faultFatal Python",
        "",
        "Fatal Python error: Thread 0xFatal Python error: Segmentation faultFatal Python error: ",
    ).first_death

    assert (death.signal, death.cause.kind) == ("SIGSEGV", CauseClass.NATIVE_FAULT)


def test_a_report_that_quotes_a_program_is_no_file_of_source_code() -> None:
    death = incident_of(
        "# [Bug]: vLLM crashes with SIGABRT during inspection",
        "",
        "It goes through here:",
        "    msg = (",
        '        "*** Detected a dump at {} ***".format(',
        "            latest",
        "        )",
        "    )",
        "    print(msg, file=sys.stderr)",
    ).first_death

    assert (death.signal, death.name) == ("SIGABRT", "vLLM")


def test_the_kernels_way_back_is_no_place_whatever_symbol_stands_nearest() -> None:
    death = incident_of(
        "[node:67   :0:70] Caught signal 11 (Segmentation fault: address not mapped)",
        "==== backtrace (tid:     70) ====",
        " 0 0x00000000000143c0 __funlockfile()  ???:0",
        " 1 0x000000000001ef3a ns::Pool::Pool()  :0",
    ).first_death

    assert death.function == "ns::Pool::Pool"


def test_pytorchs_frames_whose_words_were_cut_off_say_where_a_told_crash_was() -> None:
    frame = "(RayWorkerWrapper pid=42, ip=10.0.0.1) frame #"
    death = incident_of(
        "# [Bug]: the server runs, then crashes",
        "",
        f"{frame}0: c10::Error::Error(c10::SourceLocation) + 0x96 (0x7f24 in libc10.so)",
        f"{frame}1: <unknown function> + 0xe4271b (0x7f1a3a8af71b in /opt/lib/libtorch_cuda.so)",
        f"{frame}2: <unknown function> + 0xdc253 (0x7f24993a3253 in /lib/libstdc++.so.6)",
    ).first_death

    assert (death.pid, death.module) == (42, "libtorch_cuda.so")


def test_a_watchdogs_frames_alone_tell_a_wait() -> None:
    death = incident_of(
        "# NCCL timeout at the end of an epoch",
        "",
        "frame #0: c10::Error::Error(c10::SourceLocation) + 0x96 (0x7f24 in libc10.so)",
        "frame #1: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout(std::optional<long>) + 0x1d2 "
        "(0x7f25 in libtorch_cuda.so)",
        "frame #2: clone + 0x43 (0x7f26 in /lib/libc.so.6)",
    ).first_death

    assert death.cause.kind is CauseClass.HANG


def test_a_fault_of_the_interpreters_own_is_there() -> None:
    death = incident_of(
        "!!! uWSGI process 42 got Segmentation Fault !!!",
        "*** backtrace of 42 ***",
        "uwsgi(uwsgi_backtrace+0x2e) [0x45567e]",
        "uwsgi(uwsgi_segfault+0x21) [0x455a51]",
        "/lib/x86_64-linux-gnu/libc.so.6(+0x36ff0) [0x7f67d9522ff0]",
        "/usr/lib/libpython3.12.so.1.0(PyTraceBack_Print+0xb8) [0x7f67d9aa5ad8]",
        "/usr/lib/libpython3.12.so.1.0(+0x93e88) [0x7f67d9946e88]",
    ).first_death

    assert (death.function, death.module) == ("PyTraceBack_Print", "libpython3.12.so.1.0")


def test_a_worker_that_did_not_stop_was_ended_by_its_master() -> None:
    death = incident_of(
        "worker 2 (pid: 42) is taking too much time to die...NO MERCY !!!",
        "DAMN ! worker 2 (pid: 42) died, killed by signal 9 :( trying respawn ...",
    ).first_death

    assert (death.pid, death.signal) == (42, "SIGKILL")
    assert "uWSGI's master sent" in death.cause.detail


def test_the_gpus_kernel_driver_names_the_process() -> None:
    line = (
        "amdgpu 0000:0b:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32770, "
        "for process serve pid 42 thread serve pid 42)"
    )

    assert (incident_of(line).first_death.pid, incident_of(line).first_death.name) == (42, "serve")
