"""Landlock: a process restricts itself and then becomes another program. A program of its own: `landlock.py RULES -- COMMAND`.

RULES is JSON: {"scope": true, "write": [folders], "flat": [folders]}. With "write" or "flat" everything may be read, and only
these folders may be written; in a flat one no folder, link, pipe, socket or device can be made. With "scope" processes outside
cannot be signalled and abstract sockets outside cannot be reached.

It imports nothing of imi. Three system calls with a fixed interface, so no library is needed.
"""

import ctypes
import json
import os
import sys

SCOPES = 6  # the version that closes abstract sockets and signals
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION_FLAG = 1
_NO_NEW_PRIVILEGES = 38
_SCOPED = 0b11  # abstract sockets, signals
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_DIR, _REMOVE_FILE = (1 << bit for bit in range(6))
_MAKE_REG = 1 << 8
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_FLAT = _READ | _WRITE_FILE | _REMOVE_FILE | _MAKE_REG | _TRUNCATE
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
        for folder, allowed in (("/", _READ), *((one, rights) for one in write), *((one, _FLAT) for one in flat)):
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


def main() -> None:
    rules, separator, *argv = sys.argv[1:]
    assert separator == "--"
    try:
        restrict(json.loads(rules))
        os.execv(argv[0], argv)
    except OSError as error:
        os.write(2, f"imi: the wall cannot be closed: {error}\n".encode())
        os._exit(126)


if __name__ == "__main__":
    main()
