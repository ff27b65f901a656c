"""Raw frames that name no module: Fuchsia's, and those of the markup symbolizer elsewhere."""

from vllm_forensics.evidence.sanitizer.scan import parse_sanitizer_log

MODULES = (
    "{{{reset}}}\n"
    "{{{module:0:libq.so:elf:83238ab56ba10497}}}\n"
    "{{{mmap:0x7acba69d5000:0x5a000:load:0:rx:0x1000}}}\n"
    "{{{module:1:app:elf:00ff}}}\n"
    "{{{mmap:0x500000:0x1000:load:1:rx:0x0}}}\n"
)
HEADER = (
    "==31==ERROR: AddressSanitizer: heap-use-after-free on address 0x0b10 at pc 0x7acba69d5210\n"
    "{{{bt:0:0x7acba69d5210:pc}}}\n"
)
REPORT = HEADER + (
    "{{{bt:1:0x500101:ra}}}\n"
    "{{{bt:2:0x900000:ra}}}\n"
    "freed by thread T0 here:\n"
    "{{{bt:0:0x500200:ra}}}\n"
)


def frames(log: str) -> list[list[tuple[str | None, str | None, str | None]]]:
    (report,) = parse_sanitizer_log([log.encode()]).reports
    return [
        [(frame.module, frame.offset, frame.build_id) for frame in event.frames]
        for event in report.chain
    ]


def test_a_frame_gets_the_module_that_the_log_named_before() -> None:
    noise = "[00012.345] 1102.1105> hello\n" * 40

    assert frames(MODULES + noise + REPORT) == [
        [("app", "0x1ff", "00ff")],
        [("libq.so", "0x1210", "83238ab56ba10497"), ("app", "0x100", "00ff"), (None, None, None)],
    ]


def test_the_modules_may_stand_within_the_report() -> None:
    first, rest = REPORT.split("\n", 1)

    assert frames(f"{first}\n{MODULES}{rest}") == frames(MODULES + REPORT)


def test_a_prefix_changes_nothing() -> None:
    log = "".join(f"[00012.345] 1102.1105> {line}\n" for line in (MODULES + REPORT).splitlines())

    assert frames(log) == frames(MODULES + REPORT)


def test_the_modules_of_another_process_replace_them() -> None:
    other = MODULES.replace("libq.so", "other.so").replace("0x7acba69d5000", "0x7acba69d0000")

    assert frames(MODULES + "noise\n" * 40 + other.replace("{{{reset}}}\n", "") + HEADER) == [
        [("other.so", "0x6210", "83238ab56ba10497")]
    ]


def test_braces_of_another_meaning_stay() -> None:
    log = "{{{mmap:zz:0x1:load:0:rx:0x0}}} {{{bt:x}}} {{{month}}}\n" + HEADER

    assert frames(log) == [[(None, None, None)]]
