// Pipes and Unix sockets: the kernel copies in and out, a piece at a time, and both ends sleep.

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../support/posix.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

/// What each end reads from and writes to.
struct Wire {
  Descriptor in;
  Descriptor out;
};

struct Wires {
  Wire requester;
  Wire responder;
};

class StreamRequester final : public Requester {
 public:
  explicit StreamRequester(const Wire& wire) : wire_(wire) {}

  Result<std::uint64_t> round_trip(const Payload& payload) override {
    if (auto sent = write_all(wire_.out.get(), payload.bytes()); !sent) {
      return Unexpected(sent.error());
    }
    std::uint64_t sum = 0;
    const auto got = read_all(wire_.in.get(), std::as_writable_bytes(std::span(&sum, 1)));
    if (!got) return Unexpected(got.error());
    return sum;
  }

 private:
  const Wire& wire_;
};

class StreamResponder final : public Responder {
 public:
  StreamResponder(const Wire& wire, Bytes bytes) : wire_(wire), mine_(bytes) {}

  Result<void> serve() override {
    if (auto got = read_all(wire_.in.get(), mine_.bytes()); !got) return got;
    const std::uint64_t sum = checksum(mine_.bytes());
    return write_all(wire_.out.get(), std::as_bytes(std::span(&sum, 1)));
  }

 private:
  const Wire& wire_;
  Buffer mine_;
};

class Streams final : public Subject {
 public:
  Streams(Wires wires, Bytes bytes) : wires_(std::move(wires)), bytes_(bytes) {}

  // Each end keeps its own descriptors only, so that the other's death is an end of file.
  Result<std::unique_ptr<Requester>> open_requester() override {
    wires_.responder = {};
    return std::make_unique<StreamRequester>(wires_.requester);
  }
  Result<std::unique_ptr<Responder>> open_responder() override {
    wires_.requester = {};
    return std::make_unique<StreamResponder>(wires_.responder, bytes_);
  }

 private:
  Wires wires_;
  Bytes bytes_;
};

struct Pipe {
  Descriptor out;
  Descriptor in;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Unexpected(system_error("pipe"));
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

Result<std::unique_ptr<Subject>> make_pipes(const Case& size) {
  auto request = make_pipe();
  auto reply = make_pipe();
  if (!request) return Unexpected(request.error());
  if (!reply) return Unexpected(reply.error());
  Wires wires{{std::move(reply->out), std::move(request->in)},
              {std::move(request->out), std::move(reply->in)}};
  return std::make_unique<Streams>(std::move(wires), size.bytes);
}

Result<std::unique_ptr<Subject>> make_sockets(const Case& size) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Unexpected(system_error("socketpair"));
  }
  Wires wires{{Descriptor(ends[0]), Descriptor(::dup(ends[0]))},
              {Descriptor(ends[1]), Descriptor(::dup(ends[1]))}};
  return std::make_unique<Streams>(std::move(wires), size.bytes);
}

}  // namespace

SubjectKind pipe_stream() {
  return {.name = "pipe", .make = make_pipes};
}
SubjectKind unix_socket() {
  return {.name = "unix-socket", .make = make_sockets};
}

}  // namespace gantry::bench
