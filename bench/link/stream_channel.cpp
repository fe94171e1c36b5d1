// Gantry's channels between hosts, by way of a bridge. Producer and bridge are on the asking host;
// the consumer on the other one takes "requests" from there and publishes "replies" there.

#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <gantry/gantry.hpp>
#include <map>

#include "../support/system/cpus.hpp"
#include "bridge_process.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr const char* kRequests = "requests";
constexpr const char* kReplies = "replies";
constexpr std::chrono::nanoseconds kPolled = std::chrono::seconds(1);  // longer than any trip
constexpr std::chrono::seconds kMeeting{30};  // all ends are being started; more is a fault

enum class From { memory, block };
struct Way {
  From from = From::memory;
  RemotePath path = RemotePath::stream;
  const char* scheme = "";                            // of the bridge's address
  std::chrono::nanoseconds spin = EndOptions().spin;  // of all four ends
};

class StreamRequester final : public Requester {
 public:
  static Result<std::unique_ptr<Requester>> open(const std::string& directory, Way way,
                                                 int bridge) {
    auto runtime = Runtime::create({.directory = directory});
    if (!runtime) return Unexpected(runtime.error());
    EndOptions options;
    options.spin = way.spin;
    auto out = runtime->producer(kRequests, {options, {}});
    if (!out) return Unexpected(out.error());
    auto in = runtime->consumer(kReplies, {options}, Deadline::after(kMeeting));
    if (!in) return Unexpected(in.error());
    if (auto met = out->wait_for_consumer(Deadline::after(kMeeting), 1); !met)
      return Unexpected(met.error());
    return std::unique_ptr<Requester>(new StreamRequester(std::move(*runtime), std::move(*out),
                                                          std::move(*in), way.from, bridge));
  }

  Result<void> prepare(const Payload& payload) override {
    if (from_ == From::memory) return {};
    is_prepared_ = true;
    return bring_up_to_date(payload);
  }

  Result<void> send(const Payload& payload) override {
    if (from_ == From::memory) return out_.send(payload.bytes());
    if (!is_prepared_)
      if (auto brought = bring_up_to_date(payload); !brought) return brought;
    is_prepared_ = false;
    return out_.send(Draft().move(blocks_.at(payload.bytes().data()).share()));
  }

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
  StreamRequester(Runtime runtime, Producer out, Consumer in, From from, int bridge)
      : runtime_(std::move(runtime)),
        out_(std::move(out)),
        in_(std::move(in)),
        from_(from),
        bridge_(bridge) {}

  /// A payload's block gets what was changed: its producer would have changed it there.
  Result<void> bring_up_to_date(const Payload& payload) {
    const ConstByteSpan bytes = payload.bytes();
    if (const auto found = blocks_.find(bytes.data()); found != blocks_.end()) {
      payload.bring_up_to_date(found->second.bytes());
      return {};
    }
    auto block = out_.pool().allocate(bytes.size());
    if (!block) return Unexpected(block.error());
    std::memcpy(block->bytes().data(), bytes.data(), bytes.size());
    blocks_.emplace(bytes.data(), std::move(*block));
    return {};
  }

  Runtime runtime_;
  Producer out_;
  Consumer in_;
  From from_;
  int bridge_;
  std::map<const std::byte*, Block> blocks_;  // of each payload
  bool is_prepared_ = false;
};

class StreamResponder final : public Responder {
 public:
  static Result<std::unique_ptr<Responder>> open(const std::string& directory,
                                                 const BridgeProcess& bridge, Way way) {
    auto runtime = Runtime::create({.directory = directory});
    if (!runtime) return Unexpected(runtime.error());
    EndOptions options;
    options.spin = way.spin;
    options.remote.token = bridge.token();
    options.remote.path = way.path;
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
  StreamChannel(std::string here, std::string there, Way way, std::shared_ptr<BridgeProcess> bridge)
      : here_(std::move(here)), there_(std::move(there)), way_(way), bridge_(std::move(bridge)) {}

  Result<std::unique_ptr<Requester>> open_requester() override {
    return StreamRequester::open(here_, way_, bridge_->pid());
  }
  Result<std::unique_ptr<Responder>> open_responder(int) override {
    return StreamResponder::open(there_, *bridge_, way_);
  }
  [[nodiscard]] std::shared_ptr<void> company() const override { return bridge_; }

 private:
  std::string here_;
  std::string there_;
  Way way_;
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

Result<std::unique_ptr<Subject>> make_stream_channel(const Network& network, const Case& what,
                                                     Way way) {
  auto here = own_folder(what);
  auto there = own_folder(what);
  const auto cpu = bridge_cpu();
  if (!here) return Unexpected(here.error());
  if (!there) return Unexpected(there.error());
  if (!cpu) return Unexpected(cpu.error());
  auto bridge = BridgeProcess::start(network, *here, *cpu, way.scheme);
  if (!bridge) return Unexpected(bridge.error());
  return std::make_unique<StreamChannel>(std::move(*here), std::move(*there), way,
                                         std::make_shared<BridgeProcess>(std::move(*bridge)));
}

SubjectKind kind(const char* name, const Network& network, Way way) {
  return {
      .name = name,
      .make = [&network, way](const Case& what) { return make_stream_channel(network, what, way); },
      .buffers = 3,
      .most_in_flight = kLinkInFlight};
}

}  // namespace

SubjectKind stream_channel(const Network& network) {
  return kind(kStreamName, network, {});
}

SubjectKind stream_channel_of_blocks(const Network& network) {
  return kind(kStreamBlockName, network, {.from = From::block});
}

SubjectKind polled_channel(const Network& network) {
  return kind(kStreamPolledName, network, {.spin = kPolled});
}

SubjectKind fabric_channel(const Network& network) {
  return kind(kFabricName, network, {.path = RemotePath::fabric});
}

SubjectKind encrypted_channel(const Network& network) {
  return kind(kTlsName, network, {.scheme = "tls:"});
}

}  // namespace gantry::bench
