"""Opens every notebook in a real JupyterLab with a headless Chromium, runs all of its cells, and takes pictures.

    python tests/lab_check.py [--out FOLDER] [NOTEBOOK ...]

The notebooks are copies with `interactive` on, so that their widgets are drawn too; what they write goes to outputs/lab-check. A line a
notebook: cells run, errors, charts, widgets. Exit codes: 0 all ran without an error, 1 some did not, 3 no Chromium here.
"""

import argparse
import base64
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from browser import Browser

from rlmlib.notebook import ROOT

START_S, RUN_S = 90.0, 900.0
OUT = "outputs/lab-check"
CHANGES = {"outputs/smoke-sweep": f"{OUT}/sweep", "outputs/smoke": f"{OUT}/run", "outputs/demo": f"{OUT}/run"}
NO_WIDGETS = ("40_train",)  # its widgets wait for somebody to press Start, and the notebooks after it need the run
PANEL = "[...jupyterapp.shell.widgets('main')].find(w => w.sessionContext && w.content.widgets)"  # there is no focus, so none is current
CELLS = f"{PANEL}.content.widgets.filter(w => w.model.type === 'code')"
ERRORS = f"{CELLS}.flatMap(w => w.model.sharedModel.outputs.filter(o => o.output_type === 'error').map(o => o.ename + ': ' + o.evalue))"
CHARTS = "document.querySelectorAll('.jp-Notebook .jp-RenderedImage, .jp-Notebook .js-plotly-plot, .jp-Notebook .jp-RenderedSVG').length"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("notebooks", nargs="*", help="names such as 30_reward (default: all)")
    parser.add_argument("--out", type=Path, default=ROOT / OUT / "pictures", help="folder of the pictures")
    arguments = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        print("no Chromium was found: install one to open the notebooks in it", file=sys.stderr)
        return 3
    names = arguments.notebooks or [path.stem for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        copies = Path(folder) / "notebooks"
        copies.mkdir()
        for name in names:
            (copies / f"{name}.ipynb").write_text(changed(name, (ROOT / f"notebooks/{name}.ipynb").read_text()))
        port = free_port()
        lab = start_lab(copies, port)
        browser = None
        try:
            answers(port)
            browser = Browser(program, Path(folder) / "browser")
            return int(not all([ran_well(browser, port, name, arguments.out) for name in names]))
        finally:
            if browser is not None:
                browser.close()
            lab.terminate()
            lab.wait(timeout=30)


def changed(name: str, notebook: str) -> str:
    """The notebook with widgets, and with what it writes in a folder of this check."""
    for before, after in CHANGES.items():
        notebook = notebook.replace(f'= \\"{before}\\"', f'= \\"{after}\\"')
    return notebook if name in NO_WIDGETS else notebook.replace("interactive: bool = False", "interactive: bool = True")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start_lab(folder: Path, port: int) -> subprocess.Popen:
    options = [
        "--no-browser",
        "--allow-root",
        f"--port={port}",
        "--ServerApp.port_retries=0",
        "--IdentityProvider.token=",
        "--expose-app-in-browser",
    ]
    command = [sys.executable, "-m", "jupyterlab", *options, f"--ServerApp.root_dir={folder}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)


def answers(port: int):
    """Returns once the server does. Raises TimeoutError."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(f"JupyterLab did not start in {START_S:.0f} s")


def ran_well(browser: Browser, port: int, name: str, out: Path) -> bool:
    """Run a notebook, tell how it went, take a picture of its end."""
    began = time.monotonic()
    browser.call("Emulation.setDeviceMetricsOverride", width=1500, height=2200, deviceScaleFactor=1, mobile=False)
    browser.call("Page.navigate", url=f"http://127.0.0.1:{port}/lab/workspaces/{name}/tree/{name}.ipynb?reset")
    ready = f"{PANEL}.sessionContext.session.kernel.status === 'idle'"
    wait(browser, f"(() => {{ try {{ return {ready} }} catch {{ return false }} }})()", START_S)
    browser.run(f"jupyterapp.shell.activateById({PANEL}.id), 0")
    browser.run("window.ranAll = null, jupyterapp.commands.execute('notebook:run-all-cells').then(() => window.ranAll = true), 0")
    wait(browser, "window.ranAll", RUN_S)
    errors = browser.run(ERRORS)
    cells, done = browser.run(f"{CELLS}.length"), browser.run(f"{CELLS}.filter(w => w.model.executionCount).length")
    for place, part in ((0, "begin"), (0.3, "middle"), (0.55, "end")):
        browser.run(
            f"(() => {{ const n = document.querySelector('.jp-WindowedPanel-outer'); n.scrollTop = {place} * n.scrollHeight; return 0 }})()"
        )
        time.sleep(1.5)  # for what has come into view to be drawn
        picture = browser.call("Page.captureScreenshot", format="png")["data"]
        (out / f"{name}_{part}.png").write_bytes(base64.b64decode(picture))
    told = {
        "cells": cells,
        "ran": done,
        "errors": errors,
        "charts in view": browser.run(CHARTS),
        "seconds": round(time.monotonic() - began),
    }
    print(f"{name}: {json.dumps(told)}", flush=True)
    return not errors and cells == done


def wait(browser: Browser, script: str, limit_s: float):
    deadline = time.monotonic() + limit_s
    while not browser.run(script):
        if time.monotonic() > deadline:
            raise TimeoutError(f"never true in {limit_s:.0f} s: {script}")
        time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
