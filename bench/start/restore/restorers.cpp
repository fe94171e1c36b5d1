#include "restorers.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <chrono>
#include <optional>
#include <thread>

#include "../../support/report/series.hpp"
#include "../../support/system/mapping.hpp"
#include "../files.hpp"
#include "../starts.hpp"
#include "../weights.hpp"

namespace gantry::bench {
namespace {

/// Has all pages in one mapping.
class MappedRestorer : public Restorer {
 public:
  MappedRestorer(const SavedMemory& saved, const DirectReads&) : saved_(saved) {}
  const std::byte* working_page(std::size_t index) const override {
    return memory().data() + saved_.working_set()[index] * kPage;
  }

 protected:
  const SavedMemory& saved_;
};

class GantryRestorer : public MappedRestorer {
 public:
  GantryRestorer(const SavedMemory& saved, MemoryFile image)
      : MappedRestorer(saved, {}), image_(image) {}

  Result<void> begin() override {
    auto io = best_file_io();
    if (!io) return Unexpected(io.error());
    const RestoreOptions options{
        .lazy = Lazy::require, .own_accesses_only = true, .file_io = *std::move(io)};
    auto restored = Snapshot::restore(saved_.path(image_), options);
    if (!restored) return Unexpected(restored.error());
    snapshot_.emplace(*std::move(restored));
    auto region = snapshot_->region(kMemory);
    if (!region) return Unexpected(region.error());
    memory_ = {region->data(), saved_.bytes()};
    return {};
  }
  Result<void> finish() override { return snapshot_->wait(); }
  ConstByteSpan memory() const override { return memory_; }
  std::string chosen() const override {
    const RestoreReport report = snapshot_->report();
    return fmt::format("{} faults and {} reads out of turn until then, {} workers, {}",
                       report.faults, report.out_of_turn, report.workers, report.way);
  }

 private:
  MemoryFile image_;
  std::optional<Snapshot> snapshot_;
  ConstByteSpan memory_;
};

template <MemoryFile image>
class ImageRestorer final : public GantryRestorer {
 public:
  ImageRestorer(const SavedMemory& saved, const DirectReads&) : GantryRestorer(saved, image) {}
};

/// The raw file mapped: the kernel reads what is touched, and some of what lies around.
class OnDemandRestorer final : public MappedRestorer {
 public:
  using MappedRestorer::MappedRestorer;

  Result<void> begin() override {
    const auto file = open_to_read(saved_.path(MemoryFile::raw));
    if (!file) return Unexpected(file.error());
    auto mapping = Mapping::private_of_file(file->get(), saved_.bytes());
    if (!mapping) return Unexpected(mapping.error());
    mapping_ = *std::move(mapping);
    return {};
  }
  ConstByteSpan memory() const override { return mapping_.bytes(); }

 private:
  Mapping mapping_;
};

/// The working set by O_DIRECT into one fresh buffer.
class WorkingSetReader final : public Restorer {
 public:
  WorkingSetReader(const SavedMemory& saved, const DirectReads& reads)
      : saved_(saved), reads_(reads) {}

  Result<void> begin() override {
    auto memory = fresh_memory(saved_.working_set_bytes());
    if (!memory) return Unexpected(memory.error());
    memory_ = *std::move(memory);
    return read_directly(saved_.path(MemoryFile::working_set), reads_,
                         {memory_.data(), saved_.working_set_bytes()});
  }
  const std::byte* working_page(std::size_t index) const override {
    return memory_.data() + index * kPage;
  }

 private:
  const SavedMemory& saved_;
  const DirectReads reads_;
  Region memory_;
};

template <class Made>
std::unique_ptr<Restorer> make_restorer(const SavedMemory& saved, const DirectReads& reads) {
  return std::make_unique<Made>(saved, reads);
}

Error other_bytes(std::string_view what) {
  return {Code::peer_misbehaved, fmt::format("{} has other bytes than were saved", what), {}};
}

/// Whether touching it waits, as far as the kernel tells.
Result<bool> is_there(const std::byte* page) {
  unsigned char facts = 0;
  if (::mincore(const_cast<std::byte*>(page), kPage, &facts) != 0)
    return Unexpected(system_error("mincore"));
  return (facts & 1) != 0;
}

}  // namespace

std::vector<RestorerKind> restorer_kinds() {
  using enum MemoryFile;
  return {{kRestore, make_restorer<ImageRestorer<image>>, image},
          {kRestoreSmall, make_restorer<ImageRestorer<small_image>>, small_image},
          {kOnDemand, make_restorer<OnDemandRestorer>, raw},
          {kReap, make_reap, working_set, true},
          {kReapOverlapped, make_overlapped_reap, working_set, true},
          {kDirect, make_restorer<WorkingSetReader>, working_set, true, true}};
}

std::vector<RestorerKind> restores_from_images() {
  using enum MemoryFile;
  return {{kRestore, make_restorer<ImageRestorer<plain_image>>, plain_image},
          {kRestore, make_restorer<ImageRestorer<image>>, image},
          {kRestore, make_restorer<ImageRestorer<small_image>>, small_image}};
}

Result<void> touch_working_set(const Restorer& restorer, const SavedMemory& saved) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < saved.working_set().size(); ++i)
    sum = continued_sum(sum, {restorer.working_page(i), kPage});
  if (sum != saved.working_sum()) return Unexpected(other_bytes("the working set"));
  return {};
}

Result<void> read_everything(const Restorer& restorer, const SavedMemory& saved) {
  const ConstByteSpan memory = restorer.memory();
  if (memory.size() == saved.bytes() && continued_sum(0, memory) == saved.sum()) return {};
  return Unexpected(other_bytes("the memory"));
}

Result<std::vector<double>> touch_rest(const Restorer& restorer, const SavedMemory& saved) {
  constexpr std::size_t kMostTouches = 500;
  constexpr std::chrono::microseconds kPause{500};
  std::vector<double> times;
  for (const std::uint64_t page : saved.rest()) {
    const std::byte* const at = restorer.memory().data() + page * kPage;
    const auto there = is_there(at);
    if (!there) return Unexpected(there.error());
    if (*there) continue;
    const auto begin = Stopwatch::Clock::now();
    static_cast<void>(*static_cast<const volatile std::byte*>(at));
    times.push_back(Stopwatch::ns(Stopwatch::Clock::now() - begin));
    if (times.size() == kMostTouches) break;
    std::this_thread::sleep_for(kPause);
  }
  return times;
}

}  // namespace gantry::bench
