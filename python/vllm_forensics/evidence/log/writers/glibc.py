"""What glibc writes when it ends a program: a damaged heap, fortify, assertions."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.log.phrases import Family, Phrase
from vllm_forensics.model.incident import ClueKind

_PROGRAM: Final = (
    r"(?:[^\s`':]{0,200}/)?(?P<name>(?!(?i:error|fatal|stderr|stdout|warning|info)\b)"
    r"[\w.+-]{1,60})"
)
"""As the C library names the program: by the path that it was started with."""
_DAMAGE: Final = (
    r"(?P<detail>(?:\w{3,20}\(\): )?[\w .]{5,60}(?: \([\w !>-]{1,30}\))?)"
    r"(?:: 0x|\s*\*\*\*|\W{0,4}$)"
)
_STARS: Final = r"[ *_\\]{3,8}"
"""glibc's three, and what markdown may make of them."""
_ENDED: Final = rf"(?:: (?!terminated){_PROGRAM} terminated)?"
_ABROAD: Final = (
    "asserzione",
    "Zusicherung",
    "l\u2019assertion",
    "l'assertion",
    "declaraci\u00f3n",
    "Asser\u00e7\u00e3o",
    "\u0443\u0442\u0432\u0435\u0440\u0436\u0434\u0435\u043d\u0438\u0435",
    "Zapewnienie",
    "\u65ad\u8a00",
    "\u8a3a\u65b7",
    "Bewering",
    "F\u00f6rs\u00e4kran",
)
"""An assertion, as the C library calls it in other languages."""
GLIBC: Final = Family(
    source="glibc",
    phrases=(
        Phrase(
            ClueKind.HEAP,
            "glibc detected",
            # a server may have given its process a title
            rf"glibc detected \*\*\* (?:\[[^\[\]]{{1,40}}\] )?{_PROGRAM}(?: [\w#]{{1,20}}){{0,3}}: "
            rf"{_DAMAGE}",
            "*** glibc detected *** /usr/bin/serve: double free or corruption (!prev): "
            "0x00005581c0de1234 ***",
            signal="SIGABRT",
        ),
        Phrase(  # before 2.26
            ClueKind.HEAP,
            "*** Error in ",
            rf"\*\*\* Error in [`'\"]?(?:[^`':]{{0,200}}/)?{_PROGRAM}': {_DAMAGE}",
            "*** Error in `/usr/bin/serve': double free or corruption (!prev): 0x00005581c0de1234 "
            "***",
            signal="SIGABRT",
        ),
        Phrase(  # whose stars a title or a quotation lost
            ClueKind.HEAP,
            "Error in `",
            rf"^\W{{0,8}}Error in `(?:[^`':]{{0,200}}/)?{_PROGRAM}': {_DAMAGE}",
            "Error in `serve': free(): invalid pointer: 0x00005581c0de1234 ***",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.HEAP,
            "free(): ",
            r"(?:^|\W)(?P<detail>(?:munmap_chunk|free)\(\): (?:invalid (?:pointer|size|next size|"
            r"next->prev_inuse)|double free|unaligned|corrupted|too many)[\w ()>-]{0,60})",
            "free(): invalid pointer",
            signal="SIGABRT",
        ),
        Phrase(  # as people write it down
            ClueKind.HEAP,
            "free() ",
            r"(?:^|\W)(?P<detail>free\(\) invalid (?:pointer|size|next size))",
            "free() invalid pointer",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.HEAP,
            "double free or corruption",
            r"(?P<detail>double free or corruption(?: \([\w!]{1,200}\))?)",
            "double free or corruption (!prev)",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.HEAP,
            "alloc(): ",
            r"(?:^|\W)(?P<detail>(?:malloc|realloc|calloc|memalign|_int_malloc|tcache_\w{1,60})\("
            r"\): "
            r"[\w ():>-]{5,80})",
            "malloc(): unsorted double linked list corrupted",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.HEAP,
            "malloc_consolidate(): ",
            r"(?P<detail>malloc_consolidate\(\): [\w ]{5,60})",
            "malloc_consolidate(): unaligned fastbin chunk detected",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.HEAP,
            "munmap_chunk(): ",
            r"(?P<detail>munmap_chunk\(\): invalid pointer)",
            "munmap_chunk(): invalid pointer",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.HEAP,
            "corrupted ",
            r"(?:^|[:\]*`|] {0,3})(?P<detail>corrupted (?:double-linked list(?: \(not "
            r"small\))?|size vs\. prev_size(?: in fastbins| while consolidating)?|unsorted chunks))"
            r"(?: Aborted\b|: 0x|\W{0,4}$)",
            "corrupted size vs. prev_size",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.HEAP,
            "sysmalloc: Assertion",
            r"(?P<detail>sysmalloc: Assertion .{1,200} failed)",
            "malloc.c:2617: sysmalloc: Assertion `(old_top == initial_top (av) && old_size == 0)' "
            "failed.",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "stack smashing detected",
            rf"{_STARS}stack smashing detected{_STARS}{_ENDED}",
            "*** stack smashing detected ***: /usr/bin/serve terminated",
            signal="SIGABRT",
            detail="*** stack smashing detected ***",
        ),
        Phrase(
            ClueKind.ABORT,
            "buffer overflow detected",
            rf"{_STARS}buffer overflow detected{_STARS}{_ENDED}",
            "*** buffer overflow detected ***: terminated",
            signal="SIGABRT",
            detail="*** buffer overflow detected ***",
        ),
        Phrase(
            ClueKind.ABORT,
            ": Assertion ",
            rf"(?:(?<![^\s`(]){_PROGRAM}(?:\[(?P<pid>\d{{1,9}})\])?: )?"
            r"(?P<detail>(?<![^\s:`])[^\s:`]{1,200}:\d{1,20} ?: ?"
            # a page takes the first mark for its own
            r"(?!.*\], thread: \[)(?!.{0,300}\b[Ww]arning: Assertion ).{1,500}?: Assertion "
            r"(?:[`']?.{1,200}['`] failed|`[^'`]{1,200}$))",  # a title may be cut off
            "worker: cache.cpp:88: int get(int): Assertion `id < size' failed.",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "Assertion ",
            r"^(?:(?P<function>[A-Za-z_][\w:~<>]{1,120}): )?"  # a title may leave the file out
            r"(?P<detail>Assertion [`'].{1,300}' failed)\.?(?: #\d{1,9})?\s*$",
            "take: Assertion `id < size' failed.",
            signal="SIGABRT",
        ),
        *(
            Phrase(
                ClueKind.ABORT,
                f"{word} ",
                rf"(?:(?<![^\s`(]){_PROGRAM}(?:\[(?P<pid>\d{{1,9}})\])?: )?"
                rf"(?P<detail>[^\s:`]{{1,200}}:\d{{1,7}}: ?(?:.{{1,400}}?: ?)?"
                rf"(?:la )?{word} \W{{1,3}}.{{1,300}})",
                f"serve: pool.c:88: take: {word} `pool != NULL' \u2026",
                signal="SIGABRT",
            )
            for word in _ABROAD
        ),
        Phrase(
            ClueKind.ABORT,
            "Assertion `",
            r"(?P<detail>(?<!\S)\S{1,200}:\d{1,20}: (?!.*\], thread: \[).{0,200}"
            r"Assertion `.{1,200}' failed)",
            "cache.cpp:88: Assertion `id < size' failed.",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            ": ASSERTION '",
            r"(?P<detail>(?<![\w./-])[\w./-]{1,200}:\d{1,7}:.{0,200}?: ASSERTION '.{1,200}' "
            r"FAILED)",
            "src/pool.cc:88:void Pool::take(void*, int): ASSERTION 'id < size' FAILED: too large",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.ABORT,
            "Inconsistency detected by ld.so: ",
            r"(?P<detail>Inconsistency detected by ld\.so: [^:]{1,200}: \d{1,20}: "
            r"(?P<function>\w{1,80}): Assertion `.{1,200}' failed!)",
            "Inconsistency detected by ld.so: dl-minimal.c: 88: realloc: Assertion `ptr == last' "
            "failed!",
        ),
        Phrase(
            ClueKind.ABORT,
            "assertion failed: ",
            r"^(?:> )?(?P<detail>[\w./-]{1,200}:\d{1,20}: (?:[\w ]{1,40}: )?"
            r"assertion failed: .{1,200})",
            "../src/pool.h:88: Serve fatal error: assertion failed: id < size",
        ),
        Phrase(  # a title that quotes it
            ClueKind.ABORT,
            "assertion failed: ",
            r"^#{1,3} (?:.{0,60} )?[\"'`\u201c](?P<detail>assertion failed: [^\"'`\u201d]{2,160})",
            '# Crash "assertion failed: id < size" in Serve 1.19',
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.HEAP,
            "Attempt to free invalid pointer",
            r"(?P<detail>Attempt to free invalid pointer.{0,40})",
            "src/tcmalloc.cc:332] Attempt to free invalid pointer 0x55d0c2e80048",
            signal="SIGABRT",
        ),
        Phrase(
            ClueKind.HEAP,
            "mimalloc: error: ",
            r"(?P<detail>mimalloc: error: .{1,120})",
            "mimalloc: error: double free detected of block 0x7f1be0001234 with size 64",
        ),
    ),
)
