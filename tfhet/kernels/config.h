// The text of a chain, from which its stages are made:
//
//     (random_flip salt=0 horizontal=1 vertical=0) (normalize salt=1 scale=[0.01 0.02] offset=[-2 -2])
//
// A value is a number, a 'text', a list of numbers, a stage, or a list of stages.

#pragma once

#include <cstdlib>
#include <map>
#include <memory>

#include "failure.h"

namespace tfhet {

class Config {
 public:
  // Reads all stages of a text. Raises Failure for what is not one.
  static std::vector<Config> read(const std::string& text) {
    const char* at = text.c_str();
    std::vector<Config> stages;
    for (skip(at); *at; skip(at)) stages.push_back(stage(at));
    return stages;
  }

  std::string name;

  double number(const char* key) const {
    const auto& found = value(key);
    if (found.numbers.size() != 1) refuse(key, "one number");
    return found.numbers[0];
  }
  float single(const char* key) const { return static_cast<float>(number(key)); }
  int64_t integer(const char* key) const { return static_cast<int64_t>(number(key)); }
  bool flag(const char* key) const { return number(key) != 0.0; }
  bool has(const char* key) const { return values_.count(key) != 0; }
  const std::string& text(const char* key) const { return value(key).text; }
  const std::vector<double>& numbers(const char* key) const { return value(key).numbers; }
  std::vector<float> singles(const char* key) const {
    const auto& found = numbers(key);
    return std::vector<float>(found.begin(), found.end());
  }
  const std::vector<Config>& stages(const char* key) const { return value(key).stages; }
  // Words of 64 bits, written as decimal texts: '17361641481138401520'.
  uint64_t word(const char* key) const { return std::strtoull(text(key).c_str(), nullptr, 10); }

 private:
  struct Value {
    std::vector<double> numbers;
    std::string text;
    std::vector<Config> stages;
  };

  const Value& value(const char* key) const {
    const auto found = values_.find(key);
    if (found == values_.end()) refuse(key, "set");
    return found->second;
  }
  [[noreturn]] void refuse(const char* key, const char* what) const {
    throw Failure{Code::internal, "stage " + name + ": " + key + " is not " + what};
  }

  static void skip(const char*& at) {
    while (*at == ' ' || *at == '\n') ++at;
  }
  static void expect(const char*& at, char one) {
    if (*at != one) throw Failure{Code::internal, std::string("a chain has ") + one + " before: " + std::string(at).substr(0, 40)};
    ++at;
  }
  static std::string until(const char*& at, const char* ends) {
    const char* from = at;
    while (*at && !std::strchr(ends, *at)) ++at;
    return std::string(from, at);
  }
  static Config stage(const char*& at) {
    expect(at, '(');
    Config config;
    config.name = until(at, " )");
    for (skip(at); *at && *at != ')'; skip(at)) {
      const std::string key = until(at, "= )");
      expect(at, '=');
      Value& value = config.values_[key];
      if (*at == '[') {
        ++at;
        for (skip(at); *at && *at != ']'; skip(at)) item(at, value);
        expect(at, ']');
      } else {
        item(at, value);
      }
    }
    expect(at, ')');
    return config;
  }
  static void item(const char*& at, Value& value) {
    if (*at == '(') {
      value.stages.push_back(stage(at));
    } else if (*at == '\'') {
      ++at;
      value.text = until(at, "'");
      expect(at, '\'');
    } else {
      char* end = nullptr;
      value.numbers.push_back(std::strtod(at, &end));
      if (end == at) throw Failure{Code::internal, "a chain has no number: " + std::string(at).substr(0, 40)};
      at = end;
    }
  }

  std::map<std::string, Value> values_;
};

}  // namespace tfhet
