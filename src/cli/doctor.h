// nanovllm doctor: what this machine has, and what would be chosen of it.
#pragma once

namespace nanovllm::cli {

struct DoctorOptions {
  bool json = false;
};

// The exit code. throws Error
int run_doctor(const DoctorOptions& options);

}  // namespace nanovllm::cli
