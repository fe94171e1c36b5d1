#include "saved_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "../files.hpp"
#include "../weights.hpp"

namespace gantry::bench {
namespace {

constexpr std::uint64_t kPageSeed = 2222;
constexpr std::size_t kMostOfCluster = 16;

ConstByteSpan page_of(ConstByteSpan memory, std::uint64_t page) {
  return memory.subspan(page * kPage, kPage);
}

bool is_zero(ConstByteSpan page) {
  return std::ranges::all_of(page, [](std::byte byte) { return byte == std::byte{0}; });
}

Result<Descriptor> create_file(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.is_open()) return Unexpected(system_error(path));
  return file;
}

/// Writes pages one after the other.
Result<void> write_pages(int file, ConstByteSpan memory, std::span<const std::uint64_t> pages) {
  constexpr std::size_t kPagesAtOnce = 256;
  std::vector<std::byte> piece;
  for (; !pages.empty(); pages = pages.subspan(std::min(kPagesAtOnce, pages.size()))) {
    piece.clear();
    for (const std::uint64_t page : pages.first(std::min(kPagesAtOnce, pages.size())))
      piece.insert(piece.end(), page_of(memory, page).begin(), page_of(memory, page).end());
    if (auto written = write_all(file, piece); !written) return written;
  }
  return {};
}

/// Writes those pages where they lie in the memory.
Result<void> write_in_place(int file, ConstByteSpan memory, std::span<const std::uint64_t> pages) {
  for (std::size_t i = 0, end = 0; i < pages.size(); i = end) {
    for (end = i + 1; end < pages.size() && pages[end] == pages[end - 1] + 1;) ++end;
    const auto at = static_cast<off_t>(pages[i] * kPage);
    if (::lseek(file, at, SEEK_SET) != at) return Unexpected(system_error("lseek"));
    const auto run = memory.subspan(pages[i] * kPage, (end - i) * kPage);
    if (auto written = write_all(file, run); !written) return written;
  }
  return {};
}

}  // namespace

Result<SavedMemory> SavedMemory::make(const std::string& folder, const Contents& contents,
                                      const ContentOrder& order) {
  const auto made = contents.make(order);
  if (!made) return Unexpected(made.error());
  const ByteSpan region = made->region(kMemory).value();
  SavedMemory saved(folder);
  saved.bytes_ = (region.size() + kPage - 1) / kPage * kPage;  // the last page is all there
  const ConstByteSpan memory(region.data(), saved.bytes_);
  saved.choose_pages(memory);
  if (saved.working_set_.empty())
    return Unexpected({Code::invalid_argument, "it is all zeros", "take other memory"});
  for (const std::uint64_t page : saved.working_set_)
    saved.working_sum_ = continued_sum(saved.working_sum_, page_of(memory, page));
  saved.sum_ = continued_sum(0, memory);
  const std::array<std::pair<MemoryFile, ImageOptions>, 3> images{
      {{MemoryFile::plain_image, {}},
       {MemoryFile::image, {.codec = Codec::lz4}},
       {MemoryFile::small_image, {.codec = Codec::zstd, .level = 1}}}};
  for (const auto& [image, packing] : images)
    if (auto written = saved.save(*made, image, packing); !written)
      return Unexpected(written.error());
  if (auto written = saved.write_files(memory); !written)
    return Unexpected(of_file(folder, written.error()));
  return saved;
}

std::string SavedMemory::path(MemoryFile file) const {
  constexpr std::array kNames = {"memory.raw", "plain.gimg", "memory.gimg", "small.gimg",
                                 "working-set.raw"};
  return fmt::format("{}/{}", folder_, kNames.at(static_cast<std::size_t>(file)));
}

Result<void> SavedMemory::save(const Snapshot& memory, MemoryFile image,
                               const ImageOptions& packing) {
  const auto facts = memory.save(path(image), {.packing = packing, .touched = working_set_});
  if (!facts) return Unexpected(facts.error());
  image_bytes_[image] = facts->file_bytes;
  return {};
}

void SavedMemory::choose_pages(ConstByteSpan memory) {
  std::vector<std::uint64_t> pages;  // that are not zero
  for (std::uint64_t page = 0; page < memory.size() / kPage; ++page)
    if (!is_zero(page_of(memory, page))) pages.push_back(page);
  std::mt19937_64 random(kPageSeed);
  std::vector<bool> is_taken(pages.size());
  const std::size_t wanted = (pages.size() + 9) / 10;
  while (working_set_.size() < wanted) {
    const std::size_t from = random() % pages.size(), most = 1 + random() % kMostOfCluster;
    const std::size_t end =
        std::min({from + most, pages.size(), from + wanted - working_set_.size()});
    for (std::size_t i = from; i < end && !is_taken[i]; ++i) {
      is_taken[i] = true;
      working_set_.push_back(pages[i]);
    }
  }
  for (std::size_t i = 0; i < pages.size(); ++i)
    if (!is_taken[i]) rest_.push_back(pages[i]);
  std::ranges::shuffle(rest_, random);
}

Result<void> SavedMemory::write_files(ConstByteSpan memory) const {
  std::vector<std::uint64_t> pages(working_set_);
  pages.insert(pages.end(), rest_.begin(), rest_.end());
  std::ranges::sort(pages);
  const auto raw = create_file(path(MemoryFile::raw));
  if (!raw) return Unexpected(raw.error());
  if (::ftruncate(raw->get(), static_cast<off_t>(bytes_)) != 0)
    return Unexpected(system_error("ftruncate"));
  if (auto written = write_in_place(raw->get(), memory, pages); !written) return written;
  const auto set = create_file(path(MemoryFile::working_set));
  if (!set) return Unexpected(set.error());
  return write_pages(set->get(), memory, working_set_);
}

}  // namespace gantry::bench
