#!/usr/bin/env python3
"""What Hugging Face's tokenizers does with the texts of bench_tokenizer, written into its result as the rival.

    pip install tokenizers
    build/release/bench/bench_tokenizer FOLDER RESULT.json --commit C --texts TEXTS
    python3 bench/rival_tokenizers.py FOLDER RESULT.json TEXTS

One thread, the same pieces of 64 KB, the median of as many runs.
"""
import json
import os
import statistics
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers  # noqa: E402  after the variable that it reads

RUNS, PIECE = 5, 64 << 10


def pieces(data):
    """As bench_tokenizer cuts: where a character begins."""
    out, begin = [], 0
    while begin < len(data):
        end = min(begin + PIECE, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        out.append(data[begin:end].decode())
        begin = end
    return out


def seconds(body):
    begin = time.perf_counter()
    body()
    return time.perf_counter() - begin


def main():
    folder, result, texts = sys.argv[1:]
    path = os.path.join(folder, "tokenizer.json")
    load = statistics.median(seconds(lambda: tokenizers.Tokenizer.from_file(path)) for _ in range(RUNS))
    tokenizer = tokenizers.Tokenizer.from_file(path)

    def encode(text):
        tokenizer.encode(text, add_special_tokens=False)

    def measured(name):
        if name == "load":
            return load
        if name == "no_space_ratio":
            text = "Donaudampfschifffahrtsgesellschaft" * 60_000
            def best_of_three(size):
                return min(seconds(lambda: encode(text[:size])) for _ in range(3))
            return statistics.median(best_of_three(2_000_000) / best_of_three(1_000_000) for _ in range(RUNS))
        with open(os.path.join(texts, name + ".txt"), "rb") as file:
            data = file.read()
        parts = pieces(data)
        return len(data) / 1e6 / statistics.median(seconds(lambda: [encode(part) for part in parts]) for _ in range(RUNS))

    with open(result) as file:
        report = json.load(file)
    for row in report["rows"]:
        row["rival"] = f"tokenizers {tokenizers.__version__}"
        row["rival_value"] = float(f"{measured(row['name'].split('.')[1]):.4g}")
        row["same_run"] = True
        print(row["name"], row["value"], row["unit"], "rival", row["rival_value"])
    with open(result, "w") as file:
        file.write(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
