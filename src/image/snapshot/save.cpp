#include "image/snapshot/save.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "base/crc32c.hpp"
#include "base/result.hpp"
#include "image/snapshot/memory_reader.hpp"
#include "image/snapshot/tables.hpp"

namespace gantry::snapshot {
namespace {

constexpr std::uint64_t kPiecePages = 256;  // that are read at a time

bool is_zero(ConstByteSpan page) noexcept {
  static constexpr std::array<std::byte, kPageBytes> kZero{};
  return std::memcmp(page.data(), kZero.data(), kPageBytes) == 0;
}

/// What the pages held when they were first read.
class Contents {
 public:
  Contents(const Memory& memory, const MemoryReader& reader) : memory_(memory), reader_(reader) {}

  Result<void> read_all() {
    return each_made([&](std::uint64_t page, ConstByteSpan bytes) -> Result<void> {
      if (is_zero(bytes)) return {};
      if (runs_.empty() || runs_.back().page + runs_.back().pages != page)
        runs_.push_back({page, 0, crcs_.size()});
      ++runs_.back().pages;
      crcs_.push_back(crc32c(bytes));
      return {};
    });
  }

  /// Of pages that are not zero, but for those that are left out: page and pages.
  [[nodiscard]] std::vector<std::array<std::uint64_t, 2>> runs_without(
      const std::unordered_set<std::uint64_t>& out) const {
    std::vector<std::array<std::uint64_t, 2>> found;
    for (const Run& run : runs_)
      for (std::uint64_t page = run.page; page < run.page + run.pages; ++page) {
        if (out.contains(page)) continue;
        if (found.empty() || found.back()[0] + found.back()[1] != page) found.push_back({page, 0});
        ++found.back()[1];
      }
    return found;
  }

  /// Nothing: it was zero.
  [[nodiscard]] std::optional<std::uint32_t> crc_of(std::uint64_t page) const {
    const auto behind = std::ranges::upper_bound(runs_, page, {}, &Run::page);
    if (behind == runs_.begin()) return std::nullopt;
    const Run& run = *std::prev(behind);
    if (page - run.page >= run.pages) return std::nullopt;
    return crcs_[run.at + (page - run.page)];
  }

  Result<void> check(std::uint64_t page, ConstByteSpan bytes) const {
    const auto crc = crc_of(page);
    if (crc ? *crc == crc32c(bytes) : is_zero(bytes)) return {};
    return fail(Code::invalid_argument,
                fmt::format("{} was written while the snapshot was saved", memory_.name_of(page)),
                "save while nobody writes");
  }
  /// Those that were zero, which the image does not hold; all others are checked when they are
  /// written.
  Result<void> check_zeros() const {
    return each_made([&](std::uint64_t page, ConstByteSpan bytes) -> Result<void> {
      return is_zero(bytes) || crc_of(page) ? Result<void>{} : check(page, bytes);
    });
  }

 private:
  template <class Visit>
  Result<void> each_made(Visit visit) const {
    std::vector<std::byte> piece(kPiecePages * kPageBytes);
    MemoryReader::States states;
    for (std::uint64_t next = 0;;) {
      GANTRY_ASSIGN(const Run made, reader_.made_from(next, states));
      if (made.pages == 0) return {};
      next = made.page + made.pages;
      for (std::uint64_t done = 0; done < made.pages; done += kPiecePages) {
        const std::uint64_t pages = std::min(kPiecePages, made.pages - done);
        const ByteSpan bytes = ByteSpan(piece).first(pages * kPageBytes);
        GANTRY_TRY(reader_.read(made.page + done, bytes));
        for (std::uint64_t i = 0; i < pages; ++i)
          GANTRY_TRY(visit(made.page + done + i, bytes.subspan(i * kPageBytes, kPageBytes)));
      }
    }
  }

  const Memory& memory_;
  const MemoryReader& reader_;
  std::vector<Run> runs_;  // not zero; at: of the first one's CRC
  std::vector<std::uint32_t> crcs_;
};

Result<void> read_pages(const MemoryReader& reader, const Contents& contents,
                        const std::vector<Run>& runs, ByteSpan into) {
  for (const Run& run : runs) {
    const ByteSpan bytes = into.first(run.pages * kPageBytes);
    GANTRY_TRY(reader.read(run.page, bytes));
    for (std::uint64_t i = 0; i < run.pages; ++i)
      GANTRY_TRY(contents.check(run.page + i, bytes.subspan(i * kPageBytes, kPageBytes)));
    into = into.subspan(bytes.size());
  }
  return {};
}

std::vector<std::uint32_t> crcs_of(const Contents& contents, const Tables& tables) {
  std::vector<std::uint32_t> crcs;
  const auto add = [&](std::uint64_t page) { crcs.push_back(*contents.crc_of(page)); };
  for (const std::uint64_t page : tables.touched) add(page);
  for (const auto& [first, pages] : tables.runs)
    for (std::uint64_t page = first; page < first + pages; ++page) add(page);
  return crcs;
}

}  // namespace

Result<ImageFacts> save(const std::string& path, const Memory& memory,
                        const std::vector<std::uint64_t>& touched, const ImageOptions& packing) {
  const auto of_path = [&](const Error& error) {
    return fail(error.code, fmt::format("{}: {}", path, error.message), error.hint);
  };
  const auto reader = MemoryReader::make(memory);
  if (!reader) return of_path(reader.error());
  if (const auto fine = PageMap::make(memory.pages(), touched, {}); !fine)
    return of_path(fine.error());
  Contents contents(memory, *reader);
  GANTRY_TRY(contents.read_all());
  Tables tables{
      memory.regions(), touched, contents.runs_without({touched.begin(), touched.end()}), {}};
  std::erase_if(tables.touched, [&](std::uint64_t page) { return !contents.crc_of(page); });
  const auto map = PageMap::make(memory.pages(), tables.touched, tables.runs);
  if (!map) return of_path(map.error());
  tables.crcs = crcs_of(contents, tables);
  ImageOptions options = packing;
  options.frame_bytes = kGrainPages * kPageBytes;
  if (auto same = contents.check_zeros(); !same) return of_path(same.error());
  std::optional<Index> held;
  std::vector<std::byte> table;
  return write_image(path, tensors_of(tables), options,
                     [&](std::size_t tensor, Bytes from, ByteSpan into) -> Result<void> {
                       const auto index = static_cast<Index>(tensor);
                       if (index != Index::first && index != Index::rest) {
                         if (held != index) table = bytes_of(tables, index);
                         held = index;
                         std::memcpy(into.data(), table.data() + from, into.size());
                         return {};
                       }
                       const Part part = index == Index::first ? Part::first : Part::rest;
                       const auto runs =
                           map->runs_of(part, from / kPageBytes, into.size() / kPageBytes);
                       auto done = read_pages(*reader, contents, runs, into);
                       if (!done) return of_path(done.error());
                       return {};
                     });
}

}  // namespace gantry::snapshot
