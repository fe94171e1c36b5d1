#include "image/pack_inputs.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <filesystem>
#include <map>
#include <set>

#include "errors.hpp"
#include "tools/command_line/output_file.hpp"

namespace gantry::cli {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kSafetensors = ".safetensors";
constexpr std::string_view kIndex = ".safetensors.index.json";

class Gatherer {
 public:
  explicit Gatherer(std::vector<FileTensor> described)
      : described_(std::make_move_iterator(described.begin()),
                   std::make_move_iterator(described.end())) {}

  Result<void> add(const std::string& path) {
    std::error_code unknown;
    return fs::is_directory(path, unknown) ? add_folder(path) : add_file(path, false);
  }

  Result<std::vector<FileTensor>> all() {
    if (described_.empty()) return std::move(tensors_);
    return refuse(
        fmt::format("--tensor {}: there are no bytes left for it", described_.front().name),
        "name the file that has them");
  }

 private:
  Result<void> add_file(const std::string& path, bool is_in_folder) {
    if (auto fine = check_is_no_pointer(path); !fine) return fine;
    if (has_ending(path, kIndex)) return take(read_safetensors_index(path));
    if (has_ending(path, kSafetensors)) return take(read_safetensors(path));
    if (!has_ending(path, ".npy")) return add_bytes(path, is_in_folder);
    auto tensor = read_npy(path);
    if (!tensor) return tl::unexpected(tensor.error());
    tensors_.push_back(std::move(*tensor));
    return {};
  }

  Result<void> take(Result<std::vector<FileTensor>> found) {
    if (!found) return tl::unexpected(found.error());
    std::ranges::move(*found, std::back_inserter(tensors_));
    return {};
  }

  // What is left out is told at the end: an index may name a hidden file.
  Result<void> add_folder(const std::string& path) {
    std::set<std::string> files;
    std::map<std::string, std::string_view> left_out;  // and why
    std::error_code why;
    for (fs::directory_iterator entry(path, why); !why && entry != fs::directory_iterator();
         entry.increment(why)) {
      const std::string name = entry->path().filename().string();
      if (name.starts_with('.')) {
        left_out.emplace(entry->path().string(), "a hidden file");
        continue;
      }
      if (is_partial(name)) {
        left_out.emplace(entry->path().string(), "by its name it was not finished");
        continue;
      }
      if (entry->is_directory())
        return refuse(entry->path().string() + ": a folder in a folder is not packed",
                      "name its files");
      files.insert(entry->path().string());
    }
    if (why) return refuse(fmt::format("{}: {}", path, why.message()), {}, Code::system);
    const auto has_index =
        std::ranges::any_of(files, [](const auto& file) { return has_ending(file, kIndex); });
    for (const std::string& file : files) {
      if (has_index && has_ending(file, kSafetensors))
        left_out.emplace(file, "the index does not name it");
      else if (auto added = add_file(file, true); !added)
        return added;
    }
    for (const FileTensor& tensor : tensors_) left_out.erase(tensor.path);
    for (const auto& [file, reason] : left_out) note(fmt::format("{}: left out: {}", file, reason));
    return {};
  }

  Result<void> add_bytes(const std::string& path, bool is_in_folder) {
    const auto file = facts_of_file(path);
    if (!file) return tl::unexpected(file.error());
    if (described_.empty() || is_in_folder) {
      if (const auto foreign = foreign_format(path)) {
        if (!is_in_folder) return tl::unexpected(*foreign);
        note(fmt::format("{}; packed as bytes; {}", foreign->message, foreign->hint));
      }
      const auto count = static_cast<std::int64_t>(file->bytes);
      tensors_.push_back({fs::path(path).filename().string(), Tensor::dense(types::u8, {&count, 1}),
                          path, *file, 0, file->bytes});
      return {};
    }
    for (Bytes at = 0; at < file->bytes;) {
      if (described_.empty())
        return refuse(fmt::format("{}: {} bytes follow the tensors that --tensor names", path,
                                  file->bytes - at),
                      "name them, too");
      FileTensor one = std::move(described_.front());
      described_.pop_front();
      if (one.bytes > file->bytes - at)
        return refuse(fmt::format("{}: --tensor {} has {} bytes; {} are left", path, one.name,
                                  one.bytes, file->bytes - at));
      one.path = path;
      one.file = *file;
      one.offset = at;
      at += one.bytes;
      tensors_.push_back(std::move(one));
    }
    return {};
  }

  std::deque<FileTensor> described_;
  std::vector<FileTensor> tensors_;
};

bool is_float(DataType type) noexcept {
  switch (type.code) {
    case DataType::floating:
    case DataType::bfloat:
    case DataType::e4m3fn:
    case DataType::e5m2:
      return type.lanes == 1;
    default:
      return false;
  }
}

}  // namespace

Result<std::vector<FileTensor>> gather_inputs(const std::vector<std::string>& paths,
                                              std::vector<FileTensor> described) {
  Gatherer gatherer(std::move(described));
  for (const std::string& path : paths)
    if (auto added = gatherer.add(path); !added) return tl::unexpected(added.error());
  return gatherer.all();
}

struct InputReader::Impl {
  std::vector<FileTensor> inputs;
  std::vector<DataType> becomes;
  std::vector<std::optional<ReshapePlan>> plans;
  std::string open_path;
  int file = -1;  // one at a time: there may be more than can be open
  std::vector<std::byte> unconverted;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { close(); }
  void close() noexcept {
    if (file >= 0) ::close(std::exchange(file, -1));
  }

  Result<void> plan(const FileTensor& input, std::optional<DataType> as) {
    const bool converts = as && is_float(input.tensor.type) && *as != input.tensor.type;
    becomes.push_back(converts ? *as : input.tensor.type);
    plans.emplace_back();
    if (!converts || input.bytes == 0) return {};
    std::int64_t count = 1;
    for (unsigned i = 0; i < input.tensor.dimensions; ++i) count *= input.tensor.shape[i];
    auto made = ReshapePlan::make(*as, Tensor::dense(input.tensor.type, {&count, 1}));
    if (!made) return tl::unexpected(made.error());
    plans.back() = std::move(*made);
    return {};
  }

  Result<void> check(const FileTensor& input) const {
    const auto now = facts_of_file(file, input.path);
    if (!now) return tl::unexpected(now.error());
    if (*now == input.file) return {};
    return refuse(input.path + ": it was changed or replaced meanwhile",
                  "pack it when it is finished", Code::system);
  }

  Result<void> read_file(const FileTensor& input, Bytes from, ByteSpan into) {
    if (open_path != input.path || file < 0) {
      close();
      file = ::open(input.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
      if (file < 0) return tl::unexpected(system_error(input.path, errno));
      open_path = input.path;
    }
    for (Bytes at = input.offset + from; !into.empty();) {
      const ssize_t got = ::pread(file, into.data(), into.size(), static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return tl::unexpected(system_error(input.path, errno));
      if (got == 0) return refuse(input.path + ": it was cut off meanwhile", {}, Code::system);
      at += static_cast<Bytes>(got);
      into = into.subspan(static_cast<Bytes>(got));
    }
    return check(input);
  }
};

InputReader::InputReader(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
InputReader::InputReader(InputReader&&) noexcept = default;
InputReader& InputReader::operator=(InputReader&&) noexcept = default;
InputReader::~InputReader() = default;

Result<InputReader> InputReader::make(std::vector<FileTensor> inputs, std::optional<DataType> as) {
  auto impl = std::make_unique<Impl>();
  for (const FileTensor& input : inputs)
    if (auto done = impl->plan(input, as); !done) return tl::unexpected(done.error());
  impl->inputs = std::move(inputs);
  return InputReader(std::move(impl));
}

std::vector<ImageTensor> InputReader::tensors() const {
  std::vector<ImageTensor> tensors;
  for (std::size_t i = 0; i < impl_->inputs.size(); ++i) {
    ImageTensor one{impl_->inputs[i].name, impl_->inputs[i].tensor, 0, 0, 0};
    one.tensor.type = impl_->becomes[i];
    one.bytes = dense_bytes(one.tensor).value_or(0);  // what is none is refused by write_image()
    tensors.push_back(std::move(one));
  }
  return tensors;
}

std::optional<std::string> InputReader::path_of(std::size_t tensor) const {
  if (tensor >= impl_->inputs.size()) return std::nullopt;
  return impl_->inputs[tensor].path;
}

Result<void> InputReader::read(std::size_t tensor, Bytes from, ByteSpan into) {
  const FileTensor& input = impl_->inputs[tensor];
  const std::optional<ReshapePlan>& plan = impl_->plans[tensor];
  if (!plan) return impl_->read_file(input, from, into);
  const ByteRange needed = plan->source_of({from, into.size()});
  impl_->unconverted.resize(needed.bytes);
  if (auto done = impl_->read_file(input, needed.from, impl_->unconverted); !done) return done;
  if (plan->convert(into, impl_->unconverted, from, needed.from)) return {};
  return refuse(
      fmt::format("{}: bytes {} of '{}' cannot be converted", input.path, from, input.name));
}

}  // namespace gantry::cli
