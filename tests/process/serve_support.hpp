#pragma once  // tests/process/serve_support.hpp: `gantry serve` on a port of its own, and callers.

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli_support.hpp"

namespace gantry::test {

inline std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A connection to 127.0.0.1.
class Caller {
 public:
  explicit Caller(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  ~Caller() { ::close(socket_); }
  void say(std::string_view text) const {
    EXPECT_EQ(::send(socket_, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  /// So many bytes.
  [[nodiscard]] std::string hear(std::size_t size) const {
    std::string text(size, '\0');
    const ssize_t got = ::recv(socket_, text.data(), size, MSG_WAITALL);
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }
  /// Until the server ends the connection.
  [[nodiscard]] std::string hear_all() const {
    std::string all;
    std::array<char, 65536> bytes{};
    for (ssize_t got = 0; (got = ::recv(socket_, bytes.data(), bytes.size(), 0)) > 0;)
      all.append(bytes.data(), static_cast<std::size_t>(got));
    return all;
  }

 private:
  int socket_;
};

class Serve : public Cli {
 protected:
  /// Runs it on a free port, with what it says in a file.
  [[nodiscard]] Subprocess serving(const std::vector<std::string>& more = {},
                                   const std::string& listen = "127.0.0.1:0") {
    Command command = gantry({"serve", "--listen", listen});
    command.argv.insert(command.argv.end(), more.begin(), more.end());
    const std::string said = files_.file("said");
    ::unlink(said.c_str());
    command.argv.insert(command.argv.begin(), {"sh", "-c", "exec \"$0\" \"$@\" 2>" + said});
    Subprocess server(command);
    EXPECT_TRUE(eventually(
        [&] { return contents(said).find(" shows the channels") != std::string::npos; }));
    const std::string text = contents(said);
    const auto end = text.find("/ shows the channels");
    const auto colon = text.rfind(':', end);
    port_ = std::stoi(text.substr(colon + 1, end - colon - 1));
    return server;
  }
  [[nodiscard]] std::string ask(const std::string& path, const std::string& fields = {},
                                const std::string& host = "localhost") const {
    const Caller caller(port_);
    caller.say("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" + fields +
               "\r\n");
    return caller.hear_all();
  }
  [[nodiscard]] std::string body(const std::string& path) const {
    const std::string answer = ask(path);
    EXPECT_THAT(answer, ::testing::StartsWith("HTTP/1.1 200 OK\r\n"));
    const auto at = answer.find("\r\n\r\n");
    return at == std::string::npos ? "" : answer.substr(at + 4);
  }
  [[nodiscard]] nlohmann::json status() const {
    return nlohmann::json::parse(body("/status.json"));
  }
  /// Of the sample whose name and labels are `series`; -1 without it.
  [[nodiscard]] double metric(const std::string& series) const {
    std::istringstream lines(body("/metrics"));
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with(series + " ")) return std::stod(line.substr(series.size() + 1));
    return -1;
  }
  [[nodiscard]] bool has_metrics() const { return ask("/metrics").starts_with("HTTP/1.1 200"); }
  /// A file that only its owner can read.
  std::string token_file(const std::string& name, const std::string& token) const {
    const std::string path = files_.file(name);
    std::ofstream(path) << token << "\n";
    ::chmod(path.c_str(), 0600);
    return path;
  }

  ScratchDirectory files_;
  int port_ = 0;
};

}  // namespace gantry::test
