"""Reading codebases: bytes as Python reads them, each file left out for a reason that is said, one clear error where nothing is left."""

import os
import sys
import zipfile

import pytest

from rlmlib.errors import DataError
from rlmlib.tasks.sources.codebases import choose_part, fingerprint, read_codebase
from rlmlib.tasks.sources.places import codebase_name
from rlmlib.tasks.study import tokens

GOOD = b"def one():\n    return 1\n"


@pytest.fixture
def folder(tmp_path):
    """A function that writes files, by path to bytes, into a folder called shop."""

    def write(files: dict[str, bytes]) -> str:
        for path, data in files.items():
            file = tmp_path / "shop" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        return str(tmp_path / "shop")

    return write


def texts(codebase) -> dict[str, str]:
    return {file.path: file.text for file in codebase.files}


def test_files_are_sorted_by_path_and_begin_with_the_folders_name(folder):
    spec = folder({"b.py": GOOD, "a/z.py": GOOD, "a.py": GOOD, "notes.txt": b"no code"})
    codebase = read_codebase(spec)
    assert [file.path for file in codebase.files] == ["shop/a.py", "shop/a/z.py", "shop/b.py"]
    assert (codebase.name, codebase.version, codebase.left_out) == ("shop", "", [])


def test_bytes_are_decoded_by_cookie_and_bom_and_lines_end_alike(folder):
    spec = folder(
        {
            "bom.py": b"\xef\xbb\xbfx = 1\r\ny = 2\r",
            "cookie.py": "# coding: latin-1\nname = 'caf\xe9'".encode("latin-1"),
            "utf8.py": "name = 'café'\n".encode(),
            "empty.py": b"",
        }
    )
    assert texts(read_codebase(spec)) == {
        "shop/bom.py": "x = 1\ny = 2\n",
        "shop/cookie.py": "# coding: latin-1\nname = 'café'\n",
        "shop/empty.py": "",
        "shop/utf8.py": "name = 'café'\n",
    }


def test_other_line_separators_stay_in_their_line(folder):
    spec = folder({"a.py": "x = 1\n\x0cy = '\u2028'\nz = 3\n".encode()})
    (file,) = read_codebase(spec).files
    assert file.text.split("\n") == ["x = 1", "\x0cy = '\u2028'", "z = 3", ""]


@pytest.mark.parametrize(
    ("path", "data", "reason"),
    [
        ("nul.py", b"x = 1\0\n", "NUL bytes"),
        ("latin.py", b"name = 'caf\xe9'\n", "do not decode"),
        ("cookie.py", b"# coding: no-such-codec\n", "do not decode"),
        ("binary.py", b"# coding: base64\nx = 1\n", "do not decode"),
        ("surrogate.py", b"# coding: raw_unicode_escape\nx = '\\ud800'\n", "do not decode"),
        ("old.py", b"print 'hello'\n", "cannot parse"),
        ("deep.py", b"x = " + b"+".join([b"1"] * 30_000) + b"\n", "cannot parse"),
        ("nested.py", b"x = " + b"(" * 300 + b")" * 300 + b"\n", "cannot parse"),
        ("header.py", b"'''\n===== file: other.py =====\n'''\n", "header line"),
        ("stub.pyi", GOOD, "stubs"),
        ("_vendor/lib.py", GOOD, "vendored"),
        ("tests/any.py", GOOD, "tests"),
        ("test_any.py", GOOD, "tests"),
        ("conftest.py", GOOD, "tests"),
        ("big.py", b"#" * 500_000, "max_file_bytes"),
        (".cache/a.py", GOOD, "hidden"),
        ("a\nb.py", GOOD, "no header line"),
        ("a =====.py", GOOD, "no header line"),
        ("table.py", b"TABLE = [" + b"0x1f2e3d, " * 3_000 + b"]\n", "tables"),
        ("docs.py", b"TEXT = '''" + b"some words " * 5_000 + b"'''\n", "without definitions"),
    ],
)
def test_what_is_left_out_is_said_in_one_line(folder, path, data, reason):
    codebase = read_codebase(folder({"good.py": GOOD, path: data}))
    assert [file.path for file in codebase.files] == ["shop/good.py"]
    (line,) = codebase.left_out
    assert reason in line and line.startswith("1 ") and "shop/" in line and "\n" not in line


def test_reasons_are_grouped(folder):
    codebase = read_codebase(folder({"good.py": GOOD, "old1.py": b"print 1", "old2.py": b"exec 'x'", "nul.py": b"\0"}))
    assert [line.split(" ")[0] for line in codebase.left_out] == ["2", "1"]
    assert "shop/old1.py" in codebase.left_out[0]


def test_symlinks_and_special_files_are_left_out(folder, tmp_path):
    spec = folder({"good.py": GOOD, "inner/a.py": GOOD})
    os.symlink(f"{spec}/good.py", f"{spec}/link.py")
    os.symlink(spec, f"{spec}/inner/loop")
    os.mkfifo(f"{spec}/pipe.py")
    codebase = read_codebase(spec)
    assert [file.path for file in codebase.files] == ["shop/good.py", "shop/inner/a.py"]
    assert sorted(line.split(" (")[0] for line in codebase.left_out) == ["1 not plain files", "2 symlinks"]


def test_invalid_escapes_do_no_harm_where_warnings_are_errors(folder):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        codebase = read_codebase(folder({"a.py": b"x = '\\d'\n"}))
    assert len(codebase.files) == 1


def test_tests_are_kept_on_demand(folder):
    spec = folder({"good.py": GOOD, "tests/test_good.py": GOOD})
    assert len(read_codebase(spec, tests=True).files) == 2


def test_a_large_codebase_is_cut_to_whole_folders_the_same_way_each_time(folder):
    spec = folder({f"part{n}/mod{m}.py": GOOD for n in range(5) for m in range(4)})
    limit = len(GOOD) * 10
    first, second = read_codebase(spec, max_bytes=limit), read_codebase(spec, max_bytes=limit)
    assert first == second and len(first.files) == 10
    assert "10 files beyond max_bytes=240" in first.left_out[0]


def test_tokens_of_pieces_add_up(folder):
    spec = folder({"a.py": GOOD, "b.py": b"\n\n  # note\nx = 1", "c.py": b"", "d.py": "'''\u0301'''\n\n\n".encode()})
    files = read_codebase(spec).files
    assert sum(file.tokens for file in files) == tokens.count("".join(file.piece for file in files))


def test_facts_are_taken_from_the_tree(folder):
    codebase = read_codebase(folder({"a.py": GOOD}), facts=lambda path, tree: (path, tree.body[0].name))
    assert codebase.files[0].facts == ("shop/a.py", "one")


def wheel(tmp_path, name: str, files: dict[str, bytes]):
    path = tmp_path / name
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in files.items():
            archive.writestr(member, data)
    return path


def test_a_wheel_is_read_as_it_would_be_installed(tmp_path):
    path = wheel(
        tmp_path,
        "shop-2.5-py3-none-any.whl",
        {"shop/__init__.py": GOOD, "shop-2.5.data/purelib/extra.py": GOOD, "../out.py": GOOD, "shop/data.txt": b"no code"},
    )
    codebase = read_codebase(str(path))
    assert (codebase.name, codebase.version) == ("shop", "2.5") == (codebase_name(str(path)), "2.5")
    assert [file.path for file in codebase.files] == ["extra.py", "shop/__init__.py"]
    assert "no header line" in codebase.left_out[0]


@pytest.mark.parametrize("damage", ["cut", "bytes", "text"])
def test_a_damaged_wheel_is_one_clear_error(tmp_path, damage):
    path = wheel(tmp_path, "shop-2.5-py3-none-any.whl", {"shop/__init__.py": GOOD * 50})
    data = path.read_bytes()
    place = data.index(GOOD)
    path.write_bytes({"cut": data[: len(data) // 2], "bytes": data[:place] + b"\xff" * 9 + data[place + 9 :], "text": b"hello"}[damage])
    with pytest.raises(DataError, match="shop-2.5.*damaged") as caught:
        read_codebase(str(path))
    assert "\n" not in str(caught.value)


def test_installed_packages_are_found_and_not_imported():
    sys.modules.pop("lib2to3", None)
    codebase = read_codebase("email")
    assert codebase.version == ".".join(map(str, sys.version_info[:3]))
    assert codebase.files[0].path == "email/__init__.py"
    assert [file.path for file in read_codebase("lib2to3.pgen2").files][0] == "lib2to3/pgen2/__init__.py"
    assert "lib2to3" not in sys.modules
    assert [file.path for file in read_codebase("bisect").files] == ["bisect.py"]


def test_import_hooks_do_not_give_another_package():
    folder = os.path.dirname(os.__file__)
    hooked, plain = read_codebase("distutils", tests=True), read_codebase(f"{folder}/distutils", tests=True)
    assert [file.text for file in hooked.files] == [file.text for file in plain.files]


def test_the_fingerprint_follows_the_files_that_are_read(folder):
    spec = folder({"a.py": GOOD, "notes.txt": b"x", "tests/a.py": GOOD})
    before = fingerprint(spec)
    folder({"notes.txt": b"y", "tests/a.py": b"other = 1\n"})
    assert fingerprint(spec) == before != fingerprint(spec, tests=True)
    folder({"a.py": GOOD.replace(b"1", b"2")})
    assert fingerprint(spec) != before


def test_the_version_of_a_package_is_that_of_its_distribution():
    import importlib.metadata

    assert read_codebase("yaml").version == importlib.metadata.version("PyYAML")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("./no/such/folder", "no such file or folder"),
        ("no-such.whl", "no such file or folder"),
        ("no_such_package", "no package of this import name"),
        ("", "no package of this import name"),
        ("sys", "no Python file"),
        ("email.nothing", "no Python file"),
        (__file__, "neither a folder nor"),
    ],
)
def test_what_is_no_codebase_is_one_clear_error(spec, message):
    with pytest.raises(DataError, match=message) as caught:
        read_codebase(spec)
    assert repr(spec) in str(caught.value) and "\n" not in str(caught.value)


def test_nothing_left_says_why(folder):
    with pytest.raises(DataError, match="no Python file.*1 files that this Python cannot parse.*1 tests"):
        read_codebase(folder({"old.py": b"print 1", "tests/a.py": GOOD}))


def test_parts_are_whole_folders_first_and_come_near_the_budget():
    sizes = {f"p/{folder}/{name}.py": 10 for folder in "abcdef" for name in "wxyz"}
    chosen = choose_part(sizes, 130, "seed")
    assert len(chosen) == 13 and chosen == sorted(chosen) == choose_part(dict(reversed(sizes.items())), 130, "seed")
    whole = [folder for folder in "abcdef" if sum(path.startswith(f"p/{folder}/") for path in chosen) == 4]
    assert len(whole) == 3
    assert choose_part(sizes, 130, "other") != chosen
    assert choose_part(sizes, 9, "seed") == [] == choose_part({}, 9, "seed")
    assert choose_part(sizes, 240, "seed") == sorted(sizes)
