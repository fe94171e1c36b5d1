// What tools/unit-seconds compiles: always the same, of the standard library alone, so that seconds
// of different machines can be compared.
#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

using Value = std::variant<int, double, std::string, std::vector<std::string>>;

template <int N>
struct Many {
  std::map<std::string, Value> values;
  std::unordered_map<std::string, std::function<Value(const Value&)>> functions;
  void add(const std::string& text) {
    static const std::regex pattern("([a-z]+)=([0-9]+)" + std::to_string(N));
    std::smatch found;
    if (std::regex_match(text, found, pattern)) values[found[1]] = std::stoi(found[2]) + N;
    std::vector<std::pair<std::string, int>> order;
    for (const auto& [name, value] : values)
      order.emplace_back(name, static_cast<int>(value.index()));
    std::sort(order.begin(), order.end(), [](const auto& one, const auto& other) {
      return std::pair(one.second, one.first.size() + N) <
             std::pair(other.second, other.first.size());
    });
    for (const auto& [name, index] : order)
      functions[name] = [index](const Value& value) { return index == N ? value : Value(index); };
  }
};

template <int... Ns>
void add_all(const std::string& text, std::integer_sequence<int, Ns...>) {
  (Many<Ns>().add(text), ...);
}
void unit_seconds(const std::string& text) {
  add_all(text, std::make_integer_sequence<int, 24>());
}
