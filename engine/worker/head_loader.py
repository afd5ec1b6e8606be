"""Loads draft heads while the worker serves, on a thread of its own.

It follows commands and a watched folder. Whatever is wrong with a head is said in the report, and
the serving head goes on.
"""

import hashlib
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from engine.errors import HeadError, HeadTargetError
from engine.heads import HeadConfig, HeadMemory, SharedTables, unhurried
from engine.worker.head import load_for_target, tokenizer_hash, warm_up
from engine.worker.head_commands import HeadCommand, read_commands
from engine.worker.heads import Change, Heads
from engine.worker.options import NEVER_AHEAD
from engine.worker.trial import LoadedHead

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.25
_VERSION_DIGITS = 12


class HeadSource:
    """Loads heads for the target of this rank.

    Attributes:
        tables: Tables of the target that heads may share.

    Args:
        tables: See above.
        model_config: vLLM's.
        device: Of the target.
        most: Longest draft of a head.
        requests: Most sequences of a step.
        always_ahead: Whether every step is launched ahead of the last one's tokens.
    """

    def __init__(
        self,
        tables: SharedTables,
        model_config: Any,
        *,
        device: Any,
        most: int,
        requests: int,
        always_ahead: bool = False,
    ) -> None:
        self.tables = tables
        self._model_config = model_config
        self._device = device
        self._most = most
        self._requests = requests
        self._always_ahead = always_ahead

    @property
    def tokenizer(self) -> str | None:
        """SHA-256 of the target's tokenizer.json; None if it has none."""
        return tokenizer_hash(self._model_config.tokenizer)

    def load(self, folder: Path) -> LoadedHead:
        """Load a head.

        Raises:
            HeadError: The folder holds no head, one for another target, or one that never drafts.
            OSError: A file cannot be read.
        """
        name, folder = folder.name, folder.resolve()  # a link may change meanwhile
        version = version_of(folder)
        head = load_for_target(folder, self.tables, self._model_config, device=self._device)
        memory = None
        if head.config.window:
            if self._always_ahead:
                raise HeadTargetError(f"engine.speculation.launch is ahead, but {NEVER_AHEAD}")
            memory = HeadMemory(head, requests=self._requests, device=self._device)
        most = most_tokens(head.config, self._most)
        return LoadedHead(head, most, memory, version, name, folder)

    def load_beside_steps(self, folder: Path) -> LoadedHead:
        """Load a head and prepare it for its first pass, without delaying running steps.

        Raises:
            HeadError, OSError: As `load`.
        """
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)  # of this thread
        with unhurried():
            loaded = self.load(folder)
            warm_up(loaded.head, loaded.most, rows=self._requests, memory=loaded.memory)
        return loaded


def most_tokens(config: HeadConfig, setting: int) -> int:
    """Return how many tokens a head may draft in a pass, of at most `setting`."""
    is_endless = config.tie_positions and config.positions > 1
    return setting if is_endless else min(setting, config.positions)


def version_of(folder: Path) -> str:
    """Return a name for the contents of a head's folder.

    Raises:
        OSError: A file cannot be read.
    """
    digest = hashlib.sha256()
    for path in _files(folder):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:_VERSION_DIGITS]


class HeadLoader:
    """Carries out commands, one after the other.

    Args:
        source: Loads heads.
        heads: Takes them.
        commands: Folder that the worker's processes share; None: there are no commands.
        watch: A head's folder, loaded when its files have changed; None for none.
        delete_traffic: Deletes what was recorded of a tenant, or of all; returns the number of
            segments. None if nothing is recorded.
    """

    def __init__(
        self,
        source: HeadSource,
        heads: Heads,
        *,
        commands: Path | None,
        watch: Path | None,
        delete_traffic: Callable[[str | None], int] | None = None,
    ) -> None:
        self._source = source
        self._heads = heads
        self._commands = commands
        self._delete_traffic = delete_traffic
        self._last = 0
        self._watch = None if watch is None else _Watch(watch)
        self._logged: set[str] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="head loader", daemon=True)

    def start(self) -> None:
        """Listen from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Listen no longer; a head that is being loaded is not waited for."""
        self._stopped.set()

    def look(self) -> None:
        """Carry out what has been asked for since the last call."""
        self._heads.free()
        if self._commands is not None:
            for number, command in read_commands(self._commands, after=self._last):
                self._last = number
                self._carry_out(str(number), command)
        if self._watch is not None and self._watch.has_changed():
            command = HeadCommand(action="load", folder=self._watch.folder, by="watched folder")
            self._carry_out(f"watch-{self._watch.changes}", command)

    def _carry_out(self, number: str, command: HeadCommand) -> None:
        folder = command.folder
        change = Change(
            number, command.action, command.by, name=None if folder is None else folder.name
        )
        self._heads.note(change)
        if command.action == "unload":
            self._heads.unload(change)
        elif command.action == "forget":
            self._heads.forget(change)
        elif command.action == "forget_traffic":
            self._forget_traffic(command.tenant, change)
        else:
            assert folder is not None
            self._load(folder, change)

    def _forget_traffic(self, tenant: str | None, change: Change) -> None:
        if self._delete_traffic is None:
            self._heads.settle(change, "unchanged", "no traffic is recorded here")
            return
        try:
            deleted = self._delete_traffic(tenant)
        except OSError as exc:
            self._heads.settle(change, "failed", f"not all could be deleted: {exc.strerror}")
        else:
            self._heads.settle(change, "deleted", f"{deleted} segments of recorded traffic")

    def _load(self, folder: Path, change: Change) -> None:
        try:
            loaded = self._source.load_beside_steps(folder)
        except (HeadError, OSError) as exc:
            # Anyone may read the report: no paths of this machine.
            why = str(exc).replace(str(folder), folder.name)
            self._heads.settle(change, "refused", why)
        except Exception as exc:  # noqa: BLE001  # a file can be wrong in any way
            _log.error("a draft head could not be loaded", exc_info=exc)
            self._heads.settle(change, "refused", f"{type(exc).__name__} while it was loaded")
        else:
            self._heads.offer(loaded, change)

    def _run(self) -> None:
        while not self._stopped.wait(_LOOK_SECONDS):
            try:
                self.look()
            except Exception as exc:  # noqa: BLE001  # logged; the next look may go well
                if type(exc).__name__ not in self._logged:
                    self._logged.add(type(exc).__name__)
                    _log.error("commands about draft heads cannot be read", exc_info=exc)


class _Watch:
    """Tells when the files of a folder have changed and then stayed the same for a look.

    Attributes:
        folder: The folder.
        changes: How often they have changed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.changes = 0
        self._taken: list[tuple[object, ...]] = []
        self._seen: list[tuple[object, ...]] = []

    def has_changed(self) -> bool:
        found = self._stamps()
        is_settled, self._seen = found == self._seen, found
        if not found or not is_settled or found == self._taken:
            return False
        self._taken = found
        self.changes += 1
        return True

    def _stamps(self) -> list[tuple[object, ...]]:
        try:
            stats = [(path.name, path.stat()) for path in _files(self.folder)]
        except FileNotFoundError:  # being replaced
            return []
        return [(name, one.st_mtime_ns, one.st_size, one.st_ino) for name, one in stats]


def _files(folder: Path) -> list[Path]:
    """Return the files that make a head; none if there is no config.json, which is written last."""
    config = folder / "config.json"
    weights = (path for pattern in ("*.safetensors", "*.pt") for path in folder.glob(pattern))
    return [config, *sorted(weights)] if config.is_file() else []
