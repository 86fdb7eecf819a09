"""Removes the folders of workers, whose trees may be as deep, as large and as locked as model code made them."""

import os
import secrets
import time


def remove_tree(path: str, within_s: float) -> bool:
    """Remove a folder and all that is in it; True when nothing is left. Raises nothing, and stops after `within_s` seconds.

    Folders below the first level are moved up to it before they are opened: no path gets long, and nothing recurses.
    """
    try:
        os.rmdir(path)  # all that it takes for an empty one
        return True
    except FileNotFoundError:
        return True
    except OSError:
        pass
    until = time.monotonic() + within_s
    try:
        os.chmod(path, 0o700)
        root = _open(path)
        try:
            _empty(root, until)
        finally:
            os.close(root)
        os.rmdir(path)
    except OSError:
        return False
    return True


def _empty(root: int, until: float):
    """Remove what is in the open folder `root`. Raises OSError where that cannot be done in time."""
    waiting = _remove_files(root, until)
    while waiting:
        name = waiting.pop()
        folder = _open(name, root)
        try:
            for inner in _remove_files(folder, until):
                waiting.append(secrets.token_hex(16))
                os.rename(inner, waiting[-1], src_dir_fd=folder, dst_dir_fd=root)
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=root)


def _remove_files(folder: int, until: float) -> list[str]:
    """Remove all but the folders in an open folder; their names."""
    folders = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if time.monotonic() > until:
                raise TimeoutError
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
                os.chmod(entry.name, 0o700, dir_fd=folder)  # to move a folder, and to look into it, takes rights on it
            else:
                os.unlink(entry.name, dir_fd=folder)
    return folders


def _open(name: str, parent: int | None = None) -> int:
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
