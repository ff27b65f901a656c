"""Names of functions without what runtimes and compilers put around them."""

import faulthandler
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_forensics.model.function_name import called_within, plain_name

LONG = 50_000


@pytest.fixture
def _ends() -> Iterator[None]:
    """A reader that does not come to an end is killed, with its stack."""
    faulthandler.dump_traceback_later(60, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.parametrize(
    ("full", "plain"),
    [
        ("main", "main"),
        ("", ""),
        ("f(", "f"),
        ("f(int) const", "f"),
        ("work(int, char)", "work"),
        ("std::vector<int>::at(unsigned long) const", "std::vector<int>::at"),
        ("std::__1::vector<int>::at(unsigned long)", "std::vector<int>::at"),
        ("a::b<int (*)(long)>::c(std::vector<int> const&) const", "a::b<int (*)(long)>::c"),
        ("std::unique_ptr<A, void (*)(A*)>::get() const", "std::unique_ptr<A, void (*)(A*)>::get"),
        ("(anonymous namespace)::helper(int)", "(anonymous namespace)::helper"),
        ("<signal handler called>", "<signal handler called>"),
        # what compilers add
        ("f.isra.0", "f"),
        ("f(int) [clone .cold]", "f"),
        ("void run<int>(int) [clone .isra.0]", "run<int>"),
        ("foo[abi:cxx11](int)", "foo"),
        ("non-virtual thunk to q::B::go(int)", "q::B::go"),
        # types of results
        ("unsigned long q::f<int>(int)", "q::f<int>"),
        ("unsigned char* f(int)", "f"),
        ("std::pair<int, int> const& f(int)", "f"),
        ("long (anonymous namespace)::f(int)", "(anonymous namespace)::f"),
        ("std::enable_if<(a > b), int>::type f<3>(int, char)", "f<3>"),
        ("decltype(auto) f(int)", "f"),
        ("decltype (x(1)) a::f<int>(int)", "a::f<int>"),
        ("void (*ns::handler(int))(long)", "ns::handler"),
        # operators
        ("operator()(int)", "operator()"),
        ("std::function<void (int)>::operator()() const", "std::function<void (int)>::operator()"),
        ("operator new(unsigned long)", "operator new"),
        ("operator delete[](void*, unsigned long)", "operator delete[]"),
        ("q::B::operator bool() const", "q::B::operator bool"),
        ("q::B::operator int*() const", "q::B::operator int*"),
        ("bool operator< <int>(A<int> const&)", "operator< <int>"),
        ("a::operator<<(std::ostream&)", "a::operator<<"),
        ("std::ostream& a::operator<< <int>(std::ostream&, int)", "a::operator<< <int>"),
        ("Block::operator->() const", "Block::operator->"),
        ('unsigned long operator"" _kb(unsigned long long)', 'operator"" _kb'),
        ("ns::operator_x(int, char)", "ns::operator_x"),
        # what lies inside of a function
        ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator()"),
        ("f(int)::{lambda()#1}::operator()() const", "f::{lambda()#1}::operator()"),
        (
            "p::bind<int>(int (*)(long), a const&)::{lambda(p::call&)#3}::operator()(p::call&)",
            "p::bind<int>::{lambda(p::call&)#3}::operator()",
        ),
        ("f(int)::'lambda'(long)::operator()(long) const", "f::'lambda'::operator()"),
        ("ns::run(int, char const*) const::Local::go(char)", "ns::run::Local::go"),
        # other languages
        ("-[Foo bar:]", "-[Foo bar:]"),
        ("main.(*Pool).Take(0xc000, 0x1)", "main.(*Pool).Take"),
        ("main.(_pool).Take(0xc000, 0x1)", "main.(_pool).Take"),
        ("take(int).part.0", "take"),
        ("core::ops::call_once::h0123456789abcdef", "core::ops::call_once"),
        ("<a::Vec<T> as core::Index<I>>::index", "<a::Vec<T> as core::Index<I>>::index"),
        ("core::FnOnce<fn(u8) -> u64>::call", "core::FnOnce<fn(u8) -> u64>::call"),
    ],
)
def test_a_plain_name(full: str, plain: str) -> None:
    assert plain_name(full) == plain


@pytest.mark.parametrize(
    "unit",
    ["<", "(", "{", ")", ">", "}", "a ", "()::", "() ", " [clone ", "[abi:", "operator",
     "operator ", "(anonymous namespace)", "f(int)::{lambda(int)#1}::", "a::", "<(", "()->"],
)  # fmt: skip
@pytest.mark.usefixtures("_ends")
def test_the_time_for_a_long_name_grows_with_its_length(unit: str) -> None:
    for end in ("", "(int)"):
        assert len(plain_name((unit * LONG)[:LONG] + end)) <= LONG + 5


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="ab<>(){}[]: ,operator&*~", max_size=60))
def test_no_name_raises_anything(name: str) -> None:
    assert len(plain_name(name)) <= len(name)


def test_a_block_within_a_method_of_objective_c_stays() -> None:
    name = "__12-[Pool takeBlock:of:]_block_invoke"

    assert plain_name(name) == name


@pytest.mark.parametrize(
    ("function", "called"),
    [
        ("std::_Function_handler<void (int), Pool::run(int)::{lambda(int)#1}>::_M_invoke",
         "Pool::run::{lambda(int)#1}"),
        ("void std::__invoke_impl<void, Pool::run()::{lambda()#1}&>(std::__invoke_other)",
         "Pool::run::{lambda()#1}"),
        ("std::thread::_State_impl<std::thread::_Invoker<std::tuple<Pool::run()::{lambda()#1}> > >"
         "::_M_run()", "Pool::run::{lambda()#1}"),
        ("std::__1::__function::__func<Pool::run(int)::$_0, std::__1::allocator<int>, void ()>"
         "::operator()()", "Pool::run::$_0"),
        ("std::vector<int>::at", None),
        ("std::function<void ()>::operator()() const", None),
        ("Pool::each<Pool::run()::{lambda()#1}>", None),  # has a body of its own
    ],
)  # fmt: skip
def test_a_lambda_in_the_standard_librarys_templates(function: str, called: str | None) -> None:
    assert called_within(function) == called
