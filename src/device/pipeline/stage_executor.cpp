#include <algorithm>
#include <condition_variable>
#include <deque>
#include <gantry/pipeline.hpp>
#include <gantry/runtime.hpp>
#include <mutex>
#include <thread>

#include "core/base/os/worker_thread.hpp"
#include "device/pipeline/chunk_executor.hpp"
#include "device/pipeline/device_run.hpp"
#include "device/pipeline/job_check.hpp"

namespace gantry {
namespace {

using Argument = PipelineJob::Argument;
using Kind = Argument::Kind;
constexpr unsigned kStageDepth = 3;

Error named(Error error, std::uint64_t number) {
  error.message = fmt::format("message {}: {}", number, error.message);
  return error;
}

/// Not now: perhaps when others have been given back, and the completer waits for that.
bool is_for_later(Code code) noexcept {
  return code == Code::timed_out || code == Code::busy || code == Code::out_of_memory;
}

bool overlap(ConstByteSpan one, ConstByteSpan other) noexcept {
  const std::less<> before;
  return before(one.data(), other.data() + other.size()) &&
         before(other.data(), one.data() + one.size());
}

StageCallbacks::Received received_of(Message message) {
  StageCallbacks::Received received;
  const auto held = std::make_shared<const Message>(std::move(message));
  for (std::size_t i = 0; i < held->segments(); ++i)
    received.segments.push_back(held->segment(i).bytes);
  received.info = held->info();
  received.keep = held;
  return received;
}

/// One run_stage(). A thread of its own receives and submits copy-in and compute; the caller brings
/// results back and publishes them. Slots go from the submitter to the completer and back under
/// mutex_. The completer asks for a place when a result is there. If the device computes in place,
/// the submitter asks before it launches, for all results that have none so far, but takes only
/// places that can be had at once. So neither computing nor committing ever waits for a place that
/// somebody else has to make.
///   I1  completed_ <= submitted_ <= completed_ + depth.
///   I2  The submitter writes slot i when submitted_ == i and i < completed_ + depth; the completer
///       has it when i < submitted_ and i == completed_, except `destination`: I4.
///   I3  Only the thread that has the turn calls the ends' `place` and `committed`; the turn is
///       taken and ended under mutex_.
///   I4  Places are given in the order of receipt: slot i has its destination when i < placed_.
///       Both belong to the thread that has the turn; a destination is the completer's alone once
///       it has seen it there.
class StageExecutor {
 public:
  StageExecutor(Device& device, const PipelineJob& job, const PipelineOptions& options,
                const StageCallbacks& ends)
      : device_(device), job_(job), options_(options), ends_(ends) {}

  [[nodiscard]] Result<void> open() {
    GANTRY_ASSIGN(zero_copy_, zero_copy_of(device_.facts(), options_));
    GANTRY_ASSIGN(kernel_, job_.kernel_on(device_));
    GANTRY_ASSIGN(queues_, RunQueues::open(device_, false));
    broadcasts_.resize(job_.arguments().size());
    for (std::size_t i = 0; i < broadcasts_.size(); ++i) {
      if (job_.arguments()[i].kind != Kind::broadcast) continue;
      auto brought = bring_broadcast(device_, *queues_.copy_in, job_.arguments()[i].source,
                                     options_.file_io, limit_of(options_));
      if (!brought) {
        halt_queues(device_, queues_, options_);
        return tl::unexpected(std::move(brought).error());
      }
      broadcasts_[i] = *std::move(brought);
    }
    output_ = static_cast<std::size_t>(std::ranges::find_if(job_.arguments(), &Argument::writes) -
                                       job_.arguments().begin());
    slots_.resize(options_.depth != 0 ? options_.depth : kStageDepth);
    for (StageSlot& slot : slots_) slot.arrays.resize(broadcasts_.size());
    describe();
    return {};
  }

  [[nodiscard]] Result<void> run() {
    GANTRY_ASSIGN(std::thread submitter, start_thread("a thread", [this] { submit_all(); }));
    auto completed = caught([this] { return complete_all(); });
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    moved_.notify_all();
    submitter.join();
    if (!completed) halt_queues(device_, queues_, options_);
    describe_end();
    return completed;
  }

  [[nodiscard]] const PipelineStageReport& report() const noexcept { return report_; }

 private:
  struct StageSlot {
    struct Array {
      DeviceBuffer own;   // kept from message to message
      DeviceBuffer over;  // memory of the message, or of its result's place
      ByteSpan lies;      // that memory
      [[nodiscard]] const DeviceBuffer& buffer() const noexcept { return over ? over : own; }
      void let_go() noexcept { over = {}, lies = {}; }
    };
    std::vector<Array> arrays;  // one for each argument
    Chunk chunk;
    MessageInfo info;
    bool is_held = false;  // the message is: its memory is computed on
    std::optional<Result<StageCallbacks::Destination>> destination;  // I4
    ChunkSlot::Stage copy_in, compute;
  };
  /// Who uses `place` and `committed`, and for what.
  enum class Turn : std::uint8_t {
    nobody,
    ahead,       // the submitter asks for places that can be had at once
    committing,  // the completer
    waiting,     // the completer waits for a place, which may take long
  };

  void describe() {
    report_.device = device_.facts().name;
    report_.depth = static_cast<unsigned>(slots_.size());
    report_.reasons = {options_.depth != 0 ? "depth: as asked for"
                       : zero_copy_.is_for_callers
                           ? "depth: one computed, one behind it, one handed on"
                           : "depth: a message in each of the three streams"};
  }

  void describe_end() {
    if (!zero_copy_.is_for_callers) {
      report_.reasons.emplace_back(
          "staging: none: the device copies messages from where they lie and results to where they "
          "go");
      if (!zero_copy_.why_not.empty())
        report_.reasons.push_back(fmt::format("messages are copied: {}", zero_copy_.why_not));
      return;
    }
    report_.reasons.emplace_back("staging: shared: the device computes on messages where they lie");
    if (report_.read_in_place < report_.messages)
      report_.reasons.push_back(fmt::format(
          "a message is copied that begins at no multiple of {}, that a halo makes of several "
          "pieces, or that is the last its sender can have here",
          zero_copy_.alignment));
    if (ends_.places < 2)
      report_.reasons.emplace_back("results are copied: they get their places one at a time");
    else if (report_.written_in_place < report_.messages)
      report_.reasons.push_back(
          fmt::format("a result is copied whose place begins at no multiple of {}, or was not to "
                      "be had when its "
                      "computation began",
                      zero_copy_.alignment));
  }

  // The submitter's.
  void submit_all() noexcept {
    for (;;) {
      std::unique_lock lock(mutex_);
      moved_.wait(lock, [this] { return stop_ || submitted_ < completed_ + slots_.size(); });
      if (stop_) return;
      const std::uint64_t number = submitted_;
      lock.unlock();
      auto message = caught([this] { return receive(); });
      auto submitted = message ? caught([&] { return submit(slot(number), *message); })
                               : Result<void>(tl::unexpected(message.error()));
      lock.lock();
      GANTRY_DEBUG_ASSERT(submitted_ == number);                     // I2
      GANTRY_DEBUG_ASSERT(submitted_ < completed_ + slots_.size());  // I1
      if (submitted)
        ++submitted_;
      else
        submit_error_ =
            message ? named(std::move(submitted).error(), number) : std::move(submitted).error();
      moved_.notify_all();
      if (submit_error_) return;
    }
  }

  // Checks now and then: the caller may have failed while nothing comes.
  [[nodiscard]] Result<StageCallbacks::Received> receive() {
    constexpr auto kPatience = std::chrono::milliseconds(20);
    for (;;) {
      auto message = ends_.receive(
          Deadline::after(std::min<std::chrono::nanoseconds>(kPatience, options_.deadline.left())));
      if (message || message.error().code != Code::timed_out) return message;
      if (has_stopped() || options_.deadline.passed()) return message;
    }
  }

  [[nodiscard]] Result<void> submit(StageSlot& slot, const StageCallbacks::Received& message) {
    GANTRY_ASSIGN(const std::uint64_t steps, steps_of(message));
    slot.chunk = {submitted_, 0, steps};
    slot.info = message.info;
    slot.copy_in = slot.compute = {};
    const bool is_holding = may_hold();
    for (std::size_t i = 0; i < slot.arrays.size(); ++i) {
      if (job_.arguments()[i].reads()) GANTRY_TRY(bring(slot, i, message, is_holding));
      if (job_.arguments()[i].kind == Kind::reduction) GANTRY_TRY(make_room(slot, i));
    }
    if (slot.is_held) {
      const std::lock_guard lock(mutex_);
      ++held_;
    }
    place_ahead(slot.chunk.index);
    GANTRY_TRY(make_place(slot));
    return submit_compute(slot);
  }

  [[nodiscard]] Result<std::uint64_t> steps_of(const StageCallbacks::Received& message) const {
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

  // One message is left to its sender, so that it can fill the next meanwhile.
  [[nodiscard]] bool may_hold() {
    if (!zero_copy_.is_for_callers) return false;
    const std::lock_guard lock(mutex_);
    return ends_.holds == 0 || held_ + 1 < ends_.holds;
  }
  [[nodiscard]] Result<void> make_room(StageSlot& slot, std::size_t index) {
    DeviceBuffer& own = slot.arrays[index].own;
    const Argument& argument = job_.arguments()[index];
    const Bytes size = argument.kind == Kind::reduction ? partials_bytes(argument, device_.facts())
                                                        : buffer_bytes(argument, slot.chunk.steps);
    if (size <= own.size()) return {};
    own = {};  // first: the device may not hold both
    GANTRY_ASSIGN(own, device_.allocate(size));
    return {};
  }

  // Brings it to the device: the message itself, or a copy.
  [[nodiscard]] Result<void> bring(StageSlot& slot, std::size_t index,
                                   const StageCallbacks::Received& message, bool may_hold) {
    const Argument& argument = job_.arguments()[index];
    const ConstByteSpan bytes = message.segments[argument.source.segment];
    StageSlot::Array& array = slot.arrays[index];
    report_.bytes_in += bytes.size();
    if (may_hold) array.lies = shared_message(argument, slot.chunk, bytes, zero_copy_.alignment);
    if (array.lies.empty()) {
      GANTRY_TRY(make_room(slot, index));
      return submit_in(slot, index, message);
    }
    GANTRY_ASSIGN(array.over, device_.over(array.lies, message.keep));
    slot.is_held = true;
    return {};
  }

  [[nodiscard]] Result<void> submit_in(StageSlot& slot, std::size_t index,
                                       const StageCallbacks::Received& message) {
    const Argument& argument = job_.arguments()[index];
    const ConstByteSpan bytes = message.segments[argument.source.segment];
    // The queue holds the message until it is copied, and then gives it back to its sender.
    const auto put = [&](Bytes at, ConstByteSpan from) -> Result<void> {
      return slot.copy_in.add(
          queues_.copy_in->copy_in(slot.arrays[index].own, at, from, message.keep));
    };
    for (const ChunkExtent& extent : extents_of(argument, slot.chunk, slot.chunk.steps)) {
      if (extent.kind == ChunkExtent::Kind::zero) {
        GANTRY_TRY(slot.copy_in.add(
            queues_.copy_in->fill(slot.arrays[index].own, extent.at, extent.size, std::byte{})));
      } else if (extent.kind == ChunkExtent::Kind::source) {
        GANTRY_TRY(put(extent.at, bytes.subspan(extent.from, extent.size)));
      } else {
        const ConstByteSpan step = extent.kind == ChunkExtent::Kind::first_step
                                       ? bytes.first(argument.step_bytes)
                                       : bytes.last(argument.step_bytes);
        for (Bytes at = 0; at < extent.size; at += step.size())
          GANTRY_TRY(put(extent.at + at, step));
      }
    }
    return {};
  }

  // For the submitter: makes the memory that the kernel writes to.
  [[nodiscard]] Result<void> make_place(StageSlot& slot) {
    StageSlot::Array& output = slot.arrays[output_];
    const bool has_place = slot.destination && *slot.destination;
    const ByteSpan there = has_place ? (*slot.destination)->bytes : ByteSpan();
    bool is_fit = has_place && there.size() == result_bytes(slot) &&
                  is_aligned(there.data(), zero_copy_.alignment);
    for (const StageSlot::Array& array : slot.arrays)
      is_fit = is_fit && !overlap(array.lies, there);
    if (!is_fit) return make_room(slot, output_);
    GANTRY_ASSIGN(output.over, device_.over(there, (*slot.destination)->keep));
    output.lies = there;
    return {};
  }

  [[nodiscard]] Result<void> submit_compute(StageSlot& slot) {
    GANTRY_TRY(queues_.compute->wait_for(slot.copy_in.last));
    std::vector<const DeviceBuffer*> buffers;
    buffers.reserve(slot.arrays.size());
    for (std::size_t i = 0; i < slot.arrays.size(); ++i)
      buffers.push_back(job_.arguments()[i].kind == Kind::broadcast ? &broadcasts_[i]
                                                                    : &slot.arrays[i].buffer());
    GANTRY_TRY(launch_kernel(*queues_.compute, kernel_, job_, slot.chunk, buffers, slot.compute));
    const StageSlot::Array& output = slot.arrays[output_];
    if (!output.over) return {};
    // Makes visible what the device wrote there. Nothing moves, so it is a part of computing.
    return slot.compute.add(
        queues_.compute->copy_out(output.over, 0, output.lies, (*slot.destination)->keep));
  }

  // The caller's.
  [[nodiscard]] Result<void> complete_all() {
    for (std::uint64_t number = 0;; ++number) {
      {
        std::unique_lock lock(mutex_);
        moved_.wait(lock, [&] { return submitted_ > number || submit_error_; });
        if (submitted_ <= number && submit_error_->code == Code::closed) return {};
        if (submitted_ <= number) return tl::unexpected(*submit_error_);
      }
      if (auto completed = caught([&] { return complete(slot(number)); }); !completed)
        return tl::unexpected(named(std::move(completed).error(), number));
      ++report_.messages;
      {
        const std::lock_guard lock(mutex_);
        GANTRY_DEBUG_ASSERT(completed_ == number && completed_ < submitted_);  // I1, I2
        ++completed_;
      }
      moved_.notify_all();
    }
  }

  [[nodiscard]] Result<void> complete(StageSlot& slot) {
    const Deadline until = limit_of(options_);
    GANTRY_TRY(slot.copy_in.last.wait(until));
    GANTRY_TRY(slot.compute.last.wait(until));
    report_.copy_in += slot.copy_in.timing().span();
    report_.compute += slot.compute.timing().span();
    let_message_go(slot);
    for (std::size_t i = 0; i < slot.arrays.size(); ++i)
      if (job_.arguments()[i].kind == Kind::reduction) GANTRY_TRY(fold(slot, i));
    return bring_back(slot);
  }

  [[nodiscard]] Result<void> bring_back(StageSlot& slot) {
    GANTRY_ASSIGN(const StageCallbacks::Destination there, place_of(slot.chunk.index));
    const Bytes size = result_bytes(slot);
    if (there.bytes.size() != size)
      return fail(Code::invalid_argument,
                  fmt::format("its result has {} bytes, its place {}", size, there.bytes.size()));
    StageSlot::Array& output = slot.arrays[output_];
    if (output.over) {
      output.let_go();
      ++report_.written_in_place;
    } else {
      GANTRY_ASSIGN(const DeviceEvent event,
                    queues_.copy_out->copy_out(output.own, 0, there.bytes, there.keep));
      GANTRY_TRY(event.wait(limit_of(options_)));
      if (const auto timing = event.timing()) report_.copy_out += timing->span();
    }
    report_.bytes_out += size;
    return commit(slot);
  }

  [[nodiscard]] Result<void> fold(StageSlot& slot, std::size_t index) {
    const Argument& argument = job_.arguments()[index];
    const DeviceBuffer& buffer = slot.arrays[index].own;
    const auto partials = std::make_shared<std::vector<std::byte>>(buffer.size());
    GANTRY_ASSIGN(const DeviceEvent event,
                  queues_.copy_out->copy_out(buffer, 0, *partials, partials));
    GANTRY_TRY(event.wait(limit_of(options_)));
    return fold_partials(argument, *partials, slot.chunk);
  }

  void let_message_go(StageSlot& slot) {
    if (!std::exchange(slot.is_held, false)) return;
    for (std::size_t i = 0; i < slot.arrays.size(); ++i)
      if (i != output_) slot.arrays[i].let_go();
    if (!slot.copy_in.last) ++report_.read_in_place;
    const std::lock_guard lock(mutex_);
    GANTRY_DEBUG_ASSERT(held_ > 0);
    --held_;
  }

  // The ends.
  // For the submitter. Also asks for results before `number`, which were refused at their turn.
  void place_ahead(std::uint64_t number) {
    if (!zero_copy_.is_for_callers || ends_.places < 2 || !take_turn_ahead()) return;
    std::uint64_t committed = 0;
    {
      const std::lock_guard lock(mutex_);
      committed = completed_;
    }
    while (placed_ <= number && placed_ < committed + ends_.places && !is_place_refused_) {
      auto destination = place(slot(placed_), Deadline::now());
      if (!destination && is_for_later(destination.error().code)) break;
      is_place_refused_ = !destination;
      slot(placed_).destination.emplace(std::move(destination));
      ++placed_;
    }
    end_turn();
  }

  // For the completer: the place of the oldest result that is not committed.
  [[nodiscard]] Result<StageCallbacks::Destination> place_of(std::uint64_t number) {
    StageSlot& mine = slot(number);
    take_turn(Turn::committing);
    if (placed_ == number) {
      take_turn(Turn::waiting);
      mine.destination.emplace(place(mine, options_.deadline));
      ++placed_;
    }
    end_turn();
    GANTRY_DEBUG_ASSERT(mine.destination.has_value());  // I4
    return *mine.destination;
  }

  [[nodiscard]] Result<void> commit(StageSlot& slot) {
    take_turn(Turn::committing);
    auto committed = caught([&] { return ends_.committed(slot.info); });
    slot.destination.reset();
    end_turn();
    return committed;
  }

  [[nodiscard]] Result<StageCallbacks::Destination> place(const StageSlot& slot,
                                                          Deadline deadline) const {
    return caught([&] { return ends_.place(slot.info, result_bytes(slot), deadline); });
  }
  // A commit is soon over; waiting for a place may take long.
  [[nodiscard]] bool take_turn_ahead() {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [this] { return stop_ || turn_ != Turn::committing; });
    if (stop_ || turn_ != Turn::nobody) return false;
    turn_ = Turn::ahead;
    return true;
  }

  void take_turn(Turn turn) {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [this] { return turn_ != Turn::ahead; });
    turn_ = turn;
    moved_.notify_all();
  }

  void end_turn() {
    {
      const std::lock_guard lock(mutex_);
      GANTRY_DEBUG_ASSERT(turn_ != Turn::nobody);  // I3
      turn_ = Turn::nobody;
    }
    moved_.notify_all();
  }

  [[nodiscard]] Bytes result_bytes(const StageSlot& slot) const {
    return slot.chunk.steps * job_.arguments()[output_].step_bytes;
  }

  [[nodiscard]] bool has_stopped() {
    const std::lock_guard lock(mutex_);
    return stop_;
  }
  [[nodiscard]] StageSlot& slot(std::uint64_t index) { return slots_[index % slots_.size()]; }

  Device& device_;
  const PipelineJob& job_;
  const PipelineOptions& options_;
  const StageCallbacks& ends_;
  Kernel kernel_;
  RunQueues queues_;
  std::vector<DeviceBuffer> broadcasts_;  // one for each argument, mostly empty
  std::vector<StageSlot> slots_;
  ZeroCopy zero_copy_;
  std::size_t output_ = 0;  // index of the argument
  PipelineStageReport report_;

  std::mutex mutex_;
  std::condition_variable moved_;
  std::uint64_t submitted_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t held_ = 0;  // messages that are computed on where they lie
  Turn turn_ = Turn::nobody;
  bool stop_ = false;
  std::optional<Error> submit_error_;  // `closed`: everything was received

  // Used by the thread that has the turn.
  std::uint64_t placed_ = 0;       // results that have their places, or were refused one
  bool is_place_refused_ = false;  // by an error that the completer will meet
};

}  // namespace

StageCallbacks StageCallbacks::of(Consumer& from, Producer& to) {
  // Loans of results in flight, the oldest first. Their run holds them. After a run that failed
  // they are gone, except what an abandoned kernel keeps.
  struct Lent {
    std::uint64_t sequence;
    std::weak_ptr<Loan> loan;
  };
  const auto lent = std::make_shared<std::deque<Lent>>();
  return {.receive = [&from](Deadline deadline) -> Result<Received> {
            GANTRY_ASSIGN(Message message, from.receive(deadline));
            return received_of(std::move(message));
          },
          .place = [&to, lent](const MessageInfo& info, Bytes size,
                               Deadline deadline) -> Result<Destination> {
            GANTRY_ASSIGN(Loan taken, to.loan(size, deadline));
            const auto loan = std::make_shared<Loan>(std::move(taken));
            lent->push_back({info.sequence, loan});
            return Destination{loan->bytes(), loan};
          },
          .committed =
              [&to, lent](const MessageInfo& info) {
                SendOptions options;
                options.type = info.type;
                options.user = info.user;
                while (lent->size() > 1 &&
                       (lent->front().loan.expired() || lent->front().sequence != info.sequence))
                  lent->pop_front();
                const auto result = lent->front().loan.lock();
                lent->pop_front();
                return to.publish(std::move(*result), options);
              },
          .places = ProducerOptions::kMaxSlots,
          .holds = from.explain().depth};
}

Result<PipelineStageReport> run_stage(Device& device, const PipelineJob& job,
                                      const StageCallbacks& ends, const PipelineOptions& options) {
  return caught([&]() -> Result<PipelineStageReport> {
    GANTRY_TRY(check_stage(job, options));
    const auto begin = Deadline::Clock::now();
    StageExecutor executor(device, job, options, ends);
    GANTRY_TRY(executor.open());
    GANTRY_TRY(executor.run());
    PipelineStageReport report = executor.report();
    report.elapsed = Deadline::Clock::now() - begin;
    return report;
  });
}

Result<PipelineStageReport> run_stage(Device& device, const PipelineJob& job, Consumer& from,
                                      Producer& to, const PipelineOptions& options) {
  return run_stage(device, job, StageCallbacks::of(from, to), options);
}

}  // namespace gantry
