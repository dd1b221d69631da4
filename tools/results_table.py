#!/usr/bin/env python3
"""Draws the tables of README.md and docs/*.md from bench/results/<machine>/<what>.json (format: docs/results.md).

usage: results_table.py [--check] [ROOT]
  (nothing)  draws every table anew
  --check    changes nothing; prints "file:line: what is, what was wanted" where a table differs from the files, or a
             file from the format; exit 1 if anything does

A table stands between two markers, and the first says what is in it:

  <!-- results: cpu-2core/decode rows=cpu.decode.*,cpu.read_bandwidth columns=name,value,rival,ratio -->
  <!-- /results -->

The first word names files under bench/results/ without ".json"; it, and the comma-separated rows, may hold * and ?.
Without rows= all rows are shown, without columns= those of DEFAULT_COLUMNS that have something to show. Rows stand in the
order of the patterns, then of the files. If no file matches, the table says that nothing was measured; if files match and
a row pattern does not, that is an error. Markers inside ``` fences are text.
"""
import datetime
import fnmatch
import json
import math
import re
import sys
from pathlib import Path

TEXT = (str, "a string")
NUMBER = ((int, float), "a number")
# Key: (type, required).
FILE_KEYS = {"what": (TEXT, True), "machine": (TEXT, True), "date": (TEXT, True), "commit": (TEXT, True),
             "command": (TEXT, True), "model": (TEXT, True), "rows": ((list, "a list"), True)}
ROW_KEYS = {"name": (TEXT, True), "value": (NUMBER, True), "unit": (TEXT, True), "min": (NUMBER, False),
            "max": (NUMBER, False), "runs": ((int, "a whole number"), False), "rival": (TEXT, False),
            "rival_value": (NUMBER, False), "same_run": ((bool, "true or false"), False), "floor": (NUMBER, False),
            "note": (TEXT, False)}

# Units that say which way is better; for others a rival's value is shown without a ratio.
HIGHER_IS_BETTER = {"tok/s", "MB/s", "GB/s", "TB/s", "GFLOP/s", "TFLOP/s"}
LOWER_IS_BETTER = {"s", "ms", "us", "ns", "ms a token", "bytes", "KB", "MB", "GB"}

HEADINGS = {"name": "what", "value": "measured", "range": "range", "unit": "unit", "rival": "rival",
            "rival_value": "rival's", "ratio": "times better", "floor": "limit", "note": "note", "model": "model"}
TO_THE_RIGHT = {"value", "range", "rival_value", "ratio", "floor"}
DEFAULT_COLUMNS = ["name", "value", "unit", "rival", "rival_value", "ratio"]

BEGIN = re.compile(r"^\s*<!-- results:(.*?)-->\s*$")
END = re.compile(r"^\s*<!-- /results -->\s*$")


def type_faults(where, item, keys):
    """What is wrong with the keys of one JSON object."""
    if not isinstance(item, dict):
        return [f"{where}is no object, want one with {', '.join(key for key in keys if keys[key][1])}"]
    faults = [f"{where}has a key {key!r}, want one of {', '.join(keys)}" for key in item if key not in keys]
    for key, ((kind, words), required) in keys.items():
        if key not in item:
            faults += [f"{where}has no {key!r}, want {words}"] if required else []
            continue
        value = item[key]
        is_kind = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if not is_kind or (isinstance(value, float) and not math.isfinite(value)):
            faults.append(f"{where}{key!r} is {json.dumps(value)[:60]}, want {words}")
        elif value in ("", []) and required and key not in ("model", "unit"):
            faults.append(f"{where}{key!r} is empty, want {words}")
    return faults


def format_faults(data, what):
    """What is wrong with one results file, as a list of sentences."""
    faults = type_faults("", data, FILE_KEYS)
    if faults:
        return faults
    if data["what"] != what:
        faults.append(f"'what' is {data['what']!r}, want the file's name, {what!r}")
    try:
        datetime.datetime.strptime(data["date"], "%Y-%m-%d")
    except ValueError:
        faults.append(f"'date' is {data['date']!r}, want YYYY-MM-DD")
    if not re.fullmatch(r"[0-9a-f]{7,40}", data["commit"]):
        faults.append(f"'commit' is {data['commit']!r}, want 7 to 40 hexadecimal digits")
    for index, row in enumerate(data["rows"]):
        where = f"row {index + 1}: "
        row_faults = type_faults(where, row, ROW_KEYS)
        faults += row_faults
        if row_faults:
            continue
        where = f"row {index + 1} ({row['name']}): "
        if not re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_]+)*", row["name"]):
            faults.append(f"{where}'name' is {row['name']!r}, want lower-case words with dots between them")
        if not row.get("min", row["value"]) <= row["value"] <= row.get("max", row["value"]):
            faults.append(f"{where}'value' is {row['value']}, want it between 'min' and 'max'")
        if row.get("runs", 1) < 1:
            faults.append(f"{where}'runs' is {row['runs']}, want at least 1")
        if "rival_value" in row and not row.get("rival"):
            faults.append(f"{where}has a 'rival_value' and no 'rival', want its name and version")
    return faults


def load_results(root):
    """{"machine/what": data} of the files that keep to the format, and the faults of the others."""
    results, faults = {}, []
    for path in sorted((root / "bench" / "results").glob("**/*.json")):
        file = path.relative_to(root)
        if len(file.parts) != 4:
            faults.append(f"{file}:1: stands in another depth, want bench/results/<machine>/<what>.json")
            continue
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, OSError) as error:
            faults.append(f"{file}:{getattr(error, 'lineno', 1)}: {error}, want JSON")
            continue
        file_faults = format_faults(data, path.stem)
        faults += [f"{file}:1: {fault}" for fault in file_faults]
        if not file_faults:
            results[f"{file.parts[2]}/{path.stem}"] = data
    return results, faults


def ratio(row):
    """How many times better the value is than the rival's, or None where that cannot be said."""
    value, rival = row["value"], row.get("rival_value")
    if rival is None or value <= 0 or rival <= 0:
        return None
    if row["unit"] in HIGHER_IS_BETTER:
        return value / rival
    return rival / value if row["unit"] in LOWER_IS_BETTER else None


def number(value):
    """Three digits or more: 26,500 · 131 · 22.4 · 3.05 · 0.0123."""
    if value is None:
        return ""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def cell(column, row, data):
    if column == "range":
        text = f"{number(row['min'])} – {number(row['max'])}" if "min" in row and "max" in row else ""
    elif column == "ratio":
        times = ratio(row)
        text = "" if times is None else f"{times:.2f}"
    elif column == "model":
        text = data["model"]
    elif column in ("value", "rival_value", "floor"):
        text = number(row.get(column))
    else:
        text = row.get(column, "")
    return text.replace("|", "\\|").replace("\n", " ")


class MarkerError(Exception):
    pass


def parse_marker(text):
    """(file pattern, row patterns, columns) of the words in a marker."""
    words = text.split()
    if not words or "=" in words[0]:
        raise MarkerError("no file is named, want <!-- results: machine/what ... -->")
    rows, columns = ["*"], DEFAULT_COLUMNS
    for word in words[1:]:
        key, _, value = word.partition("=")
        if key == "rows" and value:
            rows = value.split(",")
        elif key == "columns" and value:
            columns = value.split(",")
        else:
            raise MarkerError(f"{word!r} is not known, want rows=... or columns=...")
    for column in columns:
        if column not in HEADINGS:
            raise MarkerError(f"column {column!r} is not known, want one of {', '.join(HEADINGS)}")
    return words[0], rows, columns


def draw_table(marker, results):
    """The lines of the table that a marker asks for, with the caption of each file under it."""
    pattern, row_patterns, columns = parse_marker(marker)
    files = [name for name in results if fnmatch.fnmatchcase(name, pattern)]
    if not files:
        return ["", "*Not measured yet.*", ""]
    chosen = []
    for row_pattern in row_patterns:
        matches = [(name, row) for name in files for row in results[name]["rows"]
                   if fnmatch.fnmatchcase(row["name"], row_pattern)]
        if not matches:
            raise MarkerError(f"no row is called {row_pattern!r} in {', '.join(files)}")
        chosen += [match for match in matches if match not in chosen]
    # A column of default ones that no chosen row fills is left out.
    if columns is DEFAULT_COLUMNS:
        columns = [column for column in columns if any(cell(column, row, results[name]) for name, row in chosen)]
    lines = ["", "| " + " | ".join(HEADINGS[column] for column in columns) + " |",
             "|" + "|".join("--:" if column in TO_THE_RIGHT else "---" for column in columns) + "|"]
    for name, row in chosen:
        lines.append("| " + " | ".join(cell(column, row, results[name]) for column in columns) + " |")
    lines.append("")
    for name in dict.fromkeys(name for name, _ in chosen):
        data = results[name]
        model = f", {data['model']}" if data["model"] else ""
        lines.append(f"{data['machine']}{model}; {data['date']}, commit {data['commit'][:9]}, `{data['command']}`  ")
    lines[-1] = lines[-1].rstrip()
    return [*lines, ""]


def redraw(text, results):
    """The text with every table drawn anew, and [(line number of the marker, fault)]."""
    lines, out, faults = text.split("\n"), [], []
    in_fence, index = False, 0
    while index < len(lines):
        line = lines[index]
        out.append(line)
        index += 1
        if line.lstrip().startswith("```"):
            in_fence = not in_fence
        if in_fence:
            continue
        if END.match(line):
            faults.append((index, "<!-- /results --> without a beginning, want <!-- results: ... --> before it"))
        begin = BEGIN.match(line)
        if not begin:
            continue
        end = next((i for i in range(index, len(lines)) if END.match(lines[i]) or BEGIN.match(lines[i])), len(lines))
        if end == len(lines) or BEGIN.match(lines[end]):
            faults.append((index, "a table without an end, want <!-- /results --> after it"))
            continue
        try:
            table = draw_table(begin[1], results)
            if table != lines[index:end]:
                faults.append((index, None))
            out += table
        except MarkerError as error:
            faults.append((index, str(error)))
            out += lines[index:end]
        out.append(lines[end])
        index = end + 1
    return "\n".join(out), faults


def main(arguments):
    check = "--check" in arguments
    rest = [argument for argument in arguments if argument != "--check"]
    if len(rest) > 1 or any(argument.startswith("-") for argument in rest):
        print(__doc__)
        return 0 if rest[0] in ("-h", "--help") else 2
    root = Path(rest[0] if rest else Path(__file__).parent.parent).resolve()
    results, faults = load_results(root)
    num_tables = 0
    for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        if not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        new_text, table_faults = redraw(text, results)
        for line, fault in table_faults:
            if fault is not None:
                faults.append(f"{path.relative_to(root)}:{line}: {fault}")
            elif check:
                faults.append(f"{path.relative_to(root)}:{line}: the table differs from bench/results, "
                              "want what tools/results_table.py draws")
        num_tables += sum(fault is None for _, fault in table_faults)
        if new_text != text and not check:
            path.write_text(new_text, encoding="utf-8")
    for fault in faults:
        print(fault)
    done = "to draw anew" if check else "drawn anew"
    print(f"results_table: {len(results)} files, {num_tables} tables {done}, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
