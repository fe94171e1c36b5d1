#pragma once  // tools/gantry/look/serve/http_server.hpp: answers requests, in one thread.

#include <functional>
#include <gantry/bridge.hpp>
#include <gantry/types.hpp>
#include <list>

#include "interrupt.hpp"
#include "look/serve/http.hpp"

namespace gantry::cli {

/// Listens, and answers. A caller that is slow, silent or gone keeps nobody else: a caller becomes
/// a connection once it has said something, and is heard before the next one is let in. Move-only.
class HttpServer {
 public:
  using Answer = std::function<HttpResponse(const HttpRequest&)>;
  /// With more the longest idle one is closed, before any that an answer is on its way to.
  static constexpr std::size_t kConnections = 64;
  static constexpr std::chrono::seconds kPatience{30};  ///< With a caller that does nothing.
  static constexpr std::chrono::seconds kLinger{2};     ///< With one that has its last answer.

  /// Port "0": a free one. Errors: those of listen_at().
  [[nodiscard]] static Result<HttpServer> listen(const BridgeAddress& where,
                                                 const Interrupt& interrupt);
  HttpServer(HttpServer&& other) noexcept;
  HttpServer& operator=(HttpServer&& other) noexcept;
  ~HttpServer();

  [[nodiscard]] std::string address() const;  ///< "127.0.0.1:9464", with the port in use.
  [[nodiscard]] bool is_loopback() const;     ///< Only this host can call.
  /// Until `interrupt` is raised. Errors: `interrupted`, `system`.
  [[nodiscard]] Result<void> serve(const Interrupt& interrupt, const Answer& answer);

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    int socket = -1;
    std::string in;
    std::string out;
    std::size_t sent = 0;
    bool ends = false;     ///< When everything is sent.
    bool is_over = false;  ///< Everything is sent; what still comes is dropped.
    Clock::time_point active;
  };
  explicit HttpServer(int socket) : socket_(socket) {}
  void accept_some(const Answer& answer);
  void make_room();
  static bool go_on(Connection& connection, short events, const Answer& answer);
  static bool receive(Connection& connection);
  static bool send_rest(Connection& connection);
  void close_one(std::list<Connection>::iterator one);

  int socket_ = -1;
  bool is_full_ = false;  ///< No descriptor was left for the newest caller.
  std::list<Connection> connections_;
};

}  // namespace gantry::cli
