"""C++ names; what is not understood is None, never a guess."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_forensics.evidence.demangle import demangle

SYMBOLS = {
    "_ZN4vllm5Block4dataEv": "vllm::Block::data",
    "_ZNK4vllm5Block2idEv": "vllm::Block::id",
    "_Z4workv": "work",
    "_ZL6helperi": "helper",
    "_ZN4vllm5BlockC1Ei": "vllm::Block::Block",
    "_ZN4vllm5BlockC2Ei": "vllm::Block::Block",
    "_ZN4vllm5BlockD0Ev": "vllm::Block::~Block",
    "_ZN12_GLOBAL__N_13runEv": "(anonymous namespace)::run",
    "_ZNSt6vectorIiSaIiEE2atEm": "std::vector<int, std::allocator<int>>::at",
    "_ZSt9terminatev": "std::terminate",
    "_Z3runILi3ELb1EEvv": "run<3, true>",
    "_Z3runIPKcEvT_": "run<char const*>",
    "_ZTV5Block": "vtable for Block",
    "_ZTI5Block": "typeinfo for Block",
    "_ZN3foo3barB5cxx11Ev": "foo::bar",
    "_ZN3c10lsERSoRKNS_6IValueE": "c10::operator<<",
    "_ZN3c10lsIlEERSoS1_RKNS_12VaryingShapeIT_EE": "c10::operator<< <long>",
    "_ZNK4poolcvbEv": "pool::operator bool",
    "_ZNK4poolclEi": "pool::operator()",
    "_Z4takeIPFviEEvT_": "take<void (*)(int)>",
    "_Z4takeIFviEEvv": "take<void (int)>",
    "_Z4takeIM4PoolKFvvEEvT_": "take<void (Pool::*)() const>",
    "_Z4takeIRA4_KcEvT_": "take<char const (&) [4]>",
    "_Z4takeIJilEEvDpT_": "take<int, long>",
    "_Z4takeILm2EEvv": "take<2ul>",
    "_ZZN4pool4takeEiENKUliE_clEi": "pool::take(int)::{lambda(int)#1}::operator()",
    "_ZZ4workvE4done": "work()::done",
    "_ZThn16_N4pool4takeEv": "non-virtual thunk to pool::take",
    "_ZTv0_n24_N4pool4takeEv": "virtual thunk to pool::take",
    "_ZGVZ4workvE4done": "guard variable for work()::done",
}
TYPES = {
    "_Z4takeIL_Z4workvEEvv": "take<&work>",
    "PFPFvvEiE": "void (*(*)(int))()",
    "PA3_A4_i": "int (*) [3][4]",
    "DF16_": "_Float16",
    "St12out_of_range": "std::out_of_range",
    "N4vllm10BlockErrorE": "vllm::BlockError",
    "i": "int",
    "PKc": "char const*",
    "9BadBlocks": "BadBlocks",
    "St6vectorIiSaIiEE": "std::vector<int, std::allocator<int>>",
}


SYMBOLS["_ZNSt17_Function_handlerIFvRN2at6TensorEEPS3_E9_M_invokeERKSt9_Any_dataS2_"] = (
    "std::_Function_handler<void (at::Tensor&), void (*)(at::Tensor&)>::_M_invoke"
)


@pytest.mark.parametrize(("mangled", "plain"), [*SYMBOLS.items(), *TYPES.items()])
def test_the_plain_qualified_name(mangled: str, plain: str) -> None:
    assert demangle(mangled) == plain


@pytest.mark.parametrize(
    "name",
    ["", "main", "_Z", "_ZN", "_ZN4vl", "_Z99x", "_ZNCE", "_ZNSt", "S9_", "S_", "1", "PK",
     "I", "N1aIE", "_ZN1aI", "9Bad", "iX", "_Z" + "9" * 5000, "\u0661a", "\u00b2ab"],
)  # fmt: skip
def test_what_is_no_mangled_name_is_none(name: str) -> None:
    assert demangle(name) is None


@pytest.mark.parametrize(("mangled", "plain"), SYMBOLS.items())
def test_the_binutils_say_the_same(mangled: str, plain: str) -> None:
    tool = shutil.which("c++filt")
    assert tool is not None, "apt-get install binutils"

    said = subprocess.run([tool, "-p", mangled], check=True, capture_output=True, text=True).stdout

    tag = "[abi:cxx11]"
    assert said.strip().replace("> >", ">>").replace(tag, "") in {plain, f"{plain}()"}


def test_the_standard_library_has_no_name_that_is_not_read() -> None:
    library = next(iter(Path("/usr/lib").glob("*-linux-gnu/libstdc++.so.6")), None)
    assert library is not None, "apt-get install g++"
    listed = subprocess.run(["nm", "-D", library], check=True, capture_output=True, text=True)

    names = {line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()}
    mangled = [name for name in names if name.startswith("_Z")]

    assert len(mangled) > 1000
    assert [name for name in mangled if demangle(name) is None] == []


@pytest.mark.parametrize(
    "unit", ["N", "P", "1a", "I", "S_", "N1a", "1aI", "K", "St", "L", "Ss", "_Z", "1aIS_", "E"]
)
def test_repeated_pieces_end_soon(unit: str) -> None:
    for name in (unit * 2000, "_Z" + unit * 2000, "_ZN" + unit * 1500 + "E" * 500):
        found = demangle(name)

        assert found is None or len(found) < 1 << 20


def _substitution(index: int) -> str:
    """S_, S0_ … SZ_, S10_ …: the ABI counts in base 36 from the second on."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    if index == 0:
        return "S_"
    high, low = divmod(index - 1, 36)
    return f"S{digits[high] if high else ''}{digits[low]}_"


@pytest.mark.parametrize("levels", [5, 20, 200])
def test_substitutions_that_double_the_name_do_not_explode(levels: int) -> None:
    pieces, last = [], 0
    for level in range(levels):
        pieces.append(f"1bI{_substitution(last)}{_substitution(last)}E")
        last = 2 * level + 2

    found = demangle(f"1aI{''.join(pieces)}E")

    assert found is not None if levels == 5 else found is None


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet="_ZNStKPRIELSC12D0aiv9", max_size=60))
def test_no_text_raises_anything(text: str) -> None:
    for name in (text, "_Z" + text, "_ZN" + text):
        found = demangle(name)

        assert found is None or found


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=40))
def test_no_unicode_raises_anything(text: str) -> None:
    demangle(text)
    demangle("_Z" + text)
