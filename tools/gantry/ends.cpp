#include "ends.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <gantry/bridge.hpp>

#include "channel_view.hpp"
#include "output.hpp"
#include "stage_variables.hpp"
#include "tools/command_line/suggest.hpp"

namespace gantry::cli {
namespace {

bool is_stage() {
  return std::getenv(kStageEndpointsVariable) != nullptr;
}

Error not_in_a_stage(std::string_view options) {
  return {Code::invalid_argument,
          fmt::format("{}: not for an end of a stage, which gantry run connects", options),
          "what a stage's channels are is in the pipeline file"};
}

std::uint64_t own_replicas() {
  const char* const text = std::getenv(run::kReplicasVariable);
  return text == nullptr ? 1 : parse_number(text, 1).value_or(1);
}

/// By the pipeline file, of bytes without a tensor.
std::optional<As> as_of_stage(const std::string& name) {
  const auto ends = own_stage_endpoints();
  if (!ends) return std::nullopt;
  for (const StageEndpoint& end : *ends)
    if (end.channel == name && end.output && !end.as.empty())
      if (auto as = As::parse(end.as); as && as->from) return *std::move(as);
  return std::nullopt;
}

Result<std::vector<ChannelStatus>> channels_beside(const std::string& name) {
  constexpr std::chrono::seconds kLook{1};
  const std::size_t at = name.find('@');
  if (at == std::string::npos) return list_channels(channel_directory_path());
  return list_remote_channels(name.substr(at + 1), {}, Deadline::after(kLook), -1);
}

/// A channel that has all its consumers says how many that are, and so how many it needs.
Error with_room(Error error, const std::string& name) {
  if (error.code != Code::already_exists) return error;
  const auto channels = channels_beside(name).value_or(std::vector<ChannelStatus>());
  const auto full =
      std::ranges::find(channels, name.substr(0, name.find('@')), &ChannelStatus::name);
  if (full == channels.end() || full->consumers_limit == 0) return error;
  const unsigned most = full->consumers_limit;
  error.hint = most < ProducerOptions::kMaxConsumers
                   ? fmt::format(
                         "it takes {}: start its producer with room for more: gantry put "
                         "--consumers {}",
                         most, most + 1)
                   : fmt::format("it takes {}, which is the most", most);
  return error;
}

/// What a channel that does not come may be instead: "; did you mean 'photos'? there are photos,
/// x". With `own` it is there, and its partner may be at one of the others.
std::string what_there_is(const std::string& name, bool own = false) {
  constexpr std::size_t kMostNames = 8;
  const std::size_t at = name.find('@');
  auto channels = channels_beside(name);
  if (!channels) return "; " + channels.error().message;
  std::erase_if(*channels, [&](const ChannelStatus& one) {
    return is_made_up_name(one.name) || (own && one.name == name.substr(0, at));
  });
  if (channels->empty()) return own ? "" : "; there is no channel";
  std::vector<std::string> names;
  for (const ChannelStatus& channel : *channels) names.push_back(printable(channel.name));
  const std::string near = suggest_near(name.substr(0, at), names);
  const std::size_t shown = std::min(names.size(), kMostNames);
  const std::string others =
      names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "";
  names.resize(shown);
  return fmt::format("; {}{}there {} {}{}{}", near, near.empty() ? "" : " ",
                     channels->size() == 1 ? "is" : "are", own ? "also " : "",
                     fmt::join(names, ", "), others);
}

}  // namespace

// ---- sending -----------------------------------------------------------------------------------

Result<Sender> Sender::open(const std::string& name, const SenderOptions& options,
                            const Interrupt& interrupt) {
  const auto into = [&](auto end) {
    return Sender(End(std::move(end)), options, is_stage() ? as_of_stage(name) : options.as);
  };
  if (is_stage()) {
    if (options.consumers || options.access || options.path || options.remote.are_given() ||
        options.as)
      return tl::unexpected(
          not_in_a_stage("--consumers, --users, --path, --patience, --stall-limit, --as"));
    return stage_output(name, {interrupt.descriptor()}).map(into);
  }
  const auto path = path_of(name, options.path);
  if (!path) return tl::unexpected(path.error());
  auto runtime = Runtime::create({.notices = false});
  if (!runtime) return tl::unexpected(runtime.error());
  ProducerOptions producer;
  producer.remote.path = *path;
  producer.slots = options.slots;
  producer.consumers = options.consumers.value_or(1);
  producer.interrupt_descriptor = interrupt.descriptor();
  producer.access = options.access.value_or(Access{});
  options.remote.set(producer.remote);
  producer.as = options.as;
  return runtime->producer(name, producer).map(into);
}

Result<void> Sender::check_single_stream(const std::string& name) {
  const auto ends = own_stage_endpoints();
  if (!ends) return tl::unexpected(ends.error());
  const auto own = std::ranges::find_if(
      *ends, [&](const StageEndpoint& end) { return end.channel == name && end.output; });
  if (own == ends->end()) return {};
  const std::uint64_t senders = own_replicas();
  if (own->links.size() < 2 && senders < 2) return {};
  const std::string who = own->links.size() > 1
                              ? fmt::format("go to {} replicas in turn", own->links.size())
                              : fmt::format("come from {} replicas at once", senders);
  return tl::unexpected(
      Error{Code::invalid_argument,
            fmt::format("stage output '{}': its messages would be pieces of a stream, and they {}",
                        name, who),
            "have one replica there; or say that each message stands alone: --lines, --records"});
}

// A stage's links are connected by `gantry run`, which also sees to it that they are.
Result<void> Sender::wait_for_consumers() {
  auto* const producer = std::get_if<Producer>(&end_);
  if (producer == nullptr) return {};
  return producer->wait_for_consumer(Deadline::never(), consumers_);
}

Result<Loan> Sender::loan(Bytes size) {
  return std::visit([&](auto& end) { return end.loan(size); }, end_);
}
Result<void> Sender::publish(Loan&& loan) {
  return std::visit([&](auto& end) { return end.publish(std::move(loan), how()); }, end_);
}
Result<void> Sender::send(ConstByteSpan payload) {
  return std::visit([&](auto& end) { return end.send(payload, how()); }, end_);
}
Result<void> Sender::close() {
  return std::visit([](auto& end) { return end.close(); }, end_);
}

std::unique_ptr<WaitNotice> Sender::notice(bool wants_all) const {
  const auto* const producer = std::get_if<Producer>(&end_);
  if (producer == nullptr) return nullptr;
  return std::make_unique<WaitNotice>(
      [producer, wanted = wants_all ? consumers_ : 1]() -> std::string {
        const ChannelStatus status = producer->explain().status;
        const std::size_t come = status.consumers.size();
        if (come >= wanted || (wanted == 1 && status.producer.connected)) return {};
        return fmt::format(
            "channel '{}' in {}: waiting for a consumer, {} of {} {} come; gantry get {} "
            "is one{}",
            status.name, channel_directory_path(), come, wanted, come == 1 ? "has" : "have",
            status.name, what_there_is(status.name, true));
      });
}

// ---- receiving ---------------------------------------------------------------------------------

Result<Receiver> Receiver::open(const std::string& name, const ReceiverOptions& options,
                                Deadline deadline, const Interrupt& interrupt) {
  const auto into = [](auto end) { return Receiver(End(std::move(end))); };
  if (is_stage()) {
    if (options.when_slow || options.depth || options.access || options.path ||
        options.remote.are_given())
      return tl::unexpected(
          not_in_a_stage("--when-slow, --depth, --users, --path, --patience, --stall-limit"));
    return stage_input(name, {interrupt.descriptor()}).map(into);
  }
  const auto path = path_of(name, options.path);
  if (!path) return tl::unexpected(path.error());
  auto runtime = Runtime::create({.notices = false});
  if (!runtime) return tl::unexpected(runtime.error());
  ConsumerOptions consumer;
  consumer.remote.path = *path;
  consumer.interrupt_descriptor = interrupt.descriptor();
  consumer.when_slow = options.when_slow.value_or(SlowConsumer::block);
  consumer.depth = options.depth.value_or(0);
  consumer.access = options.access.value_or(Access{});
  options.remote.set(consumer.remote);
  const WaitNotice notice([&name] {
    const bool is_here = name.find('@') == std::string::npos;
    return fmt::format("channel '{}'{}: waiting for its producer{}", printable(name),
                       is_here ? " in " + channel_directory_path() : "", what_there_is(name));
  });
  return runtime->consumer(name, consumer, deadline)
      .map_error([&name](Error error) { return with_room(std::move(error), name); })
      .map(into);
}

Result<Message> Receiver::receive(Deadline deadline) {
  return std::visit([&](auto& end) { return end.receive(deadline); }, end_);
}

}  // namespace gantry::cli
