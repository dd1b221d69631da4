#!/usr/bin/env python3
"""Scoring texts, files and choices, as a user does.

usage: program_score_test.py PROGRAM SOURCE_DIR
"""
import json
import math
import os
import shutil
import subprocess
import sys
import unittest

from program import DEMO, GOLDEN, PROGRAM, SOURCE, Program, run

SCORED = json.loads((SOURCE / "models/demo/reference.json").read_text())["scored"]


class Score(Program):
    def score(self, *arguments, model=DEMO, stdin=""):
        result = run("score", str(model), *arguments, "--json", stdin=stdin)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout)

    def test_a_text_has_the_scores_of_transformers(self):
        for row in SCORED:
            result = self.score(row["text"])
            self.assertEqual(result["ids"], row["ids"])
            for got, want in zip(result["logprobs"], row["logprobs"][1:], strict=True):
                self.assertAlmostEqual(got, want, delta=1.3e-3)
            self.assertAlmostEqual(result["perplexity"], math.exp(-sum(result["logprobs"]) / len(result["logprobs"])))
        shown = run("score", DEMO, "Once upon a time").stdout.split("\n")
        self.assertEqual(shown[0].split(), ["806", '"Once"'])
        self.assertIn("4 tokens, log-probability -0.0345", shown[4])

    def test_a_file_in_windows(self):
        file = self.folder / "text.txt"
        file.write_text(" ".join(row["text"] for row in SCORED))
        whole = self.score("--input", str(file))
        self.assertEqual(whole["num_scored"], whole["num_tokens"] - 1)
        self.assertEqual((whole["window"], whole["stride"]), (2048, 1024))
        self.assertEqual(self.score("--input", "-", stdin=file.read_text())["perplexity"], whole["perplexity"])
        windows = self.score("--input", str(file), "--window", "20", "--stride", "5")
        self.assertEqual(windows["num_scored"], whole["num_scored"])
        short = self.score("--input", str(file), "--window", "20", "--stride", "19")
        self.assertEqual(len({result["perplexity"] for result in (whole, windows, short)}), 3)  # other contexts
        self.assertIn("(windows of 20 tokens, 5 apart)",
                      run("score", DEMO, "--input", str(file), "--window", "20", "--stride", "5").stdout)

    def test_windows_have_the_context_that_they_promise(self):
        model, ids = GOLDEN / "qwen3-tied-bf16", [(i * i + 7) % 320 for i in range(21)]
        file = self.folder / "ids.txt"
        file.write_text(" ".join(map(str, ids)))
        result = self.score("--input", str(file), "--window", "8", "--stride", "3", model=model)
        want, first = [], 1
        for begin in range(0, 21, 3):
            end = min(21, begin + 8)
            if end <= first:
                continue
            alone = self.score(" ".join(map(str, ids[begin:end])), model=model)["logprobs"]
            want += alone[first - begin - 1:]
            first = end
        self.assertEqual(len(want), 20)
        self.assertAlmostEqual(result["perplexity"], math.exp(-sum(want) / 20))

    def test_a_small_cache_limits_the_window(self):
        small = ("--cpu-kvcache-space", "0.0005")
        long = self.folder / "long.txt"
        long.write_text("a cat and a dog " * 60)
        window = self.score("--input", str(long), *small)["window"]
        self.assertLess(window, 100)
        self.expect_error(run("score", DEMO, "--input", str(long), "--window", "200", *small), f"want 2 to {window}")
        file = self.folder / "questions.jsonl"
        file.write_text('{"prompt": "a", "choices": [" b", " c"]}\n\n' +
                        json.dumps({"prompt": "a cat " * 200, "choices": [" b", " c"]}) + "\n")
        self.expect_error(run("score", DEMO, "--choices", str(file), *small), "questions.jsonl:3: the choice ' b': has 402 tokens, want 1 to " + str(window))

    def test_nothing_is_lost_in_silence(self):
        if os.path.exists("/dev/full"):
            for arguments in (("score", DEMO, "a b"), ("inspect", DEMO, "--json"), ("inspect", "--schedule"), ("doctor",)):
                with open("/dev/full", "w") as full:
                    result = subprocess.run([PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual(result.returncode, 1, arguments)
                self.assertIn("standard output: cannot write", result.stderr)

    def test_against_itself_and_another(self):
        same = self.score("Once upon a time", "--against", DEMO, "--against-tensor-parallel-size", "2")
        self.assertEqual(same["against"], {"mean_kl": 0.0, "max_kl": 0.0, "same_likeliest": 1.0})
        tied, untied = str(GOLDEN / "qwen3-tied-bf16"), str(GOLDEN / "qwen3-untied-f32")
        other = self.score("5 6 7 8", "--against", untied, model=tied)
        self.assertGreater(other["against"]["mean_kl"], 0.1)
        self.expect_error(run("score", DEMO, "a b", "--against", tied), tied + ": has a vocabulary of 320, want the other's of 6144")

    def test_choices(self):
        file = self.folder / "questions.jsonl"
        questions = [{"prompt": "The cat sat on the", "choices": [" quantum.", " mat."], "answer": 1},
                     {"prompt": "Once upon a", "choices": [" time", " xylophone"], "answer": 1},
                     {"prompt": "Once upon a", "choices": [" time", " xylophone"]}]
        file.write_text("\n\n".join(map(json.dumps, questions)) + "\n")
        result = self.score("--choices", str(file))
        self.assertEqual([row["chosen"] for row in result["questions"]], [1, 0, 0])
        self.assertEqual((result["num_questions"], result["num_with_answer"], result["accuracy"]), (3, 2, 0.5))
        whole, prompt = self.score("Once upon a time"), self.score("Once upon a")
        self.assertAlmostEqual(result["questions"][1]["logprobs"][0], whole["logprob"] - prompt["logprob"], places=4)
        shown = run("score", DEMO, "--choices", str(file)).stdout
        self.assertIn('1: 1 " mat."  right\n2: 0 " time"  wrong\n3: 0 " time"\n3 questions, accuracy 50.00 %', shown)

    def test_choices_are_scored_behind_what_they_share(self):
        file = self.folder / "questions.jsonl"
        file.write_text(json.dumps({"prompt": "The c", "choices": ["ow", "ay"]}))  # " cow" is one token, " cay" is not
        result = self.score("--choices", str(file))["questions"][0]
        self.assertEqual(result["chosen"], 0)
        for choice, logprob in zip(("The cow", "The cay"), result["logprobs"]):
            self.assertAlmostEqual(self.score(choice)["logprob"], logprob, places=4)

    def test_choices_of_token_ids(self):
        file, model = self.folder / "questions.jsonl", GOLDEN / "qwen3-tied-bf16"
        file.write_text(json.dumps({"prompt": "5 6", "choices": ["7", "8 9"]}))
        result = self.score("--choices", str(file), model=model)["questions"][0]
        for ids, logprob in zip(("5 6 7", "5 6 8 9"), result["logprobs"]):
            self.assertAlmostEqual(sum(self.score(ids, model=model)["logprobs"][1:]), logprob, places=4)
        file.write_text("\n" + json.dumps({"prompt": "5 6", "choices": ["7", "400"]}))
        self.expect_error(run("score", str(model), "--choices", str(file)),
                          "questions.jsonl:2: the choice '400': has token id 400, want ids from 0 to 319")

    def test_numbers_that_are_none_are_an_error(self):
        folder = self.model_with_nan()
        self.expect_error(run("score", str(folder), "5 6 7"), "model: gives NaN for token 1 of the text")

    def test_against_another_tokenizer(self):
        folder = self.folder / "other"
        shutil.copytree(DEMO, folder)
        file = folder / "tokenizer.json"
        tokenizer = json.loads(file.read_text())
        vocab = tokenizer["model"]["vocab"]
        vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
        file.chmod(0o644)
        file.write_text(json.dumps(tokenizer))
        self.expect_error(run("score", DEMO, "a b", "--against", str(folder)), "has another tokenizer")

    def test_errors(self):
        file = self.folder / "bad.jsonl"
        for line, text in (("{", "is not JSON"), ("{}", "has no prompt"), ('{"prompt": "a"}', "has no list of two choices"),
                           ('{"prompt": "a", "choices": ["b", 3]}', "has a choice that is no string"),
                           ('{"prompt": "a", "choices": ["b", "c"], "answer": 2}', "has an answer that is no index"),
                           ('{"prompt": "a", "choices": ["b", "c"], "anser": 1}', "has anser, want"),
                           ('{"prompt": "a cat", "choices": [" sat", ""]}', "adds no token to its prompt")):
            file.write_text('\n' + line)
            self.expect_error(run("score", DEMO, "--choices", str(file)), text)
        file.write_text("\n")
        self.expect_error(run("score", DEMO, "--choices", str(file)), "is empty")
        self.expect_error(run("score", DEMO, "a"), "has fewer than 2 tokens")
        self.expect_error(run("score", DEMO, "--input", "/dev/null"), "has fewer than 2 tokens")
        self.expect_error(run("score", DEMO, "a b", "--max-model-len", "1"), "context: is 1 token, want at least 2")
        file.write_text('{"prompt": "", "choices": ["Once", "Twice"]}')
        self.expect_error(run("score", DEMO, "--choices", str(file)), "bad.jsonl:1: the prompt has no token that the choice")
        self.expect_error(run("score", DEMO, "a b c", "--window", "1"), "--window: is 1, want 2 to 2048")
        self.expect_error(run("score", DEMO, "a b c", "--window", "-5"), "--window: is -5, want 2 to 2048")
        self.expect_error(run("score", DEMO, "a b c", "--stride", "-1"), "--stride: is -1, want 1 to 2047")
        self.expect_error(run("score", DEMO, "a b c", "--window", "1025", "--against", DEMO),
                          "--window: is 1025, want 2 to 1024: with --against a window's logits are kept")
        self.expect_error(run("score", DEMO, "a b c", "--window", "2049"), "--window: is 2049")
        self.expect_error(run("score", DEMO, "a b c", "--window", "4", "--stride", "4"), "--stride: is 4, want 1 to 3")
        self.expect_error(run("score", DEMO, "--input", str(self.folder / "none")), "none")
        self.assertEqual(run("score", DEMO).returncode, 2)
        self.assertEqual(run("score", DEMO, "a", "--input", "b").returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
