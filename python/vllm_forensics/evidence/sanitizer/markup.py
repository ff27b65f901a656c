"""Takes away what a web page, a mail or a bug tracker has put around and into a line of a log."""

from __future__ import annotations

import re
from typing import Final

_ENTITY: Final = re.compile(r"&(?:[a-z]{2,6}|#\d{1,6}|#x[0-9a-fA-F]{1,6});")
_ESCAPED: Final = re.compile(r"\\([()\[\].+*_-])")
"""Markdown that was written by a program: free\\(\\)."""
_DRIVE: Final = re.compile(r"\b[A-Za-z]:\\|\\{2}")
_ENDS_LINE: Final = re.compile(r"<br ?/?>|</(?:p|div|tr|li|pre|summary)>")
_TAG: Final = re.compile(
    r"</?(?:a|b|code|details|div|em|font|i|li|p|pre|s|samp|span|strong|summary|system-err|system-out"
    r"|table|tbody|td|th|tr|tt|u|ul)(?: [^<>]{0,400})?>|<!\[CDATA\[|\]\]>"
)
_CTEST_MARK: Final = re.compile(r"<b>[^<>]{1,80}</b> ")
"""CTest puts the kind of a defect in bold before the line that names it."""
_LINKED_STEP: Final = re.compile(r"\[(\w{1,8})\]\(https?://[^\s()]{1,200}#step:\d+:\d+\)")
"""A CI's page, copied, has some of the digits as links to its own lines."""
_REPEATED: Final = re.compile(r"message repeated \d{1,9} times: \[ ?(.*)\]$")
"""How rsyslog writes a line that came more than once."""
_OCTETS: Final = re.compile(r"(?:=[0-9A-F]{2})+")
_FRAME_START: Final = re.compile(r"#\d{1,4}:?[ \t]+0x[0-9a-fA-F]{4,16}[ \t]+(?:in |\()")
_RUN_TOGETHER_RACE: Final = re.compile(
    r"(?<=\S)[ \t]+(?=#\d{1,4} (?!in )|(?:Atomic )?(?:Read|Write) of size \d+ at 0x|SUMMARY: "
    r"|Previous (?:atomic )?(?:read|write) of size |Location is |Thread T\d+ .{0,60}created "
    r"|Mutex M\d+ )"
)
_RUN_TOGETHER_UCX: Final = re.compile(r"(?<=\S)[ \t]{2,}(?=\d{1,2} 0x[0-9a-f]{16} \S)")
_ACCESS: Final = re.compile(r" (?:READ|WRITE) of size \d+ at 0x")
_RUN_TOGETHER: Final = re.compile(
    r"(?<=\S)(?<!previously)[ \t]+(?=#\d{1,4}:?[ \t]+0x[0-9a-fA-F]{4,16}[ \t]+(?:in |\()"
    r"|(?:==\d+==)?(?:READ|WRITE) of size |(?<!Address )0x[0-9a-f]+ is located |SUMMARY: "
    r"|(?:previously )?allocated by thread |freed by thread |Thread T\d+ |==\d+=="
    r"|Uninitialized value was |Shadow bytes around |=?>?0x[0-9a-f]{6,16}: [0-9a-f]{2} "
    r"|(?:Ind|D)irect leak of |AddressSanitizer can not provide |\[\d{1,9}, \d{1,9}\) '"
    r"|Address 0x[0-9a-f]+ is located |This frame has |These globals were |HINT: )"
)


def is_marked(text: str) -> bool:
    """May a line have to be cleaned, or parted, for something that it holds? A quick look."""
    if "[" in text and ("[0m" in text or "[1m" in text or "^[" in text or "message rep" in text):
        return True
    if "#" in text and ("#0" in text or text.count("#") > 1):
        return True
    if "<" in text and ("</" in text or "<br" in text or "<pre" in text or "<!" in text):
        return True
    if "=" in text and ("=3D" in text or "=C2=A0" in text):
        return True
    return "](http" in text or ("&" in text and ";" in text)


def plain_text(text: str) -> str:
    """The line as the program wrote it; more than one, parted by newlines, where it holds more."""
    if not text.isascii():
        text = text.replace("\ufeff", "").replace("\xa0", " ")
    if ("<" in text and ("</" in text or "<br" in text or "<pre" in text)) or "CDATA[" in text:
        text = _CTEST_MARK.sub("", text)
        text = _TAG.sub("", _ENDS_LINE.sub("\n", text))
    if "&" in text and ";" in text:
        once = _ENTITY.sub(_character, text)
        text = _ENTITY.sub(_character, once).replace("\xa0", " ") if once != text else text
        text = text.replace("\u200b", "")
    if text.count("\\") > 1 and len(_ESCAPED.findall(text)) > 1 and _DRIVE.search(text) is None:
        text = _ESCAPED.sub(r"\1", text)
    if "message repeated " in text:
        text = _REPEATED.sub(r"\1", text)
    if "](http" in text:
        text = _LINKED_STEP.sub(r"\1", text)
    if "=3D" in text or "=C2=A0" in text:  # quoted-printable
        text = _OCTETS.sub(_decoded, text).replace("\xa0", " ")
    return text


def parted(text: str) -> str:
    """A report whose newlines were lost, with newlines again; all else as it is."""
    if "???:0 " in text:
        return _RUN_TOGETHER_UCX.sub("\n", text)
    if (text.count("#") < 2 and "Sanitizer: " not in text) or "\n" in text:
        return text
    starts = len(_FRAME_START.findall(text))
    if starts > 1 or ("Sanitizer: " in text and (starts or _ACCESS.search(text))):
        return _RUN_TOGETHER.sub("\n", text)
    if "ThreadSanitizer: " in text and "+0x" in text and text.count(" #") > 1:
        return _RUN_TOGETHER_RACE.sub("\n", text)
    return text


def _character(match: re.Match[str]) -> str:
    import html  # a table of 2,000 names, of which a log has seldom one

    return html.unescape(match[0])


def _decoded(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("=", "")).decode("utf-8", "replace")
