"""The kernel's code page, out of a core's memory."""

import struct

from tests.py.support.core_builder import CoreSpec, LoadSegment, R, X, build_core
from tests.py.support.sample_library import SampleLibrary

from vllm_forensics.evidence.core_file import CoreImage
from vllm_forensics.evidence.modules import ModuleFile
from vllm_forensics.evidence.vdso import VDSO, parse_vdso
from vllm_forensics.model.answer import Answer, Gap, Known
from vllm_forensics.model.process import Module

START = 0xF7F7_3000
AT_SYSINFO_EHDR = 33


def no_files(module: Module) -> Answer[ModuleFile]:
    return Gap(what=f"{module.path} is not here")


def test_the_page_is_a_module_with_names(library: SampleLibrary) -> None:
    raw = library.whole.read_bytes()
    spec = CoreSpec(
        auxv={6: 4096, AT_SYSINFO_EHDR: START},
        segments=(LoadSegment(address=START, contents=raw, flags=R | X),),
    )
    image = CoreImage(memoryview(build_core(spec)), no_files)
    helper = START + library.addresses["helper"]

    module, symbol = image.module_at(helper), image.symbol_at(helper)

    assert isinstance(module, Known)
    assert (module.value.path, module.value.bias) == (VDSO, START)
    assert isinstance(symbol, Known)
    assert symbol.value.name == "helper"
    assert image.modules == ()


def test_what_is_no_image_is_none() -> None:
    assert parse_vdso(b"\x7fELF" + bytes(60), START, 4096) is None
    assert parse_vdso(struct.pack("<Q", 0), START, 4096) is None


def test_an_address_that_nothing_is_mapped_at_is_none() -> None:
    image = CoreImage(memoryview(build_core(CoreSpec(auxv={AT_SYSINFO_EHDR: START}))), no_files)

    assert isinstance(image.module_at(START), Gap)
