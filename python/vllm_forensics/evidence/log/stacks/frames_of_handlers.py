"""What crash handlers, runtimes of C++ and services print of their own stacks.

A table of native frames' forms; see `frame_form`.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.stacks.frame_form import Form

_NATIVE_FILE: Final = r"(?:<unknown>|[^\"]{1,240}\.(?:c|cc|cpp|cxx|cu|h|hpp|cuh|rs|S))"
HANDLERS: Final = (
    Form(
        writer="backward-cpp",
        example='#1    Object "/lib/libexample.so", at 0x7f1be0001234, in ns::f(int)',
        pattern=r"\s*#\d{1,3}\s+(?:Object \"(?P<module>[^\"]{1,240})\", at 0x[0-9a-f]{1,16}|"
        r"Source \"(?P<file>[^\"]{1,240})\", line (?P<line>\d{1,6})), in ?(?P<function>.{0,400})",
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
        pattern=r"\s*(?:PC: |\(\)\s+)?@\s+(?:0x[0-9a-f]+|[0-9a-f]{16})\s+"
        r"(?:(?:\(unknown\)|\d{1,20})\s+)?(?P<function>\S.{0,400})",
        begins="[@P(]",
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
        pattern=r"\s*(?:(?:\d{1,6}\s{1,3}|# ?)?\d{1,3}[:.]?\s+|\[ ?\d{1,3}\] ?|\[bt\] \(\d{1,3}\) |"
        r"\+ (?=/))?"
        r"(?P<module>(?!0x|\d{1,6}\.?\s|\.\d)[\w./+@-]{1,240})(?: [\w./+-]{0,200})?"
        r"(?: [\w.+:*\[\]-]{1,40}){0,2}\((?P<symbol>[^()+]{0,400})"
        r"\+?(?P<offset>0x[0-9a-fA-F]+|0)?\) ?\[0x[0-9a-fA-F]+\]"
        r"(?: (?!\(?\S{1,240}:[\d?]{1,9}\)?$)(?P<function>\S.{0,400}))?",
        begins=r"[\w./+@\[#-]",
        holds="[0x",
    ),
    Form(
        writer="backtrace_symbols with arguments: V8, Node, ClickHouse",
        example="/usr/bin/node(ns::f(char const*, ...)+0x172) [0x1cd5a22]",
        pattern=r"\s*(?:\d{1,3}\. )?"
        r"(?P<module>/[\w./+@-]{1,240})\((?P<function>[A-Za-z_~].{0,600}?\)(?: const)?)"
        r"\+(?P<offset>0x[0-9a-fA-F]+)\) ?\[0x[0-9a-fA-F]+\]$",
        begins=r"[/\d]",
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
        pattern=r"\s*(?:\[ ?\d{1,3}\] )?(?P<module>[\w./+-]{1,240}|/[\w./+-]{1,240} )"
        r"\[0x[0-9a-f]{5,16}\]$",
        begins=r"[\w./+\[-]",
        holds="[0x",
    ),
    Form(
        writer="Godot",
        example="[2] ns::f(int) (/src/f.cpp:12)",
        pattern=r"\s*\[\d{1,3}\] "
        r"(?P<function>[A-Za-z_~](?:[^/]{0,400}?\)(?: const)?|[\w:~<>, *&]{1,400})) "
        r"\((?P<file>[^()]{1,240}):(?P<line>\d{1,7})\)$",
        begins=r"\[",
        holds=" (",
    ),
    Form(  # also without an address, and behind its logger's mark
        writer="Unreal",
        example="0x00007ff7c83bb99b Serve.exe!FPool::Take() [d:\\src\\pool.h:88]",
        pattern=r"[\s`]{0,8}(?:(?:\w{1,20}\s{1,14}){0,3}\[Callstack\] )?"
        r"(?:0x[0-9a-f]{8,16} )?(?P<module>\w[\w.+-]{0,79})!"
        r"(?P<function>[A-Za-z_~`][^\[\]\n]{0,400}?)(?:\(\))? \[[^\]]{0,300}\][`\s]{0,6}$",
        begins=r"[`\[\w]",
        holds=" [",
    ),
    Form(  # without symbols
        writer="Unreal, its crash reporter's list",
        example="UnrealEditor_Core",
        pattern=r"(?P<module>[A-Za-z][\w.+-]{2,60})$",
        begins="[A-Za-z]",
        holds="",
        source="Unreal",
    ),
    Form(
        writer="Mono",
        example="\t0x7fb9e3ca5c19 - /lib/libexample.so : take",
        pattern=r"\s*0x[0-9a-f]{6,16} - (?P<module>/?[\w./+-]{1,240}) : ?(?P<function>.{0,300})$",
        begins="0",
        holds=" - ",
    ),
    Form(
        writer="MATLAB",
        example="[  3] 0x00007f1275c2c203   /lib/libexample.so+01253891 take+000067",
        pattern=r"\s*\[ {0,2}\d{1,3}\] 0x[0-9a-f]{8,16} {1,60}(?P<module>/?\S{1,240})"
        r"\+(?P<offset>\d{3,12})(?: (?P<function>\S{1,400}?)(?:\+\d{3,12})?)?$",
        begins=r"\[",
        holds="] 0x",
    ),
    Form(  # without symbols: #10  ? in "/opt/bin/serve"
        writer="OpenFOAM",
        example='#3  ns::take(int) in "/opt/lib/libpool.so"',
        pattern=r"\s*(?:\[\d{1,5}\] )?#\d{1,3}\s{1,3}(?P<function>\S.{0,600}?) "
        r"in \"(?P<module>/[^\"]{1,240})\"$",
        begins=r"[#\[]",
        holds=' in "',
    ),
    Form(  # or ? addr2line failed
        writer="OpenFOAM, without libraries",
        example="[0] #3  Foam::Pool<Foam::face>::take(int) addr2line failed",
        pattern=r"\s*(?:\[\d{1,5}\] ?)?#\d{1,3}\s{1,3}(?P<function>Foam::\S.{0,600}?|\?)"
        r"(?: addr2line failed| at \?\?:\?)?$",
        begins=r"[#\[]",
        holds="#",
        source="a signal handler",
    ),
    Form(
        writer="Swift",
        example="1 [ra] 0x00005581c0de1234 f(int) + 49 in serve",
        pattern=r"\s*\d{1,3}(?: \[\w{1,10}\])*\s{1,8}0x[0-9a-f]{8,16} (?P<function>\S.{0,400}?)"
        r"(?: \+ \d{1,9})? in (?P<module>[\w./+-]{1,240})(?: at .{1,240})?$",
        begins=r"\d",
        holds=" in ",
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
        writer="FreeCAD",
        example="#1  0x7f1be0001234 in ns::f(int) from /lib/libexample.so+0x10",
        pattern=r"\s*#\d{1,3}\s+0x[0-9a-f]{6,16} in (?P<function>[A-Za-z_~][^\n]{0,400}?) "
        r"from (?P<module>/\S{1,240}?)\+(?P<offset>0x[0-9a-f]{1,8})$",
        begins="#",
        holds=" from /",
    ),
    Form(
        writer="UCX",
        example=" 4 0x0000000000012345 f()  /src/f.c:12",
        pattern=r"\s*\d{1,3} 0x[0-9a-f]{6,16} (?P<function>[\w:~<>]{1,200})\(\)\s"
        r"(?:\s{0,8}(?P<file>/\S{1,240}?):(?P<line>\d{1,7})$)?",
        begins=r"\d",
        holds="()",
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
    Form(  # or 4   0x7f1be0001234 /lib/libx.so(+0x1234) [0x7f1be0001234]
        writer="TensorRT-LLM",
        example="4   0x7f1be0001234 ns::f() + 204",
        pattern=r"\s*\d{1,3}\s{1,8}0x[0-9a-f]{6,16} (?:(?P<function>[^/\s].{0,400}?) \+ \d{1,9}$|"
        r"(?P<module>/[^()]{1,240})\(\+(?P<offset>0x[0-9a-f]+)\))",
        begins=r"\d",
        holds="+",
    ),
    Form(
        writer="Boost",
        example=" 1# ns::f(int) in /lib/libexample.so",
        pattern=r"\s*\d{1,3}# (?P<function>\S.{0,400}?) "
        r"(?:in (?P<module>/?\S{1,240})|at (?P<file>\S{1,240}?):(?P<line>\d{1,7}))$",
        begins=r"\d",
        holds="# ",
    ),
    Form(
        writer="TVM FFI",
        example='  File "<unknown>", in ns::f()',
        pattern=rf"\s*File \"(?P<file>{_NATIVE_FILE})\"(?:, line (?P<line>\d{{1,9}}))?, in "
        r"(?P<function>\S.{0,400})",
        begins="F",
        holds='", ',
        source="TVM FFI",
        last_first=True,
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
        pattern=r"(?:\s{2,8}|PC: )(?P<function>(?:[\w~<>, *&{}()#]{1,200}::){1,12}"
        r"(?:operator\(\))?[\w~<>]{0,200}\(\))$",
        begins=r"[\w~<>*&,:{}()#]",
        holds="()",
    ),
    Form(  # the file that the frames below lie in has a line of its own
        writer="Envoy, older",
        example="[2026-01-15 08:12:45.123][17][critical][backtrace] ./backtrace.h:90] Backtrace "
        "obj</usr/bin/envoy> thr<17> (use tools/stack_decode.py):",
        pattern=r".{0,60}\]\[critical\]\[backtrace\] .{0,240}?(?:\bobj<(?P<module>[^<>]{1,240})>|"
        r"\bthr<\d{1,9}> #\d{1,3} 0x[0-9a-f]{4,16}(?: (?P<function>\S.{0,400}))?)",
        begins=".",
        holds="][critical][backtrace] ",
    ),
    Form(
        writer="Envoy, older, without its logger's prefix",
        example="thr<17> #0 0xc739fe Envoy::Pool::take()",
        pattern=r"thr<\d{1,9}> (?:obj<(?P<module>[^<>]{1,240})>|"
        r"#\d{1,3} 0x[0-9a-f]{4,16}(?: (?P<function>\S.{0,400}))?)",
        begins="t",
        holds="thr<",
    ),
    Form(  # the list may be wrapped, so that the address stands on the next line
        writer="ClickHouse",
        example="2021.01.15 08:12:45.123456 [ 4300 ] {} <Fatal> BaseDaemon: 2. ./src/Pool.cpp:88: "
        "DB::Pool::take(int) @ 0x00000000e2d6a01 in /usr/bin/clickhouse",
        pattern=r"(?:.{0,160}<(?:Fatal|Error)> \w{4,20}(?: \([^()]{1,40}\))?: )?"
        r"\d{1,3}(?:\.\d{1,2})?\. (?:inlined from )?"
        r"(?:(?P<file>[^\s()]{1,240}?):(?P<line>\d{1,7}): )?(?P<function>[A-Za-z_~?(]"
        r".{0,800}?)(?: @ 0x[0-9a-f]{4,16}(?: in (?P<module>\S{1,240}))?)?$",
        begins=r".",
        holds=". ",
        source="ClickHouse",
    ),
    Form(
        writer="Ceph",
        example=" 2: (Pool::take(int)+0x1b) [0x55f0a1234567]",
        pattern=r"\s*(?:\d{1,6} {1,3})?\d{1,3}: \((?P<function>[^\[]{1,800}?)\+"
        r"(?P<offset>0x[0-9a-f]+)\) \[0x[0-9a-f]+\]$",
        begins=r"\d",
        holds=") [0x",
    ),
)
