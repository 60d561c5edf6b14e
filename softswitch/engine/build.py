"""Compile C to shared objects, once per content.

The name of a shared object is the hash of everything that went into it, so a stale file
cannot be picked up and a cached one needs no compiler. The hash of the file itself is its
last bytes (the loader does not look there): a damaged file would crash who loads it, so it
is built again instead.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from softswitch.engine.types import BuildError

CFLAGS = ("-std=gnu11", "-O2", "-fPIC", "-fno-strict-aliasing", "-w")
"""Flags of every build; code here also runs under sanitizers, see tests/engine."""

CSRC = Path(__file__).with_name("csrc")


def cache_dir() -> Path:
    """Where shared objects are kept: $MRCLAB_CACHE, else $XDG_CACHE_HOME, else ~/.cache."""
    chosen = os.environ.get("MRCLAB_CACHE")
    if chosen:
        path = Path(chosen)
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        path = Path(base) / "mrclab" / "engine"
    try:
        path.mkdir(parents=True, exist_ok=True)
        if os.access(path, os.W_OK):
            return path
    except OSError:
        pass
    private = Path(tempfile.gettempdir()) / f"mrclab-{os.getuid()}"
    private.mkdir(mode=0o700, exist_ok=True)
    if private.stat().st_uid != os.getuid() or private.stat().st_mode & 0o077:
        raise BuildError(f"{path} cannot be written and {private} is not ours: set MRCLAB_CACHE")
    return private


def compiler() -> str:
    """Path of the C compiler: $CC, else cc, gcc or clang."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise BuildError(
        "no C compiler found: install gcc (Debian/Ubuntu: apt install gcc libc6-dev) or set CC"
    )


def _contents(sources: Sequence[Path | str], include: Sequence[Path]) -> bytes:
    h = hashlib.sha256()
    for s in sources:
        h.update(s.read_bytes() if isinstance(s, Path) else s.encode())
        h.update(b"\0")
    for d in include:
        for header in sorted(d.glob("*.h")):
            h.update(header.name.encode() + b"\0" + header.read_bytes())
    return h.digest()


def _whole(path: Path) -> bool:
    """True when the file is there as it was built."""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    length = hashlib.sha256().digest_size
    return data[-length:] == hashlib.sha256(data[:-length]).digest()


def build_shared(
    sources: Sequence[Path | str],
    name: str,
    *,
    include: Sequence[Path] = (),
    flags: Sequence[str] = (),
    libs: Sequence[str] = (),
    directory: Path | None = None,
) -> Path:
    """Path of a shared object made of `sources` (files, or C text), built when needed.

    Raises BuildError with one clear line: no compiler, or the first error it printed.
    """
    return _build(sources, name, ("-shared",), ".so", include, flags, libs, directory)


def build_program(
    sources: Sequence[Path | str],
    name: str,
    *,
    include: Sequence[Path] = (),
    flags: Sequence[str] = (),
    libs: Sequence[str] = (),
    directory: Path | None = None,
) -> Path:
    """Like build_shared(), for an executable."""
    return _build(sources, name, (), "", include, flags, libs, directory)


def _build(
    sources: Sequence[Path | str],
    name: str,
    kind: Sequence[str],
    suffix: str,
    include: Sequence[Path],
    flags: Sequence[str],
    libs: Sequence[str],
    directory: Path | None,
) -> Path:
    if not name.replace("-", "").replace("_", "").isalnum():
        raise BuildError(f"'{name}' is not a plain name for a shared object")
    options = [*CFLAGS, *kind, *flags]
    key = hashlib.sha256(_contents(sources, include))
    key.update(repr((options, list(libs), platform.machine(), os.environ.get("CC"))).encode())
    out_dir = directory or cache_dir()
    out_dir.mkdir(parents=True, exist_ok=True)
    target = out_dir / f"{name}-{key.hexdigest()[:32]}{suffix}"
    if _whole(target):
        return target
    cc = compiler()
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=out_dir) as tmp:
        files = []
        for i, s in enumerate(sources):
            if isinstance(s, Path):
                files.append(str(s))
            else:
                text = Path(tmp) / f"source{i}.c"
                text.write_text(s)
                files.append(str(text))
        made = Path(tmp) / "out"
        paths = [f"-I{d}" for d in include]
        command = [cc, *options, *paths, *files, "-o", str(made), *libs]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        except (OSError, subprocess.TimeoutExpired) as e:
            raise BuildError(f"{cc} could not compile {name}: {e}") from None
        if done.returncode != 0:
            lines = [x for x in done.stderr.splitlines() if "error" in x] or ["no message"]
            raise BuildError(f"{cc} could not compile {name}: {lines[0].strip()}")
        with made.open("ab") as file:
            file.write(hashlib.sha256(made.read_bytes()).digest())
        os.replace(made, target)
    return target
