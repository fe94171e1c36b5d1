#include "core/channel/producer/producer_status.hpp"

#include <unistd.h>

#include "core/base/clock.hpp"
#include "core/channel/producer/mode_choice.hpp"
#include "core/channel/status/status_text.hpp"
#include "core/channel/status/time_scale.hpp"

namespace gantry {
namespace {

std::string explain_places(const Rotation& rotation, Bytes payload, double scale) {
  const Rotation::Told told = rotation.tell(payload, scale);
  if (payload > SlotTable::kLargestSpare)
    return fmt::format("above {} a payload goes where the last one lay that came back",
                       bytes_text(SlotTable::kLargestSpare));
  std::string text = fmt::format("payloads go into {} places in turn, {} in all", told.places,
                                 bytes_text(told.places * payload));
  if (!told.is_measured) return text + ": no other number was tried yet";
  std::vector<std::string> measured;
  for (std::size_t i = 0; i < Rotation::kChoices; ++i)
    if (told.ns_per_kib[i] != 0)
      measured.push_back(
          fmt::format("{:.0f} ns a KiB into {}", told.ns_per_kib[i], rotation.choices()[i]));
  text += fmt::format(": copies took {}", fmt::join(measured, ", "));
  if (told.is_short_of_memory) text += "; more would take more memory than they may";
  return text;
}

// Nothing: they may go beside their records.
std::string why_none_beside(const ChannelStatus& status, unsigned history) {
  if (history != 0) return fmt::format("there is a history of {}", history);
  if (status.consumers.size() > kBesideReaders)
    return fmt::format("there are {}", status.consumers.size());
  if (status.consumers.empty()) return "there is none yet";
  for (const ConsumerStatus& one : status.consumers)
    if (one.policy != SlowConsumer::block)
      return fmt::format("the policy of {} is {}", one.pid, to_string(one.policy));
  return {};
}

// Of so many bytes without a tensor, if the channel says what they are.
std::optional<ReshapePlan> plan_of_bytes(const std::optional<As>& as, Bytes bytes) {
  if (!as) return std::nullopt;
  auto plan = as->plan_for({}, bytes);
  if (!plan) return std::nullopt;
  return *std::move(plan);
}

}  // namespace

ChannelStatus ProducerStatus::describe() const {
  ChannelStatus status;
  const double scale = lasting_ns_per_tick();
  LastCopy copy;
  {
    const ProducerCore::Lock held = core_.lock();
    core_.credits().describe(status, scale);
    copy = core_.last_copy;
  }
  status.answered = true;
  status.age =
      std::chrono::nanoseconds(static_cast<std::int64_t>(monotonic_ns() - core_.opened_ns));
  status.producer_who = name_of(core_.options);
  status.mode = core_.options.mode;
  status.engine = core_.engine_name;
  status.path = path_of(copy);
  status.producer = MetricsMaker::report(*core_.counters, scale);
  const PoolReport memory = core_.pool.report();
  status.slab_bytes = memory.slab_bytes;
  status.live_bytes = memory.live_bytes;
  status.budget_bytes = memory.budget_bytes;
  status.peak_bytes = memory.peak_bytes;
  for (const RegistrarReport& one : memory.registrars) status.registrations += one.registrations;
  status.refused_registrations = memory.registration_errors.size();
  return status;
}

// The engine is asked again, for its choice at this moment: keeping its reasons would cost every
// message noticeable time.
PathStatus ProducerStatus::path_of(const LastCopy& copy) const {
  PathStatus path;
  if (copy.payload == 0) return path;
  path.bytes = copy.payload;
  path.moved = copy.moved;
  path.mode = copy.mode;
  path.engine = copy.engine;
  path.cache = copy.cache;
  Move move = Move::copy({copy.to, copy.moved}, {copy.from, copy.moved});
  if (copy.reshape)
    move = Move::reshape({copy.to, copy.moved}, {copy.from, copy.reshape->source_bytes()},
                         *copy.reshape);
  if (copy.mode == SendMode::streamed) move.cache = CacheUse::reader_soon;
  path.why = core_.lane->explain(move, SubmitMode::synchronous).text();
  return path;
}

ChannelExplanation ProducerStatus::explain(Bytes payload, std::uint64_t unsent,
                                           bool has_second) const {
  ChannelExplanation told;
  if (core_.fork_guard.is_this()) told.status = describe();  // a fork's copy knows nothing
  told.status.name = core_.name;
  told.status.producer_pid = ::getpid();
  told.status.producer_uid = ::geteuid();
  told.status.producer_state = ProcessState::running;
  for (ConsumerStatus& consumer : told.status.consumers)
    consumer.state = process_state(consumer.pid);
  for (DepartedStatus& one : told.status.departed) one.state = process_state(one.pid);
  told.payload = payload;
  const std::optional<ReshapePlan> reshape = plan_of_bytes(core_.options.as, payload);
  const Bytes sent = payload;
  if (reshape) payload = reshape->destination_bytes();
  ModeQuestion question{.channel = core_.options.mode, .copied = payload, .has_second = has_second};
  for (const ConsumerStatus& one : told.status.consumers)
    question.all_block &= one.is_cut || one.policy == SlowConsumer::block;
  question.no_cell = why_none_beside(told.status, core_.options.history);
  if (question.no_cell.empty()) question.cell = core_.options.cell_bytes;
  if (payload > core_.options.cell_bytes) question.no_cell.clear();
  told.mode = choose_mode(question);
  told.because = explain_mode(question);
  if (core_.options.as)
    told.because.push_back(
        fmt::format("what is sent becomes {} on its way", core_.options.as->text()));
  const bool is_here = payload <= Message::kInlineBytes;
  const bool in_ring = is_here || (payload <= question.cell && told.mode != SendMode::immutable);
  if (!is_here) {
    Move move;  // at no particular memory, on page borders
    move.bytes = payload;
    if (told.mode == SendMode::streamed) move.cache = CacheUse::reader_soon;
    if (told.mode == SendMode::pipelined || told.mode == SendMode::streamed)
      move.bytes = chunk_of(payload);
    if (reshape) {
      const CacheUse cache = move.cache;
      move = Move::reshape({static_cast<std::byte*>(nullptr), move.bytes},
                           {static_cast<const std::byte*>(nullptr), sent}, *reshape);
      move.cache = cache;
    }
    told.path = core_.lane->explain(move, SubmitMode::synchronous);
  }
  if (core_.fork_guard.is_this()) explain_waits(told, payload, in_ring, unsent);
  return told;
}

void ProducerStatus::explain_waits(ChannelExplanation& told, Bytes payload, bool in_ring,
                                   std::uint64_t unsent) const {
  const ProducerCore::Lock held = core_.lock();
  told.waits = core_.credits().obstacles(!in_ring, payload);
  if (unsent != 0)
    told.waits.insert(told.waits.begin(),
                      fmt::format("for {} of send_async(), which {} before it",
                                  count_text(unsent, "message"), unsent == 1 ? "is" : "are"));
  if (in_ring || told.mode == SendMode::immutable) return;  // they take nothing of the pool
  if (told.mode == SendMode::whole || told.mode == SendMode::pipelined)
    if (auto places = explain_places(core_.rotation, payload, ns_per_tick(core_.counters->start));
        !places.empty())
      told.because.push_back(std::move(places));
  const Bytes memory = told.mode == SendMode::streamed ? window_of(payload) : payload;
  if (auto missing = allocator_.obstacle(memory)) told.waits.push_back(std::move(*missing));
}

}  // namespace gantry
