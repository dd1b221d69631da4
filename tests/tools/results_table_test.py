"""tools/results_table.py: what it draws, that --check sees every difference, and each fault of a results file."""
import copy
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "results_table.py"

DECODE = {
    "what": "decode", "machine": "Two cores", "date": "2026-12-01", "commit": "abc1234", "command": "bench/decode",
    "model": "random 0.6B", "rows": [
        {"name": "cpu.decode.bf16", "value": 12.34, "min": 12, "max": 13, "runs": 5, "unit": "tok/s",
         "rival": "llama.cpp b1", "rival_value": 10, "same_run": True},
        {"name": "cpu.decode.int8", "value": 20, "unit": "tok/s"},
        {"name": "cpu.first_token.0.6b", "value": 0.5, "unit": "s", "rival": "a|b", "rival_value": 2, "note": "warm"},
        {"name": "cpu.differs", "value": 26500, "unit": "answers", "rival": "vLLM", "rival_value": 40, "floor": 1}]}

PAGE = """# Title
<!-- results: cpu/decode rows=cpu.decode.* columns=name,value,range,rival,ratio -->
old
<!-- /results -->
end
"""
DRAWN = """# Title
<!-- results: cpu/decode rows=cpu.decode.* columns=name,value,range,rival,ratio -->

| what | measured | range | rival | times better |
|---|--:|--:|---|--:|
| cpu.decode.bf16 | 12.3 | 12 – 13 | llama.cpp b1 | 1.23 |
| cpu.decode.int8 | 20 |  |  |  |

Two cores, random 0.6B; 2026-12-01, commit abc1234, `bench/decode`

<!-- /results -->
end
"""


class ResultsTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "docs").mkdir()

    def write(self, page=PAGE, results=DECODE, file="cpu/decode"):
        (self.root / "README.md").write_text(page)
        if results is not None:
            path = self.root / "bench" / "results" / f"{file}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(results if isinstance(results, str) else json.dumps(results))

    def run_script(self, *arguments):
        run = subprocess.run([sys.executable, "-B", SCRIPT, *arguments, self.root], capture_output=True, text=True)
        self.assertEqual(run.stderr, "")
        return run.returncode, run.stdout

    def page(self):
        return (self.root / "README.md").read_text()

    def draw(self, marker, results=DECODE):
        self.write(f"<!-- results: {marker} -->\n<!-- /results -->\n", results)
        code, out = self.run_script()
        self.assertEqual(code, 0, out)
        return self.page()

    def expect_fault(self, text, **written):
        self.write(**written)
        for arguments in ((), ("--check",)):
            code, out = self.run_script(*arguments)
            self.assertEqual(code, 1, out)
            self.assertIn(text, out)

    def test_draws_the_table_and_then_agrees(self):
        self.write()
        code, out = self.run_script("--check")
        self.assertEqual((code, self.page()), (1, PAGE))
        self.assertIn("README.md:2: the table differs from bench/results", out)
        self.assertEqual(self.run_script()[0], 0)
        self.assertEqual(self.page(), DRAWN)
        self.assertEqual(self.run_script("--check")[0], 0)

    def test_changed_value_is_seen(self):
        results = copy.deepcopy(DECODE)
        results["rows"][1]["value"] = 21
        self.write(DRAWN, results)
        self.assertEqual(self.run_script("--check")[0], 1)

    def test_changed_table_is_seen(self):
        self.write(DRAWN.replace("1.23", "1.32"))
        self.assertEqual(self.run_script("--check")[0], 1)

    def test_docs_are_drawn_too(self):
        self.write(page="")
        (self.root / "docs" / "serving.md").write_text(PAGE)
        self.assertIn("docs/serving.md:2:", self.run_script("--check")[1])

    def test_default_columns_without_the_empty_ones(self):
        page = self.draw("cpu/decode rows=cpu.decode.int8")
        self.assertIn("| what | measured | unit |\n|---|--:|---|\n| cpu.decode.int8 | 20 | tok/s |\n", page)

    def test_less_is_better_for_seconds_and_a_bar_is_escaped(self):
        self.assertIn("| a\\|b | 2 | 4.00 |", self.draw("cpu/decode rows=cpu.first*"))

    def test_no_ratio_where_no_direction_is_known(self):
        page = self.draw("cpu/decode rows=cpu.differs columns=value,unit,rival,rival_value,ratio,floor,note,model")
        self.assertIn("| 26,500 | answers | vLLM | 40 |  | 1 |  | random 0.6B |", page)

    def test_rows_stand_in_the_order_of_the_patterns_and_once(self):
        page = self.draw("cpu/* rows=cpu.first*,cpu.decode.int8,cpu.* columns=name")
        names = [line.strip("| ") for line in page.splitlines() if line.startswith("| cpu.")]
        self.assertEqual(names, ["cpu.first_token.0.6b", "cpu.decode.int8", "cpu.decode.bf16", "cpu.differs"])

    def test_several_files_have_a_caption_each(self):
        self.write(file="gpu/decode", results={**DECODE, "machine": "One GPU"})
        page = self.draw("*/decode rows=cpu.decode.int8 columns=name,value")
        self.assertEqual(page.count("| cpu.decode.int8 | 20 |"), 2)
        self.assertLess(page.index("Two cores"), page.index("One GPU"))

    def test_nothing_measured_yet(self):
        self.assertIn("*Not measured yet.*", self.draw("gpu/runtime", results=None))
        self.assertEqual(self.run_script("--check")[0], 0)

    def test_markers_in_a_fence_are_text(self):
        page = f"```\n{PAGE}```\n"
        self.write(page)
        self.assertEqual(self.run_script()[0], 0)
        self.assertEqual(self.page(), page)

    def test_faults_of_markers(self):
        begin, end = "<!-- results: cpu/decode -->\n", "<!-- /results -->\n"
        self.expect_fault("README.md:1: a table without an end", page=begin)
        self.expect_fault("README.md:1: a table without an end", page=begin + begin + end)
        self.expect_fault("README.md:2: <!-- /results --> without a beginning", page="\n" + end)
        self.expect_fault("no file is named", page="<!-- results: rows=a -->\n" + end)
        self.expect_fault("'row=a' is not known", page="<!-- results: cpu/decode row=a -->\n" + end)
        self.expect_fault("column 'speed' is not known", page="<!-- results: cpu/decode columns=speed -->\n" + end)
        self.expect_fault("no row is called 'gpu.*'", page="<!-- results: cpu/decode rows=gpu.* -->\n" + end)

    def test_faults_of_files(self):
        self.expect_fault("bench/results/cpu/decode.json:2:", results="{\n x}")
        self.expect_fault("want bench/results/<machine>/<what>.json", file="decode")
        (self.root / "bench" / "results" / "decode.json").unlink()
        self.expect_fault("is no object", results="[]")

        def change(key, value):
            changed = copy.deepcopy(DECODE)
            changed[key] = value
            return changed

        for key in DECODE:
            self.expect_fault(f"has no '{key}'", results={k: v for k, v in DECODE.items() if k != key})
        self.expect_fault("has a key 'speed'", results=change("speed", 1))
        self.expect_fault("'what' is 'prefill', want the file's name", results=change("what", "prefill"))
        self.expect_fault("'date' is '1.12.2026', want YYYY-MM-DD", results=change("date", "1.12.2026"))
        self.expect_fault("'commit' is 'unknown'", results=change("commit", "unknown"))
        self.expect_fault("'machine' is empty", results=change("machine", ""))
        self.expect_fault("'rows' is empty", results=change("rows", []))
        self.expect_fault("'model' is 1, want a string", results=change("model", 1))

    def test_faults_of_rows(self):
        def with_row(**row):
            return {**DECODE, "rows": [{"name": "a.b", "value": 1, "unit": "s", **row}]}

        for key in ("name", "value", "unit"):
            results = with_row()
            del results["rows"][0][key]
            self.expect_fault(f"row 1: has no '{key}'", results=results)
        self.expect_fault("'value' is \"1\", want a number", results=with_row(value="1"))
        self.expect_fault("'value' is true, want a number", results=with_row(value=True))
        self.expect_fault("'value' is NaN, want a number", results=with_row(value=float("nan")))
        self.expect_fault("'runs' is 1.5, want a whole number", results=with_row(runs=1.5))
        self.expect_fault("'runs' is 0, want at least 1", results=with_row(runs=0))
        self.expect_fault("'same_run' is 1, want true or false", results=with_row(same_run=1))
        self.expect_fault("want it between 'min' and 'max'", results=with_row(min=2))
        self.expect_fault("has a 'rival_value' and no 'rival'", results=with_row(rival_value=2))
        self.expect_fault("has a key 'median'", results=with_row(median=2))
        self.expect_fault("want lower-case words", results=with_row(name="Decode speed"))


if __name__ == "__main__":
    unittest.main()
