#include "image/snapshot/snapshot_state.hpp"

#include "base/disown.hpp"
#include "base/fork_error.hpp"
#include "base/result.hpp"

namespace gantry {

// Nobody makes pages any more, then nobody answers, then the memory goes. A fork's copy has none of
// it: something else may be where the memory was, locks may be held and conditions waited for.
Snapshot::State::~State() {
  if (!fork_guard.is_this()) {
    memory.forget_mapping();
    disown(std::move(loader));
    disown(std::move(watch_));
    return;
  }
  if (loader != nullptr) loader->stop();
  watch_.reset();
}

Result<void> Snapshot::State::start(const Image& image, snapshot::Checked tables,
                                    const RestoreOptions& options) {
  loader = std::make_unique<snapshot::PageLoader>(image, memory, std::move(tables), options);
  has_recorded_ = options.record;
  Result<snapshot::FaultSource> faults = fail(Code::unsupported, "all was to be loaded first");
  if (options.lazy != Lazy::no || options.record)
    faults = snapshot::FaultSource::open(options.own_accesses_only);
  if (!faults && (options.lazy == Lazy::require || options.record))
    return fail(faults.error().code, fmt::format("{}: {}", image.path(), faults.error().message),
                faults.error().hint);
  if (!faults || options.lazy == Lazy::no)
    why_not_lazy_ = faults ? "all was to be loaded first" : faults.error().message;
  if (!faults) {
    GANTRY_TRY(memory.open());
    GANTRY_TRY(loader->start(image, nullptr, -1));
    return loader->wait(snapshot::PageLoader::What::all, Deadline::never());
  }
  GANTRY_ASSIGN(watch_, snapshot::FaultWatch::make(std::move(*faults), memory, options.record));
  GANTRY_TRY(memory.open());
  GANTRY_TRY(watch_->start(loader.get()));
  GANTRY_TRY(loader->start(image, &watch_->faults(), watch_->over()));
  if (options.lazy == Lazy::no)
    return loader->wait(snapshot::PageLoader::What::all, Deadline::never());
  return {};
}

// Everything is there, and no worker uses the watch any more.
void Snapshot::State::end_watch() {
  if (loader != nullptr) loader->stop();
  if (watch_ == nullptr) return;
  touched_ = watch_->touched();
  faults_ += watch_->count();
  watch_.reset();
}

Result<void> Snapshot::State::record(bool own_accesses_only) {
  if (!fork_guard.is_this()) return belongs_to_parent("a snapshot");
  if (memory.kind() == snapshot::Memory::Kind::own)
    return fail(Code::invalid_argument,
                "recording what was restored without RestoreOptions::record: the kernel says of "
                "shared memory only who touches what is there",
                "restore it with RestoreOptions::record");
  if (!is_whole()) {
    if (const auto error = loader->error()) return tl::unexpected(*error);
    return fail(Code::invalid_argument, "recording while a snapshot is loading",
                "wait for it, or restore it with RestoreOptions::record");
  }
  GANTRY_ASSIGN(auto faults, snapshot::FaultSource::open(own_accesses_only));
  const std::lock_guard lock(mutex_);
  end_watch();
  touched_.clear();
  has_recorded_ = true;
  GANTRY_ASSIGN(auto watch, snapshot::FaultWatch::make(std::move(faults), memory, true));
  GANTRY_TRY(watch->start(nullptr));
  GANTRY_TRY(memory.unmap_pages());  // for which the kernel waits until the watch knows of it
  watch_ = std::move(watch);
  return {};
}

Result<void> Snapshot::State::settled() {
  if (!fork_guard.is_this()) return belongs_to_parent("a snapshot");
  const std::lock_guard lock(mutex_);
  if (watch_ == nullptr) return {};
  watch_->settle();
  if (is_whole()) end_watch();
  return {};
}

// Whoever touches zeros by way of the kernel gets EFAULT while only own accesses are answered.
Result<void> Snapshot::State::prepare_save() {
  GANTRY_TRY(wait(snapshot::PageLoader::What::all, Deadline::never()));
  const std::lock_guard lock(mutex_);
  if (memory.kind() == snapshot::Memory::Kind::own) end_watch();
  return {};
}

std::vector<std::uint64_t> Snapshot::State::touched() {
  if (!fork_guard.is_this()) return {};
  const std::lock_guard lock(mutex_);
  if (has_recorded_ || loader == nullptr) return watch_ != nullptr ? watch_->touched() : touched_;
  return {loader->working_set().begin(), loader->working_set().end()};
}

RestoreReport Snapshot::State::report() {
  RestoreReport report;
  if (!fork_guard.is_this()) return report;
  const std::lock_guard lock(mutex_);
  report.bytes = memory.mapped().size();
  report.is_lazy = loader != nullptr && why_not_lazy_.empty();
  report.why_not_lazy = why_not_lazy_;
  report.faults = faults_ + (watch_ != nullptr ? watch_->count() : 0);
  if (loader != nullptr) loader->add_to(report);
  return report;
}

Result<void> Snapshot::State::wait(snapshot::PageLoader::What what, Deadline deadline) const {
  if (!fork_guard.is_this()) return belongs_to_parent("a snapshot");
  if (loader == nullptr) return {};
  GANTRY_TRY(loader->wait(what, deadline));
  if (!loader->is_whole()) return {};
  // Else a system call on zeros would get EFAULT until the watching ends.
  const std::lock_guard lock(mutex_);
  if (watch_ != nullptr) watch_->wait_until_over();
  return {};
}

}  // namespace gantry
