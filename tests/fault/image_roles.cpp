#include "fault/image_roles.hpp"

#include <fmt/format.h>

#include <gantry/runtime.hpp>
#include <thread>

#include "image/snapshot/test_snapshot.hpp"

namespace gantry::fault {
namespace {

using test::Data;
constexpr std::chrono::seconds kPatience{20};

std::shared_ptr<FileIo> file_io(unsigned seed) {
  auto made = make_file_io(seed % 2 == 0 ? "io_uring" : "pread");
  return made ? *made : nullptr;
}

ImageOptions packing(unsigned seed) {
  constexpr std::array<std::optional<Codec>, 4> codecs{Codec::none, Codec::lz4, Codec::zstd,
                                                       std::nullopt};
  return {.codec = codecs[seed % codecs.size()], .level = 0, .planes = seed % 3 == 0};
}

template <class T>
std::string trouble_of(const Result<T>& result) {
  return result ? std::string() : to_string(result.error());
}

using test::same;

Data bytes_of(const Heap& heap) {
  Data bytes(heap.pages * test::kPageBytes);
  test::fill(bytes, heap.seed);
  return bytes;
}

std::string compare(const test::Content& content, const AttachedImage& image) {
  for (std::size_t i = 0; i < content.tensors.size(); ++i) {
    const auto tensor = image.tensor(content.tensors[i].name);
    if (!tensor) return to_string(tensor.error());
    if (!same(tensor->bytes, content.data[i])) return content.tensors[i].name + ": a byte is wrong";
  }
  return {};
}

// Pages in an order of its own, beside others; whole ones, so that none is left out.
bool touch(ConstByteSpan memory, const Data& wanted, unsigned seed) {
  const std::uint64_t pages = wanted.size() / test::kPageBytes;
  for (const std::uint64_t page : test::some_pages(pages, pages, seed)) {
    const Bytes at = page * test::kPageBytes;
    const auto one = memory.subspan(at, test::kPageBytes);
    if (!same(one, ConstByteSpan(wanted).subspan(at, test::kPageBytes))) return false;
  }
  return true;
}

}  // namespace

test::Content content_of(unsigned number) {
  constexpr std::array<std::int64_t, 6> sizes{700, 30'000, 90'000, 200'000, 350'000, 2'300'000};
  test::Content content;
  content.add(test::tensor("first", types::bf16, {sizes[number % sizes.size()]}));
  content.add(test::tensor("second.weight", types::f32, {5, 1 + number * 997}));
  content.add(test::tensor("nothing", types::u8, {0}));
  content.add(test::tensor("third", types::u8, {3 + number}, 1));
  for (auto& bytes : content.data)
    for (std::byte& one : bytes) one ^= std::byte(number);
  return content;
}

std::string pack(const test::Content& content, const std::string& path, unsigned seed) {
  return trouble_of(content.pack(path, packing(seed)));
}

std::string load(const test::Content& content, const std::string& path, unsigned seed) {
  const auto image = Image::open(path);
  if (!image) return to_string(image.error());
  LoadOptions options;
  options.file_io = file_io(seed);
  options.workers = 1 + seed % 3;
  options.deadline = Deadline::after(kPatience);
  options.first = {content.tensors[seed % content.tensors.size()].name};
  auto loading = load_image(*image, options);
  if (!loading) return to_string(loading.error());
  for (const std::uint64_t i :
       test::some_pages(content.tensors.size(), content.tensors.size(), seed)) {
    const auto tensor = loading->wait(content.tensors[i].name);
    if (!tensor) return to_string(tensor.error());
    if (!same(tensor->bytes, content.data[i])) return content.tensors[i].name + ": a byte is wrong";
  }
  return trouble_of(loading->wait());
}

std::string save(const Heap& heap, const std::string& path, unsigned seed) {
  const std::vector<SnapshotRegion> regions{{"heap", heap.pages * test::kPageBytes}};
  const auto made = Snapshot::create(regions);
  if (!made) return to_string(made.error());
  test::fill(must(made->region("heap")), heap.seed);
  SaveOptions options{.packing = packing(seed)};
  options.touched = test::some_pages(heap.pages, heap.pages / 4, seed);
  return trouble_of(made->save(path, options));
}

std::string restore(const Heap& heap, const std::string& path, unsigned seed) {
  const Data wanted = bytes_of(heap);
  RestoreOptions options;
  options.own_accesses_only = true;
  options.record = seed % 4 == 0;
  options.file_io = file_io(seed);
  options.workers = 1 + seed % 2;
  options.deadline = Deadline::after(kPatience);
  auto restored = Snapshot::restore(path, options);
  if (!restored && options.record) {  // that may need rights
    options.record = false;
    restored = Snapshot::restore(path, options);
  }
  if (!restored) return to_string(restored.error());
  const ConstByteSpan memory = must(restored->region("heap"));
  std::atomic<int> wrong{0};
  {
    const auto visit = [&](unsigned order) {
      if (!touch(memory, wanted, order)) ++wrong;
    };
    const std::jthread beside(visit, seed + 1);
    visit(seed);
  }
  if (wrong != 0) return "a byte is wrong";
  return trouble_of(restored->wait());
}

std::string keep(const std::string& path, const std::string& directory, unsigned seed,
                 const Talk& talk) {
  KeepOptions options;
  options.directory = directory;
  options.file_io = file_io(seed);
  options.workers = 1 + seed % 2;
  options.interrupt_descriptor = talk.heard();
  auto keeper = ImageKeeper::open({{kKeptName, path}}, options);
  if (!keeper) return to_string(keeper.error());
  std::string trouble;
  const auto ended = keeper->serve([&](const KeptImage& image) {
    if (!image.trouble.empty()) trouble = image.trouble;
  });
  return ended.error().code == Code::interrupted ? trouble : to_string(ended.error());
}

std::string attach(const test::Content& content, const std::string& directory, const Talk& talk) {
  ConsumerOptions options;
  options.directory = directory;
  const auto image = attach_image(kKeptName, options, Deadline::after(kPatience));
  if (!image) return to_string(image.error());
  if (auto trouble = compare(content, *image); !trouble.empty()) return trouble;
  talk.tell();
  talk.hear();
  return compare(content, *image);
}

std::string differs(const test::Content& content, const std::string& path) {
  auto image = Image::open(path);
  if (!image) return to_string(image.error());
  if (const auto fine = image->verify(); !fine) return to_string(fine.error());
  if (image->tensors().size() != content.tensors.size()) return path + ": other tensors";
  for (std::size_t i = 0; i < content.tensors.size(); ++i) {
    const ImageTensor* const tensor = image->find(content.tensors[i].name);
    if (tensor == nullptr || tensor->bytes != content.data[i].size())
      return fmt::format("{}: '{}' is another", path, content.tensors[i].name);
    Data bytes(tensor->bytes);
    if (const auto read = image->read(*tensor, bytes); !read) return to_string(read.error());
    if (bytes != content.data[i])
      return fmt::format("{}: '{}': a byte is wrong", path, tensor->name);
  }
  return {};
}

std::string differs(const Heap& heap, const std::string& path) {
  const auto restored = Snapshot::restore(path, {.lazy = Lazy::no});
  if (!restored) return to_string(restored.error());
  const auto memory = restored->region("heap");
  if (!memory) return to_string(memory.error());
  return same(*memory, bytes_of(heap)) ? std::string() : path + ": a byte is wrong";
}

}  // namespace gantry::fault
