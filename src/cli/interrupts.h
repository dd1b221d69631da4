// Ctrl-C as something that can be asked for, in place of a handler and a global flag. While it lives, SIGINT
// waits here.
#pragma once

#include <signal.h>

namespace nanovllm::cli {

inline constexpr int kInterruptedExitCode = 130;  // 128 + SIGINT, as shells have it

class Interrupts {
 public:
  Interrupts();  // throws Error(kDevice)
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool take();                    // whether Ctrl-C was pressed since the last call
  int fd() const { return fd_; }  // readable when it was

 private:
  sigset_t before_;
  int fd_;
};

}  // namespace nanovllm::cli
