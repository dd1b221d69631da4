#!/usr/bin/env python3
"""The commands of docs/walkthrough.md print what it says they print, and the Chinese text shows the same ones.

usage: walkthrough_test.py PROGRAM SOURCE_DIR
A block ```console holds commands ("$ nanovllm …") and what each prints; "…" alone on a line stands for any lines, inside a line for any text.
"""
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

PROGRAM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])


def commands(text):
    """(command, expected lines) of every console block."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S):
        for line in block.rstrip("\n").split("\n"):
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def pattern(lines):
    parts = [r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n" for line in lines]
    return "".join(parts)


class Walkthrough(unittest.TestCase):
    def test_both_languages_show_the_same(self):
        english, chinese = ((SOURCE / "docs" / name).read_text() for name in ("walkthrough.md", "walkthrough.zh.md"))
        self.assertEqual(commands(english), commands(chinese))
        self.assertEqual(re.findall(r"\]\((\.\./[^)]+)\)", english), re.findall(r"\]\((\.\./[^)]+)\)", chinese))

    def test_commands_print_what_is_shown(self):
        text = (SOURCE / "docs" / "walkthrough.md").read_text()
        self.assertGreater(len(commands(text)), 8)
        for command, lines in commands(text):
            words = shlex.split(command)
            self.assertEqual(words[0], "nanovllm", command)
            result = subprocess.run([PROGRAM, *words[1:]], cwd=SOURCE, capture_output=True, text=True, timeout=300)
            self.assertEqual((result.returncode, result.stderr), (0, ""), command)
            self.assertRegex(result.stdout, r"\A" + pattern(lines) + r"\Z", command)

    def test_links_lead_somewhere(self):
        for document in sorted((SOURCE / "docs").glob("*.md")) + [SOURCE / "README.md"]:
            for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
                if "://" not in target:
                    self.assertTrue((document.parent / target).exists(), f"{document.name}: {target}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
