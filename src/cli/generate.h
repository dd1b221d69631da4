// nanovllm generate: answers to prompts from arguments, a text file or JSONL; as text or JSONL.
//
// Answers come out in the order of the prompts, each as soon as those before it are out. A prompt that is
// refused gets a line on stderr and an empty answer (its error in JSONL); the others are finished and
// written, and the exit code is 1. Ctrl-C ends what is unfinished, writes what is finished, and gives exit
// code 130.
#pragma once

#include <string>
#include <vector>

#include "cli/chat_flags.h"
#include "cli/sampling_flags.h"
#include "llm/config.h"

namespace nanovllm::cli {

struct GenerateOptions {
  EngineConfig engine;
  SamplingFlags sampling;
  std::vector<std::string> prompts;
  std::string input;                  // file of prompts, "-" = standard input, "" = none
  std::string input_format = "auto";  // text, jsonl, or by the file's ending
  std::string output = "-";           // file of answers, "-" = standard output
  std::string format = "text";        // or "jsonl"
  bool apply_chat_template = false;   // prompts are user messages
  ChatFlags chat;                     // for those, and for lines with messages
};

// The exit code: 0; 1 if some prompt had no answer; 130 after Ctrl-C. throws Error
int run_generate(const GenerateOptions& options);

}  // namespace nanovllm::cli
