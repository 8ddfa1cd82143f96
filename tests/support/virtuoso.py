"""A real Virtuoso on loopback, in a folder and with ports of its own."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

_CONFIG = """\
[Database]
DatabaseFile = {folder}/virtuoso.db
ErrorLogFile = {folder}/virtuoso.log
LockFile = {folder}/virtuoso.lck
TransactionFile = {folder}/virtuoso.trx
xa_persistent_file = {folder}/virtuoso.pxa
ErrorLogLevel = 7
FileExtend = 200
MaxCheckpointRemap = 2000
TempStorage = TempDatabase

[TempDatabase]
DatabaseFile = {folder}/virtuoso-temp.db
TransactionFile = {folder}/virtuoso-temp.trx
MaxCheckpointRemap = 2000

[Parameters]
ServerPort = 127.0.0.1:{sql_port}
DisableUnixSocket = 1
ServerThreads = 10
CheckpointInterval = 0
CaseMode = 2
DirsAllowed = {folder}
NumberOfBuffers = 8000
MaxDirtyBuffers = 6000

[HTTPServer]
ServerPort = 127.0.0.1:{http_port}
ServerRoot = {folder}
ServerThreads = 6
EnabledDavVSP = 0

[SPARQL]
ResultSetMaxRows = 3000
MaxQueryExecutionTime = 60
"""


def free_port() -> int:
    """A TCP port that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Virtuoso:
    """`with Virtuoso(folder) as server: server.load(file, graph)`; `server.url` is its endpoint.

    It never sends more than 3,000 rows (`ResultSetMaxRows`). Raises RuntimeError when it does not come up
    or a load fails. `environment` has variables of the container's image: DBA_PASSWORD, VIRT_SECTION_SETTING.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._folder, self._environment = folder, environment or {}
        self._password = "dba"
        self.sql_port, self._http_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self._http_port}/sparql"
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def missing() -> str:
        """What keeps Virtuoso from running here, or ""."""
        if shutil.which("virtuoso-t") is None:
            return "virtuoso-t is not on PATH (Debian: virtuoso-opensource-7-bin)"
        return "" if _isql() else "Virtuoso's isql (isql-vt, isql-v) is not on PATH"

    def __enter__(self) -> Self:
        config = self._folder / "virtuoso.ini"
        ports = {"sql_port": self.sql_port, "http_port": self._http_port}
        settings = _CONFIG.format(folder=self._folder, **ports)
        for name, value in self._environment.items():
            if name.startswith("VIRT_"):
                _, section, setting = name.split("_", 2)
                settings = re.sub(rf"^{setting} = .*\n", "", settings, flags=re.MULTILINE)
                settings = settings.replace(f"[{section}]\n", f"[{section}]\n{setting} = {value}\n")
        config.write_text(settings)
        log = self._folder / "virtuoso.log"
        log.touch()
        with (self._folder / "output.log").open("wb") as output:
            command = ["virtuoso-t", "+foreground", "+configfile", str(config)]
            self._process = subprocess.Popen(
                command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        try:
            self._wait_until_online(log)
            if password := self._environment.get("DBA_PASSWORD"):
                self._isql(f'set password "dba" "{password}";')
                self._password = password
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def load(self, file: Path, graph: str) -> None:
        """Load a file that lies in the server's own folder."""
        self._isql(
            f"ld_dir('{file.parent}', '{file.name}', '{graph}'); rdf_loader_run(log_enable=>2); checkpoint;"
        )
        state = self._isql("select 'state', ll_state, ll_error from DB.DBA.load_list;")
        if "state" not in state or "NULL" not in state:
            raise RuntimeError(f"Virtuoso did not load {file.name}: {state}")

    def index_text(self) -> None:
        """Make `bif:contains` find what is loaded, as an operator does once."""
        self._isql("DB.DBA.RDF_OBJ_FT_RULE_ADD(null, null, 'All'); DB.DBA.VT_INC_INDEX_DB_DBA_RDF_OBJ();")

    def _wait_until_online(self, log: Path, seconds: float = 90.0) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if "Server online at" in log.read_text(errors="replace"):
                return
            if self._process is None or self._process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"Virtuoso did not come up: {log.read_text(errors='replace')[-2000:]}")

    def _isql(self, statements: str) -> str:
        options = ["VERBOSE=OFF", "BANNER=OFF", "PROMPT=OFF", "ERRORS=STDOUT"]
        command = [
            _isql(),
            f"127.0.0.1:{self.sql_port}",
            "dba",
            self._password,
            *options,
            f"exec={statements}",
        ]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout

    def _stop(self) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self._isql("shutdown();")
        for end in (None, self._process.terminate, self._process.kill):
            if end is not None:
                end()
            try:
                self._process.wait(timeout=20)
                return
            except subprocess.TimeoutExpired:
                continue


def _isql() -> str:
    return next((path for name in ("isql-vt", "isql-v") if (path := shutil.which(name))), "")
