#!/usr/bin/env python3
"""What the program says of itself: --help, its examples, mistyped words, completion in bash.

usage: program_help_test.py PROGRAM SOURCE_DIR
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

from program import PROGRAM, SOURCE, Program, run

COMMANDS = [[], ["generate"], ["chat"], ["tokenize"], ["inspect"], ["score"], ["doctor"], ["bench"],
            ["bench", "throughput"], ["bench", "latency"], ["completion"]]


def help_of(command):
    return run(*command, "--help").stdout


class Help(Program):
    def test_every_command_is_here(self):
        listed = re.findall(r"^  (\w+) ", help_of([]).split("Commands:\n")[1].split("\n\n")[0], re.M)
        self.assertEqual(listed, [command[0] for command in COMMANDS if len(command) == 1])

    def test_it_fits_a_terminal_and_every_option_is_explained(self):
        for command in COMMANDS:
            text = help_of(command)
            self.assertTrue(text.startswith(f"nanovllm{''.join(' ' + word for word in command)}: "), text)
            self.assertIn("\nusage: nanovllm", text)
            for line in text.split("\n"):
                self.assertLessEqual(len(line), 80, line)
                self.assertEqual(line, line.rstrip())
            lines = text.split("\n\nExamples:")[0].split("\n")
            for line, below in zip(lines, lines[1:] + [""]):
                if line.startswith("  -"):
                    self.assertTrue(re.search(r"\S {2,}\S", line[2:]) or below.startswith(30 * " "), line)

    def test_defaults_and_choices_are_shown(self):
        text = help_of(["generate"])
        for part in ("--max-num-seqs INT=256 ", "--input-format {auto,text,jsonl}=auto\n", "--output FILE=- ",
                     "--prefix-caching, --no-prefix-caching\n", "--num-kvcache-blocks INT=-1\n", "[PROMPTS...]"):
            self.assertIn(part, text)

    def test_the_examples_run(self):
        (self.folder / "models").symlink_to(SOURCE.resolve() / "models")
        for name, text in {
                "prompts.txt": "Once upon a time\n",
                "story.txt": "Once upon a time there was a fox. " * 10,
                "chats.jsonl": json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3}) + "\n",
                "messages.json": json.dumps([{"role": "user", "content": "Hi"}]),
                "questions.jsonl": json.dumps({"prompt": "Once upon", "choices": [" a time", " the fish"], "answer": 0}),
        }.items():
            (self.folder / name).write_text(text)
        path = {**os.environ, "PATH": f"{pathlib.Path(PROGRAM).resolve().parent}:{os.environ['PATH']}"}
        seen = 0
        for command in COMMANDS:
            if command == ["bench"]:
                continue
            examples = help_of(command).split("\nExamples:\n")[1].replace("\\\n", "").strip().split("\n")
            for example in examples:
                if re.search(r" (generate|chat) (?!--help)", example):
                    example += " --max-tokens 4"  # what they say is not what is tested
                with self.subTest(example):
                    result = subprocess.run(["bash", "-c", example], cwd=self.folder, env=path, input="Hi\n",
                                            capture_output=True, text=True, timeout=300)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertTrue(result.stdout or "--output" in example or "source" in example, example)
                    seen += 1
        self.assertGreater(seen, 25)
        for written in ("answers.txt", "trace.safetensors", "schedule.svg"):
            self.assertGreater((self.folder / written).stat().st_size, 0)


class Mistyped(unittest.TestCase):
    def expect(self, arguments, message):
        result = run(*arguments)
        self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
        first, second = result.stderr.strip().split("\n")
        self.assertEqual(first, message)
        self.assertEqual(second, message.split(":")[0] + " --help shows what there is")

    def test_the_nearest_is_named(self):
        self.expect(("genrate", "models/demo"), "nanovllm: unknown command genrate, did you mean generate?")
        self.expect(("bench", "latnecy"), "nanovllm bench: unknown command latnecy, did you mean latency?")
        for typed, meant in (("--temprature", "--temperature"), ("--max_tokens=3", "--max-tokens"), ("--topk", "--top-k"),
                             ("--no-prefix-cachign", "--no-prefix-caching")):
            self.expect(("generate", "models/demo", "x", typed, "1"),
                        f"nanovllm generate: unknown option {typed.split('=')[0]}, did you mean {meant}?")

    def test_one_dash_and_a_beginning(self):
        self.expect(("inspect", "models/demo", "-json"), "nanovllm inspect: unknown option -json, did you mean --json?")
        self.expect(("inspect", "models/demo", "--sched"), "nanovllm inspect: unknown option --sched, did you mean --schedule?")
        self.expect(("-v",), "nanovllm: unknown option -v, did you mean --version?")

    def test_what_is_near_nothing(self):
        self.expect(("generate", "models/demo", "x", "--quantum"), "nanovllm generate: unknown option --quantum")
        self.expect(("sing",), "nanovllm: unknown command sing")

    def test_what_is_missing_or_does_not_go_together(self):
        self.expect((), "nanovllm: want a command: generate, chat, tokenize, inspect, score, doctor, bench, completion")
        self.expect(("bench",), "nanovllm bench: want a command: throughput, latency")
        self.expect(("generate",), "nanovllm generate: model is required")
        self.expect(("generate", "models/demo"), "nanovllm generate: want prompts, as arguments or with --input")
        self.expect(("generate", "models/demo", "x", "--no-think"),
                    "nanovllm generate: --system, --no-think and --special-tokens-in-messages want --chat")
        self.expect(("inspect",), "nanovllm inspect: want a model, or --schedule")
        self.expect(("score", "models/demo"), "nanovllm score: want a text, --input or --choices")
        self.expect(("score", "models/demo", "x", "--against-num-threads", "2"),
                    "nanovllm score: --against-num-threads requires --against")
        for unheard in ("--window", "--stride"):
            self.expect(("score", "models/demo", "--choices", "x", unheard, "8"),
                        f"nanovllm score: --choices excludes {unheard}")
        for own in ("--max-num-seqs", "--max-num-batched-tokens", "--prefix-caching"):  # the scorer's own
            self.assertIn("unknown option", run("score", "models/demo", "x", own, "8").stderr)


class Completion(Program):
    def complete(self, *words):
        """What bash offers behind these words, the last of them begun."""
        script = self.folder / "completion.bash"
        script.write_text(run("completion").stdout)
        quoted = " ".join(f"'{word}'" for word in ("nanovllm", *words))
        result = subprocess.run(
            ["bash", "-uc", f"source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _nanovllm;"
             " printf '%s\\n' \"${COMPREPLY[@]-}\""], capture_output=True, text=True, check=True)
        self.assertEqual(result.stderr, "")
        return result.stdout.split()

    def test_commands(self):
        self.assertEqual(self.complete("ge"), ["generate"])
        self.assertEqual(self.complete("s"), ["score"])
        self.assertEqual(self.complete("bench", ""), ["throughput", "latency", "-h", "--help"])

    def test_options(self):
        self.assertEqual(self.complete("generate", "models/demo", "--te"), ["--temperature", "--tensor-parallel-size"][::-1])
        self.assertEqual(self.complete("bench", "latency", "models/demo", "--ru"), ["--runs"])
        self.assertEqual(self.complete("generate", "models/demo", "--ru"), [])
        self.assertIn("--no-prefix-caching", self.complete("chat", "models/demo", "--no-"))

    def test_values(self):
        self.assertEqual(self.complete("generate", "x", "--format", ""), ["text", "jsonl"])
        self.assertEqual(self.complete("generate", "x", "--format", "="), ["text", "jsonl"])
        self.assertEqual(self.complete("generate", "x", "--format", "=", "te"), ["text"])
        self.assertEqual(self.complete("generate", "x", "--input", "mod"), [])  # bash goes on with file names
        self.assertEqual(self.complete("generate", ""), [])

    def test_bash_takes_it(self):
        offered = subprocess.run(["bash", "-c", f"source <('{PROGRAM}' completion) && complete -p nanovllm"],
                                 capture_output=True, text=True)
        self.assertEqual((offered.returncode, offered.stderr), (0, ""))
        self.assertIn("-o default -F _nanovllm", offered.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
