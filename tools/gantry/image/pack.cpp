// gantry pack: tensors of files as one image.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "channel_view.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "image/codec_choice.hpp"
#include "image/image_view.hpp"
#include "image/pack_inputs.hpp"
#include "interrupt.hpp"
#include "options.hpp"
#include "tools/command_line/json_text.hpp"
#include "tools/command_line/output_file.hpp"
#include "tools/command_line/progress.hpp"

namespace gantry::cli {
namespace {

struct CodecChoice {
  bool by_rates = false;  ///< `codec` is decided when the tensors are known.
  std::optional<Codec> codec = Codec::none;
  int level = 0;
};

struct PackOptions {
  std::vector<std::string> paths;  ///< The last is the image.
  std::vector<FileTensor> described;
  CodecChoice codec;
  bool planes = false;
  unsigned split = 1;
  std::optional<DataType> as;
  bool as_json = false;
};

Result<CodecChoice> parse_codec(std::string_view text) {
  if (text == "auto") return CodecChoice{true, {}, 0};
  if (text == "smallest") return CodecChoice{false, std::nullopt, 0};
  const std::size_t colon = std::min(text.find(':'), text.size());
  CodecChoice choice;
  for (const Codec one : {Codec::none, Codec::lz4, Codec::zstd, Codec::deflate})
    if (to_string(one) == text.substr(0, colon)) {
      choice.codec = one;
      if (colon == text.size()) return choice;
      if (one == Codec::none) return refuse("none has no levels", "say none alone");
      const auto level = parse_number(text.substr(colon + 1), 1, 100);  // the codec knows its own
      if (!level)
        return refuse(fmt::format("'{}': its level is no whole number from 1 on", text),
                      "as in zstd:9");
      choice.level = static_cast<int>(*level);
      return choice;
    }
  return refuse(fmt::format("'{}' is no codec", text),
                "there are none, lz4, zstd[:LEVEL], deflate[:LEVEL], smallest and auto");
}

Result<std::optional<DataType>> parse_as(std::string_view text) {
  const auto type = parse_type(text);
  for (const DataType one :
       {types::f64, types::f32, types::f16, types::bf16, types::e4m3fn, types::e5m2})
    if (type && one == *type) return std::optional(one);
  return refuse(fmt::format("'{}' is no floating-point type", text),
                "there are f64, f32, f16, bf16, e4m3fn and e5m2");
}

Result<unsigned> parse_split(std::string_view text) {
  const auto number = parse_number(text, 1, 1u << 16);
  if (!number) return tl::unexpected(number.error());
  return static_cast<unsigned>(*number);
}

/// Errors: the image would replace one of the files that it is made of, or what is none.
Result<void> check_target(const std::string& to, const std::vector<FileTensor>& inputs) {
  const auto there = facts_of_file(to);
  if (!there) return {};  // what else has that name, write_image() says
  for (const FileTensor& one : inputs)
    if (one.file.device == there->device && one.file.inode == there->inode)
      return refuse(to + ": it is one of the files that are to be packed", "name another image");
  std::array<char, kImageMagic.size()> start{};  // of `gantry pack *.safetensors` the last would go
  std::ifstream file(to, std::ios::binary);
  file.read(start.data(), start.size());
  if (there->bytes == 0 || start == kImageMagic) return {};
  return refuse(to + ": it is there and is no image",
                "name the image last, or remove that file if it may go");
}

/// Errors: two tensors of one name, with the files that they are in.
Result<void> check_names(const std::vector<FileTensor>& inputs) {
  std::unordered_map<std::string_view, const FileTensor*> named;
  for (const FileTensor& one : inputs)
    if (const auto [other, is_new] = named.emplace(one.name, &one); !is_new)
      return refuse(fmt::format("tensor '{}' is in {} and in {}", printable(one.name),
                                other->second->path, one.path),
                    "names of an image differ: rename one, or pack two images");
  return {};
}

/// Whole tensors, in their order, so that partitions have about as many bytes each, and one at
/// least.
Result<void> split_into(std::vector<ImageTensor>& tensors, unsigned partitions) {
  if (partitions > tensors.size())
    return refuse(fmt::format("--split {}: there {} only {} tensor{}", partitions,
                              tensors.size() == 1 ? "is" : "are", tensors.size(),
                              tensors.size() == 1 ? "" : "s"),
                  "a partition has one tensor at least");
  Bytes all = 0;
  for (const ImageTensor& one : tensors) all += one.bytes;
  Bytes before = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const double middle = static_cast<double>(before) + static_cast<double>(tensors[i].bytes) / 2;
    const auto wanted = static_cast<unsigned>(
        all == 0 ? 0 : middle / static_cast<double>(all) * static_cast<double>(partitions));
    const std::size_t left = tensors.size() - i;
    const unsigned needed = left < partitions ? partitions - static_cast<unsigned>(left) : 0;
    const unsigned last = i == 0 ? 0 : tensors[i - 1].partition;
    const unsigned most = i == 0 ? 0 : std::min(last + 1, partitions - 1);
    tensors[i].partition = std::clamp(wanted, std::max(last, needed), most);
    before += tensors[i].bytes;
  }
  return {};
}

Result<void> read_unless(const Interrupt& interrupt, InputReader& reader, std::size_t index,
                         Bytes at, ByteSpan into) {
  if (interrupt.raised()) return refuse("interrupted", {}, Code::interrupted);
  return reader.read(index, at, into);
}

/// What write_image() says of the image that is to be, as an error of what it is made of: a tensor
/// is its file's, a level is an option's.
Error of_source(Error error, const std::string& to, const InputReader& reader) {
  for (const Codec one : {Codec::lz4, Codec::zstd, Codec::deflate})
    if (error.message.starts_with(fmt::format("{} has ", to_string(one))))
      error.message = "--codec: " + error.message;
  const std::string before = to + ": tensor ";  // and its index
  std::size_t index = 0;
  const char* const end = error.message.data() + error.message.size();
  if (!error.message.starts_with(before)) return error;
  const auto [rest, wrong] = std::from_chars(error.message.data() + before.size(), end, index);
  const auto path = reader.path_of(index);
  if (wrong == std::errc() && path)
    error.message = fmt::format("{}: tensor{}", *path, std::string_view(rest, end));
  return error;
}

Result<ImageFacts> pack(const PackOptions& options, const std::string& to,
                        const std::vector<std::string>& from, const Interrupt& interrupt) {
  auto inputs = gather_inputs(from, options.described);
  if (!inputs) return tl::unexpected(inputs.error());
  if (auto fine = check_target(to, *inputs); !fine) return tl::unexpected(fine.error());
  if (auto fine = check_names(*inputs); !fine) return tl::unexpected(fine.error());
  auto reader = InputReader::make(std::move(*inputs), options.as);
  if (!reader) return tl::unexpected(reader.error());
  auto tensors = reader->tensors();
  if (tensors.empty())
    return refuse(fmt::format("{}: there are no tensors in {}", fmt::join(from, ", "),
                              from.size() == 1 ? "it" : "them"),
                  "name *.safetensors, *.npy, other files, or folders that have some");
  if (auto done = split_into(tensors, options.split); !done) return tl::unexpected(done.error());
  Bytes all = 0, done = 0;
  for (const ImageTensor& one : tensors) all += one.bytes;
  CodecChoice codec = options.codec;
  if (codec.by_rates) {
    auto decided = decide_codec(to, tensors, [&](std::size_t index, Bytes at, ByteSpan into) {
      return read_unless(interrupt, *reader, index, at, into);
    });
    if (!decided) return tl::unexpected(of_source(decided.error(), partial_path(to), *reader));
    codec.codec = decided->codec;
    note(decided->why);
  }
  Progress progress("packing");
  const bool shows = !options.as_json || progress.is_drawn();
  return write_image(to, tensors, {codec.codec, codec.level, options.planes},
                     [&](std::size_t index, Bytes at, ByteSpan into) -> Result<void> {
                       if (shows)
                         progress.show(to, static_cast<double>(done) / static_cast<double>(all));
                       done += into.size();
                       return read_unless(interrupt, *reader, index, at, into);
                     })
      .map_error([&](Error error) { return of_source(std::move(error), to, *reader); });
}

Result<void> run_pack(const PackOptions& options) {
  auto interrupt = Interrupt::create();  // before any thread
  if (!interrupt) return tl::unexpected(interrupt.error());
  std::vector<std::string> from = options.paths;
  const std::string to = from.back();
  from.pop_back();
  const auto facts = pack(options, to, from, *interrupt);
  if (!facts) return tl::unexpected(facts.error());
  const auto image = Image::open(to);
  if (!image) return tl::unexpected(image.error());
  return print(options.as_json ? json_text(image_json(*image, false), 2) + "\n"
                               : image_facts(*image));
}

}  // namespace

void add_pack(const Command& command, int& exit_code) {
  auto options = std::make_shared<PackOptions>();
  command
      ->add_option("FILE", options->paths,
                   "What is packed: *.safetensors, *.safetensors.index.json, *.npy, other files, "
                   "folders of these; then the image, *.gimg")
      ->required()
      ->expected(2, -1);
  command
      ->add_functions(
          "--tensor",
          [options](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) {
              auto one = parse_tensor(text);
              if (!one) refuse_word("--tensor", to_string(one.error()));
              options->described.push_back(std::move(*one));
            }
          },
          "What a file that does not say so holds: NAME=TYPE[SHAPE], one behind the other "
          "(default: one tensor of bytes with the file's name)")
      ->type_name("TENSOR")
      ->repeated();
  add_parsed(*command, "--codec", options->codec, &parse_codec, "CODEC",
             "none, lz4, zstd[:LEVEL], deflate[:LEVEL], smallest or auto (default none)");
  command->add_flag("--planes", options->planes,
                    "Split numbers of 2 or 4 bytes into planes before they are packed");
  add_parsed(*command, "--split", options->split, &parse_split, "NUMBER",
             "Into so many partitions, a device each (default 1)");
  add_parsed(*command, "--as", options->as, &parse_as, "TYPE",
             "Convert floating-point numbers to this type");
  command->add_flag("--json", options->as_json, "One JSON document instead of a line");
  command->footer(
      "Hidden files and unfinished ones (*.partial-NUMBER) of a folder are left\n"
      "out. A chunk of 4 MiB that gains less than 5 % is stored as it is. smallest\n"
      "takes lz4 or zstd for each chunk, in planes if that helps, or none. auto is\n"
      "smallest if that loads quicker on this machine and disk, or none; it prints\n"
      "its choice, after a trial of both.\n"
      "Example: gantry pack model.safetensors model.gimg --codec auto\n"
      "Example: gantry pack w.bin w.gimg --tensor \"q=f32[2,3]\" --as bf16");
  command->callback([options, &exit_code] {
    const auto done = run_pack(*options);
    exit_code = done ? 0 : fail(done.error());
    if (!done && done.error().message.starts_with("--codec: ")) exit_code = kExitUsage;
  });
}

}  // namespace gantry::cli
