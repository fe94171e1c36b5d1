#include "remote/look_up.hpp"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <list>
#include <mutex>

#include "base/event.hpp"
#include "base/result.hpp"
#include "base/socket.hpp"
#include "base/worker_thread.hpp"

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

}  // namespace

Result<Addresses> look_up(const HostPort& where, int flags, int interrupt, Deadline deadline,
                          NameService service) {
  auto numeric = ask({where, flags | AI_NUMERICHOST, &::getaddrinfo});
  if (numeric) return numeric;
  GANTRY_ASSIGN(const auto inquiry, share({where, flags, service}));
  for (;;) {
    std::array<pollfd, 2> entries{pollfd{inquiry->done.get(), POLLIN, 0},
                                  pollfd{interrupt, POLLIN, 0}};
    const int ready = ::poll(entries.data(), entries.size(), poll_timeout_ms(deadline));
    if (ready < 0 && errno != EINTR) return fail_errno("poll");
    if (auto answer = inquiry->result()) return *std::move(answer);
    if (ready > 0 && entries[1].revents != 0) return fail(Code::interrupted, "interrupted");
    if (deadline.passed())
      return fail(Code::timed_out,
                  fmt::format("host '{}': no name server has answered yet", where.host),
                  "check the name and the name server; an address works without one");
  }
}

}  // namespace gantry
