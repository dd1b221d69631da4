#!/usr/bin/env python3
"""Looking inside a model, as a user does: its modules, its memory, one forward step by step.

usage: program_inspect_test.py PROGRAM SOURCE_DIR
"""
import json
import math
import re
import struct
import sys
import unittest
import xml.etree.ElementTree

from program import DEMO, GOLDEN, Program, run

MODELS = sorted(folder for folder in GOLDEN.iterdir() if (folder / "reference.safetensors").exists())


def read_safetensors(path):
    """{name: (shape, values)} of a file of float32 and int32 tensors."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        kind = {"F32": "f", "I32": "i"}[entry["dtype"]]
        tensors[name] = (entry["shape"], struct.unpack(f"<{(end - begin) // 4}{kind}", data[begin:end]))
    return tensors


def leaves(module, path=""):
    """(path, module) of every module that has parameters."""
    path = f"{path}.{module['name']}".strip(".")
    found = [(path, module)] if "parameters" in module else []
    for child in module.get("children", []):
        found += leaves(child, path)
    return found


class Inspect(Program):
    def inspect(self, model, *arguments):
        result = run("inspect", str(model), *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_the_tree(self):
        tree = self.inspect(DEMO, "--num-kvcache-blocks", "10").split("\n")
        self.assertEqual(tree[0].split(), ["Qwen3ForCausalLM", "9.4", "M", "parameters,", "18.9", "MB"])
        for line in ("model: Qwen3Model",
                     "embed_tokens: VocabParallelEmbedding          [6144, 256] bf16",
                     "layers 0-7: 8 x Qwen3DecoderLayer             983,680 parameters each",
                     "self_attn: Qwen3Attention",
                     "qkv_proj: QKVParallelLinear               [1024, 256] bf16   q_proj, k_proj, v_proj",
                     "gate_up_proj: MergedColumnParallelLinear  [1536, 256] bf16   gate_proj, up_proj",
                     "lm_head: ParallelLMHead                         tied to model.embed_tokens",
                     "KV cache      2.6 MB: 10 blocks of 16 tokens, 16.4 kB a token"):
            self.assertIn(line, [each.strip() for each in tree])

    def test_every_tensor_of_the_file_is_in_the_tree(self):
        for folder in MODELS:
            names = set()
            for file in folder.glob("model*.safetensors"):
                data = file.read_bytes()
                names |= set(json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])) - {"__metadata__"}
            for size in (1, 2, 4):
                shown = json.loads(self.inspect(folder, "--json", "--tensor-parallel-size", str(size)))
                self.assertEqual(len(shown["ranks"]), size)
                found = {}
                for path, module in leaves(shown["ranks"][0]["modules"]):
                    for parameter in module["parameters"]:
                        for tensor in parameter["tensors"]:
                            self.assertNotIn(tensor, found)
                            found[tensor] = path
                self.assertEqual(set(found), names, folder)
                for tensor, path in found.items():
                    self.assertEqual(tensor.split(".")[:-2], path.split(".")[:-1], path)
                for rank in shown["ranks"]:
                    self.assertEqual(rank["parameters"], sum(math.prod(parameter["shape"])
                                                             for _, module in leaves(rank["modules"])
                                                             for parameter in module["parameters"]))

    def test_ranks(self):
        text = self.inspect(DEMO, "--tensor-parallel-size", "4", "--num-kvcache-blocks", "2")
        self.assertIn("qkv_proj: QKVParallelLinear               [256, 256] bf16", text)
        self.assertEqual(len(re.findall(r"^  [0-3]   2.4 M parameters, 4.7 MB, 1 kv heads$", text, re.M)), 4)

    def test_errors(self):
        self.expect_error(run("inspect", "nowhere"), "nowhere: no such folder")
        self.expect_error(run("inspect", DEMO, "--trace", "a", "--layer", "8"), "--layer: is 8, want 0 to 7")
        self.expect_error(run("inspect", DEMO, "--trace", ""), "prompt: has 0 tokens, want 1 to 2048")
        self.expect_error(run("inspect", str(MODELS[0]), "--trace", "1 2 x"), "'x' is not a token id")
        self.expect_error(run("inspect", str(MODELS[0]), "--trace", "320"), "prompt: has token id 320")
        self.expect_error(run("inspect", DEMO, "--trace", "a", "--save", str(self.folder / "no" / "file")), "cannot write")


class Schedule(Program):
    def schedule(self, *arguments):
        result = run("inspect", "--schedule", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_every_state_is_seen_and_every_sequence_ends(self):
        text = self.schedule()
        for state in ("prefill", "decode", "waiting", "preempted", "came from the cache"):
            self.assertIn(state, text)
        self.assertEqual(sorted(re.findall(r"^  (\w) is done$", text, re.M)), list("ABCDEFG"))
        steps = re.findall(r"^step (\d+): (\d+) tokens?   blocks (\S+)$", text, re.M)
        self.assertEqual([int(step[0]) for step in steps], list(range(len(steps))))
        self.assertTrue(all(int(tokens) <= 12 and len(blocks) == 10 for _, tokens, blocks in steps))
        self.assertTrue(any("2" in blocks and "~" in blocks for _, _, blocks in steps))
        for step in text.split("\nstep ")[1:]:  # what the lines say of blocks is what the map says
            blocks = step.split("\n")[0].split()[-1]
            owners = re.findall(r"^  (\w) .*; blocks ([\d ]+)$", step, re.M)
            users = [[name for name, own in owners if str(block) in own.split()] for block in range(10)]
            self.assertEqual(blocks.replace("~", "."),
                             "".join(str(len(u)) if len(u) > 1 else u[0] if u else "." for u in users))

    def test_without_the_cache_nothing_stays(self):
        self.assertNotIn("~", self.schedule("--no-prefix-caching").split("\nstep ", 1)[1])

    def test_the_picture_is_well_formed(self):
        file = self.folder / "schedule.svg"
        steps = self.schedule("--svg", str(file)).count("\nstep ")
        root = xml.etree.ElementTree.parse(file).getroot()
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        cells = [rect for rect in root.iter("{http://www.w3.org/2000/svg}rect") if rect.get("width") == "16"]
        self.assertGreater(len(cells), 10 * steps)  # one a block and step, and those of the sequences
        for rect in cells:
            self.assertLess(int(rect.get("x")) + 16, int(root.get("width")))
            self.assertLess(int(rect.get("y")) + 16, int(root.get("height")))

    def test_what_came_from_the_cache_is_said_once(self):
        text = self.schedule()
        self.assertIn("B prefill    computes 5 behind 8, 8 came from the cache", text)
        for name in "ABCDEFG":
            said = re.findall(rf"^  {name} \w+ +computes \d+ behind (\d+), (\d+) came from the cache", text, re.M)
            self.assertLessEqual(len(said), 2)  # when admitted, and when it comes back
            self.assertTrue(all(behind == cached for behind, cached in said))
        again = self.schedule("--kvcache-block-size", "1", "--num-kvcache-blocks", "31", "--max-num-seqs", "2")
        for behind, in re.findall(r"decode +computes (\d+) behind", again):
            self.assertEqual(behind, "1")  # who comes back and computes several is no decode

    def test_limits(self):
        self.assertEqual(run("inspect").returncode, 2)
        self.assertIn("max_num_seqs 20, max_num_batched_tokens 20", self.schedule("--max-num-seqs", "20"))
        self.assertIn("max_num_seqs 4, max_num_batched_tokens 8", self.schedule("--max-num-batched-tokens", "8"))
        self.expect_error(run("inspect", "--schedule", "--num-kvcache-blocks", "501"), "want at most 500 to look at")
        self.assertEqual(run("inspect", "--schedule", "--json").returncode, 2)
        self.expect_error(run("inspect", "--schedule", "--num-kvcache-blocks", "2"),
                          "schedule: a request of the workload that is shown does not fit the limits: prompt: ")
        self.assertIn("max_num_seqs 256, max_num_batched_tokens 256", self.schedule("--max-num-seqs", "256"))
        for other in (["--instruction-set", "avx2"], ["--num-threads", "2"]):
            self.assertEqual(run("inspect", "--schedule", *other).returncode, 2)
        self.assertEqual(run("inspect", DEMO, "--schedule").returncode, 2)
        text = self.schedule("--max-num-seqs", "1", "--kvcache-block-size", "8", "--num-kvcache-blocks", "6")
        self.assertIn("max_num_seqs 1, max_num_batched_tokens 12, 6 blocks of 8 tokens, prefix caching on\n", text)


class Doctor(Program):
    def test_what_is_chosen_runs_here(self):
        found = json.loads(run("doctor", "--json").stdout)
        self.assertEqual(found["chosen"]["instruction_set"], found["instruction_sets"][0])
        self.assertIn("portable", found["instruction_sets"])
        self.assertEqual("avx2" in found["instruction_sets"], {"avx2", "fma"} <= set(found["features"]))
        self.assertTrue(1 <= found["chosen"]["num_threads"] <= found["affinity"] <= found["processors"])
        if found["memory_available_bytes"] > 3 << 30:
            self.assertGreater(found["read_bandwidth_gb_per_s"], 0.1)
        shown = run("doctor").stdout
        for name in ("processor", "memory bandwidth", "NVIDIA driver", "instruction set", "threads"):
            self.assertIn(f"\n{name} "[name == "processor":], shown)


class Trace(Program):
    def trace(self, model, prompt, *arguments):
        file = self.folder / "trace.safetensors"
        result = run("inspect", str(model), "--trace", prompt, "--save", str(file), "--json", *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout), read_safetensors(file)

    def expect_close(self, got, want, what):
        bound = 2e-5 * max(map(abs, want))
        self.assertEqual(len(got), len(want), what)
        self.assertLessEqual(max(abs(a - b) for a, b in zip(got, want)), bound, what)

    def test_hidden_states_are_the_references(self):
        for folder in MODELS:
            reference = read_safetensors(folder / "reference.safetensors")
            prompt = reference["prompt_ids"][1]
            states, length, hidden_size = reference["hidden_states"][0]
            want = reference["hidden_states"][1]
            for size in ("1", "2", "4"):
                shown, values = self.trace(folder, str(list(prompt)), "--tensor-parallel-size", size)
                self.assertEqual(shown["prompt_ids"], list(prompt))
                self.assertEqual([step["name"] for step in shown["steps"]],
                                 [name for name in values if name != "prompt_ids"])
                for layer in range(states - 1):
                    shape, residual = values[f"model.layers.{layer}.residual"]
                    self.assertEqual(shape, [length, hidden_size])
                    begin = layer * length * hidden_size
                    self.expect_close(residual, want[begin:begin + length * hidden_size], f"{folder.name} {layer}")
                    # What the layer adds is what its two row-parallel products gave.
                    after = values.get(f"model.layers.{layer + 1}.residual")
                    sums = zip(residual, values[f"model.layers.{layer}.self_attn.o_proj"][1],
                               values[f"model.layers.{layer}.mlp.down_proj"][1])
                    if after:
                        self.expect_close([sum(three) for three in sums], after[1], f"{folder.name} {layer}")
                self.expect_close(values["model.norm"][1], want[-hidden_size:], folder.name)
                vocab_size = reference["logits"][0][1]
                self.expect_close(values["logits"][1], reference["logits"][1][-vocab_size:], folder.name)

    def test_text_and_one_layer(self):
        whole = run("inspect", DEMO, "--trace", "Once upon a time")
        self.assertIn("4 prompt tokens: 806 675 258 505\n", whole.stdout)
        self.assertEqual(whole.stdout.count("[4, 256]"), 8 * 5)
        one = run("inspect", DEMO, "--trace", "Once upon a time", "--layer", "3")
        lines = one.stdout.strip().split("\n")[2:]
        self.assertEqual(len(lines), 11)
        self.assertTrue(all(line.startswith("model.layers.3.") for line in lines))

    def test_what_does_not_apply_is_refused(self):
        for limit in ("--cpu-kvcache-space", "--max-model-len", "--max-num-seqs", "--max-num-batched-tokens",
                      "--num-kvcache-blocks", "--no-prefix-caching"):  # a trace takes what its prompt needs
            self.assertEqual(run("inspect", DEMO, "--trace", "a", limit, "1").returncode, 2, limit)
        for flag in (["--no-think"], ["--system", "x"], ["--special-tokens-in-messages"]):
            result = run("inspect", DEMO, "--trace", "a", *flag)
            self.assertEqual(result.returncode, 2)
            self.assertIn("requires --chat", result.stderr)

    def test_numbers_that_are_none_are_seen(self):
        folder = self.model_with_nan()
        steps = json.loads(run("inspect", str(folder), "--trace", "5 6", "--json").stdout)["steps"]
        self.assertEqual([step["num_nan"] for step in steps[-2:]], [1, 320])
        self.assertEqual(steps[-3]["num_nan"], 0)
        self.assertIn("nan", run("inspect", str(folder), "--trace", "5 6").stdout.split("\n")[-2])

    def test_a_chat(self):
        shown, _ = self.trace(DEMO, "Hello!", "--chat", "--no-think")
        self.assertEqual(shown["prompt_ids"], [6136, 500, 266, 198, 960, 0, 6137, 198, 6136, 1147, 1787, 198, 6138, 198,
                                               198, 6139, 198, 198])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
