#include "keeping.hpp"

#include <fmt/format.h>

#include <fstream>
#include <gantry/image.hpp>

#include "../support/report/series.hpp"

namespace gantry::bench {
namespace {

constexpr const char* kName = "weights";  // there is one keeper at a time in its folder

/// Maps what the keeper has.
class AttachLoader final : public Loader {
 public:
  AttachLoader(const Weights& weights, const DirectReads&) : weights_(weights) {}

  Result<void> load() override {
    auto image = attach_image(kName, {EndOptions{.directory = weights_.folder()}});
    if (!image) return Unexpected(image.error());
    image_.emplace(*std::move(image));
    for (const WeightTensor& tensor : weights_.tensors()) {
      auto attached = image_->tensor(tensor.name);
      if (!attached) return Unexpected(attached.error());
      tensors_.push_back(*std::move(attached));
    }
    return {};
  }
  void drop() override {
    tensors_.clear();
    image_.reset();
  }
  ConstByteSpan tensor(std::size_t index) const override { return tensors_[index].bytes; }

 private:
  const Weights& weights_;
  std::optional<AttachedImage> image_;
  std::vector<LoadedTensor> tensors_;
};

void keep(Link& link, const LoaderKind& kind, const Weights& weights, unsigned sharers) {
  KeepOptions options;
  options.directory = weights.folder();
  options.interrupt_descriptor = link.descriptor();  // until somebody commands
  options.pages = *kind.kept;
  auto keeper = ImageKeeper::open({{kName, weights.path(kind.file)}}, options);
  std::optional<Stopwatch> watch;
  if (keeper) {
    const auto served = keeper->serve([&](const KeptImage& image) {
      watch.emplace();
      link.send(image.is_there ? Answer{} : Answer::failure(image.trouble));
    });
    if (served.error().code != Code::interrupted) keeper = Unexpected(served.error());
  }
  if (!keeper) link.send(Answer::failure(to_string(keeper.error())));
  while (keeper && watch && link.receive<Command>()) {
    const Spent spent = watch->spent();
    Answer answer;
    answer.kind = Answer::Kind::measured;
    answer.cpu_ns = spent.caller_ns + spent.helper_ns;
    answer.peak_bytes = memory_share(sharers);
    link.send(answer);
  }
}

}  // namespace

Role keeper_role(const std::string& name, const LoaderKind& kind, const Weights& weights,
                 unsigned sharers) {
  return {name, kAnyCpu,
          [&weights, kind, sharers](Link& link) { keep(link, kind, weights, sharers); }};
}

double memory_share(unsigned sharers) {
  std::ifstream in("/proc/self/smaps_rollup");
  double bytes = 0;
  for (std::string word; in >> word;) {
    const bool is_shared = word == "Shared_Hugetlb:";
    double kib = 0;
    if ((is_shared || word == "Pss:" || word == "Private_Hugetlb:") && in >> kib)
      bytes += kib * 1024 / (is_shared ? sharers : 1);
  }
  return bytes;
}

std::string lack_of_huge_pages(Bytes bytes) {
  constexpr Bytes kPage = Bytes{2} << 20;
  constexpr Bytes kBeside = 8;  // tables, borders, and slabs of the pool that are begun
  const Bytes needed = (bytes + kPage - 1) / kPage + kBeside;
  Bytes total = 0, free = 0;
  for (const HugePageFacts& facts : probe_machine().huge_pages)
    if (facts.page_bytes == kPage) total = facts.total, free = facts.free;
  if (free >= needed) return {};
  return fmt::format(
      "it needs {} huge pages of 2 MiB, {} are free; sysctl vm.nr_hugepages={} reserves them",
      needed, free, total - free + needed);
}

std::vector<LoaderKind> attach_kinds() {
  return {{kAttach, WeightFile::plain, false, make_loader<AttachLoader>, PageKind::plain},
          {kAttachHuge, WeightFile::plain, false, make_loader<AttachLoader>, PageKind::hugetlb}};
}

}  // namespace gantry::bench
