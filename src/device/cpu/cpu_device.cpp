#include "device/cpu/cpu_device.hpp"

#include <algorithm>
#include <cstddef>
#include <gantry/memory.hpp>
#include <limits>

#include "base/numa_nodes.hpp"
#include "base/result.hpp"
#include "base/system_memory.hpp"
#include "device/cpu/cpu_executor.hpp"
#include "device/kept_memory.hpp"
#include "device/memory_budget.hpp"

namespace gantry {
namespace {

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

class CpuDevice final : public Device {
 public:
  CpuDevice(const CpuDeviceOptions& options, std::shared_ptr<WorkTeam> team)
      : options_(options),
        facts_(facts_of(options, team->threads())),
        core_(std::make_shared<DeviceCore>(options.name)),
        budget_(MemoryBudget::make(facts_.memory_bytes)),
        kept_(std::make_shared<Kept>(bytes_to_keep(facts_.memory_bytes))),
        team_(std::move(team)) {}

  const DeviceFacts& facts() const noexcept override { return facts_; }
  Result<DeviceMemory> memory() const override {
    GANTRY_TRY(core_->state());
    return DeviceMemory{facts_.memory_bytes, free_bytes()};
  }
  Result<DeviceBuffer> allocate(Bytes size) override {
    return guarded([&] { return do_allocate(size); });
  }
  Result<DeviceBuffer> over(ByteSpan memory, KeepAlive keep) override {
    if (facts_.in_place_alignment == 0) return Device::over(memory, std::move(keep));
    return guarded([&]() -> Result<DeviceBuffer> {
      GANTRY_TRY(core_->state());
      GANTRY_TRY(check_over(facts_, memory));
      return DeviceBuffer(std::make_shared<CpuView>(core_.get(), memory, std::move(keep)));
    });
  }
  Result<std::unique_ptr<DeviceQueue>> open_queue(QueueRole role) override {
    return guarded([&]() -> Result<std::unique_ptr<DeviceQueue>> {
      std::unique_ptr<Lane> lane;
      if (options_.copier != nullptr) {
        GANTRY_ASSIGN(lane, options_.copier->open_lane());
      }
      return OrderedQueue::open(
          core_, role, std::make_unique<CpuExecutor>(team_, std::move(lane), options_.before));
    });
  }
  Result<Program> build(const ProgramSource& source) override {
    return guarded([&] { return do_build(source); });
  }
  Result<std::shared_ptr<Registrar>> registrar() override { return make_page_lock_registrar(); }
  Result<void> state() const override { return core_->state(); }
  void abandon(std::string reason) noexcept override { core_->lose(std::move(reason)); }

 private:
  // The machine's memory belongs to everybody: what is left of it changes without us.
  [[nodiscard]] Bytes free_bytes() const {
    const Bytes left = budget_->left();
    if (options_.memory_bytes != 0) return left;
    return std::min(left, system_memory().available + kept_->bytes());
  }

  Result<DeviceBuffer> do_allocate(Bytes size) {
    GANTRY_TRY(core_->state());
    GANTRY_TRY(check_size(facts_, size));
    auto share = budget_->take(size);
    auto region = share ? take_region(size) : std::nullopt;
    if (!region) return device_full(facts_.name, size, free_bytes());
    return DeviceBuffer(std::make_shared<CpuBuffer>(core_.get(), size, *std::move(region),
                                                    facts_.host_visible, std::move(share), kept_));
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

  Result<Program> do_build(const ProgramSource& source) {
    GANTRY_TRY(core_->state());
    if (source.cpu.empty())
      return fail(
          Code::unsupported,
          fmt::format("{}: program '{}' has no kernels for the CPU", facts_.name, source.name),
          "give it C++ callables (ProgramSource::cpu)");
    for (const auto& [name, call] : source.cpu)
      if (!call)
        return fail(Code::invalid_argument,
                    fmt::format("{}: program '{}': the callable of kernel '{}' is empty",
                                facts_.name, source.name, name));
    return Program(std::make_shared<CpuProgram>(core_.get(), source));
  }

  const CpuDeviceOptions options_;
  const DeviceFacts facts_;
  const std::shared_ptr<DeviceCore> core_;
  const std::shared_ptr<MemoryBudget> budget_;
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
