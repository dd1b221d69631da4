#!/usr/bin/env python3
"""Models found by name, models on several ranks, and the benchmarks, as a user meets them.

usage: program_models_test.py PROGRAM SOURCE_DIR
"""
import json
import shutil
import sys
import unittest

from program import DEMO, GOLDEN, Program, run


class DummyWeights(Program):
    def test_a_config_is_enough_for_a_benchmark(self):
        (self.folder / "config.json").write_text((GOLDEN / "qwen3-tied-bf16" / "config.json").read_text())
        bench = ("bench", "latency", str(self.folder), "--context", "9", "--output-len", "3", "--runs", "1")
        self.expect_error(run(*bench), "safetensors")
        hashes = []
        for _ in range(2):
            result = run(*bench, "--load-format", "dummy", "--json")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            hashes.append(json.loads(result.stdout)["last_logits"])
        self.assertEqual(hashes[0], hashes[1])
        self.expect_error(run(*bench, "--load-format", "gguf"), "load_format: is gguf, want one of auto, dummy")


class Names(Program):
    """Models named as on a hub are looked up in the caches of this machine."""

    def setUp(self):
        super().setUp()
        self.snapshot = self.folder / "hub" / "models--Someone--Tiny-0.1B" / "snapshots" / "0123abc"
        self.snapshot.parent.mkdir(parents=True)
        shutil.copytree(DEMO, self.snapshot)

    def test_from_the_cache(self):
        for arguments in (("generate", "Someone/Tiny-0.1B", "Once", "--max-tokens", "3", "--temperature", "0"),
                          ("chat", "Someone/Tiny-0.1B", "--prompt", "Hi", "--max-tokens", "3"),
                          ("tokenize", "Someone/Tiny-0.1B", "Once"),
                          ("bench", "latency", "Someone/Tiny-0.1B", "--context", "9", "--output-len", "2", "--runs", "1")):
            for variables in ({"HF_HOME": str(self.folder)}, {"HF_HUB_CACHE": str(self.folder / "hub")}):
                result = run(*arguments, **variables)
                self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
        named = run("bench", "latency", "Someone/Tiny-0.1B", "--context", "9", "--output-len", "1", "--runs", "1",
                    "--json", HF_HOME=str(self.folder))
        self.assertEqual(json.loads(named.stdout)["model"], "Someone/Tiny-0.1B")

    def test_not_there(self):
        self.expect_error(run("generate", "Someone/Other", "a", HF_HOME=str(self.folder)),
                          "Someone/Other: no such folder", str(self.folder / "hub" / "models--Someone--Other (not there)"))

    def test_a_folder_that_is_none(self):
        self.expect_error(run("generate", "./Someone/Other", "a", HF_HOME=str(self.folder)),
                          "./Someone/Other: no such folder, want a Hugging Face model folder")


class Ranks(Program):
    def test_the_same_story(self):
        arguments = ("Once upon a time", "The mouse", "--temperature", "0.8", "--seed", "5", "--max-tokens", "30",
                     "--format", "jsonl")
        alone = self.generate(DEMO, *arguments)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        for size in ("2", "4"):
            ranks = self.generate(DEMO, *arguments, "--tensor-parallel-size", size)
            self.assertEqual((ranks.returncode, ranks.stderr), (0, ""))
            self.assertEqual(ranks.stdout, alone.stdout)

    def test_bench_answers(self):
        arguments = ("bench", "throughput", DEMO, "--num-prompts", "3", "--min-input-len", "3", "--max-input-len", "9",
                     "--min-output-len", "2", "--max-output-len", "5", "--json")
        answers = [json.loads(run(*arguments, "--tensor-parallel-size", size).stdout)["answers"] for size in "124"]
        self.assertEqual(len(set(answers)), 1)

    def test_impossible_sizes(self):
        for size in ("0", "3", "8", "-1"):
            self.expect_error(self.generate(DEMO, "a", "--tensor-parallel-size", size),
                              f"tensor_parallel_size: is {size}, want 1, 2 or 4")
        folder = self.model()
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 161}))
        self.expect_error(self.generate(folder, "[1]", "--tensor-parallel-size", "2"),
                          "tensor_parallel_size: is 2, want 1 for this model")


class Bench(Program):
    def bench(self, *arguments):
        result = run("bench", *arguments, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_latency_beside_other_answers(self):
        arguments = ("latency", DEMO, "--context", "200", "--output-len", "3", "--runs", "2")
        self.assertNotIn("company", self.bench(*arguments))
        beside = self.bench(*arguments, "--company", "3", "--max-num-seqs", "8",
                            "--max-num-batched-tokens", "64")
        self.assertEqual(beside["company"], 3)
        self.assertEqual(len(beside["times_to_first_token_s"]), 2)
        self.assertGreater(beside["company_time_between_tokens_s"], 0)
        self.assertGreater(beside["company_longest_time_between_tokens_s"], beside["company_time_between_tokens_s"])
        self.expect_error(run("bench", *arguments, "--company", "256"), "--company: is 256, want 0 to 255")
        self.expect_error(run("bench", *arguments, "--company", "5", "--num-kvcache-blocks", "20"), "--company", "want fewer")

    def test_a_context_of_two_tokens(self):
        result = self.bench("latency", DEMO, "--context", "1", "--output-len", "1", "--max-model-len", "2")
        self.assertEqual(result["runs"], 3)

    def test_throughput_computes_the_same_whatever_the_batch(self):
        arguments = ("throughput", DEMO, "--num-prompts", "5", "--min-input-len", "3", "--max-input-len", "20",
                     "--min-output-len", "2", "--max-output-len", "9")
        together, apart = self.bench(*arguments), self.bench(*arguments, "--max-num-seqs", "1")
        other = self.bench(*arguments, "--max-num-seqs", "1", "--seed", "1")
        for result in (together, apart):
            self.assertEqual(result["num_prompts"], 5)
            self.assertEqual(result["output_tokens"], together["output_tokens"])
            self.assertAlmostEqual(result["output_tok_per_s"], result["output_tokens"] / result["seconds"], places=3)
            self.assertGreater(result["read_bandwidth_share"], 0)
        self.assertLess(together["steps"], apart["steps"])
        self.assertEqual(together["answers"], apart["answers"])
        self.assertNotEqual(other["answers"], apart["answers"])
        self.assertNotEqual(other["last_logits"], apart["last_logits"])
        # With several prompts the last step may hold other rows: one prompt, in one step and in chunks.
        one = ("throughput", DEMO, "--num-prompts", "1", "--max-output-len", "100", "--min-input-len", "40",
               "--max-input-len", "60")
        chunks = ("--max-num-batched-tokens", "7", "--max-num-seqs", "1", "--kvcache-block-size", "8")
        self.assertEqual(self.bench(*one)["last_logits"], self.bench(*one, *chunks)["last_logits"])

    def test_latency(self):
        result = self.bench("latency", DEMO, "--context", "40", "--output-len", "6", "--runs", "2")
        self.assertEqual(len(result["times_to_first_token_s"]), 2)
        self.assertAlmostEqual(result["output_tok_per_s"] * result["time_per_output_token_s"], 1)
        shown = run("bench", "latency", DEMO, "--context", "40", "--output-len", "1", "--runs", "1")
        self.assertIn("time to first token", shown.stdout)
        self.assertNotIn("per output token", shown.stdout)

    def test_wrong_numbers_are_named(self):
        for arguments, text in ((("throughput", DEMO, "--num-prompts", "0"), "--num-prompts: is 0, want 1 to"),
                                (("throughput", DEMO, "--max-input-len", "50"), "--max-input-len: is 50, want 100 to"),
                                (("throughput", DEMO, "--max-output-len", "2000"), "are up to 3024 tokens, want at most 2048"),
                                (("latency", DEMO, "--context", "3000"), "are up to 3128 tokens, want at most"),
                                (("latency", DEMO, "--runs", "-1"), "--runs: is -1, want 1 to")):
            self.expect_error(run("bench", *arguments), text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
