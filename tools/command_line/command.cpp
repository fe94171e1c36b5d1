#include "tools/command_line/command.hpp"

#include <CLI/CLI.hpp>

namespace gantry::cli {

void refuse_word(const std::string& name, const std::string& why) {
  throw CLI::ValidationError(name, why);
}

// ---- options -----------------------------------------------------------------------------------

Option Option::required() const {
  option_->required();
  return *this;
}
Option Option::type_name(const std::string& name) const {
  option_->type_name(name);
  return *this;
}
Option Option::excludes(const Option& other) const {
  option_->excludes(other.option_);
  return *this;
}
Option Option::expected(int least, int most) const {
  option_->expected(least, most);
  return *this;
}
Option Option::repeated() const {
  option_->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return *this;
}
Option Option::allow_extra_args(bool allows) const {
  option_->allow_extra_args(allows);
  return *this;
}
Option Option::envname(const std::string& variable) const {
  option_->envname(variable);
  return *this;
}
Option Option::check(const std::function<std::string(const std::string&)>& find) const {
  option_->check(find);
  return *this;
}

// ---- commands ----------------------------------------------------------------------------------

Command Command::add_subcommand(const std::string& name, const std::string& help) const {
  return Command(app_->add_subcommand(name, help));
}
void Command::require_subcommand(int count) const {
  app_->require_subcommand(count);
}
Option Command::add_option(const std::string& name, std::string& value,
                           const std::string& help) const {
  return Option(app_->add_option(name, value, help));
}
Option Command::add_option(const std::string& name, std::vector<std::string>& values,
                           const std::string& help) const {
  return Option(app_->add_option(name, values, help));
}
Option Command::add_option(const std::string& name, std::vector<std::int64_t>& values,
                           const std::string& help) const {
  return Option(app_->add_option(name, values, help));
}
Option Command::add_flag(const std::string& name, bool& value, const std::string& help) const {
  return Option(app_->add_flag(name, value, help));
}
Option Command::add_function(const std::string& name,
                             const std::function<void(const std::string&)>& take,
                             const std::string& help) const {
  return Option(app_->add_option_function<std::string>(name, take, help));
}
Option Command::add_functions(const std::string& name,
                              const std::function<void(const std::vector<std::string>&)>& take,
                              const std::string& help) const {
  return Option(app_->add_option_function<std::vector<std::string>>(name, take, help));
}
void Command::footer(const std::string& text) const {
  app_->footer(text);
}
void Command::footer(std::function<std::string()> text) const {
  app_->footer(std::move(text));
}
void Command::callback(std::function<void()> run) const {
  app_->callback(std::move(run));
}
void Command::prefix_command() const {
  app_->prefix_command();
}
std::vector<std::string> Command::remaining() const {
  return app_->remaining();
}
std::size_t Command::count(const std::string& name) const {
  return app_->count(name);
}
void Command::hide() const {
  app_->group("");
}

}  // namespace gantry::cli
