#include <sys/epoll.h>

#include <condition_variable>
#include <gantry/snapshot.hpp>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "core/base/event.hpp"
#include "core/base/os/disown.hpp"
#include "core/base/os/fork_error.hpp"
#include "core/base/os/thread_urgency.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/base/text_lines.hpp"
#include "image/snapshot/page_loader.hpp"
#include "image/snapshot/tables.hpp"

namespace gantry::snapshot {

/// The thread that answers accesses to pages that are not mapped, and records them. Goes on until
/// everything is there and nothing is recorded; after an error, until it goes.
class FaultWatch {
 public:
  /// Watches the memory from now on; nobody is answered before start().
  [[nodiscard]] static Result<std::unique_ptr<FaultWatch>> make(FaultSource faults,
                                                                const Memory& memory,
                                                                bool records) {
    GANTRY_ASSIGN(Fd wake, make_event());
    Fd both(::epoll_create1(EPOLL_CLOEXEC));
    if (!both) return fail_errno("epoll_create1");
    for (const int one : {faults.descriptor(), wake.get()}) {
      epoll_event event{.events = EPOLLIN, .data = {}};
      if (::epoll_ctl(both.get(), EPOLL_CTL_ADD, one, &event) != 0) return fail_errno("epoll_ctl");
    }
    std::unique_ptr<FaultWatch> watch(
        new FaultWatch(std::move(faults), std::move(wake), std::move(both), records));
    GANTRY_TRY(watch->faults_.watch(memory));
    return watch;
  }

  ~FaultWatch() {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    ring(wake_.get());
    if (thread_.joinable()) thread_.join();
    faults_.ignore();
  }

  FaultWatch(const FaultWatch&) = delete;
  FaultWatch& operator=(const FaultWatch&) = delete;

  /// `loader`: null if everything is there. It outlives the watch.
  [[nodiscard]] Result<void> start(PageLoader* loader) {
    loader_ = loader;
    const StartsUrgent urgent;
    GANTRY_ASSIGN(thread_, start_thread("a thread that answers faults", [this] {
                    ::pthread_setname_np(::pthread_self(), "gantry-faults");
                    run();
                  }));
    return {};
  }

  [[nodiscard]] FaultSource& faults() noexcept { return faults_; }
  /// An event to ring when the loader has everything.
  [[nodiscard]] int over() const noexcept { return wake_.get(); }
  void settle() {
    {
      const std::lock_guard lock(mutex_);
      records_ = false;
    }
    ring(wake_.get());
  }

  /// All is there: waits until nothing is watched any more, unless it is recorded.
  void wait_until_over() {
    std::unique_lock lock(mutex_);
    while (!is_over_ && !records_) ended_.wait(lock);
  }
  [[nodiscard]] std::vector<std::uint64_t> touched() {
    const std::lock_guard lock(mutex_);
    return touched_;
  }
  [[nodiscard]] std::size_t count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  FaultWatch(FaultSource faults, Fd wake, Fd both, bool records)
      : faults_(std::move(faults)),
        wake_(std::move(wake)),
        both_(std::move(both)),
        records_(records) {}

  void run() {
    std::array<Bytes, FaultSource::kMostTaken> touched;
    while (goes_on()) {
      epoll_event event{};
      if (::epoll_wait(both_.get(), &event, 1, -1) < 0) continue;  // EINTR
      drain(wake_.get());
      for (const Bytes at : faults_.take(touched)) {
        auto answered = guarded([&] { return answer(at / kPageBytes); });
        if (answered) continue;
        if (loader_ != nullptr) loader_->end(std::move(answered).error());
        faults_.poison(at, kPageBytes);
      }
    }
    const std::lock_guard lock(mutex_);
    if (!stops_) faults_.ignore();  // else when nobody makes pages any more
    is_over_ = true;
    ended_.notify_all();
  }

  /// Errors: no page could be made.
  [[nodiscard]] Result<void> answer(std::uint64_t page) {
    record(page);
    const bool is_there = loader_ == nullptr || faults_.was_dropped(page);
    const auto answer = is_there ? PageLoader::Answer::map : loader_->touched(page);
    if (answer == PageLoader::Answer::map) return faults_.answer_map(page);
    if (answer == PageLoader::Answer::never) faults_.poison(page * kPageBytes, kPageBytes);
    return {};
  }

  /// Where there is no memory for that it is not recorded.
  void record(std::uint64_t page) noexcept {
    const std::lock_guard lock(mutex_);
    ++count_;
    static_cast<void>(guarded([&]() -> Result<void> {
      if (records_ && known_.insert(page).second) touched_.push_back(page);
      return {};
    }));
  }

  [[nodiscard]] bool goes_on() {
    const std::lock_guard lock(mutex_);
    return !stops_ && (records_ || (loader_ != nullptr && !loader_->is_whole()));
  }

  FaultSource faults_;
  Fd wake_;
  Fd both_;  // an epoll of them: poll() wants a limit of two open files at least
  PageLoader* loader_ = nullptr;
  std::thread thread_;

  std::mutex mutex_;
  bool records_;
  std::condition_variable ended_;
  bool is_over_ = false;
  bool stops_ = false;
  std::size_t count_ = 0;
  std::unordered_set<std::uint64_t> known_;
  std::vector<std::uint64_t> touched_;  // in their order
};

}  // namespace gantry::snapshot

namespace gantry {

struct GANTRY_LOCAL Snapshot::State {
  explicit State(snapshot::Memory made) noexcept : memory(std::move(made)) {}
  // Nobody makes pages any more, then nobody answers, then the memory goes. A fork's copy has none
  // of it: something else may be where the memory was, locks may be held and conditions waited for.
  ~State() {
    if (!fork_guard.is_this()) {
      memory.forget_mapping();
      disown(std::move(loader));
      disown(std::move(watch_));
      return;
    }
    if (loader != nullptr) loader->stop();
    watch_.reset();
  }

  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Begins to load.
  [[nodiscard]] Result<void> start(const Image& image, snapshot::Checked tables,
                                   const RestoreOptions& options) {
    loader = std::make_unique<snapshot::PageLoader>(image, memory, std::move(tables), options);
    has_recorded_ = options.record;
    Result<snapshot::FaultSource> faults = fail(Code::unsupported, "all was to be loaded first");
    if (options.lazy != Lazy::no || options.record)
      faults = snapshot::FaultSource::open(options.own_accesses_only);
    if (!faults && (options.lazy == Lazy::require || options.record))
      return prefixed(faults.error(), "{}", image.path());
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

  [[nodiscard]] Result<void> record(bool own_accesses_only) {
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

  [[nodiscard]] Result<void> settled() {
    if (!fork_guard.is_this()) return belongs_to_parent("a snapshot");
    const std::lock_guard lock(mutex_);
    if (watch_ == nullptr) return {};
    watch_->settle();
    if (is_whole()) end_watch();
    return {};
  }

  /// Waits until everything is there, and watches own memory no more.
  // Whoever touches zeros by way of the kernel gets EFAULT while only own accesses are answered.
  [[nodiscard]] Result<void> prepare_save() {
    GANTRY_TRY(wait(snapshot::PageLoader::What::all, Deadline::never()));
    const std::lock_guard lock(mutex_);
    if (memory.kind() == snapshot::Memory::Kind::own) end_watch();
    return {};
  }

  [[nodiscard]] std::vector<std::uint64_t> touched() {
    if (!fork_guard.is_this()) return {};
    const std::lock_guard lock(mutex_);
    if (has_recorded_ || loader == nullptr) return watch_ != nullptr ? watch_->touched() : touched_;
    return {loader->working_set().begin(), loader->working_set().end()};
  }

  [[nodiscard]] RestoreReport report() {
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

  /// Errors: what ended the loading; `invalid_argument` in a child of fork().
  [[nodiscard]] Result<void> wait(snapshot::PageLoader::What what, Deadline deadline) const {
    if (!fork_guard.is_this()) return belongs_to_parent("a snapshot");
    if (loader == nullptr) return {};
    GANTRY_TRY(loader->wait(what, deadline));
    if (!loader->is_whole()) return {};
    // Else a system call on zeros would get EFAULT until the watching ends.
    const std::lock_guard lock(mutex_);
    if (watch_ != nullptr) watch_->wait_until_over();
    return {};
  }

  snapshot::Memory memory;
  const ForkGuard fork_guard;
  std::unique_ptr<snapshot::PageLoader> loader;  // null: it was made here

 private:
  [[nodiscard]] bool is_whole() const { return loader == nullptr || loader->is_whole(); }
  // Everything is there, and no worker uses the watch any more.
  void end_watch() {
    if (loader != nullptr) loader->stop();
    if (watch_ == nullptr) return;
    touched_ = watch_->touched();
    faults_ += watch_->count();
    watch_.reset();
  }

  std::string why_not_lazy_;
  mutable std::mutex mutex_;  // of all below
  std::unique_ptr<snapshot::FaultWatch> watch_;
  bool has_recorded_ = false;           // or does
  std::vector<std::uint64_t> touched_;  // when no watch has them
  std::size_t faults_ = 0;              // of watches that are gone
};

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
    if (!memory) return prefixed(memory.error(), "{}", path);
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
