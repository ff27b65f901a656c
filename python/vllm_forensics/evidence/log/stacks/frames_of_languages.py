"""What other languages' runtimes print: Java's, Node's, Rust's, Go's and more.

A table of native frames' forms; see `frame_form`.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.stacks.frame_form import Form

LANGUAGES: Final = (
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
        writer="Rust",
        example="   4: ns::f",
        pattern=r"\s{0,4}\d{1,3}: +(?:0x[0-9a-f]+ - )?"
        r"(?P<function>[\w<][\w:<>{}, &*'#-]{2,400}?)"
        # the line below, joined to it
        r"(?: {2,20}at (?P<file>/\S{1,240}?):(?P<line>\d{1,7})(?::\d{1,6})?"
        r"(?: {2,8}\d{1,3}: .{0,400})?)?$",
        begins=r"\d",
        holds=": ",
    ),
    Form(  # as older apimachinery logs a panic
        writer="Go, of sources alone",
        example="/src/pool/take.go:88",
        pattern=r"(?P<file>/[\w./@+~-]{1,240}\.go):(?P<line>\d{1,7})$",
        begins="/",
        holds=".go:",
        source="a language runtime",
    ),
    Form(  # its arguments in hexadecimal, of which the last may be cut off with the text
        writer="Go",
        example="main.f(0x1, 0x2)",
        pattern=r"(?P<function>panic|[\w./-]{1,200}\.[\w.()*\[\]]{1,120})\("
        r"(?:[^()]{0,400}\)|(?:0x[0-9a-f]{1,16}, ){0,20}0?x?[0-9a-f]{0,16})$",
        begins=r"[\w./-]",
        holds="(",
        source="a language runtime",
    ),
    Form(
        writer="Java, of an exception",
        example="\tat example.Pool.take(Pool.java:88)",
        pattern=r"\s{0,8}at (?P<function>[A-Za-z_$][\w$.<>]{1,300})"
        r"\((?P<file>[\w$]{1,120}\.(?:java|kt|scala|groovy)):(?P<line>\d{1,7})\)",
        begins="a",
        holds="at ",
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
    Form(
        writer="Bun, from its reports",
        example="- [`pool.zig:88`](<https://example.com/pool.zig#L88>): `ns.Pool.take`",
        pattern=r"\s{0,4}- \[`[\w.+-]{1,120}:\d{1,6}`\]\(<?[^)>\s]{1,600}>?\): "
        r"`(?P<function>[^`]{1,400})`",
        begins="-",
        holds="): `",
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
        pattern=r"\s{0,4}(?P<function>[\w#!@.~<>:{}]{1,400}) at "
        r"(?:(?P<module>(?:[A-Z]:)?[\w/.~\\-][^:()]{0,300}?\.(?:so|dylib|dll)[\d.]{0,20})"
        r"|(?P<file>(?:[A-Z]:)?[\w/.~\\-][^:()]{0,300}?))(?::(?P<line>\d{1,7})| \(unknown line\))"
        r"(?: \[inlined\])?\s*$",
        begins=r"[\w#!@.~<>:{}]",
        holds=" at ",
        source="Julia",
    ),
    Form(  # of methods in C it tells the name, of others the source
        writer="Ruby, of its own code",
        example="c:0015 p:---- s:0100 e:000099 CFUNC  :take",
        pattern=r"\s{0,4}c:\d{4} p:[\d-]{4} s:\d{4} (?:[eb]:?\w{4,8} )?(?:l:\w )?(?:b:[\d-]{4} )?"
        r"(?:CFUNC {1,3}:(?P<function>\S{1,120})|"
        r"(?:METHOD|BLOCK|TOP|EVAL|CLASS|RESCUE|ENSURE|PROC) {1,4}"
        r"(?P<file>[^\s:<]\S{0,240}):(?P<line>\d{1,7}))",
        begins="c",
        holds=" s:",
        source="Ruby",
    ),
    Form(  # of its own functions the innermost counts
        writer="R",
        example=' 1: .Call("take", pool)',
        pattern=r"\s{0,4}1: (?:"
        r"[\w.]{0,60}\(?\.(?:C|Call|External2?|Fortran)\([\"']?(?P<symbol>[\w.]{1,120})|"
        r"(?:(?P<module>[\w.]{1,80}):::?)?(?P<function>[A-Za-z.][\w.]{0,120})\()",
        begins="1",
        holds="1: ",
        source="R",
    ),
)
