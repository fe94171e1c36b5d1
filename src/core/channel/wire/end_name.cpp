#include "core/channel/wire/end_name.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <fstream>

namespace gantry {
namespace {

constexpr std::string_view kInterpreters[] = {"python", "bash", "sh",   "dash",
                                              "perl",   "ruby", "node", "gantry"};

std::string_view file_of(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

// What follows an interpreter's name says more than that.
std::string own_command() {
  std::ifstream words("/proc/self/cmdline", std::ios::binary);
  std::string first;
  std::string second;
  std::getline(words, first, '\0');
  std::getline(words, second, '\0');
  std::string command(file_of(first));
  const bool is_interpreter = std::ranges::any_of(kInterpreters, [&](std::string_view one) {
    return command.starts_with(one) &&
           command.find_first_not_of("0123456789.", one.size()) == std::string::npos;
  });
  if (!is_interpreter || second.empty() || second.starts_with('-')) return command;
  return fmt::format("{} {}", command, file_of(second));
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): as directory.cpp
  return value == nullptr ? "" : value;
}

unsigned number_of(const std::string& text, unsigned otherwise) {
  unsigned number = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

WireName::Text encoded(std::string_view text) noexcept {
  WireName::Text to{};
  text.copy(to.data(), to.size() - 1);
  return to;
}

std::string decoded(const WireName::Text& text) {
  std::string to(text.data(),
                 static_cast<std::size_t>(std::ranges::find(text, '\0') - text.begin()));
  std::ranges::replace_if(to, [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return to;
}

}  // namespace

std::string EndName::text() const {
  if (stage.empty()) return command;
  return replicas > 1 ? fmt::format("{}.{}", stage, replica) : stage;
}

EndName own_end_name() {
  EndName name;
  std::array<char, HOST_NAME_MAX + 1> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) name.host = host.data();
  name.command = own_command();
  name.stage = variable("GANTRY_STAGE");
  if (name.stage.empty()) return name;
  name.replica = number_of(variable("GANTRY_REPLICA"), 0);
  name.replicas = number_of(variable("GANTRY_REPLICAS"), 1);
  return name;
}

EndName name_of(const EndOptions& options) {
  return options.acts_for ? *options.acts_for : own_end_name();
}

WireName encode_name(const EndName& name) noexcept {
  return {encoded(name.host), encoded(name.command), encoded(name.stage), name.replica,
          name.replicas};
}

EndName decode_name(const WireName& page) {
  const WireName copy = page;
  return {decoded(copy.host), decoded(copy.command), decoded(copy.stage), copy.replica,
          copy.replicas};
}

}  // namespace gantry
