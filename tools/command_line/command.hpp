#pragma once  // tools/command_line/command.hpp: commands and their options, without the headers of
              // CLI11, which take seconds in each file that includes them.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace gantry::cli {

/// Options whose value, and arguments which, are the name of a channel have this type.
inline constexpr const char* kChannelType = "CHANNEL";

/// Wrong usage: what stands behind the option, or the command, `name` is refused.
[[noreturn]] void refuse_word(const std::string& name, const std::string& why);

/// An option or an argument of a command. A handle: its functions change what it stands for.
class Option {
 public:
  explicit Option(CLI::Option* option) noexcept : option_(option) {}
  const Option* operator->() const noexcept { return this; }

  Option required() const;
  Option type_name(const std::string& name) const;
  /// Only one of both is given.
  Option excludes(const Option& other) const;
  /// From `least` to `most` words; -1: any number.
  Option expected(int least, int most) const;
  /// One word each time; it may be given several times.
  Option repeated() const;
  Option allow_extra_args(bool allows) const;
  /// The variable of the environment that gives it otherwise.
  Option envname(const std::string& variable) const;
  /// What `find` says is wrong with a word is refused; empty: nothing.
  Option check(const std::function<std::string(const std::string&)>& find) const;

 private:
  CLI::Option* option_;
};

/// A command, or a command of one. A handle.
class Command {
 public:
  explicit Command(CLI::App* app) noexcept : app_(app) {}
  const Command* operator->() const noexcept { return this; }
  const Command& operator*() const noexcept { return *this; }

  [[nodiscard]] Command add_subcommand(const std::string& name, const std::string& help) const;
  /// So many of them are given.
  void require_subcommand(int count) const;

  Option add_option(const std::string& name, std::string& value, const std::string& help) const;
  Option add_option(const std::string& name, std::vector<std::string>& values,
                    const std::string& help) const;
  Option add_option(const std::string& name, std::vector<std::int64_t>& values,
                    const std::string& help) const;
  Option add_flag(const std::string& name, bool& value, const std::string& help) const;
  /// `take` gets what is given.
  Option add_function(const std::string& name, const std::function<void(const std::string&)>& take,
                      const std::string& help) const;
  Option add_functions(const std::string& name,
                       const std::function<void(const std::vector<std::string>&)>& take,
                       const std::string& help) const;

  void footer(const std::string& text) const;
  void footer(std::function<std::string()> text) const;
  /// Runs it.
  void callback(std::function<void()> run) const;

  /// From the first word that is no option of this command on all words are left over.
  void prefix_command() const;
  [[nodiscard]] std::vector<std::string> remaining() const;
  /// How often an option was given.
  [[nodiscard]] std::size_t count(const std::string& name) const;
  /// Help does not list it.
  void hide() const;

  /// For those who read the tables of commands.
  [[nodiscard]] CLI::App& app() const noexcept { return *app_; }

 private:
  CLI::App* app_;
};

}  // namespace gantry::cli
