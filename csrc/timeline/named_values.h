// Reads a table of numbers by name into the fields of a struct, and refuses any other table.
#pragma once

#include <cmath>
#include <map>
#include <stdexcept>
#include <string>

namespace torch_trainium::timeline {

class NamedValues {
 public:
  explicit NamedValues(const std::map<std::string, double>& values) : left_(values) {}

  // Throws std::invalid_argument where `name` is missing, or not finite and >= 0.
  double take(const char* name) {
    const auto found = left_.find(name);
    if (found == left_.end()) throw std::invalid_argument(std::string(name) + " is missing");
    const double value = found->second;
    if (!std::isfinite(value) || value < 0) {
      throw std::invalid_argument(std::string(name) + " must be finite and not negative");
    }
    left_.erase(found);
    return value;
  }

  // Throws std::invalid_argument where a name was not taken.
  void expect_none_left() const {
    if (!left_.empty()) throw std::invalid_argument(left_.begin()->first + " is not a known name");
  }

 private:
  std::map<std::string, double> left_;
};

}  // namespace torch_trainium::timeline
