"""The function, library or source that a clause names behind a word of place, by its form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from vllm_forensics.evidence.lazily import lazily
from vllm_forensics.evidence.log.people.no_names import LIKE_ADJECTIVE, somebody
from vllm_forensics.evidence.log.people.sentence_names import names_a_process
from vllm_forensics.evidence.log.people.statements import loaded_in
from vllm_forensics.model.incident import NativeCall

_WORD: Final = r"[A-Za-z_~][\w.:+-]{1,60}[\w+]"
_OF_LIBRARIES: Final = (
    r"(?:(?:extension|module|library|lib|package|plug-?in|add-?on|driver|binding|wrapper|codec|dll)s?|"
    r"(?:(?:is|was|being|gets?) )?imported)"
)
_OF_FUNCTIONS: Final = (
    r"(?:(?:function|method|operator|routine|call|constructor|destructor|macro|callback|"
    r"kernel|op)s?|class)"
)
_IN: Final = (
    r"in(?:side|to)?|at|within|from|by|of|during|on|calling|calls?(?: to)?|call(?:ed|s)|invoking|"
    r"executing|importing|imports?|loading|using|with|when|to|against|due to|because of|related to|"
    r"install(?:ing)?|enabling|running|(?:execute|run|call|invoke|use|import|load)d?|through|via|after|while|related|appears?"
)
_NEAR: Final = {"in", "inside", "into", "within", "at", "from", "by"}
_STRONG: Final = lazily(r"calling|invoking|executing|importing|loading|calls? to|call(?:ed|s)?")
"""Behind these the mere form of a name is enough."""
_HERE: Final = lazily(
    rf"(?i)(?<![\w-])(?<!idle )(?<!waiting )(?<!stuck )(?<!blocked )(?P<word>{_IN}) "
    r"(?:(?:the|an?|my|our|its|their|this|any|native|c\+\+|fortran|python|rust|c|external|shared|"
    r"create|alter|drop|line|statement|step|code|custom|c?pp|cuda|one of the|some of the|"
    r"any of the|all) ){0,3}"
    r"(?:\w{1,30} ?= ?)?"
)
"""Behind such a word a place may stand."""
_ABROAD: Final = lazily(
    r"(?P<word>\u6267\u884c\u5230|\u8fd0\u884c\u5230|\u8c03\u7528|\u5bfc\u5165|\u52a0\u8f7d|\u4f7f\u7528)\s{0,2}"
    r"(?:\w{1,30} ?= ?)?"
)
"""The same in Chinese, where no blank parts them."""
_PARTS: Final = (
    r"codegen|compiler|parser|renderer|backend|runtime|allocator|decoder|encoder|loader|interpreter"
)
"""What a program or a library consists of, behind the name of what does it."""
_QUOTE: Final = r"[`\"'\u201c]{0,2}"
_KIND_FIRST: Final = lazily(
    rf"(?i)(?:(?P<library>{_OF_LIBRARIES})|(?P<function>{_OF_FUNCTIONS})) "
    rf"(?P<quote>{_QUOTE})(?P<name>{_WORD})"
)
_KIND_LAST: Final = lazily(
    rf"(?i)(?P<quote>{_QUOTE})(?P<name>{_WORD})(?:\(\))?[`\"'\u201d]{{0,2}}(?:'s)? "
    rf"(?:(?:python|native|c\+\+|shared|kernel) )?"
    rf"(?:(?P<library>{_OF_LIBRARIES})|(?P<function>{_OF_FUNCTIONS}))(?![\w-])"
)
_SHARED: Final = lazily(
    r"[`\"']?(?:[\w.~-]{0,60}/){0,12}(?P<name>[\w.+-]{1,80}?\."
    r"(?:so(?:\.\d{1,6}){0,3}|dll|dylib|pyd|bpl|ocx|sys|node|bundle)|"
    r"lib(?!rar|re|er|ido|lib)[a-z][\w+]{1,30}(?![\w./:(-]))(?![\w-])"
)
_SOURCE: Final = lazily(
    r"[`\"'*]{0,3}(?P<name>(?:[\w.+-]{1,60}/){0,10}[\w+-]{1,60}\."
    r"(?:c|cc|cpp|cxx|cu|cuh|h|hpp|rs|mm|pyx|f90|f|go|zig|asm|inl))(?!\w)[`\"'*]{0,3}"
    r"(?:(?:'s)?[:, (]{0,2}(?:at )?(?:line |L)?(?P<line>\d{1,6})\b)?"
)
"""A source of what is compiled; an interpreter's is a program that was run."""
_CALL: Final = lazily(
    r"[`']?\.?(?P<name>(?:[A-Za-z_]\w{0,60}(?:\.|::|->)){0,6}[A-Za-z_~]\w{1,80})\([^()`]{0,80}\)`?"
)
_SCOPED: Final = lazily(r"`?(?P<name>(?:[A-Za-z_~]\w{0,60}(?:<[\w:, ]{1,60}>)?::){1,6}~?\w{1,80})")
_QUOTED: Final = lazily(
    r"`(?P<name>(?:[A-Za-z_]\w{0,60}(?:\.|::)){0,6}[A-Za-z_]\w{2,80})(?:\([^()`]{0,80}\))?`"
)
_SNAKE: Final = lazily(
    r"(?P<name>_{0,3}[a-z][a-z0-9]{0,30}(?:_[A-Za-z0-9]{1,30}){1,8}|"
    r"[a-z]{1,20}(?:[A-Z][a-z0-9]{1,20}){2,8}|[A-Za-z_]\w{1,40}(?:\.[A-Za-z_]\w{1,40}){1,5})"
    r"(?![\w.:/=-]*[\w/=])"
)
_LONG_SNAKE: Final = lazily(
    r"(?P<name>_{0,3}[a-z][a-z0-9]{0,30}(?:_[a-z0-9]{1,30}){2,8})(?![\w.:/=-]*[\w/=])"
)
_PART: Final = lazily(
    rf"[`\"']?(?P<name>[A-Z][\w+-]{{2,40}})[`\"']?(?: [A-Z]{{2,6}})? (?:{_PARTS})(?![\w-])"
)
_FREE: Final = {"using": (_LONG_SNAKE,), "on": (_QUOTED,)}
_KNOWN: Final = lazily(r"[`\"']{0,2}(?P<name>[A-Za-z][\w-]{1,50})(?=[`\"',;:)?!]{0,3}(?:[ .]|$))")
_STATEMENT: Final = lazily(r"`(?:from|import) (?P<name>[A-Za-z_][\w.]{1,80})(?: import\b| as \w|`)")
_NO_CODE: Final = lazily(
    r"(?:\w{1,60}\.(?:py|js|ts|sh|rb|php|java|md|txt|log|json|ya?ml|toml|xml|html|css|conf|cfg|ini|"
    r"lock|ipynb|csv|zip|gz|gguf|bin|exe|com|org|net|io|dev|ai|jar|apk|app|deb|rpm|whl|rst|pdf|png|"
    r"jpe?g|mp4|sql|db|mod|sum|core|pt|pth|onnx|safetensors|h5|pkl|parquet|ps1|bat|test|spec|"
    r"[cm]js|tsx|jsx|vue|mk|in|am|cmake|tar|gguf|txt|so|dll)|"
    r"v?\d[\w.]*|(?-i:[A-Z][A-Z0-9]{0,30}(?:_[A-Z0-9]{1,30}){1,8})|[\w.-]{1,50}-\d[\w.]*|"
    r"\w{0,12}(?:x86|arm|amd|aarch|win|linux|mac(?:os)?|darwin)_?\d{0,2}|(?:i\.e|e\.g)\.?|\w+_threads?|"
    r"(?:num|max|min|batch|n|use|enable|disable|is|has|with|no)_\w+|\w+_(?:size|len(?:gth)?|count|mode|path|dir|"
    r"file|id|name|type|rate|level|limit|config|settings?|options?|args?|params?|parallel|"
    r"utilization|enabled|ratio|factor|version|url|key|tokens?|batch(?:es)?|model|dtype|seed|num|steps?|"
    r"layers?|device|backend|cache|timeout|interval|env|tests?|ctl|server|client|worker|"
    r"daemon|exporter|bench|tool|cli|fuzzer|service|process|libraries)|(?:\w+_)?test_\w+|malloc_\w+|"
    r"(?:args|self|cfg|config|opts?|options|settings|params|kwargs)\.[\w.]+|"
    r"\w+(?:Error|Exception|Warning|Interrupt)|(?-i:SIG[A-Z]{2,6})|abort|raise|malloc|calloc|realloc|free|exit|"
    r"main|kill|printf|assert|release|debug|master|true|false|null|none|nil|nightly|develop|python\d?|"
    r"bash|docker|sudo|git|make|cmake|gdb|lldb|valgrind|ctrl|core|segfault|crash)$",
    re.IGNORECASE,
)
"""Files that are read or run, versions, constants, machines, parameters, and what ends programs."""
_UPPER: Final = lazily(
    r"(?:[A-Z][A-Z0-9]{1,30}(?:_[A-Z0-9]{1,30}){0,8}|abort|raise|malloc|calloc|realloc|free|exit|main|"
    r"kill|assert|printf|print|fork)$"
)
_GENERIC: Final = lazily(
    r"(?i)(?:python\d?|native|c|c\+\+|cpp|shared|third-?party|3rd-?party|external|custom|main|same|other|"
    r"new|this|that|these|those|own|kernel|standard|core|static|dynamic|compiled|binary|specific|any|"
    r"some|each|every|user|system|lambda|member|virtual|callback|anonymous|following|another|given|"
    r"browser|vs ?code|chrome|firefox|javascript|typescript|rust|go|java|node|php|ruby|cython|"
    r"postgres(?:ql)?|mysql|sql|wasm|gpu|cpu|audio|video|graphics?|display|network|printer|usb|device|"
    r"nvidia|amd|intel|linux|windows|mac(?:os)?|my|your|our|its|the|an?|of|for|and|or|with|to|in|is|"
    r"class|function|method|template|inline|helper|utility|wrapper|base|parent|child|single|first|"
    r"last|next|previous|latest|recent|old|older|newer|additional|extra|missing|whole|entire|two|"
    r"three|multiple|several|many|most|all|no|official|default|built-?in|builtin|local|remote|data|"
    r"file|image|text|json|xml|http|web|server|client|test|debug|release|async|sync|api|that|which|"
    r"when|if|as|are|was|has|have|not|it|from|by|on|at|after|before|using|calling|import|loading|"
    r"public|private|global|system|rpc|remote|procedure|method|tool|phone|api|video|voice|recursive|"
    r"first|second|third|cuda|triton|device|attention|windows|apt|pip|npm|conda|deb|rpm|snap|create|"
    r"alter|drop|load|enable|disable|add|update|install|use|an?other|import|imported|statement|"
    r"(?:new|old|lat|great|small|larg|bigg|fast)est)$"
)
"""Before the kind of a thing: of which kind, and not which."""

Found = tuple[NativeCall, bool]
"""A place, and whether its form leaves no doubt that it is one."""


def places_in(clause: str, libraries: Mapping[str, str]) -> Iterator[Found]:
    """What a clause names behind its words of place, in order."""
    for here in chain(_HERE.finditer(clause), _ABROAD.finditer(clause)):
        word = here["word"].lower() if here["word"].isascii() else "calling"
        found = _at(clause, here.end(), word, libraries)
        if found is not None:
            yield found


def place_at(
    text: str, start: int, libraries: Mapping[str, str], *, is_called: bool = False
) -> NativeCall | None:
    """What is named at a position: a subject, or what stands behind a colon."""
    found = _at(text, start, "calling" if is_called else "using", libraries)
    return found[0] if found is not None else None


def _at(text: str, start: int, word: str, libraries: Mapping[str, str]) -> Found | None:
    if (shared := _SHARED.match(text, start)) is not None:
        return NativeCall(function=None, module=shared["name"]), True
    if (source := _SOURCE.match(text, start)) is not None:
        line = int(source["line"]) if source["line"] is not None else None
        return NativeCall(function=None, module=None, file=source["name"], line=line), True
    if (statement := _STATEMENT.match(text, start)) is not None:
        return NativeCall(function=None, module=statement["name"]), True
    return _kind_at(text, start, libraries) or _code_at(text, start, word, libraries)


def _kind_at(text: str, start: int, libraries: Mapping[str, str]) -> Found | None:
    """What is called a library or a function."""
    for form in (_KIND_FIRST, _KIND_LAST):
        match = form.match(text, start)
        if match is None:
            continue
        name = match["name"].rstrip(".:")
        is_sure = bool(match["quote"]) or name.lower() in libraries or _has_form(name)
        if not is_sure and form is _KIND_FIRST and match["library"] is None:
            continue  # `function pointer`
        if not is_sure and (form is _KIND_FIRST or not _is_word(name)):
            continue
        if _NO_CODE.match(name) is not None or _GENERIC.match(name) is not None:
            continue
        if match["library"] is not None:
            return NativeCall(function=None, module=libraries.get(name.lower(), name)), True
        return NativeCall(function=name, module=None), True
    return None


def _code_at(text: str, start: int, word: str, libraries: Mapping[str, str]) -> Found | None:
    """What has the form of code, or is one of the text's libraries."""
    is_near = word in _NEAR or _STRONG.fullmatch(word) is not None
    forms = (_CALL, _SCOPED, _QUOTED, _SNAKE) if is_near else (_CALL, _SCOPED, *_FREE.get(word, ()))
    for form in forms:
        match = form.match(text, start)
        if match is None or _is_no_code(match["name"], is_call=form is _CALL):
            continue
        name = match["name"]
        if form is _CALL and (loaded := loaded_in(match[0])) is not None:
            return loaded, True
        if name.lower() in libraries:
            return NativeCall(function=None, module=libraries[name.lower()]), True
        return NativeCall(function=name, module=None), True
    part = _PART.match(text, start) if is_near else None
    if part is not None and _GENERIC.match(part["name"]) is None:
        return NativeCall(function=None, module=part["name"]), True
    known = _KNOWN.match(text, start)
    if known is not None and known["name"].lower() in libraries:
        return NativeCall(function=None, module=libraries[known["name"].lower()]), True
    return None


def _is_no_code(name: str, *, is_call: bool) -> bool:
    if names_a_process(name):
        return True
    return (_UPPER.match(name) if is_call else _NO_CODE.match(name)) is not None


def _has_form(name: str) -> bool:
    return any(mark in name for mark in "_.:") or any(one.isdigit() for one in name)


def _is_word(name: str) -> bool:
    """May a plain word before the kind of a thing be its name?"""
    is_adjective = LIKE_ADJECTIVE.match(name) is not None
    is_plain = somebody(name) is not None and not is_adjective and len(name) > 2
    return is_plain and "-" not in name
