#include "device_batch.hpp"

#include <cstdio>
#include <fstream>
#include <gantry/pipeline.hpp>
#include <gantry/runtime.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "stage.hpp"
#include "tile_kernel.hpp"

namespace vision {
namespace {

using gantry::Deadline;
using gantry::Device;
using gantry::DeviceKind;
using gantry::MessageInfo;
using gantry::PipelineStageReport;
using gantry::StageCallbacks;
using DevicePointer = std::shared_ptr<Device>;

constexpr std::chrono::seconds kStallLimit{30};  // a frame takes milliseconds

auto fail(gantry::Code code, std::string message, std::string hint) {
  return tl::unexpected(gantry::Error{code, std::move(message), std::move(hint)});
}

// ---- which device --------------------------------------------------------------------------

/// Copies are work for nothing if the device computes in the host's memory with the host's CPUs:
/// `cpu` does the same without a driver in between.
bool is_worth_it(const Device& device) {
  return device.facts().kind == DeviceKind::cuda || !device.facts().unified_memory;
}

struct ChosenDevice {
  DevicePointer device;
  std::string reason;
};

Result<ChosenDevice> named_device(const gantry::Runtime& runtime, const std::string& name,
                                  std::string reason) {
  auto device = runtime.open_device(name);
  if (!device) return failed(device);
  return ChosenDevice{*std::move(device), "device: " + std::move(reason)};
}

Result<ChosenDevice> best_device(const gantry::Runtime& runtime) {
  const auto devices = runtime.devices();
  std::string missing;
  for (const std::string_view kind : {"cuda", "opencl"})
    for (const auto& found : devices) {
      if (!found.name.starts_with(kind)) continue;
      auto device = runtime.open_device(found.name);
      if (device && is_worth_it(**device))
        return ChosenDevice{*std::move(device), "device: the first with memory of its own"};
      missing += device ? "; " + found.name + ": computes in the host's memory, too"
                        : "; " + device.error().message;
    }
  return named_device(runtime, "cpu", "none has memory of its own" + missing);
}

Result<ChosenDevice> open_device(const std::string& name) {
  const auto runtime = gantry::Runtime::create();
  if (!runtime) return failed(runtime);
  return name == "auto" ? best_device(*runtime) : named_device(*runtime, name, "as asked for");
}

// ---- which kernel --------------------------------------------------------------------------

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (file && text) return text.str();
  return fail(gantry::Code::not_found, "kernel '" + path + "': it cannot be read",
              "name a file with OpenCL C or CUDA C++ in it");
}

Result<gantry::Kernel> build_kernel(Device& device, const std::string& path,
                                    gantry::DataType type) {
  auto source = tile_program(type);
  if (!path.empty()) {
    if (device.facts().kind == DeviceKind::cpu)
      return fail(gantry::Code::invalid_argument,
                  "kernel '" + path + "': the device cpu computes by a function of this program",
                  "name a device that compiles: --device opencl or --device cuda");
    auto text = read_text(path);
    if (!text) return failed(text);
    source.name = path;
    source.opencl.source = source.cuda.source = *text;
  }
  const auto program = device.build(source);
  if (!program) return failed(program);
  return program->kernel(kTileKernel);
}

// ---- frames --------------------------------------------------------------------------------

/// Received frames at their tiled size. Used by one thread at a time.
class Frames {
 public:
  explicit Frames(gantry::StageInput& input) : input_(input) {}

  /// Size of the next frame, which stays the next; `closed` after the last.
  Result<cv::Size> size(Deadline deadline) {
    if (!next_)
      if (auto read = this->read(deadline); !read) return failed(read);
    return size_;
  }
  /// Returns the next frame of that size; `closed` also if the next has another.
  Result<StageCallbacks::Received> take(cv::Size size, Deadline deadline) {
    const auto next = this->size(deadline);
    if (!next) return failed(next);
    if (*next != size) return fail(gantry::Code::closed, "frames of another size follow", "");
    return *std::exchange(next_, std::nullopt);
  }

 private:
  Result<void> read(Deadline deadline) {
    if (end_) return tl::unexpected(*end_);
    auto message = input_.receive(deadline);
    if (!message && message.error().code == gantry::Code::closed) end_ = message.error();
    if (!message) return failed(message);
    const auto held = std::make_shared<const gantry::Message>(*std::move(message));
    const auto frame = parse_frame(held->bytes());
    if (!frame) return failed(frame);
    const cv::Mat picture = fitted(picture_of(*frame));
    const auto pixels = std::as_bytes(std::span(picture.data, picture.total() * kChannels));
    gantry::KeepAlive keep = held;
    if (pixels.data() != frame->pixels.data())  // memory of its own: the message can go back
      keep = std::make_shared<const cv::Mat>(picture);
    auto info = held->info();
    info.user = frame->header.frame;
    next_ = StageCallbacks::Received{{pixels}, info, std::move(keep)};
    size_ = picture.size();
    return {};
  }

  gantry::StageInput& input_;
  cv::Size size_;
  std::optional<StageCallbacks::Received> next_;
  std::optional<gantry::Error> end_;  // there is nothing more to receive
};

StageCallbacks ends_of(Frames& frames, Batcher& batcher, cv::Size size) {
  return {.receive = [&frames, size](Deadline deadline) { return frames.take(size, deadline); },
          .place = [&batcher, size](const MessageInfo&, Bytes,
                                    Deadline deadline) -> Result<StageCallbacks::Destination> {
            auto room = batcher.room(size, deadline);
            if (!room) return failed(room);
            return StageCallbacks::Destination{room->tiles, room->memory};
          },
          .committed =
              [&batcher](const MessageInfo& info) {
                return batcher.take(static_cast<std::uint32_t>(info.user));
              },
          .places = Batcher::kRooms};
}

void add(PipelineStageReport& sum, const PipelineStageReport& part) {
  sum.messages += part.messages;
  sum.read_in_place += part.read_in_place;
  sum.written_in_place += part.written_in_place;
  sum.bytes_in += part.bytes_in;
  sum.bytes_out += part.bytes_out;
  sum.elapsed += part.elapsed;
  sum.copy_in += part.copy_in;
  sum.compute += part.compute;
  sum.copy_out += part.copy_out;
  sum.device = part.device;
  sum.depth = part.depth;
  sum.reasons = part.reasons;
}

/// Runs all frames: a run for each stretch of the same size.
Result<PipelineStageReport> run(Device& device, const gantry::Kernel& kernel, Frames& frames,
                                Batcher& batcher) {
  gantry::PipelineOptions options;
  options.stall_limit = kStallLimit;
  // In place where possible, in spite of the limit: if a kernel is given up this program ends.
  if (device.facts().in_place_alignment != 0) options.staging = gantry::Staging::shared;
  PipelineStageReport sum;
  for (;;) {
    const auto size = frames.size(Deadline::never());
    if (!size && size.error().code == gantry::Code::closed) return sum;
    if (!size) return failed(size);
    const TileTables tables(*size);
    const auto part = run_stage(device, tile_job(kernel, *size, tables, batcher.type()),
                                ends_of(frames, batcher, *size), options);
    if (!part) return failed(part);
    add(sum, *part);
  }
}

}  // namespace

Result<void> batch_on_device(gantry::StageInput& input, Batcher& batcher,
                             const DeviceBatchOptions& options) {
  const auto chosen = open_device(options.device);
  if (!chosen) return failed(chosen);
  const auto kernel = build_kernel(*chosen->device, options.kernel, batcher.type());
  if (!kernel) return failed(kernel);
  Frames frames(input);
  auto report = run(*chosen->device, *kernel, frames, batcher);
  if (!report) return failed(report);
  report->reasons.insert(report->reasons.begin(), chosen->reason);
  std::fprintf(stderr, "batch: %s", report->text().c_str());
  return {};
}

}  // namespace vision
