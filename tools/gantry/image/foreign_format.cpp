#include <fmt/format.h>

#include <algorithm>

#include "image/tensor_files.hpp"

namespace gantry::cli {
namespace {

constexpr Bytes kLookedAt = 512;
constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/";
constexpr std::string_view kZip = "PK\3\4";
constexpr Bytes kZipName = 30;  // where the name of the first file in an archive begins

struct Format {
  std::string_view what, mend;
};
constexpr Format kNpz{"an archive of arrays of NumPy (*.npz)",
                      "write an array a file: for k, a in numpy.load(FILE).items(): "
                      "numpy.save(k, a)"};
constexpr Format kTorch{"a checkpoint of PyTorch",
                        "write its tensors as safetensors: safetensors.torch.save_file("
                        "torch.load(FILE, weights_only=True), 'model.safetensors')"};
constexpr Format kGguf{"a model in GGUF",
                       "pack the *.safetensors that it was made from, or have transformers write "
                       "them: from_pretrained(FOLDER, gguf_file=FILE).save_pretrained(TO)"};

bool ends_in(const std::string& path, std::initializer_list<std::string_view> endings) {
  return std::ranges::any_of(endings, [&](std::string_view one) { return has_ending(path, one); });
}

/// By the first name in the archive: torch.save() writes NAME/data.pkl first.
const Format* zip_format(std::string_view start) {
  const auto low = [&](std::size_t at) {
    return std::size_t{static_cast<unsigned char>(start[at])};
  };
  if (!start.starts_with(kZip) || start.size() < kZipName) return nullptr;
  const std::string_view name = start.substr(kZipName, low(26) | low(27) << 8);
  if (name.ends_with(".npy")) return &kNpz;
  return name.ends_with("/data.pkl") ? &kTorch : nullptr;
}

const Format* format_of(const std::string& path, std::string_view start) {
  if (const Format* const by_zip = zip_format(start)) return by_zip;
  if (start.starts_with("GGUF") || ends_in(path, {".gguf"})) return &kGguf;
  if (ends_in(path, {".npz"})) return &kNpz;
  return ends_in(path, {".pt", ".pth", ".ckpt"}) ? &kTorch : nullptr;
}

}  // namespace

Result<void> check_is_no_pointer(const std::string& path) {
  const auto start = read_part(path, 0, kPointer.size());
  if (!start || *start != kPointer) return {};  // what cannot be read is said when it is
  return refuse(path + ": it is a pointer of git-lfs, not the file that it stands for",
                "fetch that in its repository: git lfs pull");
}

std::optional<Error> foreign_format(const std::string& path) {
  const auto start = read_part(path, 0, kLookedAt);
  const Format* const format = format_of(path, start ? *start : std::string());
  if (format == nullptr) return std::nullopt;
  return Error{Code::invalid_argument,
               fmt::format("{}: it is {}, whose tensors are not read", path, format->what),
               std::string(format->mend)};
}

}  // namespace gantry::cli
