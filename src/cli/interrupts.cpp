#include "cli/interrupts.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace nanovllm::cli {

Interrupts::Interrupts() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  fd_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd_ >= 0) return;
  const int reason = errno;
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  fail(ErrorKind::kDevice, "signalfd: ", std::strerror(reason));
}

Interrupts::~Interrupts() {
  close(fd_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool Interrupts::take() {
  signalfd_siginfo info;
  bool any = false;
  while (read(fd_, &info, sizeof(info)) == ssize_t(sizeof(info))) any = true;
  return any;
}

}  // namespace nanovllm::cli
