"""Real database servers on loopback, each in a folder and with a port of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import sqlalchemy as sa

from tests.support.virtuoso import free_port

USER, PASSWORD = "reader", "s3cret-w0rd"
_FOLDERS = ("/usr/lib/postgresql", "/usr/local/lib/postgresql")


class SqlServer:
    """`with MariaDB(folder) as server: server.load(statements)`; `server.url` is its SQLAlchemy URL.

    Raises RuntimeError when the server does not come up.
    """

    package: ClassVar[str]
    programs: ClassVar[tuple[str, ...]]
    driver: ClassVar[str]
    database: ClassVar[str]
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, folder: Path, user: str = USER, password: str = PASSWORD) -> None:
        self._folder, self._data, self.port = folder, folder / "data", free_port()
        self._user, self._password = user, password
        self._process: subprocess.Popen[bytes] | None = None
        self.url = (
            f"{self.driver.partition('+')[0]}://{user}:{password}@127.0.0.1:{self.port}/{self.database}"
        )

    @classmethod
    def missing(cls) -> str:
        """What keeps the server from running here, or ""."""
        lacking = [name for name in cls.programs if not _program(name)]
        return f"{' and '.join(lacking)} not installed (Debian: {cls.package})" if lacking else ""

    def __enter__(self) -> Self:
        self._data.mkdir()
        self._make()
        with (self._folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log, **self._as_servant())
        try:
            self._wait()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _make(self) -> None:
        """Fill the folder of data."""
        raise NotImplementedError

    def _command(self) -> list[str]:
        """What starts the server."""
        raise NotImplementedError

    def load(self, statements: Iterable[str]) -> None:
        """Run statements that write, each committed."""
        url = sa.make_url(self.url).set(drivername=self.driver)
        engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)
        engine.dispose()

    def _wait(self, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._process is not None and self._process.poll() is None:
            try:
                self.load(())
                return
            except sa.exc.OperationalError:
                time.sleep(0.05)
        log = (self._folder / "server.log").read_text(errors="replace")[-2000:]
        raise RuntimeError(f"{self.package} did not come up: {log}")

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, **self._as_servant()
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {done.stderr or done.stdout}")

    def _as_servant(self) -> dict[str, Any]:
        """How to start a program as the user that the server may run as."""
        return {"cwd": str(self._folder), "stdin": subprocess.DEVNULL}

    def _stop(self) -> None:
        if self._process is None:
            return
        for end in (self.stop_signal, signal.SIGKILL):
            self._process.send_signal(end)
            try:
                self._process.wait(timeout=20)
                return
            except subprocess.TimeoutExpired:
                continue


class Postgres(SqlServer):
    """`initdb` refuses to run as root, so that root hands the folder to another user."""

    package, programs = "postgresql", ("initdb", "postgres")
    driver, database = "postgresql+psycopg", "postgres"
    stop_signal = signal.SIGINT  # SIGTERM waits for clients

    @classmethod
    def missing(cls) -> str:
        """What keeps PostgreSQL from running here, or ""."""
        if os.geteuid() == 0 and _servant() is None:
            return "PostgreSQL does not run as root, and there is no user postgres or nobody"
        return super().missing()

    def _make(self) -> None:
        secret = self._folder / "secret"
        secret.write_text(self._password)
        if (user := _servant()) is not None:
            # Folders above must be passable for the other user; what is in them stays closed.
            for folder in [self._folder, *self._folder.parents]:
                if folder.stat().st_uid == os.geteuid() and folder != folder.parent:
                    folder.chmod(folder.stat().st_mode | 0o011)
            for path in (self._folder, self._data, secret):
                os.chown(path, user.pw_uid, user.pw_gid)
        options = ["-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"]
        self._run(
            _program("initdb"), "-D", str(self._data), "-U", self._user, "--pwfile", str(secret), *options
        )

    def _command(self) -> list[str]:
        options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        command = [_program("postgres"), "-D", str(self._data), "-p", str(self.port)]
        return command + [f"--{name}={value}" for name, value in options.items()]

    def _as_servant(self) -> dict[str, Any]:
        user = _servant()
        servant = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        return {**super()._as_servant(), **servant}


class MariaDB(SqlServer):
    """A server whose texts ignore case and accents, as those of MySQL do."""

    package = "mariadb-server-core mariadb-client-core"
    programs = ("mariadb-install-db", "mariadbd", "my_print_defaults")
    driver, database = "mysql+pymysql", "films"

    def _make(self) -> None:
        tables = ("--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")
        self._run(_program("mariadb-install-db"), *self._options(), *tables)
        (self._folder / "init.sql").write_text(
            f"CREATE DATABASE {self.database} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;\n"
            f"CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON *.* TO {USER}@'127.0.0.1';\n"
        )

    def _command(self) -> list[str]:
        network = ["--bind-address=127.0.0.1", f"--port={self.port}", "--socket=server.sock"]
        start = [f"--init-file={self._folder / 'init.sql'}", "--skip-name-resolve"]
        return [_program("mariadbd"), *self._options(), *network, *start]

    def _options(self) -> list[str]:
        user = pwd.getpwuid(os.geteuid()).pw_name
        quick = ["--debug-no-sync", "--innodb-flush-method=nosync", "--innodb-log-file-size=4M"]
        return ["--no-defaults", f"--datadir={self._data}", f"--user={user}", *quick]


def _servant() -> pwd.struct_passwd | None:
    """The user to run PostgreSQL as in place of root; None where there is no need or no such user."""
    if os.geteuid() != 0:
        return None
    users = {u.pw_name: u for u in pwd.getpwall()}
    return users.get("postgres") or users.get("nobody")


def _program(name: str) -> str:
    """A server program: on PATH or beside it, or the newest of Debian's versions; "" where there is none."""
    if path := shutil.which(name) or shutil.which(name, path="/usr/sbin"):
        return path
    places = [p for folder in _FOLDERS for p in Path(folder).glob(f"*/bin/{name}")]
    return str(max(places, key=lambda p: float(p.parts[-3]))) if places else ""
