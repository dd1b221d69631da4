"""tools/make_random_checkpoint.py: names, shapes, sizes, values and configs of what it writes, with numpy and without."""
import importlib.util
import json
import math
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "make_random_checkpoint.py"
HAS_NUMPY = importlib.util.find_spec("numpy") is not None

# Makes `import numpy` fail in the script, as on a machine without it.
WITHOUT_NUMPY = "import sys, runpy; sys.modules['numpy'] = None; sys.argv = sys.argv[1:]; " \
                "runpy.run_path(sys.argv[0], run_name='__main__')"


def run(*args, numpy=HAS_NUMPY):
    start = [sys.executable, "-B"] + ([] if numpy else ["-c", WITHOUT_NUMPY])
    return subprocess.run(start + [str(SCRIPT), *map(str, args)], capture_output=True, text=True)


def read(path):
    """Header entries and values of a file, after checking that they fill it."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    entries = json.loads(data[8:8 + length])
    del entries["__metadata__"]
    tensors, end = {}, 0
    for name, entry in entries.items():
        begin, next_end = entry["data_offsets"]
        assert begin == end, name
        end = next_end
        raw = data[8 + length + begin:8 + length + end]
        if entry["dtype"] == "BF16":
            values = [struct.unpack("<f", struct.pack("<I", bits << 16))[0]
                      for (bits,) in struct.iter_unpack("<H", raw)]
        else:
            values = [v for (v,) in struct.iter_unpack("<e" if entry["dtype"] == "F16" else "<f", raw)]
        assert len(values) == math.prod(entry["shape"]), name
        tensors[name] = (entry["dtype"], entry["shape"], values)
    assert 8 + length + end == len(data)
    return tensors


class MakeRandomCheckpoint(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def make(self, name, *args, **kwargs):
        result = run(self.folder / name, *args, **kwargs)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.folder / name

    def refused(self, part, *args):
        result = run(*args)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(part, result.stderr)

    def test_tiny_has_the_parameters_of_qwen3(self):
        tensors = read(self.make("tiny") / "model.safetensors")
        self.assertEqual(len(tensors), 2 + 3 * 11)
        self.assertEqual({dtype for dtype, _, _ in tensors.values()}, {"BF16"})
        shapes = {name: shape for name, (_, shape, _) in tensors.items()}
        self.assertEqual(shapes["model.embed_tokens.weight"], [320, 64])
        self.assertEqual(shapes["model.norm.weight"], [64])
        layer = {name[len("model.layers.2."):]: shape for name, shape in shapes.items() if ".2." in name}
        self.assertEqual(layer, {
            "input_layernorm.weight": [64], "post_attention_layernorm.weight": [64],
            "self_attn.q_proj.weight": [128, 64], "self_attn.k_proj.weight": [64, 64],
            "self_attn.v_proj.weight": [64, 64], "self_attn.o_proj.weight": [64, 128],
            "self_attn.q_norm.weight": [32], "self_attn.k_norm.weight": [32],
            "mlp.gate_proj.weight": [160, 64], "mlp.up_proj.weight": [160, 64], "mlp.down_proj.weight": [64, 160]})

    def test_values_are_those_of_an_initialised_model(self):
        for numpy in {False, HAS_NUMPY}:
            for dtype in ("bf16", "f16", "f32"):
                folder = self.make(f"{dtype}-{numpy}", "--dtype", dtype, numpy=numpy)
                for name, (_, _, values) in read(folder / "model.safetensors").items():
                    mean = sum(values) / len(values)
                    std = math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))
                    # Five standard errors of either.
                    self.assertAlmostEqual(mean, 1 if "norm" in name else 0, delta=5 * 0.02 / len(values) ** 0.5)
                    self.assertAlmostEqual(std, 0.02, delta=5 * 0.02 / (2 * len(values)) ** 0.5 + 1e-3 * ("norm" in name))

    def test_no_two_rows_are_alike(self):
        for numpy in {False, HAS_NUMPY}:
            folder = self.make(f"rows-{numpy}", "--vocab-size", "10000", numpy=numpy)  # more than one table
            _, (num_rows, width), values = read(folder / "model.safetensors")["model.embed_tokens.weight"]
            self.assertEqual(len({tuple(values[i * width:(i + 1) * width]) for i in range(num_rows)}), num_rows)

    def test_the_seed_decides(self):
        for numpy in {False, HAS_NUMPY}:
            a, b, c = (self.make(f"{name}-{numpy}", "--seed", seed, numpy=numpy) / "model.safetensors"
                       for name, seed in (("a", 1), ("b", 1), ("c", 2)))
            self.assertEqual(a.read_bytes(), b.read_bytes())
            self.assertNotEqual(a.read_bytes(), c.read_bytes())

    def test_configs_say_what_was_written(self):
        folder = self.make("a", "--num-hidden-layers", "1", "--hidden-size", "32", "--tie-word-embeddings", "false",
                           "--dtype", "f16")
        config = json.loads((folder / "config.json").read_text())
        self.assertEqual(config["architectures"], ["Qwen3ForCausalLM"])
        self.assertEqual((config["num_hidden_layers"], config["hidden_size"], config["dtype"]), (1, 32, "float16"))
        self.assertEqual(config["rope_parameters"], {"rope_theta": 1e6, "rope_type": "default"})
        self.assertEqual(config["layer_types"], ["full_attention"])
        self.assertIs(config["tie_word_embeddings"], False)
        self.assertEqual(json.loads((folder / "generation_config.json").read_text())["eos_token_id"], [1, 0])
        tensors = read(folder / "model.safetensors")
        self.assertEqual(len(tensors), 3 + 11)
        self.assertEqual(tensors["lm_head.weight"][:2], ("F16", [320, 32]))

    def test_a_config_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            result = run(f"{folder}/m", "--preset", "8b", "--config-only")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(json.loads(Path(folder, "m", "config.json").read_text())["hidden_size"], 4096)
            self.assertEqual(list(Path(folder, "m").glob("*.safetensors*")), [])

    def test_shards_hold_the_same_values(self):
        whole = read(self.make("whole") / "model.safetensors")
        folder = self.make("shards", "--shard-size", "60KB")
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        self.assertEqual(index["metadata"]["total_size"], 2 * sum(len(values) for _, _, values in whole.values()))
        shards = sorted(path.name for path in folder.glob("*.safetensors"))
        self.assertEqual(shards[0], f"model-00001-of-{len(shards):05d}.safetensors")
        self.assertGreater(len(shards), 3)
        tensors = {}
        for shard in shards:
            for name, tensor in read(folder / shard).items():
                self.assertEqual(index["weight_map"][name], shard)
                tensors[name] = tensor
        self.assertEqual(tensors, whole)

    def test_a_tokenizer_is_copied(self):
        source = self.folder / "source"
        source.mkdir()
        self.refused("has no tokenizer.json", self.folder / "a", "--tokenizer", source)
        (source / "tokenizer.json").write_text("{}")
        folder = self.make("b", "--tokenizer", source)
        self.assertEqual((folder / "tokenizer.json").read_text(), "{}")

    def test_wrong_arguments_are_refused(self):
        self.refused("want a multiple of num_key_value_heads 3", self.folder / "a", "--num-key-value-heads", "3")
        self.refused("is 0, want a whole number above 0", self.folder / "a", "--head-dim", "0")
        self.refused("is 5TB, want a size such as 500MB", self.folder / "a", "--shard-size", "5TB")
        self.refused("want 0 or more", self.folder / "a", "--seed", "-1")
        self.assertFalse((self.folder / "a").exists())
        self.make("full")
        self.refused("holds a model already", self.folder / "full")


if __name__ == "__main__":
    unittest.main()
