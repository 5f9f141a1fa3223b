#include "aten/classification.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>
#include <unordered_map>
#include <utility>
#include <vector>

namespace torch_trainium {
namespace {

using c10::ScalarType;

// By the names that the table has for them.
constexpr std::array<std::pair<std::string_view, ScalarType>, 17> kDtypes = {{
    {"bool", ScalarType::Bool},
    {"uint8", ScalarType::Byte},
    {"uint16", ScalarType::UInt16},
    {"uint32", ScalarType::UInt32},
    {"uint64", ScalarType::UInt64},
    {"int8", ScalarType::Char},
    {"int16", ScalarType::Short},
    {"int32", ScalarType::Int},
    {"int64", ScalarType::Long},
    {"float16", ScalarType::Half},
    {"bfloat16", ScalarType::BFloat16},
    {"float32", ScalarType::Float},
    {"float64", ScalarType::Double},
    {"complex64", ScalarType::ComplexFloat},
    {"complex128", ScalarType::ComplexDouble},
    {"float8_e4m3fn", ScalarType::Float8_e4m3fn},
    {"float8_e5m2", ScalarType::Float8_e5m2},
}};

ScalarType dtype_named(std::string_view name) {
  for (const auto& [known, dtype] : kDtypes) {
    if (known == name) return dtype;
  }
  TORCH_CHECK(false, "the operator table names the unknown dtype ", name);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Dtypes dtypes_in(std::string_view field) {
  if (field == "*") return ~Dtypes{0};
  Dtypes dtypes = 0;
  for (const std::string_view name : split(field, ' ')) {
    if (!name.empty()) dtypes |= dtype_bit(dtype_named(name));
  }
  return dtypes;
}

std::string file_path;
std::string chip;

// One file for the life of the process, with the columns of one chip.
class Table {
 public:
  Table() {
    std::ifstream file(file_path);
    TORCH_CHECK(file, "torch-trainium's operator table ", file_path,
                " cannot be read; reinstall torch-trainium");
    text_.assign(std::istreambuf_iterator<char>(file), {});
    const std::vector<std::string_view> lines = split(text_, '\n');
    const std::vector<std::string_view> header = split(lines.front(), '\t');
    const auto column = std::find(header.begin(), header.end(), chip);
    TORCH_CHECK(column != header.end(), "the operator table ", file_path, " does not know ", chip);
    const auto native = static_cast<size_t>(column - header.begin());
    for (size_t i = 1; i < lines.size(); ++i) {
      const std::vector<std::string_view> fields = split(lines[i], '\t');
      if (fields.size() != header.size()) continue;  // the end of the file
      if (fields[0].front() == '@') {
        const ScalarType dtype = dtype_named(fields[0].substr(1));
        if (fields[native] == "*") missing_ &= ~dtype_bit(dtype);
        reasons_of_missing_[dtype] = fields.back();
        continue;
      }
      const std::vector<std::string_view> words = split(fields[0], ' ');
      Row& row = rows_[words[0]];
      if (words.size() == 1) {
        row.whole = {fields[native], fields.back()};
      } else {
        row.uses.emplace_back(words[1], Verdict{fields[native], fields.back()});
      }
    }
  }

  Classification find(std::string_view name) const {
    const auto row = rows_.find(name);
    if (row == rows_.end()) return {};
    const auto& [whole, uses] = row->second;
    Classification found{~dtypes_in(whole.native), std::string(whole.reason), {}, {}};
    for (const auto& [use, verdict] : uses) {
      const std::vector<std::string_view> parts = split(use, '=');
      found.deciding_argument = parts[0];
      found.uses.push_back(
          {std::string(parts[1]), ~dtypes_in(verdict.native), std::string(verdict.reason)});
    }
    return found;
  }

  Dtypes missing() const { return missing_; }
  std::string reason_of_missing(ScalarType dtype) const {
    const auto reason = reasons_of_missing_.find(dtype);
    if (reason != reasons_of_missing_.end()) return std::string(reason->second);
    return std::string("programs have no dtype ") + c10::toString(dtype);
  }

 private:
  struct Verdict {
    std::string_view native;
    std::string_view reason;
  };
  struct Row {
    Verdict whole;
    std::vector<std::pair<std::string_view, Verdict>> uses;  // "accumulate=True"
  };

  std::string text_;  // what the views are of
  std::unordered_map<std::string_view, Row> rows_;
  Dtypes missing_ = ~Dtypes{0};
  std::unordered_map<ScalarType, std::string_view> reasons_of_missing_;
};

const Table& table() {
  static const auto& instance = *new Table;
  return instance;
}

}  // namespace

void set_classification(std::string path, std::string of_chip) {
  file_path = std::move(path);
  chip = std::move(of_chip);
}

const std::string& classified_chip() { return chip; }

Classification classification_of(std::string_view qualified_name) {
  return table().find(qualified_name);
}

Dtypes missing_dtypes() { return table().missing(); }

std::string reason_of_missing(ScalarType dtype) { return table().reason_of_missing(dtype); }

}  // namespace torch_trainium
