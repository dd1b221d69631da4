// The result of a benchmark: rows of medians and ranges, as docs/results.md has them.
#pragma once

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"

namespace nanovllm::bench {

double median(std::vector<double> values);  // not empty

class Report {
 public:
  // values: one a run; floor: what the machine would allow at best, 0: not told. Prints the row too.
  void add(const std::string& name, std::vector<double> values, const std::string& unit, double floor = 0);

  // path: bench/results/<machine>/<what>.json. throws Error(kDevice)
  void write(const std::string& path, const std::string& machine, const std::string& commit,
             const std::string& command, const std::string& model) const;

 private:
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

// The exit code of a benchmark's main(): an Error of the body is one line on stderr.
template <class Body>
int run_benchmark(const char* name, Body&& body) {
  try {
    body();
    return 0;
  } catch (const Error& error) {
    std::cerr << name << ": error: " << error.what() << "\n";
    return 1;
  }
}

}  // namespace nanovllm::bench
