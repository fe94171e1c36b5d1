// batch: frames into batches of normalised tiles.
#include <utility>

#include "device_batch.hpp"
#include "stage.hpp"

namespace vision {
namespace {

constexpr Program kProgram{
    "batch", "[--type TYPE] [--device NAME] [--kernel FILE]",
    "Cuts each frame of the input 'frames' into 4 x 4 tiles of 224 x 224, and sends them\n"
    "normalised, as NCHW, 256 at a time, to the output 'batches'.\n"
    "  --type TYPE    of the values: f32, which is also taken without this option, or bf16\n"
    "  --device NAME  by way of a device: cpu, opencl, cuda (gantry doctor lists them), or auto,\n"
    "                 the best of them; none, which is also what is done without this option: by\n"
    "                 one plan a tile, in this thread\n"
    "  --kernel FILE  the device's kernel, in OpenCL C or CUDA C++, in place of the built-in one",
    0, 6};

constexpr const char* kNoDevice = "none";

struct Options {
  DeviceBatchOptions device{.device = kNoDevice, .kernel = {}};
  gantry::DataType type = gantry::types::f32;
};

auto refuse(const std::string& what) {
  return tl::unexpected(gantry::Error{gantry::Code::invalid_argument, what, "see batch --help"});
}

Result<gantry::DataType> parse_value_type(const std::string& text) {
  const auto type = gantry::parse_type(text);
  if (type && (*type == gantry::types::f32 || *type == gantry::types::bf16)) return *type;
  return refuse("--type " + text + ": neither f32 nor bf16");
}

Result<Options> parse(Arguments arguments) {
  Options options;
  for (; !arguments.empty(); arguments = arguments.subspan(2)) {
    const std::string name = arguments[0];
    if (name != "--type" && name != "--device" && name != "--kernel")
      return refuse(name + ": no such option");
    if (arguments.size() < 2) return refuse(name + ": it says nothing");
    if (name == "--type") {
      const auto type = parse_value_type(arguments[1]);
      if (!type) return failed(type);
      options.type = *type;
      continue;
    }
    (name == "--device" ? options.device.device : options.device.kernel) = arguments[1];
  }
  if (options.device.device == kNoDevice && !options.device.kernel.empty())
    return refuse("--kernel: there is no device to run it");
  return options;
}

Result<void> batch_here(gantry::StageInput& input, Batcher& batcher) {
  TileCutter cutter;
  return for_each_message(input, [&](const gantry::Message& message) -> Result<void> {
    const auto frame = parse_frame(message.bytes());
    if (!frame) return failed(frame);
    const cv::Mat picture = fitted(picture_of(*frame));
    if (picture.size() != cutter.size()) {
      auto made = TileCutter::make(picture.size(), batcher.type());
      if (!made) return failed(made);
      cutter = *std::move(made);
    }
    const auto room = batcher.room(picture.size());
    if (!room) return failed(room);
    cutter.cut(picture, room->tiles);
    return batcher.take(frame->header.frame);
  });
}

Result<void> run(const Options& options) {
  auto input = gantry::stage_input("frames");
  if (!input) return failed(input);
  auto output = gantry::stage_output("batches");
  if (!output) return failed(output);
  Batcher batcher(std::move(*output), options.type);
  const auto done = options.device.device == kNoDevice
                        ? batch_here(*input, batcher)
                        : batch_on_device(*input, batcher, options.device);
  return done ? batcher.close() : done;
}

}  // namespace
}  // namespace vision

int main(int argc, char** argv) {
  return vision::stage_main(vision::kProgram, argc, argv, vision::parse, vision::run);
}
