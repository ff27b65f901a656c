"""What toolkits for windows print before they give up: Qt, Tcl and GLib, and what Qt lacks.

Sources: GLib's gmessages.c and gtestutils.c; Tcl's tclAsync.c; Qt's qthread.cpp, qwidget.cpp,
qpixmap.cpp, qguiapplication.cpp, qglobal.cpp.
"""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

QT: Final = Family(
    source="Qt",
    phrases=(
        *(
            Phrase(ClueKind.ENVIRONMENT, needle, rf"(?P<detail>{pattern})", example)
            for needle, pattern, example in (
                (
                    "no Qt platform plugin could be initialized",
                    r"This application failed to start because no Qt platform plugin could be "
                    r"initialized",
                    "This application failed to start because no Qt platform plugin could be "
                    "initialized. Reinstalling the application may fix this problem.",
                ),
                (
                    "could not find or load the Qt platform plugin",
                    r"This application failed to start because it could not find or load the Qt "
                    r"platform plugin.{0,60}",
                    "This application failed to start because it could not find or load the Qt "
                    'platform plugin "xcb".',
                ),
            )
        ),
        *(
            Phrase(ClueKind.ABORT, needle, rf"(?P<detail>{pattern})", example, signal="SIGABRT")
            for needle, pattern, example in (
                (
                    ": Destroyed while thread ",
                    r"QThread: Destroyed while thread .{0,120}?is still running",
                    "QThread: Destroyed while thread is still running",
                ),
                (
                    "QWidget: ",
                    r"QWidget: (?:Must construct a QApplication before|Cannot create a QWidget "
                    r"(?:without|when no)).{0,60}",
                    "QWidget: Must construct a QApplication before a QWidget",
                ),
                (
                    ": Must construct a QGuiApplication before ",
                    r"Q\w{2,20}: Must construct a QGuiApplication before .{1,60}",
                    "QPixmap: Must construct a QGuiApplication before a QPixmap",
                ),
                (
                    "ASSERT: \"",
                    r"ASSERT: \".{1,200}\" in file .{1,200}, line \d{1,6}",
                    'ASSERT: "block != nullptr" in file src/pool.cpp, line 88',
                ),
                (
                    "ASSERT failure in ",
                    r"ASSERT failure in .{1,300}",
                    'ASSERT failure in QList<T>::at: "index out of range", file qlist.h, line 88',
                ),
            )
        ),
    ),
)  # fmt: skip
GLIB: Final = Family(
    source="GLib",
    phrases=(
        Phrase(
            ClueKind.ABORT,
            "-ERROR **: ",
            r"(?:\((?:process|(?P<name>[^():]{1,60})):(?P<pid>\d{1,9})\): )?"
            r"(?P<detail>[\w.-]{1,60}-ERROR \*\*: .{1,240})",
            "(poolview:4242): GLib-ERROR **: 08:12:45.123: gmem.c:105: failed to allocate 64 bytes",
        ),
        Phrase(
            ClueKind.ABORT,
            "assertion failed",
            r"^(?:Bail out! )?(?P<detail>(?:[\w.-]{1,60}:)?ERROR:[^\s:]{1,200}:\d{1,6}:"
            r"(?P<function>[\w:~<>]{1,120}): assertion failed.{0,240})",
            "pool:ERROR:../src/pool.c:88:take_block: assertion failed: (block != NULL)",
            signal="SIGABRT",
        ),
    ),
)
TCL: Final = Family(
    source="Tcl",
    phrases=(
        Phrase(
            ClueKind.ABORT,
            "Tcl_AsyncDelete: ",
            r"(?P<detail>Tcl_AsyncDelete: (?:async handler deleted by the wrong thread|"
            r"cannot find async handler))",
            "Tcl_AsyncDelete: async handler deleted by the wrong thread",
            signal="SIGABRT",
        ),
    ),
)
