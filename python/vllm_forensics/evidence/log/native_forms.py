"""The forms of native frames in logs: a table, with one entry for what one writer prints.

A form is added here and nowhere else. The first that fits a line decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OOPS: Final = "a kernel's oops"
"""The source of a fault in the kernel itself; the process that it ran for ends with it."""
_NATIVE_FILE: Final = r"(?:<unknown>|[^\"]{1,240}\.(?:c|cc|cpp|cxx|cu|h|hpp|cuh|rs|S))"
_GDB: Final = (
    r"(?P<function>(?:\(anonymous namespace\)::)?[\w~?](?:[^(]|\(anonymous namespace\)){0,400}?)"
    r" ?\((?!anonymous namespace\))"
)
"""A name, and where its arguments begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A line that is one frame.

    The pattern's groups fill the call: function (or symbol, where that is only a name in a table
    of symbols), module, offset, file and line of the source. `begins` and `holds` are what a line
    is asked before the pattern is tried: they must let through whatever the pattern matches.
    """

    writer: str
    example: str
    pattern: str
    """Matches at the beginning of a line, with its blanks."""
    begins: str
    """One letter, as a regular expression: the first of the line that is no blank."""
    holds: str
    """Stands in every such line."""
    source: str | None = None
    """The only writer below whose words such a line is a frame."""
    last_first: bool = False
    """Does the innermost call stand last?"""


FORMS: Final = (
    Form(
        writer="backward-cpp",
        example='#1    Object "/lib/libexample.so", at 0x7f1be0001234, in ns::f(int)',
        pattern=r"\s*#\d{1,3}\s+(?:Object|Source) \"(?P<module>[^\"]{1,240})\", "
        r"(?:at 0x[0-9a-f]{1,16}|line \d{1,6}), in ?(?P<function>.{0,400})",
        begins="#",
        holds='", ',
        last_first=True,
    ),
    Form(
        writer="Paddle",
        example="5   paddle::framework::Run(phi::Place const&)",
        pattern=r"\d{1,3} {2,4}(?P<function>[A-Za-z_]\S{1,400}(?:\(.{0,400})?)$",
        begins=r"\d",
        holds="  ",
        source="Paddle",
        last_first=True,
    ),
    Form(
        writer="abseil, glog",
        example="    @     0x7f1be0001234        192  ns::f()",
        pattern=r"\s*(?:PC: )?@\s+0x[0-9a-f]+\s+(?:(?:\(unknown\)|\d{1,20})\s+)?"
        r"(?P<function>\S.{0,400})",
        begins="[@P]",
        holds="@",
    ),
    Form(
        writer="c10",
        example="frame #3: ns::f() + 0x57 (0x7f1be0001234 in /opt/lib/libc10.so)",
        pattern=r"\s*frame #\d{1,3}: (?P<function>.{0,600}?) ?\+ (?P<offset>0x[0-9a-f]+) "
        r"\((?:0x[0-9a-f]+ in )?(?P<module>[^()]{1,240})\)",
        begins="f",
        holds="+ 0x",
    ),
    Form(  # with a process's arguments behind its name, or file and line at the end
        writer="backtrace_symbols, UCX, Open MPI, MXNet, Ruby",
        example="/lib/libucs.so.0(f+0x2dc) [0x7f1be0001234] ns::f()",
        pattern=r"\s*(?:(?:\d{1,6}\s{1,3})?\d{1,3}:?\s+|\[ ?\d{1,3}\] ?|\[bt\] \(\d{1,3}\) )?"
        r"(?P<module>(?!0x|\d{1,6}\s)[\w./+@-]{1,240})(?: [\w./+-]{0,200})?"
        r"(?: [\w.+:*\[\]-]{1,40}){0,2}\((?P<symbol>[^()+]{0,400})"
        r"\+?(?P<offset>0x[0-9a-fA-F]+)?\) ?\[0x[0-9a-fA-F]+\]"
        r"(?: (?!\(?\S{1,240}:[\d?]{1,9}\)?$)(?P<function>\S.{0,400}))?",
        begins=r"[\w./+@\[-]",
        holds="[0x",
    ),
    Form(
        writer="backtrace_symbols with arguments: V8, Node",
        example="/usr/bin/node(ns::f(char const*, ...)+0x172) [0x1cd5a22]",
        pattern=r"\s*(?P<module>/[\w./+@-]{1,240})\((?P<function>[A-Za-z_~].{0,600}?\)(?: const)?)"
        r"\+(?P<offset>0x[0-9a-fA-F]+)\) ?\[0x[0-9a-fA-F]+\]$",
        begins=r"/",
        holds="[0x",
    ),
    Form(
        writer="backtrace_symbols, demangled: qBittorrent",
        example="  /lib/libexample.so.1 : ns::f(int)+0x186  [0x7f1be0001234]",
        pattern=r"\s*(?P<module>/[\w./+@-]{1,240}) : (?P<function>[^\[]{0,400}?)"
        r"\+(?P<offset>0x[0-9a-f]+) {1,4}\[0x[0-9a-f]{6,16}\]",
        begins=r"/",
        holds=" : ",
    ),
    Form(  # its library is whole
        writer="backtrace_symbols, cut where the text ends",
        example="/lib/libexample.so(ns::Pool::ta",
        pattern=r"\s*(?P<module>/[\w./+@-]{1,240}\.so[\d.]{0,20})\([\w:~<>, &*]{0,400}$",
        begins=r"/",
        holds="(",
    ),
    Form(
        writer="backtrace_symbols of a program without symbols",
        example="/usr/bin/node[0x5581c0de]",
        pattern=r"\s*(?P<module>[\w./+-]{1,240}|/[\w./+-]{1,240} )\[0x[0-9a-f]{5,16}\]$",
        begins=r"[\w./+-]",
        holds="[0x",
    ),
    Form(
        writer="Godot",
        example="[2] ns::f(int) (/src/f.cpp:12)",
        pattern=r"\s*\[\d{1,3}\] (?P<function>[A-Za-z_~][^/]{0,400}?\)(?: const)?) "
        r"\((?P<file>[^()]{1,240}):(?P<line>\d{1,7})\)$",
        begins=r"\[",
        holds=" (",
    ),
    Form(
        writer="Swift",
        example="1 [ra] 0x00005581c0de1234 f(int) + 49 in serve",
        pattern=r"\s*\d{1,3}(?: \[\w{1,10}\])*\s{1,8}0x[0-9a-f]{8,16} (?P<function>\S.{0,400}?)"
        r"(?: \+ \d{1,9})? in (?P<module>[\w./+-]{1,240})(?: at .{1,240})?$",
        begins=r"\d",
        holds=" in ",
    ),
    Form(  # below logcat's prefix
        writer="Android",
        example="#00 pc 000000000001e020  /data/app/lib/libexample.so (f+32)",
        pattern=r"(?:.{0,80}?\s)?#\d{2,3}\s{1,4}pc (?:0x)?[0-9a-f]{4,16}\s{1,4}"
        r"(?P<module>\S{1,240})(?: \(offset 0x[0-9a-f]{1,16}\))?(?: \((?!BuildId)"
        r"(?P<function>[^+]{1,400}?)(?:\+\d{1,9})?\)(?: .{0,100})?| \(BuildId.{0,100})?$",
        begins=".",
        holds="pc ",
    ),
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
        r"(?P<function>[A-Za-z_~]\S{0,300})",
        begins=r"[\w.+-]",
        holds=":0x",
    ),
    Form(
        writer="WinDbg, its verdict",
        example="SYMBOL_NAME:  pool!ns::take+12",
        pattern=r"\s*(?:SYMBOL_NAME: {1,4}|ExceptionAddress: [0-9a-f]{8,16} \()"
        r"(?P<module>[\w.+-]{1,80})!(?P<function>[A-Za-z_~][^+\s]{0,300})",
        begins="[SE]",
        holds="!",
    ),
    Form(
        writer="Unity, Tarantool",
        example="#1  0x005581c0de1234 in take+1a",
        pattern=r"\s*#\d{1,3}\s+0x[0-9a-f]{8,16} in (?P<function>[A-Za-z_][\w:~]{1,300})"
        r"(?:\+(?:0x)?[0-9a-f]{1,8})?$",
        begins="#",
        holds=" in ",
    ),
    Form(
        writer="UCX",
        example=" 4 0x0000000000012345 f()  /src/f.c:12",
        pattern=r"\s*\d{1,3} 0x[0-9a-f]{6,16} (?P<function>[\w:~<>]{1,200})\(\)\s"
        r"(?:\s{0,8}(?P<file>/\S{1,240}?):(?P<line>\d{1,7})$)?",
        begins=r"\d",
        holds="()",
    ),
    Form(  # older ones without the offset
        writer="systemd-coredump",
        example="#0  0x00007f1be0001234 n/a (libexample.so + 0x1234)",
        pattern=r"\s*#\d{1,3}\s+0x[0-9a-f]+ (?P<function>\S{1,400}) "
        r"\((?P<module>(?!\S{1,240}\+0x)[^()\s]{1,240})(?: \+ (?P<offset>0x[0-9a-f]+))?\)$",
        begins="#",
        holds=" (",
    ),
    Form(
        writer="LLVM, with libraries",
        example=" #4 0x00005581c0de1234 f(int) (/usr/bin/opt+0x1234)",
        pattern=r"\s*#\d{1,3} 0x[0-9a-f]{8,16} (?:(?P<function>[^/\s][^/]{0,600}?)? ?"
        r"(?:(?P<file>/\S{1,240}?):(?P<line>\d{1,7}):\d{1,6} )?\((?P<module>[^()\s]{1,240}?)\+"
        r"(?P<offset>0x[0-9a-f]+)\))",
        begins="#",
        holds="+0x",
    ),
    Form(
        writer="LLVM, with sources",
        example=" #4 0x00005581c0de1234 f(int) /src/f.cpp:12:3",
        pattern=r"\s*#\d{1,3} 0x[0-9a-f]{8,16} (?P<function>[^/\s][^/]{0,600}?) "
        r"(?P<file>/\S{1,240}?):(?P<line>\d{1,7})",
        begins="#",
        holds=" /",
    ),
    Form(  # LLVM there: without tabs
        writer="macOS",
        example="5   _C.so    0x0000000104e95123 f(int) + 687",
        pattern=r"\s*\d{1,3}\s{1,8}(?P<module>\S(?:[^\t]{0,80}?\S)?)\s{1,40}0x[0-9a-f]{6,16} "
        r"(?P<function>\S.{0,400}?)(?: \+ \d{1,12}\b|,?$)",
        begins=r"\d",
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
    Form(  # libexample.so!f, and without symbols libexample.so + 0x1234
        writer="Breakpad's minidump_stackwalk",
        example=" 0  libexample.so!ns::f(int) [f.cpp : 12 + 0x4]",
        pattern=r"\s{0,4}\d{1,3}  (?P<module>[\w.+-]{1,120}(?: [A-Z][\w.+-]{1,40}){0,3})"
        r"(?:!(?P<function>[^\[+]{1,400}?))?(?: \[.{1,240})? \+ (?P<offset>0x[0-9a-f]{1,16})\]?$",
        begins=r"\d",
        holds=" + 0x",
        source="a debugger",
    ),
    Form(  # or 4   0x7f1be0001234 /lib/libx.so(+0x1234) [0x7f1be0001234]
        writer="TensorRT-LLM",
        example="4   0x7f1be0001234 ns::f() + 204",
        pattern=r"\s*\d{1,3}\s{1,8}0x[0-9a-f]{6,16} (?:(?P<function>[^/\s].{0,400}?) \+ \d{1,9}$|"
        r"(?P<module>/[^()]{1,240})\(\+(?P<offset>0x[0-9a-f]+)\))",
        begins=r"\d",
        holds="+",
    ),
    Form(
        writer="LLDB",
        example="  * frame #0: 0x00000001038b1019 libexample.dylib`f + 25",
        pattern=r"\s*(?:\* )?frame #\d{1,4}: 0x[0-9a-f]{6,16} (?P<module>[^`\s]{1,240})`"
        r"(?P<function>\S.{0,400}?)(?: \+ \d{1,9}|"
        r" at (?:(?P<file>\S{1,240}?):(?P<line>\d{1,7})|\S)|$)",
        begins="[*f]",
        holds="`",
    ),
    Form(  # native code, quoted or not
        writer="Java",
        example="# C  [libexample.so+0x1234]  f(int)+0x51",
        pattern=r"(?:\d{1,9}#)?[\\#>\s]{0,8}[CVv]\s{1,3}\[(?P<module>[^\]+\s]{1,240})\+"
        r"(?P<offset>0x[0-9a-f]+)\](?:(?:\s{1,4}(?P<function>\S.{0,400}?)(?:\+0x[0-9a-f]+)?)?\s*$|"
        r"\[)",
        begins=r"[\d\\#>CVv]",
        holds="+0x",
    ),
    Form(
        writer="FreeBSD's kernel",
        example="#6 0xffffffff821683d4 at take_pool+0x344",
        pattern=r"\s*#\d{1,3} 0x[0-9a-f]{8,16} at (?P<function>\w{1,120})\+0x[0-9a-f]{1,8}$",
        begins="#",
        holds=" at ",
    ),
    Form(
        writer="OpenJ9",
        example="ns_take+0xa34 (0x00007F1BE0001234 [libpool.so+0x19b484])",
        pattern=r"\s{0,8}(?P<function>[A-Za-z_][\w:<>~*&, ()]{0,300}?)\+0x[0-9a-f]{1,8} "
        r"\(0x[0-9A-Fa-f]{6,16} \[(?P<module>[\w.+-]{1,80})\+(?P<offset>0x[0-9a-f]{1,12})\]\)",
        begins="[A-Za-z_]",
        holds=" [",
    ),
    Form(
        writer="Java, of its own code",
        example="J 112 c1 example.Pool.take(I)V",
        pattern=r"(?:\d{1,9}#)?[\\#>\s]{0,8}[Jj]\s{1,3}(?:\d{1,9} (?:c[12] )?)?"
        r"(?P<function>[\w$/]+\.[\w$./<>]+)\(",
        begins=r"[\d\\#>Jj]",
        holds="(",
    ),
    Form(
        writer="Java, of what its machine made",
        example="# v  ~StubRoutines::jbyte_disjoint_arraycopy",
        pattern=r"(?:\d{1,9}#)?[\\#>\s]{0,8}v {1,3}~(?P<function>[A-Z]\w{2,40}::\w{1,200})",
        begins=r"[\d\\#>v]",
        holds=" ~",
    ),
    Form(
        writer="Node",
        example=" 1: 0x5581c0de node::Abort() [node]",
        pattern=r"\s*\d{1,3}: 0x[0-9a-f]{4,16} (?P<function>\S.{0,400}?)?\s?"
        r"\[(?P<module>[^\[\]]{1,240})\]",
        begins=r"\d",
        holds=": 0x",
    ),
    Form(
        writer="Boost",
        example=" 1# ns::f(int) in /lib/libexample.so",
        pattern=r"\s*\d{1,3}# (?P<function>\S.{0,400}?) "
        r"(?:in (?P<module>/?\S{1,240})|at (?P<file>\S{1,240}?):(?P<line>\d{1,7}))$",
        begins=r"\d",
        holds="# ",
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
        writer="WinDbg",
        example="00 000000e1`2a5fd6a8 00007ffd`3e1f1234     example!ns::f+0x14",
        # [0x0]   example!ns::f+0x14; and without symbols example+0x1234
        pattern=r"\s*(?:\[0x[0-9a-f]{1,3}\]|#? ?[0-9a-f]{2})\s{1,4}"
        r"(?:(?:\(Inline\)|[0-9a-f]{8}`[0-9a-f]{8})\s{1,4}[0-9a-f-]{8,9}`?[0-9a-f-]{0,8}\s{1,6})?"
        r"(?P<module>[A-Za-z_][\w.-]{0,120})"
        r"(?:!(?P<function>[^\s+][^+]{0,400}?))?\+(?P<offset>0x[0-9a-f]{1,12})\b",
        begins=r"[\[#0-9a-f]",
        holds="+0x",
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
        writer="gdb",
        example="#0  0x00007f1be0001234 in f (a=1) from /lib/libexample.so",
        pattern=rf"\s*(?:#\d{{1,3}}\s+(?:0x[0-9a-f]+ in )?|0x[0-9a-f]{{8,16}} in ){_GDB}"
        r"[^\n]{0,800}?\)(?: from (?P<module>\S{1,240})|"
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
        writer="tvm-ffi",
        example='  File "src/f.cc", line 12, in ns::f()',
        pattern=rf"\s*File \"(?P<file>{_NATIVE_FILE})\", line (?P<line>\d{{1,9}}), in "
        r"(?P<function>\S.{0,400})",
        begins="F",
        holds='", line ',
    ),
    Form(
        writer="Ray, older",
        example="    ns::Pool::take()",
        pattern=r"\s{2,8}(?P<function>(?:[\w~<>, *&]{1,200}::){1,12}[\w~<>]{1,200}\(\))$",
        begins=r"[\w~<>*&,:]",
        holds="()",
    ),
    Form(
        writer="Rust",
        example="   4: ns::f",
        pattern=r"\s{0,4}\d{1,3}: +(?:0x[0-9a-f]+ - )?"
        r"(?P<function>[\w<][\w:<>{}, &*'#-]{2,400})$",
        begins=r"\d",
        holds=": ",
    ),
    Form(  # its arguments in hexadecimal, of which the last may be cut off with the text
        writer="Go",
        example="main.f(0x1, 0x2)",
        pattern=r"(?P<function>panic|[\w./-]{1,200}\.[\w.()*\[\]]{1,120})\("
        r"(?:[^()]{0,400}\)|0?x?[0-9a-f]{0,16})$",
        begins=r"[\w./-]",
        holds="(",
        source="a language runtime",
    ),
    Form(  # and Java
        writer=".NET",
        example="   at Ns.Pool.Take(Int32) in pool.cs:line 12",
        pattern=r"\s{0,8}at (?P<function>[A-Za-z_<][^()]{1,600}?) ?\((?:[^()]{0,400}\)"
        r" in (?P<file>[^:]{0,3}[^:]{1,240}):line (?P<line>\d{1,7}))?",
        begins="a",
        holds="at ",
        source=".NET",
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
    Form(
        writer="Bun, from its reports",
        example="- [`pool.zig:88`](<https://example.com/pool.zig#L88>): `ns.Pool.take`",
        pattern=r"\s{0,4}- \[`[\w.+-]{1,120}:\d{1,6}`\]\(<?[^)>\s]{1,600}>?\): "
        r"`(?P<function>[^`]{1,400})`",
        begins="-",
        holds="): `",
    ),
    Form(
        writer="gdb with gef",
        example="[#0] 0x7f1be0001234 \u2192 f(a=0x1)",
        pattern=r"\[#\d{1,3}\] 0x[0-9a-f]{4,16} \u2192 (?P<function>[^\s(][^(]{0,400}?)\(",
        begins=r"\[",
        holds=" 0x",
    ),
    Form(
        writer="Zig",
        example="/src/pool.zig:88:12: 0x1034abc in take (serve)",
        pattern=r"\s*(?P<file>[\w./-]{1,240}):(?P<line>\d{1,7}):\d{1,6}: 0x[0-9a-f]{4,16} in "
        r"(?P<function>\S.{0,400}?) \((?P<module>[\w.-]{1,80})\)$",
        begins=r"[\w./-]",
        holds=": 0x",
    ),
    Form(
        writer="Dart",
        example="  pc 0x000055fde2def825 fp 0x00007fdbc9cfc000 dart::Pool::Take(int)+0x15",
        pattern=r"\s*pc 0x[0-9a-f]{8,16} fp 0x[0-9a-f]{8,16} (?P<function>\S.{0,600}?)"
        r"(?:\+0x[0-9a-f]{1,12})?$",
        begins="p",
        holds=" fp 0x",
    ),
    Form(
        writer="Crystal",
        example="[0x55f0a1234999] *Pool#take<Int32>:Nil +45",
        pattern=r"\[0x[0-9a-f]{6,16}\] \*?(?P<function>[A-Za-z_~]\S{0,300}) \+\d{1,9}",
        begins=r"\[",
        holds=" +",
    ),
    Form(
        writer="Ceph",
        example=" 2: (Pool::take(int)+0x1b) [0x55f0a1234567]",
        pattern=r"\s*(?:\d{1,6} {1,3})?\d{1,3}: \((?P<function>[^\[]{1,800}?)\+"
        r"(?P<offset>0x[0-9a-f]+)\) \[0x[0-9a-f]+\]$",
        begins=r"\d",
        holds=") [0x",
    ),
    Form(  # libraries' names are cut
        writer="Intel's Fortran",
        example="serve              0000000000401234  take_                      88  pool.f90",
        pattern=r"\s*(?P<module>[\w.+-]{1,40}) {1,40}[0-9A-F]{16} {1,4}(?P<function>\S{1,80})"
        r" {1,40}(?:\d{1,6}|Unknown) {1,12}\S{1,120}$",
        begins=r"[\w.+-]",
        holds=" ",
    ),
    Form(  # a library, or a source
        writer="Julia",
        example="f at /lib/libexample.so (unknown line)",
        pattern=r"(?P<function>[\w#!@.~<>:{}]{1,400}) at "
        r"(?:(?P<module>[\w/.~\\-][^:()]{0,300}?\.(?:so|dylib|dll)[\d.]{0,20})"
        r"|(?P<file>[\w/.~\\-][^:()]{0,300}?))(?::(?P<line>\d{1,7})| \(unknown line\))"
        r"(?: \[inlined\])?\s*$",
        begins=r"[\w#!@.~<>:{}]",
        holds=" at ",
        source="Julia",
    ),
    Form(  # of its own functions the innermost counts
        writer="R",
        example=' 1: .Call("take", pool)',
        pattern=r"\s{0,4}1: (?:\.(?:C|Call|External2?|Fortran)\([\"']?(?P<symbol>[\w.]{1,120})|"
        r"(?:(?P<module>[\w.]{1,80}):::?)?(?P<function>[A-Za-z.][\w.]{0,120})\()",
        begins="1",
        holds="1: ",
        source="R",
    ),
)
