// Gantry's channels between hosts, by way of a bridge. Producer and bridge are on the asking host;
// the consumer on the other one takes "requests" from there and publishes "replies" there.

#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <gantry/gantry.hpp>

#include "../support/system/cpus.hpp"
#include "bridge_process.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr const char* kRequests = "requests";
constexpr const char* kReplies = "replies";
constexpr std::chrono::seconds kMeeting{30};  // all ends are being started; more is a fault

class StreamRequester final : public Requester {
 public:
  static Result<std::unique_ptr<Requester>> open(const std::string& directory, int bridge) {
    auto runtime = Runtime::create({.directory = directory});
    if (!runtime) return Unexpected(runtime.error());
    auto out = runtime->producer(kRequests);
    if (!out) return Unexpected(out.error());
    auto in = runtime->consumer(kReplies, {}, Deadline::after(kMeeting));
    if (!in) return Unexpected(in.error());
    if (auto met = out->wait_for_consumer(Deadline::after(kMeeting), 1); !met)
      return Unexpected(met.error());
    return std::unique_ptr<Requester>(
        new StreamRequester(std::move(*runtime), std::move(*out), std::move(*in), bridge));
  }

  Result<void> send(const Payload& payload) override { return out_.send(payload.bytes()); }

  Result<std::uint64_t> receive() override {
    const auto reply = in_.receive();
    if (!reply) return Unexpected(reply.error());
    std::uint64_t sum = 0;
    if (reply->bytes().size() != sizeof sum)
      return Unexpected({Code::peer_misbehaved, "a reply of no sum", ""});
    std::memcpy(&sum, reply->bytes().data(), sizeof sum);
    return sum;
  }

  [[nodiscard]] std::vector<int> helpers() const override { return {bridge_}; }

 private:
  StreamRequester(Runtime runtime, Producer out, Consumer in, int bridge)
      : runtime_(std::move(runtime)), out_(std::move(out)), in_(std::move(in)), bridge_(bridge) {}

  Runtime runtime_;
  Producer out_;
  Consumer in_;
  int bridge_;
};

class StreamResponder final : public Responder {
 public:
  static Result<std::unique_ptr<Responder>> open(const std::string& directory,
                                                 const BridgeProcess& bridge) {
    auto runtime = Runtime::create({.directory = directory});
    if (!runtime) return Unexpected(runtime.error());
    EndOptions options;
    options.remote.token = bridge.token();
    const auto there = [&](const char* name) { return name + ("@" + bridge.address()); };
    auto in = runtime->consumer(there(kRequests), {options}, Deadline::after(kMeeting));
    if (!in) return Unexpected(in.error());
    auto out = runtime->producer(there(kReplies), {options, {}});
    if (!out) return Unexpected(out.error());
    return std::unique_ptr<Responder>(
        new StreamResponder(std::move(*runtime), std::move(*out), std::move(*in)));
  }

  Result<std::uint64_t> receive() override {
    const auto request = in_.receive();
    if (!request) return Unexpected(request.error());
    return checksum(request->bytes());
  }
  Result<void> reply(std::uint64_t sum) override {
    return out_.send(std::as_bytes(std::span(&sum, 1)));
  }

 private:
  StreamResponder(Runtime runtime, Producer out, Consumer in)
      : runtime_(std::move(runtime)), out_(std::move(out)), in_(std::move(in)) {}

  Runtime runtime_;
  Producer out_;
  Consumer in_;
};

/// Each host has a folder of its own for its channels.
class StreamChannel final : public Subject {
 public:
  StreamChannel(std::string here, std::string there, std::shared_ptr<BridgeProcess> bridge)
      : here_(std::move(here)), there_(std::move(there)), bridge_(std::move(bridge)) {}

  Result<std::unique_ptr<Requester>> open_requester() override {
    return StreamRequester::open(here_, bridge_->pid());
  }
  Result<std::unique_ptr<Responder>> open_responder(int) override {
    return StreamResponder::open(there_, *bridge_);
  }
  [[nodiscard]] std::shared_ptr<void> company() const override { return bridge_; }

 private:
  std::string here_;
  std::string there_;
  std::shared_ptr<BridgeProcess> bridge_;
};

Result<std::string> own_folder(const Case& what) {
  std::string directory = what.directory + "/XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) return Unexpected(system_error(directory));
  return directory;
}

/// A CPU of neither end; where there is none, that of the producer, whose host it belongs to.
Result<int> bridge_cpu() {
  const auto pair = pick_cpus();
  const auto allowed = allowed_cpus();
  if (!pair) return Unexpected(pair.error());
  if (!allowed) return Unexpected(allowed.error());
  const auto spare = std::find_if(allowed->begin(), allowed->end(), [&](int cpu) {
    return cpu != pair->requester && cpu != pair->responder;
  });
  return spare == allowed->end() ? pair->requester : *spare;
}

Result<std::unique_ptr<Subject>> make_stream_channel(const Network& network, const Case& what) {
  auto here = own_folder(what);
  auto there = own_folder(what);
  const auto cpu = bridge_cpu();
  if (!here) return Unexpected(here.error());
  if (!there) return Unexpected(there.error());
  if (!cpu) return Unexpected(cpu.error());
  auto bridge = BridgeProcess::start(network, *here, *cpu);
  if (!bridge) return Unexpected(bridge.error());
  return std::make_unique<StreamChannel>(std::move(*here), std::move(*there),
                                         std::make_shared<BridgeProcess>(std::move(*bridge)));
}

}  // namespace

SubjectKind stream_channel(const Network& network) {
  return {.name = kStreamName,
          .make = [&network](const Case& what) { return make_stream_channel(network, what); },
          .buffers = 3,
          .most_in_flight = kLinkInFlight};
}

}  // namespace gantry::bench
