#include "pipeline/stage_conveyor.hpp"

#include <algorithm>
#include <thread>

#include "pipeline/broadcast.hpp"
#include "pipeline/caught.hpp"
#include "pipeline/halt.hpp"
#include "pipeline/pieces.hpp"

namespace gantry {
namespace {

using Argument = PipelineJob::Argument;
using Kind = Argument::Kind;
constexpr unsigned kDepth = 3;

Error named(Error error, std::uint64_t number) {
  error.message = fmt::format("message {}: {}", number, error.message);
  return error;
}

}  // namespace

Result<void> StageConveyor::open() {
  GANTRY_ASSIGN(kernel_, job_.kernel_on(device_));
  GANTRY_ASSIGN(queues_, RunQueues::open(device_, false));
  broadcasts_.resize(job_.arguments().size());
  for (std::size_t i = 0; i < broadcasts_.size(); ++i) {
    if (job_.arguments()[i].kind != Kind::broadcast) continue;
    auto brought = bring_broadcast(device_, *queues_.copy_in, job_.arguments()[i].source,
                                   options_.file_io, limit());
    if (!brought) {
      halt_queues(device_, queues_, options_);
      return tl::unexpected(std::move(brought).error());
    }
    broadcasts_[i] = *std::move(brought);
  }
  slots_.resize(options_.depth != 0 ? options_.depth : kDepth);
  for (StageSlot& slot : slots_) slot.buffers.resize(broadcasts_.size());
  describe();
  return {};
}

void StageConveyor::describe() {
  report_.device = device_.facts().name;
  report_.depth = static_cast<unsigned>(slots_.size());
  report_.reasons = {
      options_.depth != 0 ? "depth: as asked for" : "depth: a message in each of the three streams",
      "staging: none: the device copies messages from where they lie and results to where they go"};
}

Deadline StageConveyor::limit() const noexcept {
  return limit_of(options_);
}

Result<void> StageConveyor::run() {
  std::thread feeder;
  try {
    feeder = std::thread([this] { feed_all(); });
  } catch (const std::system_error& error) {
    return fail(Code::system, fmt::format("starting a thread: {}", error.what()),
                "raise the limit of processes (ulimit -u)");
  }
  auto collected = caught([this] { return collect_all(); });
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  moved_.notify_all();
  feeder.join();
  if (!collected) halt_queues(device_, queues_, options_);
  return collected;
}

// ---- in ------------------------------------------------------------------------------------

bool StageConveyor::has_stopped() {
  const std::lock_guard lock(mutex_);
  return stop_;
}

// Looks up now and then: the caller may have failed while nothing comes.
Result<StageEnds::Arrival> StageConveyor::receive() {
  constexpr auto kPatience = std::chrono::milliseconds(20);
  for (;;) {
    auto message = ends_.receive(
        Deadline::after(std::min<std::chrono::nanoseconds>(kPatience, options_.deadline.left())));
    if (message || message.error().code != Code::timed_out) return message;
    if (has_stopped() || options_.deadline.passed()) return message;
  }
}

void StageConveyor::feed_all() noexcept {
  for (;;) {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [this] { return stop_ || fed_ < collected_ + slots_.size(); });
    if (stop_) return;
    const std::uint64_t number = fed_;
    lock.unlock();
    auto message = caught([this] { return receive(); });
    auto fed = message ? caught([&] { return feed(slot(number), *message); })
                       : Result<void>(tl::unexpected(message.error()));
    lock.lock();
    if (fed)
      ++fed_;
    else
      feed_error_ = message ? named(std::move(fed).error(), number) : std::move(fed).error();
    moved_.notify_all();
    if (feed_error_) return;
  }
}

Result<std::uint64_t> StageConveyor::steps_of(const StageEnds::Arrival& message) const {
  std::optional<std::uint64_t> steps;
  for (const Argument& argument : job_.arguments()) {
    if (!argument.reads()) continue;
    if (argument.source.segment >= message.segments.size())
      return fail(Code::invalid_argument,
                  fmt::format("segment {} is wanted, and it has {}", argument.source.segment,
                              message.segments.size()));
    const Bytes size = message.segments[argument.source.segment].size();
    const std::uint64_t its = size / argument.step_bytes;
    if (size == 0 || size % argument.step_bytes != 0 || (steps && *steps != its))
      return fail(Code::invalid_argument,
                  fmt::format("{} bytes in segment {} do not correspond to {} of {} bytes", size,
                              argument.source.segment,
                              steps ? fmt::format("{} steps", *steps) : "any number of steps",
                              argument.step_bytes));
    steps = its;
  }
  return *steps;
}

Result<void> StageConveyor::make_room(StageSlot& slot) {
  for (std::size_t i = 0; i < slot.buffers.size(); ++i) {
    const Argument& argument = job_.arguments()[i];
    if (argument.kind == Kind::broadcast) continue;
    const Bytes size = buffer_bytes(argument, slot.chunk.steps);
    if (size <= slot.buffers[i].size()) continue;
    slot.buffers[i] = {};  // before: the device may not hold both
    GANTRY_ASSIGN(slot.buffers[i], device_.allocate(size));
  }
  return {};
}

Result<void> StageConveyor::feed(StageSlot& slot, const StageEnds::Arrival& message) {
  GANTRY_ASSIGN(const std::uint64_t steps, steps_of(message));
  slot.chunk = {fed_, 0, steps};
  slot.info = message.info;
  slot.copy_in = slot.compute = {};
  GANTRY_TRY(make_room(slot));
  for (std::size_t i = 0; i < slot.buffers.size(); ++i)
    if (job_.arguments()[i].reads()) GANTRY_TRY(submit_in(slot, i, message));
  return submit_compute(slot);
}

Result<void> StageConveyor::submit_in(StageSlot& slot, std::size_t index,
                                      const StageEnds::Arrival& message) {
  const Argument& argument = job_.arguments()[index];
  const ConstByteSpan bytes = message.segments[argument.source.segment];
  // The queue holds the message until it is copied, and then gives it back to its sender.
  const auto put = [&](Bytes at, ConstByteSpan from) -> Result<void> {
    GANTRY_ASSIGN(const DeviceEvent event,
                  queues_.copy_in->copy_in(slot.buffers[index], at, from, message.keep));
    slot.copy_in.add(event);
    return {};
  };
  for (const ChunkPiece& piece : pieces_of(argument, slot.chunk, slot.chunk.steps)) {
    if (piece.kind == ChunkPiece::Kind::zero) {
      GANTRY_ASSIGN(const DeviceEvent event,
                    queues_.copy_in->fill(slot.buffers[index], piece.at, piece.size, std::byte{}));
      slot.copy_in.add(event);
    } else if (piece.kind == ChunkPiece::Kind::source) {
      GANTRY_TRY(put(piece.at, bytes.subspan(piece.from, piece.size)));
    } else {
      const ConstByteSpan step = piece.kind == ChunkPiece::Kind::first_step
                                     ? bytes.first(argument.step_bytes)
                                     : bytes.last(argument.step_bytes);
      for (Bytes at = 0; at < piece.size; at += step.size()) GANTRY_TRY(put(piece.at + at, step));
    }
  }
  report_.bytes_in += bytes.size();
  return {};
}

Result<void> StageConveyor::submit_compute(StageSlot& slot) {
  GANTRY_TRY(queues_.compute->wait_for(slot.copy_in.last));
  std::vector<KernelArgument> arguments;
  for (std::size_t i = 0; i < slot.buffers.size(); ++i) {
    const Argument& argument = job_.arguments()[i];
    if (argument.kind == Kind::value)
      arguments.push_back(*argument.value);
    else if (argument.kind == Kind::count)
      arguments.emplace_back(slot.chunk.steps);
    else if (argument.kind == Kind::first)
      arguments.emplace_back(slot.chunk.first);
    else
      arguments.emplace_back(argument.kind == Kind::broadcast ? broadcasts_[i] : slot.buffers[i]);
    if (argument.kind != Kind::reduction) continue;
    GANTRY_ASSIGN(const DeviceEvent cleared,
                  queues_.compute->fill(slot.buffers[i], 0, argument.step_bytes, argument.initial));
    slot.compute.add(cleared);
  }
  GANTRY_ASSIGN(const DeviceEvent event,
                queues_.compute->launch(kernel_, arguments, job_.range_for(slot.chunk.steps)));
  slot.compute.add(event);
  return {};
}

// ---- out -----------------------------------------------------------------------------------

Result<void> StageConveyor::collect_all() {
  for (std::uint64_t number = 0;; ++number) {
    {
      std::unique_lock lock(mutex_);
      moved_.wait(lock, [&] { return fed_ > number || feed_error_; });
      if (fed_ <= number && feed_error_->code == Code::closed) return {};
      if (fed_ <= number) return tl::unexpected(*feed_error_);
    }
    if (auto collected = caught([&] { return collect(slot(number)); }); !collected)
      return tl::unexpected(named(std::move(collected).error(), number));
    ++report_.messages;
    {
      const std::lock_guard lock(mutex_);
      ++collected_;
    }
    moved_.notify_all();
  }
}

Result<void> StageConveyor::collect(StageSlot& slot) {
  const Deadline until = limit();
  GANTRY_TRY(slot.copy_in.last.wait(until));
  GANTRY_TRY(slot.compute.last.wait(until));
  const auto in_begin = slot.copy_in.first.timing(), in_end = slot.copy_in.last.timing();
  if (in_begin && in_end) report_.copy_in += in_end->ended - in_begin->began;
  const auto begin = slot.compute.first.timing(), end = slot.compute.last.timing();
  if (begin && end) report_.compute += end->ended - begin->began;
  for (std::size_t i = 0; i < slot.buffers.size(); ++i)
    if (job_.arguments()[i].kind == Kind::reduction) GANTRY_TRY(fold(slot, i));
  for (std::size_t i = 0; i < slot.buffers.size(); ++i)
    if (job_.arguments()[i].writes()) GANTRY_TRY(bring_back(slot, i));
  return {};
}

Result<void> StageConveyor::fold(StageSlot& slot, std::size_t index) {
  const Argument& argument = job_.arguments()[index];
  const auto partial = std::make_shared<std::vector<std::byte>>(argument.step_bytes);
  GANTRY_ASSIGN(const DeviceEvent event,
                queues_.copy_out->copy_out(slot.buffers[index], 0, *partial, partial));
  GANTRY_TRY(event.wait(limit()));
  return argument.fold(*partial, slot.chunk);
}

Result<void> StageConveyor::bring_back(StageSlot& slot, std::size_t index) {
  const Bytes size = slot.chunk.steps * job_.arguments()[index].step_bytes;
  GANTRY_ASSIGN(const StageEnds::Landing there, ends_.place(slot.info, size, options_.deadline));
  if (there.bytes.size() != size)
    return fail(Code::invalid_argument,
                fmt::format("its result has {} bytes, its place {}", size, there.bytes.size()));
  GANTRY_ASSIGN(const DeviceEvent event,
                queues_.copy_out->copy_out(slot.buffers[index], 0, there.bytes, there.keep));
  GANTRY_TRY(event.wait(limit()));
  if (const auto timing = event.timing()) report_.copy_out += timing->span();
  report_.bytes_out += size;
  return ends_.landed(slot.info);
}

}  // namespace gantry
