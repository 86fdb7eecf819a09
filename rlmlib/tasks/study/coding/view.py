"""The files of a context, or of one folder in it, and tables over all of them."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cached_property

from .analysis import Class, Index

LEAST_FILES = 4  # of a folder that a question may be limited to


class View:
    """Indexes by path. folder: "" for the whole context, else a prefix that ends in "/"."""

    def __init__(self, files: Mapping[str, Index], folder: str = ""):
        self.files = {path: found for path, found in files.items() if path.startswith(folder)}
        self.folder = folder

    @property
    def where(self) -> str:
        return f"all files whose path begins with `{self.folder}`" if self.folder else "all files of the context"

    def folders(self) -> list[str]:
        """Folders with several files, sorted. One that holds every file is the whole, and not among them."""
        counts = Counter()
        for path in self.files:
            parts = path.split("/")[:-1]
            counts.update("/".join(parts[:end]) + "/" for end in range(1, len(parts) + 1))
        return sorted(folder for folder, count in counts.items() if LEAST_FILES <= count < len(self.files))

    @cached_property
    def classes(self) -> dict[str, list[tuple[str, Class]]]:
        """(path, class) of each definition, by name."""
        found = defaultdict(list)
        for path, index in self.files.items():
            for defined in index.classes:
                found[defined.name].append((path, defined))
        return found
