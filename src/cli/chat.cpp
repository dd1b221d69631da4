#include "cli/chat.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <vector>

#include "base/error.h"
#include "llm/llm.h"

namespace nanovllm::cli {
namespace {

// Ctrl-C as something that can be asked for, in place of a handler and a global flag. While it lives, SIGINT
// waits here.
class Interrupts {
 public:
  Interrupts() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
    fd_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd_ < 0) fail(ErrorKind::kDevice, "signalfd: ", std::strerror(errno));
  }
  ~Interrupts() {
    close(fd_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Whether Ctrl-C was pressed since the last call.
  bool take() {
    signalfd_siginfo info;
    bool any = false;
    while (read(fd_, &info, sizeof(info)) == ssize_t(sizeof(info))) any = true;
    return any;
  }
  int fd() const { return fd_; }

 private:
  sigset_t before_;
  int fd_;
};

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

void print(const std::string& text) {
  std::cout << text << std::flush;
  if (!std::cout) fail(ErrorKind::kDevice, "standard output: cannot write: ", std::strerror(errno));
}

// Streams the answer to the conversation so far, and returns it.
std::string answer(LLM& llm, const std::vector<ChatMessage>& messages, const ChatCommandOptions& options,
                   Interrupts& interrupts) {
  ChatOptions chat;
  if (options.no_think) chat.enable_thinking = false;
  const Prompt prompt(llm.chat_template().render(messages, chat));
  const RequestId id = llm.add_request(prompt, resolve(options.sampling, llm.generation_config()));
  std::string text;
  while (llm.has_unfinished()) {
    for (const RequestOutput& output : llm.step()) {
      print(output.text);
      text += output.text;
      if (output.finish_reason == FinishReason::kError)
        fail(ErrorKind::kRequest, "the model's logits are not numbers: its weights may be damaged");
    }
    if (interrupts.take()) llm.abort(id);
  }
  print("\n");
  return text;
}

std::vector<ChatMessage> opening(const ChatCommandOptions& options) {
  if (options.system.empty()) return {};
  return {{"system", options.system}};
}

void converse(LLM& llm, const ChatCommandOptions& options, Interrupts& interrupts) {
  const bool terminal = isatty(STDIN_FILENO) == 1;
  if (terminal)
    print("Chat with " + options.engine.model.string() + ". /reset forgets, /help helps, Ctrl-D ends.\n");
  std::vector<ChatMessage> messages = opening(options);
  LineReader reader;
  for (std::string line;;) {
    if (terminal) print("> ");
    switch (reader.read_line(interrupts, line)) {
      case LineReader::Result::kEnd:
        return print(terminal ? "\n" : "");
      case LineReader::Result::kInterrupted:
        print("\n(Ctrl-D ends)\n");
        continue;
      case LineReader::Result::kLine:
        break;
    }
    if (line.empty()) continue;
    if (line == "/exit") return;
    if (line == "/reset") {
      messages = opening(options);
      print("(forgotten)\n");
    } else if (line[0] == '/') {
      print("/reset  forget the conversation\n/exit   end (as Ctrl-D)\nCtrl-C  stop an answer\n");
    } else {
      messages.push_back({"user", line});
      try {
        messages.push_back({"assistant", answer(llm, messages, options, interrupts)});
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
  LLM llm(options.engine);
  llm.chat_template();  // throws where there is none
  Interrupts interrupts;
  if (options.prompt.empty()) {
    converse(llm, options, interrupts);
    return 0;
  }
  std::vector<ChatMessage> messages = opening(options);
  messages.push_back({"user", options.prompt});
  answer(llm, messages, options, interrupts);
  return 0;
}

}  // namespace nanovllm::cli
