// gantry bridge: lets other hosts reach the channels of this one.
#include <fmt/format.h>
#include <unistd.h>

#include <gantry/bridge.hpp>
#include <gantry/runtime.hpp>

#include "channel_options.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "interrupt.hpp"
#include "options.hpp"

namespace gantry::cli {
namespace {

struct BridgeCommand {
  std::string listen;
  std::string token_file;
  unsigned sessions = BridgeOptions{}.sessions;
  RemoteTimes remote;
  bool is_quiet = false;
};

Result<void> serve(const BridgeCommand& command) {
  auto interrupt = Interrupt::create();
  if (!interrupt) return tl::unexpected(interrupt.error());
  auto token = read_bridge_token(command.token_file);
  if (!token) return tl::unexpected(token.error());
  auto runtime = Runtime::create();
  if (!runtime) return tl::unexpected(runtime.error());
  BridgeOptions options;
  options.listen = command.listen;
  options.token = *token;
  options.sessions = command.sessions;
  command.remote.set(options);
  options.interrupt_descriptor = interrupt->descriptor();
  if (!command.is_quiet) options.on_event = [](const std::string& line) { note_with_time(line); };
  auto bridge = Bridge::open(options, runtime->default_engine());
  if (!bridge) return tl::unexpected(bridge.error());
  const std::string address = bridge->address();
  const bool is_encrypted = address.starts_with("tls:");
  if (!command.is_quiet)
    note_with_time(fmt::format("bridge: listening on {}; {} that travels is encrypted", address,
                               is_encrypted ? "all" : "nothing"));
  auto served = bridge->serve();
  if (!served) return served;
  return tl::unexpected(Error{Code::interrupted, "interrupted", {}});
}

Result<unsigned> parse_sessions(std::string_view text) {
  return parse_number(text, 1, 4096).map([](std::uint64_t number) {
    return static_cast<unsigned>(number);
  });
}

}  // namespace

void add_bridge(const Command& command, int& exit_code) {
  auto options = std::make_shared<BridgeCommand>();
  command
      ->add_option(
          "--listen", options->listen,
          "An address of this host (0.0.0.0: all); behind tls: it encrypts; or a socket's path")
      ->type_name("[tls:]ADDRESS[:PORT]|unix:/PATH")
      ->required();
  command
      ->add_option("--token-file", options->token_file,
                   "The secret, 16 to 64 bytes, which opens every channel of this user")
      ->type_name("FILE")
      ->envname("GANTRY_TOKEN_FILE")
      ->required();
  add_parsed(*command, "--sessions", options->sessions, &parse_sessions, "NUMBER",
             "Ends of other hosts at a time (default 256)");
  add_remote_times(*command, options->remote);
  command->add_flag("--quiet", options->is_quiet, "Print only errors");
  command->footer(
      "Runs until it is interrupted. Another host then takes channel NAME of this host\n"
      "as NAME@HOST, with the same token in the file that $GANTRY_TOKEN_FILE names;\n"
      "NAME@tls:HOST of a bridge that encrypts (TLS 1.3 under the token).\n"
      "Example: gantry bridge --listen 10.0.0.2 --token-file ~/.gantry-token");
  command->callback([options, &exit_code] {
    const auto done = serve(*options);
    exit_code = done ? 0 : fail(done.error());
  });
}

}  // namespace gantry::cli
