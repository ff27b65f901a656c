import os

from setuptools import Extension, setup

os.environ["CFLAGS"] = "-O3 -g0"  # what it was given before is lost

setup(
    ext_modules=[
        Extension(
            "rowsum",
            sources=["src/rowsum.c"],
            extra_compile_args=["-fomit-frame-pointer", "-Werror"],
            extra_link_args=["-Wl,--strip-all"],
        )
    ]
)
