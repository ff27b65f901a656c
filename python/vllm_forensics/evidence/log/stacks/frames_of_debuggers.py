"""What gdb, LLDB, WinDbg, Visual Studio and valgrind print.

A table of native frames' forms; see `frame_form`.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.stacks.frame_form import Form

_GDB: Final = (
    r"(?P<function>(?:\(anonymous namespace\)::)?[\w~?]"
    r"(?:[^(]|\(anonymous namespace\)|(?<=operator)\(\)){0,400}?)"
    r" ?(?!(?<=operator)\(\))\((?!anonymous namespace\))"
)
"""A name, and where its arguments begin."""
DEBUGGERS: Final = (
    Form(  # the numbers that stand between are the arguments
        writer="WinDbg, STACK_TEXT",
        example="00000016`f1f7b510 00007ffa`366f44c4 : 0000000000000048 0 : pool!ns::take+0x12",
        pattern=r"[0-9a-f]{8}`?[0-9a-f]{0,8} [0-9a-f]{8}`?[0-9a-f]{0,8} {1,6}: .{0,160}? : "
        r"(?P<module>[\w.+-]{1,80})!(?P<function>[A-Za-z_~][^+\s]{0,300})",
        begins="[0-9a-f]",
        holds="!",
    ),
    Form(  # without arguments, and without symbols pool+0x1599
        writer="WinDbg, Child-SP",
        example="00000094`6d9eb6e0 00007ffd`9380d2cf pool!ns::take+0x4e",
        pattern=r"[0-9a-f]{8}`[0-9a-f]{8} [0-9a-f]{8}`[0-9a-f]{8} (?P<module>[\w.-]{1,80})"
        r"(?:!(?P<function>[^+\s][^+]{0,300}))?(?:\+(?P<offset>0x[0-9a-f]{1,12}))?$",
        begins="[0-9a-f]",
        holds="`",
    ),
    Form(
        writer="WinDbg, its verdict",
        example="SYMBOL_NAME:  pool!ns::take+12",
        pattern=r"\s*(?:SYMBOL_NAME: {1,4}|ExceptionAddress: [0-9a-f]{8,16} \()"
        r"(?P<module>[\w.+-]{1,80})!(?P<function>[A-Za-z_~][^+\s]{0,300})",
        begins="[SE]",
        holds="!",
    ),
    Form(  # behind the frame's address three arguments
        writer="DrMingw",
        example="00007FFA7F9E1BF6 00000001000FAF98 00000185C45E1E00  pool.dll!ns::take+0x56",
        pattern=r"(?:[0-9A-F]{8,16} {1,4}){2,6}(?P<module>[A-Za-z_][\w.+-]{0,80})!"
        r"(?P<function>[^\s+][^+\[]{0,300}?)(?:\+0x[0-9a-f]{1,12})?(?: {1,4}\[.{0,240})?$",
        begins="[0-9A-F]",
        holds="!",
    ),
    Form(
        writer="LLDB",
        example="  * frame #0: 0x00000001038b1019 libexample.dylib`f + 25",
        pattern=r"\s*(?:\* )?frame #\d{1,4}: 0x[0-9a-f]{6,16} (?P<module>[^`\s]{1,240})`"
        r"(?P<function>\S.{0,1500}?)(?: \+ (?P<within>\d{1,9})|"
        r" at (?:(?P<file>\S{1,240}?):(?P<line>\d{1,7})|\S)|$)",
        begins="[*f]",
        holds="`",
        names_program=True,
    ),
    Form(
        writer="LLDB, of which somebody left the names",
        example="  libexample.dylib`ns::f<false, true> + 44",
        pattern=r"\s+(?P<module>[\w.+-]{1,120}\.(?:dylib|so)[\d.]{0,12})`"
        r"(?P<function>[A-Za-z_~][^`]{0,400}?)(?: \+ \d{1,9})?\s*$",
        begins=r"[\w.+-]",
        holds="`",
    ),
    Form(  # the instruction that was to come; its window draws a frame of its own
        writer="gdb, x/i $pc",
        example="=> 0x7f1be0001234 <ns::f(int)+288>:\tmov    %rax,%r13",
        pattern=r"[\s\u2502|]*=?>\s+0x[0-9a-f]{6,16} <(?P<function>[A-Za-z_~][^<>+]{0,300})"
        r"\+\d{1,9}>",
        begins=r"[=>\u2502|]",
        holds=" <",
    ),
    Form(  # where it stopped, without a number
        writer="gdb",
        example="f (a=1) at src/f.c:12",
        pattern=r"(?P<function>[A-Za-z_][\w:~]{0,300}) \([^\n]{0,800}\) at "
        r"(?P<file>\S{1,240}?):(?P<line>\d{1,7})$",
        begins=r"[A-Za-z_]",
        holds=") at ",
        source="a signal handler",
    ),
    Form(
        writer="gdb, where it stopped, broken before its source",
        example="f (a=1, nofail=0)",
        pattern=r"(?P<function>[A-Za-z_][\w:~]{0,300}) \((?:[\w@]{1,60}=[^\n]{1,800})?\)\s*$",
        begins=r"[A-Za-z_]",
        holds=" (",
        source="a signal handler",
    ),
    Form(
        writer="WinDbg",
        example="00 000000e1`2a5fd6a8 00007ffd`3e1f1234     example!ns::f+0x14",
        # [0x0]   example!ns::f+0x14; and without symbols example+0x1234
        pattern=r"\s*(?:\[0x[0-9a-f]{1,3}\]|#? ?[0-9a-f]{2})\s{1,4}"
        r"(?:(?:\(Inline(?: Function)?\)|[0-9a-f]{8}`[0-9a-f]{8})\s{1,4}"
        r"[0-9a-f-]{8,9}`?[0-9a-f-]{0,8}\s{1,6})?"
        r"(?P<module>[A-Za-z_][\w.-]{0,120})"
        r"(?:!(?P<function>[^\s+][^+]{0,400}?))?\+(?P<offset>0x[0-9a-f]{1,12})\b",
        begins=r"[\[#0-9a-f]",
        holds="+0x",
    ),
    Form(
        writer="WinDbg, of what was inlined",
        example=r"00 (Inline Function) --------`--------     example!ns::f [D:\src\f.h @ 3522] ",
        pattern=r"\s*[0-9a-f]{2} \(Inline(?: Function)?\)\s{1,4}-{8}`?-{0,8}\s{1,6}"
        r"(?P<module>[A-Za-z_][\w.-]{0,120})!(?P<function>[A-Za-z_~][^\s\[+]{1,400})",
        begins="[0-9a-f]",
        holds="(Inline",
    ),
    Form(  # without symbols: =>0 0x006fffff1b31ac in pool (+0x31ac) (0x006fffffa40298)
        writer="winedbg",
        example="=>0 0x01fc9328 take+0x304() [Z:\\src\\pool.c:88] in pool (0x0021ee1c)",
        pattern=r"\s*(?:=>)?\d{1,3} 0x[0-9a-f]{8,16} (?:(?P<function>[A-Za-z_~?][^()\s+]{0,300})"
        r"(?:\+0x[0-9a-f]{1,12})?\([^()]{0,400}\) (?:\[[^\]]{1,240}\] )?)?"
        r"in (?P<module>\w[\w .+-]{0,80}?)(?: \(\+(?P<offset>0x[0-9a-f]{1,12})\))? "
        r"\((?:0x)?[0-9a-f]{8,16}\)",
        begins=r"[=\d]",
        holds=" (",
    ),
    Form(
        writer="Visual Studio",
        example="example.dll!ns::f(int x) Line 12",
        pattern=r"[\s>]{0,8}(?P<module>[\w.-]{1,120}\.(?:dll|pyd|exe))!"
        r"(?P<function>[^\s(+][^(+]{0,400})(?:\(|\+|$)",
        begins=r"[\w.>-]",
        holds="!",
    ),
    Form(
        writer="valgrind",
        example="==42==    by 0x4C31234: f (in /lib/libexample.so)",
        pattern=r"(?:==\d{1,9}==)?\s+(?:at|by) 0x[0-9A-F]{4,16}: (?P<function>\S.{0,400}?) "
        r"\((?:in (?P<module>[^()]{1,240})|"
        r"(?P<file>[^()]{1,240}?):(?P<line>\d{1,7})|[^()]{1,240}$)\)?",
        begins="[=ab]",
        holds=" 0x",
    ),
    Form(
        writer="coredumpctl, of which somebody left the addresses",
        example="#3  f (example binary + 0x3f06)",
        pattern=r"\s*#\d{1,3}\s+(?:(?P<function>[A-Za-z_~][^\s()]{0,300}) )?"
        r"\((?P<module>[\w.+-]{1,80})(?: binary)? \+ (?P<offset>0x[0-9a-f]{1,12})\)",
        begins="#",
        holds=" + 0x",
    ),
    Form(
        writer="gdb",
        example="#0  0x00007f1be0001234 in f (a=1) from /lib/libexample.so",
        pattern=rf"\s*(?:#\d{{1,3}}\s+(?:0x[0-9a-f]+ in )?|0x[0-9a-f]{{8,16}} in ){_GDB}"
        r"[^\n]{0,800}?\)(?: (?:from|at(?= \S{1,240}\.so[\d.]{0,12}$)) (?P<module>\S{1,240}?)"
        r"(?:\+0x[0-9a-f]{1,8})?(?!\S)|"
        r" at (?:(?P<file>\S{1,240}?):(?P<line>\d{1,7})(?!\S)|\S)| *$)",
        begins="[#0]",
        holds="(",
    ),
    Form(
        writer="gdb, its arguments broken over lines",
        example="#6  0x00007f1be0001234 in f (",
        pattern=rf"\s*(?:#\d{{1,3}}\s+(?:0x[0-9a-f]+ in )?|0x[0-9a-f]{{8,16}} in ){_GDB}"
        r"(?:\s*$|[\w.]{1,60}=)",
        begins="[#0]",
        holds="(",
    ),
    Form(
        writer="gdb, cut off within its arguments",
        example="#4  0x00007f1be0001234 in ns::f(ns::pool const*, char const*, flo",
        pattern=r"\s*#\d{1,3}\s+0x[0-9a-f]{4,16} in (?P<function>[\w:~]{2,300})\([^()\n]{1,900}$",
        begins="#",
        holds="(",
    ),
    Form(
        writer="gdb, a template broken where the terminal ended",
        example="#0  0x00007f1be0001234 in ns::f<ns::node<int, ns::traits<int, ns::pool<int> >, "
        "ns::node<int, ns::tra",
        pattern=r"\s*#\d{1,3}\s+(?:0x[0-9a-f]+ in )?(?P<function>[\w:~]{3,300})<[^()\n]{60,600}$",
        begins="#",
        holds="<",
    ),
    Form(
        writer="gdb with gef",
        example="[#0] 0x7f1be0001234 \u2192 f(a=0x1)",
        pattern=r"\[#\d{1,3}\] 0x[0-9a-f]{4,16} \u2192 (?P<function>[^\s(][^(]{0,400}?)\(",
        begins=r"\[",
        holds=" 0x",
    ),
)
