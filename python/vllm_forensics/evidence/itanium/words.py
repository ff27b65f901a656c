"""The letters that the ABI writes for C++'s words: types, operators, qualifiers."""

from __future__ import annotations

import re
from typing import Final

BUILTIN: Final = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char",
    "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long",
    "m": "unsigned long", "x": "long long", "y": "unsigned long long", "f": "float", "d": "double",
    "e": "long double", "g": "__float128", "n": "__int128", "o": "unsigned __int128", "z": "...",
    "Dn": "decltype(nullptr)", "Di": "char32_t", "Ds": "char16_t", "Du": "char8_t", "Da": "auto",
    "Dd": "decimal64", "De": "decimal128", "Df": "decimal32", "Dh": "half",
}  # fmt: skip
SUFFIX: Final = {
    "int": "", "unsigned int": "u", "long": "l", "unsigned long": "ul", "long long": "ll",
    "unsigned long long": "ull",
}  # fmt: skip
"""How a number of such a type is written; one of another type has its type before it."""
STANDARD: Final = {
    "St": "std", "Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string",
    "Si": "std::istream", "So": "std::ostream", "Sd": "std::iostream",
}  # fmt: skip
SPECIAL: Final = {
    "TV": "vtable for ", "TI": "typeinfo for ", "TS": "typeinfo name for ", "TT": "VTT for ",
}  # fmt: skip
OF_NAMES: Final = {
    "GV": "guard variable for ", "GR": "reference temporary for ",
    "TH": "TLS init function for ", "TW": "TLS wrapper function for ",
    "GTt": "transaction clone for ", "GTn": "non-transaction clone for ",
}  # fmt: skip
THUNK: Final = re.compile(
    r"T(?:(?P<plain>h)n?\d{1,9}_|(?P<virtual>v)n?\d{1,9}_n?\d{1,9}_"
    r"|(?P<covariant>c)(?:hn?\d{1,9}_|vn?\d{1,9}_n?\d{1,9}_){2})"
)
OPERATORS: Final = {
    "nw": " new", "na": " new[]", "dl": " delete", "da": " delete[]", "aw": " co_await",
    "ps": "+", "ng": "-", "ad": "&", "de": "*", "co": "~", "pl": "+", "mi": "-", "ml": "*",
    "dv": "/", "rm": "%", "an": "&", "or": "|", "eo": "^", "aS": "=", "pL": "+=", "mI": "-=",
    "mL": "*=", "dV": "/=", "rM": "%=", "aN": "&=", "oR": "|=", "eO": "^=", "ls": "<<", "rs": ">>",
    "lS": "<<=", "rS": ">>=", "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=",
    "ss": "<=>", "nt": "!", "aa": "&&", "oo": "||", "pp": "++", "mm": "--", "cm": ",", "pm": "->*",
    "pt": "->", "cl": "()", "ix": "[]", "qu": "?",
}  # fmt: skip
QUALIFIERS: Final = {"r": " restrict", "V": " volatile", "K": " const"}
REFERENCES: Final = {"P": "*", "R": "&", "O": "&&", "C": " _Complex", "G": " _Imaginary"}
ELABORATED: Final = ("Ts", "Tu", "Te")
"""Struct, union, enum."""
LEFT_OUT: Final = {"Dp", "Do"}
"""A pack that was expanded, a function that throws nothing."""
