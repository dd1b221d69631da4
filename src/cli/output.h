// Where answers go. Every failure to write is an error: an answer must not be lost in silence.
#pragma once

#include <fstream>
#include <string>

namespace nanovllm::cli {

// After printing to standard output: that all of it got there. throws Error(kDevice)
void check_printed();

class Output {
 public:
  // "-" is standard output. throws Error(kDevice): cannot be opened
  explicit Output(const std::string& path);

  // Written through at once. throws Error(kDevice)
  void write(const std::string& text);

 private:
  std::string name_;
  std::ofstream file_;
};

}  // namespace nanovllm::cli
