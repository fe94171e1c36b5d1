// Gantry itself: the request over one channel, its checksum back over another.

#include <fmt/format.h>

#include <cstring>
#include <gantry/gantry.hpp>

#include "../support/posix.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr const char* kRequests = "requests";
constexpr const char* kReplies = "replies";
constexpr std::chrono::seconds kMeeting{30};  // both ends are being started; more is a fault

ChannelOptions channel_options() {
  ChannelOptions options;
  options.spin = kGantrySpin;
  return options;
}

/// One process's ends: it sends over one channel and receives over the other.
struct Ends {
  Runtime runtime;
  Producer out;
  Consumer in;

  static Result<Ends> open(const std::string& directory, const char* out, const char* in) {
    auto runtime = Runtime::create({.directory = directory});
    if (!runtime) return Unexpected(runtime.error());
    auto producer = runtime->producer(out, channel_options());
    if (!producer) return Unexpected(producer.error());
    auto consumer = runtime->consumer(in, channel_options(), Deadline::after(kMeeting));
    if (!consumer) return Unexpected(consumer.error());
    return Ends{std::move(*runtime), std::move(*producer), std::move(*consumer)};
  }
};

Result<std::uint64_t> receive_sum(Consumer& replies) {
  const auto reply = replies.receive();
  if (!reply) return Unexpected(reply.error());
  std::uint64_t sum = 0;
  if (reply->bytes().size() != sizeof sum) {
    return Unexpected({Code::peer_misbehaved,
                       fmt::format("reply: {} bytes instead of a checksum", reply->bytes().size()),
                       ""});
  }
  std::memcpy(&sum, reply->bytes().data(), sizeof sum);
  return sum;
}

class SyncRequester final : public Requester {
 public:
  SyncRequester(Ends ends, const Case& what) : ends_(std::move(ends)), what_(what) {}

  Result<void> send(const Payload& payload) override {
    if (what_.segments.size() == 1) return ends_.out.send(payload.bytes());
    return gather(payload);
  }

  Result<std::uint64_t> receive() override { return receive_sum(ends_.in); }

 private:
  /// A message of several pieces: each copied into a loan.
  Result<void> gather(const Payload& payload) {
    auto loan = ends_.out.loan(payload.bytes().size());
    if (!loan) return Unexpected(loan.error());
    std::byte* to = loan->bytes().data();
    for (const ConstByteSpan part : parts_of(what_, payload.bytes())) {
      std::memcpy(to, part.data(), part.size());
      to += part.size();
    }
    return ends_.out.publish(std::move(*loan));
  }

  Ends ends_;
  Case what_;
};

class LoanRequester final : public Requester {
 public:
  LoanRequester(Ends ends, const Case&) : ends_(std::move(ends)) {}

  Result<void> prepare(const Payload& payload) override {
    auto loan = ends_.out.loan(payload.bytes().size());
    if (!loan) return Unexpected(loan.error());
    loan_ = std::move(*loan);
    std::memcpy(loan_.bytes().data(), payload.bytes().data(), payload.bytes().size());
    return {};
  }

  Result<void> send(const Payload&) override { return ends_.out.publish(std::move(loan_)); }

  Result<std::uint64_t> receive() override { return receive_sum(ends_.in); }

 private:
  Ends ends_;
  Loan loan_;
};

class GantryResponder final : public Responder {
 public:
  GantryResponder(Ends ends, const Case&) : ends_(std::move(ends)) {}

  Result<std::uint64_t> receive() override {
    auto request = ends_.in.receive();
    if (!request) return Unexpected(request.error());
    const std::uint64_t sum = checksum(request->bytes());
    request->release();  // before the reply: the requester may send again at once
    return sum;
  }

  Result<void> reply(std::uint64_t sum) override {
    return ends_.out.send(std::as_bytes(std::span(&sum, 1)));
  }

 private:
  Ends ends_;
};

/// A subject whose asking end is `Asker`. Each process builds a runtime of its own.
template <class Asker>
class GantrySubject final : public Subject {
 public:
  GantrySubject(std::string directory, Case what)
      : directory_(std::move(directory)), what_(std::move(what)) {}

  Result<std::unique_ptr<Requester>> open_requester() override {
    return open<Requester, Asker>(kRequests, kReplies);
  }
  Result<std::unique_ptr<Responder>> open_responder(int) override {
    return open<Responder, GantryResponder>(kReplies, kRequests);
  }

 private:
  template <class Base, class End>
  Result<std::unique_ptr<Base>> open(const char* out, const char* in) {
    auto ends = Ends::open(directory_, out, in);
    if (!ends) return Unexpected(ends.error());
    return std::make_unique<End>(std::move(*ends), what_);
  }

  std::string directory_;
  Case what_;
};

/// Makes the subject, with a folder of its own for its channels.
template <class Asker>
Result<std::unique_ptr<Subject>> make(const Case& size) {
  std::string directory = size.directory + "/XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) return Unexpected(system_error(directory));
  return std::make_unique<GantrySubject<Asker>>(std::move(directory), size);
}

}  // namespace

SubjectKind gantry_sync() {
  return {.name = kSyncName, .make = make<SyncRequester>, .most_in_flight = 4};
}
SubjectKind gantry_loan() {
  return {.name = "gantry/loan", .make = make<LoanRequester>};
}

}  // namespace gantry::bench
