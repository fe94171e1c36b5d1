#pragma once  // bench/ipc/gantry_ends.hpp: what Gantry's ends in this benchmark have in common.

#include <cstring>
#include <gantry/gantry.hpp>

#include "../support/system/posix.hpp"
#include "subjects.hpp"

namespace gantry::bench {

[[nodiscard]] inline EndOptions end_options() {
  EndOptions options;
  options.spin = kGantrySpin;
  return options;
}

/// The sum of the next message, read chunk by chunk as it lands.
[[nodiscard]] inline Result<std::uint64_t> sum_as_it_lands(Consumer& in) {
  auto request = in.receive_early();
  if (!request) return Unexpected(request.error());
  std::uint64_t sum = 0;
  for (;;) {
    const auto chunk = request->next();
    if (!chunk) return Unexpected(chunk.error());
    if (chunk->empty()) return sum;
    sum += checksum(*chunk);
  }
}

/// One side's channels of a subject that has messages of its own: one there, one back with a sum.
struct EndsThereAndBack {
  EndsThereAndBack(Runtime opened, Producer there, Consumer back)
      : runtime(std::move(opened)), out(std::move(there)), in(std::move(back)) {}
  /// The side that asks. Returns when the other one is there.
  static Result<EndsThereAndBack> for_requester(const std::string& directory) {
    auto ends = open(directory, "requests", "replies");
    if (!ends) return ends;
    if (auto met = ends->out.wait_for_consumer(Deadline::after(kMeeting)); !met)
      return Unexpected(met.error());
    return ends;
  }
  static Result<EndsThereAndBack> for_responder(const std::string& directory) {
    return open(directory, "replies", "requests");
  }

  Result<std::uint64_t> receive_sum() {
    const auto reply = in.receive();
    if (!reply) return Unexpected(reply.error());
    std::uint64_t sum = 0;
    std::memcpy(&sum, reply->bytes().data(), std::min(reply->bytes().size(), sizeof sum));
    return sum;
  }
  Result<void> send_sum(std::uint64_t sum) { return out.send(std::as_bytes(std::span(&sum, 1))); }

  Runtime runtime;
  Producer out;
  Consumer in;

 private:
  static constexpr std::chrono::seconds kMeeting{30};  // both are being started; more is a fault
  static Result<EndsThereAndBack> open(const std::string& directory, const char* to,
                                       const char* from) {
    auto runtime = Runtime::create({.directory = directory});
    if (!runtime) return Unexpected(runtime.error());
    auto out = runtime->producer(to, {end_options(), {}});
    if (!out) return Unexpected(out.error());
    auto in = runtime->consumer(from, {end_options()}, Deadline::after(kMeeting));
    if (!in) return Unexpected(in.error());
    return EndsThereAndBack(std::move(*runtime), std::move(*out), std::move(*in));
  }
};

/// A subject whose sides are opened for a case and one of several ways.
template <class RequesterOf, class ResponderOf, class Way>
class SubjectOfWays final : public Subject {
 public:
  SubjectOfWays(std::string directory, Case what, Way way)
      : directory_(std::move(directory)), what_(std::move(what)), way_(way) {}
  Result<std::unique_ptr<Requester>> open_requester() override {
    return RequesterOf::open(directory_, what_, way_);
  }
  Result<std::unique_ptr<Responder>> open_responder(int) override {
    return ResponderOf::open(directory_, what_, way_);
  }

  static SubjectKind kind(std::string name, Way way) {
    SubjectKind made;
    made.name = std::move(name);
    made.buffers = 3;
    made.make = [way](const Case& what) -> Result<std::unique_ptr<Subject>> {
      std::string directory = what.directory + "/XXXXXX";
      if (::mkdtemp(directory.data()) == nullptr) return Unexpected(system_error(directory));
      return std::make_unique<SubjectOfWays>(std::move(directory), what, way);
    };
    return made;
  }

 private:
  std::string directory_;
  Case what_;
  Way way_;
};

}  // namespace gantry::bench
