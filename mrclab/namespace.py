"""The namespaces a lab lives in, and how to find a running lab from outside.

A lab is one process tree in network, mount and PID namespaces of its own (and a user
namespace when it is not root's). Its first process is the init of the PID namespace
and is tied to the process the user started: kill either of them, with whatever signal,
and the kernel ends every process of the lab, which frees the namespaces and with them
every interface, address and socket. Nothing has to be cleaned up, so nothing can be
left behind.

A running lab is found by the environment of its init in /proc. There is no file to
go stale.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from mrclab.errors import UserError

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 1 << 18
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MNT_DETACH = 2
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41}.get(os.uname().machine, -1)
"""No C library wraps it."""
PR_SET_PDEATHSIG = 1

RUN_ENV = "MRCLAB_RUN"
"""Environment variable that every process of a lab carries: the run id."""

STATE_DIR = Path("/run/mrclab")
"""Sockets and state of the lab: on a tmpfs that only the lab's mount namespace has."""

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [s.encode() if s is not None else None for s in (source, target, kind)]
    _check(
        _libc.mount(*encoded, ctypes.c_ulong(flags), data.encode() if data else None),
        f"mount {target}",
    )


def _bring_loopback_up() -> None:
    siocgifflags, siocsifflags, iff_up = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sH14x", b"lo", 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(sock, siocgifflags, request), 16)
        fcntl.ioctl(sock, siocsifflags, struct.pack("16sH14x", b"lo", flags | iff_up))


def inside() -> str | None:
    """Run id when this process is the first of a lab, else None."""
    return os.environ.get(RUN_ENV) if os.getpid() == 1 else None


def _why_no_user_namespace(error: OSError) -> str:
    def knob(path: str) -> str | None:
        try:
            return Path(path).read_text().strip()
        except OSError:
            return None

    if knob("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        return "sysctl kernel.apparmor_restrict_unprivileged_userns is 1"
    if knob("/proc/sys/kernel/unprivileged_userns_clone") == "0":
        return "sysctl kernel.unprivileged_userns_clone is 0"
    if knob("/proc/sys/user/max_user_namespaces") == "0":
        return "sysctl user.max_user_namespaces is 0"
    return error.strerror or str(error)


def _unshare() -> None:
    flags = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        try:
            _check(_libc.unshare(flags), "unshare")
        except OSError as error:
            raise UserError(
                f"this kernel or container refuses new namespaces to root ({error.strerror}); "
                "the lab needs CAP_SYS_ADMIN (in Docker: --privileged)"
            ) from None
        return
    try:
        _check(_libc.unshare(flags | CLONE_NEWUSER), "unshare")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    except OSError as error:
        raise UserError(
            f"this kernel gives ordinary users no namespaces ({_why_no_user_namespace(error)}): "
            "use sudo, or set that right"
        ) from None


def _keep_mounts_private() -> None:
    """What is mounted from here on must not appear outside.

    In a plain chroot "/" is no mount point, so its propagation can't be changed (and mnexec
    refuses to work). Joining the mount namespace we are in already leads to its real root,
    where it can; the old root is then mounted on itself and made the root of the namespace.
    """
    try:
        _mount("none", "/", None, MS_REC | MS_PRIVATE)
        return
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    here = os.getcwd()
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    own = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(own, CLONE_NEWNS), "setns")
        _mount("none", "/", None, MS_REC | MS_PRIVATE)
        path = os.readlink(f"/proc/self/fd/{root}")
        _mount(path, path, None, MS_BIND | MS_REC)
        os.chdir(path)
        _check(_libc.syscall(SYS_PIVOT_ROOT, b".", b"."), "pivot_root")
        _check(_libc.umount2(b".", MNT_DETACH), "umount")
        os.chdir(here)
    finally:
        os.close(root)
        os.close(own)


def own_root() -> None:
    """In a plain chroot, give this process a mount namespace in which "/" is a mount point.

    util-linux's unshare(1) insists on that. Elsewhere, or without the right to, nothing changes.
    """
    mount_points = {
        line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
    }
    if "/" in mount_points or os.geteuid() != 0:
        return
    with contextlib.suppress(OSError):
        _check(_libc.unshare(CLONE_NEWNS), "unshare")
        _keep_mounts_private()


def _become_init(parent: int, run_id: str, argv: Sequence[str]) -> NoReturn:
    """First process of the PID namespace: private mounts, loopback up, then the command."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    if os.getppid() not in (0, parent):  # 0: the parent is outside this PID namespace
        os._exit(1)
    _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    # /sys as inherited shows the interfaces of the machine, not of the lab (bmv2 looks there).
    with contextlib.suppress(OSError):
        _mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    _mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755")
    STATE_DIR.mkdir(mode=0o755)
    _bring_loopback_up()
    environment = dict(os.environ)
    environment[RUN_ENV] = run_id
    os.execve(argv[0], list(argv), environment)


def cover(target: Path, source: Path) -> None:
    """In this lab's mount namespace, show `source` where `target` is. What cannot be covered (a
    file system that forbids it) stays as it is."""
    with contextlib.suppress(OSError):
        _mount(str(source), str(target), None, MS_BIND)


def _catches(pid: int, number: int) -> bool:
    """True when process `pid` has a handler for signal `number`."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def run_in_lab(run_id: str, argv: Sequence[str]) -> int:
    """Run `argv` as the first process of a new lab and wait for it.

    Returns its exit status (128 + n when signal n ended it). SIGTERM and SIGHUP are
    passed on; SIGINT reaches the lab from the terminal by itself.

    Raises UserError when the kernel refuses the namespaces.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    _unshare()
    try:
        _keep_mounts_private()
    except OSError as error:
        raise UserError(f"can't make the lab's mounts its own: {error.strerror}") from None
    parent = os.getpid()
    # Blocked until the handlers know the child: no signal may be lost in between.
    passed_on = {signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)
    child = os.fork()
    if child == 0:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
            _become_init(parent, run_id, argv)
        except OSError as error:
            os.write(2, f"lab: can't set up the lab's namespaces: {error.strerror}\n".encode())
            os._exit(2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    cut_short: list[int] = []

    def pass_on(received: int, _frame: FrameType | None) -> None:
        number = received
        if not _catches(child, received):
            # An init ignores what it does not catch, and ours catches nothing until it has begun.
            number = signal.SIGKILL
            cut_short.append(received)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    for number in passed_on:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
    _pid, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        return os.waitstatus_to_exitcode(status)
    return 128 + (cut_short[0] if cut_short else os.WTERMSIG(status))


@dataclass(frozen=True)
class RunningLab:
    """A lab that runs on this machine, as seen from outside."""

    run_id: str
    init_pid: int

    def state(self) -> dict[str, Any]:
        """What the lab says of itself (testbed.py writes it); {} while it comes up."""
        try:
            text = Path(f"/proc/{self.init_pid}/root{STATE_DIR}/lab.json").read_text()
        except OSError:
            return {}
        loaded = json.loads(text)
        return loaded if isinstance(loaded, dict) else {}

    def enter_argv(self) -> list[str]:
        """The command prefix that runs something in the lab's namespaces."""
        argv = ["nsenter", f"--target={self.init_pid}", "--net", "--mount", "--pid"]
        if os.readlink(f"/proc/{self.init_pid}/ns/user") != os.readlink("/proc/self/ns/user"):
            argv += ["--user", "--preserve-credentials"]
        return argv


def _is_init_of_namespace(pid: int) -> bool:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("NSpid:"):
            numbers = line.split()[1:]
            return len(numbers) > 1 and numbers[-1] == "1"
    return False


def running_labs() -> list[RunningLab]:
    """Labs on this machine that this user may look into, oldest first."""
    labs = []
    prefix = f"{RUN_ENV}=".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            run = next((v[len(prefix) :].decode() for v in variables if v.startswith(prefix)), None)
            if run is not None and _is_init_of_namespace(int(entry.name)):
                labs.append(RunningLab(run, int(entry.name)))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM):
                raise
    return sorted(labs, key=lambda lab: lab.init_pid)


def pick_lab(run_id: str | None) -> RunningLab:
    """The running lab meant by `run_id`; without, the only one, or the only one of `./lab up`.

    Raises UserError.
    """
    labs = running_labs()
    if run_id is not None:
        matching = [lab for lab in labs if lab.run_id.startswith(run_id)]
        if len(matching) == 1:
            return matching[0]
        known = ", ".join(lab.run_id for lab in labs) or "none"
        raise UserError(f"--lab {run_id}: no such running lab (running: {known})")
    if not labs:
        raise UserError("no lab is running that you may enter: start one with sudo ./lab up")
    if len(labs) > 1:
        ups = [lab for lab in labs if lab.state().get("command") == "up"]
        if len(ups) == 1:  # drills that run beside it are nobody's to enter
            return ups[0]
        names = ", ".join(lab.run_id for lab in labs)
        raise UserError(f"{len(labs)} labs are running ({names}): choose one with --lab ID")
    return labs[0]
