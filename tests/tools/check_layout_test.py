"""Plants each fault that tools/check_layout.py looks for in a small tree, and sees it reported, and nothing else."""
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
CHECK = SOURCE / "tools" / "check_layout.py"

# A tree without a fault. Every test changes one file of it.
CLEAN = {
    ".clang-format": (SOURCE / ".clang-format").read_text(),
    "CMakeLists.txt": "# Builds it.\n",
    "README.md": "Read /proc/self/status, src/home/x and ../work/x.\n",
    "src/base/error.h": "// Errors.\n#pragma once\n\n#include <string>\n",
    "src/base/error.cpp": '#include "base/error.h"\n',
    "src/tensor/tensor.h": '// Tensors.\n#pragma once\n\n#include "base/error.h"\n',
    "src/tokenizer/bpe.h": '// Byte pairs.\n#pragma once\n\n#include "base/error.h"\n',
    "src/engine/batch.h": '// One step.\n#pragma once\n\n#include "base/error.h"\n',
    "src/llm/llm.h": '// The front door.\n#pragma once\n\n#include "engine/batch.h"\n#include "tokenizer/bpe.h"\n',
    "src/cli/main.cpp": '// The program.\n#include <cstdlib>\n\n#include "llm/llm.h"\n\n'
                        'const char* home() { return std::getenv("HOME"); }\n',
    "src/python/module.h": "// The module.\n#pragma once\n",
    "tests/support.h": "// Helpers of the tests.\n#pragma once\n",
    "tests/base/error_test.cpp": '#include "base/error.h"\n\n#include "support.h"\n',
    "tests/golden/data.json": "\n" * 600,
    "build/release/generated.h": "no comment\n",
}


def has_clang_format():
    program = shutil.which("clang-format-14") or shutil.which("clang-format")
    if program is None:
        return False
    return "version 14." in subprocess.run([program, "--version"], capture_output=True, text=True).stdout


class CheckLayout(unittest.TestCase):
    def check(self, changes):
        """The faults in the clean tree with some files changed or added."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**CLEAN, **changes}.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text if isinstance(text, bytes) else text.encode())
            run = subprocess.run([sys.executable, "-B", CHECK, folder], capture_output=True, text=True)
        self.assertEqual(run.stderr, "")
        faults = [line for line in run.stdout.splitlines() if not line.startswith(("note: ", "check_layout: "))]
        self.assertEqual(run.returncode, 1 if faults else 0, run.stdout)
        return faults

    def expect_one(self, changes, *parts):
        faults = self.check(changes)
        self.assertEqual(len(faults), 1, faults)
        for part in parts:
            self.assertIn(part, faults[0])

    def header(self, *lines):
        return "\n".join(["// A header.", "#pragma once", *([""] if lines else []), *lines, ""])

    def test_clean_tree_has_no_fault(self):
        self.assertEqual(self.check({}), [])

    def test_folder_includes_a_later_one(self):
        self.expect_one({"src/base/late.h": self.header('#include "tensor/tensor.h"')},
                        "src/base/late.h:4: base includes tensor, want only base and the folders before it (none)")
        self.expect_one({"src/tensor/late.h": self.header('#include "llm/llm.h"')}, "tensor includes llm", "(base)")

    def test_relative_include_does_not_hide_the_folder(self):
        self.expect_one({"src/base/late.h": self.header('#include "../tensor/tensor.h"')}, "base includes tensor")

    def test_last_two_folders_do_not_include_each_other(self):
        self.expect_one({"src/cli/a.h": self.header('#include "python/module.h"')}, "cli includes python")

    def test_tokenizer_and_engine_include_base_only(self):
        self.expect_one({"src/tokenizer/a.h": self.header('#include "tensor/tensor.h"')},
                        "tokenizer includes tensor, want only tokenizer and base")
        self.expect_one({"src/engine/a.h": self.header('#include "tokenizer/bpe.h"')}, "engine includes tokenizer")
        self.assertEqual(self.check({"src/engine/a.h": self.header('#include "engine/batch.h"')}), [])

    def test_source_includes_a_test(self):
        self.expect_one({"src/base/a.h": self.header('#include "../../tests/support.h"')}, "want only files of src/")

    def test_unknown_folder(self):
        self.expect_one({"src/utils/a.h": self.header()}, "src/utils is not in the line of folders")

    def test_include_that_does_not_exist(self):
        self.expect_one({"src/llm/a.h": self.header('#include "base/eror.h"')},
                        'src/llm/a.h:4: "base/eror.h" does not exist')
        self.expect_one({"tests/base/a_test.cpp": '#include "suport.h"\n'}, '"suport.h" does not exist')

    def test_project_file_in_angle_brackets(self):
        self.expect_one({"src/llm/a.h": self.header("#include <base/error.h>")}, "<base/error.h> is a file of src/")

    def test_long_file(self):
        self.assertEqual(self.check({"src/base/long.h": self.header(*["// x"] * 497)[:-1]}), [])
        self.expect_one({"src/base/long.h": self.header(*["// x"] * 498)}, "501 lines, want at most 500")
        self.expect_one({"tools/long.py": "x = 1\n" * 501}, "tools/long.py:501")
        generated = "// Generated by tools/x.py.\n#pragma once\n" + "int  x;\n" * 999
        self.assertEqual(self.check({"src/base/long.h": generated}), [])

    def test_header_without_pragma_once(self):
        self.expect_one({"src/base/a.h": "// A header.\n"}, "src/base/a.h:1: no #pragma once")
        self.expect_one({"tests/a.h": "// A header.\n"}, "no #pragma once")

    def test_file_without_opening_comment(self):
        self.expect_one({"src/base/a.h": "#pragma once\n"}, "src/base/a.h:1: does not begin with a comment")
        self.expect_one({"src/base/alone.cpp": '#include "base/error.h"\n'}, "does not begin with a comment")
        self.expect_one({"src/base/empty.cpp": ""}, "does not begin with a comment")

    def test_path_of_one_machine(self):
        for place in ("home", "root", "work", "Users"):
            self.expect_one({"docs/a.md": f"Run it.\nIn `/{place}/someone`.\n"}, "docs/a.md:2: a path of one machine")
        self.expect_one({"run": "cd /" + "work/main\n"}, "run:1: a path of one machine")

    def test_getenv_outside_the_command_line(self):
        self.expect_one({"src/llm/a.h": self.header('inline auto x = getenv("X");')}, "src/llm/a.h:4: getenv")

    def test_unfinished_work(self):
        for word in ("TO" "DO", "FIX" "ME", "XX" "X"):
            self.expect_one({"src/llm/a.h": self.header(f"// {word}: later")}, f"src/llm/a.h:4: {word}, want")

    def test_text_that_is_not_utf8(self):
        self.expect_one({"docs/a.md": b"caf\xe9\n"}, "docs/a.md:1: byte 3 is not UTF-8")

    @unittest.skipUnless(has_clang_format(), "clang-format 14 is not installed")
    def test_format(self):
        self.expect_one({"src/llm/a.h": self.header("inline int  x=1;")},
                        "src/llm/a.h:4: format, want what clang-format writes")
        self.expect_one({".clang-format": "BasedOnStyle: Nothing\n"}, ".clang-format:1: clang-format failed, want it to run")

    def test_empty_folder_is_no_success(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(subprocess.run([sys.executable, "-B", CHECK, folder], capture_output=True).returncode, 1)


if __name__ == "__main__":
    unittest.main()
