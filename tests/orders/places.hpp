#pragma once  // orders/places.hpp: lines of the source for places in this program.

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace gantry::orders {

/// For each place, behind a call and relative to the program's beginning, the innermost line for
/// which `shorten` returns more than nothing: an inlined atomic operation is its caller's.
template <class Shorten>
[[nodiscard]] std::map<std::uint64_t, std::string> lines_of(
    const std::vector<std::uint64_t>& places, Shorten shorten) {
  std::map<std::uint64_t, std::string> lines;
  if (places.empty()) return lines;
  std::string command = "addr2line -ai -e " +
                        std::filesystem::read_symlink("/proc/self/exe").string() + " 2>/dev/null";
  for (const std::uint64_t place : places) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), " 0x%lx", static_cast<unsigned long>(place - 1));
    command += text.data();
  }
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return lines;
  std::array<char, 1024> line{};
  std::uint64_t place = 0;
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) {
    const std::string text = line.data();
    if (text.starts_with("0x"))
      place = std::stoull(text, nullptr, 16) + 1;
    else if (lines[place].empty())
      lines[place] = shorten(text.substr(0, text.find_first_of(" \n")));
  }
  ::pclose(pipe);
  return lines;
}

}  // namespace gantry::orders
