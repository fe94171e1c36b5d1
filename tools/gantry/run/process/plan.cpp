#include "run/process/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <gantry/group.hpp>

#include "run/file/environment.hpp"

namespace gantry::run {
namespace {

using std::chrono::nanoseconds;

constexpr std::chrono::hours kLongestJoin{24};

int descriptor_of(const Link& link, bool output) noexcept {
  return output ? link.pipe.write_end.get() : link.pipe.read_end.get();
}

/// The host on which a channel lies: its producer's. This one has no bridge, so that nobody has to
/// reach it: what is sent from here to another host lies there.
std::size_t owner_of(const Pipeline& pipeline, const Channel& channel) {
  const std::size_t from = pipeline.stages[channel.from].host;
  return from != kThisHost ? from : pipeline.stages[channel.to].host;
}

/// Of an end whose process has ended.
bool is_left(const MetricsReport& end) noexcept {
  return !end.ended && !end.broken;
}

std::string names_of(const std::vector<ImageFile>& images) {
  std::string names;
  for (const ImageFile& image : images) names += (names.empty() ? "" : ",") + image.name;
  return names;
}

}  // namespace

bool is_sender(const Link& link, ProcessId process) noexcept {
  return link.from == process;
}
bool is_receiver(const Link& link, ProcessId process) noexcept {
  return link.to == process;
}

Result<Plan> Plan::create(const Pipeline& pipeline, Transport transport, std::string directory) {
  Plan plan(pipeline, transport, std::move(directory));
  for (std::size_t channel = 0; channel < pipeline.channels.size(); ++channel)
    if (const auto fine = plan.add_links(channel); !fine) return tl::unexpected(fine.error());
  return plan;
}

Result<void> Plan::add_links(std::size_t channel) {
  const Channel& described = pipeline_->channels[channel];
  for (unsigned from = 0; from < pipeline_->stages[described.from].replicas; ++from) {
    for (unsigned to = 0; to < pipeline_->stages[described.to].replicas; ++to) {
      Result<Link> link = make_link(channel, from, to);
      if (!link) return tl::unexpected(link.error());
      links_.push_back(std::move(*link));
    }
  }
  return {};
}

Result<Link> Plan::make_link(std::size_t channel, unsigned from, unsigned to) const {
  const Channel& described = pipeline_->channels[channel];
  Link link;
  link.channel = channel;
  link.from = {described.from, from};
  link.to = {described.to, to};
  for (Counters* counters : {&link.sender, &link.receiver}) {
    Result<Counters> made = Counters::create();
    if (!made) return tl::unexpected(made.error());
    *counters = std::move(*made);
  }
  const std::string name = link_name(described.name, from, to);
  if (transport_ == Transport::pipe) {
    Result<Pipe> pipe = Pipe::create();
    if (!pipe) return tl::unexpected(pipe.error());
    link.pipe = std::move(*pipe);
  } else {
    link.address = name;
  }
  return link;
}

std::vector<ProcessId> Plan::processes() const {
  std::vector<ProcessId> result;
  for (std::size_t stage = 0; stage < pipeline_->stages.size(); ++stage)
    for (unsigned replica = 0; replica < pipeline_->stages[stage].replicas; ++replica)
      result.push_back({stage, replica});
  return result;
}

StageEndpoint::Link Plan::describe(const Link& link, bool output) const {
  const Channel& channel = pipeline_->channels[link.channel];
  const int counters = (output ? link.sender : link.receiver).descriptor();
  if (link.address.empty()) return {fmt::format("{}", descriptor_of(link, output)), counters};
  const std::size_t owner = owner_of(*pipeline_, channel);
  const std::size_t host = pipeline_->stages[output ? channel.from : channel.to].host;
  if (owner == host) return {link.address, counters};
  return {fmt::format("{}@{}", link.address, placement_.bridges.at(owner)), counters};
}

std::vector<StageEndpoint> Plan::ends(ProcessId process) const {
  std::vector<StageEndpoint> result;
  for (std::size_t channel = 0; channel < pipeline_->channels.size(); ++channel) {
    const Channel& described = pipeline_->channels[channel];
    const bool output = described.from == process.stage;
    if (!output && described.to != process.stage) continue;
    StageEndpoint end{described.name,
                      output,
                      transport_,
                      described.slots,
                      described.budget_bytes,
                      {},
                      output ? described.as : ""};
    for (const Link& link : links_)
      if (link.channel == channel && (output ? is_sender : is_receiver)(link, process))
        end.links.push_back(describe(link, output));
    result.push_back(std::move(end));
  }
  return result;
}

std::vector<Variable> Plan::variables(ProcessId process, nanoseconds join_within) const {
  const Stage& stage = pipeline_->stages[process.stage];
  std::vector<Variable> result{{kDirectoryVariable, directory_},
                               {kStageVariable, stage.name},
                               {kReplicaVariable, fmt::format("{}", process.replica)},
                               {kReplicasVariable, fmt::format("{}", stage.replicas)},
                               {kStageEndpointsVariable, encode_stage_endpoints(ends(process))}};
  if (!pipeline_->images.empty() && stage.host == kThisHost)
    result.push_back({kStageImagesVariable, names_of(pipeline_->images)});
  if (!stage.is_group) return result;
  const auto patience =
      std::clamp<nanoseconds>(join_within, std::chrono::milliseconds(1), kLongestJoin);
  result.push_back({kGroupVariable, stage.name});
  result.push_back({kRankVariable, fmt::format("{}", process.replica)});
  result.push_back({kRanksVariable, fmt::format("{}", stage.replicas)});
  result.push_back(
      {kJoinWithinVariable,
       fmt::format("{}", std::chrono::ceil<std::chrono::milliseconds>(patience).count())});
  return result;
}

Launch Plan::launch(ProcessId process, nanoseconds join_within) const {
  const Stage& stage = pipeline_->stages[process.stage];
  Launch launch{"stage " + process_label(stage, process.replica),
                stage.program,
                stage.command,
                stage_environment(stage, variables(process, join_within)),
                {},
                -1};
  for (const Link& link : links_) {
    const bool output = is_sender(link, process);
    if (!output && !is_receiver(link, process)) continue;
    launch.descriptors.push_back((output ? link.sender : link.receiver).descriptor());
    if (link.address.empty()) launch.descriptors.push_back(descriptor_of(link, output));
  }
  return launch;
}

std::string Plan::unopened_end(ProcessId process) const {
  for (const Link& link : links_) {
    const std::string& name = pipeline_->channels[link.channel].name;
    if (is_sender(link, process) && !link.sender.report().opened)
      return fmt::format("output '{}'", name);
    if (is_receiver(link, process) && !link.receiver.report().opened)
      return fmt::format("input '{}'", name);
  }
  return {};
}

std::string Plan::unclosed_output(ProcessId process) const {
  for (const Link& link : links_)
    if (is_sender(link, process) && is_left(link.sender.report()))
      return pipeline_->channels[link.channel].name;
  return {};
}

std::string Plan::unread_input(ProcessId process) const {
  for (const Link& link : links_)
    if (is_receiver(link, process))
      if (const MetricsReport receiver = link.receiver.report();
          receiver.opened && is_left(receiver))
        return pipeline_->channels[link.channel].name;
  return {};
}

std::vector<Plan::LeftEnd> Plan::left_to(ProcessId process) const {
  std::vector<LeftEnd> result;
  for (const Link& link : links_) {
    const std::string& name = pipeline_->channels[link.channel].name;
    const MetricsReport sender = link.sender.report();
    const MetricsReport receiver = link.receiver.report();
    if (is_sender(link, process) && sender.broken && is_left(receiver))
      result.push_back({link.to, name, false, receiver.left_ns});
    if (is_receiver(link, process) && receiver.broken && is_left(sender))
      result.push_back({link.from, name, true, sender.left_ns});
  }
  return result;
}

void Plan::close_pipes() noexcept {
  for (Link& link : links_) link.pipe = Pipe{};
}

}  // namespace gantry::run
