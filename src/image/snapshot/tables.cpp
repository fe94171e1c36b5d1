#include "image/snapshot/tables.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <unordered_set>
#include <utility>

#include "core/base/crc32c.hpp"
#include "core/base/text_lines.hpp"
#include "image/tables.hpp"

namespace gantry::snapshot {
namespace {

constexpr std::array<std::string_view, kTensors> kNames{"snapshot", "sizes", "names", "touched",
                                                        "runs",     "crcs",  "first", "rest"};

constexpr DataType kU64{DataType::unsigned_int, 64, 1};
constexpr DataType kU32{DataType::unsigned_int, 32, 1};

constexpr Bytes kHugePage = Bytes{2} << 20;  // or less, where they are larger: then it is none

constexpr std::size_t of(Index index) noexcept {
  return static_cast<std::size_t>(index);
}

template <class Thing>
std::vector<std::byte> copy_of(std::span<const Thing> things) {
  const auto bytes = std::as_bytes(things);
  return {bytes.begin(), bytes.end()};
}

// Reads tensors whose names, types and partitions are compared.
class Reader {
 public:
  explicit Reader(Image& image) : image_(image) {}

  Result<Checked> all() {
    GANTRY_TRY(check_tensors());
    GANTRY_TRY(check_sizes());
    GANTRY_TRY(read());
    constexpr std::array kWanted{kVersion, kPageBytes};
    if (!std::ranges::equal(table<std::uint64_t>(Index::snapshot), kWanted))
      return bad("it is of another version, or has pages of another size");
    std::vector<SnapshotRegion> regions;
    GANTRY_TRY(read_regions(regions));
    const auto pages = count_pages(regions);
    if (!pages) return bad(pages.error().message);
    auto map = PageMap::make(*pages, table<std::uint64_t>(Index::touched),
                             table<PageMap::PageRun>(Index::runs));
    if (!map) return bad(map.error().message);
    if (map->pages_of(Part::rest) != bytes(Index::rest) / kPageBytes)
      return bad(fmt::format("{} pages are in its runs; it has {}", map->pages_of(Part::rest),
                             bytes(Index::rest) / kPageBytes));
    const auto crcs = table<std::uint32_t>(Index::crcs);
    return Checked{std::move(regions), std::move(tables_), std::move(*map), crcs};
  }

 private:
  // Before anything is read, so that it is known how much that may be.
  Result<void> check_sizes() const {
    if (bytes(Index::sizes) > kMostRegions * sizeof(std::uint64_t) ||
        bytes(Index::names) > kMostRegions * (kMostNameBytes + 1))
      return bad("it has more than 65536 regions");
    if (bytes(Index::touched) / sizeof(std::uint64_t) != bytes(Index::first) / kPageBytes)
      return bad("its working set has not as many pages as are touched");
    if (bytes(Index::runs) / sizeof(PageMap::PageRun) > bytes(Index::rest) / kPageBytes)
      return bad("it has more runs of pages than pages");
    if (bytes(Index::crcs) / sizeof(std::uint32_t) !=
        (bytes(Index::first) + bytes(Index::rest)) / kPageBytes)
      return bad("it has not as many CRCs as pages");
    return {};
  }

  tl::unexpected<Error> bad(std::string_view why) const {
    return fail(Code::invalid_argument, fmt::format("{}: snapshot: {}", image_.path(), why),
                "save it anew");
  }
  [[nodiscard]] Bytes bytes(Index index) const { return image_.tensors()[of(index)].bytes; }

  // Shapes follow from sizes and types, but for the one dimension that is free.
  Result<void> check_tensors() const {
    const auto tensors = image_.tensors();
    if (tensors.size() != kTensors || tensors[0].name != kNames[0])
      return fail(Code::invalid_argument, image_.path() + ": it is no snapshot",
                  "Snapshot::save() makes one");
    for (std::size_t i = 0; i < kTensors; ++i) {
      const ImageTensor expected = expect(static_cast<Index>(i), tensors[i]);
      const auto shape = std::span(tensors[i].tensor.shape).first(tensors[i].tensor.dimensions);
      const auto wanted = std::span(expected.tensor.shape).first(expected.tensor.dimensions);
      if (tensors[i].name != expected.name || tensors[i].partition != expected.partition ||
          !(tensors[i].tensor.type == expected.tensor.type) ||
          !std::equal(shape.begin(), shape.end(), wanted.begin(), wanted.end()))
        return bad(fmt::format("tensor {} is not what it has to be", i));
    }
    return {};
  }
  static ImageTensor expect(Index index, const ImageTensor& found);

  // At once. Of huge pages few have to be made, which else takes longer than all the rest.
  Result<void> read() {
    const Bytes all = image_.partitions()[0].bytes;
    GANTRY_ASSIGN(tables_, take_memory({}, image::up_to(all, kHugePage)));
    tables_.bytes = tables_.bytes.first(all);
    return image_.read(0, 0, tables_.bytes);
  }
  static_assert(kImageTensorBorder % alignof(std::uint64_t) == 0);
  template <class Entry>
  [[nodiscard]] std::span<const Entry> table(Index index) const {
    const std::byte* const at = tables_.bytes.data() + image_.tensors()[of(index)].offset;
    return {reinterpret_cast<const Entry*>(at), bytes(index) / sizeof(Entry)};
  }

  Result<void> read_regions(std::vector<SnapshotRegion>& regions) {
    const auto sizes = table<std::uint64_t>(Index::sizes);
    const auto names = table<char>(Index::names);
    std::string_view rest(names.data(), names.size());
    for (const std::uint64_t size : sizes) {
      const std::size_t end = rest.find('\0');
      if (end == std::string_view::npos) return bad("it has fewer names than sizes of regions");
      regions.push_back({std::string(rest.substr(0, end)), size});
      rest.remove_prefix(end + 1);
    }
    if (!rest.empty()) return bad("it has more names than sizes of regions");
    return {};
  }

  Image& image_;
  LoadMemory tables_;
};

ImageTensor tensor(Index index, std::int64_t count) {
  ImageTensor one;
  one.name = kNames[of(index)];
  const std::array<std::int64_t, 2> pairs{count, 2};
  const std::array<std::int64_t, 2> pages{count, static_cast<std::int64_t>(kPageBytes)};
  const bool is_page = index == Index::first || index == Index::rest;
  if (is_page) one.partition = partition_of(index == Index::first ? Part::first : Part::rest);
  if (index == Index::runs)
    one.tensor = Tensor::dense(kU64, pairs);
  else if (is_page)
    one.tensor = Tensor::dense(types::u8, pages);
  else
    one.tensor = Tensor::dense(index == Index::names  ? types::u8
                               : index == Index::crcs ? kU32
                                                      : kU64,
                               std::span(&count, 1));
  return one;
}

ImageTensor Reader::expect(Index index, const ImageTensor& found) {
  return tensor(index, index == Index::snapshot ? 2 : found.tensor.shape[0]);
}

}  // namespace

std::vector<ImageTensor> tensors_of(const Tables& tables) {
  Bytes names = 0;
  for (const SnapshotRegion& region : tables.regions) names += region.name.size() + 1;
  std::uint64_t rest = 0;
  for (const auto& [page, pages] : tables.runs) rest += pages;
  const std::array<std::uint64_t, kTensors> counts{2,
                                                   tables.regions.size(),
                                                   names,
                                                   tables.touched.size(),
                                                   tables.runs.size(),
                                                   tables.touched.size() + rest,
                                                   tables.touched.size(),
                                                   rest};
  std::vector<ImageTensor> tensors;
  for (std::size_t i = 0; i < kTensors; ++i)
    tensors.push_back(tensor(static_cast<Index>(i), static_cast<std::int64_t>(counts[i])));
  return tensors;
}

std::vector<std::byte> bytes_of(const Tables& tables, Index index) {
  if (index == Index::snapshot) {
    const std::array<std::uint64_t, 2> version{kVersion, kPageBytes};
    return copy_of<std::uint64_t>(version);
  }
  if (index == Index::touched) return copy_of<std::uint64_t>(tables.touched);
  if (index == Index::runs) return copy_of<std::array<std::uint64_t, 2>>(tables.runs);
  if (index == Index::crcs) return copy_of<std::uint32_t>(tables.crcs);
  std::vector<std::uint64_t> sizes;
  std::string names;
  for (const SnapshotRegion& region : tables.regions) {
    sizes.push_back(region.bytes);
    names.append(region.name).push_back('\0');
  }
  return index == Index::sizes ? copy_of<std::uint64_t>(sizes) : copy_of<char>(names);
}

Result<Checked> read_tables(Image& image) {
  return Reader(image).all();
}

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
  const auto of_path = [&](const Error& error) { return prefixed(error, "{}", path); };
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
