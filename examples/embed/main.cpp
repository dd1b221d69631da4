// The engine inside another program: answers a prompt and a conversation. usage: embed MODEL
#include <iostream>
#include <vector>

#include "llm/llm.h"

int main(int argc, char** argv) {
  if (argc != 2) return std::cerr << "usage: embed MODEL\n", 2;
  try {
    nanovllm::LLM llm({.model = argv[1]});
    const std::vector<nanovllm::ChatMessage> messages{{.role = "user", .content = "Hello!"}};
    const std::vector<nanovllm::Prompt> prompts{nanovllm::Prompt("Once upon a time"),
                                                llm.chat_prompt(messages)};
    const std::vector<nanovllm::SamplingParams> params{{.temperature = 0, .max_tokens = 12}};
    for (const nanovllm::Completion& completion : llm.generate(prompts, params))
      std::cout << completion.text << "\n";
  } catch (const nanovllm::Error& error) {
    return std::cerr << "embed: " << error.what() << "\n", 1;
  }
}
