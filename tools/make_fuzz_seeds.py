#!/usr/bin/env python3
"""Write what the fuzz targets start from, one input a file: small tokenizers, and templates with their variables.

    tools/make_fuzz_seeds.py OUT

OUT/tokenizer: each case of tests/golden/tokenizer/small.json, with a text behind a zero byte.
OUT/chat_template: each snippet of tests/golden/templates/snippets.jsonl and the demo model's template, with variables.
"""
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def tokenizers():
    reference = json.loads((ROOT / "tests/golden/tokenizer/small.json").read_text())
    for case in reference["cases"]:
        whole = {**reference["base"], **case["changes"]}
        whole["model"] = {**whole["model"], **case["model_changes"]}
        text = max((row[0] for row in case["rows"]), key=len, default="")
        yield json.dumps(whole, ensure_ascii=False) + "\0" + text


def templates():
    for line in (ROOT / "tests/golden/templates/snippets.jsonl").open(encoding="utf-8"):
        snippet = json.loads(line)
        yield snippet["source"] + "\0" + json.dumps(snippet["context"])
    yield json.loads((ROOT / "models/demo/tokenizer_config.json").read_text())["chat_template"]


def main():
    for name, inputs in (("tokenizer", tokenizers()), ("chat_template", templates())):
        folder = Path(sys.argv[1]) / name
        folder.mkdir(parents=True, exist_ok=True)
        for i, text in enumerate(inputs):
            (folder / f"{i:04}").write_bytes(text.encode("utf-8", "surrogatepass"))


if __name__ == "__main__":
    main()
