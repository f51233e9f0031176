"""Certificates of a test's own authority, for servers on loopback and their users. Made by the `openssl` program."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.limits import LIMIT

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30")


@dataclass(frozen=True)
class Certificates:
    """The files: `authority` has signed `server` and `user`, but not itself the one named `stranger`."""

    folder: Path

    def file(self, name: str) -> str:
        return str(self.folder / f"{name}.pem")

    def key(self, name: str) -> str:
        return str(self.folder / f"{name}.key")

    def make(self, user: str) -> None:
        """Make them; `user` is the name in the user's certificate."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("authority", "stranger"):
            self._openssl(
                "req", "-x509", *_NEW_KEY, "-keyout", self.key(name), "-out", self.file(name), "-subj", f"/CN={name}"
            )
        (self.folder / "names").write_text("subjectAltName = IP:127.0.0.1, DNS:localhost\n")
        for name, subject in (("server", "localhost"), ("user", user)):
            request = str(self.folder / f"{name}.csr")
            self._openssl("req", *_NEW_KEY, "-keyout", self.key(name), "-out", request, "-subj", f"/CN={subject}")
            signed = ("-CA", self.file("authority"), "-CAkey", self.key("authority"), "-CAcreateserial", "-days", "30")
            self._openssl(
                "x509", "-req", "-in", request, *signed, "-extfile", str(self.folder / "names"), "-out", self.file(name)
            )

    def _openssl(self, *words: str) -> None:
        done = subprocess.run(["openssl", *words], check=False, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr


def are_possible() -> bool:
    return shutil.which("openssl") is not None


def skip_without() -> None:
    if not are_possible():
        pytest.skip("the program openssl is not installed, which makes the certificates")
