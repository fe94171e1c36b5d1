#include "net/remote/tcp.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <list>
#include <mutex>
#include <optional>
#include <vector>

#include "core/base/assert.hpp"
#include "core/base/event.hpp"
#include "core/base/os/socket.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/base/result.hpp"

namespace gantry {
namespace {

struct Question {
  HostPort where;
  int flags = 0;
  NameService service = nullptr;

  [[nodiscard]] bool is_same(const Question& other) const {
    return where.host == other.where.host && where.port == other.where.port &&
           flags == other.flags && service == other.service;
  }
};

Result<Addresses> ask(const Question& question) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = question.flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const HostPort& where = question.where;
  const int error = question.service(where.host.c_str(), where.port.c_str(), &wanted, &found);
  if (error == 0)
    return Addresses(found, [](const addrinfo* all) {
      ::freeaddrinfo(const_cast<addrinfo*>(all));  // NOLINT: it takes no other
    });
  if (error == EAI_MEMORY) return fail(Code::out_of_memory, "out of memory");
  if (error == EAI_SYSTEM) return fail_errno(fmt::format("host '{}'", where.host));
  return fail(Code::not_found, fmt::format("host '{}': {}", where.host, ::gai_strerror(error)),
              "check the name; an address works without a name server");
}

/// A question that a thread asks. The thread shares it, and nothing else: it may outlast whoever
/// waits, and the library's other objects.
struct Inquiry {
  explicit Inquiry(Question asked, Fd event) : question(std::move(asked)), done(std::move(event)) {}

  void work() {
    auto found = guarded([&] { return ask(question); });
    const std::lock_guard lock(mutex);
    answer = std::move(found);
    ring(done.get());
  }
  [[nodiscard]] std::optional<Result<Addresses>> result() {
    const std::lock_guard lock(mutex);
    return answer;
  }

  const Question question;
  const Fd done;                     // an event: the answer is there
  const pid_t process = ::getpid();  // a fork()ed child has no such thread
  std::mutex mutex;                  // guards what follows
  std::optional<Result<Addresses>> answer;
};

/// Inquiries without an answer. Never destroyed: threads may outlast main().
struct Inquiries {
  std::mutex mutex;
  std::list<std::weak_ptr<Inquiry>> all;
};
Inquiries& inquiries() {
  static auto* const made = new Inquiries;  // NOLINT: see there
  return *made;
}

Result<std::shared_ptr<Inquiry>> start(Question question) {
  GANTRY_ASSIGN(Fd done, make_event());
  auto inquiry = std::make_shared<Inquiry>(std::move(question), std::move(done));
  GANTRY_ASSIGN(std::thread thread, start_thread("a thread that looks a host's name up",
                                                 [inquiry] { inquiry->work(); }));
  thread.detach();
  return inquiry;
}

/// The one that runs for that question, or a new one. A child of fork() may find the lock taken for
/// ever, and asks for itself then.
Result<std::shared_ptr<Inquiry>> share(Question question) {
  const std::unique_lock lock(inquiries().mutex, std::try_to_lock);
  if (!lock) return start(std::move(question));
  auto& all = inquiries().all;
  std::erase_if(all, [](const auto& one) {
    const auto inquiry = one.lock();
    return !inquiry || inquiry->process != ::getpid() || inquiry->result();
  });
  for (const auto& one : all)
    if (auto inquiry = one.lock(); inquiry && inquiry->question.is_same(question)) return inquiry;
  GANTRY_ASSIGN(auto inquiry, start(std::move(question)));
  all.push_back(inquiry);
  return inquiry;
}

// RFC 8305, section 5.
constexpr std::chrono::milliseconds kAttemptDelay{250};

/// Addresses of one host that are tried at once, one more each kAttemptDelay or when one has
/// failed. The first that answers is taken: RFC 8305.
class ConnectionRace {
 public:
  explicit ConnectionRace(Addresses addresses)
      : addresses_(std::move(addresses)), next_(addresses_.get()) {}

  /// `refusal`: errno of the last one that failed. Errors: `timed_out`, `interrupted`, `system`,
  /// `not_found` when all have failed.
  Result<Fd> run(int interrupt, Deadline deadline, int& refusal) {
    for (;;) {
      if (next_ != nullptr && (running_.empty() || next_at_.passed())) {
        if (auto socket = begin(*next_, refusal)) return *std::move(socket);
        next_ = next_->ai_next;
        continue;
      }
      if (running_.empty()) return fail(Code::not_found, "none of its addresses answers");
      GANTRY_TRY(await_some(interrupt, deadline));
      if (auto socket = reap(refusal)) return *std::move(socket);
    }
  }

 private:
  std::optional<Fd> begin(const addrinfo& address, int& refusal) {
    Fd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket && ::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return socket;
    if (socket && errno == EINPROGRESS) {
      running_.push_back(std::move(socket));
      next_at_ = Deadline::after(kAttemptDelay);
    } else {
      refusal = errno;
    }
    return {};
  }

  Result<void> await_some(int interrupt, Deadline deadline) {
    std::vector<pollfd> entries{{interrupt, POLLIN, 0}};
    for (const Fd& socket : running_) entries.push_back({socket.get(), POLLOUT, 0});
    const auto left =
        next_ == nullptr ? deadline.left() : std::min(deadline.left(), next_at_.left());
    const int ready =
        ::poll(entries.data(), entries.size(), poll_timeout_ms(Deadline::after(left)));
    if (ready < 0 && errno != EINTR) return fail_errno("poll");
    if (ready > 0 && entries[0].revents != 0) return fail(Code::interrupted, "interrupted");
    if (ready == 0 && deadline.passed()) return fail(Code::timed_out, "no answer in time");
    return {};
  }

  std::optional<Fd> reap(int& refusal) {
    for (auto one = running_.begin(); one != running_.end();) {
      pollfd entry{one->get(), POLLOUT, 0};
      if (::poll(&entry, 1, 0) <= 0) {
        ++one;
        continue;
      }
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(one->get(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error == 0) return std::move(*one);
      refusal = error;
      one = running_.erase(one);
    }
    return {};
  }

  const Addresses addresses_;
  const addrinfo* next_;
  Deadline next_at_ = Deadline::now();
  std::vector<Fd> running_;
};

/// A host that answers has no bridge at that port; another one is not reached at all.
const char* hint_of_refusal(int refusal, const HostPort& where) {
  if (refusal != ECONNREFUSED)
    return "see whether the address is right, the host is up, and a network leads there";
  return where.is_encrypted
             ? "start a bridge there: gantry bridge --listen tls:ADDRESS --token-file FILE"
             : "start a bridge there: gantry bridge --listen ADDRESS --token-file FILE";
}

std::string text_of_unix(int socket, const sockaddr_storage& address, socklen_t size) {
  const auto& name = reinterpret_cast<const sockaddr_un&>(address);
  if (size > offsetof(sockaddr_un, sun_path) && name.sun_path[0] != '\0')
    return HostPort{{}, {}, name.sun_path}.text();
  const auto who = peer_of(socket);
  return who && who->pid > 0 ? fmt::format("process {}", who->pid)
                             : "a process of another namespace";
}

std::string text_of(int (*name_of)(int, sockaddr*, socklen_t*), int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* const words = reinterpret_cast<sockaddr*>(&address);
  if (name_of(socket, words, &size) != 0) return "?";
  if (words->sa_family == AF_UNIX) return text_of_unix(socket, address, size);
  if (::getnameinfo(words, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "?";
  return HostPort{host.data(), port.data()}.text();
}

}  // namespace

Result<Addresses> look_up(const HostPort& where, int flags, int interrupt, Deadline deadline,
                          NameService service) {
  auto numeric = ask({where, flags | AI_NUMERICHOST, &::getaddrinfo});
  if (numeric) return numeric;
  GANTRY_ASSIGN(const auto inquiry, share({where, flags, service}));
  const auto waited = await_socket(inquiry->done.get(), POLLIN, interrupt, deadline);
  if (auto answer = inquiry->result()) return *std::move(answer);
  GANTRY_ASSERT(!waited);  // the event is rung behind the answer
  if (waited.error().code != Code::timed_out) return tl::unexpected(waited.error());
  return fail(Code::timed_out,
              fmt::format("host '{}': no name server has answered yet", where.host),
              "check the name and the name server; an address works without one");
}

Result<void> await_socket(int socket, short events, int interrupt, Deadline deadline) {
  for (;;) {
    std::array<pollfd, 2> entries{pollfd{socket, events, 0}, pollfd{interrupt, POLLIN, 0}};
    const int ready = ::poll(entries.data(), entries.size(), poll_timeout_ms(deadline));
    if (ready < 0 && errno != EINTR) return fail_errno("poll");
    if (ready < 0) continue;
    if (entries[1].revents != 0) return fail(Code::interrupted, "interrupted");
    if (entries[0].revents != 0) return {};
    if (deadline.passed()) return fail(Code::timed_out, "no answer in time");
  }
}

void set_up_tcp(int socket) noexcept {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Result<Fd> connect_tcp(const HostPort& where, int interrupt, Deadline deadline,
                       NameService service) {
  GANTRY_ASSIGN(Addresses addresses, look_up(where, AI_ADDRCONFIG, interrupt, deadline, service));
  int refusal = 0;
  auto socket = ConnectionRace(std::move(addresses)).run(interrupt, deadline, refusal);
  if (socket) {
    set_up_tcp(socket->get());
    return socket;
  }
  const Code code = socket.error().code;
  if (code == Code::interrupted || code == Code::system) return socket;
  if (code == Code::timed_out)
    return fail(code, fmt::format("{}: {}", where.text(), socket.error().message),
                "the host is down, or something on the way drops what is sent");
  const Error why = fail_errno("connect", refusal).value();
  return fail(code, fmt::format("{}: {}", where.text(), why.message),
              hint_of_refusal(refusal, where));
}

Result<int> connect_host(const BridgeAddress& where, int interrupt_descriptor, Deadline deadline) {
  GANTRY_ASSIGN(Fd socket, connect_tcp(where, interrupt_descriptor, deadline));
  if (::fcntl(socket.get(), F_SETFL, 0) != 0) return fail_errno("fcntl");
  return socket.release();
}

Result<Fd> listen_tcp(const HostPort& where, int interrupt, Deadline deadline) {
  GANTRY_ASSIGN(const Addresses addresses, look_up(where, AI_PASSIVE, interrupt, deadline));
  const addrinfo& address = *addresses;
  Fd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno("socket");
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno == EADDRINUSE)
      return fail(Code::already_exists,
                  fmt::format("{}: another process listens there", where.text()),
                  "end it, or choose another port (0: any that is free)");
    if (errno == EADDRNOTAVAIL)
      return fail(Code::not_found, fmt::format("{}: this host has no such address", where.text()),
                  "ip address lists those it has");
    return fail_errno(fmt::format("listening on {}", where.text()));
  }
  if (::listen(socket.get(), SOMAXCONN) != 0) return fail_errno("listen");
  return socket;
}

Result<int> listen_at(const BridgeAddress& where, int interrupt_descriptor) {
  GANTRY_ASSIGN(Fd socket, listen_tcp(where, interrupt_descriptor));
  return socket.release();
}

std::string own_address(int socket) {
  return text_of(&::getsockname, socket);
}
std::string peer_address(int socket) {
  return text_of(&::getpeername, socket);
}

Result<void> send_exactly(int socket, ConstByteSpan bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      GANTRY_TRY(await_socket(socket, POLLOUT, -1, deadline));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return fail(Code::peer_gone, "it closed the connection");
    } else if (errno != EINTR) {
      return fail_errno("send");
    }
  }
  return {};
}

Result<void> receive_exactly(int socket, ByteSpan into, int interrupt, Deadline deadline) {
  while (!into.empty()) {
    const auto got = ::recv(socket, into.data(), into.size(), MSG_DONTWAIT);
    if (got > 0) {
      into = into.subspan(static_cast<std::size_t>(got));
    } else if (got == 0 || errno == ECONNRESET) {
      return fail(Code::peer_gone, "it closed the connection");
    } else if (errno == EAGAIN) {
      GANTRY_TRY(await_socket(socket, POLLIN, interrupt, deadline));
    } else if (errno != EINTR) {
      return fail_errno("recv");
    }
  }
  return {};
}

}  // namespace gantry
