"""One function has one name, whoever printed it."""

import pytest

from vllm_forensics.diagnosis.sanitizer.names import stable_name

SPELLINGS = {
    "q::go::{lambda}::operator()": (
        "q::go(int)::{lambda(int)#1}::operator()(int) const",
        "q::go(int)::{lambda(int)#2}::operator()(int) const",
        "q::go(int)::$_0::operator()(int) const",
        "q::go(int)::'lambda'(int)::operator()(int) const",
        "q::go(int) const::'lambda0'(int)::operator()(int) const",
        "auto q::go<int>(int)::<lambda(int)>::operator()(int) const",
    ),
    "(anonymous namespace)::f": (
        "(anonymous namespace)::f(int)",
        "{anonymous}::f(int)",
        "`anonymous namespace'::f",
        "int (anonymous namespace)::f<char>(int) [clone .isra.0]",
    ),
    "std::vector::push_back": (
        "std::vector<int, std::allocator<int> >::push_back(int&&)",
        "void std::__1::vector<int, std::__1::allocator<int>>::push_back[abi:v160006](int&&)",
        "std::__ndk1::vector<int>::push_back(int const&)",
        "std::__debug::vector<int>::push_back(int const&)",
    ),
    "f": (
        "f",
        "f(int)",
        "f.isra.0",
        "f.part.12.cold",
        "f.constprop.1",
        "f.llvm.123456",
        "f.__uniq.77",
        "f(int) (.cold)",
        "f[abi:cxx11](std::string const&)",
        "void f<(unsigned char)1, &g(int)>(void (*)(int), A<(B)1>)",
    ),
    "core::ops::call_once": (
        "core::ops::call_once::h0123456789abcdef",
        "core::ops::call_once::hfedcba9876543210",
        "core::ops::call_once",
    ),
    "main::{closure}": ("main::{{closure}}::h0123456789abcdef", "main::{closure#0}"),
    "<alloc::vec::Vec as core::ops::Drop>::drop": (
        "<alloc::vec::Vec<T,A> as core::ops::Drop>::drop",
        "<alloc::vec::Vec<u8> as core::ops::Drop>::drop::h0123456789abcdef",
    ),
    "q::operator<": ("bool q::operator< <int>(q::A const&)", "q::operator<(q::A const&)"),
    "q::operator<<": ("std::ostream& q::operator<<(std::ostream&, q::A)",),
    "q::B::operator->": ("q::B::operator->() const", "q::A<int>* q::B::operator->()"),
    "q::B::operator bool": ("q::B::operator bool() const",),
    "q::B::operator()": ("int q::B::operator()(int) &&",),
    "operator new": ("operator new(unsigned long)",),
    "operator new[]": ("operator new[](unsigned long, std::nothrow_t const&)",),
    "q::B::go": ("non-virtual thunk to q::B::go(int)", "q::B::go(int) const &"),
    "-[Foo bar:]": ("-[Foo bar:]",),
}


@pytest.mark.parametrize(
    ("printed", "name"), [(printed, name) for name, all_ in SPELLINGS.items() for printed in all_]
)
def test_spellings_of_one_function_are_one_name(printed: str, name: str) -> None:
    assert stable_name(printed) == name
    assert stable_name(name) == name


def test_different_functions_stay_different() -> None:
    assert len({stable_name(name) for name in SPELLINGS}) == len(SPELLINGS)
    assert stable_name("q::coldstart(int)") == "q::coldstart"
    assert stable_name("q::operator_of(int)") == "q::operator_of"


@pytest.mark.parametrize("piece", ["(", "<", "a<", "(<", "{lambda(", "operator", " const", "::h0"])
def test_damaged_names_give_a_name(piece: str) -> None:
    name = stable_name("f" + piece * 50_000)

    assert 0 < len(name) <= 2000
