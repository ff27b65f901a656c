"""Reads the Itanium C++ ABI's mangled names: qualified names, types, lambdas, operators.

Expressions within template arguments (`X…E`, `decltype`) are not read. Sources: Itanium C++ ABI,
section 5.1; the spelling is that of GCC's and LLVM's demanglers.
"""

from __future__ import annotations

import re
from typing import Final

from vllm_forensics.evidence.itanium.cursor import Cursor
from vllm_forensics.evidence.itanium.parts import Part, Type, UnknownName, each, last_name, text_of
from vllm_forensics.evidence.itanium.words import (
    BUILTIN,
    ELABORATED,
    LEFT_OUT,
    OF_NAMES,
    OPERATORS,
    QUALIFIERS,
    REFERENCES,
    SPECIAL,
    SUFFIX,
    THUNK,
)

_BITS: Final = re.compile(r"DF(?P<bits>\d{1,3})_|DF16b")
_VALUE: Final = re.compile(r"(?P<sign>n?)(?P<digits>[0-9a-f]{1,80})E")
_MAX_DEPTH: Final = 64


class Reader(Cursor):
    """One pass over a mangled name; substitutions in the order in which the ABI numbers them.

    Raises:
        UnknownName: from every method, where the text is not what the method reads.
        IndexError, RecursionError: the same.

    """

    def __init__(self, text: str) -> None:
        """Begin behind the `_Z`, or at a type."""
        super().__init__(text)
        self._depth = 0
        self._arguments: tuple[Part, ...] = ()
        """Of the template whose signature is read: `T_` is the first."""
        self._lambdas = 0
        """So many lambdas' parameters are being read: there `T_` is `auto`."""

    def symbol(self) -> str:
        """The name of a function or an object, without the function's own parameters."""
        thunk = THUNK.match(self.text, self.at)
        if thunk is not None:
            self.at = thunk.end()
            kind = "covariant return" if thunk["covariant"] else "virtual"
            return f"{'non-' if thunk['plain'] else ''}{kind} thunk to {self.symbol()}"
        for marks, words in SPECIAL.items():
            if self.take(marks):
                return words + self.type()
        for marks, words in OF_NAMES.items():
            if self.take(marks):
                return words + self._name()[0]
        return self._name()[0]

    def type(self) -> str:
        """A type, as C++ writes it."""
        return text_of(self._type())

    # names

    def _name(self) -> tuple[str, bool]:
        """A name, and whether a template's arguments end it."""
        if self.take("N"):
            return self._nested()
        if self.take("Z"):
            return self._local()
        if self.peek(2) == "St":
            self.at += 2
            found = "std::" + self._unqualified("")
        elif self.peek() == "S":
            known = self.substitution()
            return self._with_arguments(known, is_seen=True)
        else:
            found = self._unqualified("")
        return self._with_arguments(found, is_seen=False)

    def _with_arguments(self, found: str, *, is_seen: bool) -> tuple[str, bool]:
        if not self.text.startswith("I", self.at):
            if is_seen:
                raise UnknownName
            return found, False
        if not is_seen:
            self.remember(Type(found))
        return found + self._template_arguments(found), True

    def _nested(self) -> tuple[str, bool]:
        while self.peek() in "rVKRO":
            self.at += 1
        found, is_template = "", False
        while not self.take("E"):
            self.check(found)
            character = self.peek()
            is_template = character == "I"
            if is_template and found:
                found += self._template_arguments(found)
            elif character == "S" and not found and self.peek(2) != "St":
                found = self.substitution()
                continue
            elif character == "T" and not found:
                found = text_of(self._parameter())
                continue
            elif self.take("St"):
                found = "std"
                continue
            else:
                name = self._unqualified(found)
                found = f"{found}::{name}" if found else name
            if self.peek() != "E":
                self.remember(Type(found))
        if not found:
            raise UnknownName
        return found, is_template

    def _local(self) -> tuple[str, bool]:
        """What is within a function: a lambda, a class, a static object."""
        outer, is_outer_template = self._name()
        arguments = self._arguments
        parameters = self._parameters(is_template=is_outer_template and not _is_untyped(outer))
        if not self.take("E"):
            raise UnknownName
        if self.take("s"):
            self.discriminator()
            return f"{outer}({parameters})::string literal", False
        if self.take("d"):
            self.number_or_none()
            if not self.take("_"):
                raise UnknownName
        name, is_template = self._name()
        self.discriminator()
        if not is_template:
            self._arguments = arguments
        return f"{outer}({parameters})::{name}", is_template

    def _unqualified(self, scope: str) -> str:
        self.take("L")  # internal linkage
        character = self.peek()
        two = self.text[self.at : self.at + 2]
        if character.isdigit():
            found = self.source_name()
        elif character == "C" and two[1:] in {"1", "2", "3", "4", "5"}:
            self.at += 2
            found = last_name(scope)
        elif character == "D" and two[1:] in {"0", "1", "2", "4", "5"}:
            self.at += 2
            found = "~" + last_name(scope)
        elif character == "U":
            found = self._unnamed()
        else:
            found = self._operator()
        while self.take("B"):  # an ABI tag such as [abi:cxx11] is not part of the plain name
            self.source_name()
        return found

    def _unnamed(self) -> str:
        if self.take("Ut"):
            return f"{{unnamed type#{self.ordinal()}}}"
        if not self.take("Ul"):
            raise UnknownName
        self._lambdas += 1
        parameters = self._parameters(is_template=False)
        self._lambdas -= 1
        if not self.take("E"):
            raise UnknownName
        return f"{{lambda({parameters})#{self.ordinal()}}}"

    def _operator(self) -> str:
        marks = self.peek(2)
        self.at += 2
        if marks == "cv":
            return f"operator {self.type()}"
        if marks == "li":
            return f'operator"" {self.source_name()}'
        if marks not in OPERATORS:
            raise UnknownName
        return f"operator{OPERATORS[marks]}"

    # types

    def _type(self) -> Part:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise UnknownName
        found = self._any_type()
        self._depth -= 1
        self.check(*(one.text for one in ([found] if isinstance(found, Type) else found)))
        return found

    def _any_type(self) -> Part:
        character, two = self.peek(), self.text[self.at : self.at + 2]
        builtin = self._builtin()
        found: Part
        if builtin is not None:
            found = Type(builtin)
        elif character in QUALIFIERS:
            found = self._qualified()
        elif character in REFERENCES:
            self.at += 1
            mark = REFERENCES[character]
            found = self.remember(each(self._type(), lambda one: one.pointed(mark)))
        elif character in "FAM":
            found = self.remember(self._compound(character))
        elif two in LEFT_OUT:
            self.at += 2
            found = self._type()
        elif character == "T" and two not in ELABORATED:
            found = self._template_parameter()
        elif character == "S" and two != "St":
            found = self._substituted_type()
        else:
            found = self._class_type()
        return found

    def _qualified(self) -> Part:
        words = ""
        while self.peek() in QUALIFIERS:
            words = QUALIFIERS[self.text[self.at]] + words
            self.at += 1
        return self.remember(each(self._type(), lambda one: one.qualified(words)))

    def _builtin(self) -> str | None:
        bits = _BITS.match(self.text, self.at)
        if bits is not None:
            self.at = bits.end()
            return f"_Float{bits['bits']}" if bits["bits"] else "std::bfloat16_t"
        if self.take("u"):  # a vendor's own
            return self.source_name()
        size = 2 if self.text.startswith("D", self.at) else 1
        found = BUILTIN.get(self.text[self.at : self.at + size])
        self.at += size if found is not None else 0
        return found

    def _compound(self, character: str) -> Type:
        self.at += 1
        if character == "F":
            return self._function()
        if character == "A":
            number = self.number_or_none()
            if not self.take("_"):
                raise UnknownName
            element = self._single()
            size = f" [{'' if number is None else number}]"
            return Type(element.left, size + element.right.lstrip(), is_function=True)
        scope, member = self.type(), self._single()
        if member.is_function:
            return Type(f"{member.left}({scope}::*", f"){member.right}")
        return Type(f"{member.left} {scope}::*", member.right)

    def _function(self) -> Type:
        self.take("Y")  # of C's linkage
        returned = self._single()
        parameters = self._parameters(is_template=False)
        reference = self.take("R") or self.take("O")
        mark = "" if not reference else " &" if self.text[self.at - 1] == "R" else " &&"
        if not self.take("E"):
            raise UnknownName
        left = returned.left if returned.left.endswith("(*") else f"{returned.left} "
        return Type(left, f"({parameters}){mark}{returned.right}", is_function=True)

    def _parameters(self, *, is_template: bool) -> str:
        """The types up to the end; a template's own begin with what it returns."""
        if is_template:
            self._type()
        found: list[str] = []
        while self.at < len(self.text) and not self._is_end():
            found.append(text_of(self._type()))
        return "" if found == ["void"] else ", ".join(filter(None, found))

    def _is_end(self) -> bool:
        here = self.text[self.at : self.at + 2]
        return here[:1] == "E" or here in {"RE", "OE"}

    def _class_type(self) -> Part:
        while self.text.startswith(ELABORATED, self.at):
            self.at += 2
        arguments = self._arguments
        found, _ = self._name()
        self._arguments = arguments  # `T_` stays that of the function whose signature is read
        return self.remember(Type(found))

    def _substituted_type(self) -> Part:
        """A type seen before, or a class template's name seen before with new arguments."""
        known = self.known()
        if not self.text.startswith("I", self.at):
            return known
        arguments = self._arguments
        name = text_of(known)
        found = name + self._template_arguments(name)
        self._arguments = arguments
        return self.remember(Type(found))

    def _template_parameter(self) -> Part:
        found = self.remember(self._parameter())
        if not self.text.startswith("I", self.at):
            return found
        arguments = self._arguments
        name = text_of(found)
        name += self._template_arguments(name)
        self._arguments = arguments
        return self.remember(Type(name))

    def _parameter(self) -> Part:
        if not self.take("T"):
            raise UnknownName
        index = self.number_or_none()
        if not self.take("_"):
            raise UnknownName
        index = 0 if index is None else index + 1
        if self._lambdas:
            return Type(f"auto:{index + 1}")
        if index >= len(self._arguments):
            raise UnknownName
        return self._arguments[index]

    # templates

    def _template_arguments(self, of: str) -> str:
        """They as they stand behind the name `of`, which may be `operator<`."""
        if not self.take("I"):
            raise UnknownName
        arguments: list[Part] = []
        while not self.take("E"):
            arguments.append(self._argument())
        self._arguments = tuple(arguments)
        found = ", ".join(filter(None, map(text_of, arguments)))
        self.check(found)
        return f"{' ' if of.endswith('<') else ''}<{found}>"

    def _argument(self) -> Part:
        if self.take("L"):
            return Type(self._literal())
        if not self.take("J"):
            arguments = self._arguments
            found = self._type()
            self._arguments = arguments
            return found
        pack: list[Type] = []
        while not self.take("E"):
            one = self._argument()
            pack.extend([one] if isinstance(one, Type) else one)
        return tuple(pack)

    def _literal(self) -> str:
        if self.take("_Z"):
            inner = Reader(self.text)
            inner.at, inner.seen, inner._depth = self.at, self.seen, self._depth + 1
            name, is_template = inner._name()
            inner._parameters(is_template=is_template and not _is_untyped(name))
            self.at = inner.at
            if not self.take("E"):
                raise UnknownName
            return f"&{name}"
        kind = self.type()
        if kind == "decltype(nullptr)":
            self.take("0")
            if not self.take("E"):
                raise UnknownName
            return "nullptr"
        value = _VALUE.match(self.text, self.at)
        if value is None:
            raise UnknownName
        self.at = value.end()
        number = f"{'-' if value['sign'] else ''}{value['digits']}"
        if kind == "bool":
            return {"0": "false", "1": "true"}.get(number, f"(bool){number}")
        suffix = SUFFIX.get(kind)
        return f"({kind}){number}" if suffix is None else number + suffix

    def _single(self) -> Type:
        found = self._type()
        if not isinstance(found, Type):
            raise UnknownName
        return found


def _is_untyped(name: str) -> bool:
    """Is it a constructor, a destructor or a conversion, which tell no returned type?"""
    own = last_name(name)
    scope = name[: -len(own) - 2] if name.endswith(own) else name.rpartition("::")[0]
    return own.startswith(("~", "operator ")) or last_name(scope) == own.split("<", 1)[0]
