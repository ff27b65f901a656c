"""Native crash forensics for C++ extensions."""

__version__ = "0.1.0"
