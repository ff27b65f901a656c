"""build.json comes back as it was written; anything else is refused with a reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vllm_forensics.errors import EvidenceError
from vllm_forensics.evidence.build_manifest import parse_build_manifest
from vllm_forensics.model.build import (
    BuildManifest,
    BuildPython,
    BuiltFile,
    Compiler,
    FileKind,
    FramePointers,
    Proof,
    Sanitizer,
    Step,
    Verdict,
)
from vllm_forensics.render.build_wire import render_build_json

MANIFEST = BuildManifest(
    source="/home/me/project",
    folder="/home/me/project/.forensics/asan",
    flavour="asan",
    sanitizers=(Sanitizer.ADDRESS,),
    hardened=False,
    system="setuptools",
    compiler=Compiler(
        family="gcc",
        c="/usr/bin/gcc",
        cxx="/usr/bin/g++",
        version="12.2.0",
        runtimes=("/usr/lib/libasan.so.8.0.0",),
    ),
    python=BuildPython(
        executable="/home/me/project/.forensics/asan/venv/bin/python",
        base="/usr/bin/python3.11",
        version="3.11.2",
    ),
    files=(
        BuiltFile(
            path="/home/me/project/.forensics/asan/venv/lib/quick.so",
            kind=FileKind.MODULE,
            build_id="00ff",
            proof=Proof(
                verdict=Verdict.PROVED,
                sanitizers=(Sanitizer.ADDRESS,),
                runtimes=("libasan.so.8",),
                debug_info=True,
                frame_pointers=FramePointers.KEPT,
                units=1,
            ),
        ),
    ),
    modules=("quick",),
    steps=(Step(name="wheel", seconds=2.5, command="pip wheel ."),),
    started="2026-01-01T00:00:00+00:00",
    seconds=3.0,
    log="/home/me/project/.forensics/asan/build.log",
)


def test_a_manifest_comes_back_as_it_was_written() -> None:
    text = render_build_json(MANIFEST)

    assert parse_build_manifest(text.encode()) == MANIFEST


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[]", "schema"),
        (b'{"schema": "forensics.core/1"}', "forensics.core/1"),
        (b'{"schema": "forensics.build/1"}', "missing"),
        (b'{"schema": "forensics.build/1", "source": 3}', "source"),
    ],
)
def test_what_is_no_manifest_is_refused_with_a_reason(data: bytes, says: str) -> None:
    with pytest.raises(EvidenceError) as caught:
        parse_build_manifest(data)

    assert says in caught.value.message
    assert "forensics build" in caught.value.remedy


@given(st.integers(0, 2000), st.binary(max_size=20))
def test_damage_raises_nothing_else(at: int, damage: bytes) -> None:
    whole = render_build_json(MANIFEST).encode()
    data = whole[:at] + damage + whole[at + len(damage) :]

    try:
        found = parse_build_manifest(data)
    except EvidenceError:
        return
    assert isinstance(found, BuildManifest)
