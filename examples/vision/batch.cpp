// batch: frames into batches of normalised tiles.
#include <utility>

#include "device_batch.hpp"
#include "stage.hpp"

namespace vision {
namespace {

constexpr Program kProgram{
    "batch", "[--device NAME] [--kernel FILE]",
    "Cuts each frame of the input 'frames' into 4 x 4 tiles of 224 x 224, and sends them\n"
    "normalised, as fp32 NCHW, 256 at a time, to the output 'batches'.\n"
    "  --device NAME  by way of a device: cpu, opencl, cuda (gantry doctor lists them), or auto,\n"
    "                 the best of them; none, which is also what is done without this option: by\n"
    "                 this program's own loop\n"
    "  --kernel FILE  the device's kernel, in OpenCL C or CUDA C++, in place of the built-in one",
    0, 4};

constexpr const char* kNoDevice = "none";

struct Options {
  DeviceBatchOptions device{.device = kNoDevice, .kernel = {}};
};

auto refuse(const std::string& what) {
  return tl::unexpected(gantry::Error{gantry::Code::invalid_argument, what, "see batch --help"});
}

Result<Options> parse(Arguments arguments) {
  Options options;
  for (; !arguments.empty(); arguments = arguments.subspan(2)) {
    const std::string name = arguments[0];
    if (name != "--device" && name != "--kernel") return refuse(name + ": no such option");
    if (arguments.size() < 2) return refuse(name + ": it says nothing");
    (name == "--device" ? options.device.device : options.device.kernel) = arguments[1];
  }
  if (options.device.device == kNoDevice && !options.device.kernel.empty())
    return refuse("--kernel: there is no device to run it");
  return options;
}

Result<void> batch_here(gantry::StageInput& input, Batcher& batcher) {
  return for_each_message(input, [&](const gantry::Message& message) -> Result<void> {
    const auto frame = parse_frame(message.bytes());
    if (!frame) return failed(frame);
    const Planes planes(picture_of(*frame));
    const auto room = batcher.room(planes.size());
    if (!room) return failed(room);
    auto* tile = room->tiles.data();
    for (const auto& place : tile_grid(frame->header.frame, planes.size())) {
      planes.write_tile(place, tile);
      tile += kTileValues;
    }
    return batcher.take(frame->header.frame);
  });
}

Result<void> run(const Options& options) {
  auto input = gantry::stage_input("frames");
  if (!input) return failed(input);
  auto output = gantry::stage_output("batches");
  if (!output) return failed(output);
  Batcher batcher(std::move(*output));
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
