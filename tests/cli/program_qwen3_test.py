#!/usr/bin/env python3
"""A Qwen3-0.6B of random weights, looked into: nano-vllm's module tree, and the way of the prompt 你是谁 through it.

usage: program_qwen3_test.py PROGRAM SOURCE_DIR
With Qwen3's tokenizer (other people's, not in the repository; NANOVLLM_QWEN3_TOKENIZER tells where it is) the prompt is
given as text, without it as the ids that it becomes.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from program import SOURCE, run

TOKENIZER = pathlib.Path(os.environ.get("NANOVLLM_QWEN3_TOKENIZER", SOURCE / ".." / "shared" / "qwen3-tokenizer"))
IDS = [151644, 872, 198, 105043, 100165, 151645, 198, 151644, 77091, 198, 151667, 271, 151668, 271]
TREE = """\
Qwen3ForCausalLM                                  596.0 M parameters, 1192.2 MB
  model: Qwen3Model
    embed_tokens: VocabParallelEmbedding          [151936, 1024] bf16
    layers 0-27: 28 x Qwen3DecoderLayer           15.7 M parameters each
      input_layernorm: RMSNorm                    [1024] f32
      self_attn: Qwen3Attention
        qkv_proj: QKVParallelLinear               [4096, 1024] bf16   q_proj, k_proj, v_proj
        q_norm: RMSNorm                           [128] f32
        k_norm: RMSNorm                           [128] f32
        o_proj: RowParallelLinear                 [1024, 2048] bf16
      post_attention_layernorm: RMSNorm           [1024] f32
      mlp: Qwen3MLP
        gate_up_proj: MergedColumnParallelLinear  [6144, 1024] bf16   gate_proj, up_proj
        down_proj: RowParallelLinear              [1024, 3072] bf16
    norm: RMSNorm                                 [1024] f32
  lm_head: ParallelLMHead                         tied to model.embed_tokens
"""


class Qwen3(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="nanovllm-qwen3-")
        cls.model = cls.folder + "/Qwen3-0.6B"
        cls.has_tokenizer = (TOKENIZER / "tokenizer.json").exists()
        subprocess.run([sys.executable, SOURCE / "tools" / "make_random_checkpoint.py", cls.model, "--preset", "0.6b",
                        *(["--tokenizer", TOKENIZER] if cls.has_tokenizer else [])], check=True, capture_output=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def inspect(self, *arguments):
        result = run("inspect", self.model, *arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_the_tree(self):
        self.assertTrue(self.inspect().startswith(TREE + "\n"), self.inspect())

    def test_embedding_and_head_are_at_one_address(self):
        shown = json.loads(self.inspect("--json"))
        self.assertTrue(shown["tied_embeddings"])
        self.assertEqual(shown["ranks"][0]["parameters"], 596_049_920)

    def test_one_forward(self):
        prompt = ["你是谁", "--chat", "--no-think"] if self.has_tokenizer else [str(IDS)]
        shown = json.loads(self.inspect("--json", "--trace", *prompt))
        self.assertEqual(shown["prompt_ids"], IDS)
        shapes = {step["name"]: step["shape"] for step in shown["steps"]}
        for layer in range(28):
            for name, want in {"residual": [14, 1024], "input_layernorm": [14, 1024], "self_attn.qkv_proj": [14, 4096],
                               "self_attn.q": [14, 16, 128], "self_attn.k": [14, 8, 128], "self_attn.attn": [14, 2048],
                               "self_attn.o_proj": [14, 1024], "post_attention_layernorm": [14, 1024],
                               "mlp.gate_up_proj": [14, 6144], "mlp.act_fn": [14, 3072],
                               "mlp.down_proj": [14, 1024]}.items():
                self.assertEqual(shapes.pop(f"model.layers.{layer}.{name}"), want)
        self.assertEqual(shapes, {"model.norm": [1, 1024], "logits": [1, 151936]})
        self.assertEqual([step["num_nan"] for step in shown["steps"]], [0] * (28 * 11 + 2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
