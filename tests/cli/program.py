"""What the tests of the program share: how it is run, and what its errors look like.

A test is called with PROGRAM SOURCE_DIR.
"""
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
DEMO = str(SOURCE / "models" / "demo")
GOLDEN = SOURCE / "tests" / "golden"


def run(*arguments, stdin="", program=PROGRAM, **variables):
    return subprocess.run([program, *arguments], input=stdin, capture_output=True, text=True, timeout=300,
                          env={**os.environ, **variables})


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="nanovllm-cli-"))

    def tearDown(self):
        shutil.rmtree(self.folder)

    def model(self, name="qwen3-tied-bf16"):
        """A copy of a golden model's folder, to be damaged."""
        folder = self.folder / name
        shutil.copytree(GOLDEN / name, folder)
        for file in folder.iterdir():
            file.chmod(0o644)
        return folder

    def model_with_nan(self, name="llama-tied-f32"):
        """A golden model whose last norm has a weight that is no number."""
        folder = self.model(name)
        file = folder / "model.safetensors"
        data = bytearray(file.read_bytes())
        length = struct.unpack("<Q", data[:8])[0]
        begin = 8 + length + json.loads(data[8:8 + length])["model.norm.weight"]["data_offsets"][0]
        data[begin:begin + 4] = struct.pack("<f", math.nan)
        file.write_bytes(data)
        return folder

    def expect_error(self, result, *parts, code=1):
        self.assertEqual(result.returncode, code, result.stderr)
        lines = result.stderr.strip().split("\n")
        self.assertEqual(len(lines), 1, result.stderr)
        self.assertTrue(lines[0].startswith("nanovllm: error: "), lines[0])
        for part in parts:
            self.assertIn(part, lines[0])

    def generate(self, model, *arguments, **kwargs):
        return run("generate", str(model), *arguments, **kwargs)
