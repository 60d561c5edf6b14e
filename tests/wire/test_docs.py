"""The examples of docs/scapy.md and docs/captures.md give what they say."""

from __future__ import annotations

import doctest
import re
from typing import Any

from click.testing import CliRunner

from mrclab import ROOT
from mrclab.commands.decode import decode_command


def test_scapy_examples() -> None:
    text = (ROOT / "docs" / "scapy.md").read_text()
    names: dict[str, Any] = {}
    exec("from scapy.all import *\nfrom hosts.wire.layers import *", names)
    source = "\n".join(re.findall(r"```python\n(.*?)```", text, re.S))
    # What show() prints is Scapy's and changes with its version.
    source = source.replace("[SETH].show()", "[SETH].m\n1")
    test = doctest.DocTestParser().get_doctest(source, names, "scapy.md", "docs/scapy.md", 0)
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test)
    assert runner.failures == 0
    assert runner.tries > 6


def test_decode_example() -> None:
    text = (ROOT / "docs" / "captures.md").read_text()
    command = re.search(r'decode --from bth "([0-9a-f ]+)"', text)
    shown = re.search(r"```text\n(.*?)```", text, re.S)
    assert command is not None
    assert shown is not None
    done = CliRunner().invoke(decode_command, ["--from", "bth", command[1]])
    assert done.output == shown[1]
