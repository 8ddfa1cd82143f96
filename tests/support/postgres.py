"""A real PostgreSQL on loopback, in a folder and with a port of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.virtuoso import free_port

USER, PASSWORD = "reader", "s3cret-w0rd"
_FOLDERS = ("/usr/lib/postgresql", "/usr/local/lib/postgresql")


class Postgres:
    """`with Postgres(folder) as server: server.load(statements)`; `server.url` is its SQLAlchemy URL.

    `initdb` refuses to run as root, so that root hands the folder to another user. Raises RuntimeError when
    the server does not come up.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self._port}/postgres"

    @staticmethod
    def missing() -> str:
        """What keeps PostgreSQL from running here, or ""."""
        if not _program("initdb") or not _program("postgres"):
            return "initdb and postgres are not installed (Debian: postgresql)"
        if os.geteuid() == 0 and _servant() is None:
            return "PostgreSQL does not run as root, and there is no user postgres or nobody"
        return ""

    def __enter__(self) -> Self:
        data, secret = self._folder / "data", self._folder / "secret"
        data.mkdir()
        secret.write_text(PASSWORD)
        if (user := _servant()) is not None:
            # Folders above must be passable for the other user; what is in them stays closed.
            for folder in [self._folder, *self._folder.parents]:
                if folder.stat().st_uid == os.geteuid() and folder != folder.parent:
                    folder.chmod(folder.stat().st_mode | 0o011)
            for path in (self._folder, data, secret):
                os.chown(path, user.pw_uid, user.pw_gid)
        options = ["-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"]
        self._run(_program("initdb"), "-D", str(data), "-U", USER, "--pwfile", str(secret), *options)
        self._start(data)
        return self

    def _start(self, data: Path) -> None:
        options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        command = [_program("postgres"), "-D", str(data), "-p", str(self._port)]
        command += [f"--{name}={value}" for name, value in options.items()]
        with (self._folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **self._as_servant())
        try:
            self._wait()
        except BaseException:
            self._stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def load(self, statements: Iterable[str]) -> None:
        """Run statements that write, each committed."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def _wait(self, seconds: float = 60.0) -> None:
        import psycopg

        end = time.monotonic() + seconds
        while time.monotonic() < end and self._process is not None and self._process.poll() is None:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.05)
        said = (self._folder / "server.log").read_text(errors="replace")[-2000:]
        raise RuntimeError(f"PostgreSQL did not come up: {said}")

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, **self._as_servant()
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {done.stderr or done.stdout}")

    def _as_servant(self) -> dict[str, Any]:
        """How to start a program as the user that PostgreSQL may run as."""
        user = _servant()
        plain = {"cwd": str(self._folder), "stdin": subprocess.DEVNULL}
        servant = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        return {**plain, **servant}

    def _stop(self) -> None:
        if self._process is None:
            return
        for end in (self._process.terminate, self._process.kill):
            end()
            try:
                self._process.wait(timeout=20)
                return
            except subprocess.TimeoutExpired:
                continue


def _servant() -> pwd.struct_passwd | None:
    """The user to run as in place of root; None where there is no need or no such user."""
    if os.geteuid() != 0:
        return None
    users = {u.pw_name: u for u in pwd.getpwall()}
    return users.get("postgres") or users.get("nobody")


def _program(name: str) -> str:
    """A server program: on PATH, or the newest of Debian's versions."""
    if found := shutil.which(name):
        return found
    places = [p for folder in _FOLDERS for p in Path(folder).glob(f"*/bin/{name}")]
    return str(max(places, key=lambda p: float(p.parts[-3]))) if places else ""
