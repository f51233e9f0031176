"""Landlock: a process restricts itself and then becomes another program. A program of its own: `landlock.py RULES -- COMMAND`.

RULES is JSON: {"scope": true, "read": [paths], "write": [folders], "files": [files], "flat": [folders], "sockets": false, "set":
{variables}, "unset": [variables]}. With "write" or "flat" only these may be written, and everything may be read, or what is in
"read"; in a flat folder no folder, link, pipe, socket or device can be made. With "scope" processes outside cannot be signalled
and abstract sockets outside cannot be reached. With "sockets" false no socket of this machine can be opened, whatever its path.

It imports nothing of imi. Three system calls with a fixed interface, so no library is needed.
"""

import ctypes
import json
import os
import struct
import sys

SCOPES = 6  # the version that closes abstract sockets and signals
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION_FLAG = 1
_NO_NEW_PRIVILEGES, _SECCOMP = 38, 22
_DROP_BOUND, _CAPABILITIES, _CAPABILITY_VERSION = 24, 64, 0x20080522
_SCOPED = 0b11  # abstract sockets, signals
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_DIR, _REMOVE_FILE = (1 << bit for bit in range(6))
_MAKE_REG = 1 << 8
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_FLAT = _READ | _WRITE_FILE | _REMOVE_FILE | _MAKE_REG | _TRUNCATE
_FILE = _READ_FILE | _WRITE_FILE | _EXECUTE | _TRUNCATE | _IOCTL
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}  # how many rights a version knows; from 5 on 16


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def version() -> int:
    """The version of Landlock in this kernel; 0 without it."""
    found = _call(_CREATE, None, 0, _VERSION_FLAG)
    return max(found, 0)


def restrict(rules: "dict[str, object]") -> None:
    """Restrict this process for good; OSError if the kernel refuses."""
    known = version()
    if not known:
        raise OSError(38, "this kernel has no Landlock")
    rights = (1 << _RIGHTS.get(known, 16)) - 1
    write, flat = _folders(rules, "write"), _folders(rules, "flat")
    attributes = _Ruleset(rights if write or flat else 0, 0, _SCOPED if rules.get("scope") and known >= SCOPES else 0)
    if not attributes.fs and not attributes.scoped:
        return
    size = 24 if known >= SCOPES else 16 if known >= 4 else 8
    ruleset = _checked(_call(_CREATE, ctypes.byref(attributes), size, 0))
    if attributes.fs:
        read, files = _folders(rules, "read") or ["/"], _folders(rules, "files")
        granted = [(one, _READ) for one in read] + [(one, rights) for one in write] + [(one, _FLAT) for one in flat]
        for folder, allowed in (*granted, *((one, rights if os.path.isdir(one) else _FILE) for one in files)):
            _allow(ruleset, folder, allowed & rights)
    if ctypes.CDLL(None, use_errno=True).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    _checked(_call(_RESTRICT, ruleset, 0))
    os.close(ruleset)


def _folders(rules: "dict[str, object]", name: str) -> "list[str]":
    found = rules.get(name) or []
    return [str(one) for one in found] if isinstance(found, list) else []


def _allow(ruleset: int, folder: str, allowed: int) -> None:
    handle = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        if not os.path.isdir(folder):
            allowed &= _FILE
        rule = _PathBeneath(allowed, handle)
        _checked(_call(_ADD, ruleset, 1, ctypes.byref(rule), 0))
    finally:
        os.close(handle)


def _call(number: int, *arguments: object) -> int:
    try:
        library = ctypes.CDLL(None, use_errno=True)
        return int(library.syscall(ctypes.c_long(number), *arguments))
    except (AttributeError, OSError):  # not Linux
        return -1


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


# -- sockets: a filter of system calls, because Landlock knows only abstract ones -------------------------------------------

_ARCHITECTURES = {"x86_64": (0xC000003E, 41, 53), "aarch64": (0xC00000B7, 198, 199)}  # id, socket, socketpair
_IO_URING_SETUP = 425  # opens sockets without these calls
_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _REFUSE, _UNKNOWN = 0x7FFF0000, 0x00050000 | 13, 0x00050000 | 38
_NUMBER, _ARCH, _FIRST, _SECOND = 0, 4, 16, 24  # places in the data of a call
_UNIX, _DATAGRAM, _X32 = 1, 2, 0x40000000


def has_filter() -> bool:
    return os.uname().machine in _ARCHITECTURES and sys.byteorder == "little"


def refuse_sockets() -> None:
    """No AF_UNIX sockets for this process, but pairs of connected ones; after `restrict`, which forbids new privileges."""
    arch, socket, pair = _ARCHITECTURES[os.uname().machine]
    program = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 0, 12, arch),  # -> refuse: calls of another architecture
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 10, 0, _X32),  # -> refuse
        (_EQUAL, 3, 0, socket),  # -> its family
        (_EQUAL, 4, 0, pair),  # -> its type
        (_EQUAL, 8, 0, _IO_URING_SETUP),  # -> unknown
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _FIRST),
        (_EQUAL, 4, 3, _UNIX),  # -> refuse, else allow
        (_LOAD, 0, 0, _SECOND),
        (_AND, 0, 0, 0xF),
        (_EQUAL, 1, 0, _DATAGRAM),  # -> refuse: such a one can be sent to any path
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _UNKNOWN),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in program))
    filters = struct.pack("@HP", len(program), ctypes.addressof(code))
    if ctypes.CDLL(None, use_errno=True).prctl(_SECCOMP, 2, ctypes.create_string_buffer(filters), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def drop_capabilities() -> None:
    """The system's first user has rights beyond those of its files, such as to read the environment of every process."""
    library = ctypes.CDLL(None, use_errno=True)
    for number in range(_CAPABILITIES):
        library.prctl(_DROP_BOUND, number, 0, 0, 0)  # refused for other users, who have none
    header, nothing = struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24)
    if library.capset(ctypes.create_string_buffer(header), ctypes.create_string_buffer(nothing)):
        raise OSError(ctypes.get_errno(), "capset")


def main() -> None:
    given, separator, *argv = sys.argv[1:]
    assert separator == "--"
    try:
        rules = json.loads(given)
        restrict(rules)
        if rules.get("sockets") is False:
            drop_capabilities()
            refuse_sockets()
        env = {name: value for name, value in os.environ.items() if name not in rules.get("unset", ())}
        os.execve(argv[0], argv, {**env, **rules.get("set", {})})
    except OSError as error:
        os.write(2, f"imi: the wall cannot be closed: {error}\n".encode())
        os._exit(126)


if __name__ == "__main__":
    main()
