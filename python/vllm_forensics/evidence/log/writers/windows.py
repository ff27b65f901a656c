"""Windows Error Reporting: the record of a fault, in the event log's words and in the dialog's.

`Faulting application name: serve.exe, …` or `Application Name: serve.exe`, a field a line; its
words are translated, its order is not always the same.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from vllm_forensics.evidence.log.lines import LogLine
from vllm_forensics.evidence.log.phrases import clue_at
from vllm_forensics.evidence.log.writers.exit_statuses import WINDOWS_STATUSES
from vllm_forensics.model.incident import Clue, ClueKind, NativeCall

_APPLICATION: Final = (
    "Faulting application name",
    "Application Name",
    "Name der fehlerhaften Anwendung",
    "Nom de l\u2019application défaillante",
    "Nombre de la aplicación con errores",
    "Nome do aplicativo com falha",
    "Имя сбойного приложения",
    "错误应用程序名称",
    "出错应用程序名称",
    "障害が発生しているアプリケーション名",
)
_MODULE: Final = (
    "Faulting module name",
    "Fault Module Name",
    "Fault Moudle Name",
    "Name des fehlerhaften Moduls",
    "Nom du module défaillant",
    "Nombre del módulo con errores",
    "Nome do módulo com falha",
    "Имя сбойного модуля",
    "错误模块名称",
    "出错模块名称",
    "故障模块名称",
    "障害が発生しているモジュール名",
)
_CODE: Final = (
    "Exception code",
    "Exception Code",
    "Ausnahmecode",
    "Code d\u2019exception",
    "Código de excepción",
    "Código de exceção",
    "Код исключения",
    "异常代码",
    "例外コード",
)
_PID: Final = (
    "Faulting process id",
    "Faulting process ID",
    "ID des fehlerhaften Prozesses",
    "错误进程 ID",
    "出错进程 ID",
)
NEEDLES: Final = (
    *(name.encode() for name in (*_APPLICATION, *_MODULE)),
    b"APPCRASH",
    b"Event Name: BEX",
    b"Event Name:  ",
)
_SIGNATURE: Final = re.compile(
    r"\W{0,8}(?:(?:Problem )?Event Name: {1,8}(?:APPCRASH|BEX(?:64)?)\b|"
    r"[^:\uff1a]{3,60}[:\uff1a]\s{0,8}APPCRASH\s*$)"
)
"""The dialog's fields follow, numbered or not: 1 the application, 4 the module, 7 or 8 the code."""
_ORDER: Final = {1: ("P1", "name"), 4: ("P4", "module"), 7: ("P7", "code"), 8: ("P8", "code")}
_LABEL: Final = re.compile(r"\W{0,8}[^\W\d][^:\uff1a]{2,60}[:\uff1a]\s{1,8}")
_COLON: Final = r" ?[:\uff1a] ?"


def _field(names: tuple[str, ...], value: str) -> re.Pattern[str]:
    labels = "|".join(re.escape(name) for name in names)
    return re.compile(rf"\W{{0,8}}(?:{labels}){_COLON}\s{{0,40}}{value}")


_FIELDS: Final = {
    "name": _field(
        (*_APPLICATION, "P1"),
        r"(?P<name>[^\s,\uff0c][^,\uff0c]{0,80}?)"
        r"(?:\s*(?:[,\uff0c]|$)|(?<=\.exe)(?= Application ))",
    ),
    "module": _field((*_MODULE, "P4"), r"(?P<module>[^\s,\uff0c]{1,120})"),
    "code": _field((*_CODE, "P7", "P8"), r"(?P<code>(?:0x)?[c4e8][0e][0-9a-fA-F]{6})\b"),
    "pid": _field(_PID, r"(?P<pid>0x[0-9a-fA-F]{1,8})\b"),
}
_TABLE: Final = 16
"""So many lines a record has."""
_NO_MODULE: Final = ("StackHash_", "unknown")


_FLAT: Final = re.compile(
    r"\bFaulting application name: .{1,300}  Exception code: 0x|"
    r"\bAPPCRASH Application Name: .{1,400} Exception Code: \w"
)


class WindowsBlock:
    """One record, while it is read."""

    def __init__(self, line: LogLine) -> None:
        """Begin with the line that names the event, the application or the module."""
        self._line = line
        self._fields: dict[str, str] = {}
        self._left = _TABLE
        self._is_ordered = _SIGNATURE.match(line.text) is not None
        self._count = -1

    def feed(self, line: LogLine) -> bool:
        """Take the line in, where it is a field, or where all stand in one line."""
        self._left -= 1
        if _FLAT.search(line.text) is not None:
            found = {name: pattern.search(line.text) for name, pattern in _FIELDS.items()}
            self._fields |= {name: match[name] for name, match in found.items() if match}
            return True
        text = self._numbered(line.text)
        for name, pattern in _FIELDS.items():
            match = pattern.match(text)
            if match is not None and name not in self._fields:
                self._fields[name] = match[name]
                if name == "code":
                    self._line = line
                return True
        return False

    def _numbered(self, text: str) -> str:
        """A field of the dialog with its number instead of a label in whatever language."""
        label = _LABEL.match(text) if self._is_ordered else None
        if label is None:
            return text
        self._count += 1
        number, name = _ORDER.get(self._count, ("", ""))
        if not number or name in self._fields or any(f.match(text) for f in _FIELDS.values()):
            return text
        return f"{number}: {text[label.end() :]}"

    @property
    def done(self) -> bool:
        """Was it long enough, or is all known?"""
        return self._left <= 0 or len(self._fields) == len(_FIELDS)

    def close(self) -> Clue | None:
        """The death that the record tells; None without a code: such a record tells of a hang."""
        if "code" not in self._fields:
            return None
        kind, signal, detail = WINDOWS_STATUSES.get(
            int(self._fields["code"], 16), (ClueKind.SIGNAL, None, None)
        )
        module = self._fields.get("module", "unknown")
        place = NativeCall(function=None, module=module)
        return replace(
            clue_at(self._line, kind, "Windows"),
            name=self._fields.get("name"),
            pid=int(self._fields["pid"], 16) if "pid" in self._fields else None,
            signal=signal,
            detail=detail or f"exception {self._fields['code']}",
            native=() if module.startswith(_NO_MODULE) else (place,),
            of_another=True,
        )


def open_record(line: LogLine) -> WindowsBlock | None:
    """A record that begins in this line."""
    is_record = _FLAT.search(line.text) is not None or any(
        _FIELDS[name].match(line.text) for name in ("name", "module")
    )
    if not is_record and _SIGNATURE.match(line.text) is None:
        return None
    block = WindowsBlock(line)
    block.feed(line)
    return block
