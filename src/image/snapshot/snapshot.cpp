#include <gantry/image/snapshot.hpp>

#include "base/fork_error.hpp"
#include "base/result.hpp"
#include "image/snapshot/save.hpp"
#include "image/snapshot/snapshot_state.hpp"
#include "image/snapshot/tables.hpp"

namespace gantry {
namespace {

using What = snapshot::PageLoader::What;

double mib(Bytes bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}
double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

std::string RestoreReport::text() const {
  const std::string how = is_lazy ? "used while it loads" : "loaded first: " + why_not_lazy;
  const std::string first =
      until_working_set.count() > 0 ? fmt::format(" in {:.3f} s", seconds(until_working_set)) : "";
  return fmt::format(
      "{:.1f} MiB ({}), {:.1f} of them zero; working set of {:.1f} MiB{}; {:.1f} MiB loaded from "
      "{:.1f} MiB, read {} by {} workers in {:.3f} s; {} faults, {} fetched out of turn",
      mib(bytes), how, mib(zero_bytes), mib(first_bytes), first, mib(loaded_bytes),
      mib(stored_bytes), way, workers, seconds(elapsed), faults, out_of_turn);
}

Snapshot::Snapshot(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
Snapshot::Snapshot(Snapshot&&) noexcept = default;
Snapshot& Snapshot::operator=(Snapshot&&) noexcept = default;
Snapshot::~Snapshot() = default;

Result<Snapshot> Snapshot::create(std::span<const SnapshotRegion> regions) {
  return guarded([&]() -> Result<Snapshot> {
    GANTRY_ASSIGN(auto memory, snapshot::Memory::make({regions.begin(), regions.end()},
                                                      snapshot::Memory::Kind::shared));
    return Snapshot(std::make_shared<State>(std::move(memory)));
  });
}

Result<Snapshot> Snapshot::restore(const std::string& path, const RestoreOptions& options) {
  return guarded([&]() -> Result<Snapshot> {
    GANTRY_ASSIGN(Image image, Image::open(path));
    GANTRY_ASSIGN(auto checked, snapshot::read_tables(image));
    using Kind = snapshot::Memory::Kind;
    auto memory = snapshot::Memory::make(std::move(checked.regions),
                                         options.record ? Kind::shared : Kind::own);
    if (!memory)
      return fail(memory.error().code, fmt::format("{}: {}", path, memory.error().message),
                  memory.error().hint);
    Snapshot restored(std::make_shared<State>(std::move(*memory)));
    GANTRY_TRY(restored.state_->start(image, std::move(checked), options));
    return restored;
  });
}

std::span<const SnapshotRegion> Snapshot::regions() const noexcept {
  return state_->memory.regions();
}

Result<ByteSpan> Snapshot::region(std::string_view name) const {
  GANTRY_TRY(check_not_forked(state_->fork_guard, "region", name));
  return state_->memory.region(name);
}

Result<void> Snapshot::record(bool own_accesses_only) {
  return guarded([&] { return state_->record(own_accesses_only); });
}

Result<void> Snapshot::settled() {
  return guarded([&] { return state_->settled(); });
}

std::vector<std::uint64_t> Snapshot::touched() const {
  return state_->touched();
}

Result<ImageFacts> Snapshot::save(const std::string& path, const SaveOptions& options) const {
  return guarded([&]() -> Result<ImageFacts> {
    GANTRY_TRY(state_->prepare_save());
    return snapshot::save(path, state_->memory, options.touched.value_or(state_->touched()),
                          options.packing);
  });
}

Result<void> Snapshot::wait(Deadline deadline) const {
  return guarded([&] { return state_->wait(What::all, deadline); });
}

Result<void> Snapshot::wait_for_working_set(Deadline deadline) const {
  return guarded([&] { return state_->wait(What::working_set, deadline); });
}

std::optional<Error> Snapshot::error() const {
  if (!state_->fork_guard.is_this() || state_->loader == nullptr) return std::nullopt;
  return state_->loader->error();
}

RestoreReport Snapshot::report() const {
  return state_->report();
}

}  // namespace gantry
