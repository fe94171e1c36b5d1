"""The extension, against the installed gantry-c or, with GANTRY_BUILD=build/release, a build tree."""

import os
import re
import shlex
import subprocess
from glob import glob
from pathlib import Path

from setuptools import Extension, setup

os.chdir(Path(__file__).resolve().parent)
root = Path("../..").resolve()
if not (root / "include/gantry/gantry.h").is_file():
    raise SystemExit(f"gantry: {Path.cwd()} is not within Gantry's source tree; build it there")
build = os.environ.get("GANTRY_BUILD")

if build:
    where = {
        "include_dirs": [str(root / "include")],
        "library_dirs": [f"{root / build}/lib"],
        "runtime_library_dirs": [f"{root / build}/lib"],
    }
else:

    def ask(option: str) -> list[str]:
        try:
            said = subprocess.check_output(["pkg-config", option, "gantry-c"], text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise SystemExit(
                f"gantry: pkg-config finds no gantry-c ({error}); install Gantry (sudo make install)"
                " or name a build tree (GANTRY_BUILD=build/release), and see PKG_CONFIG_PATH"
            ) from None
        return shlex.split(said)

    library_dirs = ask("--variable=libdir")
    where = {
        "include_dirs": [flag[2:] for flag in ask("--cflags-only-I")],
        "library_dirs": library_dirs,
        "runtime_library_dirs": library_dirs,
    }

version = re.search(r"project\(gantry VERSION (\S+)", (root / "CMakeLists.txt").read_text())
assert version is not None
setup(
    version=version[1],
    ext_modules=[
        Extension(
            "gantry._core",
            sorted(glob("core/*.c")),
            depends=["core/arrow.h", "core/core.h", "core/item_code.h"],
            libraries=["gantry_c"],
            extra_compile_args=["-std=gnu11", "-fvisibility=hidden"],
            py_limited_api=True,
            **where,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
