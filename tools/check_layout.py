#!/usr/bin/env python3
"""Checks what a compiler does not: the line of folders (docs/design.md) and the habits of docs/style.md it can see.

usage: check_layout.py [ROOT]     prints "file:line: what is, what was wanted" for each fault; exit 1 if there is one

  includes   a folder of src/ includes itself and folders before it; tokenizer and engine include base only;
             a quoted include names a file that exists, and files of src/ are included with quotes
  files      at most 500 lines in src/, tests/, bench/, tools/; #pragma once in headers; headers of src/, and sources of
             src/ that have no header, begin with a comment that says what they are for
  text       no paths of one machine, no getenv in src/ outside src/cli, no notes of unfinished work
  format     as clang-format 14 writes it (skipped, with a note, where that is not installed)

Generated files (the word "Generated" in the first five lines) may be long and are not formatted.
"""
import re
import shutil
import subprocess
import sys
from pathlib import Path

LINE_OF_FOLDERS = [["base"], ["tensor"], ["ops"], ["checkpoint"], ["tokenizer"], ["parallel"], ["layers"], ["models"],
                   ["engine"], ["runtime"], ["llm"], ["server"], ["cli", "python"]]
RANK = {folder: rank for rank, folders in enumerate(LINE_OF_FOLDERS) for folder in folders}
BASE_ONLY = {"tokenizer", "engine"}
MAX_LINES = 500

CPP = {".h", ".cpp", ".cu", ".cuh"}
TEXT = CPP | {".py", ".sh", ".cmake", ".txt", ".md", ".json", ".toml", ".yml", ".yaml", ""}
CODE_FOLDERS = {"src", "tests", "bench", "tools"}
DATA_FOLDERS = {"models", "tests/golden", "tests/fuzz/seeds", "bench/results"}

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
# A letter before the slash makes it a relative path, which is no business of ours.
MACHINE_PATH = re.compile(r"(?<![\w.)}\]*-])/(?:home|root|work|mnt|media|scratch|Users)/\w")
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")
GETENV = re.compile(r"\b(?:secure_)?getenv\s*\(")


class Report:
    def __init__(self):
        self.faults = []

    def add(self, file, line, message):
        self.faults.append((str(file), line, message))


def find_files(root):
    """Text files of the project, as paths relative to root, in order. Builds, data and hidden folders are left out."""
    found = []
    for path in sorted(root.rglob("*")):
        file = path.relative_to(root)
        parents = {str(parent) for parent in file.parents}
        skipped = any(part.startswith((".", "build")) or part == "__pycache__" for part in file.parts[:-1])
        if skipped or parents & DATA_FOLDERS:
            continue
        if path.is_file() and file.suffix in TEXT and not file.name.startswith("."):
            found.append(file)
    return found


def folder_of(file):
    """The folder of src/ that a file belongs to, or None."""
    return file.parts[1] if len(file.parts) > 2 and file.parts[0] == "src" else None


def resolve_include(root, file, name):
    """The included project file relative to root, or None: as the build looks, from the file, src/ and its own tree."""
    for start in (file.parent, Path("src"), Path(file.parts[0])):
        path = (root / start / name).resolve()
        if path.is_file() and path.is_relative_to(root):
            return path.relative_to(root)
    return None


def check_include(root, file, number, quote, name, report):
    if quote == "<":
        if (root / "src" / name).is_file():
            report.add(file, number, f'<{name}> is a file of src/, want #include "{name}"')
        return
    target = resolve_include(root, file, name)
    if target is None:
        report.add(file, number, f'"{name}" does not exist, want a file under src/ or beside this one (or <{name}>)')
        return
    here, there = folder_of(file), folder_of(target)
    if here not in RANK:
        return
    if there not in RANK:
        report.add(file, number, f"src/{here} includes {target}, want only files of src/")
    elif here != there and here in BASE_ONLY and there != "base":
        report.add(file, number, f"{here} includes {there}, want only {here} and base")
    elif here != there and RANK[there] >= RANK[here]:
        before = ", ".join(folder for folder in RANK if RANK[folder] < RANK[here]) or "none"
        report.add(file, number, f"{here} includes {there}, want only {here} and the folders before it ({before})")


def check_file(root, file, report):
    try:
        text = (root / file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        report.add(file, 1, f"byte {error.start} is not UTF-8, want text")
        return
    lines = text.splitlines()
    is_code = file.suffix in CPP | {".py", ".sh", ".cmake"} or file.name == "CMakeLists.txt"
    if is_code and file.parts[0] in CODE_FOLDERS and len(lines) > MAX_LINES and not is_generated(lines):
        report.add(file, len(lines), f"{len(lines)} lines, want at most {MAX_LINES}")
    if len(file.parts) > 2 and file.parts[0] == "src" and folder_of(file) not in RANK:
        report.add(file, 1, f"src/{folder_of(file)} is not in the line of folders, want one of {', '.join(RANK)}")

    is_header = file.suffix in {".h", ".cuh"}
    if is_header and "#pragma once" not in lines:
        report.add(file, 1, "no #pragma once, want it after the opening comment")
    if file.parts[0] == "src" and file.suffix in CPP and not (lines and lines[0].startswith("//")):
        has_header = any((root / file).with_suffix(suffix).is_file() for suffix in (".h", ".cuh"))
        if is_header or not has_header:
            report.add(file, 1, "does not begin with a comment, want one that says what the file is for")

    for number, line in enumerate(lines, 1):
        if file.suffix in CPP and (include := INCLUDE.match(line)):
            check_include(root, file, number, include[1], include[2], report)
        if found := MACHINE_PATH.search(line):
            report.add(file, number, f"a path of one machine ({found[0]}...), want one relative to the project")
        if found := UNFINISHED.search(line):
            report.add(file, number, f"{found[0]}, want the work done or an issue instead")
        if file.suffix in CPP and GETENV.search(line) and file.parts[0] == "src" and folder_of(file) != "cli":
            report.add(file, number, "getenv, want an option that src/cli reads and passes down")


def is_generated(lines):
    return any("Generated" in line for line in lines[:5])


def check_format(root, files, report):
    """Returns a note if the check could not be made."""
    files = [file for file in files if file.suffix in CPP
             and not is_generated((root / file).read_text(errors="replace").splitlines())]
    if not files or not (root / ".clang-format").is_file():
        return None
    program = shutil.which("clang-format-14") or shutil.which("clang-format")
    if program is None:
        return "clang-format is not installed: format not checked"
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    if "version 14." not in version:
        return f"{version.strip()} formats differently from 14: format not checked"
    run = subprocess.run([program, "--dry-run", "-Werror", *map(str, files)], cwd=root, capture_output=True, text=True)
    seen = set()
    for found in re.finditer(r"^(.+?):(\d+):\d+: error: code should be clang-formatted", run.stderr, re.MULTILINE):
        if found[1] not in seen:
            seen.add(found[1])
            report.add(found[1], int(found[2]), f"format, want what clang-format writes (clang-format -i {found[1]})")
    if run.returncode != 0 and not seen:
        report.add(".clang-format", 1, f"clang-format failed, want it to run: {run.stderr.partition(chr(10))[0]}")
    return None


def main(arguments):
    if len(arguments) > 1 or arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0 if len(arguments) == 1 else 2
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    report = Report()
    files = find_files(root)
    for file in files:
        check_file(root, file, report)
    note = check_format(root, files, report)
    for file, line, message in sorted(report.faults):
        print(f"{file}:{line}: {message}")
    if note:
        print(f"note: {note}")
    print(f"check_layout: {len(files)} files, {len(report.faults)} faults")
    return 1 if report.faults or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
