"""What kernels, the systems' crash reporters and programs' crash reports print.

A table of native frames' forms; see `frame_form`.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.stacks.frame_form import Form
from vllm_forensics.model.incident import OOPS

SYSTEMS: Final = (
    Form(  # the first has no number
        writer="Delphi's JCL",
        example='(0000E5E2){serve.exe   } [0040F5E2] Pool.Take (Line 88, "Pool.pas") + $4',
        pattern=r"\s{0,8}\([0-9A-F]{8,16}\)\{(?P<module>[\w.+-]{1,60}) {0,20}\} "
        r"\[[0-9A-F]{8,16}\](?: (?P<function>[A-Za-z@_][\w.$@<>]{1,200}))?",
        begins=r"\(",
        holds="} [",
    ),
    Form(
        writer="Delphi's JCL, of its own exceptions",
        example='[0040F5E2]{serve.exe   } Pool.Take (Line 88, "Pool.pas" + 4) + $4',
        pattern=r"\s{0,8}\[[0-9A-F]{8,16}\]\{(?P<module>[\w.+-]{1,60}) {0,20}\}"
        r"(?: (?!Unknown )(?:[\w.]{1,80}\.(?=Unknown ))?(?P<function>[A-Za-z@_][\w.$@<>]{1,200}))?",
        begins=r"\[",
        holds="]{",
    ),
    Form(  # newer ones put the offset in the module between them
        writer="EurekaLog",
        example="|7FFFFFFE|04      |0018F8E4|0040F5E2|serve.exe|0000E5E2|Pool   |Pool   |TPool  "
        "|Take     |88[2]|",
        pattern=r"\|(?:[^|]{0,24}\|){0,3}[0-9A-F]{8,16} {0,12}\|(?P<module>[\w+-][\w.+-]{0,60}\."
        r"(?:exe|dll|bpl|ocx)) {0,80}\|(?:[0-9A-F]{8,16} {0,12}\|[^|]{0,80}\|)?[^|]{0,80}\|"
        r"[^|]{0,80}\|(?P<function>[^|\s]{1,200}) {0,80}\|",
        begins=r"\|",
        holds="|",
    ),
    Form(  # without the function where a file has no symbols
        writer="Free Pascal",
        example="  $00428F86  TPOOL__TAKE,  line 88 of src/pool.pas",
        pattern=r"\s{0,4}\$[0-9A-Fa-f]{8,16} {1,2}(?:(?P<function>[A-Za-z_]\w{0,200}),? {1,2})?"
        r"line (?P<line>\d{1,7}) of (?=(?:[^\s/\\]{0,80}[/\\]){0,20}(?P<module>[\w.-]{1,80})$)"
        r"(?P<file>\S{1,240})$",
        begins=r"\$",
        holds=" of ",
    ),
    Form(
        writer="madExcept",
        example="0040f5e2 +00b serve.exe Pool   88   +4 TPool.Take",
        pattern=r"[0-9a-f]{8,16} (?:\+[0-9a-f]{3,6} )?(?P<module>[\w.+-]{1,60}\.\w{3}) {1,60}"
        r"(?:[\w.]{1,60} {1,60})?(?:\d{1,6} {1,8})?(?:\+\d{1,5} )?"
        r"(?P<function>[A-Za-z@_][\w.$@<>:]{1,200})$",
        begins="[0-9a-f]",
        holds=" ",
    ),
    Form(
        writer="Solaris' pstack",
        example=" 00007fff0001234 take (0, 48) + 12",
        pattern=r"\s{0,4}[0-9a-f]{8,16} (?P<function>[A-Za-z_~][\w:~.<>]{0,300}) {1,4}"
        r"\([^()]{0,200}\)(?: \+ [0-9a-f]{1,8})?$",
        begins="[0-9a-f]",
        holds=" (",
    ),
    Form(  # what atos prints, and crash reports that were read with it
        writer="macOS' atos",
        example="ns::f(int) (in Example Framework) (f.cc:12)",
        pattern=r"\s{0,8}(?P<function>[A-Za-z_~+-][^\n]{1,600}?) \(in (?P<module>[\w .+-]{1,80})\) "
        r"(?:\((?P<file>[\w.+-]{1,120}):(?P<line>\d{1,7})\)|\+ \d{1,9}\b)",
        begins=r"[\w~+-]",
        holds=" (in ",
    ),
    Form(  # in apport's fields
        writer="gdb, without numbers",
        example="take (pool=0x0) from /usr/lib/libpool.so.1",
        pattern=r" ?(?P<function>[A-Za-z_~][\w:~<>]{0,200}) \([^()]{0,300}\) "
        r"from (?P<module>/\S{1,240})$",
        begins="[A-Za-z_~]",
        holds=") from /",
    ),
    Form(  # below logcat's prefix
        writer="Android",
        example="#00 pc 000000000001e020  /data/app/lib/libexample.so (f+32)",
        pattern=r"(?:.{0,140}?\s)?#\d{2,3}\s{1,4}pc (?P<pc>(?:0x)?[0-9a-f]{4,16})\s{1,4}"
        r"(?P<module>\S{1,240})(?: \(offset 0x[0-9a-f]{1,16}\))?(?: \((?!BuildId)"
        r"(?P<function>[^+]{1,400}?)(?:\+\d{1,9})?\)(?: .{0,100})?| \(BuildId.{0,100})?$",
        begins=".",
        holds="pc ",
    ),
    Form(  # its arguments stand before it
        writer="OBS",
        example="000000583264FD70 00007FFFE8C74EFC 0000000000000048 0000000000000000 "
        "0000000000000000 0000000000000000 pool.dll!ns::take+0xbc",
        pattern=r"(?:[0-9A-F]{16} ){6}(?P<module>[\w.+-]{1,80})!"
        r"(?:0x[0-9a-f]{4,16}$|(?P<function>[A-Za-z_~][^+]{0,300}))",
        begins="[0-9A-F]",
        holds="!",
    ),
    Form(
        writer="Blender",
        example="pool.pyd            :0x00007FFF63EEE850  ns_take",
        pattern=r"(?P<module>[\w.+-]{1,120})\s{0,40}:0x[0-9A-F]{12,16}\s{1,4}"
        r"(?P<function>Symbols not available|[A-Za-z_~]\S{0,300})",
        begins=r"[\w.+-]",
        holds=":0x",
    ),
    Form(  # older ones without the offset
        writer="systemd-coredump",
        example="#0  0x00007f1be0001234 n/a (libexample.so + 0x1234)",
        pattern=r"\s*#\d{1,3}\s+0x[0-9a-f]+ (?P<function>\S{1,400}) "
        # its end may be cut off with the text
        r"\((?P<module>(?!\S{1,240}\+0x)[^()\s]{1,240})(?: \+ (?P<offset>0x[0-9a-f]+))?"
        r"(?:\)|(?<=\.so))$",
        begins="#",
        holds=" (",
    ),
    Form(  # LLVM there: without tabs
        writer="macOS",
        example="5   _C.so    0x0000000104e95123 f(int) + 687",
        pattern=r"\s*(?:\[ ?\d{1,3}\] )?\d{1,3}\s{1,8}"
        r"(?P<module>\S(?:[^\t]{0,80}?\S)?)\s{1,40}0x[0-9a-f]{6,16} "
        r"(?P<function>\S.{0,400}?)(?: \+ (?P<within>\d{1,20})\b|,?$)",
        begins=r"[\d\[]",
        holds="0x",
    ),
    Form(
        writer="macOS, cut off behind its library",
        example="3   QtCore",
        pattern=r"\d{1,3} {1,8}(?P<module>[A-Za-z][\w.+-]{1,80})\s{0,40}(?:0x?[0-9a-f]{0,16})?$",
        begins=r"\d",
        holds=" ",
        source="macOS",
    ),
    Form(
        writer="Socorro, of the first frames",
        example="0 libexample.so ns::Pool::take src/pool.cpp:88",
        pattern=r"\s{0,4}\d{1,3} {1,2}(?P<module>[\w.+-]{1,80}\.(?:so|dll|dylib|exe)|XUL) {1,2}"
        r"(?P<function>[A-Za-z_~<].{0,400}?) {1,2}(?P<file>[\w./+-]{1,240}\.\w{1,4}):"
        r"(?P<line>\d{1,7})$",
        begins=r"\d",
        holds=":",
    ),
    Form(  # libexample.so!f, and without symbols libexample.so + 0x1234
        writer="Breakpad's minidump_stackwalk",
        example=" 0  libexample.so!ns::f(int) [f.cpp : 12 + 0x4]",
        pattern=r"\s{0,4}\d{1,3}  (?:(?P<program>(?!dyld)[a-z][\w-]{1,60})(?=!| \+ 0x)|"
        r"(?P<module>[\w.+-]{1,120}(?: [A-Z][\w.+-]{1,40}){0,3}))"
        r"(?:!(?P<function>[^\[+]{1,400}?))?(?: \[.{1,240})? \+ (?P<offset>0x[0-9a-f]{1,16})\]?$",
        begins=r"\d",
        holds=" + 0x",
        source="a debugger",
    ),
    Form(
        writer="OpenBSD's kernel",
        example="take(ffff80003c424fe0,81) at take+0x45f sys/kern/pool.c:142",
        pattern=r"[A-Za-z_]\w{0,80}\([0-9a-f,]{0,200}\) at "
        r"(?P<function>\w{1,80})\+(?P<offset>0x[0-9a-f]{1,8})"
        r"(?: (?P<file>[\w./-]{1,120}):(?P<line>\d{1,6}))?(?: \[inline\])?$",
        begins="[A-Za-z_]",
        holds=") at ",
        source=OOPS,
    ),
    Form(
        writer="FreeBSD's kernel",
        example="#6 0xffffffff821683d4 at take_pool+0x344",
        pattern=r"\s*#\d{1,3} 0x[0-9a-f]{8,16} at (?P<function>\w{1,120})\+0x[0-9a-f]{1,8}$",
        begins="#",
        holds=" at ",
    ),
    Form(  # of its registers: where the kernel was. Older ones print the address once or twice
        writer="the kernel",
        example="RIP: 0010:pool_take+0x18/0x64 [pool]",
        pattern=r"\s{0,4}(?:[RE]?IP(?: is at |: {0,2}(?:[0-9a-f]{4}:)?\s{0,2}|\s{1,2})"
        r"(?:\[<?[0-9a-f]{0,16}>?\]\s{1,2}){0,2}|PC is at |e?pc {0,4}: (?:[0-9a-f]{8,16} )?|"
        r"NIP \[[0-9a-f]{8,16}\] |Krnl PSW : [0-9a-f ]{17,40}\()"
        r"\.?(?P<function>[A-Za-z_][\w.]{0,120})\+(?P<offset>0x[0-9a-f]{1,8})/0x[0-9a-f]{1,8}"
        r"(?: \[(?P<module>[\w-]{1,60})\])?",
        begins="[REIPpeNK]",
        holds="+0x",
        source=OOPS,
    ),
)
