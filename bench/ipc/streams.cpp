// Pipes and Unix sockets: the kernel copies in and out, a piece at a time. Both ends sleep, or,
// where that was asked for, try again and again.

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../support/system/posix.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr unsigned kMostInFlight = 4;
constexpr unsigned kMostReaders = 4;
constexpr int kPipeBytes = 1 << 20;  // what anybody may have; fewer turns of writer and reader

/// What an end reads from and writes to.
struct Wire {
  Descriptor in;
  Descriptor out;
};

/// Both ends of what connects the requester to one responder.
struct Wires {
  Wire requester;
  Wire responder;
};

class StreamRequester final : public Requester {
 public:
  StreamRequester(std::vector<Wires>& wires, Case what) : wires_(wires), what_(std::move(what)) {}

  Result<void> send(const Payload& payload) override {
    for (const Wires& wires : wires_)
      for (const ConstByteSpan part : parts_of(what_, payload.bytes()))
        if (auto sent = write_all(wires.requester.out.get(), part); !sent) return sent;
    return {};
  }

  Result<std::uint64_t> receive() override {
    std::uint64_t sum = 0;
    const int in = wires_[reader_].requester.in.get();
    const auto got = read_all(in, std::as_writable_bytes(std::span(&sum, 1)));
    if (!got) return Unexpected(got.error());
    reader_ = (reader_ + 1) % wires_.size();
    return sum;
  }

 private:
  std::vector<Wires>& wires_;
  Case what_;
  std::size_t reader_ = 0;  // whose answer is next
};

class StreamResponder final : public Responder {
 public:
  StreamResponder(const Wire& wire, Bytes bytes) : wire_(wire), mine_(bytes) {}

  Result<std::uint64_t> receive() override {
    if (auto got = read_all(wire_.in.get(), mine_.bytes()); !got) return Unexpected(got.error());
    return checksum(mine_.bytes());
  }

  Result<void> reply(std::uint64_t sum) override {
    return write_all(wire_.out.get(), std::as_bytes(std::span(&sum, 1)));
  }

 private:
  const Wire& wire_;
  Buffer mine_;
};

class Streams final : public Subject {
 public:
  Streams(std::vector<Wires> wires, Case what) : wires_(std::move(wires)), what_(std::move(what)) {}

  // Each end keeps its own descriptors only, so that another's death is an end of file.
  Result<std::unique_ptr<Requester>> open_requester() override {
    for (Wires& wires : wires_) wires.responder = {};
    return std::make_unique<StreamRequester>(wires_, what_);
  }
  Result<std::unique_ptr<Responder>> open_responder(int reader) override {
    const auto mine = static_cast<std::size_t>(reader);
    for (std::size_t i = 0; i < wires_.size(); ++i) {
      wires_[i].requester = {};
      if (i != mine) wires_[i].responder = {};
    }
    return std::make_unique<StreamResponder>(wires_[mine].responder, what_.bytes);
  }

 private:
  std::vector<Wires> wires_;
  Case what_;
};

struct Pipe {
  Descriptor out;
  Descriptor in;
};

Result<Pipe> make_pipe(int flags) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | flags) != 0) return Unexpected(system_error("pipe"));
  ::fcntl(ends[1], F_SETPIPE_SZ, kPipeBytes);  // a refusal leaves it as it was
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

Result<Wires> make_pipes(bool polled) {
  auto request = make_pipe(polled ? O_NONBLOCK : 0);
  auto reply = make_pipe(polled ? O_NONBLOCK : 0);
  if (!request) return Unexpected(request.error());
  if (!reply) return Unexpected(reply.error());
  return Wires{{std::move(reply->out), std::move(request->in)},
               {std::move(request->out), std::move(reply->in)}};
}

Result<Wires> make_sockets(bool polled) {
  int ends[2];
  const int flags = SOCK_CLOEXEC | (polled ? SOCK_NONBLOCK : 0);
  if (::socketpair(AF_UNIX, SOCK_STREAM | flags, 0, ends) != 0)
    return Unexpected(system_error("socketpair"));
  return Wires{{Descriptor(ends[0]), Descriptor(::dup(ends[0]))},
               {Descriptor(ends[1]), Descriptor(::dup(ends[1]))}};
}

using MakeWires = Result<Wires> (*)(bool polled);

template <MakeWires make_wires, bool polled>
Result<std::unique_ptr<Subject>> make(const Case& size) {
  std::vector<Wires> all;
  for (unsigned reader = 0; reader < size.readers; ++reader) {
    auto wires = make_wires(polled);
    if (!wires) return Unexpected(wires.error());
    all.push_back(std::move(*wires));
  }
  return std::make_unique<Streams>(std::move(all), size);
}

}  // namespace

SubjectKind pipe_stream() {
  return {.name = "pipe", .make = make<make_pipes, false>, .most_in_flight = kMostInFlight};
}
SubjectKind pipe_stream_polled() {
  return {.name = "pipe/polled", .make = make<make_pipes, true>, .most_in_flight = kMostInFlight};
}
SubjectKind unix_socket() {
  return {.name = "unix-socket",
          .make = make<make_sockets, false>,
          .most_in_flight = kMostInFlight,
          .most_readers = kMostReaders};
}
SubjectKind unix_socket_polled() {
  return {.name = "unix-socket/polled",
          .make = make<make_sockets, true>,
          .most_in_flight = kMostInFlight,
          .most_readers = kMostReaders};
}

}  // namespace gantry::bench
