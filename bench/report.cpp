#include "report.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iostream>

#include "base/error.h"

namespace nanovllm::bench {
namespace {

// Four digits: more would be noise.
double rounded(double value) {
  if (value == 0) return 0;
  const double scale = std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Report::add(const std::string& name, std::vector<double> values, const std::string& unit, double floor) {
  std::sort(values.begin(), values.end());
  nlohmann::ordered_json row{{"name", name},
                             {"value", rounded(median(values))},
                             {"min", rounded(values.front())},
                             {"max", rounded(values.back())},
                             {"runs", values.size()},
                             {"unit", unit}};
  std::cout << name << " " << row["value"] << " " << unit << " (" << row["min"] << " to " << row["max"]
            << ")";
  if (floor > 0) std::cout << ", floor " << (row["floor"] = rounded(floor));
  std::cout << "\n";
  rows_.push_back(row);
}

void Report::write(const std::string& path, const std::string& machine, const std::string& commit,
                   const std::string& command, const std::string& model) const {
  const std::time_t now = std::time(nullptr);
  char date[16];
  std::strftime(date, sizeof(date), "%Y-%m-%d", std::gmtime(&now));
  const std::string file = path.substr(path.rfind('/') + 1);
  const nlohmann::ordered_json json{{"what", file.substr(0, file.rfind('.'))},
                                    {"machine", machine},
                                    {"date", date},
                                    {"commit", commit},
                                    {"command", command},
                                    {"model", model},
                                    {"rows", rows_}};
  std::ofstream out(path);
  out << json.dump(1) << "\n";
  if (!out) fail(ErrorKind::kDevice, path, ": cannot write");
}

}  // namespace nanovllm::bench
