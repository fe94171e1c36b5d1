#include "image/snapshot/tables.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/result.hpp"
#include "image/format.hpp"
#include "image/snapshot/memory.hpp"

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

}  // namespace gantry::snapshot
