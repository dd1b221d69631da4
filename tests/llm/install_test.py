#!/usr/bin/env python3
"""What cmake --install puts down is enough for a program that embeds the engine.

usage: install_test.py BUILD_DIR SOURCE_DIR
Installs into a scratch folder, builds examples/embed against it, runs it, and checks that no other header was needed.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE = map(pathlib.Path, sys.argv[1:3])


class Install(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="nanovllm-install-"))

    def tearDown(self):
        shutil.rmtree(self.folder)

    def run_command(self, *command):
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=500)
        self.assertEqual(result.returncode, 0, result.stdout[-2000:] + result.stderr[-2000:])
        return result.stdout

    def test_the_example(self):
        prefix, build = self.folder / "prefix", self.folder / "build"
        self.run_command("cmake", "--install", BUILD, "--prefix", prefix)
        headers = {str(path.relative_to(prefix / "include" / "nanovllm")): path.read_text()
                   for path in (prefix / "include").rglob("*.h")}
        seen, todo = set(), ["llm/llm.h"]
        while todo:  # exactly what llm/llm.h asks for
            header = todo.pop()
            if header not in seen:
                seen.add(header)
                todo += re.findall(r'^#include "(.+)"', headers[header], re.M)
        self.assertEqual(seen, set(headers))
        self.run_command("cmake", "-G", "Ninja", "-S", SOURCE / "examples" / "embed", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
                         "-DCMAKE_BUILD_TYPE=Release")
        self.run_command("cmake", "--build", build)
        answers = self.run_command(build / "embed", SOURCE / "models" / "demo")
        program = self.run_command(prefix / "bin" / "nanovllm", "generate", SOURCE / "models" / "demo", "Once upon a time",
                                   "--temperature", "0", "--max-tokens", "12")
        self.assertTrue(answers.startswith(program), answers)
        self.assertGreater(len(answers), len(program) + 5)
        wrong = subprocess.run([build / "embed", "nowhere"], capture_output=True, text=True)
        self.assertEqual((wrong.returncode, wrong.stderr),
                         (1, "embed: nowhere: no such folder, want a Hugging Face model folder\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
