#include "cli/chat.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <vector>

#include "base/error.h"
#include "cli/interrupts.h"
#include "cli/output.h"
#include "llm/llm.h"
#include "models/generation_config.h"
#include "tokenizer/chat_messages.h"
#include "tokenizer/chat_template.h"

namespace nanovllm::cli {
namespace {

// Lines of standard input, with Ctrl-C in between.
class LineReader {
 public:
  enum class Result { kLine, kEnd, kInterrupted };

  Result read_line(Interrupts& interrupts, std::string& line) {
    while (true) {
      if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
        line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return Result::kLine;
      }
      pollfd fds[2] = {{STDIN_FILENO, POLLIN, 0}, {interrupts.fd(), POLLIN, 0}};
      if (poll(fds, 2, -1) < 0 && errno != EINTR) return Result::kEnd;
      if (interrupts.take()) return Result::kInterrupted;
      if (!(fds[0].revents & (POLLIN | POLLHUP | POLLERR))) continue;
      char bytes[4096];
      const ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
      if (n <= 0) {
        line = std::exchange(buffer_, {});
        return line.empty() ? Result::kEnd : Result::kLine;
      }
      buffer_.append(bytes, size_t(n));
    }
  }

 private:
  std::string buffer_;
};

struct Answer {
  std::string text;
  bool interrupted = false;
};

// Streams the answer to the conversation so far.
Answer answer(LLM& llm, const std::vector<ChatMessage>& messages, const ChatCommandOptions& options,
              Interrupts& interrupts, Output& output) {
  const Prompt prompt(render_chat(llm.chat_template(), to_value(messages), options.chat));
  const RequestId id = llm.add_request(prompt, resolve(options.sampling, llm.generation_config()));
  Answer result;
  while (llm.has_unfinished()) {
    for (const RequestOutput& piece : llm.step()) {
      output.write(piece.text);
      result.text += piece.text;
      if (piece.finish_reason == FinishReason::kError) fail(ErrorKind::kRequest, piece.error);
    }
    if (interrupts.take()) result.interrupted = llm.abort(id);
  }
  output.write("\n");
  return result;
}

constexpr const char* kHelp =
    "/reset  forget the conversation\n/exit   end (as Ctrl-D)\nCtrl-C  stop an answer\n";

void converse(LLM& llm, const ChatCommandOptions& options, Interrupts& interrupts, Output& output) {
  const bool terminal = isatty(STDIN_FILENO) == 1;
  if (terminal)
    output.write("Chat with " + options.engine.model.string() +
                 ". /reset forgets, /help helps, Ctrl-D ends.\n");
  std::vector<ChatMessage> messages;
  LineReader reader;
  for (std::string line;;) {
    if (terminal) output.write("> ");
    switch (reader.read_line(interrupts, line)) {
      case LineReader::Result::kEnd:
        return output.write(terminal ? "\n" : "");
      case LineReader::Result::kInterrupted:
        output.write("\n(Ctrl-D ends)\n");
        continue;
      case LineReader::Result::kLine:
        break;
    }
    if (line.empty()) continue;
    if (line == "/exit") return;
    if (line == "/help") {
      output.write(kHelp);
    } else if (line == "/reset") {
      messages.clear();
      output.write("(forgotten)\n");
    } else {
      messages.push_back({"user", line});
      try {
        messages.push_back({"assistant", answer(llm, messages, options, interrupts, output).text});
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kRequest) throw;
        messages.pop_back();
        std::cerr << "nanovllm: error: " << error.what() << " (/reset forgets the conversation)\n";
      }
    }
  }
}

}  // namespace

int run_chat(const ChatCommandOptions& options) {
  if (options.prompt && options.prompt->empty())
    fail(ErrorKind::kRequest, "prompt: is empty, want some text");
  LLM llm(options.engine);
  llm.chat_template();  // throws where there is none
  Interrupts interrupts;
  Output output("-");
  if (!options.prompt) {
    converse(llm, options, interrupts, output);
    return 0;
  }
  const std::vector<ChatMessage> messages{{"user", *options.prompt}};
  return answer(llm, messages, options, interrupts, output).interrupted ? kInterruptedExitCode : 0;
}

}  // namespace nanovllm::cli
