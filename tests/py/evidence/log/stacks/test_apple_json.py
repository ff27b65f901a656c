"""Apple's crash reports as JSON: the frames on one line, the libraries' names below."""

from vllm_forensics.evidence.log.scan import parse_incident_log
from vllm_forensics.model.incident import NativeCall

EXCEPTION = '  "exception" : {"codes":"0x1, 0x48","type":"EXC_BAD_ACCESS","signal":"SIGSEGV"},\n'
THREADS = (
    '  "faultingThread" : 1,\n'
    '  "threads" : [{"id":42,"frames":[{"imageOffset":16,"symbol":"wait","imageIndex":0}]},'
    '{"triggered":true,"id":43,"queue":"pool","frames":['
    '{"imageOffset":4660,"symbol":"take","symbolLocation":16,"imageIndex":2},'
    '{"imageOffset":256,"imageIndex":1}]}],\n'
)
IMAGES = """  "usedImages" : [
  {
    "source" : "P",
    "base" : 4341350400,
    "path" : "/usr/lib/libwait.dylib",
    "name" : "libwait.dylib"
  },
  {
    "size" : 0,
    "source" : "A"
  },
  {
    "source" : "P",
    "name" : "_pool.so"
  }
],
  "sharedCache" : {
    "name" : "cache"
  },
"""


def test_frames_get_the_libraries_that_are_listed_behind_them() -> None:
    (clue,) = parse_incident_log([(EXCEPTION + THREADS + IMAGES).encode()]).clues

    assert clue.signal == "SIGSEGV"
    assert clue.native == (
        NativeCall(function="take", module="_pool.so", offset="0x1234"),
        NativeCall(function=None, module=None, offset="0x100"),
    )


def test_a_report_without_its_signal_still_tells_of_a_death() -> None:
    (clue,) = parse_incident_log([THREADS.encode()]).clues

    assert clue.signal is None
    assert [call.function for call in clue.native] == ["take", None]


def test_a_report_that_ends_within_the_threads_keeps_its_frames() -> None:
    cut = EXCEPTION + THREADS[: THREADS.index(',"symbolLocation"')]

    (clue,) = parse_incident_log([cut.encode()]).clues

    assert [call.function for call in clue.native] == ["take"]
