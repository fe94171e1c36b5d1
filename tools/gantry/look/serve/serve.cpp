// gantry serve: metrics and a live page of a runtime directory's channels.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <gantry/bridge.hpp>

#include "commands.hpp"
#include "directory.hpp"
#include "errors.hpp"
#include "look/serve/http_server.hpp"
#include "look/serve/metrics_text.hpp"
#include "look/serve/site.hpp"

namespace gantry::cli {
namespace {

constexpr const char* kMakeToken =
    "make one for this: (umask 077; head -c 32 /dev/urandom | base64 >FILE)";
constexpr const char* kPort = "9464";
constexpr std::chrono::milliseconds kLastLook{100};

struct ServeOptions {
  std::string listen = "127.0.0.1";
  std::string directory;
  std::string token_file;
};

/// Errors: besides those of the file, the bridge's own token, which never travels readable, as this
/// one does.
Result<std::string> read_token(const std::string& path) {
  const char* const bridges = std::getenv("GANTRY_TOKEN_FILE");
  std::error_code missing;
  if (bridges != nullptr && std::filesystem::equivalent(path, bridges, missing))
    return tl::unexpected(Error{
        Code::invalid_argument,
        fmt::format("token file '{}': it is the bridge's, and browsers send theirs readable", path),
        kMakeToken});
  auto token = read_bridge_token(path);
  if (!token) token.error().hint = kMakeToken;
  return token;
}

Result<HttpServer> listen(const ServeOptions& options, const Interrupt& interrupt) {
  auto where = parse_bridge_address(options.listen);
  if (!where) {
    where.error().hint =
        "write ADDRESS[:PORT], as in 127.0.0.1:9464";  // it takes no tls:, no unix:
    return tl::unexpected(where.error());
  }
  if (where->is_encrypted || !where->path.empty())
    return tl::unexpected(Error{Code::unsupported,
                                fmt::format("{}: a browser calls ADDRESS[:PORT]", where->text()),
                                "put a server that encrypts in front of it"});
  if (where->port.empty()) where->port = kPort;
  auto server = HttpServer::listen(*where, interrupt);
  if (server && !server->is_loopback() && options.token_file.empty())
    return tl::unexpected(Error{Code::permission_denied,
                                fmt::format("{}: other hosts could look in", server->address()),
                                "give a token (--token-file), or listen on 127.0.0.1 and let "
                                "others come by ssh -L"});
  return server;
}

Result<void> serve(const ServeOptions& options) {
  auto interrupt = Interrupt::create();
  if (!interrupt) return tl::unexpected(interrupt.error());
  const std::string directory = channel_directory_path(options.directory);
  if (const auto exists = directory_exists(directory); !exists)
    return tl::unexpected(exists.error());
  else if (!*exists && !options.directory.empty())
    return tl::unexpected(Error{Code::not_found, directory + ": there is no such directory",
                                "name one that programs have their channels in"});
  else if (const auto fine = can_look_into(options.directory); *exists && !fine)
    return tl::unexpected(fine.error());
  std::string token;
  if (!options.token_file.empty()) {
    auto read = read_token(options.token_file);
    if (!read) return tl::unexpected(read.error());
    token = std::move(*read);
  }
  auto server = listen(options, *interrupt);
  if (!server) return tl::unexpected(server.error());
  if (!kHasMetrics) note(fmt::format("serve: no /metrics: {}; {}", kNoMetrics, kMendMetrics));
  Collector collector(options.directory, *interrupt);
  Site site(collector, directory, std::move(token));
  note(fmt::format("serve: http://{}/ shows the channels in {}; nothing that travels is encrypted",
                   server->address(), directory));
  auto served = server->serve(*interrupt,
                              [&site](const HttpRequest& request) { return site.answer(request); });
  // It asks producers that do not answer, which nobody has to wait for: it has nothing to clean up.
  if (!collector.stop(kLastLook)) std::_Exit(served ? 0 : fail(served.error()));
  return served;
}

}  // namespace

void add_serve(const Command& command, int& exit_code) {
  auto options = std::make_shared<ServeOptions>();
  command
      ->add_option("--listen", options->listen,
                   "Where (default 127.0.0.1:9464); if other hosts can reach it, add --token-file")
      ->type_name("ADDRESS[:PORT]");
  command
      ->add_option("--token-file", options->token_file,
                   "The secret, 16 to 64 bytes: a browser's password, a scraper's bearer token")
      ->type_name("FILE");
  command
      ->add_option("--directory", options->directory,
                   "Where to look (default $GANTRY_DIR, or the user's runtime directory)")
      ->type_name("DIRECTORY");
  command->footer(
      "Runs until it is interrupted, and looks twice a second. The page is\n"
      "at /, metrics at /metrics, the page's data at /status.json. Traffic is\n"
      "not encrypted.\n"
      "Example: gantry serve --listen 127.0.0.1:9464");
  command->callback([options, &exit_code] {
    const auto done = serve(*options);
    exit_code = done ? 0 : fail(done.error());
  });
}

}  // namespace gantry::cli
