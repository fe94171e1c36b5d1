#include "device/cpu/cpu_device.hpp"

#include <algorithm>
#include <cstddef>
#include <gantry/memory.hpp>
#include <limits>
#include <thread>

#include "core/base/os/numa_nodes.hpp"
#include "core/base/os/system_memory.hpp"
#include "core/base/result.hpp"
#include "device/cpu/work_team.hpp"
#include "device/device_base.hpp"

namespace gantry {
namespace {

constexpr Bytes kCpuLocalBytes = Bytes{16} << 20;  // of each thread: no more than a cache

// ---- operations -----------------------------------------------------------------------------

struct CpuKernelState final : KernelState {
  CpuKernelState(DeviceToken owner, const std::string& called, CpuKernel callable)
      : KernelState(owner, called), call(std::move(callable)) {}
  const CpuKernel call;
};

// Parts become smaller towards the end, so that nobody waits long for the last. Each is a share of
// what is left, and at least a share of all.
constexpr std::size_t kSharesOfRest = 4;  // for each thread
constexpr std::size_t kSharesOfAll = 64;  // for each thread
// Smaller copies are done before anybody could be woken for them.
constexpr Bytes kWorthHandingOver = Bytes{64} << 10;

using Items = std::vector<CpuArguments::Item>;

/// One launch while it runs. Several threads call its slices.
class Launch {
 public:
  Launch(const Operation& operation, unsigned threads)
      : operation_(operation),
        kernel_(static_cast<const CpuKernelState&>(*operation.kernel).call),
        items_total_(operation.range.count()),
        group_(std::max(operation.range.group_count(), std::size_t{1})),
        groups_(items_total_ / group_ + (items_total_ % group_ != 0 ? 1 : 0)) {
    for (const KernelArgument& argument : operation.arguments) {
      items_.push_back(
          {argument.is_buffer() ? argument.buffer()->memory : ByteSpan(), argument.value()});
      local_bytes_ += room_for(argument);
      if (argument.partial_bytes() != 0) count_partials(argument);
    }
    cut(threads);
  }

  [[nodiscard]] std::size_t parts() const noexcept { return ends_.size(); }
  void run(std::size_t part) noexcept {
    if (over_.load(std::memory_order_relaxed) ||  // hints: running a slice in vain does no harm
        operation_.stop.load(std::memory_order_relaxed))
      return;
    CpuSlice slice{part == 0 ? 0 : ends_[part - 1], ends_[part], operation_.range,
                   &operation_.stop};
    if (auto ran = guarded([&] { return call(slice); }); !ran) fail_with(std::move(ran).error());
  }
  [[nodiscard]] Result<void> result() {
    if (failure_) return tl::unexpected(std::move(*failure_));
    if (operation_.stop.load(std::memory_order_relaxed))
      return fail(Code::interrupted, "told to stop while it ran");
    return {};
  }

 private:
  static Bytes room_for(const KernelArgument& argument) noexcept {
    constexpr Bytes kLine = 64;
    return (argument.local_bytes() + kLine - 1) / kLine * kLine;
  }
  void cut(std::size_t threads) {
    const std::size_t least = std::max(groups_ / (threads * kSharesOfAll), std::size_t{1});
    for (std::size_t done = 0; done < groups_;) {
      done +=
          std::min(std::max((groups_ - done) / (threads * kSharesOfRest), least), groups_ - done);
      ends_.push_back(std::min(done * group_, items_total_));
    }
  }

  // So many fit every buffer of partial results; the last one need not fill its room.
  void count_partials(const KernelArgument& argument) {
    const Bytes room = KernelArgument::partial_room(argument.partial_bytes());
    const std::size_t fit = (argument.buffer()->size - argument.partial_bytes()) / room + 1;
    partials_in_use_ = std::vector<std::atomic<bool>>(
        has_partials() ? std::min(partials_in_use_.size(), fit) : fit);
  }
  [[nodiscard]] bool has_partials() const noexcept { return !partials_in_use_.empty(); }

  /// The lowest partial result that no other call uses, until dropped. There are as many as threads
  /// that call; with fewer, the call waits for one.
  class OwnPartial {
   public:
    explicit OwnPartial(Launch& launch) noexcept : launch_(launch) {
      if (!launch_.has_partials()) return;
      // C: what the call before wrote there.
      while (launch_.partials_in_use_[index_].exchange(true, std::memory_order_acquire))
        if (++index_ == launch_.partials_in_use_.size()) {
          index_ = 0;
          std::this_thread::yield();
        }
    }
    ~OwnPartial() {
      if (launch_.has_partials())
        launch_.partials_in_use_[index_].store(false, std::memory_order_release);  // C
    }
    OwnPartial(const OwnPartial&) = delete;
    OwnPartial& operator=(const OwnPartial&) = delete;
    [[nodiscard]] std::size_t index() const noexcept { return index_; }

   private:
    Launch& launch_;
    std::size_t index_ = 0;
  };

  Result<void> call(const CpuSlice& slice) {
    std::vector<std::byte> scratch;
    Items items;
    const OwnPartial partial(*this);
    const bool has_own = local_bytes_ != 0 || has_partials();
    if (has_own) {
      scratch.resize(local_bytes_ + 64);
      items = with_own(scratch, partial.index());
    }
    try {
      return kernel_(CpuArguments(has_own ? items : items_), slice);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& thrown) {
      return fail(Code::kernel_fault, fmt::format("threw: {}", thrown.what()));
    } catch (...) {
      return fail(Code::kernel_fault, "threw what is no std::exception");
    }
  }

  /// The arguments with the call's own local memory and partial results.
  [[nodiscard]] Items with_own(std::vector<std::byte>& scratch, std::size_t partial) const {
    Items items = items_;
    auto* at = scratch.data();
    at += (64 - reinterpret_cast<std::uintptr_t>(at) % 64) % 64;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const KernelArgument& argument = operation_.arguments[i];
      const Bytes bytes = argument.partial_bytes();
      if (argument.local_bytes() != 0) items[i].memory = {at, argument.local_bytes()};
      if (bytes != 0)
        items[i].memory =
            items[i].memory.subspan(partial * KernelArgument::partial_room(bytes), bytes);
      at += room_for(argument);
    }
    return items;
  }

  void fail_with(Error error) noexcept {
    over_.store(true, std::memory_order_relaxed);  // a hint, see run()
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    error.code = Code::kernel_fault;
    failure_ = std::move(error);
  }

  const Operation& operation_;
  const CpuKernel& kernel_;
  const std::size_t items_total_;
  const std::size_t group_;
  const std::size_t groups_;
  std::vector<std::size_t> ends_;  // of the parts, in items
  Items items_;
  Bytes local_bytes_ = 0;
  std::vector<std::atomic<bool>> partials_in_use_;
  std::atomic<bool> over_{false};
  std::mutex mutex_;
  std::optional<Error> failure_;
};

Move move_of(const Operation& operation, Bytes row) {
  const Bytes size = operation.size;
  const Bytes to_row = row * operation.to_stride;
  const Bytes from_row = row * operation.from_stride;
  const auto to = [&] { return operation.to->memory.subspan(operation.to_offset + to_row, size); };
  const auto from = [&] {
    return operation.from->memory.subspan(operation.from_offset + from_row, size);
  };
  switch (operation.kind) {
    case Operation::Kind::copy_in:
      return Move::copy(to(), {operation.host_from + from_row, size});
    case Operation::Kind::copy_out:
      return Move::copy({operation.host_to + to_row, size}, from());
    case Operation::Kind::copy:
      return Move::copy(to(), from());
    default:
      return Move::fill(to(), operation.value);
  }
}

Error why(const Completion& completion) {
  const bool is_read = completion.cause == Cause::unreadable;
  if (is_read || completion.cause == Cause::unwritable)
    return {Code::invalid_argument,
            fmt::format("the byte at {:#x} cannot be {}", completion.fault_address,
                        is_read ? "read" : "written"),
            "a file behind it may have been cut short"};
  return {Code::system, fmt::format("the copy failed: {}", to_string(completion.cause)), {}};
}

class CpuExecutor final : public Executor {
 public:
  using Before = std::function<Result<void>(std::string_view)>;

  /// `lane`: copies; null: memcpy().
  CpuExecutor(std::shared_ptr<WorkTeam> team, std::unique_ptr<Lane> lane, Before before)
      : team_(std::move(team)), lane_(std::move(lane)), before_(std::move(before)) {}

  [[nodiscard]] std::size_t depth() const noexcept override { return 1; }
  [[nodiscard]] Result<void> check(const Operation& operation) override {
    Bytes local = 0;
    for (const KernelArgument& argument : operation.arguments) local += argument.local_bytes();
    if (local <= kCpuLocalBytes) return {};
    return fail(Code::invalid_argument,
                fmt::format("cpu: launch of '{}': {} bytes of local memory; at most {}",
                            operation.kernel->name, local, kCpuLocalBytes));
  }

  void begin(const std::shared_ptr<Operation>& operation, const std::shared_ptr<QueueCore>& queue,
             bool) noexcept override {
    operation->timing.began = Deadline::Clock::now();
    Result<void> result = guarded([&]() -> Result<void> {
      if (before_) GANTRY_TRY(before_(to_string(operation->kind)));
      return execute(*operation);
    });
    operation->timing.ended = Deadline::Clock::now();
    queue->done(operation, result ? std::nullopt : std::optional(std::move(result).error()));
  }

 private:
  [[nodiscard]] Result<void> execute(const Operation& operation) {
    if (operation.kind == Operation::Kind::record) return {};
    if (operation.kind == Operation::Kind::launch) return launch(operation);
    if (operation.rows * operation.size < kWorthHandingOver) return move_rows(operation);
    Result<void> moved;
    team_->run_beside([&] { moved = guarded([&] { return move_rows(operation); }); });
    return moved;
  }

  [[nodiscard]] Result<void> move_rows(const Operation& operation) {
    for (Bytes row = 0; row < operation.rows; ++row) GANTRY_TRY(move_now(move_of(operation, row)));
    return {};
  }
  [[nodiscard]] Result<void> move_now(const Move& move) {
    if (move.reads() && move.source == move.destination) return {};  // of a buffer over host memory
    if (lane_ == nullptr) {
      if (move.reads())
        std::memcpy(move.destination, move.source, move.bytes);
      else
        std::memset(move.destination, static_cast<int>(move.pattern & 0xff), move.bytes);
      return {};
    }
    Completion completion;
    Move one = move;
    one.completion = &completion;
    GANTRY_ASSIGN(const Ticket ticket, lane_->submit(one, SubmitMode::synchronous));
    if (lane_->wait(ticket) == Outcome::done) return {};
    return tl::unexpected(why(completion));
  }

  [[nodiscard]] Result<void> launch(const Operation& operation) {
    Launch launch(operation, team_->threads());
    team_->run(launch.parts(), [&launch](std::size_t part) { launch.run(part); });
    return launch.result();
  }

  const std::shared_ptr<WorkTeam> team_;
  const std::unique_ptr<Lane> lane_;
  const Before before_;
};

// ---- the device -----------------------------------------------------------------------------

using Kept = KeptMemory<Region>;

struct CpuBuffer final : BufferState {
  CpuBuffer(DeviceToken owner, Bytes bytes, Region taken, bool is_visible, MemoryBudget::Share part,
            std::shared_ptr<Kept> from) noexcept
      : BufferState(owner, bytes, {taken.data(), bytes}, is_visible),
        share(std::move(part)),
        kept(std::move(from)),
        region(std::move(taken)) {}
  ~CpuBuffer() override {
    const Bytes room = region.size();
    kept->give(std::move(region), room);
  }

  const MemoryBudget::Share share;
  const std::shared_ptr<Kept> kept;
  Region region;
};

/// The caller's memory.
struct CpuView final : BufferState {
  CpuView(DeviceToken owner, ByteSpan there, KeepAlive held) noexcept
      : BufferState(owner, there.size(), there), keep(std::move(held)) {}
  const KeepAlive keep;
};

class CpuProgram final : public ProgramState {
 public:
  CpuProgram(DeviceToken device, const ProgramSource& source)
      : device_(device), name_(source.name), kernels_(source.cpu) {}

  Result<std::shared_ptr<const KernelState>> find(std::string_view name) const override {
    const auto found = kernels_.find(std::string(name));
    if (found != kernels_.end())
      return std::make_shared<CpuKernelState>(device_, found->first, found->second);
    std::string names;
    for (const auto& [known, call] : kernels_) names += (names.empty() ? "" : ", ") + known;
    return fail(Code::not_found, fmt::format("program '{}': no kernel '{}'", name_, name),
                fmt::format("its kernels are {}", names));
  }
  std::string_view log() const noexcept override { return {}; }

 private:
  const DeviceToken device_;
  const std::string name_;
  const std::map<std::string, CpuKernel> kernels_;
};

DeviceFacts facts_of(const CpuDeviceOptions& options, unsigned threads) {
  DeviceFacts facts;
  facts.name = options.name;
  facts.about = fmt::format("{} threads of the CPU", threads);
  facts.kind = DeviceKind::cpu;
  facts.memory_bytes = options.memory_bytes != 0 ? options.memory_bytes : system_memory().total;
  facts.max_buffer_bytes = facts.memory_bytes;
  facts.alignment = 64;
  facts.max_group = std::numeric_limits<std::size_t>::max();
  facts.local_bytes = kCpuLocalBytes;
  facts.compute_units = threads;
  facts.partials = threads;
  facts.unified_memory = true;
  facts.host_visible = options.host_visible;
  // The language aligns memory for any of its types so.
  if (options.host_visible) facts.in_place_alignment = alignof(std::max_align_t);
  facts.copies_overlap = true;
  facts.stops_kernels = true;
  return facts;
}

class CpuDevice final : public DeviceBase {
 public:
  CpuDevice(const CpuDeviceOptions& options, std::shared_ptr<WorkTeam> team)
      : DeviceBase(facts_of(options, team->threads()), std::make_shared<DeviceCore>(options.name)),
        options_(options),
        kept_(std::make_shared<Kept>(bytes_to_keep(facts().memory_bytes))),
        team_(std::move(team)) {}

 private:
  // The machine's memory belongs to everybody: what is left of it changes without us.
  Result<Bytes> free_bytes() const override {
    GANTRY_ASSIGN(const Bytes left, DeviceBase::free_bytes());
    if (options_.memory_bytes != 0) return left;
    return std::min(left, system_memory().available + kept_->bytes());
  }
  Result<DeviceBuffer> make_buffer(Bytes size, MemoryBudget::Share share) override {
    auto region = take_region(size);
    if (!region) return full(size);
    return DeviceBuffer(std::make_shared<CpuBuffer>(core().get(), size, *std::move(region),
                                                    facts().host_visible, std::move(share), kept_));
  }
  Result<DeviceBuffer> make_view(ByteSpan memory, KeepAlive keep) override {
    return DeviceBuffer(std::make_shared<CpuView>(core().get(), memory, std::move(keep)));
  }
  Result<std::unique_ptr<Executor>> make_executor() override {
    std::unique_ptr<Lane> lane;
    if (options_.copier != nullptr) {
      GANTRY_ASSIGN(lane, options_.copier->open_lane());
    }
    return std::make_unique<CpuExecutor>(team_, std::move(lane), options_.before);
  }

  std::optional<Region> take_region(Bytes size) {
    const Bytes room = Kept::room_for(size);
    if (auto kept = kept_->take(room)) return kept;
    if (options_.memory_bytes == 0 && room > system_memory().available) {
      kept_->clear();
      if (room > system_memory().available) return std::nullopt;
    }
    auto region = Region::create(room, "gantry-device", {.shareable = false});
    // Touched now, by several threads: later the first operation would pay for it.
    if (!region || !region->touch(0, room, 0)) return std::nullopt;
    return *std::move(region);
  }

  Result<Program> make_program(const ProgramSource& source) override {
    if (source.cpu.empty())
      return fail(
          Code::unsupported,
          fmt::format("{}: program '{}' has no kernels for the CPU", facts().name, source.name),
          "give it C++ callables (ProgramSource::cpu)");
    for (const auto& [name, call] : source.cpu)
      if (!call)
        return fail(Code::invalid_argument,
                    fmt::format("{}: program '{}': the callable of kernel '{}' is empty",
                                facts().name, source.name, name));
    return Program(std::make_shared<CpuProgram>(core().get(), source));
  }

  const CpuDeviceOptions options_;
  const std::shared_ptr<Kept> kept_;
  const std::shared_ptr<WorkTeam> team_;
};

}  // namespace

Result<std::shared_ptr<Device>> make_cpu_device(const CpuDeviceOptions& options) {
  return guarded([&]() -> Result<std::shared_ptr<Device>> {
    const unsigned threads = options.threads != 0 ? options.threads : usable_cpus();
    GANTRY_ASSIGN(auto team, WorkTeam::make(threads));
    return std::make_shared<CpuDevice>(options, std::move(team));
  });
}

}  // namespace gantry
