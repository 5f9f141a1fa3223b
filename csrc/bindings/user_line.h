// Numbers for the lines of the user's program that ask for device work.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace torch_trainium {

// Guarded by the interpreter's lock: every call but `current` needs it held.
class UserLines {
 public:
  // `internal_folders`: code below these is nobody's line. Earlier numbers lose their text.
  void start(std::vector<std::string> internal_folders);
  // Lets go of the program's code; numbers keep their text until the next start.
  void stop();

  // The calling thread's innermost line that is the user's; 0 where it runs no
  // Python. Takes the interpreter's lock.
  uint32_t current();
  // The number of a place that has no line.
  uint32_t number_of(const std::string& place);
  // "train.py:12 (step)"; empty for 0 and for what an earlier start has numbered.
  std::string text(uint32_t line) const {
    return line == 0 || line > texts_.size() ? std::string() : texts_[line - 1];
  }

 private:
  bool is_internal(PyCodeObject* code);
  uint32_t number_of(PyCodeObject* code, int line);

  std::vector<std::string> internal_folders_;
  // The code objects are kept, so that their addresses stay theirs.
  std::unordered_map<PyCodeObject*, bool> internal_code_;
  std::map<std::pair<PyCodeObject*, int>, uint32_t> numbers_;
  std::unordered_map<std::string, uint32_t> place_numbers_;
  std::vector<std::string> texts_;
};

}  // namespace torch_trainium
